//! `cargo xtask tools`: installs the programs that some checks need, below `target/`.

use std::{env, ffi::OsString, iter, path::PathBuf, process::ExitCode};

use clap::Args;

use crate::{
    Result,
    repository::{Repository, cargo},
};

/// Installs cargo-deny, which `cargo xtask test` uses if it is installed, and cargo-semver-checks,
/// which `cargo xtask semver` uses.
#[derive(Args, Debug)]
pub(crate) struct Tools;

/// The installed versions. Before an update of cargo-deny, check that the licences of all
/// dependencies pass. A new Rust needs a new cargo-semver-checks, which reads its rustdoc.
const TOOLS: [&str; 2] = ["cargo-deny@0.20.2", "cargo-semver-checks@0.51.0"];

// === impl Tools ===

impl Tools {
    #[expect(
        clippy::unused_self,
        reason = "the commands of this repository all have the same form"
    )]
    pub(crate) fn run(&self) -> Result {
        let folder = folder(&Repository::here())?;
        let status = cargo()
            .args(["install", "--locked", "--root"])
            .arg(&folder)
            .args(TOOLS)
            .status()?;
        Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// The path of cargo-deny: the installed one, or the one on the PATH.
pub(crate) fn cargo_deny(repository: &Repository) -> Result<PathBuf> {
    let ours = folder(repository)?.join("bin/cargo-deny");
    Ok(if ours.is_file() {
        ours
    } else {
        "cargo-deny".into()
    })
}

/// The PATH of a program that calls the installed ones.
pub(crate) fn path(repository: &Repository) -> Result<OsString> {
    let ours = folder(repository)?.join("bin");
    let others = env::var_os("PATH").unwrap_or_default();
    let path = iter::once(ours).chain(env::split_paths(&others));
    Ok(env::join_paths(path)?)
}

fn folder(repository: &Repository) -> Result<PathBuf> {
    Ok(repository.target()?.join("tools"))
}
