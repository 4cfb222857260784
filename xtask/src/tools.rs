//! `cargo xtask tools`: installs the programs that some checks need, below `target/`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use crate::{
    Result,
    repository::{Repository, cargo},
};

/// Installs cargo-deny, which `cargo xtask test` uses if it is installed.
#[derive(Args, Debug)]
pub(crate) struct Tools;

/// The installed version. Before an update, check that the licences of all dependencies pass.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

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
            .arg(CARGO_DENY)
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

fn folder(repository: &Repository) -> Result<PathBuf> {
    Ok(repository.target()?.join("tools"))
}
