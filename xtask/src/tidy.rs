//! What must hold of the repository itself, as tests: no check is CI's secret.
//!
//! Each fails with a sentence per finding that says what to do.

// Of each file.
mod header;
mod ignored;
mod orphans;
mod pure;

// Of the house.
mod architecture;
mod directions;
mod observability;
mod reliability;
mod rows;

/// Fails if there are `findings`, and tells them all.
#[track_caller]
fn nothing(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
