//! Parses the query of a URL. *(pure)*

use std::collections::BTreeMap;
use std::num::{IntErrorKind, ParseIntError};

/// The parameters of a query. The first value of a repeated key is used, as in Go, unless the
/// parameter is a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    values: BTreeMap<String, Vec<String>>,
}

// === impl Query ===

impl Query {
    /// Parses the text after the `?`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut values: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            let values = values.entry(key.into_owned()).or_default();
            values.push(value.into_owned());
        }
        Self { values }
    }

    /// Returns the value of `key`; empty if the query has no such key.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.find(key).unwrap_or_default()
    }

    /// Returns the value of `key`, which can be empty; `None` if the query has no such key.
    pub(crate) fn find(&self, key: &str) -> Option<&str> {
        self.all(key).first().map(String::as_str)
    }

    /// Returns all values of `key` in their order.
    pub(crate) fn all(&self, key: &str) -> &[String] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the integer of `key`; `None` if the query has no such key.
    ///
    /// # Errors
    ///
    /// The message of Go if the value is not an integer, or if it is too large.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.find(key) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            format!("strconv.ParseInt: parsing {text:?}: {why}")
        })
    }

    /// Returns whether `key` is true: its value is neither `false` nor `0`.
    ///
    /// A key without a value is true: `?watch` requests a watch.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.find(key)?;
        Some(!matches!(
            value.to_ascii_lowercase().as_str(),
            "false" | "0"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn a_flag_is_set_unless_it_is_false_or_zero() {
        for (text, set) in [
            ("", None),
            ("watch", Some(true)),
            ("watch=true", Some(true)),
            ("watch=1", Some(true)),
            ("watch=0", Some(false)),
            ("watch=False", Some(false)),
            ("watch=f", Some(true)),
        ] {
            assert_eq!(Query::parse(text).flag("watch"), set, "{text}");
        }
    }

    #[test]
    fn values_are_decoded_and_the_first_counts() {
        let query = Query::parse("labelSelector=a%20in+(b%2Cc)&limit=1&limit=2");
        assert_eq!(query.get("labelSelector"), "a in (b,c)");
        assert_eq!(query.get("limit"), "1");
        assert_eq!(query.all("limit"), ["1", "2"]);
        assert_eq!(query.get("continue"), "");
    }
}
