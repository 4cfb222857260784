//! Reads YAML without letting a small document become a large value. *(pure)*
//!
//! An alias repeats what its anchor names, so a few kilobytes of aliases can describe
//! gigabytes. Without aliases a document has no more values than bytes, and no longer texts
//! than itself; a document that yields several times as many is refused.
//!
//! A document that nests deeply would take time by the square of its depth, before the reader of
//! values refuses it. So its depth is checked first, event by event.

use granit_parser::{Event, Parser};
use serde::de::Error as _;

use super::document::Document;

/// How many times larger than the document its value may be.
const MAX_EXPANSION: usize = 8;

/// What each document may yield, however short it is.
const FREE: usize = 64 * 1024;

/// How deep lists and objects may nest: as deep as the reader of values goes.
const MAX_DEPTH: usize = 128;

/// Documents of up to this length cannot nest so deep that reading them takes long: 4 KiB.
const SHORT: usize = 4 * 1024;

/// Reads one document.
///
/// # Errors
///
/// What is wrong with the document, in one line, also if its aliases repeat too much or it nests too
/// deeply.
pub(crate) fn from_slice(body: &[u8]) -> Result<Document, serde_yaml_ng::Error> {
    if body.len() > SHORT {
        check_depth(body).map_err(serde_yaml_ng::Error::custom)?;
    }
    let limit = body.len().saturating_mul(MAX_EXPANSION);
    Document::read(
        serde_yaml_ng::Deserializer::from_slice(body),
        limit.saturating_add(FREE),
    )
}

/// Checks how deep a document nests, and stops where it nests too deeply.
fn check_depth(body: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let mut depth: usize = 0;
    for event in Parser::new_from_str(text) {
        match event.map_err(|error| error.to_string())?.0 {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!("the document nests deeper than {MAX_DEPTH} levels"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::from_slice;

    #[test]
    fn a_document_has_the_same_value_as_json() {
        let text = b"a: 1\nb: [x, null, true, 1.5]\nc: {d: \"2\"}\n";
        let value = from_slice(text).expect("it is YAML").value;
        assert_eq!(
            value,
            json!({ "a": 1, "b": ["x", null, true, 1.5], "c": { "d": "2" } })
        );
        let aliased = b"a: &x {k: v}\nb: *x\n";
        let value = from_slice(aliased).expect("one alias is fine").value;
        assert_eq!(value["b"], json!({ "k": "v" }));
    }

    #[test]
    fn aliases_that_repeat_too_much_are_refused() {
        let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
        for (name, before) in ["b", "c", "d", "e", "f", "g"].iter().zip("abcdef".chars()) {
            let refs = vec![format!("*{before}"); 10].join(", ");
            for part in [name, ": &", name, " [", &refs, "]\n"] {
                text.push_str(part);
            }
        }
        let error = from_slice(text.as_bytes()).expect_err("a million values");
        assert!(
            error.to_string().contains("excessive aliasing")
                || error.to_string().contains("repetition limit"),
            "{error}"
        );
    }

    #[test]
    fn numbers_that_json_lacks_are_refused() {
        assert!(from_slice(b"a: .nan").is_err());
        assert!(from_slice(b"a: .inf").is_err());
    }
}
