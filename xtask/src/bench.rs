//! `cargo xtask bench`: Windlass side by side with its peers.

use std::{
    env,
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::Args;

use crate::{
    Result,
    go::Program,
    kube_apiserver::{self, Found},
    progress,
    repository::{Repository, cargo},
};

/// Runs the benchmark: all of it, into docs/performance.md, or a small one.
///
/// The peers in Go and the real kube-apiserver are built first, where a scenario needs them
/// and their sources have changed; who cannot be built is not compared.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Small, in under two minutes; writes nothing.
    #[arg(long)]
    quick: bool,

    /// Only the scenarios whose names contain this; writes nothing.
    #[arg(long)]
    only: Option<String>,
}

/// Where client-go and controller-runtime are.
const PEERS: &str = "bench/peers";

/// Where grafana-app-sdk is, with modules of its own.
const GRAFANA: &str = "bench/peers/grafana";

/// A real server that is built already, as for the behaviour suite.
const REAL_SERVER: &str = "WINDLASS_KUBE_APISERVER";

// === impl Bench ===

impl Bench {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        if !build(&repository)? {
            return Ok(ExitCode::FAILURE);
        }
        let needs = self.command(&repository)?.arg("needs").output()?;
        if !needs.status.success() {
            eprint!("{}", String::from_utf8_lossy(&needs.stderr));
            return Ok(ExitCode::FAILURE);
        }
        let mut command = self.command(&repository)?;
        for need in String::from_utf8_lossy(&needs.stdout).lines() {
            let (who, built) = match need {
                "peers" => (
                    "client-go and controller-runtime are",
                    peer(&repository, PEERS, "bench-peers/peers"),
                ),
                "grafana-app-sdk" => (
                    "grafana-app-sdk is",
                    peer(&repository, GRAFANA, "bench-peers/grafana"),
                ),
                "kube-apiserver" => ("kube-apiserver is", real_server(&repository)),
                _ => return Err(format!("{need:?} is needed and has no build step here").into()),
            };
            match built {
                Ok(program) => {
                    command.arg(format!("--{need}")).arg(program);
                }
                Err(error) => {
                    println!("{who} not compared: {}", short(&error.to_string()));
                }
            }
        }
        let well = command.status()?.success();
        Ok(if well {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn command(&self, repository: &Repository) -> Result<Command> {
        let binary = format!("windlass-bench{}", env::consts::EXE_SUFFIX);
        let mut command = Command::new(repository.target()?.join("release").join(binary));
        command
            .current_dir(repository.root())
            // All is built, and another cargo than ours would build much of it again: the
            // build script of `ring` asks for the package that cargo was called by.
            .env_remove("CARGO");
        if self.quick {
            command.arg("--quick");
        }
        if let Some(only) = &self.only {
            command.args(["--only", only]);
        }
        Ok(command)
    }
}

/// Builds the benchmark and the children that count, and says whether that went well.
fn build(repository: &Repository) -> Result<bool> {
    let mut command = cargo();
    command
        .args(["build", "--release", "-p", "windlass-bench", "--bins"])
        .current_dir(repository.root());
    let ran = progress::run("building the benchmark", &mut command, |line| {
        let crates = line.trim().strip_prefix("Compiling ")?;
        crates.split(' ').next().map(str::to_owned)
    })?;
    if !ran.status.success() {
        eprint!("{}", ran.output);
    }
    Ok(ran.status.success())
}

/// Builds the peers in Go that are in this folder.
fn peer(repository: &Repository, folder: &'static str, binary: &str) -> Result<PathBuf> {
    let program = Program::read(repository, folder, binary)?;
    match program.missing(folder) {
        Some(reason) => Err(reason.into()),
        None => program.build(folder, "-s -w"),
    }
}

fn real_server(repository: &Repository) -> Result<PathBuf> {
    if let Some(program) = env::var_os(REAL_SERVER) {
        return Ok(program.into());
    }
    match kube_apiserver::find(repository)? {
        Found::Server(server) => Ok(server.program),
        Found::Nothing(reason) => Err(reason.into()),
    }
}

/// The first two lines of an error that say something; Go says one for each module that it
/// cannot have.
fn short(error: &str) -> String {
    let lines = error
        .lines()
        .filter(|it| !it.starts_with("go: downloading"));
    lines.take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_go_build_failure_is_reported_in_one_line() {
        check("there is no Go here", "there is no Go here");
        check(
            "cannot build bench/peers:\ngo: downloading a v1\na@v1: 403\nb@v1: 403\n",
            "cannot build bench/peers: a@v1: 403",
        );
    }

    #[track_caller]
    fn check(error: &str, said: &str) {
        assert_eq!(short(error), said);
    }
}
