//! Compares the instructions of this checkout with those of a release.
//!
//! Times depend on the machine and on its other work; the number of instructions does not, so that
//! a shared runner of CI can compare it.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use super::build;
use crate::{
    Result, progress,
    repository::{Repository, cargo},
};

/// How many more instructions than the release a job may take: a new check costs a few percent, and
/// a copy of each object or a second decoding more than this.
const LIMIT_PERCENT: u64 = 15;

/// The jobs that are counted, as arguments of the benchmark.
const JOBS: [(&str, &str); 4] = [
    ("events of Pods", "events --kind pod --delivered 3000"),
    (
        "events of Pods, not decoded",
        "events --kind pod --packed --delivered 3000",
    ),
    ("reconciles", "reconciles --keys 2000 --rounds 5"),
    ("creates on the server", "creates --created 2000"),
];

/// The instructions of one job.
#[derive(Clone, Copy, Debug)]
struct Count {
    base: u64,
    now: u64,
}

/// Compares with the last tag `v*`. Without a tag there is nothing to compare.
pub(super) fn last_release(repository: &Repository) -> Result {
    let described = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0", "--match", "v*"])
        .current_dir(repository.root())
        .output()?;
    if described.status.success() {
        return compare(repository, String::from_utf8(described.stdout)?.trim());
    }
    println!("skipped: there is no release to compare with");
    Ok(ExitCode::SUCCESS)
}

/// Compares with `base`, a tag or a commit.
pub(super) fn compare(repository: &Repository, base: &str) -> Result {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("valgrind, which counts the instructions, is not on the PATH".into());
    }
    if !build(repository)? {
        return Ok(ExitCode::FAILURE);
    }
    let folder = repository.target()?.join("bench-base");
    let Some(older) = build_base(repository, base, &folder)? else {
        return Ok(ExitCode::FAILURE);
    };
    let ours = program(&repository.target()?);
    let mut is_worse = false;
    for (name, arguments) in JOBS {
        let count = Count {
            base: instructions(&older, arguments)?,
            now: instructions(&ours, arguments)?,
        };
        is_worse |= count.is_worse();
        println!("{}", count.line(name, base));
    }
    Ok(ExitCode::from(u8::from(is_worse)))
}

/// Builds the benchmark of `base` in a checkout below the target directory.
fn build_base(repository: &Repository, base: &str, folder: &Path) -> Result<Option<PathBuf>> {
    let checkout = folder.join("checkout");
    let path = checkout.display().to_string();
    // The checkout of an earlier run, if there is one.
    _ = git(repository, &["worktree", "remove", "--force", &path]);
    git(
        repository,
        &["worktree", "add", "--force", "--detach", &path, base],
    )?;
    let target = folder.join("target");
    let mut command = cargo();
    command
        .args(["build", "--release", "-p", "windlass-bench", "--bins"])
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(&checkout);
    let ran = progress::run(&format!("building {base}"), &mut command, |line| {
        let crates = line.trim().strip_prefix("Compiling ")?;
        crates.split(' ').next().map(str::to_owned)
    })?;
    if !ran.status.success() {
        eprint!("{}", ran.output);
        return Ok(None);
    }
    Ok(Some(program(&target)))
}

fn git(repository: &Repository, arguments: &[&str]) -> Result<()> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(repository.root())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
}

/// The benchmark in a target directory.
fn program(target: &Path) -> PathBuf {
    let name = format!("windlass-bench{}", env::consts::EXE_SUFFIX);
    target.join("release").join(name)
}

/// Counts the instructions of one job with callgrind.
fn instructions(program: &Path, arguments: &str) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments.split(' '))
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} {arguments}: {errors}", program.display()).into());
    }
    let count = total(&errors);
    count.ok_or_else(|| format!("callgrind has printed no total: {errors}").into())
}

/// The total in the output of callgrind: `==12== Collected : 123456`.
fn total(output: &str) -> Option<u64> {
    let (_, count) = output.split_once("Collected :")?;
    count.split_whitespace().next()?.parse().ok()
}

// === impl Count ===

impl Count {
    fn is_worse(self) -> bool {
        u128::from(self.now) * 100 > u128::from(self.base) * u128::from(100 + LIMIT_PERCENT)
    }

    fn line(self, name: &str, base: &str) -> String {
        let word = if self.is_worse() { "FAIL" } else { "ok  " };
        let Self { base: before, now } = self;
        format!("{word} {name:28} {now:>14} instructions, {before} at {base}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, total};

    #[test]
    fn a_job_may_take_fifteen_percent_more_instructions() {
        let is_worse = |now| Count { base: 1000, now }.is_worse();
        assert!(!is_worse(900));
        assert!(!is_worse(1150));
        assert!(is_worse(1151));
    }

    #[test]
    fn the_total_is_read_from_the_output_of_callgrind() {
        assert_eq!(
            total("==7== Events    : Ir\n==7== Collected : 42\n==7==\n"),
            Some(42)
        );
        assert_eq!(total("==7== no total"), None);
    }
}
