//! Lists. *(pure)*

use serde::de::{DeserializeSeed, SeqAccess};

use super::{JsonError, Reader};

/// The elements of a list, in order.
pub(super) struct List<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,

    /// The number of elements, if it is known.
    length: Option<usize>,
}

// === impl List ===

impl<'r, 'de> List<'r, 'de> {
    /// Begins after the opening bracket.
    pub(super) fn new(reader: &'r mut Reader<'de>) -> Self {
        let length = reader
            .lengths
            .of(reader.text.as_bytes(), reader.at.saturating_sub(1));
        Self {
            reader,
            is_first: true,
            length,
        }
    }
}

impl<'de> SeqAccess<'de> for List<'_, 'de> {
    type Error = JsonError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, JsonError> {
        let is_first = std::mem::take(&mut self.is_first);
        if self.reader.has_element(b']', is_first)? {
            seed.deserialize(&mut *self.reader).map(Some)
        } else {
            Ok(None)
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.length
    }
}

// === impl Reader ===

impl Reader<'_> {
    /// Moves to the next element of a list or object that ends with `closing`, if there is one.
    #[inline]
    pub(super) fn has_element(&mut self, closing: u8, is_first: bool) -> Result<bool, JsonError> {
        match self.peek() {
            byte if byte == closing => return Ok(false),
            _ if is_first => {}
            // The reader of the element rejects a comma before the end.
            b',' => self.at += 1,
            _ => return Err(self.misplaced()),
        }
        Ok(true)
    }
}
