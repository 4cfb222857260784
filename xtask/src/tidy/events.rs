//! The rule that the libraries log with `windlass_informer::log` and use spans through
//! `GuardedSpan`, which never panic.

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

/// The macros and the type themselves.
const GUARDS: [&str; 2] = [
    "crates/informer/src/guarded_span.rs",
    "crates/informer/src/log.rs",
];

const LEVELS: [&str; 5] = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];

/// What enters a span of `tracing` without a guard.
const ENTERS: [&str; 5] = [
    "#[instrument",
    "Instrument as _",
    "tracing::instrument]",
    "Span::current()",
    ".entered()",
];

#[test]
fn libraries_log_without_panics() {
    let sources = Repository::here()
        .sources("rs")
        .expect("the repository can be read");
    let libraries = sources.iter().filter(|source| {
        LIBRARIES.iter().any(|it| source.path.starts_with(it)) && !GUARDS.contains(&&*source.path)
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
    let found = findings("use tracing::Instrument as _;\n");
    assert_eq!(
        found,
        ["a.rs:1: a subscriber may panic; use `windlass_informer::GuardedSpan`"]
    );
    let guarded =
        "log::warn!(name);\nGuardedSpan::new(|| info_span!(\"a\"));\nGuardedSpan::current();\n";
    assert!(findings(guarded).is_empty());
}

fn findings(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let found = lines.filter_map(|(index, line)| {
        let instead = unguarded(line)?;
        let (path, line) = (&source.path, index + 1);
        Some(format!("{path}:{line}: a subscriber may panic; {instead}"))
    });
    found.collect()
}

/// What to do instead of what `line` does without a guard.
fn unguarded(line: &str) -> Option<&'static str> {
    let logs = |level: &&str| line.contains(&format!("tracing::{level}"));
    if LEVELS.iter().any(logs) {
        return Some("log with `windlass_informer::log`");
    }
    let enters = |code: &&str| {
        let mut found = line.match_indices(code);
        found.any(|(at, _)| !line[..at].ends_with("Guarded"))
    };
    let enters = ENTERS.iter().any(enters);
    enters.then_some("use `windlass_informer::GuardedSpan`")
}
