//! Explores a simulation: runs it without faults, with each fault at each step, and with random faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    str::FromStr,
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    Failure, Fault, Plan, Simulation, Summary, Violation, oracle,
    run::{Run, run},
    state,
};

mod parallel;
mod plans;
mod shrink;

pub(crate) use self::{parallel::first_broken, plans::Plans, shrink::without_steps};

/// The environment variable with a plan to replay.
const REPLAY: &str = "WINDLASS_SIMULATION";

/// The environment variable with the number of runs with random faults.
const SEEDS: &str = "WINDLASS_SIMULATION_SEEDS";

/// The environment variable with the number of seconds for runs with random faults.
const SECONDS: &str = "WINDLASS_SIMULATION_SECONDS";

/// The environment variable with the largest number of runs with one fault.
const SINGLE_FAULTS: &str = "WINDLASS_SIMULATION_SINGLE_FAULTS";

/// The environment variable with the number of runs with two faults at one object.
const FAULT_PAIRS: &str = "WINDLASS_SIMULATION_FAULT_PAIRS";

/// The results of two runs without faults, with which other runs are compared.
pub(crate) struct Reference {
    fields: state::Fields,
    /// The fields that differ between runs without faults.
    masked: BTreeSet<String>,
    writes: BTreeMap<String, u32>,
    oracles_left_out: Vec<String>,
    run: Run,
}

/// How often each fault took effect in the runs.
struct FaultCounts {
    by_fault: BTreeMap<Fault, usize>,
    /// The number of runs with faults in which all planned faults took effect.
    complete_runs: usize,
}

pub(crate) fn explore(simulation: &Simulation) -> Result<Summary, Box<Failure>> {
    let began = Instant::now();
    if let Some(plan) = replayed() {
        return replay(simulation, plan);
    }
    let settings = &simulation.settings;
    let quiet = Plan::quiet(plans::SEED);
    let reference = isolated(|| Reference::new(simulation, &quiet));
    let reference = reference.map_err(|broken| failure(simulation, broken.0, broken.1))?;
    if let Some(violation) = isolated(|| reference.repeat(simulation, &quiet)) {
        let mut run = reference.run;
        run.violations.push(violation);
        return Err(failure(simulation, quiet, run));
    }
    let steps = reference.run.trace.active_steps();

    let seeds = variable(SEEDS).unwrap_or(settings.seeds);
    let seconds = variable(SECONDS).map(Duration::from_secs);
    let most = variable(SINGLE_FAULTS).unwrap_or(settings.single_faults);
    let pairs = variable(FAULT_PAIRS).unwrap_or(settings.fault_pairs);
    let mut plans = Plans::new(&settings.faults, steps, most, pairs, seeds);
    if let Some(until) = seconds.and_then(|it| Instant::now().checked_add(it)) {
        plans = plans.until(until);
    }

    let faults = Mutex::new(FaultCounts::of(&settings.faults));
    let (broken, tried) = first_broken(&settings.name, &plans, |plan| {
        let mut run = run(simulation, plan);
        faults.lock().add(plan, &run);
        reference.check(plan, &mut run);
        (!run.violations.is_empty()).then_some(run)
    });
    if let Some((plan, mut found)) = broken {
        let smallest = isolated(|| shrink::shrink(simulation, &plan, &found.violations[0].oracle));
        let mut run = isolated(|| self::run(simulation, &smallest));
        isolated(|| check_alone(simulation, &smallest, &mut run));
        if run.violations.is_empty() {
            let note = format!(
                "\n    compared with the runs without faults of the seeds {} and {}; compared with \
                 those of the seeds {} and {}, as a replay does, no oracle is broken: the \
                 difference depends on the seed, or the operator is not repeatable",
                plans::SEED,
                plans::SEED + 1,
                plan.seed,
                plan.seed.wrapping_add(1),
            );
            found.violations[0].text.push_str(&note);
            return Err(failure(simulation, plan, found));
        }
        return Err(failure(simulation, smallest, run));
    }
    let faults = faults.into_inner();
    Ok(Summary {
        name: settings.name.clone(),
        steps: steps.len(),
        masked: reference.masked.iter().cloned().collect(),
        single_faults: plans.single_faults(),
        fault_pairs: plans.fault_pairs(),
        random: tried - plans.single_faults() - plans.fault_pairs(),
        faults: faults.by_fault,
        complete_runs: faults.complete_runs,
        took: began.elapsed(),
    })
}

/// The number in an environment variable.
fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, but is {text:?}")))
}

/// The plan to replay, if the environment variable is set.
pub(crate) fn replayed() -> Option<Plan> {
    let text = env::var(REPLAY).ok()?;
    let plan = text.parse();
    Some(plan.unwrap_or_else(|error| panic!("{REPLAY}: {error}")))
}

/// Runs one plan, and prints its trace.
fn replay(simulation: &Simulation, plan: Plan) -> Result<Summary, Box<Failure>> {
    let began = Instant::now();
    let mut run = isolated(|| run(simulation, &plan));
    isolated(|| check_alone(simulation, &plan, &mut run));
    println!("{}digest {:016x}", run.trace, run.trace.digest());
    if !run.violations.is_empty() {
        return Err(failure(simulation, plan, run));
    }
    let mut faults = FaultCounts::of(&simulation.settings.faults);
    faults.add(&plan, &run);
    Ok(Summary {
        name: simulation.settings.name.clone(),
        steps: run.trace.steps(),
        masked: Vec::new(),
        single_faults: 0,
        fault_pairs: 0,
        random: 1,
        faults: faults.by_fault,
        complete_runs: faults.complete_runs,
        took: began.elapsed(),
    })
}

/// Checks a run against runs without faults that have the same seed and steps.
pub(crate) fn check_alone(simulation: &Simulation, plan: &Plan, run: &mut Run) {
    match Reference::new(simulation, &plan.without_faults()) {
        Ok(reference) => reference.check(plan, run),
        Err(broken) => run.violations.extend(broken.1.violations),
    }
}

// === impl FaultCounts ===

impl FaultCounts {
    fn of(faults: &[Fault]) -> Self {
        Self {
            by_fault: faults.iter().map(|fault| (*fault, 0)).collect(),
            complete_runs: 0,
        }
    }

    fn add(&mut self, plan: &Plan, run: &Run) {
        for fault in &run.faults {
            *self.by_fault.entry(*fault).or_default() += 1;
        }
        if !plan.faults.is_empty() && run.faults.len() == plan.faults.len() {
            self.complete_runs += 1;
        }
    }
}

// === impl Reference ===

impl Reference {
    /// Runs the simulation twice without faults, with two different seeds.
    pub(crate) fn new(simulation: &Simulation, plan: &Plan) -> Result<Self, Box<(Plan, Run)>> {
        let other = Plan {
            seed: plan.seed.wrapping_add(1),
            ..plan.clone()
        };
        let one = run(simulation, plan);
        if !one.violations.is_empty() {
            return Err(Box::new((plan.clone(), one)));
        }
        let second = run(simulation, &other);
        if !second.violations.is_empty() {
            return Err(Box::new((other, second)));
        }
        let mut writes = one.writes.clone();
        for (write, count) in second.writes {
            let most = writes.entry(write).or_default();
            *most = count.max(*most);
        }
        Ok(Self {
            oracles_left_out: simulation.settings.oracles_left_out.clone(),
            masked: state::differing(&one.fields, &second.fields),
            fields: one.fields.clone(),
            writes,
            run: one,
        })
    }

    /// Makes the first run again. Returns how the two differ.
    fn repeat(&self, simulation: &Simulation, plan: &Plan) -> Option<Violation> {
        if self
            .oracles_left_out
            .iter()
            .any(|it| it == oracle::REPEATABLE)
        {
            return None;
        }
        let again = run(simulation, plan).trace;
        let (line, other) = self.run.trace.difference(&again)?;
        let text = format!(
            "the trace differs when the same plan runs again. The operator has an \
             effect that its `Process` does not control: the order of a `HashMap`, a `select!` \
             without `biased`, a thread, a socket, the clock of the system, or a random number.\n    \
             first: {line}\n    again: {other}"
        );
        Some(Violation::new(oracle::REPEATABLE, text))
    }

    /// Compares a run with the runs without faults, and adds the violations to it.
    pub(crate) fn check(&self, plan: &Plan, run: &mut Run) {
        if let Some(text) = oracle::compare(&self.fields, run, &self.masked) {
            run.violations
                .insert(0, Violation::new(oracle::END_STATE, text));
        }
        // Faults that are writes of other clients can make additional creates and deletes necessary.
        if !plan.has(Fault::is_foreign) {
            let more = run.writes.iter().find(|(write, count)| {
                **count > self.writes.get(*write).copied().unwrap_or_default()
            });
            if let Some((write, count)) = more {
                let without = self.writes.get(write).copied().unwrap_or_default();
                let text = format!("{write}: {count} times, {without} without faults");
                run.violations.push(Violation::new(oracle::COUNTS, text));
            }
        }
        // What a handler does not receive without faults is not expected.
        if let Some(text) = run.received.first_missed(&self.run.received) {
            run.violations.push(Violation::new(oracle::NEWEST, text));
        }
        (run.violations).retain(|it| !self.oracles_left_out.contains(&it.oracle));
    }
}

pub(crate) fn failure(simulation: &Simulation, plan: Plan, run: Run) -> Box<Failure> {
    let settings = &simulation.settings;
    let steps = settings.steps.iter().enumerate();
    let steps = steps.filter(|(number, _)| !plan.without.contains(number));
    Box::new(Failure {
        name: settings.name.clone(),
        script: steps
            .map(|(number, step)| format!("{number}. {step}"))
            .collect(),
        plan,
        violations: run.violations,
        trace: run.trace,
        test: thread::current().name().map(str::to_owned),
    })
}

/// Runs `work` on a new thread: a run starts a tokio runtime, so its thread must not have one.
pub(crate) fn isolated<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(work);
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
