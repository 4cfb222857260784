//! Each fault takes effect in a campaign.

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
    for fault in Fault::ALL {
        let takes_effect = |runs| {
            let simulation = campaign(*fault).faults([*fault]).single_faults(runs);
            let summary = simulation.seeds(0).run();
            summary.unwrap_or_else(|it| panic!("{it}")).faults[fault] > 0
        };
        // One run is sufficient for most faults.
        let is_seen = takes_effect(1) || takes_effect(8);
        assert!(is_seen, "{fault} took effect in none of 8 runs");
    }
}
