//! A JSON reader for serde that tracks its position in the text. *(pure)*
//!
//! It is our own because it uses positions: it skips trimmed fields without parsing them, and tells
//! each list its length in advance, so that the list allocates its final size. (serde's lists
//! otherwise grow by doubling, and a container of a Pod takes two kilobytes.) `serde_json` does not
//! expose its position, and tracking it from outside took a fifth of the instructions for a Pod.
//!
//! It guarantees what `serde_json` does not: no error quotes a value of the object, which may be
//! secret. With `serde_json::from_str` over the trimmed text in its place, an event of a Pod takes 11 %
//! more instructions (241,700 instead of 218,400) and one of a `ConfigMap` 5 % more (36,300 instead of
//! 34,700). When this reader still used a second crate for SIMD (206,600), the CPU time of P3 for a
//! Pod was 31 % higher with `serde_json` (`docs/performance.md`). To decode a Pod takes 185,000
//! instructions with `simd-json`, which writes into the text, and 220,000 with `sonic-rs`, 174,000
//! with this reader. None of them can skip fields.
//!
//! Rare values are parsed by `serde_json`: fractions, numbers of more than eighteen digits, bytes
//! and raw values. So the two agree on them.

// Scalars.
mod number;
mod text;

// Lists and objects.
mod ignored;
mod lengths;
mod list;
mod map;

// The interface to serde.
mod key;
mod value;
mod variant;

// Errors.
mod error;

#[cfg(test)]
mod agreement;

use std::collections::BTreeMap;

use serde::de::{Deserialize, Expected, IgnoredAny};

use self::lengths::ListLengths;
pub(super) use self::{error::JsonError, key::Key, map::Map, text::Text};
use super::{nesting::Nesting, trim::Node};

/// The maximum nesting depth, as in `serde_json`: recursion needs stack memory.
const DEPTH: u8 = 127;

/// Reads a text that consists of one value. Its `Deserializer` is `&mut Reader`.
///
/// *Guaranteed.* The same result as `serde_json`, and an error if `serde_json` returns one. Every
/// list of objects, of lists, or of scalars knows its length in advance.
///
/// *Not guaranteed.* That trimmed fields are valid.
pub(super) struct Reader<'de> {
    text: &'de str,

    /// The position of the next byte.
    at: usize,

    /// The remaining depth.
    depth: u8,

    /// The trimmed fields of the next object. Usually `None`.
    trim: Option<&'de BTreeMap<String, Node>>,

    lengths: ListLengths,

    /// The last string with escapes, unescaped.
    unescaped: String,
}

// === impl Reader ===

impl<'de> Reader<'de> {
    /// Reads `text` without the fields that `trim` removes.
    pub(super) fn new(text: &'de str, trim: Option<&'de Node>) -> Self {
        Self {
            text,
            at: 0,
            depth: DEPTH,
            trim: trim.and_then(Node::fields),
            lengths: ListLengths::default(),
            unescaped: String::new(),
        }
    }

    /// Reads `text` as a `T`. More text after the value is an error.
    pub(super) fn read<T: Deserialize<'de>>(text: &'de str) -> Result<T, JsonError> {
        let mut reader = Self::new(text, None);
        let value = T::deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    }

    /// Checks that the text has ended.
    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            END if self.at == self.text.len() => Ok(()),
            _ => Err(self.misplaced()),
        }
    }

    /// Whether the next value is an object.
    pub(super) fn is_object(&mut self) -> bool {
        self.peek() == b'{'
    }

    /// Reads the next object.
    pub(super) fn object<T>(
        &mut self,
        read: impl FnOnce(Map<'_, 'de>) -> Result<T, JsonError>,
    ) -> Result<T, JsonError> {
        self.nested(b'}', |reader| read(Map::new(reader)))
    }

    /// The next byte that is not white space, or [`END`] at the end.
    #[inline]
    fn peek(&mut self) -> u8 {
        match self.text.as_bytes().get(self.at) {
            Some(byte) if *byte > b' ' => *byte,
            _ => self.peek_on(),
        }
    }

    #[inline(never)]
    fn peek_on(&mut self) -> u8 {
        let rest = &self.text.as_bytes()[self.at..];
        let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let length = rest.iter().position(|byte| !space(byte));
        self.at += length.unwrap_or(rest.len());
        self.text.as_bytes().get(self.at).map_or(END, |byte| *byte)
    }

    /// Reads the contents of the brackets that open here and close with `closing`.
    #[inline]
    fn nested<T>(
        &mut self,
        closing: u8,
        read: impl FnOnce(&mut Self) -> Result<T, JsonError>,
    ) -> Result<T, JsonError> {
        if self.depth == 0 {
            return Err(self.misplaced());
        }
        self.depth -= 1;
        self.at += 1;
        let value = read(self)?;
        self.depth += 1;
        if self.peek() != closing {
            return Err(self.misplaced());
        }
        self.at += 1;
        Ok(value)
    }

    /// Reads `word`, whose first byte is known to match.
    #[inline]
    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.misplaced());
        }
        self.at += word.len();
        Ok(())
    }

    /// Skips the next value, which is trimmed.
    fn drop_value(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), b'{' | b'[') {
            return self.ignore();
        }
        let rest = &self.text.as_bytes()[self.at..];
        self.at += Nesting::default()
            .end(rest)
            .ok_or_else(|| JsonError::syntax(self.text.len()))?;
        Ok(())
    }

    /// Skips the next value, which must be valid. Returns its start.
    #[cold]
    fn raw(&mut self) -> Result<usize, JsonError> {
        self.peek();
        let start = self.at;
        let rest = serde_json::Deserializer::from_str(&self.text[start..]);
        let mut values = rest.into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                self.at += values.byte_offset();
                Ok(start)
            }
            Some(Err(error)) => Err(JsonError::of(&error, self.text, start)),
            None => Err(self.misplaced()),
        }
    }

    /// Parses the skipped value that begins at `start` with `serde_json`.
    #[cold]
    fn left<T>(
        &self,
        start: usize,
        read: impl FnOnce(&mut Foreign<'de>) -> serde_json::Result<T>,
    ) -> Result<T, JsonError> {
        let mut from = serde_json::Deserializer::from_str(&self.text[start..self.at]);
        read(&mut from)
            .and_then(|value| from.end().map(|()| value))
            .map_err(|error| JsonError::of(&error, self.text, start))
    }

    /// The error that the next value is not `expected`.
    #[cold]
    fn unexpected(&mut self, expected: &dyn Expected) -> JsonError {
        match self.peek() {
            b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                JsonError::type_of(expected)
            }
            _ => self.misplaced(),
        }
    }

    /// The error that the next byte is not allowed here.
    #[cold]
    fn misplaced(&self) -> JsonError {
        JsonError::syntax(self.at)
    }
}

/// The byte after the end. No value begins with it.
const END: u8 = 0;

type Foreign<'de> = serde_json::Deserializer<serde_json::de::StrRead<'de>>;
