//! Field names as serde keys of any type. *(pure)*

use serde::{
    de::{
        Deserializer, Visitor,
        value::{BorrowedStrDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{JsonError, Reader, Text};

/// A field name.
pub(in crate::decode) struct Key<'r, 'de> {
    reader: &'r Reader<'de>,
    name: Text<'de>,
}

macro_rules! number {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            // `serde_json` would ignore white space around a number.
            let Text::Borrowed(name) = self.name else {
                return Err(self.reader.misplaced());
            };
            if !name.starts_with(|first| matches!(first, '-' | '0'..='9')) || name.ends_with([' ', '\t', '\n', '\r']) {
                return Err(self.reader.misplaced());
            }
            let mut from = serde_json::Deserializer::from_str(name);
            let number = from.$method(visitor);
            number
                .and_then(|number| from.end().map(|()| number))
                .map_err(|error| JsonError::of(&error, self.reader.text, self.reader.at))
        }
    )*};
}

// === impl Reader ===

impl<'de> Reader<'de> {
    /// Makes a key of a name that was just read.
    #[inline]
    pub(super) const fn key(&self, name: Text<'de>) -> Key<'_, 'de> {
        Key { reader: self, name }
    }
}

// === impl Key ===

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = JsonError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.name {
            Text::Borrowed(name) => visitor.visit_borrowed_str(name),
            Text::Unescaped => visitor.visit_str(&self.reader.unescaped),
        }
    }

    number! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.name {
            Text::Borrowed("true") => visitor.visit_bool(true),
            Text::Borrowed("false") => visitor.visit_bool(false),
            _ => Err(JsonError::type_of(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.name {
            Text::Borrowed(name) => visitor.visit_borrowed_bytes(name.as_bytes()),
            Text::Unescaped => visitor.visit_bytes(self.reader.unescaped.as_bytes()),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        // A field name is never null.
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
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.name {
            Text::Borrowed(name) => visitor.visit_enum(BorrowedStrDeserializer::new(name)),
            Text::Unescaped => visitor.visit_enum(StrDeserializer::new(&self.reader.unescaped)),
        }
    }

    forward_to_deserialize_any! {
        char str string unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
