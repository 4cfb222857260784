//! `cargo xtask bench`: compares Windlass with other frameworks.

use std::{
    env,
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::Args;

use crate::{
    Result,
    go::Program,
    kube_apiserver::{self, Found, Minor},
    progress,
    repository::{Repository, cargo},
};

mod base;

/// Runs the benchmark, and writes the results into docs/performance.md.
///
/// The contenders in Go and the real kube-apiserver are built first if a scenario needs them. A
/// contender that cannot be built is left out.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Runs with small sizes, in less than two minutes; writes nothing.
    #[arg(long)]
    quick: bool,

    /// Runs only the scenarios whose names contain this text; writes nothing.
    #[arg(long)]
    only: Option<String>,

    /// Counts the instructions of some jobs with valgrind instead, and fails if one takes 15 % more
    /// than in this commit.
    #[arg(long, conflicts_with_all = ["quick", "only"], value_name = "COMMIT")]
    base: Option<String>,

    /// The same with the last release: the newest tag `v*` before this commit.
    #[arg(long, conflicts_with_all = ["quick", "only", "base"])]
    last_release: bool,
}

/// The sources of the program with client-go and controller-runtime.
const PEERS: &str = "bench/peers";

/// The sources of the program with grafana-app-sdk, a separate Go module.
const GRAFANA: &str = "bench/peers/grafana";

/// The path of a server that is built already, as for the behaviour suite.
const REAL_SERVER: &str = "WINDLASS_KUBE_APISERVER";

// === impl Bench ===

impl Bench {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        if let Some(base) = &self.base {
            return base::compare(&repository, base);
        }
        if self.last_release {
            return base::last_release(&repository);
        }
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
                _ => {
                    return Err(
                        format!("the benchmark needs {need:?}, which xtask cannot build").into(),
                    );
                }
            };
            match built {
                Ok(program) => {
                    command.arg(format!("--{need}")).arg(program);
                }
                Err(error) => {
                    println!("{who} left out: {}", short(&error.to_string()));
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
            // Everything is built. A different cargo process would rebuild much of it, because
            // the build script of `ring` depends on the package from which cargo was called.
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

/// Builds the benchmark and its counting child. Returns whether the build succeeded.
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

/// Builds the contenders in Go in this folder.
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
    match kube_apiserver::find(repository, Minor::default())? {
        Found::Server(server) => Ok(server.program),
        Found::Nothing(reason) => Err(reason.into()),
    }
}

/// The first two informative lines of an error. Go prints one for each module that it cannot
/// download.
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
        check("Go is not installed", "Go is not installed");
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
