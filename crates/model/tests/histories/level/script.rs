//! The script of a history of a level-triggered controller: the steps, and what its calls do.

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::script::{Behaviour, RetryOption, Step};

/// A script: the retry policy, and the steps.
#[derive(Clone, Debug)]
pub(super) struct LevelScript {
    pub(super) retry: RetryOption,
    pub(super) steps: Vec<LevelStep>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LevelStep {
    /// A step of the users, of an informer, of time or of the process.
    Common(Step),
    /// The next call does this.
    Call(Plan),
}

/// What a call does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The object that it writes: one of [`NAMES`]. `None` is the object that it is called for.
    pub(super) write: Option<(Option<char>, WriteForm)>,
    pub(super) then: Behaviour,
}

/// A write of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteForm {
    /// With the version that the call has read as a precondition.
    Guarded,
    Unguarded,
    /// It changes nothing.
    Unchanged,
    /// It is executed, and the response is 500.
    LosesAnswer,
    /// The response arrives after 2 s.
    Slow,
}

/// The names of the objects: `b` affects `a`, and `c` affects both.
pub(super) const NAMES: [char; 3] = ['a', 'b', 'c'];

// === impl LevelScript ===

impl LevelScript {
    /// The script with this number, which is always the same.
    pub(super) fn random(number: u64) -> Self {
        // Other numbers than those of the histories of event handlers.
        let mut random = StdRng::seed_from_u64(number ^ 0x4c45_5645);
        let random = &mut random;
        // Without jitter, so that the rules know which calls are early.
        let retry = if random.random_bool(0.4) {
            RetryOption::Doubling
        } else {
            RetryOption::Constant
        };
        let length = random.random_range(8..=30);
        let grows = random.random_bool(0.2);
        let restarts = random.random_bool(0.2);
        let mut steps = Vec::new();
        for name in NAMES {
            if random.random_bool(0.7) {
                steps.push(LevelStep::Common(Step::Create(name, 'x')));
            }
        }
        for informer in 0..2 {
            if random.random_bool(0.9) {
                steps.push(LevelStep::Common(Step::List(informer)));
            }
        }
        while steps.len() < length {
            steps.extend(step(random, grows, restarts));
        }
        Self { retry, steps }
    }
}

fn step(random: &mut StdRng, grows: bool, restarts: bool) -> Vec<LevelStep> {
    let name = *NAMES.choose(random).unwrap_or(&'a');
    let informer = random.random_range(0..if grows { 3 } else { 2 });
    let one = match random.random_range(0..40) {
        0..3 => Step::Create(name, 'x'),
        3..6 => Step::Update(name),
        6..10 => Step::Touch(name),
        10 => Step::Delete(name),
        11 => Step::Hold(name),
        12 => Step::Free(name),
        13..20 => Step::Show(informer, random.random_range(1..4)),
        20 => Step::List(informer),
        21 => Step::ListOld(informer),
        22 => Step::Bookmark(informer),
        23..30 => Step::Wait(*[0, 0, 1, 3, 6, 20].choose(random).unwrap_or(&0)),
        30 if restarts => Step::Restart,
        31 if restarts => Step::Crash,
        32 if grows => Step::AddInformer(crate::script::Selector::All),
        33 => {
            // Another client deletes an object, and creates it again.
            let again = [
                Step::Free(name),
                Step::Delete(name),
                Step::Create(name, 'x'),
            ];
            return again.map(LevelStep::Common).to_vec();
        }
        _ => return vec![LevelStep::Call(plan(random))],
    };
    vec![LevelStep::Common(one)]
}

fn plan(random: &mut StdRng) -> Plan {
    let forms = [
        WriteForm::Guarded,
        WriteForm::Guarded,
        WriteForm::Unguarded,
        WriteForm::Unchanged,
        WriteForm::LosesAnswer,
        WriteForm::Slow,
    ];
    let write = random.random_bool(0.7).then(|| {
        let target = random.random_bool(0.6).then(|| NAMES.choose(random));
        let form = forms.choose(random).copied();
        (
            target.flatten().copied(),
            form.unwrap_or(WriteForm::Unguarded),
        )
    });
    let seconds = *[1, 2, 6, 10].choose(random).unwrap_or(&1);
    let then = match random.random_range(0..10) {
        0 | 1 => Behaviour::Fail,
        2 => Behaviour::FailAfter(seconds),
        3 => Behaviour::Panic,
        4 => Behaviour::Slow(seconds),
        5 => Behaviour::SlowFail(seconds),
        6 => Behaviour::Requeue(seconds),
        _ => Behaviour::Succeed,
    };
    Plan { write, then }
}
