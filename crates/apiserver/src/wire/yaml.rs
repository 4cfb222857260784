//! Parses YAML like the real server, and limits the size of the value. *(pure)*
//!
//! An alias repeats the value of its anchor, so a few kilobytes of aliases can describe gigabytes.
//! Without aliases, a document has at most as many values as bytes, and its texts are not longer than
//! the document. A document whose value is several times as large is rejected, and so is one that
//! nests too deeply.

mod reader;
mod scalar;

use granit_parser::ScanError;
use serde_json::Map;

use self::reader::Reader;
pub(crate) use self::scalar::ScalarError;
use super::document::Document;

/// The maximum size of a value, as a multiple of the size of its document.
const MAX_EXPANSION: usize = 8;

/// The size in addition to it, in bytes, which every document has.
const FREE: usize = 64 * 1024;

/// The maximum depth of lists and objects.
const MAX_DEPTH: usize = 128;

/// The start of the message about duplicate members.
const DUPLICATES: &str = "yaml: unmarshal errors:";

/// The reason why a YAML document was rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum YamlError {
    #[error("yaml: the document is not UTF-8")]
    NotUtf8,
    #[error("yaml: control characters are not allowed")]
    ControlCharacter,
    #[error("yaml: line {line}: {problem}")]
    Syntax { line: usize, problem: String },
    #[error("yaml: line {line}: unknown anchor, or an anchor whose value contains itself")]
    Anchor { line: usize },
    #[error("yaml: found incompatible YAML document")]
    Version,
    #[error("yaml: line {line}: found unknown escape character")]
    Escape { line: usize },
    #[error(transparent)]
    Scalar(#[from] ScalarError),
    #[error("yaml: line {line}: invalid map key: an object or a list")]
    Key { line: usize },
    #[error("yaml: map merge requires map or sequence of maps as the value")]
    Merge,
    #[error("yaml: document contains excessive aliasing")]
    Aliases,
    #[error("the document nests deeper than {MAX_DEPTH} levels")]
    Depth,
    #[error("yaml: the document ends early")]
    End,
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        Self::Syntax {
            line: error.marker().line(),
            problem: error.info(),
        }
    }
}

/// Splits a message about duplicate members into warnings: for a YAML document, one for each line.
pub(crate) fn duplicate_warnings(report: String) -> Vec<String> {
    match report.strip_prefix(DUPLICATES) {
        Some(lines) => lines.split("\n  ").skip(1).map(str::to_owned).collect(),
        None => vec![report],
    }
}

/// Parses the first document of a body. A body without a document and a document `null` are an empty
/// object, as on the real server.
///
/// # Errors
///
/// As for [`read`].
pub(crate) fn from_slice(body: &[u8]) -> Result<Document, YamlError> {
    let mut document = read(body)?;
    if document.value.is_null() {
        document.value = Map::new().into();
    }
    Ok(document)
}

/// Parses the first document of a text; `null` if the text has none. Further documents are ignored,
/// as on the real server.
///
/// # Errors
///
/// The reason in one line if the document is invalid, too large because of aliases, or too deep.
pub(crate) fn read(body: &[u8]) -> Result<Document, YamlError> {
    let text = std::str::from_utf8(body).map_err(|_| YamlError::NotUtf8)?;
    if text.chars().any(is_forbidden) {
        return Err(YamlError::ControlCharacter);
    }
    let limit = body.len().saturating_mul(MAX_EXPANSION);
    Reader::new(text, limit.saturating_add(FREE)).read()
}

/// Returns whether the real server rejects a document with this character.
fn is_forbidden(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        _ => character < '\u{a0}',
    }
}

#[cfg(test)]
mod tests;
