//! `cargo xtask test`: runs everything that CI checks.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{
    Result,
    duration::Stopwatch,
    kube_apiserver::{self, Found, Minor},
    progress,
    repository::Repository,
    tools,
};

mod changes;
mod clients;
mod full;
mod quick;
mod step;
mod totals;

use self::full::{
    built_examples, checks, command, docs, examples, licences, on_both_servers, packages, tables,
    unit,
};
use self::{
    clients::{Clients, Controllers},
    step::Step,
    totals::Totals,
};

/// Runs everything that CI checks, and prints one line of totals at the end.
///
/// Checks formatting, lints, documentation and packages. Runs unit tests, doc tests, the behaviour
/// suite on the embedded server and on a real kube-apiserver, and the examples. If a step fails,
/// the other steps still run.
#[derive(Args, Debug)]
pub(crate) struct Test {
    /// Checks only what differs from main, or from the last commit on main: formatting, lints and
    /// unit tests of the changed packages and of those that depend on them, the behaviour suite on
    /// the embedded server, the tidy tests and those of the
    /// quickstart.
    #[arg(long, conflicts_with_all = ["without_kube_apiserver", "minor"])]
    quick: bool,

    /// Does not use the real kube-apiserver.
    #[arg(long)]
    without_kube_apiserver: bool,

    /// The minor version of the real kube-apiserver, and of the embedded one in the tests on both.
    #[arg(long, value_enum, default_value_t)]
    minor: Minor,

    /// Prints the output of all steps, not only of failed ones.
    #[arg(long)]
    verbose: bool,
}

/// The result of all steps.
#[derive(Default)]
struct Outcome {
    totals: Totals,
    failed: Vec<String>,
}

/// The test binaries whose tests run on both servers.
const ON_BOTH_SERVERS: [&str; 6] = [
    "behaviour",
    "kube_rs",
    "server",
    "freeze",
    "process",
    "soak",
];

// === impl Test ===

impl Test {
    pub(crate) fn run(&self) -> Result {
        let stopwatch = Stopwatch::start();
        let repository = Repository::here();
        let mut outcome = Outcome::default();
        let mut not_run = Vec::new();
        if self.quick {
            for step in quick::steps(&repository)? {
                self.check(&repository, step, &mut outcome)?;
            }
            println!("all steps finished in {}", stopwatch.elapsed());
            return Ok(outcome.end(None));
        }
        let metadata = repository.metadata()?;

        let mut clients = Clients::find(&repository, &mut outcome, &mut not_run);
        let controllers = Controllers::start(&repository, self.minor);
        let all = [
            packages(&metadata),
            built_examples(),
            unit(&metadata),
            command(),
            docs(),
        ];
        for mut step in checks().into_iter().chain(all) {
            clients.tell(&mut step);
            self.check(&repository, step, &mut outcome)?;
        }
        if clients.has_go() {
            self.check(&repository, tables(), &mut outcome)?;
        }
        let deny = tools::cargo_deny(&repository)?;
        if Command::new(&deny).arg("--version").output().is_ok() {
            self.check(&repository, licences(&deny), &mut outcome)?;
        } else {
            let why = "cargo-deny is not installed (cargo xtask tools)";
            not_run.push(format!("the licences of dependencies: {why}"));
        }
        if !has_promtool() {
            let why = "promtool is not on the PATH (it comes with Prometheus)";
            not_run.push(format!("promtool on the metrics: {why}"));
        }
        let found = self.server(&repository, &mut outcome);
        controllers.add_to(&mut clients, &mut outcome, &mut not_run);
        for test in ON_BOTH_SERVERS {
            let mut step = on_both_servers(test, &found);
            step.command.env(kube_apiserver::MINOR, self.minor.number());
            clients.tell(&mut step);
            self.check(&repository, step, &mut outcome)?;
        }
        for step in examples(&repository)? {
            self.check(&repository, step, &mut outcome)?;
        }

        println!("all steps finished in {}", stopwatch.elapsed());
        if let Found::Nothing(reason) = &found {
            not_run.push(format!(
                "{} tests on the real kube-apiserver: {reason}",
                outcome.totals.ignored_real()
            ));
        }
        for what in not_run {
            println!("skipped: {what}");
        }
        Ok(outcome.end(match &found {
            Found::Server(server) => Some(server.version.as_str()),
            Found::Nothing(_) => None,
        }))
    }

    /// Runs one step, and prints its output if it failed.
    fn check(&self, repository: &Repository, step: Step, outcome: &mut Outcome) -> Result<()> {
        let Step {
            name,
            mut command,
            on_servers,
        } = step;
        let ran = progress::run(&name, command.current_dir(repository.root()), |line| {
            line.trim_start()
                .starts_with("Running ")
                .then(|| line.trim().to_owned())
        })?;
        let totals = if on_servers {
            Totals::by_server(&ran.output)
        } else {
            Totals::read(&ran.output)
        };
        let counted = if totals.is_empty() {
            String::new()
        } else {
            format!("  {totals}")
        };
        let word = if ran.status.success() { "ok  " } else { "FAIL" };
        println!("{word} {name:28} {:>12}{counted}", ran.elapsed);
        if !ran.status.success() || self.verbose {
            println!("{}", ran.output);
        }
        outcome.totals.add(totals);
        if !ran.status.success() {
            outcome.fail(name, totals.failed() == 0);
        }
        Ok(())
    }

    fn server(&self, repository: &Repository, outcome: &mut Outcome) -> Found {
        if self.without_kube_apiserver {
            return Found::Nothing("disabled by --without-kube-apiserver".to_owned());
        }
        let stopwatch = Stopwatch::start();
        let name = "kube-apiserver, real";
        match kube_apiserver::find(repository, self.minor) {
            Ok(found) => {
                if let Found::Server(server) = &found {
                    println!(
                        "ok   {name:28} {:>12}  {}",
                        stopwatch.elapsed(),
                        server.version
                    );
                }
                found
            }
            Err(error) => {
                println!("FAIL {name:28} {:>12}\n{error}", stopwatch.elapsed());
                outcome.fail(name.to_owned(), true);
                Found::Nothing("it cannot be built, see above".to_owned())
            }
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// Records a failed step; with `counts` it counts as a failed test.
    fn fail(&mut self, name: String, counts: bool) {
        if counts {
            self.totals.fail();
        }
        self.failed.push(name);
    }

    /// Prints the steps that failed and the totals; `version` is that of the real server.
    fn end(self, version: Option<&str>) -> ExitCode {
        if !self.failed.is_empty() {
            println!("failed: {}", self.failed.join(", "));
        }
        println!("{}", self.totals.line(version));
        if self.failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// Without promtool, its test prints that it is skipped, and passes.
fn has_promtool() -> bool {
    let output = Command::new("promtool").arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}
