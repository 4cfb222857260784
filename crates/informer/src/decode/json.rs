//! JSON to types, by a reader that knows where in the text it is. *(pure)*
//!
//! It is our own because it must know places: it steps over fields that are dropped without a
//! look at them, and tells each list how many elements will come, so that the list takes no
//! more memory than it needs (serde's lists otherwise grow by doubling, and a container of a Pod
//! is two kilobytes). `serde_json` does not tell where it is, and to find out took a fifth of
//! what a Pod cost; of its rivals, which read a Pod with 6 % more instructions (`sonic-rs`) or
//! 11 % fewer (`simd-json`, which wants the text to write in), neither can be told what to skip.
//!
//! What is seldom is left to `serde_json`, on the piece of text that it concerns: fractions,
//! numbers of more than eighteen digits, bytes and raw values. So the two agree on it.

// What stands in the text.
mod number;
mod text;

// What holds other values.
mod ignored;
mod lengths;
mod list;
mod map;

// What serde asks for.
mod key;
mod value;
mod variant;

// What can be wrong.
mod error;

#[cfg(test)]
mod agreement;

use std::collections::BTreeMap;

use serde::de::{Deserialize, Expected, IgnoredAny};

use self::lengths::ListLengths;
pub(super) use self::{error::JsonError, key::Key, map::Map, text::Text};
use super::{nesting::Nesting, trim::Node};

/// How deep values may stand in each other, as with `serde_json`. A stack has an end.
const DEPTH: u8 = 127;

/// Reads the one value that a text is. Its `Deserializer` is `&mut Reader`.
///
/// *Guaranteed.* What `serde_json` would make of the same text, or an error where it finds one.
/// Every list of objects, of lists, or of neither gets its length in advance.
///
/// *Not guaranteed.* That fields that are dropped are valid.
pub(super) struct Reader<'de> {
    text: &'de str,

    /// Where the next byte stands.
    at: usize,

    /// How much deeper it may go.
    depth: u8,

    /// What is dropped of the object that comes next. None within most.
    trim: Option<&'de BTreeMap<String, Node>>,

    lengths: ListLengths,

    /// The last string that is no piece of the text.
    unescaped: String,
}

// === impl Reader ===

impl<'de> Reader<'de> {
    /// Reads `text` without the fields that `trim` drops.
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

    /// Reads `text` as a `T`, and nothing behind it.
    pub(super) fn read<T: Deserialize<'de>>(text: &'de str) -> Result<T, JsonError> {
        let mut reader = Self::new(text, None);
        let value = T::deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    }

    /// There must be nothing more.
    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            END if self.at == self.text.len() => Ok(()),
            _ => Err(self.misplaced()),
        }
    }

    /// Whether an object comes next.
    pub(super) fn is_object(&mut self) -> bool {
        self.peek() == b'{'
    }

    /// Reads the object that comes next.
    pub(super) fn object<T>(
        &mut self,
        read: impl FnOnce(Map<'_, 'de>) -> Result<T, JsonError>,
    ) -> Result<T, JsonError> {
        self.nested(b'}', |reader| read(Map::new(reader)))
    }

    /// The next byte that is not white space, [`END`] behind the last.
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

    /// Reads what stands in the brackets that open here and must end with `closing`.
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

    /// Reads `word`, the first byte of which is known to be there.
    #[inline]
    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.misplaced());
        }
        self.at += word.len();
        Ok(())
    }

    /// Steps over the next value, which is not wanted.
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

    /// Steps over the value that comes next, which must be valid. Returns where it begins.
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

    /// Leaves what was stepped over since `start` to `serde_json`.
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

    /// The error that what comes next is not what was `expected`.
    #[cold]
    fn unexpected(&mut self, expected: &dyn Expected) -> JsonError {
        match self.peek() {
            b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                JsonError::type_of(expected)
            }
            _ => self.misplaced(),
        }
    }

    /// The error that the next byte should not be there.
    #[cold]
    fn misplaced(&self) -> JsonError {
        JsonError::syntax(self.at)
    }
}

/// What stands behind the last byte; it begins no value.
const END: u8 = 0;

type Foreign<'de> = serde_json::Deserializer<serde_json::de::StrRead<'de>>;
