//! Shrinks a plan that breaks an oracle: removes faults and steps while it still breaks the oracle.

use std::ops::Range;

use super::check_alone;
use crate::{Plan, Simulation, run::run};

/// Returns the smallest plan found that still breaks `oracle`.
pub(super) fn shrink(simulation: &Simulation, plan: &Plan, oracle: &str) -> Plan {
    let breaks = |plan: &Plan| {
        let mut run = run(simulation, plan);
        check_alone(simulation, plan, &mut run);
        run.violations.iter().any(|it| it.oracle == oracle)
    };
    let mut plan = plan.clone();
    let mut index = 0;
    while index < plan.faults.len() {
        let mut smaller = plan.clone();
        smaller.faults.remove(index);
        if breaks(&smaller) {
            plan = smaller;
        } else {
            index += 1;
        }
    }
    without_steps(plan, 0..simulation.settings.steps.len(), breaks)
}

/// Returns the plan without the steps of the users that are not necessary to break the oracle.
pub(crate) fn without_steps(
    mut plan: Plan,
    steps: Range<usize>,
    breaks: impl Fn(&Plan) -> bool,
) -> Plan {
    for number in steps.rev() {
        let mut smaller = plan.clone();
        smaller.without.push(number);
        smaller.without.sort_unstable();
        if breaks(&smaller) {
            plan = smaller;
        }
    }
    plan
}
