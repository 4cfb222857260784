//! Rules about delays: time passes without a call only if no call is possible.

use std::time::Duration;

use super::{CheckedRule, Verdict, ensure, idle};
use crate::{
    Action,
    facts::{Facts, HandlerState, ObservedObject, Uid, Work},
};

pub(super) const RULES: &[CheckedRule] = &[
    idle("an_event_is_not_late", "D19, D24", events),
    idle("a_retry_is_not_late", "D12, D19, D28", retries),
];

/// The tolerance of a timer, whose resolution is one millisecond.
const TICK: Duration = Duration::from_millis(2);

/// All pairs of a handler and an object that appeared after it, if handlers may be called.
fn pairs(
    facts: &Facts,
) -> impl Iterator<Item = (&HandlerState, &Uid, &ObservedObject, Option<&Work>)> {
    let synced = facts.settings.start_before_sync || facts.informers.values().all(|it| it.synced);
    let ready = synced && facts.started.is_some() && !facts.settings.retry_as_received;
    let handlers = facts
        .handlers
        .values()
        .filter(move |it| ready && it.removed.is_none());
    let handlers = handlers.filter(|it| it.is_plain());
    handlers.flat_map(move |handling| {
        let id = handling.handler.id;
        let observed = facts.observed.iter();
        let observed = observed.filter(|(_, it)| {
            it.kind == handling.handler.kind && !it.unread && !it.ambiguous_order
        });
        let observed = observed.filter(|(_, it)| {
            it.last_presence()
                .is_some_and(|it| it.from.at > handling.added)
        });
        observed.map(move |(uid, observed)| (handling, uid, observed, facts.work(id, uid)))
    })
}

/// All events of the informers have been dispatched, except to handlers in backoff.
fn events(facts: &Facts) -> Verdict {
    for (handling, uid, observed, work) in pairs(facts) {
        let id = handling.handler.id;
        let newest = &observed.newest;
        let failed = work.and_then(|it| it.pending.iter().find(|it| it.failed));
        if let Some(failed) = failed {
            let urgent = observed.is_held() && newest.is_urgent_after(&failed.object);
            let given = work.and_then(|it| it.last.as_ref());
            let given = given.is_some_and(|it| it.version >= newest.version);
            ensure(
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
        if observed.is_held() {
            let given = work.and_then(|it| it.since.and(it.last.as_ref()));
            ensure(
                given.is_some_and(|it| it.version >= newest.version),
                uid,
                || {
                    let given = given.map_or_else(|| "nothing".to_owned(), ToString::to_string);
                    format!("{id} received {given}, and an informer has {newest}")
                },
            )?;
        } else if observed.last_presence().is_some_and(|it| !it.forgotten) {
            ensure(work.is_none_or(|it| it.since.is_none()), uid, || {
                format!("{id} was not called with deleted for an object that was deleted")
            })?;
        }
    }
    Ok(())
}

/// Each pending call that is due has been made.
fn retries(facts: &Facts) -> Verdict {
    for (handling, uid, _, work) in pairs(facts) {
        let pending = work.into_iter().flat_map(|it| &it.pending);
        let late = |due: Duration| due + TICK < facts.now;
        let ends = facts.settings.delete_until_successor;
        let mut pending = pending.filter(|it| !it.uncertain && late(it.latest));
        let waiting = pending.find(|it| !(ends && it.action == Action::Deleted));
        ensure(waiting.is_none(), uid, || {
            let due = waiting.map_or(0.0, |it| it.latest.as_secs_f64());
            let what = waiting.map_or("", |it| if it.failed { "retry" } else { "requeue" });
            format!("a {what} of {} was due at {due:.3}s", handling.handler.id)
        })?;
    }
    Ok(())
}
