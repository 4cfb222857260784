//! Adds `apiVersion` and `kind` to an object whose JSON lacks them. *(pure)*

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, Error, MapAccess, Visitor,
        value::{BorrowedStrDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};

use super::TypeMeta;
use crate::decode::json::{JsonError, Map, Reader};

/// Adds `apiVersion` and `kind` at the root, and passes on everything below.
pub(in crate::decode) struct WithTypeMeta<'r, 'de> {
    reader: &'r mut Reader<'de>,
    types: &'de TypeMeta,
}

/// The fields at the root.
struct Root<'r, 'de> {
    map: Map<'r, 'de>,
    value: Value<'de>,
    missing: Missing<'de>,

    /// The kind that the object must have, if it has one.
    kind: &'de str,
}

/// The next value.
enum Value<'de> {
    /// From the JSON.
    Read,
    /// Added, because the JSON lacks it.
    Filled(&'de str),
    /// From the JSON, and it must be the expected kind.
    Kind,
}

struct Missing<'de> {
    api_version: Option<&'de str>,
    kind: Option<&'de str>,
}

// === impl WithTypeMeta ===

impl<'r, 'de> WithTypeMeta<'r, 'de> {
    pub(super) const fn new(reader: &'r mut Reader<'de>, types: &'de TypeMeta) -> Self {
        Self { reader, types }
    }
}

impl<'de> Deserializer<'de> for WithTypeMeta<'_, 'de> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if !self.reader.is_object() {
            return self.reader.deserialize_any(visitor);
        }
        let types = self.types;
        self.reader.object(|map| {
            visitor.visit_map(Root {
                map,
                value: Value::Read,
                missing: Missing {
                    api_version: Some(&types.api_version),
                    kind: Some(&types.kind),
                },
                kind: &types.kind,
            })
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.reader.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

// === impl Root ===

impl<'de> MapAccess<'de> for Root<'_, 'de> {
    type Error = JsonError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, JsonError> {
        self.value = Value::Read;
        if let Some(name) = self.map.next_name()? {
            match self.map.text(name) {
                "apiVersion" => self.missing.api_version = None,
                "kind" => {
                    self.missing.kind = None;
                    self.value = Value::Kind;
                }
                _ => {}
            }
            return seed.deserialize(self.map.key(name)).map(Some);
        }
        let (key, value) = if let Some(value) = self.missing.api_version.take() {
            ("apiVersion", value)
        } else if let Some(value) = self.missing.kind.take() {
            ("kind", value)
        } else {
            return Ok(None);
        };
        self.value = Value::Filled(value);
        seed.deserialize(BorrowedStrDeserializer::new(key))
            .map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, JsonError> {
        match self.value {
            Value::Read => self.map.next_value_seed(seed),
            Value::Filled(value) => seed.deserialize(StrDeserializer::new(value)),
            Value::Kind => {
                if self.map.next_text()? != self.kind {
                    return Err(JsonError::custom("an object of another kind"));
                }
                seed.deserialize(StrDeserializer::new(self.kind))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use serde::Deserialize as _;

    use crate::{Trim, decode::TypeMeta};

    #[test]
    fn omitted_type_metadata_is_filled_in() {
        check(r#"{"metadata":{}}"#, "v1 Pod");
        check(r#"{"metadata":{},"kind":"Pod"}"#, "v1 Pod");
        check(r#"{"apiVersion":"v2","metadata":{}}"#, "v2 Pod");
    }

    #[test]
    fn the_type_metadata_of_an_object_is_kept() {
        check(
            r#"{"kind":"Pod","apiVersion":"v2","metadata":{}}"#,
            "v2 Pod",
        );
        check(
            r#"{"metadata":{},"kind":"P\u006fd","apiVersion":"v2"}"#,
            "v2 Pod",
        );
        check(
            r#"{"apiVersion":"v2","metadata":{"kind":"x"},"spec":{"apiVersion":"x"}}"#,
            "v2 Pod",
        );
    }

    #[test]
    fn an_object_of_another_kind_is_refused() {
        check(
            r#"{"kind":"Secret","metadata":{}}"#,
            "does not match the type",
        );
        check(
            r#"{"kind":7,"metadata":{}}"#,
            "invalid type, expected a string",
        );
        check("[]", "invalid type, expected struct DynamicObject");
    }

    /// Checks the type of a dynamic object, or the error.
    #[track_caller]
    fn check(json: &str, expected: &str) {
        let (trim, types) = (Trim::default(), TypeMeta::new("v1", "Pod"));
        let object = DynamicObject::deserialize(types.with_type_meta(&mut trim.reader(json)));
        let result = match object {
            Ok(object) => {
                let types = object.types.expect("filled in");
                format!("{} {}", types.api_version, types.kind)
            }
            Err(problem) => problem.to_string(),
        };
        assert_eq!(result, expected, "{json}");
    }
}
