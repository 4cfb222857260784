//! Rules about the order of calls: one call at a time for each object, in add order, after sync.

use super::{CheckedRule, Verdict, call, ensure};
use crate::{Action, Began, facts::Facts};

/// The rules that also hold for level-triggered controllers.
pub(super) const ALL_CONTROLLERS: &[CheckedRule] = &[
    call("calls_for_one_object_never_overlap", "D16", serialized),
    call("no_call_follows_after_all_work_is_done", "O9", stays_quiet),
];

pub(super) const RULES: &[CheckedRule] = &[
    call("a_removed_handler_is_not_called", "GA-35", not_removed),
    call("no_handler_is_called_before_sync", "D23", after_sync),
    call("handlers_are_called_in_add_order", "GA-20", in_add_order),
];

fn serialized(facts: &Facts, began: &Began) -> Verdict {
    let kind = facts.handler(began.handler).map(|it| &it.handler.kind);
    let other = facts.open.values().find(|open| {
        open.began.object.key == began.object.key
            && facts.handler(open.began.handler).map(|it| &it.handler.kind) == kind
    });
    ensure(other.is_none(), &began.object.uid, || {
        let other = other
            .map(|it| it.began.call.to_string())
            .unwrap_or_default();
        format!("{} begins while {other} has not ended", began.call)
    })
}

fn not_removed(facts: &Facts, began: &Began) -> Verdict {
    let removed = facts
        .handler(began.handler)
        .is_none_or(|it| it.removed.is_some() && !it.continues);
    ensure(!removed, &began.object.uid, || {
        format!("{} was removed, or its controller stopped", began.handler)
    })
}

fn after_sync(facts: &Facts, began: &Began) -> Verdict {
    if facts.settings.start_before_sync {
        return Ok(());
    }
    let Some(handling) = facts.handler(began.handler) else {
        return Ok(());
    };
    let waiting = facts
        .informers
        .iter()
        .find(|(_, it)| !it.synced && it.initial);
    ensure(waiting.is_none(), &began.object.uid, || {
        let waiting = waiting.map(|(id, _)| id.to_string()).unwrap_or_default();
        let kind = &handling.handler.kind;
        format!("a handler of {kind} is called, and {waiting} has not synced")
    })
}

/// Each event is dispatched to the watchers, then to the reconcilers, in add order: when a handler
/// is called for a new version, all earlier handlers have been called for it.
fn in_add_order(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(own) = facts.handler(began.handler) else {
        return Ok(());
    };
    let Some(observed) = facts.observed.get(uid) else {
        return Ok(());
    };
    let is_event = |work: Option<&crate::facts::Work>| {
        let Some(work) = work else {
            return true;
        };
        let cause = work.cause(began, Some(observed), facts.now);
        cause.event && work.pending.is_empty()
    };
    if began.action == Action::Resynced
        || !own.is_plain()
        // Events that were queued when the informer was removed are dispatched, then forgotten.
        || observed.times_forgotten() > 0
        || !is_event(facts.work(began.handler, uid))
    {
        return Ok(());
    }
    let version = began.object.version;
    let before = facts
        .chain(&own.handler.kind)
        .take_while(|it| it.handler.id != began.handler);
    for earlier in before {
        let shown = (observed.versions.get(&version)).map_or(0, |shown| shown.at);
        if !earlier.is_plain() || earlier.added > shown {
            continue;
        }
        let work = facts.work(earlier.handler.id, uid);
        if work.is_some_and(|it| !it.pending.is_empty()) {
            // It is in backoff, and is called when the backoff ends.
            continue;
        }
        let called = match began.action {
            Action::Deleted => work.is_none_or(|it| it.since.is_none() && it.closed.is_some()),
            _ => work.is_some_and(|it| it.last.as_ref().is_some_and(|it| it.version >= version)),
        };
        ensure(called, uid, || {
            format!(
                "{} is called for {} {} before {}, which was added earlier",
                began.handler, began.action, began.object, earlier.handler.id
            )
        })?;
    }
    Ok(())
}

fn stays_quiet(facts: &Facts, began: &Began) -> Verdict {
    ensure(!facts.is_settled, &began.object.uid, || {
        format!("{} begins although all work was done", began.call)
    })
}
