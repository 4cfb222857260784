//! The rule that the libraries log with `windlass_informer::log`, whose events never panic.

use super::nothing;
use crate::repository::{Repository, Source};

/// The crates that run in the process of an operator.
const LIBRARIES: [&str; 6] = [
    "crates/informer/src/",
    "crates/controller/src/",
    "crates/composite/src/",
    "crates/operator/src/",
    "crates/runtime/src/",
    "src/",
];

/// The macros themselves.
const MACROS: &str = "crates/informer/src/log.rs";

const LEVELS: [&str; 5] = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];

#[test]
fn libraries_log_without_panics() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    let libraries = sources.iter().filter(|source| {
        LIBRARIES.iter().any(|it| source.path.starts_with(it)) && source.path != MACROS
    });
    nothing(&libraries.flat_map(findings).collect::<Vec<_>>());
}

#[test]
fn an_event_of_tracing_is_found() {
    let findings = |text: &str| {
        findings(&Source {
            path: "a.rs".to_owned(),
            text: text.to_owned(),
        })
    };
    let found = findings("\n    tracing::warn!(name, \"failed\");\n");
    assert_eq!(
        found,
        ["a.rs:2: a subscriber may panic; log with `windlass_informer::log`"]
    );
    assert!(findings("log::warn!(name);\ntracing::info_span!(\"a\");\n").is_empty());
}

fn findings(source: &Source) -> Vec<String> {
    let calls = |line: &&str| {
        let calls = |level: &&str| line.contains(&format!("tracing::{level}"));
        LEVELS.iter().any(calls)
    };
    let lines = source.text.lines().enumerate();
    let found = lines.filter(|(_, line)| calls(line));
    let found = found.map(|(index, _)| {
        format!(
            "{}:{}: a subscriber may panic; log with `windlass_informer::log`",
            source.path,
            index + 1
        )
    });
    found.collect()
}
