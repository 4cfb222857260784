//! The `Deserializer` of a value. *(pure)*

use serde::de::{
    Deserializer, Visitor,
    value::{BorrowedStrDeserializer, StrDeserializer},
};

use super::{JsonError, Reader, Text, list::List, text::quoted, variant::Variant};

/// The name with which `serde_json`'s `RawValue` requests the text.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

macro_rules! numbers {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            match self.peek() {
                b'-' | b'0'..=b'9' => self.number(visitor),
                _ => Err(self.unexpected(&visitor)),
            }
        }
    )*};
}

/// Methods that do the same as the method `$to`.
macro_rules! same_as {
    ($to:ident: $($method:ident($($argument:ty),*))*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(
            self,
            $(_: $argument,)*
            visitor: V,
        ) -> Result<V::Value, JsonError> {
            self.$to(visitor)
        }
    )*};
}

macro_rules! left {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            let start = self.raw()?;
            self.left(start, |from| from.$method(visitor))
        }
    )*};
}

// === impl Reader ===

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.peek() {
            b'"' => self.deserialize_str(visitor),
            b'{' => self.object(|map| visitor.visit_map(map)),
            b'[' => self.list(visitor),
            b'-' | b'0'..=b'9' => self.number(visitor),
            b't' | b'f' => self.deserialize_bool(visitor),
            b'n' => self.deserialize_unit(visitor),
            _ => Err(self.misplaced()),
        }
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.peek() {
            b't' => {
                self.word("true")?;
                visitor.visit_bool(true)
            }
            b'f' => {
                self.word("false")?;
                visitor.visit_bool(false)
            }
            _ => Err(self.unexpected(&visitor)),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f64
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.peek() != b'"' {
            return Err(self.unexpected(&visitor));
        }
        match self.string()? {
            Text::Borrowed(text) => visitor.visit_borrowed_str(text),
            Text::Unescaped => visitor.visit_str(&self.unescaped),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.peek() {
            b'[' => self.list(visitor),
            b'"' => {
                // Bytes need not be valid text: `serde_json` accepts lone surrogates.
                let start = self.at;
                self.at =
                    quoted(self.text.as_bytes(), start + 1).ok_or_else(|| self.misplaced())?;
                self.left(start, |from| from.deserialize_bytes(visitor))
            }
            _ => Err(self.unexpected(&visitor)),
        }
    }

    same_as! { deserialize_str: deserialize_string() deserialize_identifier() deserialize_char() }
    same_as! { deserialize_bytes: deserialize_byte_buf() }
    same_as! { deserialize_unit: deserialize_unit_struct(&'static str) }
    same_as! {
        deserialize_seq: deserialize_tuple(usize) deserialize_tuple_struct(&'static str, usize)
    }

    // By `serde_json`: features that another crate enables decide how an `f32` is rounded.
    left! { deserialize_f32 deserialize_i128 deserialize_u128 }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.peek() == b'n' {
            self.word("null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.peek() != b'n' {
            return Err(self.unexpected(&visitor));
        }
        self.word("null")?;
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        if name == RAW_VALUE {
            let start = self.raw()?;
            return self.left(start, |from| from.deserialize_newtype_struct(name, visitor));
        }
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.peek() != b'[' {
            return Err(self.unexpected(&visitor));
        }
        self.list(visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.peek() != b'{' {
            return Err(self.unexpected(&visitor));
        }
        self.object(|map| visitor.visit_map(map))
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.peek() {
            b'{' => self.object(|map| visitor.visit_map(map)),
            b'[' => self.list(visitor),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.peek() {
            b'{' => self.object(|map| visitor.visit_enum(Variant(map))),
            b'"' => match self.string()? {
                Text::Borrowed(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
                Text::Unescaped => visitor.visit_enum(StrDeserializer::new(&self.unescaped)),
            },
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.ignore()?;
        visitor.visit_unit()
    }
}

impl<'de> Reader<'de> {
    #[inline]
    fn list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        // Fields inside of lists cannot be trimmed.
        self.trim = None;
        self.nested(b']', |reader| visitor.visit_seq(List::new(reader)))
    }
}
