//! Rules about wrappers: their writes to the server, and the calls of their inner handlers.

use std::sync::Arc;

use super::{CheckedRule, Verdict, call, ensure, write};
use crate::{
    Action, Began, Dequeue, Role, SelectorExit, Snapshot, Writer,
    facts::{Facts, Uid},
};

pub(super) const RULES: &[CheckedRule] = &[
    call("created_requires_our_finalizer", "D2", created_when_guarded),
    call(
        "the_finalizer_precedes_the_first_call",
        "D2, D30",
        created_with_finalizer,
    ),
    call(
        "a_clean_up_that_succeeded_is_not_repeated",
        "D22",
        cleaned_once,
    ),
    call("own_writes_do_not_cause_calls", "D22, GA-79", no_echo),
    write("a_terminating_object_gets_no_finalizer", "D6", not_on_dying),
    write(
        "finalizers_of_others_are_not_touched",
        "D7",
        others_untouched,
    ),
    write(
        "our_finalizer_is_removed_after_the_clean_up",
        "D3, GA-76",
        after_clean_up,
    ),
];

fn created_when_guarded(facts: &Facts, began: &Began) -> Verdict {
    let Some(handling) = facts.handler(began.handler).filter(|it| it.is_wrapped()) else {
        return Ok(());
    };
    let uid = &began.object.uid;
    let ours = &handling.handler.finalizers;
    if began.action != Action::Created {
        return Ok(());
    }
    let Some(server_object) = facts.server.get(uid) else {
        return Ok(());
    };
    let live = server_object.live();
    let held = live.is_some_and(|it| it.has_any(ours));
    let stripped = (server_object.stripped(ours)).is_some_and(|it| it.by == Writer::Other);
    ensure(held || stripped, uid, || {
        "the object has no finalizer of ours, and no other client removed it".to_owned()
    })
}

/// A wrapper with this setting calls its handler for a new object with the final finalizer, and has
/// written no other.
fn created_with_finalizer(facts: &Facts, began: &Began) -> Verdict {
    let handler = facts.handler(began.handler).map(|it| &it.handler);
    let Some(handler) = handler.filter(|it| it.early) else {
        return Ok(());
    };
    let Some((own, others)) = handler.finalizers.split_first() else {
        return Ok(());
    };
    let object = &began.object;
    let fine = object.finalizers.contains(own) && !object.has_any(others);
    ensure(began.action != Action::Created || fine, &object.uid, || {
        format!("{} is called for {object}", began.handler)
    })
}

fn cleaned_once(facts: &Facts, began: &Began) -> Verdict {
    let Some(handling) = facts.handler(began.handler).filter(|it| it.is_wrapped()) else {
        return Ok(());
    };
    let uid = &began.object.uid;
    if began.action != Action::Deleted {
        return Ok(());
    }
    let cleaned = facts.cleaned.get(&(began.handler, Arc::clone(uid)));
    let cleaned = cleaned.filter(|at| **at > handling.added);
    let since = facts.work(began.handler, uid).and_then(|it| it.since);
    let again = since
        .zip(cleaned)
        .is_some_and(|(since, cleaned)| since > *cleaned);
    // A handler can be called for each deletion of an object that never had our finalizer.
    let held = facts
        .server
        .get(uid)
        .is_none_or(|it| it.was_guarded(began.handler));
    let work = facts.work(began.handler, uid);
    // The clean-up of the present life has failed.
    let unfinished = work.is_some_and(|it| {
        let mut pending = it.pending.iter();
        !it.deleted && pending.any(|it| it.action == Action::Deleted)
    });
    // It returned to the selector: its new life has begun with the finalizer, and needs a clean-up of
    // its own although no call may have succeeded.
    let ours = &handling.handler.finalizers;
    let returned = (facts.server.get(uid))
        .zip(cleaned)
        .is_some_and(|(it, cleaned)| it.was_guarded_after(began.handler, ours, *cleaned));
    // Its add has failed before a call: the wrapper cleans up as it does for a new object whose add has
    // failed.
    let returned = returned
        || (facts.observed.get(uid))
            .zip(cleaned)
            .is_some_and(|(it, cleaned)| it.presences.iter().any(|it| it.from.at > *cleaned));
    let again = again || unfinished || returned;
    ensure(cleaned.is_none() || again || !held, uid, || {
        format!("{} repeats a clean-up that had succeeded", began.handler)
    })
}

/// A watcher is called for new generations and for changed finalizers of others, a reconciler for
/// every change except our own.
fn no_echo(facts: &Facts, began: &Began) -> Verdict {
    let Some(handling) = facts.handler(began.handler).filter(|it| it.is_wrapped()) else {
        return Ok(());
    };
    let uid = &began.object.uid;
    let Some(work) = facts.work(began.handler, uid) else {
        return Ok(());
    };
    let Some(last) = &work.last else {
        return Ok(());
    };
    if began.action != Action::Updated || !work.pending.is_empty() || work.exhausted.is_some() {
        return Ok(());
    }
    let ours = &handling.handler.finalizers;
    let new = &began.object;
    let range = last.version..new.version;
    let matters = |new: &Snapshot| {
        new.finalizers_without(ours) != last.finalizers_without(ours)
            || match handling.handler.role {
                Role::Watcher => new.is_urgent_after(last),
                Role::Reconciler => {
                    new.content != last.content || new.terminating != last.terminating
                }
            }
    };
    // A change and its reversal may be passed on as one call.
    let server_object = facts.server.get(uid);
    let changed = matters(new) || server_object.is_some_and(|it| it.was_in(&range, matters));
    // The write that restores our finalizer is passed on once (GA-70).
    let put_back = server_object.is_some_and(|it| it.was_stripped_in(&range, ours));
    // A kept call is repeated, independent of later events.
    let kept = facts.settings.dequeue != Dequeue::Always;
    ensure(changed || put_back || kept, uid, || {
        format!("{} received {last}, and now {new}", began.handler)
    })
}

fn not_on_dying(facts: &Facts, by: Writer, after: Option<&Arc<Snapshot>>, uid: &Uid) -> Verdict {
    let (Writer::Wrapper(handler), Some(after)) = (by, after) else {
        return Ok(());
    };
    let before = facts
        .live(uid)
        .map(|it| it.finalizers.clone())
        .unwrap_or_default();
    let added = after.finalizers.iter().find(|it| !before.contains(it));
    ensure(!after.terminating || added.is_none(), uid, || {
        format!("the wrapper of {handler} adds {added:?}")
    })
}

fn others_untouched(
    facts: &Facts,
    by: Writer,
    after: Option<&Arc<Snapshot>>,
    uid: &Uid,
) -> Verdict {
    let Writer::Wrapper(handler) = by else {
        return Ok(());
    };
    let Some(handling) = facts.handler(handler) else {
        return Ok(());
    };
    let ours = &handling.handler.finalizers;
    let before = facts
        .live(uid)
        .map(|it| it.finalizers_without(ours))
        .unwrap_or_default();
    let after = after
        .map(|it| it.finalizers_without(ours))
        .unwrap_or_default();
    ensure(before == after, uid, || {
        format!("finalizers of others were {before:?}, and are now {after:?}")
    })
}

fn after_clean_up(facts: &Facts, by: Writer, after: Option<&Arc<Snapshot>>, uid: &Uid) -> Verdict {
    let Writer::Wrapper(handler) = by else {
        return Ok(());
    };
    let Some(handling) = facts.handler(handler) else {
        return Ok(());
    };
    let ours = &handling.handler.finalizers;
    let Some(before) = facts.live(uid).filter(|it| it.has_any(ours)) else {
        return Ok(());
    };
    if after.is_some_and(|it| it.has_any(ours)) {
        return Ok(());
    }
    // A clean-up of an earlier life, before the object returned to the selector, does not count.
    let since = facts.work(handler, uid).and_then(|it| it.since);
    let cleaned = (facts.cleaned.get(&(handler, Arc::clone(uid))))
        .is_some_and(|at| *at > handling.added && since.is_none_or(|since| *at > since));
    let left = (facts.observed.get(uid)).is_some_and(|it| it.absence_after(None).is_some());
    let left = left && facts.settings.selector_exit == SelectorExit::Release;
    ensure(cleaned || (left && !before.terminating), uid, || {
        format!("{handler} has not cleaned up {before}")
    })
}
