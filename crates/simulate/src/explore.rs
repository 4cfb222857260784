//! The runs of a simulation: without faults, with each fault at each step, and with random faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, thread,
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use tokio::time::Instant;

use crate::{
    Failure, Fault, Plan, PlannedFault, Simulation, Summary, Violation, oracle,
    run::{Run, run},
    state,
};

mod parallel;
mod shrink;

/// The plan that is to be replayed.
const REPLAY: &str = "WINDLASS_SIMULATION";

/// How many runs with random faults are to be made.
const SEEDS: &str = "WINDLASS_SIMULATION_SEEDS";

/// How many differences are shown.
const MOST: usize = 12;

/// The most faults of a random plan.
const MOST_FAULTS: usize = 6;

/// What runs without faults came to: what other runs are compared with.
pub(crate) struct Reference {
    fields: state::Fields,
    /// The fields that differ between runs without faults.
    masked: BTreeSet<String>,
    writes: BTreeMap<String, u32>,
    run: Run,
}

pub(crate) fn explore(simulation: &Simulation) -> Result<Summary, Box<Failure>> {
    let began = Instant::now();
    if let Ok(plan) = env::var(REPLAY) {
        return replay(simulation, &plan);
    }
    let settings = &simulation.settings;
    let first = Plan::quiet(1);
    let reference = isolated(|| Reference::new(simulation, &first));
    let reference = reference.map_err(|broken| failure(simulation, broken.0, broken.1))?;
    let steps = reference.run.trace.active_steps();

    let mut plans = Vec::new();
    for step in steps {
        let fits = |fault: &Fault| fault.fits(step.kind) && (step.of_user || !fault.is_foreign());
        let fitting = settings.faults.iter().copied().filter(fits);
        plans.extend(fitting.map(|fault| Plan::single(first.seed, step.number, fault)));
    }
    let every = plans.len().div_ceil(settings.single_faults.max(1)).max(1);
    let mut plans: Vec<_> = plans.into_iter().step_by(every).collect();
    plans.truncate(settings.single_faults);
    let single_faults = plans.len();
    let seeds = env::var(SEEDS).ok().and_then(|it| it.parse().ok());
    let last = u64::try_from(steps.len()).unwrap_or(u64::MAX);
    let seeds = 0..seeds.unwrap_or(settings.seeds);
    plans.extend(seeds.map(|seed| random(&settings.faults, seed, last)));

    let broken = parallel::first(&settings.name, &plans, |plan| {
        let mut run = run(simulation, plan);
        reference.judge(plan, &mut run);
        (!run.violations.is_empty()).then_some(run)
    });
    if let Some((plan, run)) = broken {
        let plan = isolated(|| shrink::shrink(simulation, plan, &run.violations[0].oracle));
        let mut run = isolated(|| self::run(simulation, &plan));
        isolated(|| judge_alone(simulation, &plan, &mut run));
        return Err(failure(simulation, plan, run));
    }
    Ok(Summary {
        name: settings.name.clone(),
        steps: steps.len(),
        masked: reference.masked.iter().cloned().collect(),
        single_faults,
        random: plans.len() - single_faults,
        took: began.elapsed(),
    })
}

/// Runs one plan, and prints its trace.
fn replay(simulation: &Simulation, text: &str) -> Result<Summary, Box<Failure>> {
    let began = Instant::now();
    let plan: Plan = text
        .parse()
        .unwrap_or_else(|error| panic!("{REPLAY}: {error}"));
    let mut run = isolated(|| run(simulation, &plan));
    isolated(|| judge_alone(simulation, &plan, &mut run));
    println!("{}digest {:016x}", run.trace, run.trace.digest());
    if !run.violations.is_empty() {
        return Err(failure(simulation, plan, run));
    }
    Ok(Summary {
        name: simulation.settings.name.clone(),
        steps: run.trace.steps(),
        masked: Vec::new(),
        single_faults: 0,
        random: 1,
        took: began.elapsed(),
    })
}

/// Judges a run by references of its own.
pub(crate) fn judge_alone(simulation: &Simulation, plan: &Plan, run: &mut Run) {
    match Reference::new(simulation, &plan.without_faults()) {
        Ok(reference) => reference.judge(plan, run),
        Err(broken) => run.violations.extend(broken.1.violations),
    }
}

// === impl Reference ===

impl Reference {
    /// Runs without faults, with two seeds.
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
            masked: state::differing(&one.fields, &second.fields),
            fields: one.fields.clone(),
            writes,
            run: one,
        })
    }

    /// Compares a run with those without faults.
    pub(crate) fn judge(&self, plan: &Plan, run: &mut Run) {
        let lines = state::difference(&self.fields, &run.fields, &self.masked);
        if !lines.is_empty() {
            let mut text = lines
                .iter()
                .take(MOST)
                .fold(String::new(), |text, line| text + "\n    " + line);
            if let Some(more) = lines.len().checked_sub(MOST).filter(|more| *more > 0) {
                text = format!("{text}\n    and {more} more");
            }
            run.violations
                .insert(0, Violation::new(oracle::END_STATE, text));
        }
        // Other clients make more creates and deletes necessary.
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
    }
}

/// A plan with random faults of a random choice of kinds.
fn random(faults: &[Fault], seed: u64, last_step: u64) -> Plan {
    let mut random = StdRng::seed_from_u64(seed);
    let mut kinds: Vec<_> = faults
        .iter()
        .copied()
        .filter(|_| random.random_bool(0.3))
        .collect();
    // Who takes a finalizer away while the operator cannot see it has the clean-up skipped.
    if kinds.contains(&Fault::StripFinalizers) && kinds.iter().any(|it| it.hides_deletes()) {
        if random.random_bool(0.5) {
            kinds.retain(|it| *it != Fault::StripFinalizers);
        } else {
            kinds.retain(|it| !it.hides_deletes());
        }
    }
    let count = random.random_range(1..=MOST_FAULTS);
    let planned = (0..count).filter_map(|_| {
        let fault = *kinds.choose(&mut random)?;
        let step = random.random_range(1..=last_step.max(1));
        Some(PlannedFault { step, fault })
    });
    let mut faults: Vec<_> = planned.collect();
    faults.sort_unstable();
    Plan {
        seed,
        faults,
        without: Vec::new(),
    }
}

fn failure(simulation: &Simulation, plan: Plan, run: Run) -> Box<Failure> {
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

/// Runs `work` on a thread of its own: a run needs one without a runtime.
pub(crate) fn isolated<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(work);
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
