//! Lists. *(pure)*

use serde::de::{DeserializeSeed, SeqAccess};

use super::{Problem, Reader};

/// The elements of a list, one after the other.
pub(super) struct List<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,

    /// How many there are, if that is known.
    length: Option<usize>,
}

// === impl List ===

impl<'r, 'de> List<'r, 'de> {
    /// Begins behind the opening bracket.
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

    /// Steps to the next element, if there is one.
    fn has_next(&mut self) -> Result<bool, Problem> {
        let is_first = std::mem::take(&mut self.is_first);
        match self.reader.peek() {
            b']' => return Ok(false),
            _ if is_first => {}
            b',' => {
                self.reader.at += 1;
                // A comma before the end is found by whoever reads the element.
            }
            _ => return Err(self.reader.misplaced()),
        }
        Ok(true)
    }
}

impl<'de> SeqAccess<'de> for List<'_, 'de> {
    type Error = Problem;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Problem> {
        if self.has_next()? {
            seed.deserialize(&mut *self.reader).map(Some)
        } else {
            Ok(None)
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.length
    }
}
