//! `cargo xtask fuzz`: runs the fuzz targets.

use std::process::ExitCode;

use clap::Args;

use crate::{
    Result, progress,
    repository::{Repository, cargo},
};

/// Runs each fuzz target of tests/fuzz for some minutes, four at a time, and prints the number of
/// executions.
///
/// A failing input is printed with its seed. `BOLERO_RANDOM_SEED=<seed> cargo test --test fuzz
/// <target>` shrinks it.
#[derive(Args, Debug)]
pub(crate) struct Fuzz {
    /// The time for each target, in minutes.
    #[arg(long, default_value_t = 1)]
    minutes: u32,

    /// Runs only targets whose names contain this text.
    target: Option<String>,

    /// The number from which the inputs of all targets follow: the same number makes the same
    /// inputs. The default is random.
    #[arg(long)]
    seed: Option<u64>,

    /// Builds with optimizations: a longer build, but more executions.
    #[arg(long)]
    release: bool,
}

/// The environment variable with the number from which the inputs follow.
pub(crate) const SEED: &str = "WINDLASS_FUZZ_SEED";

/// The environment variable with the time for each target, in milliseconds.
const TIME: &str = "WINDLASS_FUZZ_MS";

/// The number of targets that run at the same time.
const PARALLEL: &str = "4";

// === impl Fuzz ===

impl Fuzz {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let millis = u64::from(self.minutes) * 60_000;
        let mut command = cargo();
        command.args(["test", "--package", "windlass", "--test", "fuzz"]);
        if self.release {
            // Overflow checks, also in optimized code.
            command.arg("--release");
            command.env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true");
        }
        command
            .args(["--", "--nocapture", "--test-threads", PARALLEL])
            .args(&self.target)
            .env(TIME, millis.to_string())
            .current_dir(repository.root());
        if let Some(seed) = self.seed {
            command.env(SEED, seed.to_string());
        }
        let ran = progress::run("fuzz", &mut command, counted)?;
        if !ran.status.success() {
            println!("{}", ran.output);
            println!("FAIL fuzz after {}", ran.elapsed);
            return Ok(ExitCode::FAILURE);
        }
        for line in ran.output.lines().filter_map(counted) {
            println!("ok   {line}");
        }
        println!(
            "each target ran for {} min; all of them took {}",
            self.minutes, ran.elapsed
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// The line with the number of executions of a target.
fn counted(line: &str) -> Option<String> {
    let found = line.find("fuzz ").map(|at| &line[at..])?;
    found.ends_with(" executions").then(|| found.to_owned())
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn the_execution_count_is_parsed_from_the_output_of_the_test_harness() {
        let line = "test targets::a ... fuzz a: 12 executions";
        assert_eq!(counted(line).as_deref(), Some("fuzz a: 12 executions"));
        assert_eq!(counted("Running tests/fuzz/main.rs"), None);
    }
}
