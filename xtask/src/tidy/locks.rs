//! The rule that no statement takes one lock twice.
//!
//! A guard in an expression lives until the end of its statement. A second guard of the same `RwLock`
//! then waits for a writer that waits for the first: a deadlock that only shows under load. A guard in
//! the head of a `match` lives through its body, which this rule does not see.

use std::collections::HashSet;

use super::nothing;
use crate::repository::{Repository, Source};

const METHODS: [&str; 3] = [".read()", ".write()", ".lock()"];

#[test]
fn no_statement_takes_a_lock_twice() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    let code = sources.iter().filter(|source| {
        source.path.starts_with("src/")
            || (source.path.starts_with("crates/") && source.path.contains("/src/"))
    });
    nothing(&code.flat_map(findings).collect::<Vec<_>>());
}

#[test]
fn two_guards_in_one_statement_are_found() {
    let findings = |text: &str| {
        findings(&Source {
            path: "a.rs".to_owned(),
            text: text.to_owned(),
        })
    };
    let both = "let both = Both {\n    a: it.route.read().a(),\n    b: it.route.read().b(),\n};";
    assert_eq!(
        findings(both),
        ["a.rs: one statement takes the lock `it.route` twice; name one guard"]
    );
    assert!(findings("let a = it.route.read().a();\nlet b = it.route.read().b();").is_empty());
    assert!(findings("let a = (x.lock().a(), y.lock().b());").is_empty());
    assert!(findings("fn a() { self.x.lock().a() }\n\nfn b() { self.x.lock().b() }").is_empty());
}

fn findings(source: &Source) -> Vec<String> {
    let code = source
        .text
        .split("\nmod tests {")
        .next()
        .unwrap_or_default();
    // A statement ends with a semicolon; a function or a block with a brace at the end of a line.
    let statements = code.split([';']).flat_map(|part| part.split("}\n"));
    let twice = statements.filter_map(taken_twice);
    twice
        .map(|lock| {
            let path = &source.path;
            format!("{path}: one statement takes the lock `{lock}` twice; name one guard")
        })
        .collect()
}

/// The lock that a statement takes twice.
fn taken_twice(statement: &str) -> Option<&str> {
    let mut seen = HashSet::new();
    METHODS
        .iter()
        .flat_map(|method| statement.match_indices(method))
        .map(|(at, _)| {
            let before = statement[..at].trim_end();
            let is_path = |it: char| it.is_alphanumeric() || matches!(it, '_' | '.');
            let begin = before.rfind(|it| !is_path(it)).map_or(0, |it| it + 1);
            &before[begin..]
        })
        .find(|lock| !lock.is_empty() && !seen.insert(*lock))
}
