//! Oracles: the named checks of a run.

use std::{collections::BTreeSet, fmt};

use crate::{run::Run, state};

/// Without faults, the server accepts the initial objects and the steps of the users.
pub(crate) const STEPS: &str = "every_step_succeeds";
/// A run without faults that is repeated is the same.
pub(crate) const REPEATABLE: &str = "a_run_is_repeatable";
/// The end state of the run equals the end state of a run without faults.
pub(crate) const END_STATE: &str = "the_end_state_is_that_of_a_run_without_faults";
/// The end state after several specs equals the end state of an object that is created with the
pub(crate) const PATH: &str = "the_end_state_does_not_depend_on_the_path";
/// The end state does not change any more.
pub(crate) const STAYS: &str = "the_end_state_stays";
/// No object is created or deleted more often than without faults.
pub(crate) const COUNTS: &str = "nothing_is_created_or_deleted_more_often";
/// Two calls of one handler for one object never overlap.
pub(crate) const SERIALIZED: &str = "calls_for_one_object_do_not_overlap";
/// The versions of one object that a handler receives never decrease.
pub(crate) const VERSIONS: &str = "versions_never_go_back";
/// The operator sends a bounded number of requests.
pub(crate) const BOUNDED: &str = "requests_are_bounded";
/// Only the process that holds the lease writes.
pub(crate) const LEADER: &str = "only_the_holder_of_the_lease_writes";
/// No process takes a lease that another one holds.
pub(crate) const LEASE: &str = "a_lease_is_taken_only_when_it_has_ended";
/// Each handler receives the newest state of each object, and its deletion. A level-triggered one
/// receives the newest state of each object that exists, and the clean-up.
pub(crate) const NEWEST: &str = "handlers_see_the_newest_state";
/// No handler is called before the observed informers have synced.
pub(crate) const SYNCED: &str = "calls_begin_after_the_first_lists";
/// The health of each observed informer reports a working watch at the end.
pub(crate) const HEALTH: &str = "informers_say_that_they_are_up";
/// No secret is in a log line or span.
pub(crate) const SECRETS: &str = "no_secret_is_logged";
/// In a walk, the operator succeeds for at least one spec.
pub(crate) const ATTAINED: &str = "a_spec_is_attained";
/// No task outlives the process that started it.
pub(crate) const TASKS: &str = "no_task_outlives_its_process";
/// The stores of informers equal the objects of the server.
pub(crate) const CACHES: &str = "caches_equal_the_server";
/// The operator ends only after a request to stop.
pub(crate) const RUNS: &str = "the_operator_runs_until_it_is_stopped";

/// An oracle that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the oracle: a sentence with underscores.
    pub oracle: String,
    /// The details of the violation.
    pub text: String,
}

/// The number of differences that are shown.
const MOST: usize = 12;

/// Compares the end state of a run with the expected one. Returns the differences, if any.
pub(crate) fn compare(
    expected: &state::Fields,
    run: &Run,
    masked: &BTreeSet<String>,
) -> Option<String> {
    let lines = state::difference(expected, &run.fields, masked);
    if lines.is_empty() {
        return None;
    }
    let mut text = lines
        .iter()
        .take(MOST)
        .fold(String::new(), |text, line| text + "\n    " + line);
    if let Some(more) = lines.len().checked_sub(MOST).filter(|more| *more > 0) {
        text = format!("{text}\n    and {more} more");
    }
    Some(text)
}

// === impl Violation ===

impl Violation {
    pub(crate) fn new(oracle: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            oracle: oracle.into(),
            text: text.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.text)
    }
}
