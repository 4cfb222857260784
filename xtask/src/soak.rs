//! `cargo xtask soak`: runs random work under random faults, on both servers.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{
    Result,
    kube_apiserver::{self, Found, Minor},
    repository::{Repository, cargo},
};

/// Runs random work under random faults, and prints progress, memory and losses.
///
/// Runs first on the embedded server, then on the real kube-apiserver.
#[derive(Args, Debug)]
pub(crate) struct Soak {
    /// The time for each server, in minutes. After five minutes memory must not grow.
    #[arg(long, default_value_t = 10)]
    minutes: u64,

    /// Does not use the real kube-apiserver.
    #[arg(long)]
    without_kube_apiserver: bool,
}

// === impl Soak ===

impl Soak {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let mut command: Command = cargo();
        command
            .current_dir(repository.root())
            .args(["test", "--package", "windlass", "--test", "soak", "--"])
            .args(["--nocapture", "--test-threads=1"])
            .env("WINDLASS_SOAK_MINUTES", self.minutes.to_string())
            .env_remove("WINDLASS_KUBE_APISERVER");
        if !self.without_kube_apiserver {
            match kube_apiserver::find(&repository, Minor::default())? {
                Found::Server(server) => {
                    command.env("WINDLASS_KUBE_APISERVER", server.program);
                }
                Found::Nothing(reason) => println!("skipped on kube-apiserver: {reason}"),
            }
        }
        let status = command.status()?;
        Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
