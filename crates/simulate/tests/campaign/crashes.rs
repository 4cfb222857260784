//! A crash, or a lost response, after each single write of an operator.

use windlass_simulate::{Fault, Plan, Simulation, Step};

use crate::{
    operators::{self, OTHER_NAMESPACE},
    site,
};

/// The verbs of requests that write.
const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];

/// Whether a line of a trace is a write request of a process: `p0.1 #7 patch sites default/blog: 200`.
fn is_write(line: &str) -> bool {
    let Some((_, step)) = line.split_once(" #") else {
        return false;
    };
    let verb = step.split(' ').nth(1);
    verb.is_some_and(|verb| WRITES.contains(&verb))
}

/// A `Controller` with a finalizer writes children of three kinds, prunes them, writes the status, and
/// cleans up. For each of its writes there is one run in which the process crashes after this write,
/// and one in which the response to it is lost. In each of them the restarted or continuing
/// controller reaches the objects of the run without faults, and then writes nothing for five minutes.
///
/// Rows: BO-33
#[test]
fn the_desired_state_is_reached_and_kept_after_a_crash_at_each_write() {
    let mut other = k8s_openapi::api::core::v1::Namespace::default();
    other.metadata.name = Some(OTHER_NAMESPACE.to_owned());
    let operator = |process| operators::owned_children(process, None);
    let simulation = site::with_few_steps(Simulation::new("single writes", operator))
        .object(&other)
        .step(Step::create(&site::site("group", operators::PARENT)))
        .oracle(
            "each_site_has_its_children",
            operators::each_site_has_its_children,
        )
        .faults([Fault::CrashAfter, Fault::LostReply])
        .single_faults(usize::MAX)
        .fault_pairs(0)
        .seeds(0);

    // The runs with faults have this seed, so their writes are the same until the fault.
    let trace = simulation.trace(&Plan::quiet(1)).to_string();
    let end = "no faults from here on";
    let (active, _) = trace.split_once(end).expect("the end of the faults");
    let writes = active.lines().filter(|line| is_write(line)).count();
    for resource in ["sites.simulate.windlass.dev", "configmaps", "secrets"] {
        let written = |line: &str| is_write(line) && line.contains(resource);
        assert!(
            active.lines().any(written),
            "no write of {resource}: {active}"
        );
    }

    let summary = simulation.run().unwrap_or_else(|it| panic!("{it}"));
    println!("{summary}");
    assert_eq!(summary.masked, [""; 0]);
    assert_eq!(summary.complete_runs, summary.single_faults, "{summary}");
    assert_eq!(summary.faults[&Fault::LostReply], writes, "{active}");
    // It also crashes after calls of the reconciler and after writes to an external resource.
    let crashes = summary.faults[&Fault::CrashAfter];
    assert!(crashes > writes, "{crashes} crashes, {writes} writes");
}
