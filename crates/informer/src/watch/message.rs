//! Text of a server, made fit for errors and logs. *(pure)*

use std::borrow::Cow;

/// Longer text is cut. The API server's own messages are shorter; a page of HTML, or a
/// message that quotes an object, is not.
pub(crate) const LONGEST: usize = 300;

/// `text` as one line of at most [`LONGEST`] characters.
///
/// Control characters, line breaks among them, become spaces, so that no text of a server
/// looks like a log line of ours or moves the cursor of a terminal. What is cut off is gone,
/// and an ellipsis stands for it.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    one_line_of(LONGEST, text)
}

/// The same with at most `longest` characters.
pub(crate) fn one_line_of(longest: usize, text: &str) -> Cow<'_, str> {
    let is_break = |char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}');
    let end = text.char_indices().nth(longest).map(|(end, _)| end);
    let kept = &text[..end.unwrap_or(text.len())];
    if end.is_none() && !kept.contains(is_break) {
        return Cow::Borrowed(text);
    }
    let mut line = kept.replace(is_break, " ");
    if end.is_some() {
        line.push('…');
    }
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, one_line};

    #[test]
    fn a_text_becomes_one_line_of_bounded_length() {
        assert_eq!(one_line("forbidden"), "forbidden");
        assert_eq!(one_line("a\r\nb\u{1b}[2Jc\u{2028}d"), "a  b [2Jc d");
        let long = one_line(&"é".repeat(LONGEST + 1)).into_owned();
        assert_eq!(long.chars().count(), LONGEST + 1);
        assert!(long.ends_with('…'), "{long}");
        assert_eq!(one_line(&"é".repeat(LONGEST)), "é".repeat(LONGEST));
    }
}
