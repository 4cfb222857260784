//! The rule that each patch in crates/model/tests/reverts applies.

use crate::{
    repository::Repository,
    reverts::{apply, patches},
};

use super::nothing;

/// `cargo xtask reverts` applies the patches and runs the histories, which takes long.
#[test]
fn each_patch_that_undoes_a_fix_applies() {
    let repository = Repository::here();
    let patches = patches(&repository).expect("the patches can be read");
    assert!(patches.len() >= 13, "defects 1 to 8 have 13 fixes");
    let findings = patches.iter().filter_map(|patch| {
        let refused = apply(repository.root(), patch, &["--check"]).err()?;
        Some(format!(
            "{refused}; write the patch again for the current code"
        ))
    });
    nothing(&findings.collect::<Vec<_>>());
}
