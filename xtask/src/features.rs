//! `cargo xtask features`: checks each published crate with each combination of its features, and
//! with the minimum Rust version.

use std::process::{Command, ExitCode};

use clap::Args;
use serde_json::Value;

use crate::{
    Result, progress,
    repository::{Repository, cargo},
};

/// Checks each published crate with each combination of its features, then all crates with the
/// minimum Rust version.
///
/// The minimum version is `rust-version` in Cargo.toml. If rustup does not have it installed, a
/// line says so.
#[derive(Args, Debug)]
pub(crate) struct Features {
    /// Checks only the combinations of features.
    #[arg(long)]
    without_oldest: bool,
}

/// A feature only for docs.rs: it selects a version of the Kubernetes types.
const DOCS: &str = "docs-rs";

// === impl Features ===

impl Features {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let metadata = repository.metadata()?;
        let mut failed = 0;
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let name = package["name"].as_str().unwrap_or_default();
            if !is_published(package) {
                continue;
            }
            for set in sets(&names(package)) {
                let mut command = cargo();
                command.args(["check", "--lib", "--no-default-features", "--package", name]);
                command.args(["--features", &set.join(",")]);
                failed += check(&format!("{name} [{}]", set.join(", ")), &mut command)?;
            }
        }
        if !self.without_oldest {
            failed += oldest(&metadata)?;
        }
        Ok(if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Checks all libraries with the minimum Rust version, in a separate target directory.
fn oldest(metadata: &Value) -> Result<usize> {
    let package = &metadata["packages"][0];
    let version = package["rust_version"]
        .as_str()
        .ok_or("a package has no rust-version")?;
    let toolchain = ["run", version, "cargo"];
    let mut rustup = Command::new("rustup");
    let found = rustup.args(toolchain).arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!(
            "skipped: Rust {version} is not installed (rustup toolchain install --profile minimal {version})"
        );
        return Ok(0);
    }
    let mut command = Command::new("rustup");
    command
        .args(toolchain)
        .args(["check", "--workspace", "--lib", "--bins", "--all-features"])
        .args(["--exclude", "xtask", "--target-dir", "target/oldest"]);
    check(&format!("Rust {version}"), &mut command)
}

/// Runs one check. Returns 1 if it failed.
fn check(what: &str, command: &mut Command) -> Result<usize> {
    let ran = progress::run(what, command.current_dir(Repository::here().root()), |_| {
        None
    })?;
    let word = if ran.status.success() { "ok  " } else { "FAIL" };
    println!("{word} {what:60} {:>12}", ran.elapsed);
    if ran.status.success() {
        return Ok(0);
    }
    println!("{}", ran.output);
    Ok(1)
}

/// Whether the package is published.
pub(crate) fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// The features of a package that users can enable.
fn names(package: &Value) -> Vec<&str> {
    let features = package["features"].as_object();
    let names = features.into_iter().flatten().map(|(name, _)| &**name);
    names
        .filter(|name| !["default", DOCS].contains(name))
        .collect()
}

/// All subsets of `names`.
fn sets<'a>(names: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut sets = vec![Vec::new()];
    for name in names {
        let with = sets.iter().map(|set: &Vec<_>| {
            let mut set = set.clone();
            set.push(*name);
            set
        });
        let with = with.collect::<Vec<_>>();
        sets.extend(with);
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::sets;

    #[test]
    fn every_combination_of_features_is_checked_once() {
        assert_eq!(sets(&[]), [[""; 0]]);
        assert_eq!(
            sets(&["a", "b"]),
            [vec![], vec!["a"], vec!["b"], vec!["a", "b"]]
        );
    }
}
