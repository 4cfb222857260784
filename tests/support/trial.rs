//! Tests that know only when they run whether what they need is there.
//!
//! libtest decides when it compiles a test whether it is ignored, and a test that returns early is
//! reported as passed. [`ignore`] ends a test at run time, which is then reported as ignored, with
//! its reason.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread::available_parallelism,
};

use libtest_mimic::{Arguments, Completion, Trial};

/// Why a test was ended by [`ignore`].
struct Ignored(String);

/// A test with the name that libtest would give to the function `name` in `module`, which is the
/// value of `module_path!`.
pub(crate) fn trial(module: &str, name: &str, body: impl FnOnce() + Send + 'static) -> Trial {
    // Without the name of the binary.
    let name = match module.split_once("::") {
        Some((_, module)) => format!("{module}::{name}"),
        None => name.to_owned(),
    };
    Trial::ignorable_test(name, || {
        // The values that a failed test leaves behind are not used by another test.
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(()) => Ok(Completion::Completed),
            Err(payload) => match payload.downcast::<Ignored>() {
                Ok(ignored) => Ok(Completion::ignored_with(ignored.0)),
                Err(payload) => resume_unwind(payload),
            },
        }
    })
}

/// Ends the test of this thread, which is reported as ignored. It prints no panic message.
pub(crate) fn ignore(reason: impl Into<String>) -> ! {
    resume_unwind(Box::new(Ignored(reason.into())))
}

/// Ends a test that reads `/proc` or uses clocks of Linux as ignored on other systems.
#[allow(dead_code, reason = "the behaviour tests run on all systems")]
pub(crate) fn require_linux() {
    if !cfg!(target_os = "linux") {
        ignore("it needs Linux");
    }
}

/// Runs the tests in the order of their names, with the arguments of libtest, and ends the process.
#[allow(dead_code, reason = "for some binaries")]
pub(crate) fn run(trials: Vec<Trial>) -> ! {
    run_with(&Arguments::from_args(), trials)
}

/// As [`run`], with three tests for each core at once: for tests that mostly wait for a server.
#[allow(dead_code, reason = "for some binaries")]
pub(crate) fn run_waiting(trials: Vec<Trial>) -> ! {
    let mut arguments = Arguments::from_args();
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    arguments.test_threads.get_or_insert(3 * cores);
    run_with(&arguments, trials)
}

fn run_with(arguments: &Arguments, mut trials: Vec<Trial>) -> ! {
    trials.sort_by(|one, other| one.name().cmp(other.name()));
    libtest_mimic::run(arguments, trials).exit()
}
