//! `cargo xtask semver`: finds changes of the public API that break users.

use std::process::ExitCode;

use clap::Args;

use crate::{
    Result,
    features::is_published,
    progress,
    repository::{Repository, cargo},
    tools,
};

/// Compares the public API of each published crate with an earlier commit, and fails if a change
/// needs a higher version than the crate has.
///
/// Uses cargo-semver-checks, which `cargo xtask tools` installs. Builds the documentation of both
/// commits, which takes some minutes.
#[derive(Args, Debug)]
pub(crate) struct Semver {
    /// The commit to compare with, such as the tag of the last release.
    #[arg(long, default_value = "HEAD~1", value_name = "COMMIT")]
    base: String,
}

// === impl Semver ===

impl Semver {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let metadata = repository.metadata()?;
        let mut command = cargo();
        command
            .env("PATH", tools::path(&repository)?)
            .current_dir(repository.root())
            .args(["semver-checks", "--baseline-rev", &self.base]);
        for package in metadata["packages"].as_array().into_iter().flatten() {
            if is_published(package) {
                let name = package["name"].as_str().unwrap_or_default();
                command.args(["--package", name]);
            }
        }
        let ran = progress::run("cargo semver-checks", &mut command, crate_of)?;
        print!("{}", ran.output);
        println!("compared with {} in {}", self.base, ran.elapsed);
        if ran.output.contains("no such command") {
            return Err("cargo-semver-checks is not installed: run `cargo xtask tools`".into());
        }
        Ok(if ran.status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// The crate that a line of the program is about.
fn crate_of(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("Checking ")?;
    rest.split(' ').next().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::crate_of;

    #[test]
    fn progress_names_the_crate_that_is_checked() {
        let line = "    Checking windlass-operator v0.1.0 -> v0.1.0 (no change; assume patch)";
        assert_eq!(crate_of(line).as_deref(), Some("windlass-operator"));
        assert_eq!(crate_of("     Parsing windlass-operator v0.1.0"), None);
    }
}
