//! Server messages, shortened to one line for errors and logs. *(pure)*

use std::borrow::Cow;

/// The maximum length in characters. Messages of the API server are shorter; a page of HTML, or a
/// message that quotes an object, is longer.
pub(crate) const LONGEST: usize = 300;

/// Returns `text` as one line of at most 300 characters.
///
/// Control characters and line breaks become spaces, so that server text cannot imitate a log line
/// or control a terminal. An ellipsis replaces the text that was cut off.
#[doc(hidden)]
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    one_line_of(LONGEST, text)
}

/// Like [`one_line`], with at most `longest` characters.
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
