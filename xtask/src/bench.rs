//! `cargo xtask bench`: Windlass side by side with its peers.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{
    Result,
    repository::{Repository, cargo},
};

/// Runs the benchmark: all of it, into docs/performance.md, or a small one.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Small, in under two minutes; writes nothing.
    #[arg(long)]
    quick: bool,

    /// Only the scenarios whose names contain this; writes nothing.
    #[arg(long)]
    only: Option<String>,
}

// === impl Bench ===

impl Bench {
    pub(crate) fn run(&self) -> Result {
        let mut command: Command = cargo();
        command
            .args(["run", "--quiet", "--release", "-p", "windlass-bench", "--"])
            .current_dir(Repository::here().root());
        if self.quick {
            command.arg("--quick");
        }
        if let Some(only) = &self.only {
            command.args(["--only", only]);
        }
        let well = command.status()?.success();
        Ok(if well {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
