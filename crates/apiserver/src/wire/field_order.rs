//! The order in which Go's decoder reports the fields of a JSON text. *(pure)*

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON text whose fields are reported in its order. Empty for other bodies, whose fields are
/// reported in alphabetical order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldOrder(Bytes);

/// The reports, and when Go's decoder makes each.
struct Reports<'r> {
    /// The path of the current value.
    path: String,
    /// `None` until the decoder makes the report.
    ranks: HashMap<&'r str, Option<usize>>,
    made: usize,
}

/// Reads one value, and notes the reports that it causes.
struct Walk<'w, 'r>(&'w mut Reports<'r>);

// === impl FieldOrder ===

impl FieldOrder {
    /// Creates the order of `body`, whose media type without parameters is `essence`.
    pub(crate) fn of(essence: &str, body: &Bytes) -> Self {
        match essence {
            "" | "application/json" => Self(body.clone()),
            _ => Self::default(),
        }
    }

    /// Sorts reports about unknown and duplicate fields. The decoder reports an unknown field when it
    /// reads its name, and a duplicate field when it reads its name again.
    pub(crate) fn sort(&self, reports: &mut [String]) {
        if self.0.is_empty() || reports.len() < 2 {
            return;
        }
        let mut made = Reports {
            path: String::new(),
            ranks: reports.iter().map(|it| (it.as_str(), None)).collect(),
            made: 0,
        };
        let mut deserializer = serde_json::Deserializer::from_slice(&self.0);
        // The body was decoded before.
        _ = Walk(&mut made).deserialize(&mut deserializer);
        let ranks: HashMap<String, usize> = (made.ranks.into_iter())
            .filter_map(|(report, rank)| Some((report.to_owned(), rank?)))
            .collect();
        reports.sort_by_key(|report| ranks.get(report).copied().unwrap_or(usize::MAX));
    }
}

// === impl Reports ===

impl Reports<'_> {
    /// Notes that the decoder may report the current path now.
    fn reach(&mut self, is_duplicate: bool) {
        let what = if is_duplicate { "duplicate" } else { "unknown" };
        let report = format!("{what} field {:?}", self.path);
        if let Some(rank @ None) = self.ranks.get_mut(report.as_str()) {
            *rank = Some(self.made);
            self.made += 1;
        }
    }
}

// === impl Walk ===

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let end = self.0.path.len();
        for index in 0.. {
            _ = write!(self.0.path, "[{index}]");
            let item = items.next_element_seed(Walk(self.0))?;
            self.0.path.truncate(end);
            if item.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let end = self.0.path.len();
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if end > 0 {
                self.0.path.push('.');
            }
            self.0.path.push_str(&name);
            self.0.reach(!names.insert(name));
            members.next_value_seed(Walk(self.0))?;
            self.0.path.truncate(end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::FieldOrder;

    fn sorted<const N: usize>(
        essence: &str,
        body: &'static str,
        reports: [&str; N],
    ) -> Vec<String> {
        let mut reports = reports.map(str::to_owned).to_vec();
        FieldOrder::of(essence, &Bytes::from_static(body.as_bytes())).sort(&mut reports);
        reports
    }

    const BODY: &str = r#"{"z":1,"data":{"a":1,"b":[{"y":0,"x":1,"x":2}],"a":3},"a":1,"z":2}"#;

    #[test]
    fn fields_of_json_are_reported_in_its_order() {
        let reports = [
            r#"duplicate field "z""#,
            r#"unknown field "a""#,
            r#"duplicate field "data.a""#,
            r#"unknown field "data.b[0].y""#,
            "not of the body",
            r#"duplicate field "data.b[0].x""#,
            r#"unknown field "z""#,
        ];
        let order = [6, 3, 5, 2, 1, 0, 4].map(|at| reports[at]);
        for essence in ["", "application/json"] {
            assert_eq!(sorted(essence, BODY, reports), order);
        }
        assert_eq!(sorted("application/yaml", BODY, reports), reports);
    }
}
