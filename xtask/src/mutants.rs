//! `cargo xtask mutants`: mutation testing with cargo-mutants.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Args;

use crate::{
    Result,
    duration::Stopwatch,
    progress,
    repository::{Repository, cargo},
};

pub(crate) mod listed;
mod outcomes;

use self::outcomes::Outcomes;

/// Changes the code in one place at a time, and lists the changes that no test detects.
///
/// The first pass runs the tests of the changed package. The second pass runs the tests of all
/// packages on the embedded server, for the changes that the first pass did not detect. The report
/// is written to `target/mutants/report.md`.
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

    /// Skips the second pass, in which the tests of all packages run.
    #[arg(long)]
    own_tests_only: bool,

    /// Runs only the patches in `tests/mutations`, which no test detected in the past. Fails unless
    /// the tests that each patch names detect it. Works on a copy of this checkout.
    #[arg(long, conflicts_with_all = ["packages", "changed", "shard", "own_tests_only"])]
    listed: bool,

    /// With `--listed`: runs only patches whose names contain this text.
    #[arg(requires = "listed", value_name = "NAME")]
    name: Option<String>,
}

/// The version of cargo-mutants that is installed into `target/tools`.
const VERSION: &str = "26.0.0";

/// Packages that are mutated by default.
const PACKAGES: [&str; 5] = ["listmap", "informer", "controller", "operator", "apiserver"];

/// Packages whose tests run in the second pass: all packages that use the mutated ones.
const TESTED: &str = "windlass,windlass-informer,windlass-controller,windlass-operator,\
                      windlass-apiserver,windlass-model";

/// Seconds after which a test run counts as hanging. A run takes up to two minutes.
const TIMEOUT: &str = "600";

/// Disables the real server, which would make each run minutes longer.
const REAL_SERVER: &str = "WINDLASS_KUBE_APISERVER";

// === impl Mutants ===

impl Mutants {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        if self.listed {
            return listed::run(&repository, self.name.as_deref().unwrap_or_default());
        }
        let stopwatch = Stopwatch::start();
        let target = repository.target()?;
        let program = install(&target)?;
        let output = target.join("mutants");
        fs::create_dir_all(&output)?;
        let diff = self.diff(&repository, &output)?;

        let mut all = Outcomes::default();
        for package in self.packages() {
            let pass = Pass {
                repository: &repository,
                program: &program,
                target: &target,
                package: &package,
            };
            let mut outcomes = pass.run("own", |command| {
                if let Some(diff) = &diff {
                    command.arg("--in-diff").arg(diff);
                }
                if let Some(shard) = &self.shard {
                    command.args(["--shard", shard]);
                }
            })?;
            let missed = outcomes.missed(&package);
            if !missed.is_empty() && !self.own_tests_only {
                let wide = pass.run("all", |command| {
                    command.arg(format!("--test-package={TESTED}"));
                    for mutant in &missed {
                        command.arg("--re").arg(exactly(mutant));
                    }
                })?;
                outcomes.add(wide);
            }
            all.add(outcomes);
        }
        let report = all.report();
        let path = output.join("report.md");
        fs::write(&path, &report)?;
        print!("{report}");
        println!(
            "\nfinished in {}; the report is {}",
            stopwatch.elapsed(),
            repository.relative(&path)
        );
        Ok(ExitCode::SUCCESS)
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

    /// The file with the changed lines, if only these are mutated.
    fn diff(&self, repository: &Repository, output: &Path) -> Result<Option<PathBuf>> {
        if !self.changed {
            return Ok(None);
        }
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
        Ok(Some(path))
    }
}

/// One run of cargo-mutants over a package.
struct Pass<'a> {
    repository: &'a Repository,
    program: &'a Path,
    target: &'a Path,
    package: &'a str,
}

// === impl Pass ===

impl Pass<'_> {
    /// Runs the tests called `tests`, and reads the outcome of each mutant.
    fn run(&self, tests: &str, add: impl FnOnce(&mut Command)) -> Result<Outcomes> {
        let output = self
            .target
            .join("mutants")
            .join(format!("{}-{tests}", self.package));
        if output.exists() {
            fs::remove_dir_all(&output)?;
        }
        let mut command = Command::new(self.program);
        command
            .args(["mutants", "--package", self.package])
            .args(["--timeout", TIMEOUT, "--colors", "never", "--caught"])
            .arg("--output")
            .arg(&output)
            // The mutated copy has a different path in each run. This compiles unmutated packages
            // only once.
            .arg(format!(
                "--cargo-arg=--target-dir={}",
                self.target.join("mutants/target").display()
            ))
            .env_remove(REAL_SERVER)
            .current_dir(self.repository.root());
        add(&mut command);

        let mut done = 0_usize;
        let name = format!("{}, {tests} tests", self.package);
        let ran = progress::run(&name, &mut command, |line| {
            let word = line.split_whitespace().next()?;
            let ended = ["MISSED", "caught", "TIMEOUT", "unviable"].contains(&word);
            done += usize::from(ended);
            ended.then(|| format!("{done} done"))
        })?;
        // cargo-mutants exits with 2 if a mutant was missed and with 3 if one timed out. It writes
        // no lists if there is nothing to mutate.
        let lists = output.join("mutants.out");
        match ran.status.code() {
            Some(0) if !lists.exists() => Ok(Outcomes::default()),
            Some(0 | 2 | 3) => Outcomes::read(self.package, &lists),
            _ => Err(format!("cargo-mutants failed:\n{}", ran.output).into()),
        }
    }
}

/// The regular expression that matches only the name of this mutant.
fn exactly(mutant: &str) -> String {
    let mut pattern = String::from("^");
    for character in mutant.chars() {
        if !character.is_alphanumeric() && !" _/:-=<>!&'\"".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('$');
    pattern
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
    use super::exactly;

    #[test]
    fn the_name_of_a_mutant_is_escaped_in_a_pattern() {
        let name = "a/b.rs:1:2: replace f -> Option<(u8, [T])> with None";
        let pattern = r"^a/b\.rs:1:2: replace f -> Option<\(u8\, \[T\]\)> with None$";
        assert_eq!(exactly(name), pattern);
    }
}
