//! Shrinks a script that breaks a rule: removes steps while it still breaks the same rule.

use crate::{
    play::{Failed, play_all},
    script::{Options, Script},
};

/// Returns the smallest script found with the same failure as `failed`.
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

/// Candidates for a smaller script, the smallest first.
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
    // Remove the last ones, so that the numbers of the others do not change.
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
        if std::mem::take(&mut kind.early)
            || std::mem::take(&mut kind.filtered)
            || std::mem::take(&mut kind.wrapped)
        {
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
