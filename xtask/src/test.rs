//! `cargo xtask test`: runs everything that CI checks.

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use clap::Args;
use serde_json::Value;

use crate::{
    Result,
    duration::Stopwatch,
    features::is_published,
    fuzz,
    kube_apiserver::{self, Found, Minor},
    progress,
    repository::Repository,
    tools,
};

mod changes;
mod clients;
mod quick;
mod step;
mod totals;

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

/// The version of the Kubernetes types for the documentation, as in the dev-dependencies.
const K8S_VERSION: &str = "1.36";

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

/// Checks that the generated tables match the modules in tests/kube-apiserver/go.mod.
fn tables() -> Step {
    let arguments = [
        "run",
        "--quiet",
        "--package",
        "xtask",
        "--",
        "protobuf-tables",
        "--check",
    ];
    Step::new("protobuf tables", arguments)
}

fn checks() -> [Step; 3] {
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    let mut documentation = Step::new("documentation", ["doc", "--workspace", "--no-deps"]);
    documentation
        .command
        .env("RUSTDOCFLAGS", "-D warnings")
        // The user's binary normally selects the version; the documentation has none.
        .env("K8S_OPENAPI_ENABLED_VERSION", K8S_VERSION);
    [
        Step::new("format", ["fmt", "--all", "--check"]),
        Step::new("lints", lints),
        documentation,
    ]
}

/// Packages each published crate.
fn packages(metadata: &Value) -> Step {
    let mut step = Step::new(
        "packages",
        ["package", "--no-verify", "--allow-dirty", "--offline"],
    );
    let packages = metadata["packages"].as_array().into_iter().flatten();
    for package in packages.filter(|package| is_published(package)) {
        let name = package["name"].as_str().unwrap_or_default();
        step.command.args(["--package", name]);
    }
    step
}

fn licences(deny: &Path) -> Step {
    let mut command = Command::new(deny);
    // Not `--offline`: cargo downloads the crates of other platforms, which the build does not need.
    // No check here uses the database of advisories; `cargo deny check advisories` is a job of CI.
    command.args(["--locked", "check", "licenses", "bans", "sources"]);
    Step {
        name: "licences".to_owned(),
        command,
        on_servers: false,
    }
}

/// Without promtool, its test prints that it is skipped, and passes.
fn has_promtool() -> bool {
    let output = Command::new("promtool").arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Builds the examples together: the tests that run them build one by one.
fn built_examples() -> Step {
    Step::new(
        "build of the examples",
        ["build", "--workspace", "--examples"],
    )
}

/// Runs all tests except doc tests and the tests on both servers, which are counted separately.
fn unit(metadata: &Value) -> Step {
    let mut step = Step::new(
        "unit and model tests",
        ["test", "--workspace", "--no-fail-fast"],
    );
    step.command.args(["--lib", "--bins"]);
    for test in targets(metadata, "test").filter(|name| !ON_BOTH_SERVERS.contains(name)) {
        step.command.args(["--test", test]);
    }
    // Only for the examples that have tests.
    for example in targets(metadata, "example") {
        step.command.args(["--example", example]);
    }
    // A fixed seed, so that the next run finds the same.
    step.command.env(fuzz::SEED, "1");
    step
}

/// The command of the API server, which needs a feature.
fn command() -> Step {
    Step::new(
        "command windlass-apiserver",
        [
            "test",
            "--workspace",
            "--features",
            "windlass-apiserver/cli",
            "--test",
            "command",
        ],
    )
}

fn docs() -> Step {
    Step::new(
        "documentation's tests",
        ["test", "--workspace", "--no-fail-fast", "--doc"],
    )
}

fn on_both_servers(test: &str, found: &Found) -> Step {
    let arguments = ["test", "--workspace", "--no-fail-fast", "--test", test];
    let mut step = Step::new(test, arguments);
    step.on_servers = true;
    match found {
        Found::Server(server) => step.command.env(kube_apiserver::BUILT, &server.program),
        Found::Nothing(_) => step.command.env_remove(kube_apiserver::BUILT),
    };
    step
}

/// The examples that run until they are stopped, on a cluster; their tests are in `tests/examples`.
const ON_A_CLUSTER: [&str; 1] = ["production"];

/// Runs each other example to its end.
fn examples(repository: &Repository) -> Result<Vec<Step>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(repository.join("examples"))? {
        let path = entry?.path();
        let main = path.join("main.rs");
        if path.extension().is_some_and(|it| it == "rs") || main.is_file() {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    names.retain(|name| !ON_A_CLUSTER.contains(&name.as_str()));
    names.sort_unstable();
    Ok(names
        .iter()
        .map(|name| {
            Step::new(
                format!("example {name}"),
                ["run", "--quiet", "--example", name.as_str()],
            )
        })
        .collect())
}

/// The names of all test binaries of the workspace that need no feature.
fn targets<'a>(metadata: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    targets
        .filter(|target| target["test"] == true && target["required-features"].is_null())
        .filter(move |target| {
            let kinds = target["kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|it| it == kind))
        })
        .filter_map(|target| target["name"].as_str())
}
