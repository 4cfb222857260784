//! Every file begins with what it is.

use super::{nothing, pure};
use crate::repository::Repository;

#[test]
fn every_file_begins_with_a_sentence() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    let without = sources
        .iter()
        .filter(|source| !begins_with_a_sentence(&source.text));
    let findings = without.map(|source| {
        format!(
            "{}: begin it with `//!` and a sentence that says what it is",
            source.path
        )
    });
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn a_sentence_has_an_end() {
    assert!(begins_with_a_sentence("//! What one uses.\n"));
    assert!(begins_with_a_sentence(
        "//! What one\n//! uses.\n//!\n//! More\n"
    ));
    assert!(!begins_with_a_sentence(
        "//! What one uses\n//!\n//! More.\n"
    ));
    assert!(!begins_with_a_sentence("// What one uses.\n"));
    assert!(!begins_with_a_sentence("use std;\n"));
    assert!(begins_with_a_sentence(
        "#![doc = include_str!(\"../README.md\")]\n"
    ));
}

/// Whether the first paragraph of the header ends as sentences do, or the header is a whole
/// page from elsewhere.
fn begins_with_a_sentence(text: &str) -> bool {
    if text.starts_with("#![doc = include_str!(") {
        return true;
    }
    let header = text.lines().map_while(|line| line.strip_prefix("//!"));
    let paragraph = header.map(str::trim).take_while(|line| !line.is_empty());
    let last = paragraph
        .last()
        .map(|line| line.trim_end_matches(pure::MARK).trim_end());
    last.is_some_and(|line| line.ends_with(['.', '?', '!', ':']))
}
