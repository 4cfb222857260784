//! Obligations: rules about what must have happened when all work is done.

use super::{BrokenRule, CheckedRule, Verdict, ensure, settled};
use crate::{
    Action, Coalescing, Role, SelectorExit, Writer,
    facts::{Facts, HandlerState, ObservedObject, Uid, Work},
};

pub(super) const RULES: &[CheckedRule] = &[
    settled("every_call_has_ended", "D16", all_ended),
    settled("the_newest_state_is_handled", "O4, D24", newest_handled),
    settled("a_delete_is_handled", "D20, D24", delete_handled),
    settled("a_pending_call_is_made", "D18, D28, GA-99", pending_made),
    settled(
        "an_object_that_left_the_selector_is_released",
        "D22",
        released_after_exit,
    ),
    settled("a_live_object_has_our_finalizer", "D22, GA-83", guarded),
    settled(
        "no_terminating_object_keeps_our_finalizer",
        "GA-76, O11",
        released,
    ),
    settled(
        "an_object_with_our_finalizer_is_cleaned_up",
        "D22, GA-71, GA-75",
        cleaned_up,
    ),
];

/// All pairs of a handler and an object of its kind that appeared after the handler was added.
fn pairs(
    facts: &Facts,
) -> impl Iterator<Item = (&HandlerState, &Uid, &ObservedObject, Option<&Work>)> {
    let handlers = facts.handlers.values().filter(|it| it.removed.is_none());
    handlers.flat_map(move |handling| {
        let id = handling.handler.id;
        let observed = facts.observed.iter();
        let observed = observed.filter(|(_, it)| it.kind == handling.handler.kind && !it.unread);
        let observed = observed.filter(|(_, it)| {
            it.last_presence()
                .is_some_and(|it| it.from.at > handling.added)
        });
        observed.map(move |(uid, observed)| (handling, uid, observed, facts.work(id, uid)))
    })
}

fn all_ended(facts: &Facts) -> Verdict {
    match facts.open.values().next() {
        None => Ok(()),
        Some(open) => Err(BrokenRule::new(
            &open.began.object.uid,
            format!("{} has not ended", open.began.call),
        )),
    }
}

/// Each handler has had a successful call for the newest state of each existing object.
fn newest_handled(facts: &Facts) -> Verdict {
    for (handling, uid, observed, work) in pairs(facts) {
        if !observed.is_held() || handling.handler.filtered {
            continue;
        }
        let newest = &observed.newest;
        let id = handling.handler.id;
        let Some(work) = work else {
            ensure(handling.is_wrapped(), uid, || {
                format!("{id} was never called, and {newest} exists")
            })?;
            continue;
        };
        if work.exhausted.is_some_and(|it| it >= newest.version) {
            continue;
        }
        let handled = work.since.and(work.succeeded);
        if handling.is_wrapped() {
            handled_by_wrapped(facts, handling, uid, observed, work)?;
            continue;
        }
        ensure(handled.is_some_and(|it| it >= newest.version), uid, || {
            let handled = handled.map_or("nothing".to_owned(), |it| it.to_string());
            format!("{id} has handled {handled}, and {newest} exists")
        })?;
    }
    Ok(())
}

/// A wrapped handler has received every relevant part of the newest state.
fn handled_by_wrapped(
    facts: &Facts,
    handling: &HandlerState,
    uid: &Uid,
    observed: &ObservedObject,
    work: &Work,
) -> Verdict {
    let newest = &observed.newest;
    let Some(last) = &work.last else {
        return Ok(());
    };
    let ends = facts.live(uid).is_none() || is_exhausted(facts, handling, Some(work));
    if newest.terminating || ends {
        return Ok(());
    }
    let ours = &handling.handler.finalizers;
    let same = newest.finalizers_without(ours) == last.finalizers_without(ours)
        && match handling.handler.role {
            Role::Watcher => {
                newest.generation == last.generation
                    && (newest.generation.is_some() || newest.content == last.content)
            }
            Role::Reconciler => newest.content == last.content,
        };
    ensure(same, uid, || {
        format!(
            "{} last received {last}, and {newest} exists",
            handling.handler.id
        )
    })?;
    // A retry may have received the object of the event, and the failed call a newer one.
    let as_received = facts.settings.retry_as_received && work.succeeded.is_some();
    ensure(
        as_received || work.succeeded.is_some_and(|it| it >= last.version),
        uid,
        || {
            format!(
                "the last call of {}, for {last}, failed",
                handling.handler.id
            )
        },
    )
}

/// Each handler has had a successful `Deleted` call for each object that it was called for and
/// that no informer has any more.
fn delete_handled(facts: &Facts) -> Verdict {
    for (handling, uid, observed, work) in pairs(facts) {
        if observed.is_held() || !handling.is_plain() {
            continue;
        }
        let Some(presence) = observed.last_presence().filter(|it| !it.forgotten) else {
            continue;
        };
        let id = handling.handler.id;
        let Some(work) = work else {
            ensure(!presence.listed_first && !every_event(facts), uid, || {
                format!("{id} was never called for an object that was deleted")
            })?;
            continue;
        };
        ensure(work.since.is_none(), uid, || {
            format!("{id} was not called with deleted for an object that was deleted")
        })?;
        let ended = facts.settings.delete_until_successor && has_successor(facts, uid);
        ensure(
            work.deleted || ended || work.exhausted.is_some(),
            uid,
            || format!("no call of {id} with deleted has succeeded"),
        )?;
    }
    Ok(())
}

fn pending_made(facts: &Facts) -> Verdict {
    for (handling, uid, observed, work) in pairs(facts) {
        if !handling.is_plain() && !observed.is_held() {
            // It was released when it left the selector, or a predicate rejected its delete.
            continue;
        }
        let pending = work.into_iter().flat_map(|it| &it.pending);
        // An object that has returned is not cleaned up.
        let back = handling.is_wrapped() && observed.is_held();
        let ends = facts.settings.delete_until_successor || back;
        let mut pending = pending.filter(|it| {
            let cancelled =
                handling.is_wrapped() && observed.may_have_cancelled(&it.object, it.ahead);
            !it.uncertain && !cancelled && it.due < facts.now
        });
        let waiting = pending.find(|it| !(ends && it.action == Action::Deleted));
        ensure(waiting.is_none(), uid, || {
            let (action, due) = waiting.map_or(("", 0.0), |it| {
                (
                    if it.failed { "a retry" } else { "a requeue" },
                    it.due.as_secs_f64(),
                )
            });
            format!(
                "{action} of {} was due at {due:.3}s and not made",
                handling.handler.id
            )
        })?;
    }
    Ok(())
}

fn guarded(facts: &Facts) -> Verdict {
    for (handling, uid, observed, work) in pairs(facts) {
        let Some(live) = facts.live(uid).filter(|it| !it.terminating) else {
            continue;
        };
        let Some(ours) = handling.handler.finalizers.first() else {
            continue;
        };
        if !observed.is_held() || is_exhausted(facts, handling, work) {
            continue;
        }
        ensure(live.finalizers.contains(ours), uid, || {
            format!(
                "the server has {live}, without the finalizer of {}",
                handling.handler.id
            )
        })?;
    }
    Ok(())
}

fn released(facts: &Facts) -> Verdict {
    for (handling, uid, observed, work) in pairs(facts) {
        let Some(live) = facts.live(uid).filter(|it| it.terminating) else {
            continue;
        };
        if !observed.is_held() || is_exhausted(facts, handling, work) {
            continue;
        }
        ensure(!live.has_any(&handling.handler.finalizers), uid, || {
            format!("the server has {live}")
        })?;
    }
    Ok(())
}

/// An object that left the selector has no finalizer of the wrapper any more.
fn released_after_exit(facts: &Facts) -> Verdict {
    if facts.settings.selector_exit == SelectorExit::Report {
        return Ok(());
    }
    for (handling, uid, observed, work) in pairs(facts) {
        let left = observed.last_presence().is_some_and(|it| !it.forgotten) && !observed.is_held();
        let Some(live) = facts.live(uid).filter(|_| left && handling.is_wrapped()) else {
            continue;
        };
        if is_exhausted(facts, handling, work) {
            continue;
        }
        ensure(!live.has_any(&handling.handler.finalizers), uid, || {
            format!("it left the selector, and the server has {live}")
        })?;
    }
    Ok(())
}

/// Whether an informer had another object with the same name.
fn has_successor(facts: &Facts, uid: &Uid) -> bool {
    let own = facts.observed.get(uid).map(|it| &it.key);
    let mut others = facts.observed.iter().filter(|(other, _)| *other != uid);
    others.any(|(_, it)| Some(&it.key) == own)
}

/// Whether the retries are exhausted: of calls of the handler, or of patches of its wrapper.
fn is_exhausted(facts: &Facts, handling: &HandlerState, work: Option<&Work>) -> bool {
    let patches = handling.failed_patch.is_some() && !facts.settings.retry.is_endless();
    patches || work.is_some_and(|it| it.exhausted.is_some())
}

/// Whether each event is dispatched separately: there is one informer and no coalescing.
fn every_event(facts: &Facts) -> bool {
    facts.settings.coalescing == Coalescing::Never && facts.informers.len() == 1
}

/// Each deleted object that had the finalizer of a wrapper has been cleaned up, unless another
/// client removed the finalizer while no process ran.
fn cleaned_up(facts: &Facts) -> Verdict {
    for handling in facts
        .handlers
        .values()
        .filter(|it| it.is_wrapped() && it.removed.is_none())
    {
        let id = handling.handler.id;
        for (uid, server_object) in &facts.server {
            if server_object.live().is_some() || !server_object.was_guarded(id) {
                continue;
            }
            if facts.cleaned.contains_key(&(id, uid.clone()))
                || (facts.settings.delete_until_successor && has_successor(facts, uid))
            {
                continue;
            }
            let work = facts.work(id, uid);
            if is_exhausted(facts, handling, work) {
                continue;
            }
            let stripped = server_object
                .stripped(&handling.handler.finalizers)
                .map(|it| it.by);
            // The wrapper released the object when it left the selector.
            if stripped == Some(Writer::Wrapper(id)) {
                continue;
            }
            let observed = facts.observed.get(uid);
            let absence = observed.and_then(|it| it.absence_after(None));
            if facts.settings.selector_exit == SelectorExit::Report
                && absence.is_some_and(|it| server_object.removed > Some(it.from.at))
            {
                // The wrapper only reported that it left the selector, and then no informer had it.
                continue;
            }
            let left = observed
                .and_then(ObservedObject::last_presence)
                .and_then(|it| it.until);
            if facts.settings.selector_exit == SelectorExit::Release
                && left.is_some_and(|left| server_object.removed > Some(left.at))
            {
                // It was outside of the selector, and the wrapper does not clean up then.
                continue;
            }
            let change = server_object.stripped(&handling.handler.finalizers);
            let released = change.filter(|it| it.by == Writer::Other);
            let released = released.and_then(|it| Some(it.after.as_ref()?.version));
            let is_outside = released.is_some_and(|version| {
                let last = work.and_then(|it| it.last.as_ref());
                observed.is_some_and(|it| it.had_left_before(version))
                    && last.is_none_or(|last| last.version < version)
            });
            if facts.settings.selector_exit == SelectorExit::Release && is_outside {
                // Another client released it after it had left, and its next life has not begun.
                continue;
            }
            let by_other = stripped == Some(Writer::Other);
            let presence = facts
                .observed
                .get(uid)
                .and_then(ObservedObject::last_presence);
            let seen = presence.is_some_and(|it| !it.forgotten) && work.is_some();
            ensure(by_other && !seen, uid, || {
                format!("{id} had a finalizer on the deleted object, and no clean-up has succeeded")
            })?;
        }
    }
    Ok(())
}
