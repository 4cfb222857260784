//! Shrinks a plan that breaks an oracle: removes faults and steps while it still breaks the oracle.

use std::{
    cell::{Cell, RefCell},
    ops::Range,
    time::Duration,
};

use tokio::time::Instant;

use super::Reference;
use crate::{
    Plan, Simulation, Violation,
    run::{Run, run},
};

/// The longest search for a smaller plan.
const LONGEST: Duration = Duration::from_secs(60);

/// The interval of progress lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// A plan without faults, and its runs.
struct QuietRuns {
    plan: Plan,
    reference: Result<Reference, Vec<Violation>>,
}

/// The search for a smaller plan.
struct Search<'a> {
    simulation: &'a Simulation,
    oracle: &'a str,
    references: RefCell<Vec<QuietRuns>>,
    began: Instant,
    shown: Cell<Instant>,
    tries: Cell<u32>,
}

/// Returns the smallest plan found that still breaks `oracle`, and prints the progress.
pub(super) fn shrink(simulation: &Simulation, plan: &Plan, oracle: &str) -> Plan {
    let name = &simulation.settings.name;
    eprintln!("{name}: the plan \"{plan}\" breaks {oracle}; looking for a smaller one");
    let search = Search::new(simulation, oracle);
    let breaks = |plan: &Plan| search.breaks(plan);
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

// === impl Search ===

impl<'a> Search<'a> {
    fn new(simulation: &'a Simulation, oracle: &'a str) -> Self {
        let now = Instant::now();
        Self {
            simulation,
            oracle,
            references: RefCell::default(),
            began: now,
            shown: Cell::new(now),
            tries: Cell::new(0),
        }
    }

    /// Whether the plan breaks the oracle. No plan does when the time is over.
    fn breaks(&self, plan: &Plan) -> bool {
        if self.began.elapsed() >= LONGEST {
            return false;
        }
        self.tries.set(self.tries.get() + 1);
        if self.shown.get().elapsed() >= INTERVAL {
            self.shown.set(Instant::now());
            let (name, tries) = (&self.simulation.settings.name, self.tries.get());
            eprintln!("{name}: {tries} smaller plans tried; now {plan}");
        }
        let mut run = run(self.simulation, plan);
        self.check(plan, &mut run);
        run.violations.iter().any(|it| it.oracle == self.oracle)
    }

    /// Checks a run against those without faults that have the same seed and steps.
    fn check(&self, plan: &Plan, run: &mut Run) {
        let quiet = plan.without_faults();
        let mut references = self.references.borrow_mut();
        let known = references.iter().position(|it| it.plan == quiet);
        let at = known.unwrap_or_else(|| {
            let reference = Reference::new(self.simulation, &quiet);
            references.push(QuietRuns {
                plan: quiet,
                reference: reference.map_err(|broken| broken.1.violations),
            });
            references.len() - 1
        });
        match &references[at].reference {
            Ok(reference) => reference.check(plan, run),
            Err(violations) => run.violations.extend(violations.clone()),
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
