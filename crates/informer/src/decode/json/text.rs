//! Strings. *(pure)*
//!
//! The end of plain text is searched eight bytes at a time, without SIMD: most strings are short.
//! The crate `wide`, with sixteen bytes, took 5 % fewer instructions for an event of a Pod (206,600
//! instead of 218,400), which is not worth a second crate for SIMD.

use super::{JsonError, Reader};

/// The text of a string.
#[derive(Clone, Copy)]
pub(in crate::decode) enum Text<'de> {
    /// A slice of the JSON.
    Borrowed(&'de str),
    /// With escapes: the reader's last unescaped string.
    Unescaped,
}

/// The position, from `at` on, of the first byte that ends plain text: a quote, a backslash, a
/// control character, or the end.
#[inline]
pub(super) fn plain(bytes: &[u8], mut at: usize) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((chunk, behind)) = rest.split_first_chunk::<8>() {
        let stops = stops(u64::from_le_bytes(*chunk));
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += 8;
        rest = behind;
    }
    let stop = |byte: &u8| matches!(byte, b'"' | b'\\' | ..=0x1f);
    at + rest.iter().position(stop).unwrap_or(rest.len())
}

/// Marks the highest bit of each byte of `word` that ends plain text. The lowest mark is exact; a
/// carry can set others above it.
#[inline]
const fn stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & (ONES << 7)
}

/// The end of the string that begins at `at`, after its quote.
pub(super) fn quoted(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = plain(bytes, at);
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

// === impl Reader ===

impl<'de> Reader<'de> {
    /// Reads the next string.
    #[inline(never)]
    pub(super) fn string(&mut self) -> Result<Text<'de>, JsonError> {
        self.text()
    }

    /// Like [`string`](Self::string), inlined into the caller.
    #[expect(clippy::inline_always, reason = "half of all strings are field names")]
    #[inline(always)]
    pub(super) fn text(&mut self) -> Result<Text<'de>, JsonError> {
        let start = self.at + 1;
        let end = plain(self.text.as_bytes(), start);
        if self.text.as_bytes().get(end) != Some(&b'"') {
            return self.unescape(start, end);
        }
        self.at = end + 1;
        Ok(Text::Borrowed(&self.text[start..end]))
    }

    #[inline]
    pub(super) fn text_of(&self, text: Text<'de>) -> &str {
        match text {
            Text::Borrowed(text) => text,
            Text::Unescaped => &self.unescaped,
        }
    }

    /// Reads the string that begins at `start` and has no escape up to `stop`.
    #[inline(never)]
    fn unescape(&mut self, mut start: usize, mut stop: usize) -> Result<Text<'de>, JsonError> {
        self.unescaped.clear();
        loop {
            self.unescaped.push_str(&self.text[start..stop]);
            self.at = stop;
            match self.byte() {
                b'"' => return Ok(Text::Unescaped),
                b'\\' => {
                    let meant = self.escape()?;
                    self.unescaped.push(meant);
                }
                _ => return Err(JsonError::syntax(stop)),
            }
            start = self.at;
            stop = plain(self.text.as_bytes(), start);
        }
    }

    /// Reads an escape after its backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        let unit = match self.byte() {
            byte @ (b'"' | b'\\' | b'/') => return Ok(byte.into()),
            b'b' => return Ok('\u{8}'),
            b'f' => return Ok('\u{c}'),
            b'n' => return Ok('\n'),
            b'r' => return Ok('\r'),
            b't' => return Ok('\t'),
            b'u' => self.unit()?,
            _ => return Err(JsonError::syntax(start)),
        };
        let mut units = [unit, 0];
        let is_half = matches!(unit, 0xd800..=0xdbff);
        if is_half {
            if self.byte() != b'\\' || self.byte() != b'u' {
                return Err(JsonError::syntax(start));
            }
            units[1] = self.unit()?;
        }
        let units = &units[..=usize::from(is_half)];
        match char::decode_utf16(units.iter().copied()).next() {
            Some(Ok(meant)) => Ok(meant),
            _ => Err(JsonError::syntax(start)),
        }
    }

    /// Reads the next four hexadecimal digits.
    fn unit(&mut self) -> Result<u16, JsonError> {
        let start = self.at;
        self.at += 4;
        let digits = self.text.as_bytes().get(start..self.at);
        let unit = digits.and_then(|digits| {
            digits.iter().try_fold(0, |unit, digit| {
                let digit = char::from(*digit).to_digit(16)?;
                Some(unit * 16 + u16::try_from(digit).ok()?)
            })
        });
        unit.ok_or_else(|| JsonError::syntax(start))
    }

    /// Takes the next byte of any value.
    fn byte(&mut self) -> u8 {
        let byte = self.text.as_bytes().get(self.at);
        self.at += usize::from(byte.is_some());
        byte.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{plain, quoted};

    #[test]
    fn plain_text_ends_at_the_first_byte_that_means_something() {
        let long = "é".repeat(20);
        for text in ["", "a", "0123456789abcdef", &*long] {
            for stop in ["\"", "\\", "\n", "\u{1f}", "\0", ""] {
                for behind in ["", "a\"", "0123456789abcdef\""] {
                    if stop.is_empty() && !behind.is_empty() {
                        continue;
                    }
                    let json = format!("{text}{stop}{behind}");
                    assert_eq!(plain(json.as_bytes(), 0), text.len(), "{json:?}");
                }
            }
        }
        assert_eq!(plain(b"a\x7f ", 0), 3);
        assert_eq!(plain(b"a", 7), 7);
    }

    #[test]
    fn a_string_ends_at_a_quote_that_is_not_escaped() {
        check(r#"a"b"#, Some(2));
        check(r#"\"\\"b"#, Some(5));
        check("\n\"", Some(2));
        check(r"a\", None);
        check("a", None);
    }

    #[track_caller]
    fn check(text: &str, end: Option<usize>) {
        assert_eq!(quoted(text.as_bytes(), 0), end, "{text:?}");
    }
}
