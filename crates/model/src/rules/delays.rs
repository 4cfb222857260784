//! Rules about waiting: when time passes and no call is open, all that can be done is done.

use std::time::Duration;

use super::{Checked, Verdict, idle, must};
use crate::{
    Action,
    facts::{Facts, Handling, Sighted, Uid, Work},
};

pub(super) const RULES: &[Checked] = &[
    idle("an_event_is_not_late", "D19, D24", events),
    idle("a_retry_is_not_late", "D12, D19, D28", retries),
];

/// How much later than it is due a timer may fire: clocks count milliseconds.
const TICK: Duration = Duration::from_millis(2);

/// Each handler with each object that came after it, once handlers may be called.
fn pairs(facts: &Facts) -> impl Iterator<Item = (&Handling, &Uid, &Sighted, Option<&Work>)> {
    let synced = facts.settings.start_before_sync || facts.informers.values().all(|it| it.synced);
    let ready = synced && facts.started.is_some() && !facts.settings.retry_as_received;
    let handlers = facts
        .handlers
        .values()
        .filter(move |it| ready && it.removed.is_none());
    let handlers = handlers.filter(|it| it.is_plain());
    handlers.flat_map(move |handling| {
        let id = handling.handler.id;
        let sighted = facts.sighted.iter();
        let sighted = sighted.filter(|(_, it)| {
            it.kind == handling.handler.kind && !it.unread && !it.unsure && !it.doubtful
        });
        let sighted =
            sighted.filter(|(_, it)| it.life().is_some_and(|it| it.from.at > handling.added));
        sighted.map(move |(uid, sighted)| (handling, uid, sighted, facts.work(id, uid)))
    })
}

/// What the informers showed has been given to the handlers, but for those in backoff.
fn events(facts: &Facts) -> Verdict {
    for (handling, uid, sighted, work) in pairs(facts) {
        let id = handling.handler.id;
        let newest = &sighted.newest;
        let failed = work.and_then(|it| it.pending.iter().find(|it| it.failed));
        if let Some(failed) = failed {
            let urgent = sighted.is_held() && newest.is_urgent_after(&failed.object);
            let given = work.and_then(|it| it.last.as_ref());
            let given = given.is_some_and(|it| it.version >= newest.version);
            must(
                !urgent || given || failed.action == Action::Deleted,
                uid,
                || {
                    format!(
                        "{newest} is urgent, and {id} is in backoff since {}",
                        failed.object
                    )
                },
            )?;
            continue;
        }
        if sighted.is_held() {
            let given = work.and_then(|it| it.since.and(it.last.as_ref()));
            must(
                given.is_some_and(|it| it.version >= newest.version),
                uid,
                || {
                    let given = given.map_or_else(|| "nothing".to_owned(), ToString::to_string);
                    format!("{id} was given {given}, and {newest} was shown")
                },
            )?;
        } else if sighted.life().is_some_and(|it| !it.forgotten) {
            must(work.is_none_or(|it| it.since.is_none()), uid, || {
                format!("{id} was not called with deleted for an object that is gone")
            })?;
        }
    }
    Ok(())
}

/// What was due has been called.
fn retries(facts: &Facts) -> Verdict {
    for (handling, uid, _, work) in pairs(facts) {
        let pending = work.into_iter().flat_map(|it| &it.pending);
        let late = |due: Duration| due + TICK < facts.now;
        let ends = facts.settings.delete_until_successor;
        let mut pending = pending.filter(|it| !it.uncertain && late(it.latest));
        let waiting = pending.find(|it| !(ends && it.action == Action::Deleted));
        must(waiting.is_none(), uid, || {
            let due = waiting.map_or(0.0, |it| it.latest.as_secs_f64());
            let what = waiting.map_or("", |it| if it.failed { "retry" } else { "requeue" });
            format!("a {what} of {} was due at {due:.3}s", handling.handler.id)
        })?;
    }
    Ok(())
}
