//! `cargo xtask mutants`: mutation testing with cargo-mutants.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Mutex, PoisonError},
};

use clap::Args;

use crate::{
    Result,
    duration::Stopwatch,
    progress,
    repository::{Repository, cargo},
};

pub(crate) mod listed;

// All mutants in one build.
mod build;
mod mutant;
mod switches;

// The tests, and what they find.
mod outcomes;
mod run;
mod trials;

#[cfg(test)]
#[expect(
    unreachable_pub,
    reason = "it is public in the crate that the copy has"
)]
mod active;

use self::{
    build::Build,
    mutant::Mutant,
    outcomes::{Outcome, Outcomes},
    run::{Test, parallel},
    trials::Trials,
};

/// Changes the code in one place at a time, and lists the changes that no test detects.
///
/// All changes are compiled at once, each behind a switch, in a copy of this checkout. Then each
/// change runs the tests that reach it, the fastest first, until one fails: first the tests of the
/// changed package, then those of all packages on the embedded server. Doc tests are left out. The
/// report is written to `target/mutants/report.md`. The changes are tried in a random order, and an
/// interrupted run continues where it was: an outcome is kept until the changed file changes, and
/// for an undetected change until any file does.
#[derive(Args, Debug)]
pub(crate) struct Mutants {
    /// A package, with or without `windlass-`; can be repeated. Default: listmap, informer,
    /// controller, operator and apiserver.
    #[arg(long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,

    /// Changes only lines that differ from the commit in `--base`.
    #[arg(long)]
    changed: bool,

    /// The commit with which `--changed` compares the working tree.
    #[arg(long, default_value = "HEAD~1", value_name = "COMMIT")]
    base: String,

    /// Runs part `K` of `N` of the changes, counted from 0: for a sample, or for several machines.
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,

    /// Tries only changes whose names contain this text, such as `workers.rs` or `in Lines::`; can be
    /// repeated. All changes are compiled, so that the next run with another text compiles nothing.
    #[arg(long, value_name = "TEXT")]
    matching: Vec<String>,

    /// Runs only the tests of the given packages; those of the apiserver include `behaviour`, which
    /// compares it with a real server.
    #[arg(long)]
    own_tests_only: bool,

    /// Runs only the patches in `tests/mutations`, which no test detected in the past. Fails unless
    /// the tests that each patch names detect it. Works on a copy of this checkout.
    #[arg(long, conflicts_with_all = ["packages", "changed", "shard", "matching", "own_tests_only"])]
    listed: bool,

    /// With `--listed`: runs only patches whose names contain this text.
    #[arg(requires = "listed", value_name = "NAME")]
    name: Option<String>,
}

/// The version of cargo-mutants that is installed into `target/tools`.
const VERSION: &str = "26.0.0";

/// Packages that are mutated by default, in the order in which their mutants are tried.
const PACKAGES: [&str; 5] = ["listmap", "operator", "informer", "controller", "apiserver"];

/// Tests of the root package that are among the own tests of another package.
const OWN_TESTS: [(&str, &str); 1] = [("windlass-apiserver", "server")];

/// Packages whose tests run in the second pass: all packages that use the mutated ones.
const TESTED: [&str; 9] = [
    "windlass",
    "windlass-listmap",
    "windlass-informer",
    "windlass-controller",
    "windlass-operator",
    "windlass-runtime",
    "windlass-apiserver",
    "windlass-model",
    "windlass-simulate",
];

// === impl Mutants ===

impl Mutants {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        if self.listed {
            return listed::run(&repository, self.name.as_deref().unwrap_or_default());
        }
        run::check_programs()?;
        let stopwatch = Stopwatch::start();
        let target = repository.target()?;
        let program = install(&target)?;
        let output = target.join("mutants");
        fs::create_dir_all(&output)?;

        let mut options = self.options(&repository, &output)?;
        let mutants = Mutant::list(&repository, &program, &options)?;
        options.push("--no-config".to_owned());
        let all = Mutant::list(&repository, &program, &options)?;
        let known: BTreeSet<&str> = mutants.iter().map(|it| &*it.name).collect();
        let excluded = all.into_iter().filter(|it| !known.contains(&*it.name));

        let mut outcomes = Outcomes::open(&repository, output.join("outcomes"), &mutants)?;
        if !self.to_try(&mutants, &outcomes).is_empty() {
            let left_out = self.test(&repository, &mutants, &output, &mut outcomes)?;
            fs::write(output.join("left-out.txt"), left_out.join("\n"))?;
        }
        let report = outcomes.report(&excluded.collect::<Vec<_>>());
        let path = output.join("report.md");
        fs::write(&path, &report)?;
        for package in self.packages() {
            let missed = outcomes.missed(&package).join("\n");
            fs::write(output.join(format!("missed-{package}.txt")), missed)?;
        }
        print!("{report}");
        println!(
            "\nfinished in {}; the report is {}",
            stopwatch.elapsed(),
            repository.relative(&path)
        );
        Ok(ExitCode::SUCCESS)
    }

    /// The mutants that this run tries: those without an outcome that `--matching` selects.
    fn to_try(&self, mutants: &[Mutant], outcomes: &Outcomes<'_>) -> Vec<usize> {
        let open = outcomes.open_ids();
        open.filter(|id| self.matches(&mutants[*id].name)).collect()
    }

    fn matches(&self, name: &str) -> bool {
        self.matching.is_empty() || self.matching.iter().any(|text| name.contains(text))
    }

    /// Runs the tests for the mutants of [`to_try`](Self::to_try). Returns the tests that are left
    /// out.
    fn test(
        &self,
        repository: &Repository,
        mutants: &[Mutant],
        output: &Path,
        outcomes: &mut Outcomes<'_>,
    ) -> Result<Vec<String>> {
        let mut packages = self.packages();
        let own = packages.clone();
        let mut root_tests = Vec::new();
        if self.own_tests_only {
            let tests = OWN_TESTS
                .iter()
                .filter(|(package, _)| own.iter().any(|it| it == package));
            root_tests.extend(tests.map(|(_, test)| *test));
        } else {
            packages.extend(TESTED.map(Into::into));
            packages.sort();
            packages.dedup();
        }
        let known = [Outcome::Unviable, Outcome::Untried].map(|it| outcomes.ids(it));
        let mut build = Build::new(repository, mutants, known, output.join("keep-const.txt"))?;
        let binaries = build.tests(&packages, &root_tests);
        // Also if another error stopped the build: the next run continues without them.
        for id in build.unviable {
            outcomes.set(id, Outcome::Unviable, "")?;
        }
        for id in build.untried {
            outcomes.set(id, Outcome::Untried, "")?;
        }
        let mut open = self.to_try(mutants, outcomes);
        // In a random order, so that an interrupted run is a sample; the same in every run.
        open.sort_by_cached_key(|id| {
            let package = own.iter().position(|it| *it == mutants[*id].package);
            (package, outcomes::hash(&mutants[*id].name))
        });
        let binaries = binaries?;
        let (tests, left_out) =
            Test::measure(&binaries, &output.join("measured"), &outcomes.list())?;
        let trials = Trials::new(mutants, &tests);
        let outcomes = Mutex::new(outcomes);
        parallel("mutants tried", open.len(), |i| {
            let (outcome, detail) = trials.run(open[i])?;
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.set(open[i], outcome, &detail)
        })?;
        Ok(left_out)
    }

    /// The full names of the packages to mutate.
    fn packages(&self) -> Vec<String> {
        let given: Vec<&str> = if self.packages.is_empty() {
            PACKAGES.to_vec()
        } else {
            self.packages.iter().map(String::as_str).collect()
        };
        let full = |name: &str| format!("windlass-{}", name.trim_start_matches("windlass-"));
        given.into_iter().map(full).collect()
    }

    /// The options of cargo-mutants that select the mutants.
    fn options(&self, repository: &Repository, output: &Path) -> Result<Vec<String>> {
        let packages = self.packages().into_iter();
        let mut options: Vec<_> = packages.map(|name| format!("--package={name}")).collect();
        options.extend(self.shard.iter().map(|part| format!("--shard={part}")));
        if self.changed {
            let git = Command::new("git")
                .args(["diff", &self.base])
                .current_dir(repository.root())
                .output()?;
            if !git.status.success() {
                let why = String::from_utf8_lossy(&git.stderr).trim().to_owned();
                return Err(format!("cannot compare with {}: {why}", self.base).into());
            }
            let path = output.join("changed.diff");
            fs::write(&path, git.stdout)?;
            options.push(format!("--in-diff={}", path.display()));
        }
        Ok(options)
    }
}

/// The path of cargo-mutants, which is installed once.
fn install(target: &Path) -> Result<PathBuf> {
    let root = target.join("tools");
    let program = root.join("bin/cargo-mutants");
    let version = |program: &Path| {
        let output = Command::new(program)
            .args(["mutants", "--version"])
            .output();
        output.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains(VERSION))
    };
    if version(&program) {
        return Ok(program);
    }
    let mut command = cargo();
    command
        .args(["install", "--locked", "--version", VERSION, "--root"])
        .arg(&root)
        .arg("cargo-mutants");
    let ran = progress::run("cargo-mutants, installing", &mut command, |_| None)?;
    if ran.status.success() {
        Ok(program)
    } else {
        Err(format!("cannot install cargo-mutants {VERSION}:\n{}", ran.output).into())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Mutants;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        mutants: Mutants,
    }

    const FIRST: &str = "a.rs:1:1: replace + in f";
    const SECOND: &str = "b.rs:2:1: delete ! in g";

    #[test]
    fn matching_selects_changes_by_any_of_its_texts() {
        let selected = |arguments: &[&str]| -> Vec<&str> {
            let Command { mutants } = Command::parse_from(["mutants"].iter().chain(arguments));
            let names = [FIRST, SECOND].into_iter();
            names.filter(|name| mutants.matches(name)).collect()
        };
        assert_eq!(selected(&[]), [FIRST, SECOND]);
        assert_eq!(selected(&["--matching", "in f"]), [FIRST]);
        let both = ["--matching", "a.rs", "--matching", "delete"];
        assert_eq!(selected(&both), [FIRST, SECOND]);
        assert!(selected(&["--matching", "c.rs"]).is_empty());
    }
}
