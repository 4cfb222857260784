//! `cargo xtask reverts`: reverts each fix of a defect, and checks that the random histories of the
//! reference model find the defect.

use std::process::ExitCode;

use clap::Args;

use crate::{
    Result,
    patch::{Patch, Tree},
    progress,
    repository::{Repository, cargo},
};

/// Reverts each fix of defects 1 to 8, one at a time, and checks that the random histories find the
/// defect.
///
/// Works on a copy of this checkout in `target/reverts`. The copy is kept, so that the next run
/// compiles less.
#[derive(Args, Debug)]
pub(crate) struct Reverts {
    /// Applies only the patches with these names, such as `4a`. Default: all patches.
    names: Vec<String>,

    /// The number of histories after which a defect counts as not found.
    #[arg(long, default_value_t = 10_000)]
    histories: u64,
}

/// The folder of the patches. Each patch reverts one fix.
pub(crate) const PATCHES: &str = "crates/model/tests/reverts";

// === impl Reverts ===

impl Reverts {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let wanted = |name: &str| self.names.is_empty() || self.names.iter().any(|it| it == name);
        let tree = Tree::new(&repository, "reverts")?;
        let mut rows = Vec::new();
        let mut missed = 0;
        for patch in Patch::all(&repository, PATCHES)? {
            let name = &patch.name;
            if !wanted(name) {
                continue;
            }
            tree.patched(&repository, [&patch])?;
            let found = histories(&tree, name, self.histories)?;
            missed += usize::from(found.is_none());
            let found = found.unwrap_or_else(|| "NOT FOUND".to_owned());
            rows.push(format!("{name:<4} {found:<60} {}", patch.title));
            println!("{}", rows.last().map_or("", String::as_str));
        }
        println!("\n{}", rows.join("\n"));
        println!("{} fixes reverted, {missed} defects not found", rows.len());
        Ok(if missed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Runs random histories. Returns the history that failed, and the rule that it violated.
fn histories(tree: &Tree, name: &str, count: u64) -> Result<Option<String>> {
    let mut command = cargo();
    command
        .args(["test", "--offline", "--package", "windlass-model"])
        .args(["--test", "histories", "random_histories"])
        .args(["--", "--nocapture"])
        .env("WINDLASS_HISTORIES", count.to_string());
    tree.enter(&mut command);
    let ran = progress::run(&format!("without the fix {name}"), &mut command, |_| None)?;
    if ran.status.success() {
        return Ok(None);
    }
    let spins = "this history spins";
    let found = |line: &&str| line.contains("history ") || line.contains(spins);
    let Some(line) = ran.output.lines().find(found) else {
        return Err(format!("the histories did not run:\n{}", ran.output).into());
    };
    // `history 72: the_rule (D21): how`
    let line = line.split_once(" (").map_or(line, |(line, _)| line);
    Ok(Some(line.trim().to_owned()))
}
