//! How deep in brackets JSON is, sixty-four bytes at a time. *(pure)*
//!
//! To find where an object ends nothing in it need be understood: only which brackets stand
//! outside of strings. That is a few comparisons a block, against one branch a byte in a
//! parser, and is what an object costs of which nobody reads more than its name.
//!
//! Source: Langdale and Lemire, [Parsing Gigabytes of JSON per Second][paper], for the masks
//! of escapes and strings.
//!
//! [paper]: https://arxiv.org/abs/1902.08318

use wide::u8x32;

/// Reads brackets, in pieces of any size.
///
/// *Promised.* For valid JSON, the end of the value that the first bracket began.
///
/// *Not promised.* That what it passes over is valid: `[}` has an end too. Whoever decodes
/// what lies between finds out.
#[derive(Clone, Debug, Default)]
pub(super) struct Nesting {
    /// Brackets that were opened and not closed.
    depth: usize,
    /// Whether the next byte is within a string.
    string: bool,
    /// Whether the next byte is what a backslash escapes.
    escaped: bool,
}

/// What stands where in one block, a bit for each byte.
struct Block {
    quotes: u64,
    backslashes: u64,
    opening: u64,
    closing: u64,
}

// === impl Nesting ===

impl Nesting {
    pub(super) const BLOCK: usize = 64;

    /// Reads `bytes`, which follow on those of the last call. Returns how many of them belong
    /// to the value, if it ends within them.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let (blocks, rest) = bytes.as_chunks::<{ Self::BLOCK }>();
        for (number, bytes) in blocks.iter().enumerate() {
            if let Some(end) = self.block(bytes) {
                return Some(number * Self::BLOCK + end);
            }
        }
        let end = rest.iter().position(|byte| self.byte(*byte))?;
        Some(bytes.len() - rest.len() + end + 1)
    }

    fn block(&mut self, bytes: &[u8; Self::BLOCK]) -> Option<usize> {
        let block = Block::of(bytes);
        let strings = self.strings(block.quotes, block.backslashes);
        let (mut opening, mut closing) = (block.opening & !strings, block.closing & !strings);
        if self.depth > 0 {
            // What opens and closes at once ends nothing. Managed fields consist of little else.
            let empty = opening & closing >> 1;
            opening ^= empty;
            closing ^= empty << 1;
        }
        let mut brackets = opening | closing;
        // One by one: a block has few, and to count bits takes longer than to go through them
        // where there is no instruction for it.
        while brackets != 0 {
            let bracket = brackets & brackets.wrapping_neg();
            if opening & bracket != 0 {
                self.depth += 1;
            } else {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Some(bracket.trailing_zeros() as usize + 1);
                }
            }
            brackets ^= bracket;
        }
        None
    }

    /// Which of `bytes` are brackets outside of strings, opening and closing ones. They follow
    /// on those of the last call.
    #[inline]
    pub(super) fn brackets(&mut self, bytes: &[u8; Self::BLOCK]) -> u64 {
        // Set, these bits make the four brackets one; of what else they make the same nothing
        // stands outside of strings.
        let bits = u8x32::splat(0x26);
        let brackets = mask(bytes, |half| (half | bits).simd_eq(u8x32::splat(0x7f)));
        let quotes = mask(bytes, |half| half.simd_eq(u8x32::splat(b'"')));
        let backslashes = mask(bytes, |half| half.simd_eq(u8x32::splat(b'\\')));
        brackets & !self.strings(quotes, backslashes)
    }

    /// Which bytes are within strings.
    fn strings(&mut self, quotes: u64, backslashes: u64) -> u64 {
        let quotes = quotes & !self.escaped(backslashes);
        let strings = within(quotes) ^ if self.string { u64::MAX } else { 0 };
        self.string = strings >> 63 == 1;
        strings
    }

    /// Which bytes are escaped: those after a backslash that is not escaped itself.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;

        let carried = u64::from(self.escaped);
        if backslashes == 0 {
            // By far the most.
            self.escaped = false;
            return carried;
        }
        let backslashes = backslashes & !carried;
        let after = backslashes << 1 | carried;
        // A run of backslashes that begins at an odd place is carried by the addition to the
        // byte behind its end; whether that is even or odd says which of them escape.
        let odd = backslashes & !EVEN & !after;
        let (carry, over) = odd.overflowing_add(backslashes);
        self.escaped = over;
        (EVEN ^ (carry << 1)) & after
    }

    /// Reads one byte. Whether the value ends with it.
    fn byte(&mut self, byte: u8) -> bool {
        if self.escaped {
            self.escaped = false;
            return false;
        }
        match (byte, self.string) {
            (b'"', _) => self.string = !self.string,
            (b'\\', true) => self.escaped = true,
            (b'{' | b'[', false) => self.depth += 1,
            (b'}' | b']', false) => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

// === impl Block ===

impl Block {
    fn of(bytes: &[u8; Nesting::BLOCK]) -> Self {
        // `[` and `{`, and `]` and `}`, differ in this bit alone.
        let curly = u8x32::splat(0x20);
        Self {
            quotes: mask(bytes, |half| half.simd_eq(u8x32::splat(b'"'))),
            backslashes: mask(bytes, |half| half.simd_eq(u8x32::splat(b'\\'))),
            opening: mask(bytes, |half| (half | curly).simd_eq(u8x32::splat(b'{'))),
            closing: mask(bytes, |half| (half | curly).simd_eq(u8x32::splat(b'}'))),
        }
    }
}

/// The bits of the bytes that `is` says all ones of.
fn mask(bytes: &[u8; Nesting::BLOCK], is: impl Fn(u8x32) -> u8x32) -> u64 {
    let (halves, _) = bytes.as_chunks::<32>();
    let [low, high] = [halves[0], halves[1]].map(|half| is(u8x32::new(half)).to_bitmask());
    u64::from(low) | u64::from(high) << 32
}

/// Each bit from an odd quote up to the even one that follows it.
fn within(quotes: u64) -> u64 {
    [1, 2, 4, 8, 16, 32]
        .into_iter()
        .fold(quotes, |bits, shift| bits ^ bits << shift)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::Nesting;

    #[test]
    fn a_value_ends_at_its_own_bracket() {
        check(r#"{"a":[1,{"b":{}}]}"#);
        check("[]");
        check(r#"{"}":"]","\"}":"\\"}"#);
        check(r#"["\\\\\\\"]","\\"]"#);
        check(&format!(r#"{{"a":"{}"}}"#, "[{".repeat(100)));
        check(&format!(r#"{{"a":"{}"}}"#, r"\\".repeat(31)));
        check(&format!(r#"{{"a":"{}"}}"#, r#"\""#.repeat(97)));
        check(&format!("{}{}", "[".repeat(200), "]".repeat(200)));
    }

    #[test]
    fn what_has_no_end_has_none() {
        let mut nesting = Nesting::default();
        assert_eq!(nesting.end(br#"{"a":{"#), None);
        assert_eq!(nesting.end(br#""}"#), None);
        assert_eq!(nesting.end(br#""}},"#), Some(3));
    }

    proptest! {
        #[test]
        fn any_value_ends_where_it_does_however_it_is_cut(value in value(), cuts in prop::collection::vec(0usize..150, 0..8)) {
            let json = json!([value]).to_string();
            check(&json);
            let text = format!("{json}]}}\"");
            let (mut nesting, mut rest, mut read) = (Nesting::default(), text.as_bytes(), 0);
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                if let Some(end) = nesting.end(piece) {
                    prop_assert_eq!(read + end, json.len());
                    return Ok(());
                }
                read += piece.len();
                rest = after;
            }
            prop_assert_eq!(nesting.end(rest).map(|end| read + end), Some(json.len()));
        }
    }

    /// Values with much in their strings that looks like JSON.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            r#"[\\"{}\[\],a]{0,90}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(r#"[\\"{}a]{0,5}"#, inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[track_caller]
    fn check(json: &str) {
        let followed = format!("{json}]}}\"");
        let end = Nesting::default().end(followed.as_bytes());
        assert_eq!(end, Some(json.len()), "{json}");
    }
}
