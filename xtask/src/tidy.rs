//! Rules of the repository itself, as tests, so that CI has no checks of its own.
//!
//! Each fails with a sentence per finding that says what to do.

// Of each file.
mod header;
mod ignored;
mod language;
mod names;
mod orphans;
mod pure;

// Of the repository.
mod architecture;
mod directions;
mod links;
mod observability;
mod patches;
mod publish;
mod reliability;
mod rows;

/// Fails if there are `findings`, and tells them all.
#[track_caller]
fn nothing(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
