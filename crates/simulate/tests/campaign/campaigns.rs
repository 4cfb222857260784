//! One campaign for each operator.

use windlass_simulate::Simulation;

use crate::{
    operators::{Variant, opinionated_reconciler},
    site,
};

#[track_caller]
fn passes(simulation: Simulation) {
    match simulation.run() {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn opinionated_reconciler_survives() {
    let operator = |process| opinionated_reconciler(process, Variant::Correct);
    passes(site::story(Simulation::new("opinionated reconciler", operator)));
}
