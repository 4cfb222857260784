//! The rule that every file begins with a sentence that says what it contains.

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
            "{}: begin the file with `//!` and a sentence that says what it contains",
            source.path
        )
    });
    nothing(&findings.collect::<Vec<_>>());
}

/// Words with which questions begin: "What is.", "Whose turn it is."
const QUESTIONS: [&str; 8] = [
    "What", "Who", "Whose", "Whether", "Which", "Where", "Why", "How",
];

#[test]
fn a_header_names_what_the_file_holds() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    let riddles = sources
        .iter()
        .filter(|source| !source.path.contains("tests/"))
        .filter(|source| is_question(&source.text));
    let findings = riddles.map(|source| {
        format!(
            "{}: begin the header with a noun that says what the file contains, not with a question",
            source.path
        )
    });
    nothing(&findings.collect::<Vec<_>>());
}

#[test]
fn a_question_is_known_by_its_first_word() {
    assert!(is_question("//! Whose turn it is.\n"));
    assert!(!is_question("//! The queue of ready lanes.\n"));
    assert!(!is_question("//! Whole objects.\n"));
}

fn is_question(text: &str) -> bool {
    let first = text.strip_prefix("//! ").unwrap_or_default();
    first
        .split_whitespace()
        .next()
        .is_some_and(|word| QUESTIONS.contains(&word))
}

#[test]
fn a_sentence_has_an_end() {
    assert!(begins_with_a_sentence("//! The public types.\n"));
    assert!(begins_with_a_sentence(
        "//! The public\n//! types.\n//!\n//! More\n"
    ));
    assert!(!begins_with_a_sentence(
        "//! The public types\n//!\n//! More.\n"
    ));
    assert!(!begins_with_a_sentence("// The public types.\n"));
    assert!(!begins_with_a_sentence("use std;\n"));
    assert!(begins_with_a_sentence(
        "#![doc = include_str!(\"../README.md\")]\n"
    ));
}

/// Whether the first paragraph of the header is a sentence, or the header includes a document.
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
