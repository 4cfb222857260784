//! `cargo xtask fuzz`: random inputs for everything that reads what arrives from outside.

use std::process::ExitCode;

use clap::Args;

use crate::{
    Result, progress,
    repository::{Repository, cargo},
};

/// Runs each fuzz target of tests/fuzz for some minutes, two at a time, and prints how often
/// each was executed.
///
/// An input that fails is printed shrunk, with a seed: `BOLERO_RANDOM_SEED=<seed> cargo test
/// --test fuzz <target>` finds it again.
#[derive(Args, Debug)]
pub(crate) struct Fuzz {
    /// Minutes for each target.
    #[arg(long, default_value_t = 1)]
    minutes: u32,

    /// Only targets whose names contain this.
    target: Option<String>,

    /// The seed of the first inputs. The default is another one in each run.
    #[arg(long)]
    seed: Option<u128>,

    /// Optimizes the code: more executions, after a longer build.
    #[arg(long)]
    release: bool,
}

/// Where the targets read the seed of the first inputs.
pub(crate) const SEED: &str = "BOLERO_RANDOM_SEED";

/// Targets that run at a time.
const PARALLEL: &str = "2";

// === impl Fuzz ===

impl Fuzz {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let millis = u64::from(self.minutes) * 60_000;
        let mut command = cargo();
        command.args(["test", "--package", "windlass", "--test", "fuzz"]);
        if self.release {
            // Overflows are failures in optimized code too.
            command.arg("--release");
            command.env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true");
        }
        command
            .args(["--", "--nocapture", "--test-threads", PARALLEL])
            .args(&self.target)
            .env("BOLERO_RANDOM_TEST_TIME_MS", millis.to_string())
            .current_dir(repository.root());
        if let Some(seed) = self.seed {
            command.env(SEED, seed.to_string());
        }
        let ran = progress::run("fuzz", &mut command, counted)?;
        if !ran.status.success() {
            println!("{}", ran.output);
            println!("FAIL fuzz, after {}", ran.elapsed);
            return Ok(ExitCode::FAILURE);
        }
        for line in ran.output.lines().filter_map(counted) {
            println!("ok   {line}");
        }
        println!(
            "each target ran for {} min; this took {}",
            self.minutes, ran.elapsed
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// The line in which a target says how often it was executed.
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
