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
        let simulation = campaign(*fault).faults([*fault]).single_faults(8).seeds(0);
        let summary = simulation.run().unwrap_or_else(|it| panic!("{it}"));
        let count = summary.faults[fault];
        assert!(count > 0, "{fault} took effect in none of 8 runs");
    }
}
