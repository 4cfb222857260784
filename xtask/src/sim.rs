//! `cargo xtask sim`: simulates operators with faults, and checks that planted bugs are found.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, ExitCode},
};

use clap::Args;

use crate::{
    Result,
    duration::Stopwatch,
    patch::{Patch, Tree},
    progress,
    repository::{Repository, cargo},
};

/// Simulates operators under faults: random combinations, or each fault alone at each step.
///
/// Use `--operator` and `--plan` to replay a finding.
#[derive(Args, Debug)]
pub(crate) struct Sim {
    /// The number of runs with random faults for each operator: 100 by default, and 0 with
    /// `--exhaustive`.
    #[arg(long, conflicts_with = "planted")]
    seeds: Option<u64>,

    /// Makes runs with random faults for this number of minutes, and reports how many there were.
    /// Each operator has an equal share of the time.
    #[arg(long, conflicts_with_all = ["seeds", "planted"])]
    minutes: Option<u64>,

    /// Runs each operator and each simulated example with each fault at each step.
    #[arg(long, conflicts_with = "planted")]
    exhaustive: bool,

    /// Simulates only this operator: the name of a test in crates/simulate/tests/campaign.
    #[arg(long, conflicts_with = "planted")]
    operator: Option<String>,

    /// Replays one plan, such as `7: crash-after@12`, and prints its trace.
    #[arg(long, requires = "operator")]
    plan: Option<String>,

    /// Checks that planted bugs are found, each by the expected oracle: the bugs of operators, and
    /// each patch in crates/simulate/tests/planted, applied to a copy of this checkout.
    #[arg(long)]
    planted: bool,

    /// Only the planted bugs with these names, such as `a_lease_is_not_checked`.
    #[arg(requires = "planted")]
    names: Vec<String>,
}

/// How many runs a simulation makes.
#[derive(Clone, Copy, Debug)]
struct Amount {
    seeds: u64,
    seconds: Option<u64>,
    single_faults: usize,
}

/// A planted bug.
struct Planted {
    name: String,
    /// The test that finds it.
    test: String,
    place: Place,
}

/// Where a planted bug is.
enum Place {
    /// In an operator; its test knows by which oracle it is found.
    Operator,
    /// In the framework: a patch, and the oracles of which one finds it.
    Framework { patch: Patch, oracles: Vec<String> },
}

pub(crate) const PATCHES: &str = "crates/simulate/tests/planted";

/// How many runs with random faults are made for each operator by default.
const SEEDS: u64 = 100;

/// How many runs with random faults a planted bug has to survive to count as missed.
const PLANTED_SEEDS: u64 = 400;

/// The examples that have simulations of their own.
const EXAMPLES: [&str; 3] = ["quickstart", "tour", "gateway"];

// === impl Sim ===

impl Sim {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        if self.planted {
            return self.find_planted(&repository);
        }
        let filter = match &self.operator {
            Some(operator) => format!("campaigns::{operator}"),
            None => "campaigns::".to_owned(),
        };
        let exact = self.operator.is_some();
        let mut amount = Amount {
            seeds: self
                .seeds
                .unwrap_or(if self.exhaustive { 0 } else { SEEDS }),
            seconds: None,
            single_faults: if self.exhaustive { usize::MAX } else { 0 },
        };
        if let Some(minutes) = self.minutes {
            // Built first: the time is that of the runs.
            let operators = tests(repository.root(), &filter, exact)?.len();
            let share = u64::try_from(operators.max(1))?;
            amount.seconds = Some(minutes.saturating_mul(60) / share);
        }
        let stopwatch = Stopwatch::start();
        let mut command = campaign(repository.root(), &filter, exact, amount);
        if let Some(plan) = &self.plan {
            command.env("WINDLASS_SIMULATION", plan);
        }
        let mut faults = BTreeMap::new();
        let mut passed = self.simulate("simulations", &mut command, &mut faults)?;
        if self.exhaustive && self.operator.is_none() {
            let mut command = examples(repository.root(), amount);
            passed &= self.simulate("simulations of examples", &mut command, &mut faults)?;
        }
        passed &= self.show(&faults);
        let word = if passed { "ok" } else { "FAILED" };
        println!("{word} in {}", stopwatch.elapsed());
        Ok(if passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Prints how often each fault took effect. Returns false if all operators were simulated and
    /// one fault never took effect: then nothing was tried with it.
    fn show(&self, faults: &BTreeMap<String, u64>) -> bool {
        println!("how often each fault took effect:");
        for (fault, count) in faults {
            println!("{count:>8} {fault}");
        }
        let missing = faults.values().any(|count| *count == 0);
        if missing && self.operator.is_none() {
            println!("a fault never took effect");
        }
        !missing || self.operator.is_some()
    }

    /// Runs simulations, prints their results, and adds up how often each fault took effect.
    /// Returns whether they passed.
    fn simulate(
        &self,
        what: &str,
        command: &mut Command,
        faults: &mut BTreeMap<String, u64>,
    ) -> Result<bool> {
        let ran = progress::run(what, command, note)?;
        if !ran.status.success() {
            println!("{}", ran.output);
            return Ok(false);
        }
        let (mut single, mut random) = (0, 0);
        for line in ran.output.lines() {
            if self.plan.is_some() || runs(line).is_some() || line.contains(" walks passed in ") {
                println!("{line}");
            }
            for (fault, count) in effects(line) {
                *faults.entry(fault.to_owned()).or_default() += count;
            }
            let (one, many) = runs(line).unwrap_or_default();
            single += one;
            random += many;
        }
        println!("{single} runs with one fault and {random} with random faults passed");
        Ok(true)
    }

    /// Whether every planted bug is found.
    fn find_planted(&self, repository: &Repository) -> Result {
        let stopwatch = Stopwatch::start();
        let mut missed = Vec::new();
        let mut found = 0;
        let mut all = Planted::all(repository)?;
        all.retain(|it| self.names.is_empty() || self.names.contains(&it.name));
        let tree = Tree::new(repository, "planted")?;
        // The bug of each patch is active only where the environment variable `WINDLASS_PLANTED`
        // has its name, so that one build serves all.
        let patches = all.iter().filter_map(|planted| match &planted.place {
            Place::Framework { patch, .. } => Some(patch),
            Place::Operator => None,
        });
        tree.patched(repository, patches)?;
        for planted in all {
            match planted.find(repository.root(), &tree)? {
                Ok(how) => {
                    println!("{}: {how}", planted.name);
                    found += 1;
                }
                Err(output) => {
                    println!("{output}\n{}: MISSED", planted.name);
                    missed.push(planted.name);
                }
            }
        }
        println!(
            "{found} planted bugs were caught in {}",
            stopwatch.elapsed()
        );
        if missed.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        println!("missed: {}", missed.join(", "));
        Ok(ExitCode::FAILURE)
    }
}

// === impl Planted ===

impl Planted {
    /// Those of operators, and those of the framework.
    fn all(repository: &Repository) -> Result<Vec<Self>> {
        let names = tests(repository.root(), "planted::", false)?;
        let mut all: Vec<_> = names
            .into_iter()
            .map(|test| Self {
                name: test.trim_start_matches("planted::").to_owned(),
                test,
                place: Place::Operator,
            })
            .collect();
        for patch in Patch::all(repository, PATCHES)? {
            let oracles = patch.field("oracles")?.split_whitespace();
            all.push(Self {
                name: patch.name.clone(),
                test: format!("campaigns::{}", patch.field("test")?),
                place: Place::Framework {
                    oracles: oracles.map(str::to_owned).collect(),
                    patch,
                },
            });
        }
        Ok(all)
    }

    /// How it is caught, or the output of the simulation that does not catch it.
    fn find(&self, root: &Path, tree: &Tree) -> Result<std::result::Result<String, String>> {
        let amount = Amount {
            seeds: PLANTED_SEEDS,
            seconds: None,
            single_faults: usize::MAX,
        };
        let ran = match &self.place {
            Place::Operator => {
                let mut command = campaign(root, &self.test, true, amount);
                command.env("WINDLASS_SIMULATION_PLANTED", "1");
                progress::run(&self.name, &mut command, note)?
            }
            Place::Framework { .. } => {
                let mut command = campaign(root, &self.test, true, amount);
                tree.enter(&mut command);
                command.env("WINDLASS_PLANTED", &self.name);
                progress::run(&self.name, &mut command, note)?
            }
        };
        let after = |prefix: &str| {
            let found = ran.output.lines().find_map(|line| line.split_once(prefix));
            found.map(|(_, rest)| rest.trim().to_owned())
        };
        let oracle = after("\" broke ").unwrap_or_default();
        let is_found = match &self.place {
            Place::Operator => ran.status.success() && !oracle.is_empty(),
            Place::Framework { oracles, .. } => oracles.contains(&oracle),
        };
        if !is_found {
            return Ok(Err(ran.output));
        }
        let plan = after("faults (fault@step):").unwrap_or_default();
        let elapsed = ran.elapsed;
        Ok(Ok(format!(
            "caught by {oracle} with plan {plan:?} in {elapsed}"
        )))
    }
}

/// The simulations of operators: the tests whose names begin with `filter`.
fn campaign(root: &Path, filter: &str, exact: bool, amount: Amount) -> Command {
    let mut command = cargo();
    command.args(["test", "--profile", "simulate"]);
    command.args(["--package", "windlass-simulate", "--test", "campaign", "--"]);
    command.arg(filter).args(exact.then_some("--exact"));
    prepare(&mut command, root, amount);
    command
}

/// The simulations of the examples.
fn examples(root: &Path, amount: Amount) -> Command {
    let mut command = cargo();
    command.args(["test", "--profile", "simulate", "--package", "windlass"]);
    for example in EXAMPLES {
        command.args(["--example", example]);
    }
    command.args(["--", "simulation::"]);
    prepare(&mut command, root, amount);
    command
}

fn prepare(command: &mut Command, root: &Path, amount: Amount) {
    command
        // One simulation at a time: each uses all processors.
        .args(["--nocapture", "--test-threads", "1"])
        .env("WINDLASS_SIMULATION_SEEDS", amount.seeds.to_string())
        .env(
            "WINDLASS_SIMULATION_SINGLE_FAULTS",
            amount.single_faults.to_string(),
        )
        .env("RUST_BACKTRACE", "0")
        .current_dir(root);
    if let Some(seconds) = amount.seconds {
        command.env("WINDLASS_SIMULATION_SECONDS", seconds.to_string());
    }
}

/// The names of the simulations that `filter` selects. Builds them.
fn tests(root: &Path, filter: &str, exact: bool) -> Result<Vec<String>> {
    let none = Amount {
        seeds: 0,
        seconds: None,
        single_faults: 0,
    };
    let mut command = campaign(root, filter, exact, none);
    let ran = progress::run("build", command.arg("--list"), |_| None)?;
    if !ran.status.success() {
        return Err(ran.output.into());
    }
    let names = ran
        .output
        .lines()
        .filter_map(|it| it.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

/// The lines of the output that are shown while a command runs.
fn note(line: &str) -> Option<String> {
    let shows_progress = line.contains(" runs; now ") || line.starts_with("test ");
    shows_progress.then(|| line.chars().take(100).collect())
}

/// The numbers of runs with one fault and with random faults, in the line of a summary.
fn runs(line: &str) -> Option<(u64, u64)> {
    let (before, after) = line.split_once(" runs with one fault and ")?;
    let single = before.rsplit(' ').next()?.parse().ok()?;
    let random = after.split(' ').next()?.parse().ok()?;
    Some((single, random))
}

/// How often each fault took effect, in the second line of a summary.
fn effects(line: &str) -> impl Iterator<Item = (&str, u64)> {
    let list = line.strip_prefix("  faults that took effect: ");
    let parts = list.unwrap_or_default().split(", ");
    parts.filter_map(|part| {
        let (fault, count) = part.split_once(' ')?;
        Some((fault, count.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::{effects, runs};

    #[test]
    fn the_faults_of_a_summary_are_counted() {
        let line = "  faults that took effect: crash-before 12, gap 0";
        let counts: Vec<_> = effects(line).collect();
        assert_eq!(counts, [("crash-before", 12), ("gap", 0)]);
        assert_eq!(effects("test campaigns::plain ... ok").count(), 0);
    }

    #[test]
    fn the_runs_of_a_summary_are_counted() {
        let line = "plain: 9 steps; 40 runs with one fault and 7 with random faults passed in 1 s";
        assert_eq!(runs(line), Some((40, 7)));
        assert_eq!(runs("test campaigns::plain ... ok"), None);
    }
}
