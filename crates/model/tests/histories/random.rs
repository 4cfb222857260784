//! Generates random scripts.

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::script::{
    Behaviour, CoalescingOption, DequeueOption, ExitOption, HandlerKind, Options, PatchFault,
    RetryOption, Script, Selector, Step,
};

/// The script with this number, which is always the same.
pub(crate) fn script(number: u64) -> Script {
    let mut random = StdRng::seed_from_u64(number);
    let random = &mut random;
    let wrapped = random.random_bool(0.5);
    let handlers: Vec<_> = (0..random.random_range(1..=3))
        .map(|_| handler(random, wrapped))
        .collect();
    let informers = informers(random);
    let options = options(random);
    let allowed = Allowed::some(random, options.timeout > 0);
    let length = random.random_range(4..=24);
    let mut steps = vec![Step::Create('a', 'x')];
    let lists = (0..informers.len()).filter(|_| random.random_bool(0.9));
    steps.extend(lists.collect::<Vec<_>>().into_iter().map(Step::List));
    while steps.len() < length {
        let step = step(random, &informers, &handlers, &allowed);
        steps.extend(step);
    }
    Script {
        handlers,
        informers,
        options,
        steps,
    }
}

/// The script with this number in which all handlers have a finalizer, many of them with a
/// predicate, and calls fail and are requeued, other clients write, and objects leave the selector
/// and return while the informer lags.
pub(crate) fn wrapped_script(number: u64) -> Script {
    // Other numbers than those of `script`.
    let mut random = StdRng::seed_from_u64(number ^ 0x5752_4150);
    let random = &mut random;
    let handlers: Vec<_> = (0..random.random_range(1..=2))
        .map(|_| HandlerKind {
            filtered: random.random_bool(0.6),
            ..loop {
                let kind = handler(random, true);
                if kind.wrapped {
                    break kind;
                }
            }
        })
        .collect();
    let informers = vec![Selector::Label('x')];
    let options = Options {
        no_generation: random.random_bool(0.1),
        ..options(random)
    };
    let allowed = Allowed {
        failures: true,
        requeues: true,
        strips: true,
        labels: true,
        patches: true,
        returns: true,
        names: 1,
        ..Allowed::some(random, options.timeout > 0)
    };
    let length = random.random_range(6..=24);
    let mut steps = vec![Step::Create('a', 'x'), Step::List(0)];
    while steps.len() < length {
        steps.extend(step(random, &informers, &handlers, &allowed));
    }
    // One informer with all objects of the kind: a wrapper has no other.
    steps.retain(|it| !matches!(it, Step::AddInformer(_)));
    Script {
        handlers,
        informers,
        options,
        steps,
    }
}

/// The script with this number for the embedded API server, which cannot be restored from a backup.
pub(crate) fn server_script(number: u64) -> Script {
    let mut script = script(number);
    script.options.server_object = true;
    // Leases have no generation there.
    script.options.no_generation = true;
    script.steps.retain(|it| *it != Step::Restore);
    script
}

/// The kinds of steps that a script has: a random subset, so that rare steps are frequent in some
/// scripts.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
struct Allowed {
    failures: bool,
    slow: bool,
    hangs: bool,
    requeues: bool,
    recreation: bool,
    strips: bool,
    holds: bool,
    labels: bool,
    lists: bool,
    patches: bool,
    handlers: bool,
    informers: bool,
    restarts: bool,
    restores: bool,
    /// Whether objects leave a selector and return, after which a call fails.
    returns: bool,
    names: usize,
}

impl Allowed {
    fn some(random: &mut StdRng, timeout: bool) -> Self {
        let mut maybe = |p| random.random_bool(p);
        Self {
            failures: maybe(0.6),
            slow: maybe(0.3),
            hangs: timeout && maybe(0.3),
            requeues: maybe(0.3),
            recreation: maybe(0.6),
            strips: maybe(0.3),
            holds: maybe(0.3),
            labels: maybe(0.4),
            lists: maybe(0.4),
            patches: maybe(0.4),
            handlers: maybe(0.15),
            informers: maybe(0.15),
            restarts: maybe(0.25),
            restores: maybe(0.1),
            returns: false,
            names: if maybe(0.8) { 1 } else { 2 },
        }
    }
}

fn handler(random: &mut StdRng, wrapped: bool) -> HandlerKind {
    let wrapped = wrapped && random.random_bool(0.7);
    let reconciler = random.random_bool(0.6);
    HandlerKind {
        wrapped,
        early: wrapped && reconciler && random.random_bool(0.3),
        reconciler,
        filtered: !wrapped && random.random_bool(0.1),
    }
}

fn informers(random: &mut StdRng) -> Vec<Selector> {
    use Selector::{All, Label};
    match random.random_range(0..10) {
        0..6 => vec![All],
        6 => vec![All, All],
        7 => vec![Label('x'), Label('y')],
        8 => vec![All, Label('x')],
        _ => vec![Label('x')],
    }
}

fn options(random: &mut StdRng) -> Options {
    let dequeue = match random.random_range(0..8) {
        0..4 => DequeueOption::Always,
        4 | 5 => DequeueOption::Never,
        6 => DequeueOption::Opinionated,
        _ => DequeueOption::Coin,
    };
    let retry = match random.random_range(0..8) {
        0..3 => RetryOption::Constant,
        3 | 4 => RetryOption::Doubling,
        5 => RetryOption::Default,
        6 => RetryOption::Twice,
        _ => RetryOption::Never,
    };
    let coalescing = match random.random_range(0..6) {
        0 | 1 => CoalescingOption::Always,
        _ => CoalescingOption::WhenFull,
    };
    Options {
        dequeue,
        retry,
        coalescing,
        as_received: random.random_bool(0.1),
        before_sync: random.random_bool(0.1),
        no_generation: random.random_bool(0.1),
        until_successor: random.random_bool(0.1),
        exit: match random.random_range(0..6) {
            0 | 1 => ExitOption::CleanUp,
            2 => ExitOption::Report,
            _ => ExitOption::Release,
        },
        timeout: if random.random_bool(0.3) { 5 } else { 0 },
        queue: if random.random_bool(0.3) { 2 } else { 0 },
        concurrency: usize::from(random.random_bool(0.2)),
        seed: 1,
        server_object: false,
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each step")]
fn step(
    random: &mut StdRng,
    informers: &[Selector],
    handlers: &[HandlerKind],
    allowed: &Allowed,
) -> Vec<Step> {
    let name = if random.random_range(0..allowed.names) == 0 {
        'a'
    } else {
        'b'
    };
    let label = if random.random_bool(0.5) { 'x' } else { 'y' };
    let informer = random.random_range(0..informers.len().max(1));
    let handler = random.random_range(0..handlers.len().max(1));
    let if_allowed = |allowed: bool, step: Step| if allowed { vec![step] } else { Vec::new() };
    match random.random_range(0..if allowed.returns { 45 } else { 43 }) {
        0..3 => vec![Step::Create(name, if allowed.labels { label } else { 'x' })],
        3..7 => vec![Step::Update(name)],
        7..9 => vec![Step::Touch(name)],
        9..11 => if_allowed(allowed.labels, Step::Label(name, label)),
        11..13 => vec![Step::Delete(name)],
        13 => if_allowed(allowed.strips, Step::Strip(name)),
        14 => if_allowed(allowed.holds, Step::Hold(name)),
        15 => if_allowed(allowed.holds, Step::Free(name)),
        16..23 => vec![Step::Show(informer, random.random_range(1..4))],
        23 => if_allowed(allowed.lists, Step::List(informer)),
        24 => if_allowed(allowed.lists, Step::ListOld(informer)),
        25 => if_allowed(allowed.lists, Step::Bookmark(informer)),
        26..29 => next(random, handler, allowed).into_iter().collect(),
        29 => if_allowed(allowed.patches, Step::Patch(fault(random))),
        30..35 => vec![Step::Wait(
            *[0, 0, 1, 3, 5, 20].choose(random).unwrap_or(&0),
        )],
        35 if allowed.recreation => vec![
            Step::Strip(name),
            Step::Free(name),
            Step::Delete(name),
            Step::Create(name, if allowed.labels { label } else { 'x' }),
        ],
        36 if allowed.handlers => {
            if random.random_bool(0.5) {
                vec![Step::AddHandler(self::handler(random, true))]
            } else {
                vec![Step::RemoveHandler(handler)]
            }
        }
        37 if allowed.informers => match random.random_range(0..6) {
            0 => vec![Step::AddInformer(self::informers(random)[0])],
            1 => vec![Step::RemoveInformer(informer)],
            2 => vec![Step::AddAgain(informer)],
            3 => vec![Step::RemoveInformer(informer), Step::AddAgain(informer)],
            4 => vec![Step::Share(informer)],
            _ => vec![Step::Unshare],
        },
        38 if allowed.restarts => {
            if random.random_bool(0.5) {
                vec![Step::Restart]
            } else {
                vec![Step::Crash]
            }
        }
        39 if allowed.restores => vec![Step::Restore],
        40 if allowed.patches => vec![Step::Release(fault(random))],
        // An object leaves a selector, and the informers receive this.
        41 | 42 if allowed.labels => {
            let left = if label == 'x' { 'y' } else { 'x' };
            let fails = allowed.patches && random.random_bool(0.5);
            let release = fails.then(|| Step::Release(fault(random)));
            let leaves = [
                Step::Label(name, left),
                Step::Show(informer, 3),
                Step::Wait(0),
            ];
            release.into_iter().chain(leaves).collect()
        }
        // An object leaves a selector and returns, and its first call then may fail.
        43 | 44 if allowed.labels => {
            let left = if label == 'x' { 'y' } else { 'x' };
            let shown = [Step::Show(informer, 5), Step::Wait(0)];
            let fails = (allowed.failures && random.random_bool(0.5))
                .then_some(Step::Next(handler, Behaviour::Fail));
            [Step::Label(name, left)]
                .into_iter()
                .chain(shown)
                .chain(fails)
                .chain([Step::Label(name, label)])
                .chain(shown)
                .collect()
        }
        _ => vec![Step::Show(informer, 1), Step::Wait(0)],
    }
}

fn next(random: &mut StdRng, handler: usize, allowed: &Allowed) -> Option<Step> {
    let seconds = *[1, 2, 6, 10].choose(random)?;
    let behaviour = match random.random_range(0..12) {
        0..3 if allowed.failures => Behaviour::Fail,
        3 if allowed.failures => Behaviour::FailWithState,
        4 if allowed.failures => Behaviour::FailAfter(seconds),
        5 if allowed.failures => Behaviour::Panic,
        6 if allowed.failures && allowed.hangs => Behaviour::Hang,
        7 if allowed.slow => Behaviour::Slow(seconds),
        8 if allowed.slow && allowed.failures => Behaviour::SlowFail(seconds),
        9 if allowed.requeues => Behaviour::Requeue(seconds),
        10 if allowed.requeues => Behaviour::RequeueWithState(seconds),
        _ => return None,
    };
    Some(Step::Next(handler, behaviour))
}

fn fault(random: &mut StdRng) -> PatchFault {
    let all = [
        PatchFault::Fails,
        PatchFault::Refused,
        PatchFault::Conflicts,
        PatchFault::LosesAnswer,
        PatchFault::Slow,
        PatchFault::Raced,
        PatchFault::Contended,
        PatchFault::Stripped,
    ];
    *all.choose(random).unwrap_or(&PatchFault::Fails)
}
