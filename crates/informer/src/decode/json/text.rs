//! Strings. *(pure)*

use wide::u8x16;

use super::{Problem, Reader};

/// The text of a string.
pub(super) enum Text<'de, 'r> {
    /// A piece of the JSON.
    Borrowed(&'de str),
    /// What escapes stand for is no piece of it.
    Unescaped(&'r str),
}

/// Where the first byte stands, from `at` on, that is not plain text: a quote, a backslash, a
/// control character, or the end.
#[inline]
pub(super) fn plain(bytes: &[u8], mut at: usize) -> usize {
    // Most strings are short, so that there is little to gain from wider ones.
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        let chunk = u8x16::new(*chunk);
        let stops = chunk.simd_eq(u8x16::splat(b'"'))
            | chunk.simd_eq(u8x16::splat(b'\\'))
            | chunk.min(u8x16::splat(0x1f)).simd_eq(chunk);
        let stops = stops.to_bitmask();
        if stops != 0 {
            return at + stops.trailing_zeros() as usize;
        }
        at += 16;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let stop = |byte: &u8| matches!(byte, b'"' | b'\\' | ..=0x1f);
    at + rest.iter().position(stop).unwrap_or(rest.len())
}

// === impl Reader ===

impl<'de> Reader<'de> {
    /// Reads the string whose quote comes next.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Text<'de, '_>, Problem> {
        Ok(match self.piece()? {
            Some(text) => Text::Borrowed(text),
            None => Text::Unescaped(&self.unescaped),
        })
    }

    /// Reads the string whose quote comes next. None if it is no piece of the JSON; then it is
    /// in `unescaped`.
    #[inline(never)]
    pub(super) fn piece(&mut self) -> Result<Option<&'de str>, Problem> {
        let start = self.at + 1;
        let end = plain(self.text.as_bytes(), start);
        if self.text.as_bytes().get(end) != Some(&b'"') {
            return self.unescape(start, end).map(|()| None);
        }
        self.at = end + 1;
        Ok(Some(&self.text[start..end]))
    }

    /// Reads the string that begins at `start` and is plain up to `stop`.
    fn unescape(&mut self, mut start: usize, mut stop: usize) -> Result<(), Problem> {
        self.unescaped.clear();
        loop {
            self.unescaped.push_str(&self.text[start..stop]);
            self.at = stop;
            match self.byte() {
                b'"' => return Ok(()),
                b'\\' => {
                    let meant = self.escape()?;
                    self.unescaped.push(meant);
                }
                _ => return Err(Problem::syntax(stop)),
            }
            start = self.at;
            stop = plain(self.text.as_bytes(), start);
        }
    }

    /// What the escape means that stands behind the backslash.
    fn escape(&mut self) -> Result<char, Problem> {
        let start = self.at;
        let unit = match self.byte() {
            byte @ (b'"' | b'\\' | b'/') => return Ok(byte.into()),
            b'b' => return Ok('\u{8}'),
            b'f' => return Ok('\u{c}'),
            b'n' => return Ok('\n'),
            b'r' => return Ok('\r'),
            b't' => return Ok('\t'),
            b'u' => self.unit()?,
            _ => return Err(Problem::syntax(start)),
        };
        let mut units = [unit, 0];
        let is_half = matches!(unit, 0xd800..=0xdbff);
        if is_half {
            if self.byte() != b'\\' || self.byte() != b'u' {
                return Err(Problem::syntax(start));
            }
            units[1] = self.unit()?;
        }
        let units = &units[..=usize::from(is_half)];
        match char::decode_utf16(units.iter().copied()).next() {
            Some(Ok(meant)) => Ok(meant),
            _ => Err(Problem::syntax(start)),
        }
    }

    /// The four hexadecimal digits that come next.
    fn unit(&mut self) -> Result<u16, Problem> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let unit = digits.and_then(|digits| {
            digits.iter().try_fold(0, |unit, digit| {
                let digit = char::from(*digit).to_digit(16)?;
                Some(unit << 4 | u16::try_from(digit).ok()?)
            })
        });
        self.at += 4;
        unit.ok_or_else(|| Problem::syntax(self.at - 4))
    }

    /// Takes the next byte, whatever it is.
    fn byte(&mut self) -> u8 {
        let byte = self.text.as_bytes().get(self.at);
        self.at += usize::from(byte.is_some());
        byte.copied().unwrap_or_default()
    }
}
