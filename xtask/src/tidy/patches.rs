//! The rule that all patches of `cargo xtask reverts`, `cargo xtask mutants --listed` and `cargo xtask sim --planted` apply.

use crate::{mutants::listed, patch::Patch, repository::Repository, reverts, sim};

use super::nothing;

/// These commands also run the tests of the patches, which takes long.
#[test]
fn each_patch_applies() {
    let repository = Repository::here();
    let mut findings = Vec::new();
    for (folder, least) in [
        (reverts::PATCHES, 13),
        (listed::PATCHES, 35),
        (sim::PATCHES, 10),
    ] {
        let patches = Patch::all(&repository, folder).expect("the patches can be read");
        assert!(patches.len() >= least, "{folder} has {}", patches.len());
        let refused = patches.iter().map(|patch| patch.check(repository.root()));
        findings.extend(refused.filter_map(|it| Some(it.err()?.to_string())));
    }
    nothing(&findings);
}
