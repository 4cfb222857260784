//! Reads the keywords of one schema object, and checks their types.

use serde_json::{Map, Value};

use super::value_path::ValuePath;
use crate::status::FieldError;

/// One object of a schema, with its position.
///
/// A keyword of the wrong type is an error, and is treated as absent. `null` is absent without an
/// error, as when Go decodes it. Unknown keywords are ignored: Kubernetes drops them when it decodes
/// a CRD.
#[derive(Debug)]
pub(super) struct Keywords<'a> {
    map: &'a Map<String, Value>,
    at: ValuePath<'a>,
}

// === impl Keywords ===

impl<'a> Keywords<'a> {
    /// Reads `schema`, which is `at` a position; `None`, with an error, if it is not an object.
    pub(super) fn read(
        schema: &'a Value,
        at: &ValuePath<'a>,
        faults: &mut Vec<FieldError>,
    ) -> Option<Self> {
        if let Value::Object(map) = schema {
            Some(Self { map, at: *at })
        } else {
            faults.push(FieldError::invalid(
                at.to_string(),
                schema,
                "must be a schema object",
            ));
            None
        }
    }

    /// Returns the value of a keyword; `None` if it is absent or `null`.
    pub(super) fn raw(&self, keyword: &str) -> Option<&'a Value> {
        self.map.get(keyword).filter(|value| !value.is_null())
    }

    /// Returns a string; `None` if it is absent or empty.
    pub(super) fn text(&self, keyword: &str, faults: &mut Vec<FieldError>) -> Option<&'a str> {
        self.typed(keyword, "a string", faults, Value::as_str)
            .filter(|text| !text.is_empty())
    }

    /// Returns a boolean; `false` if it is absent.
    pub(super) fn flag(&self, keyword: &str, faults: &mut Vec<FieldError>) -> bool {
        self.typed(keyword, "a boolean", faults, Value::as_bool)
            .unwrap_or_default()
    }

    /// Returns a number.
    pub(super) fn number(&self, keyword: &str, faults: &mut Vec<FieldError>) -> Option<f64> {
        self.typed(keyword, "a number", faults, Value::as_f64)
    }

    /// Returns a length or count.
    pub(super) fn count(&self, keyword: &str, faults: &mut Vec<FieldError>) -> Option<u64> {
        self.typed(keyword, "a non-negative integer", faults, Value::as_u64)
    }

    /// Returns a list; empty if it is absent.
    pub(super) fn list(&self, keyword: &str, faults: &mut Vec<FieldError>) -> &'a [Value] {
        self.typed(keyword, "an array", faults, Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// Returns a list of strings; empty if it is absent.
    pub(super) fn texts(&self, keyword: &str, faults: &mut Vec<FieldError>) -> Vec<String> {
        let mut texts = Vec::new();
        for (i, value) in self.list(keyword, faults).iter().enumerate() {
            match value.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => faults.push(FieldError::invalid(
                    self.at.child(keyword).index(i).to_string(),
                    value,
                    "must be a string",
                )),
            }
        }
        texts
    }

    /// Returns the members of an object.
    pub(super) fn entries(
        &self,
        keyword: &str,
        faults: &mut Vec<FieldError>,
    ) -> Option<&'a Map<String, Value>> {
        self.typed(keyword, "an object", faults, Value::as_object)
    }

    fn typed<T>(
        &self,
        keyword: &str,
        what: &str,
        faults: &mut Vec<FieldError>,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.raw(keyword)?;
        let read = read(value);
        if read.is_none() {
            let why = format!("must be {what}");
            faults.push(FieldError::invalid(
                self.at.child(keyword).to_string(),
                value,
                why,
            ));
        }
        read
    }
}
