//! Adds `apiVersion` and `kind` to an object whose JSON lacks them. *(pure)*

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, Error, IntoDeserializer as _, MapAccess, Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};

use super::TypeMeta;

/// Adds `apiVersion` and `kind` at the root, and passes on everything below.
pub(in crate::decode) struct WithTypeMeta<'t, D> {
    pub(super) object: D,
    pub(super) types: &'t TypeMeta,
}

/// Reads the object for `visitor`.
struct RootVisitor<'t, V> {
    visitor: V,
    types: &'t TypeMeta,
}

/// The fields at the root.
struct Root<'t, A> {
    fields: A,
    value: Value<'t>,
    missing_api_version: Option<&'t str>,
    missing_kind: Option<&'t str>,

    /// The kind that the object must have, if it has one.
    kind: &'t str,
}

/// The next value.
enum Value<'t> {
    /// From the JSON.
    Read,
    /// Added, because the JSON lacks it.
    Filled(&'t str),
    /// From the JSON, and it must be the expected kind.
    Kind,
}

/// Reads a string. It is borrowed from the JSON, unless it has escapes.
struct Text;

// === impl WithTypeMeta ===

impl<'de, D: Deserializer<'de>> Deserializer<'de> for WithTypeMeta<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let types = self.types;
        self.object.deserialize_any(RootVisitor { visitor, types })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.object.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

// === impl RootVisitor ===

impl<'de, V: Visitor<'de>> Visitor<'de> for RootVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let TypeMeta { api_version, kind } = self.types;
        self.visitor.visit_map(Root {
            fields,
            value: Value::Read,
            missing_api_version: Some(api_version),
            missing_kind: Some(kind),
            kind,
        })
    }
}

// === impl Root ===

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Root<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.value = Value::Read;
        if let Some(name) = self.fields.next_key_seed(Text)? {
            match &*name {
                "apiVersion" => self.missing_api_version = None,
                "kind" => {
                    self.missing_kind = None;
                    self.value = Value::Kind;
                }
                _ => {}
            }
            return seed.deserialize(name.into_deserializer()).map(Some);
        }
        let (name, value) = if let Some(value) = self.missing_api_version.take() {
            ("apiVersion", value)
        } else if let Some(value) = self.missing_kind.take() {
            ("kind", value)
        } else {
            return Ok(None);
        };
        self.value = Value::Filled(value);
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value {
            Value::Read => self.fields.next_value_seed(seed),
            Value::Filled(value) => seed.deserialize(StrDeserializer::new(value)),
            Value::Kind => {
                if self.fields.next_value_seed(Text)? != self.kind {
                    return Err(A::Error::custom("an object of another kind"));
                }
                seed.deserialize(StrDeserializer::new(self.kind))
            }
        }
    }
}

// === impl Text ===

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Self::Value, D::Error> {
        text.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use serde::Deserialize as _;

    use crate::{DecodeError, decode::TypeMeta};

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
            "pod: does not match the type",
        );
        check(
            r#"{"kind":7,"metadata":{}}"#,
            "pod: invalid type, expected a string",
        );
        check("[]", "pod: invalid type, expected struct DynamicObject");
    }

    /// Checks the type of a dynamic object, or the error.
    #[track_caller]
    fn check(json: &str, expected: &str) {
        let types = TypeMeta::new("v1", "Pod");
        let mut reader = serde_json::Deserializer::from_str(json);
        let object = DynamicObject::deserialize(types.with_type_meta(&mut reader));
        let result = match object {
            Ok(object) => {
                let types = object.types.expect("filled in");
                format!("{} {}", types.api_version, types.kind)
            }
            Err(error) => DecodeError::of(&error, "pod").to_string(),
        };
        assert_eq!(result, expected, "{json}");
    }
}
