//! Each fault takes effect in a campaign.

use std::collections::BTreeMap;

use windlass_simulate::{Fault, Simulation};

use crate::{
    campaigns::{of_replicas, of_sites},
    operators,
};

/// A campaign in which the fault takes effect in at least one of a few runs.
fn campaign(fault: Fault) -> Simulation {
    match fault {
        Fault::LeaseStolen | Fault::LeaseDeleted => of_replicas("three replicas", |process| {
            operators::three_replicas(process, None)
        }),
        _ => of_sites("selected", operators::selected),
    }
}

#[test]
fn every_fault_takes_effect_in_a_campaign() {
    let run = |simulation: Simulation| {
        let ended = simulation.seeds(0).fault_pairs(0).run();
        ended.unwrap_or_else(|it| panic!("{it}")).faults
    };
    // A sample has a run with each fault, which is sufficient for most.
    let sample = of_sites("selected", operators::selected).single_faults(Fault::ALL.len());
    let seen = run(sample);
    for fault in Fault::ALL {
        let is_seen = |faults: &BTreeMap<Fault, usize>| faults.get(fault).is_some_and(|it| *it > 0);
        let more = || run(campaign(*fault).faults([*fault]).single_faults(8));
        let takes_effect = is_seen(&seen) || is_seen(&more());
        assert!(takes_effect, "{fault} took effect in none of 8 runs");
    }
}
