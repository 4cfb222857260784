//! Mutations that no test detected in the past, kept as patches, and the tests that detect them now.

use std::process::ExitCode;

use crate::{
    Result,
    duration::Stopwatch,
    patch::{Patch, Tree},
    progress,
    repository::{Repository, cargo},
};

/// The folder of the patches. The line `tests: …` of a patch has the arguments of the `cargo test`
/// that must fail.
pub(crate) const PATCHES: &str = "tests/mutations";

/// Applies each patch whose name contains `part`, and runs its tests.
///
/// # Errors
///
/// If a patch does not apply or does not compile.
pub(crate) fn run(repository: &Repository, part: &str) -> Result {
    let stopwatch = Stopwatch::start();
    let tree = Tree::new(repository, "mutations")?;
    let mut missed = Vec::new();
    let mut tried = 0_usize;
    for patch in Patch::all(repository, PATCHES)? {
        if !patch.name.contains(part) {
            continue;
        }
        tried += 1;
        tree.patched(repository, [&patch])?;
        let tests = patch.field("tests")?;
        let mut test = cargo();
        test.args(["test", "--quiet"])
            .args(tests.split_whitespace());
        tree.enter(&mut test);
        let ran = progress::run(&patch.name, &mut test, |_| None)?;
        if ran.output.contains("error: could not compile") {
            return Err(format!("{} does not compile:\n{}", patch.name, ran.output).into());
        }
        if ran.status.success() {
            println!("MISSED   {}: {}", patch.name, patch.title);
            missed.push(patch.name);
        } else {
            println!("detected {} ({})", patch.name, ran.elapsed);
        }
    }
    println!(
        "{tried} mutations, {} detected, in {}",
        tried - missed.len(),
        stopwatch.elapsed()
    );
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("missed: {}", missed.join(", "));
    Ok(ExitCode::FAILURE)
}
