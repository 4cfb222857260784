//! Reads YAML as the real server does, without letting a small document become a large value. *(pure)*
//!
//! An alias repeats what its anchor names, so a few kilobytes of aliases can describe
//! gigabytes. Without aliases a document has no more values than bytes, and no longer texts
//! than itself; a document that yields several times as many is refused. A document that nests
//! deeply is refused too.

mod reader;
mod scalar;

use granit_parser::ScanError;
use serde_json::Map;

use self::reader::Reader;
pub(crate) use self::scalar::ScalarError;
use super::document::Document;

/// How many times larger than the document its value may be.
const MAX_EXPANSION: usize = 8;

/// What each document may yield, however short it is.
const FREE: usize = 64 * 1024;

/// How deep lists and objects may nest.
const MAX_DEPTH: usize = 128;

/// How the report of duplicate members starts.
const DUPLICATES: &str = "yaml: unmarshal errors:";

/// Why a document in YAML was not read.
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

/// Splits a report of duplicate members into the warnings about it: of a document in YAML, one for
/// each line.
pub(crate) fn duplicate_warnings(report: String) -> Vec<String> {
    match report.strip_prefix(DUPLICATES) {
        Some(lines) => lines.split("\n  ").skip(1).map(str::to_owned).collect(),
        None => vec![report],
    }
}

/// Reads the first document of a body. A body without a document, and one that is `null`, is an
/// object without members, as on the real server.
///
/// # Errors
///
/// The same as of [`read`].
pub(crate) fn from_slice(body: &[u8]) -> Result<Document, YamlError> {
    let mut document = read(body)?;
    if document.value.is_null() {
        document.value = Map::new().into();
    }
    Ok(document)
}

/// Reads the first document of a text, which is `null` if the text has none. Further documents are
/// ignored, as on the real server.
///
/// # Errors
///
/// What is wrong with the document, in one line, also if its aliases repeat too much or it nests too
/// deeply.
pub(crate) fn read(body: &[u8]) -> Result<Document, YamlError> {
    let text = std::str::from_utf8(body).map_err(|_| YamlError::NotUtf8)?;
    if text.chars().any(is_forbidden) {
        return Err(YamlError::ControlCharacter);
    }
    let limit = body.len().saturating_mul(MAX_EXPANSION);
    Reader::new(text, limit.saturating_add(FREE)).read()
}

/// Whether the real server refuses a document with this character.
fn is_forbidden(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        _ => character < '\u{a0}',
    }
}

#[cfg(test)]
mod tests;
