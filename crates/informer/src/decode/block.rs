//! Bit masks of sixty-four bytes of JSON: one mask for each kind of byte. *(pure)*
//!
//! The widest instructions of the machine that it runs on are used, whichever the program was
//! built for: a caller looks at blocks within [`dispatch!`](fearless_simd::dispatch).
//!
//! Source: Langdale and Lemire, [Parsing Gigabytes of JSON per Second][paper], for the masks
//! of escapes and strings.
//!
//! [paper]: https://arxiv.org/abs/1902.08318

use fearless_simd::{Level, dispatch, prelude::*, u8x64};

/// How many bytes a block has.
pub(super) const BLOCK: usize = 64;

/// The bytes of one block.
#[derive(Clone, Copy)]
pub(super) struct Block<S: Simd> {
    simd: S,
    bytes: u8x64<S>,
}

/// Where strings may begin and end in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotes {
    /// The quotes that no backslash escapes.
    pub(super) ends: u64,
    pub(super) backslashes: u64,
    /// 1 if the byte behind the block is escaped.
    pub(super) carried: u64,
}

// === impl Block ===

#[expect(
    clippy::inline_always,
    reason = "what is not inlined into `dispatch!` is built for the oldest of machines"
)]
impl<S: Simd> Block<S> {
    #[inline(always)]
    pub(super) fn of(simd: S, bytes: &[u8; BLOCK]) -> Self {
        Self {
            simd,
            bytes: u8x64::simd_from(simd, *bytes),
        }
    }

    /// Where `byte` stands.
    #[inline(always)]
    pub(super) fn places(self, byte: u8) -> u64 {
        let places = self.bytes.simd_eq(u8x64::splat(self.simd, byte));
        places.to_bitmask()
    }

    /// Where brackets of either form open, and where they close.
    #[inline(always)]
    pub(super) fn brackets(self) -> (u64, u64) {
        // `[` and `{`, and `]` and `}`, differ in this bit alone.
        let bytes = self.bytes | u8x64::splat(self.simd, 0x20);
        let curly = Self { bytes, ..self };
        (curly.places(b'{'), curly.places(b'}'))
    }

    /// Where strings begin and end. Of the block `length` bytes are JSON, and the first of them
    /// is escaped if `carried` is 1.
    #[inline(always)]
    pub(super) fn quotes(self, length: usize, carried: u64) -> Quotes {
        let (quotes, backslashes) = (self.places(b'"'), self.places(b'\\'));
        if backslashes | carried == 0 {
            // By far the most.
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
    /// Those of the first block of `bytes`, whose first byte is escaped if `carried` is 1.
    pub(super) fn first(bytes: &[u8], carried: u64) -> Self {
        let level = Level::new();
        if let Some(bytes) = bytes.first_chunk() {
            return dispatch!(level, simd => Block::of(simd, bytes).quotes(BLOCK, carried));
        }
        let (bytes, length) = (padded(bytes), bytes.len());
        dispatch!(level, simd => Block::of(simd, &bytes).quotes(length, carried))
    }

    /// How long the string is of which the byte `at` is the first, if it ends in this block, and
    /// whether it holds an escape.
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

/// `bytes`, which are fewer than a block, and blanks.
pub(super) fn padded(bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}

/// Which bytes are escaped: those after a backslash that is not escaped itself; and whether the
/// one behind the block is.
#[inline]
const fn escaped(backslashes: u64, carried: u64) -> (u64, u64) {
    const EVEN: u64 = 0x5555_5555_5555_5555;

    let backslashes = backslashes & !carried;
    let after = backslashes << 1 | carried;
    // A run of backslashes that begins at an odd place is carried by the addition to the byte
    // behind its end; whether that is even or odd says which of them escape.
    let odd = backslashes & !EVEN & !after;
    let (carry, over) = odd.overflowing_add(backslashes);
    ((EVEN ^ (carry << 1)) & after, over as u64)
}

/// Each bit from an odd quote up to the even one that follows it.
#[inline]
pub(super) const fn within(quotes: u64) -> u64 {
    let bits = quotes ^ quotes << 1;
    let bits = bits ^ bits << 2;
    let bits = bits ^ bits << 4;
    let bits = bits ^ bits << 8;
    let bits = bits ^ bits << 16;
    bits ^ bits << 32
}
