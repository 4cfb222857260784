//! List lengths, counted before the lists are read. *(pure)*

use fearless_simd::{Level, dispatch, prelude::*};

use super::text::quoted;
use crate::decode::{
    block::{BLOCK, Block, padded},
    nesting::Nesting,
};

/// Counts the elements of a list and of the lists in it, in one pass.
///
/// A list of objects has as many elements as brackets that open directly in it. A list of scalars
/// has one element more than commas. Of mixed lists, which few types have, only objects and lists
/// are counted.
#[derive(Default)]
pub(super) struct ListLengths {
    /// The lists, in order of their start.
    noted: [CountedList; Self::MAX_LISTS],

    /// How many lists were counted.
    count: usize,

    /// The first list that was not requested yet.
    next: usize,
}

#[derive(Clone, Copy, Default)]
struct CountedList {
    /// The position of its bracket.
    at: usize,

    /// The number of open brackets before it.
    depth: usize,

    /// The list that contains it.
    within: usize,

    elements: usize,
}

// === impl ListLengths ===

impl ListLengths {
    /// How many lists are counted in one pass: those of objects of a large Pod. Further lists need
    /// another pass.
    const MAX_LISTS: usize = 16;

    /// Returns the number of elements of the list that begins at `at`, which must be after the last
    /// one. `None` if it does not end.
    pub(super) fn of(&mut self, text: &[u8], at: usize) -> Option<usize> {
        match text[at + 1..].iter().find(|byte| !is_space(**byte))? {
            b']' => Some(0),
            b'{' | b'[' => {
                while self.next < self.count && self.noted[self.next].at < at {
                    self.next += 1;
                }
                if self.next == self.count {
                    self.count(text, at)?;
                }
                self.next += 1;
                Some(self.noted[self.next - 1].elements)
            }
            _ => scalars(text, at + 1),
        }
    }

    /// Counts from the first byte of the list to its last.
    fn count(&mut self, text: &[u8], at: usize) -> Option<()> {
        dispatch!(Level::new(), simd => self.note(simd, text, at))
    }

    #[expect(
        clippy::inline_always,
        reason = "code that is not inlined into `dispatch!` is compiled without wide instructions"
    )]
    #[inline(always)]
    fn note<S: Simd>(&mut self, simd: S, text: &[u8], at: usize) -> Option<()> {
        (self.count, self.next) = (0, 0);
        let mut nesting = Nesting::default();
        let (mut depth, mut list) = (0, 0);
        let (blocks, rest) = text[at..].as_chunks();
        let tail = padded(rest);
        for (number, bytes) in blocks.iter().chain([&tail]).enumerate() {
            let mut brackets = nesting.brackets(Block::of(simd, bytes));
            while brackets != 0 {
                let place = brackets.trailing_zeros() as usize;
                brackets &= brackets - 1;
                let bracket = bytes[place];
                if matches!(bracket, b'}' | b']') {
                    depth -= 1;
                    if depth == 0 {
                        return Some(());
                    }
                    if depth == self.noted[list].depth {
                        list = self.noted[list].within;
                    }
                    continue;
                }
                let within = &mut self.noted[list];
                within.elements += usize::from(depth == within.depth + 1);
                if bracket == b'[' && self.count < Self::MAX_LISTS {
                    self.noted[self.count] = CountedList {
                        at: at + number * BLOCK + place,
                        depth,
                        within: list,
                        elements: 0,
                    };
                    list = self.count;
                    self.count += 1;
                }
                depth += 1;
            }
        }
        None
    }
}

/// Counts the elements from `at` to the end of a list of scalars.
fn scalars(text: &[u8], mut at: usize) -> Option<usize> {
    let mut elements = 1;
    loop {
        match *text.get(at)? {
            b'"' => {
                at = quoted(text, at + 1)?;
                continue;
            }
            b',' => elements += 1,
            b']' => return Some(elements),
            b'[' | b'{' => return None,
            _ => {}
        }
        at += 1;
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::ListLengths;

    #[test]
    fn elements_are_counted_before_they_are_read() {
        check("[]", "0");
        check("[ \n ]", "0");
        check("[1]", "1");
        check(r#"["a","]","\",",4 , null]"#, "5");
        check(r#"[{"a":"[{"},{"b":[]} , {}]"#, "3 0");
        check("[[1,2],[],[[3],[4,5]]]", "3 2 0 2 1 2");
        check(r#"[{"a":{"b":[{},{}]}},{"c":[[7]]}]"#, "2 2 1 1");
    }

    #[test]
    fn more_lists_than_are_counted_at_once_are_counted_too() {
        let many = ListLengths::MAX_LISTS * 3;
        check(
            &format!("[{}[[1]]]", "[[],{}],".repeat(many)),
            &format!("{}{} 1 1", many + 1, " 2 0".repeat(many)),
        );
        let depth = 100;
        check(
            &format!("{}1{}", "[".repeat(depth), "]".repeat(depth)),
            &vec!["1"; depth].join(" "),
        );
    }

    #[test]
    fn a_list_without_end_has_no_length() {
        check("[1,2", "-");
        check("[{},", "-");
        check("[", "-");
    }

    #[test]
    fn lists_that_are_stepped_over_are_not_asked_about() {
        let text = br#"[{"a":[{},{}]},{"b":[{},{},{}]}]"#;
        let mut lengths = ListLengths::default();
        assert_eq!(lengths.of(text, 0), Some(2));
        assert_eq!(lengths.of(text, 20), Some(3));
    }

    #[test]
    fn a_list_that_is_asked_about_late_has_its_own_length() {
        let count = ListLengths::MAX_LISTS * 4;
        let lists = (0..count).map(|length| format!("[{}]", vec!["{}"; 1 + length % 7].join(",")));
        let lists: Vec<String> = lists.collect();
        let text = format!("[{}]", lists.join(","));
        for step in 1..count {
            let mut lengths = ListLengths::default();
            assert_eq!(lengths.of(text.as_bytes(), 0), Some(count));
            let mut at = 1;
            for (number, list) in lists.iter().enumerate() {
                if number % step == step - 1 {
                    let expected = Some(1 + number % 7);
                    assert_eq!(lengths.of(text.as_bytes(), at), expected, "{step} {number}");
                }
                at += list.len() + 1;
            }
        }
    }

    #[test]
    fn a_list_of_scalars_with_an_object_or_a_list_among_them_has_no_length() {
        check(r#"[1,{"a":[2,3]}]"#, "- 2");
        check("[null,[4]]", "- 1");
    }

    /// The length that each list gets, in the order in which they begin.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut lengths = ListLengths::default();
        let begins = text.match_indices('[').map(|(at, _)| at);
        let quoted = |at: &usize| text[..*at].matches('"').count() % 2 == 1;
        let lengths: Vec<String> = begins
            .filter(|at| !quoted(at))
            .map(|at| match lengths.of(text.as_bytes(), at) {
                Some(length) => length.to_string(),
                None => "-".to_owned(),
            })
            .collect();
        assert_eq!(lengths.join(" "), expected, "{text}");
    }
}
