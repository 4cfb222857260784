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
    let steps = &simulation.settings.steps;
    let mut objects: Vec<Vec<usize>> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let same = |others: &&mut Vec<usize>| {
            step.object().is_some() && steps[others[0]].object() == step.object()
        };
        match objects.iter_mut().find(same) {
            Some(others) => others.push(number),
            None => objects.push(vec![number]),
        }
    }
    let mut plan = plan.clone();
    // A fault that became unnecessary can make a step unnecessary, and the other way round.
    loop {
        let before = plan.clone();
        plan = without_faults(plan, &breaks);
        for object in objects.iter().rev() {
            plan = without(plan, object, &breaks);
        }
        plan = without_steps(plan, 0..steps.len(), breaks);
        if plan == before {
            return plan;
        }
    }
}

/// Returns the plan without the faults that are not necessary to break the oracle.
fn without_faults(mut plan: Plan, breaks: &impl Fn(&Plan) -> bool) -> Plan {
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
    plan
}

/// Returns the plan without these steps, if it still breaks the oracle. There are fewer steps of the
/// operator then, so that a single fault is also tried at the steps before.
fn without(plan: Plan, steps: &[usize], breaks: &impl Fn(&Plan) -> bool) -> Plan {
    /// The steps of the operator before that of a fault at which the fault is tried.
    const EARLIER: u64 = 30;

    let mut smaller = plan.clone();
    smaller.without.extend(steps);
    smaller.without.sort_unstable();
    smaller.without.dedup();
    if smaller == plan {
        return plan;
    }
    if breaks(&smaller) {
        return smaller;
    }
    if let [fault] = smaller.faults[..] {
        for earlier in 1..=EARLIER.min(fault.step.saturating_sub(1)) {
            smaller.faults[0].step = fault.step - earlier;
            if breaks(&smaller) {
                return smaller;
            }
        }
    }
    plan
}

/// Returns the plan without the steps of the users that are not necessary to break the oracle.
pub(crate) fn without_steps(
    mut plan: Plan,
    steps: Range<usize>,
    breaks: impl Fn(&Plan) -> bool,
) -> Plan {
    for number in steps.rev() {
        plan = without(plan, &[number], &breaks);
    }
    plan
}
