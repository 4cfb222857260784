//! Rules about wrappers: what they write, and what they pass on.

use std::sync::Arc;

use super::{Checked, Verdict, call, must, write};
use crate::{
    Action, Began, Dequeue, Role, SelectorExit, Snapshot, Writer,
    facts::{Facts, Uid},
};

pub(super) const RULES: &[Checked] = &[
    call(
        "no_created_without_our_finalizer",
        "D2",
        created_when_guarded,
    ),
    call(
        "a_clean_up_that_succeeded_is_not_repeated",
        "D22",
        cleaned_once,
    ),
    call("echoes_are_not_passed_on", "D22, GA-79", no_echo),
    write("a_dying_object_gets_no_finalizer", "D6", not_on_dying),
    write(
        "finalizers_of_others_are_not_touched",
        "D7",
        others_untouched,
    ),
    write(
        "our_finalizer_goes_after_the_clean_up",
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
    let Some(on_server) = facts.server.get(uid) else {
        return Ok(());
    };
    let live = on_server.live();
    // The server was restored since, which the wrapper cannot know.
    let restored = live.is_some_and(|it| it.version.epoch > began.object.version.epoch);
    let held = restored || live.is_some_and(|it| it.has_any(ours));
    let stripped = (on_server.stripped(ours)).is_some_and(|it| it.by == Writer::Other);
    must(held || stripped, uid, || {
        "the object has no finalizer of ours, and no other client removed it".to_owned()
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
    // What it never held it may be told of each time that it is gone.
    let held = facts
        .server
        .get(uid)
        .is_none_or(|it| it.was_guarded(began.handler));
    let work = facts.work(began.handler, uid);
    let restored = work.is_some_and(|it| it.is_restored(&began.object));
    // No version says which of two informers has noticed a restored server.
    let restored = restored || facts.sighted.get(uid).is_some_and(|it| it.doubtful);
    must(cleaned.is_none() || again || restored || !held, uid, || {
        format!("{} cleaned it up before, and that succeeded", began.handler)
    })
}

/// A watcher is given new generations and changed finalizers of others, a reconciler every
/// change but our own.
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
                Role::Reconciler => new.content != last.content || new.dying != last.dying,
            }
    };
    // What was changed and changed back may be passed on as one.
    let on_server = facts.server.get(uid);
    let changed = matters(new) || on_server.is_some_and(|it| it.was_in(&range, matters));
    // What puts our finalizer back is passed on once (GA-70).
    let put_back = on_server.is_some_and(|it| it.was_stripped_in(&range, ours));
    let restored = work.is_restored(new);
    // A call that the policy kept is repeated, whatever came meanwhile.
    let kept = facts.settings.dequeue != Dequeue::Always;
    must(changed || put_back || restored || kept, uid, || {
        format!("{} was given {last}, and now {new}", began.handler)
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
    must(!after.dying || added.is_none(), uid, || {
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
    must(before == after, uid, || {
        format!("those of others were {before:?}, and are {after:?}")
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
    let cleaned =
        (facts.cleaned.get(&(handler, Arc::clone(uid)))).is_some_and(|at| *at > handling.added);
    let left = (facts.sighted.get(uid)).is_some_and(|it| it.absence_after(None).is_some());
    let left = left && facts.settings.selector_exit == SelectorExit::Release;
    must(cleaned || (left && !before.dying), uid, || {
        format!("{handler} has not cleaned up after {before}")
    })
}
