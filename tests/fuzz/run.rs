//! Runs a fuzz target for some time, with inputs that are generated from seeds.

#![expect(
    clippy::disallowed_types,
    reason = "the time that a target has is real, and the time within a target is virtual"
)]

use std::{
    env,
    fmt::Debug,
    fs,
    io::ErrorKind,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use bolero::{TypeGenerator, bolero_engine::rng::Recommended, generator::bolero_generator::driver};
use rand::{RngCore as _, SeedableRng as _, rngs::StdRng};

/// Prints the input that fails.
struct OnFailure<'a, I: Debug> {
    target: &'a str,
    seed: u128,
    input: &'a I,
}

// === impl OnFailure ===

impl<I: Debug> Drop for OnFailure<'_, I> {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self {
                target,
                seed,
                input,
            } = self;
            eprintln!(
                "fuzz {target} failed; to shrink the input: BOLERO_RANDOM_SEED={seed} cargo test \
                 --test fuzz targets::{target}; add the seed to tests/fuzz/corpus/{target}; \
                 the input is {input:#?}"
            );
        }
    }
}

/// Whether one seed is replayed.
pub(crate) fn is_replay() -> bool {
    env::var_os("BOLERO_RANDOM_SEED").is_some()
}

/// Checks the inputs of the corpus, and then random ones: for a second, or for the milliseconds in
/// `WINDLASS_FUZZ_MS`. They follow from the number in `WINDLASS_FUZZ_SEED`, by default a random one.
pub(crate) fn run<I: TypeGenerator + Debug>(target: &str, check: impl Fn(&I)) {
    let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let time = number("WINDLASS_FUZZ_MS").map_or(Duration::from_secs(1), Duration::from_millis);
    let seed = number("WINDLASS_FUZZ_SEED").unwrap_or_else(rand::random);
    println!("fuzz {target}: WINDLASS_FUZZ_SEED={seed}");
    let checked = |seed: u128| {
        let rng = Recommended::from_seed(seed.to_le_bytes());
        let mut driver = driver::Rng::new(rng, &driver::Options::default());
        let Some(input) = I::generate(&mut driver) else {
            return;
        };
        let _on_failure = OnFailure {
            target,
            seed,
            input: &input,
        };
        check(&input);
    };
    corpus(target).into_iter().for_each(checked);
    let (mut seeds, began, mut executions) = (StdRng::seed_from_u64(seed), Instant::now(), 0_u64);
    while executions == 0 || began.elapsed() < time {
        let mut seed = [0; 16];
        seeds.fill_bytes(&mut seed);
        checked(u128::from_le_bytes(seed));
        executions += 1;
    }
    println!("fuzz {target}: {executions} executions");
}

/// The seeds in `tests/fuzz/corpus`, one a line; what follows `#` is a comment. A seed makes the same
/// input as long as the type of the input does not change.
fn corpus(target: &str) -> Vec<u128> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let text = match fs::read_to_string(folder.join(target)) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.expect("a file of the corpus is text"),
    };
    let seeds = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let seeds = seeds.filter(|seed| !seed.is_empty());
    seeds
        .map(|seed| seed.parse().expect("a seed of the corpus is a number"))
        .collect()
}
