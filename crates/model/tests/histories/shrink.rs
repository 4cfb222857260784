//! Makes a script smaller that breaks a rule, as long as it breaks the same one.

use crate::{
    play::{Failed, play_all},
    script::{Options, Script},
};

/// The smallest script found that fails as `failed` does.
pub(crate) fn shrink(script: Script, failed: Failed) -> (Script, Failed) {
    let mut best = (script, failed);
    loop {
        let smaller = smaller(&best.0).into_iter().find_map(|script| {
            let all = play_all(&script);
            let same = all.into_iter().find(|it| it.name() == best.1.name());
            Some((script, same?))
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// Scripts that are a little smaller, those that are much smaller first.
fn smaller(script: &Script) -> Vec<Script> {
    let mut all = Vec::new();
    let steps = script.steps.len();
    let mut size = steps / 2;
    while size > 0 {
        for from in (0..steps).step_by(size).rev() {
            let mut smaller = script.clone();
            smaller.steps.drain(from..(from + size).min(steps));
            all.push(smaller);
        }
        size /= 2;
    }
    // The last ones, so that the numbers of the others stay.
    if script.handlers.len() > 1 {
        let mut smaller = script.clone();
        smaller.handlers.pop();
        all.push(smaller);
    }
    if script.informers.len() > 1 {
        let mut smaller = script.clone();
        smaller.informers.pop();
        all.push(smaller);
    }
    for at in 0..script.handlers.len() {
        let mut smaller = script.clone();
        let kind = &mut smaller.handlers[at];
        if std::mem::take(&mut kind.wrapped) || std::mem::take(&mut kind.filtered) {
            all.push(smaller);
        }
    }
    let Options { seed, .. } = script.options;
    for clear in [
        |it: &mut Options| it.dequeue = Options::default().dequeue,
        |it: &mut Options| it.retry = crate::script::RetryOption::Constant,
        |it: &mut Options| it.coalescing = Options::default().coalescing,
        |it: &mut Options| it.as_received = false,
        |it: &mut Options| it.before_sync = false,
        |it: &mut Options| it.no_generation = false,
        |it: &mut Options| it.until_successor = false,
        |it: &mut Options| it.exit = Options::default().exit,
        |it: &mut Options| it.timeout = 0,
        |it: &mut Options| it.queue = 0,
        |it: &mut Options| it.concurrency = 0,
    ] {
        let mut smaller = script.clone();
        clear(&mut smaller.options);
        debug_assert_eq!(smaller.options.seed, seed);
        if smaller != *script {
            all.push(smaller);
        }
    }
    all
}
