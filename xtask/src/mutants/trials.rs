//! The order in which a mutant runs the tests that reach it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{
    mutant::Mutant,
    outcomes::Outcome,
    run::{End, Test},
};
use crate::Result;

/// The time of the tests that a mutant runs: those of its package, and those of other packages. Most mutants that survive so long survive
/// all others too; the report names those for which tests were left.
const BUDGET: Duration = Duration::from_secs(30);

/// Runs the tests that reach a mutant, in the order in which they probably find it soonest.
pub(super) struct Trials<'a> {
    mutants: &'a [Mutant],
    tests: &'a [Test<'a>],

    /// The tests that reach each mutant.
    reaching: HashMap<usize, Vec<usize>>,

    tried: Mutex<Tried<'a>>,
}

/// How often each test was run for the mutants of a file, and how often it failed.
type Tried<'a> = HashMap<(&'a str, usize), (u32, u32)>;

// === impl Trials ===

impl<'a> Trials<'a> {
    pub(super) fn new(mutants: &'a [Mutant], tests: &'a [Test<'a>]) -> Self {
        let mut reaching = HashMap::<_, Vec<_>>::new();
        for (i, test) in tests.iter().enumerate() {
            for id in &test.reached {
                reaching.entry(*id).or_default().push(i);
            }
        }
        Self {
            mutants,
            tests,
            reaching,
            tried: Mutex::default(),
        }
    }

    /// The outcome of mutant `id`, and the test that it is due to.
    pub(super) fn run(&self, id: usize) -> Result<(Outcome, String)> {
        let file = &*self.mutants[id].file;
        let Some(reaching) = self.reaching.get(&id) else {
            return Ok((Outcome::Missed, "no test reaches it".to_owned()));
        };
        let tried = || self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let mut order: Vec<(f64, usize)> = Vec::new();
        for test in reaching {
            let (runs, failures) = tried().get(&(file, *test)).copied().unwrap_or_default();
            // The start of a process takes some milliseconds, too.
            let seconds = self.tests[*test].took.as_secs_f64() + 0.01;
            // The chance of a test that was not tried yet is a guess.
            let chance = (f64::from(failures) + 0.1) / (f64::from(runs) + 1.0);
            order.push((seconds / chance, *test));
        }
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let is_own = |test: usize| self.tests[test].binary.package == self.mutants[id].package;
        let (own, others): (Vec<_>, Vec<_>) = order.iter().partition(|(_, test)| is_own(*test));
        let mut left = [BUDGET, BUDGET];
        let mut count = 0;
        for &(_, test) in own.into_iter().chain(others) {
            let took = self.tests[test].took;
            let left = &mut left[usize::from(is_own(test))];
            let Some(rest) = left.checked_sub(took) else {
                continue;
            };
            *left = rest;
            count += 1;
            let end = self.tests[test].mutated(id)?;
            let mut tried = tried();
            let (runs, failures) = tried.entry((file, test)).or_default();
            *runs += 1;
            let outcome = match end {
                End::Passed => continue,
                End::Failed => Outcome::Caught,
                End::TimedOut => Outcome::TimedOut,
            };
            *failures += 1;
            return Ok((outcome, self.tests[test].to_string()));
        }
        let detail = format!("after {count} of {} tests", order.len());
        Ok((Outcome::Missed, detail))
    }
}
