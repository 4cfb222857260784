//! The plans of a simulation in the order in which they are run.

use std::collections::BTreeMap;

use rand::{
    Rng as _, SeedableRng as _,
    rngs::StdRng,
    seq::{IndexedRandom as _, SliceRandom as _},
};
use tokio::time::Instant;

use crate::{Fault, Plan, PlannedFault, trace::TracedStep};

/// The largest number of faults in a random plan.
const MOST_FAULTS: usize = 6;

/// The seed of every plan with one fault. The run whose steps are counted has the same seed.
pub(super) const SEED: u64 = 1;

/// The plans of a simulation: first those with one fault, then those with two faults at one object,
/// then those with random faults.
pub(crate) struct Plans {
    single: Vec<Plan>,
    pairs: Vec<Plan>,
    faults: Vec<Fault>,
    seeds: u64,
    last_step: u64,
    until: Option<Instant>,
}

// === impl Plans ===

impl Plans {
    /// Uses exactly these plans.
    pub(crate) fn of(plans: Vec<Plan>) -> Self {
        Self {
            single: plans,
            pairs: Vec::new(),
            faults: Vec::new(),
            seeds: 0,
            last_step: 0,
            until: None,
        }
    }

    /// Creates a plan for each fault at each step that it fits, or for a random sample of `most` of
    /// these combinations, then `pairs` plans with two faults at one object, and then `seeds` plans
    /// with random faults.
    pub(super) fn new(
        faults: &[Fault],
        steps: &[TracedStep],
        most: usize,
        pairs: usize,
        seeds: u64,
    ) -> Self {
        let mut single = Vec::new();
        for step in steps {
            let fits = |fault: &Fault| fault.fits_step(step.kind, step.subject);
            let fitting = faults.iter().copied().filter(fits);
            single.extend(fitting.map(|fault| Plan::single(SEED, step.number, fault)));
        }
        // A sample at regular distances would contain the same faults at each step. Besides,
        // adjacent plans often find the same bug, so a random order finds the first one sooner.
        single.shuffle(&mut StdRng::seed_from_u64(SEED));
        single.truncate(most);
        Self {
            single,
            pairs: at_one_object(faults, steps, pairs),
            faults: faults.to_vec(),
            seeds,
            last_step: u64::try_from(steps.len()).unwrap_or(u64::MAX),
            until: None,
        }
    }

    /// Adds plans with random faults until a time, without a limit of seeds.
    pub(super) fn until(self, until: Instant) -> Self {
        Self {
            seeds: u64::MAX,
            until: Some(until),
            ..self
        }
    }

    pub(super) const fn single_faults(&self) -> usize {
        self.single.len()
    }

    pub(super) const fn fault_pairs(&self) -> usize {
        self.pairs.len()
    }

    /// The number of plans, if it is known.
    pub(super) fn total(&self) -> Option<usize> {
        let seeds = usize::try_from(self.seeds).ok()?;
        self.until
            .is_none()
            .then(|| (self.single.len() + self.pairs.len()).saturating_add(seeds))
    }

    /// The plan with this index. `None` after the last plan, or when the time is over.
    pub(super) fn get(&self, index: usize) -> Option<Plan> {
        if let Some(plan) = self.single.get(index) {
            return Some(plan.clone());
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        let index = index - self.single.len();
        if let Some(plan) = self.pairs.get(index) {
            return Some(plan.clone());
        }
        let seed = u64::try_from(index - self.pairs.len()).ok()?;
        (seed < self.seeds).then(|| random(&self.faults, seed, self.last_step))
    }
}

/// A random sample of the plans with a fault at each of two steps in a row that touch objects of one
/// name: an object, its events, and the calls for it.
fn at_one_object(faults: &[Fault], steps: &[TracedStep], count: usize) -> Vec<Plan> {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut next = BTreeMap::new();
    let mut rows = Vec::new();
    for step in steps.iter().rev() {
        if let Some(object) = &step.object
            && let Some(later) = next.insert(object, step)
        {
            rows.push((step, later));
        }
    }
    let mut choose = |step: &TracedStep| {
        let fits = |fault: &Fault| fault.fits_step(step.kind, step.subject);
        let fitting: Vec<_> = faults.iter().copied().filter(fits).collect();
        fitting.choose(&mut random).copied()
    };
    let mut order = StdRng::seed_from_u64(SEED);
    // Some pairs are refused.
    let tries = (0..count.saturating_mul(2)).filter_map(|_| {
        let (first, second) = rows.choose(&mut order)?;
        let pair = [choose(first)?, choose(second)?];
        // If a client removes a finalizer while the operator does not run, no clean-up is possible.
        let hides =
            pair.contains(&Fault::StripFinalizers) && pair.iter().any(|it| it.hides_deletes());
        let planned = |step: u64, fault: Fault| PlannedFault { step, fault };
        (!hides).then(|| Plan {
            faults: vec![
                planned(first.number, pair[0]),
                planned(second.number, pair[1]),
            ],
            ..Plan::quiet(SEED)
        })
    });
    tries.take(count).collect()
}

/// A plan with random faults of a random choice of kinds, at least one.
fn random(faults: &[Fault], seed: u64, last_step: u64) -> Plan {
    let mut random = StdRng::seed_from_u64(seed);
    let mut kinds: Vec<_> = faults
        .iter()
        .copied()
        .filter(|_| random.random_bool(0.3))
        .collect();
    if kinds.is_empty() {
        kinds.extend(faults.choose(&mut random));
    }
    // If a client removes a finalizer while the operator does not run, no clean-up is possible.
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
