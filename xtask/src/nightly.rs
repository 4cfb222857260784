//! `cargo xtask nightly`: the long random runs, which take too long for each change.

use std::{
    env,
    process::{Command, ExitCode},
};

use clap::Args;

use crate::{
    Result,
    duration::Stopwatch,
    kube_apiserver::{self, Found, Minor},
    progress,
    repository::{Repository, cargo},
};

/// Makes the long random runs: histories, requests to both servers, simulations, fuzz targets,
/// random work under faults, and the tests of the tests.
///
/// A run that fails prints its seed. The other runs are still made. The defaults take about three
/// hours on two cores.
#[derive(Args, Debug)]
pub(crate) struct Nightly {
    /// Makes only the runs with these names.
    #[arg(value_parser = names())]
    only: Vec<String>,

    /// The time for each fuzz target and for each server of the soak test, in minutes.
    #[arg(long, default_value_t = 10)]
    minutes: u32,

    /// Chooses other random requests and other inputs of fuzz targets than the default.
    #[arg(long)]
    seed: Option<u64>,

    /// Does not use the real kube-apiserver.
    #[arg(long)]
    without_kube_apiserver: bool,
}

/// One long run.
struct Run {
    name: &'static str,

    /// The arguments of cargo, or of this program if the first one is `xtask`.
    arguments: &'static str,

    /// The variables that set its length.
    lengths: &'static [(&'static str, &'static str)],
}

/// All runs. Where a test runs with each change too, its length here is at least four times that.
const RUNS: [Run; 8] = [
    Run {
        name: "histories",
        arguments: "test --package windlass-model --test histories random",
        lengths: &[
            ("WINDLASS_HISTORIES", "10000"),
            ("WINDLASS_SERVER_HISTORIES", "1000"),
        ],
    },
    Run {
        name: "requests",
        arguments: "test --package windlass --test server random",
        lengths: &[
            ("WINDLASS_OBJECTS", "300"),
            ("WINDLASS_OWNERSHIPS", "20"),
            ("WINDLASS_REQUESTS", "400"),
            ("WINDLASS_SEQUENCES", "300"),
        ],
    },
    Run {
        name: "simulations",
        arguments: "xtask sim --seeds 1000",
        lengths: &[],
    },
    Run {
        name: "fuzz",
        arguments: "xtask fuzz",
        lengths: &[],
    },
    Run {
        name: "soak",
        arguments: "xtask soak",
        lengths: &[],
    },
    Run {
        name: "planted",
        arguments: "xtask sim --planted",
        lengths: &[],
    },
    Run {
        name: "reverts",
        arguments: "xtask reverts",
        lengths: &[],
    },
    Run {
        name: "mutants",
        arguments: "xtask mutants --listed",
        lengths: &[],
    },
];

fn names() -> Vec<&'static str> {
    RUNS.iter().map(|run| run.name).collect()
}

// === impl Nightly ===

impl Nightly {
    pub(crate) fn run(&self) -> Result {
        let stopwatch = Stopwatch::start();
        let repository = Repository::here();
        let server = self.server(&repository)?;
        let is_wanted =
            |run: &&Run| self.only.is_empty() || self.only.iter().any(|it| it == run.name);
        let mut failed = Vec::new();
        for run in RUNS.iter().filter(is_wanted) {
            let mut command = self.command(run)?;
            command.current_dir(repository.root());
            match &server {
                Found::Server(server) => command.env(kube_apiserver::BUILT, &server.program),
                Found::Nothing(_) => command.env_remove(kube_apiserver::BUILT),
            };
            let ran = progress::run(run.name, &mut command, |line| Some(line.trim().to_owned()))?;
            let passed = ran.status.success();
            let word = if passed { "ok  " } else { "FAIL" };
            println!("{word} {:28} {:>12}", run.name, ran.elapsed);
            if !passed {
                println!("{}", ran.output);
                failed.push(run.name);
            }
        }
        println!("all runs finished in {}", stopwatch.elapsed());
        if let Found::Nothing(reason) = &server {
            println!("skipped: requests to the real kube-apiserver: {reason}");
        }
        if failed.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        println!("failed: {}", failed.join(", "));
        Ok(ExitCode::FAILURE)
    }

    fn server(&self, repository: &Repository) -> Result<Found> {
        if self.without_kube_apiserver {
            let reason = "disabled by --without-kube-apiserver".to_owned();
            return Ok(Found::Nothing(reason));
        }
        kube_apiserver::find(repository, Minor::default())
    }

    fn command(&self, run: &Run) -> Result<Command> {
        let (mut command, arguments) = match run.arguments.strip_prefix("xtask ") {
            Some(arguments) => (Command::new(env::current_exe()?), arguments),
            None => (cargo(), run.arguments),
        };
        command.args(arguments.split(' '));
        command.envs(run.lengths.iter().copied());
        if ["fuzz", "soak"].contains(&run.name) {
            command.args(["--minutes", &self.minutes.to_string()]);
        }
        if run.name == "soak" && self.without_kube_apiserver {
            command.arg("--without-kube-apiserver");
        }
        match (run.name, self.seed) {
            ("fuzz", seed) => _ = command.args(["--seed", &seed.unwrap_or(1).to_string()]),
            ("requests", Some(seed)) => _ = command.env("WINDLASS_SEED", seed.to_string()),
            _ => {}
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{Nightly, RUNS};
    use crate::{Cli, Command as XtaskCommand};

    #[test]
    fn each_command_of_a_run_exists_and_accepts_its_flags() {
        let nightly = nightly(&["--minutes", "3", "--seed", "7", "--without-kube-apiserver"]);
        for run in RUNS
            .iter()
            .filter(|run| run.arguments.starts_with("xtask "))
        {
            let command = nightly.command(run).expect("it has a program");
            let words = command
                .get_args()
                .map(|it| it.to_string_lossy().into_owned());
            let words = ["xtask".to_owned()].into_iter().chain(words);
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{}: {error}", run.name);
            }
        }
    }

    #[test]
    fn a_seed_changes_the_requests_and_the_inputs() {
        let nightly = nightly(&["--seed", "7", "fuzz", "requests"]);
        assert_eq!(nightly.only, ["fuzz", "requests"]);
        let run = |name: &str| RUNS.iter().find(|run| run.name == name).expect("a run");
        let fuzz = nightly.command(run("fuzz")).expect("it has a program");
        assert!(
            format!("{fuzz:?}").ends_with(r#""--minutes" "10" "--seed" "7""#),
            "{fuzz:?}"
        );
        let requests = nightly.command(run("requests")).expect("it has a program");
        let set: Vec<_> = requests
            .get_envs()
            .filter_map(|(name, it)| Some((name.to_str()?, it?.to_str()?)))
            .collect();
        assert!(set.contains(&("WINDLASS_SEED", "7")), "{set:?}");
        assert!(set.contains(&("WINDLASS_SEQUENCES", "300")), "{set:?}");
    }

    fn nightly(arguments: &[&str]) -> Nightly {
        let words = ["xtask", "nightly"]
            .into_iter()
            .chain(arguments.iter().copied());
        let XtaskCommand::Nightly(nightly) = Cli::parse_from(words).command else {
            panic!("it is another command");
        };
        nightly
    }
}
