//! Finds the end of a JSON value, in pieces of any size, and keeps nothing. *(pure)*

use memchr::memchr2;

use super::nesting::Nesting;

/// Skips one value.
///
/// Guarantees the end of a valid value, wherever it is cut. Does not check that the value is valid:
/// the code that decodes it does.
#[derive(Debug)]
pub(super) enum ValueScanner {
    /// An object or a list.
    Nested(Nesting),
    /// A string, and whether the next byte is escaped.
    Text { is_open: bool, is_escaped: bool },
    /// A number, `true`, `false` or `null`.
    Scalar,
}

// === impl ValueScanner ===

impl ValueScanner {
    /// Begins a value with the first byte `first`, which has not been read yet.
    pub(super) fn of(first: u8) -> Self {
        match first {
            b'{' | b'[' => Self::Nested(Nesting::default()),
            b'"' => Self::Text {
                is_open: false,
                is_escaped: false,
            },
            _ => Self::Scalar,
        }
    }

    /// Reads the next `bytes`. Returns how many of them belong to the value, if it ends in them.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Nested(nesting) => nesting.end(bytes),
            Self::Text {
                is_open,
                is_escaped,
            } => {
                let mut at = 0;
                if !*is_open && !bytes.is_empty() {
                    *is_open = true;
                    at = 1;
                }
                while at < bytes.len() {
                    if std::mem::take(is_escaped) {
                        at += 1;
                        continue;
                    }
                    at += memchr2(b'"', b'\\', &bytes[at..])? + 1;
                    if bytes[at - 1] == b'"' {
                        return Some(at);
                    }
                    *is_escaped = true;
                }
                None
            }
            Self::Scalar => bytes
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::ValueScanner;

    proptest! {
        #[test]
        fn the_end_of_a_value_is_found_with_any_chunking(value in value(), cuts in prop::collection::vec(1usize..9, 0..40)) {
            let json = value.to_string();
            let text = format!("{json},\"]}}");
            let mut scanner = ValueScanner::of(json.as_bytes()[0]);
            let (mut rest, mut read) = (text.as_bytes(), 0);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                if let Some(end) = scanner.end(piece) {
                    prop_assert_eq!(read + end, json.len());
                    return Ok(());
                }
                read += piece.len();
                rest = after;
            }
            prop_assert!(false, "no end: {text}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            r#"[\\"{}a\[\]]{0,90}"#.prop_map(Value::from),
            prop::collection::vec(r#"[\\"{}a\[\]]{0,30}"#, 0..4).prop_map(Value::from),
        ]
    }
}
