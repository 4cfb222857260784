//! Splits chunks into lines, wherever the chunks were cut. *(pure)*

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

/// Splits a body that arrives in chunks into lines.
///
/// A line within one chunk is a slice of it, not a copy. Works on bytes, so a character that is
/// split between chunks is complete in its line.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The bytes after the last newline.
    rest: BytesMut,

    /// A line from several chunks: the only one that is copied.
    spanning: Option<Bytes>,

    /// Complete lines that were not taken yet, with their newlines.
    chunk: Bytes,

    /// The maximum length of a line in bytes.
    longest: usize,
}

/// A line is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of more than {limit} bytes")]
pub(crate) struct LineTooLong {
    pub(crate) limit: usize,
}

// === impl Lines ===

impl Lines {
    pub(crate) fn new(longest: usize) -> Self {
        Self {
            rest: BytesMut::new(),
            spanning: None,
            chunk: Bytes::new(),
            longest,
        }
    }

    /// Adds the next chunk. All lines of the previous one must have been taken.
    ///
    /// # Errors
    ///
    /// [`LineTooLong`] if a line exceeds the limit before its end. Its bytes are dropped, so memory
    /// stays bounded.
    pub(crate) fn push(&mut self, chunk: Bytes) -> Result<(), LineTooLong> {
        debug_assert!(self.chunk.is_empty(), "lines of the last chunk were left");
        if self.rest.is_empty() {
            self.chunk = chunk;
        } else if let Some(end) = memchr(b'\n', &chunk) {
            self.rest.extend_from_slice(&chunk[..end]);
            self.spanning = Some(self.rest.split().freeze());
            self.chunk = chunk;
            self.chunk.advance(end + 1);
        } else {
            self.rest.extend_from_slice(&chunk);
        }
        if self.rest.len() > self.longest {
            self.rest = BytesMut::new();
            return Err(LineTooLong {
                limit: self.longest,
            });
        }
        Ok(())
    }

    /// Returns the next complete line, without its newline. Skips empty lines.
    pub(crate) fn next(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        loop {
            if let Some(line) = self.spanning.take() {
                return Some(self.short(line));
            }
            if self.chunk.is_empty() {
                return None;
            }
            let Some(end) = memchr(b'\n', &self.chunk) else {
                self.rest.extend_from_slice(&self.chunk);
                self.chunk = Bytes::new();
                if self.rest.len() > self.longest {
                    self.rest = BytesMut::new();
                    return Some(Err(LineTooLong {
                        limit: self.longest,
                    }));
                }
                return None;
            };
            let line = self.chunk.split_to(end);
            self.chunk.advance(1);
            if !line.is_empty() {
                return Some(self.short(line));
            }
        }
    }

    fn short(&self, line: Bytes) -> Result<Bytes, LineTooLong> {
        let limit = self.longest;
        if line.len() > limit {
            return Err(LineTooLong { limit });
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::{LineTooLong, Lines};

    #[test]
    fn lines_are_complete_however_they_are_split() {
        check(&["ab\ncd\n"], &["ab", "cd"]);
        check(&["a", "b\nc", "d\n"], &["ab", "cd"]);
        check(&["ab", "\n", "\n\ncd\n"], &["ab", "cd"]);
        check(&["\u{e9}\n"], &["\u{e9}"]);
    }

    #[test]
    fn an_unterminated_line_is_not_returned() {
        check(&["ab\ncd"], &["ab"]);
    }

    #[test]
    fn a_line_without_end_is_an_error_and_not_a_memory_leak() {
        let mut lines = Lines::new(4);
        lines.push(Bytes::from_static(b"abc")).expect("short");
        assert_eq!(lines.next(), None);
        assert_eq!(
            lines.push(Bytes::from_static(b"def")),
            Err(LineTooLong { limit: 4 })
        );
    }

    #[test]
    fn the_size_limit_of_lines_is_independent_of_the_chunking() {
        let cases: [(&[&str], bool); 7] = [
            (&["abcd\n"], true),
            (&["abcde\n"], false),
            (&["ab", "cd", "\n"], true),
            (&["ab", "cd\n"], true),
            (&["ab", "cde\n"], false),
            (&["ab", "cde"], false),
            (&["a\nabcde"], false),
        ];
        for (chunks, fits) in cases {
            let mut lines = Lines::new(4);
            let mut all = Ok(());
            for chunk in chunks {
                all = all.and(lines.push(Bytes::copy_from_slice(chunk.as_bytes())));
                while let Some(line) = lines.next() {
                    all = all.and(line.map(drop));
                }
            }
            let expected = if fits {
                Ok(())
            } else {
                Err(LineTooLong { limit: 4 })
            };
            assert_eq!(all, expected, "{chunks:?}");
        }
    }

    proptest! {
        #[test]
        fn any_chunking_returns_the_same_lines(text in "[ab\n]{0,40}", cuts in prop::collection::vec(1usize..5, 0..40)) {
            let mut chunks = Vec::new();
            let mut rest = text.as_str();
            for cut in cuts {
                let cut = cut.min(rest.len());
                let (head, tail) = rest.split_at(cut);
                chunks.push(head);
                rest = tail;
            }
            chunks.push(rest);
            let whole: Vec<&str> = match text.rsplit_once('\n') {
                Some((ended, _)) => ended.split('\n').filter(|line| !line.is_empty()).collect(),
                None => Vec::new(),
            };
            prop_assert_eq!(run(&chunks), whole);
        }
    }

    #[track_caller]
    fn check(chunks: &[&str], expected: &[&str]) {
        assert_eq!(run(chunks), expected, "{chunks:?}");
    }

    fn run(chunks: &[&str]) -> Vec<String> {
        let mut lines = Lines::new(1024);
        let mut all = Vec::new();
        for chunk in chunks {
            lines
                .push(Bytes::copy_from_slice(chunk.as_bytes()))
                .expect("short lines");
            while let Some(line) = lines.next() {
                let line = line.expect("short lines").to_vec();
                all.push(String::from_utf8(line).expect("text"));
            }
        }
        all
    }
}
