//! The rule that files marked pure have no clock, no lock and no `async`.

use super::{architecture, nothing};
use crate::repository::{Repository, Source};

/// Words that a file marked *(pure)* must not contain: for waiting, locking and reading the time.
const IMPURE: [&str; 13] = [
    "async ",
    ".await",
    "Mutex",
    "RwLock",
    "DashMap",
    "Condvar",
    "tokio::spawn",
    "::now(",
    "sleep(",
    "SystemTime",
    "thread_rng",
    "rand::rng()",
    "std::env",
];

/// The mark in the header of a file, or in ARCHITECTURE.md.
pub(super) const MARK: &str = "*(pure)*";

#[test]
fn files_marked_pure_have_no_async_no_lock_and_no_clock() {
    let repository = Repository::here();
    let architecture = repository.read("ARCHITECTURE.md").unwrap_or_default();
    let sources = repository
        .sources("rs")
        .expect("the repository can be read");
    let pure = sources
        .iter()
        .filter(|it| is_marked(it) || is_named_pure(it, &architecture));
    nothing(&pure.flat_map(findings).collect::<Vec<_>>());
}

#[test]
fn code_is_searched_and_comments_and_tests_are_not() {
    let text = "//! *(pure)*\n#[cfg(test)]\nmod script;\n// A Mutex would do.\nfn f() {}\nstatic M: Mutex<()>;\n#[cfg(test)]\nmod tests { use Mutex; }\n";
    let source = Source {
        path: "a.rs".to_owned(),
        text: text.to_owned(),
    };
    assert!(is_marked(&source));
    assert_eq!(
        findings(&source),
        ["a.rs:6: the file is marked *(pure)* but contains `Mutex`"]
    );
}

fn is_marked(source: &Source) -> bool {
    source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .any(|line| line.contains(MARK))
}

/// Whether ARCHITECTURE.md names this file directly before the mark.
fn is_named_pure(source: &Source, architecture: &str) -> bool {
    architecture.match_indices(MARK).any(|(at, _)| {
        let line = architecture[..at].lines().last().unwrap_or_default();
        let named = architecture::in_backticks(line).last();
        named.is_some_and(|path| architecture::paths(path).any(|it| it == source.path))
    })
}

fn findings(source: &Source) -> Vec<String> {
    let lines = source.text.lines();
    // A test module in a separate file is one line; code follows it.
    let code = lines.clone().zip(lines.skip(1).chain([""]));
    let code = code.take_while(|(line, next)| line.trim() != "#[cfg(test)]" || next.ends_with(';'));
    let code = code
        .map(|(line, _)| line)
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = code.filter_map(|(index, line)| {
        let what = IMPURE.iter().find(|what| line.contains(**what))?;
        let (path, what) = (&source.path, what.trim());
        Some(format!(
            "{path}:{}: the file is marked {MARK} but contains `{what}`",
            index + 1
        ))
    });
    found.collect()
}
