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
    from: From<'a>,
    input: &'a I,
}

/// Where an input comes from.
#[derive(Clone, Copy, Debug)]
enum From<'a> {
    Seed(u128),
    /// A file of the corpus.
    File(&'a str),
}

// === impl OnFailure ===

impl<I: Debug> Drop for OnFailure<'_, I> {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self {
                target,
                from,
                input,
            } = self;
            match from {
                From::Seed(seed) => eprintln!(
                    "fuzz {target} failed; to shrink the input: BOLERO_RANDOM_SEED={seed} cargo \
                     test --test fuzz targets::{target}; keep its texts as a file in \
                     tests/fuzz/corpus/{target}; the input is {input:#?}"
                ),
                From::File(name) => eprintln!(
                    "fuzz {target} failed with tests/fuzz/corpus/{target}/{name}: {input:#?}"
                ),
            }
        }
    }
}

/// Whether one seed is replayed.
pub(crate) fn is_replay() -> bool {
    env::var_os("BOLERO_RANDOM_SEED").is_some()
}

/// Checks the inputs of the corpus, and then random ones: for a second, or for the milliseconds in
/// `WINDLASS_FUZZ_MS`. They follow from the number in `WINDLASS_FUZZ_SEED`, by default a random one.
/// `kept` makes inputs of the parts of a file of the corpus.
pub(crate) fn run<I: TypeGenerator + Debug>(
    target: &str,
    check: impl Fn(&I),
    kept: impl Fn(&[&str]) -> Vec<I>,
) {
    let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let time = number("WINDLASS_FUZZ_MS").map_or(Duration::from_secs(1), Duration::from_millis);
    let seed = number("WINDLASS_FUZZ_SEED").unwrap_or_else(rand::random);
    println!("fuzz {target}: WINDLASS_FUZZ_SEED={seed}");
    let mut count = 0;
    for (name, text) in corpus(target) {
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let parts: Vec<&str> = text.split("\n====\n").collect();
        let inputs = kept(&parts);
        assert!(
            !inputs.is_empty(),
            "{target} reads no texts, but has {name}"
        );
        for input in &inputs {
            let _on_failure = OnFailure {
                target,
                from: From::File(&name),
                input,
            };
            check(input);
            count += 1;
        }
    }
    let (mut seeds, began, mut executions) = (StdRng::seed_from_u64(seed), Instant::now(), 0_u64);
    while executions == 0 || began.elapsed() < time {
        let mut seed = [0; 16];
        seeds.fill_bytes(&mut seed);
        let mut driver =
            driver::Rng::new(Recommended::from_seed(seed), &driver::Options::default());
        executions += 1;
        let Some(input) = I::generate(&mut driver) else {
            continue;
        };
        let _on_failure = OnFailure {
            target,
            from: From::Seed(u128::from_le_bytes(seed)),
            input: &input,
        };
        check(&input);
    }
    println!("fuzz {target}: {count} inputs of the corpus, {executions} executions");
}

/// The files in the folder of a target in `tests/fuzz/corpus`, in the order of their names.
fn corpus(target: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let entries = match fs::read_dir(folder.join(target)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        entries => entries.expect("the corpus can be read"),
    };
    let read = |entry: Result<fs::DirEntry, _>| {
        let path = entry.expect("the corpus can be read").path();
        let text = fs::read_to_string(&path).expect("a file of the corpus is text");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (name.into_owned(), text)
    };
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}
