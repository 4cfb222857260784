//! `cargo xtask soak`: random work and faults for minutes, on both servers.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{
    Result,
    kube_apiserver::{self, Found},
    repository::{Repository, cargo},
};

/// Runs random work under random faults for minutes, and prints progress, memory and what was lost.
///
/// First on the embedded server and then on the real kube-apiserver, each for this long.
#[derive(Args, Debug)]
pub(crate) struct Soak {
    /// How long, for each server. From five minutes on memory must stay flat.
    #[arg(long, default_value_t = 10)]
    minutes: u64,

    /// Leaves the real kube-apiserver out.
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
            match kube_apiserver::find(&repository)? {
                Found::Server(server) => {
                    command.env("WINDLASS_KUBE_APISERVER", server.program);
                }
                Found::Nothing(reason) => println!("not run on kube-apiserver: {reason}"),
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
