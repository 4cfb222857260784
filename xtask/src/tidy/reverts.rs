//! The rule that each patch that undoes a fix or plants a bug applies.

use crate::{
    repository::Repository,
    reverts::{apply, patches},
    sim,
};

use super::nothing;

/// `cargo xtask reverts` applies them and plays histories, which takes long.
#[test]
fn each_patch_that_undoes_a_fix_applies() {
    let repository = Repository::here();
    let patches = patches(&repository).expect("the patches can be read");
    assert!(patches.len() >= 13, "defects 1 to 8 have 13 fixes");
    let findings = patches.iter().filter_map(|patch| {
        let refused = apply(repository.root(), patch, &["--check"]).err()?;
        Some(format!("{refused}; write it anew for the code as it is"))
    });
    nothing(&findings.collect::<Vec<_>>());
}

/// `cargo xtask sim --planted` applies them and searches for the bugs, which takes long.
#[test]
fn each_patch_that_plants_a_bug_applies() {
    let repository = Repository::here();
    let patches = sim::patches(&repository).expect("the patches can be read");
    assert!(patches.len() >= 10, "ten bugs of the framework are planted");
    let findings = patches.iter().filter_map(|patch| {
        let refused = apply(repository.root(), patch, &["--recount", "--check"]).err()?;
        Some(format!("{refused}; write it anew for the code as it is"))
    });
    nothing(&findings.collect::<Vec<_>>());
}
