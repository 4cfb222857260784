//! Numbers. *(pure)*

use serde::de::{Deserializer as _, Visitor};

use super::{JsonError, Reader};

/// A number in serde's representation.
enum Number {
    Positive(u64),
    Negative(i64),
    /// It has a fraction, an exponent, or more than 18 digits.
    Other,
}

// === impl Reader ===

impl<'de> Reader<'de> {
    /// Reads the next number.
    #[inline]
    pub(super) fn number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        match self.whole_number()? {
            Number::Positive(number) => visitor.visit_u64(number),
            Number::Negative(number) => visitor.visit_i64(number),
            Number::Other => {
                let start = self.raw()?;
                self.left(start, |from| from.deserialize_any(visitor))
            }
        }
    }

    /// Skips the next number.
    pub(super) fn ignore_number(&mut self) -> Result<(), JsonError> {
        match self.whole_number()? {
            Number::Positive(_) | Number::Negative(_) => Ok(()),
            Number::Other => self.raw().map(drop),
        }
    }

    fn whole_number(&mut self) -> Result<Number, JsonError> {
        /// Numbers with this many digits do not overflow.
        const DIGITS: usize = 18;

        let rest = &self.text.as_bytes()[self.at..];
        let is_negative = rest.first() == Some(&b'-');
        let digits = &rest[usize::from(is_negative)..];
        let (mut number, mut length) = (0_u64, 0);
        while let Some(digit @ b'0'..=b'9') = digits.get(length) {
            if length == DIGITS {
                return Ok(Number::Other);
            }
            number = number * 10 + u64::from(digit - b'0');
            length += 1;
        }
        let is_zero = digits.first() == Some(&b'0');
        if length == 0 || is_zero && length > 1 {
            return Err(self.misplaced());
        }
        if matches!(digits.get(length), Some(b'.' | b'e' | b'E')) || is_negative && is_zero {
            return Ok(Number::Other);
        }
        self.at += usize::from(is_negative) + length;
        Ok(if is_negative {
            Number::Negative(0_i64.saturating_sub_unsigned(number))
        } else {
            Number::Positive(number)
        })
    }
}
