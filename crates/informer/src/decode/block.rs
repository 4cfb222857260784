//! Bit masks of sixty-four bytes of JSON: one mask for each kind of byte. *(pure)*
//!
//! [`nesting`](super::nesting) and [`fields`](super::fields) skip values with these masks: the end of
//! a Pod of 7.9 KB takes 9,400 instructions, and 103,000 with `serde_json` (`docs/performance.md`).
//! Crates that parse with such masks need the complete document in memory. A response arrives in
//! chunks that are cut anywhere, and here the state at the end of one chunk is that at the start of
//! the next.
//!
//! Uses the widest SIMD instructions of the processor at run time: call it within
//! [`dispatch!`](fearless_simd::dispatch).
//!
//! Source: Langdale and Lemire, [Parsing Gigabytes of JSON per Second][paper], for the masks
//! of escapes and strings.
//!
//! [paper]: https://arxiv.org/abs/1902.08318

use fearless_simd::{Level, dispatch, prelude::*, u8x64};

/// The size of a block in bytes.
pub(super) const BLOCK: usize = 64;

/// The bytes of one block.
#[derive(Clone, Copy)]
pub(super) struct Block<S: Simd> {
    simd: S,
    bytes: u8x64<S>,
}

/// The quotes and escapes of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotes {
    /// The quotes that are not escaped.
    pub(super) ends: u64,
    pub(super) backslashes: u64,
    /// 1 if the byte after the block is escaped.
    pub(super) carried: u64,
}

// === impl Block ===

#[expect(
    clippy::inline_always,
    reason = "code that is not inlined into `dispatch!` is compiled without wide instructions"
)]
impl<S: Simd> Block<S> {
    #[inline(always)]
    pub(super) fn of(simd: S, bytes: &[u8; BLOCK]) -> Self {
        Self {
            simd,
            bytes: u8x64::simd_from(simd, *bytes),
        }
    }

    /// The positions of `byte`.
    #[inline(always)]
    pub(super) fn places(self, byte: u8) -> u64 {
        let places = self.bytes.simd_eq(u8x64::splat(self.simd, byte));
        places.to_bitmask()
    }

    /// The positions of opening and of closing brackets, `{[` and `]}`.
    #[inline(always)]
    pub(super) fn brackets(self) -> (u64, u64) {
        // `[` and `{`, and `]` and `}`, differ in this bit alone.
        let bytes = self.bytes | u8x64::splat(self.simd, 0x20);
        let curly = Self { bytes, ..self };
        (curly.places(b'{'), curly.places(b'}'))
    }

    /// The quotes and escapes. `length` bytes of the block are JSON. The first byte is escaped if
    /// `carried` is 1.
    #[inline(always)]
    pub(super) fn quotes(self, length: usize, carried: u64) -> Quotes {
        let (quotes, backslashes) = (self.places(b'"'), self.places(b'\\'));
        if backslashes | carried == 0 {
            // The usual case.
            return Quotes {
                ends: quotes,
                backslashes,
                carried,
            };
        }
        let (escaped, behind) = escaped(backslashes, carried);
        Quotes {
            ends: quotes & !escaped,
            backslashes,
            carried: if length < BLOCK {
                escaped >> length & 1
            } else {
                behind
            },
        }
    }
}

// === impl Quotes ===

impl Quotes {
    /// The quotes of the first block of `bytes`, whose first byte is escaped if `carried` is 1.
    pub(super) fn first(bytes: &[u8], carried: u64) -> Self {
        let level = Level::new();
        if let Some(bytes) = bytes.first_chunk() {
            return dispatch!(level, simd => Block::of(simd, bytes).quotes(BLOCK, carried));
        }
        let (bytes, length) = (padded(bytes), bytes.len());
        dispatch!(level, simd => Block::of(simd, &bytes).quotes(length, carried))
    }

    /// The length of the string that begins at byte `at`, if it ends in this block, and whether it
    /// has an escape.
    #[inline]
    pub(super) const fn end(self, at: usize) -> Option<(usize, bool)> {
        let (quotes, backslashes) = (self.ends >> at, self.backslashes >> at);
        if quotes == 0 {
            return None;
        }
        let before = (quotes - 1) & !quotes;
        Some((quotes.trailing_zeros() as usize, backslashes & before != 0))
    }
}

/// Pads fewer bytes than a block with spaces.
pub(super) fn padded(bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}

/// The escaped bytes: those after a backslash that is not escaped itself; and 1 if the byte after
/// the block is escaped.
#[inline]
const fn escaped(backslashes: u64, carried: u64) -> (u64, u64) {
    const EVEN: u64 = 0x5555_5555_5555_5555;

    let backslashes = backslashes & !carried;
    let after = backslashes << 1 | carried;
    // The addition carries a run of backslashes that begins at an odd position to the byte after
    // its end. Whether that position is even or odd shows which backslashes escape.
    let odd = backslashes & !EVEN & !after;
    let (carry, over) = odd.overflowing_add(backslashes);
    ((EVEN ^ (carry << 1)) & after, over as u64)
}

/// The bits from each odd quote up to the next even one.
#[inline]
pub(super) const fn within(quotes: u64) -> u64 {
    let bits = quotes ^ quotes << 1;
    let bits = bits ^ bits << 2;
    let bits = bits ^ bits << 4;
    let bits = bits ^ bits << 8;
    let bits = bits ^ bits << 16;
    bits ^ bits << 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Quotes;

    /// The length of the string that begins at `at`, and whether it has an escape, byte by byte.
    fn string(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
        let (mut length, mut has_escape) = (0, false);
        loop {
            match bytes.get(at + length)? {
                b'"' => return Some((length, has_escape)),
                b'\\' => {
                    has_escape = true;
                    length += 2;
                }
                _ => length += 1,
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_string_of_a_block_ends_at_its_quote(
            text in r#"[\\"a]{0,64}|[\\a]{30,60}"a*|a{10,60}\\["\\]a{0,2}""#,
        ) {
            let bytes = &text.as_bytes()[..text.len().min(64)];
            prop_assert_eq!(Quotes::first(bytes, 0).end(0), string(bytes, 0));
        }

        #[test]
        fn a_later_string_of_a_block_ends_at_its_quote(
            first in r#"([^\\"\x80-\u{10ffff}]|\\["\\]){0,20}"#, text in r#"[\\"a]{0,30}"#,
        ) {
            let text = format!("{first}\"{text}");
            let at = first.len() + 1;
            let quotes = Quotes::first(text.as_bytes(), 0);
            prop_assert_eq!(quotes.end(at), string(text.as_bytes(), at));
        }
    }
}
