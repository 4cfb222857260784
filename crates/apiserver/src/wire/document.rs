//! Documents as values, and their duplicate members. *(pure)*

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// The maximum size of the paths of all duplicate members, in bytes. Further ones are not reported.
pub(super) const MAX_DUPLICATES: usize = 64 * 1024;

/// A document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// The value; of members with the same name, it has the last one.
    pub(crate) value: Value,
    /// The messages about duplicate members: for JSON, the path of each, such as
    /// `spec.containers[0].image`; for YAML, one text with their lines.
    pub(crate) duplicates: Vec<String>,
}

/// Deserializes a value, and collects its duplicate members.
#[derive(Clone, Copy)]
struct Reader<'a> {
    duplicates: &'a RefCell<Duplicates>,
}

/// The paths of duplicate members, relative to the current value.
#[derive(Default)]
struct Duplicates {
    paths: Vec<String>,
    /// The length of all paths.
    bytes: usize,
}

// === impl Document ===

impl Document {
    /// Parses one JSON document.
    ///
    /// # Errors
    ///
    /// The syntax error.
    pub(crate) fn from_json(body: &[u8]) -> Result<Self, serde_json::Error> {
        // One check of the whole text for UTF-8 is faster than one for each string.
        match str::from_utf8(body) {
            Ok(text) => Self::from_deserializer(serde_json::Deserializer::from_str(text)),
            Err(_) => Self::from_deserializer(serde_json::Deserializer::from_slice(body)),
        }
    }

    fn from_deserializer<'de>(
        mut deserializer: serde_json::Deserializer<impl serde_json::de::Read<'de>>,
    ) -> Result<Self, serde_json::Error> {
        let document = Self::read(&mut deserializer)?;
        deserializer.end()?;
        Ok(document)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duplicates = RefCell::default();
        let reader = Reader {
            duplicates: &duplicates,
        };
        let value = reader.deserialize(deserializer)?;
        let mut duplicates = duplicates.into_inner().paths;
        let mut seen = HashSet::new();
        duplicates.retain(|path| seen.insert(path.clone()));
        for duplicate in &mut duplicates {
            *duplicate = format!("duplicate field {duplicate:?}");
        }
        Ok(Self { value, duplicates })
    }
}

// === impl Duplicates ===

impl Duplicates {
    /// Prepends a step to the paths from number `first` on, which are below it. With `is_duplicate`,
    /// the member at the step is a duplicate.
    fn enclose(&mut self, first: usize, step: &str, is_duplicate: bool) {
        let below = self.paths.len().saturating_sub(first);
        let more = (below + usize::from(is_duplicate)).saturating_mul(step.len() + 1);
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > MAX_DUPLICATES {
            self.paths.truncate(first);
            return;
        }
        for path in self.paths.iter_mut().skip(first) {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = [step, dot, path].concat();
        }
        if is_duplicate {
            self.paths.push(step.to_owned());
        }
    }
}

// === impl Reader ===

impl Reader<'_> {
    /// The number of duplicate members so far.
    fn count(self) -> usize {
        self.duplicates.borrow().paths.len()
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("json: unsupported value: a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let first = self.count();
            let Some(item) = items.next_element_seed(self)? else {
                return Ok(list.into());
            };
            if self.count() > first {
                let step = format!("[{}]", list.len());
                self.duplicates.borrow_mut().enclose(first, &step, false);
            }
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let first = self.count();
            let value = members.next_value_seed(self)?;
            let has_duplicates = self.count() > first;
            match map.entry(key) {
                Entry::Vacant(entry) => {
                    if has_duplicates {
                        let mut duplicates = self.duplicates.borrow_mut();
                        duplicates.enclose(first, entry.key(), false);
                    }
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    let mut duplicates = self.duplicates.borrow_mut();
                    duplicates.enclose(first, entry.key(), true);
                    entry.insert(value);
                }
            }
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Document;

    fn assert_error_of_serde_json(wrong: &[u8]) {
        let ours = Document::from_json(wrong).expect_err("it is not JSON");
        let theirs = serde_json::from_slice::<Value>(wrong).expect_err("it is not JSON");
        let wrong = String::from_utf8_lossy(wrong);
        assert_eq!(ours.to_string(), theirs.to_string(), "{wrong}");
    }

    fn duplicates(text: &str) -> Vec<String> {
        let document = Document::from_json(text.as_bytes()).expect("it is JSON");
        let paths = document.duplicates.iter().map(|report| {
            let path = report.strip_prefix("duplicate field \"").expect("a report");
            path.trim_end_matches('"').to_owned()
        });
        paths.collect()
    }

    #[test]
    fn duplicate_members_are_noted_once_with_their_paths_and_the_last_one_counts() {
        let text = r#"{"a":1,"a":2,"a":3,"b":{"c":[{"d":1,"d":2},{"d":1}],"e":0,"e":1}}"#;
        let document = Document::from_json(text.as_bytes()).expect("it is JSON");
        assert_eq!(duplicates(text), ["a", "b.c[0].d", "b.e"]);
        let value = json!({ "a": 3, "b": { "c": [{ "d": 2 }, { "d": 1 }], "e": 1 } });
        assert_eq!(document.value, value);
        assert_eq!(
            duplicates(r#"{"a":{"x":1,"x":2},"a":{"y":1,"y":2}}"#),
            ["a.x", "a.y", "a"]
        );
        assert_eq!(duplicates(r#"[[{"a":1,"a":2}]]"#), ["[0][0].a"]);
    }

    #[test]
    fn a_document_is_read_as_serde_json_reads_it() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,1e3,"\u00e9"],"b":{"c":{}}}"#;
        let document = Document::from_json(text.as_bytes()).expect("it is JSON");
        let value: Value = serde_json::from_str(text).expect("it is JSON");
        assert_eq!((document.value, document.duplicates), (value, Vec::new()));
        let deep = "[".repeat(200);
        for wrong in ["", "{", "{} {}", r#"{"a":1,}"#, "[1e999]", &deep].map(str::as_bytes) {
            assert_error_of_serde_json(wrong);
        }
        assert_error_of_serde_json(b"{\"a\":\n\"\xff\"}");
    }

    #[test]
    fn the_paths_of_duplicates_are_bounded() {
        let long = "x".repeat(60_000);
        let text = format!(r#"{{"{long}":{{"{long}":{{"a":1,"a":2}}}},"b":1,"b":2}}"#);
        let total: usize = duplicates(&text).iter().map(String::len).sum();
        assert!(total <= super::MAX_DUPLICATES, "{total} bytes");
    }
}
