//! The query of a URL. *(pure)*

use std::collections::BTreeMap;

/// The query of a URL; of a key that is there twice the first value counts, as in Go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    values: BTreeMap<String, String>,
}

// === impl Query ===

impl Query {
    /// Reads what stands behind the `?`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut values = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            values
                .entry(key.into_owned())
                .or_insert_with(|| value.into_owned());
        }
        Self { values }
    }

    /// The value of `key`; empty if it is not there.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    /// Whether `key` is set, to anything but `false` and `0`.
    ///
    /// A key without a value is set: `?watch` is a watch.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.values.get(key)?;
        Some(!matches!(
            value.to_ascii_lowercase().as_str(),
            "false" | "0" | "f"
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
            ("watch=false", Some(false)),
        ] {
            assert_eq!(Query::parse(text).flag("watch"), set, "{text}");
        }
    }

    #[test]
    fn values_are_decoded_and_the_first_counts() {
        let query = Query::parse("labelSelector=a%20in+(b%2Cc)&limit=1&limit=2");
        assert_eq!(query.get("labelSelector"), "a in (b,c)");
        assert_eq!(query.get("limit"), "1");
        assert_eq!(query.get("continue"), "");
    }
}
