//! Rules of the repository, as tests, so that CI needs no other checks.
//!
//! A failed rule prints one sentence for each finding, which says what to do.

// Rules for each file.
mod events;
mod header;
mod ignored;
mod language;
mod lengths;
mod locks;
mod loops;
mod names;
mod orphans;
mod pure;

// Rules for the repository.
mod apiserver;
mod architecture;
mod circles;
mod commands;
mod deploying;
mod directions;
mod forms;
mod from_kube_rs;
mod links;
mod mutants;
mod observability;
mod patches;
mod publish;
mod quotes;
mod reliability;
mod rows;
mod versions;
mod workflows;

/// Fails if there are `findings`, and prints all of them.
#[track_caller]
fn nothing(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
