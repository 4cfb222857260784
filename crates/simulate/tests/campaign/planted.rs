//! Planted bugs of operators: an expected oracle must detect each of them.

use windlass_simulate::{Fault, Process, Simulation};

use crate::{
    campaigns::of_replicas,
    operators::{self, Bug, Ended},
    site,
};

/// The environment variable that enables these tests: each takes seconds to minutes.
const PLANTED: &str = "WINDLASS_SIMULATION_PLANTED";

/// Fails unless one of `oracles` detects the bug.
#[track_caller]
fn is_found(simulation: &Simulation, oracles: &[&str]) {
    if std::env::var_os(PLANTED).is_none() {
        println!("skipped: `cargo xtask sim --planted` runs this test");
        return;
    }
    let failure = simulation.run().expect_err("the bug is found");
    println!("{failure}");
    assert!(oracles.contains(&failure.oracle()), "{failure}");
}

fn with_bug<Fut>(bug: Bug, operator: fn(Process, Option<Bug>) -> Fut) -> Simulation
where
    Fut: Future<Output = Ended> + Send + 'static,
{
    let operator = move |process| operator(process, Some(bug));
    // A lower limit detects a bug that writes without end sooner.
    site::with_steps(Simulation::new(&format!("{bug:?}"), operator)).request_limit(2_000)
}

const END_STATE: &str = "the_end_state_is_that_of_a_run_without_faults";
const COUNTS: &str = "nothing_is_created_or_deleted_more_often";
const STAYS: &str = "the_end_state_stays";
const BOUNDED: &str = "requests_are_bounded";

#[test]
fn a_clean_up_that_is_not_idempotent() {
    let bug = Bug::CleanUpIsNotIdempotent;
    is_found(
        &with_bug(bug, operators::opinionated_reconciler),
        &[END_STATE],
    );
}

#[test]
fn a_delete_by_name() {
    let simulation = with_bug(Bug::DeletesByName, operators::plain_watcher);
    let blind = [Fault::CrashBefore, Fault::CrashAfter, Fault::Restart];
    is_found(&simulation.without_faults(blind), &[END_STATE, COUNTS]);
}

#[test]
fn a_finalizer_that_is_removed_too_early() {
    let bug = Bug::FinalizerRemovedTooEarly;
    is_found(
        &with_bug(bug, operators::opinionated_reconciler),
        &[END_STATE],
    );
}

#[test]
fn a_spec_that_is_written_from_a_stale_cache() {
    let bug = Bug::WritesStaleSpec;
    is_found(
        &with_bug(bug, operators::opinionated_reconciler),
        &[END_STATE, STAYS, BOUNDED],
    );
}

#[test]
fn a_child_with_a_generated_name_that_is_created_twice() {
    let bug = Bug::CreatesChildTwice;
    let simulation = with_bug(bug, operators::opinionated_reconciler);
    is_found(&simulation, &[END_STATE, COUNTS]);
}

#[test]
fn errors_that_are_ignored() {
    let bug = Bug::IgnoresErrors;
    is_found(
        &with_bug(bug, operators::opinionated_reconciler),
        &[END_STATE],
    );
}

#[test]
fn a_first_list_that_is_ignored() {
    let bug = Bug::IgnoresTheFirstList;
    is_found(&with_bug(bug, operators::opinionated_watcher), &[END_STATE]);
}

#[test]
fn a_write_in_each_call() {
    let simulation = with_bug(Bug::WritesEachTime, operators::opinionated_reconciler);
    is_found(&simulation, &[BOUNDED]);
}

#[test]
fn a_prune_before_the_children_are_applied() {
    let simulation = with_bug(Bug::PrunesFirst, operators::owned_children);
    is_found(&simulation, &[END_STATE, COUNTS, BOUNDED]);
}

#[test]
fn a_task_that_outlives_its_process() {
    let simulation = with_bug(Bug::LeavesATask, operators::opinionated_reconciler);
    is_found(&simulation, &["no_task_outlives_its_process"]);
}

#[test]
fn a_controller_that_continues_after_the_lease() {
    let bug = Some(Bug::ContinuesAfterTheLease);
    let operator = move |process| operators::three_replicas(process, bug);
    let simulation = of_replicas("three replicas", operator);
    is_found(&simulation, &["only_the_holder_of_the_lease_writes"]);
}

#[test]
fn a_controller_that_continues_after_the_lease_is_stolen() {
    let bug = Some(Bug::ContinuesAfterTheLease);
    let operator = move |process| operators::three_replicas(process, bug);
    let simulation = of_replicas("three replicas", operator);
    let simulation = simulation.faults([Fault::LeaseStolen]);
    is_found(&simulation, &["only_the_holder_of_the_lease_writes"]);
}
