//! Rules about the lifecycle of an object: which call is the first, and which is the last.

use super::{CheckedRule, Verdict, call, ensure};
use crate::{Action, Began, Dequeue, SelectorExit, facts::Facts};

pub(super) const RULES: &[CheckedRule] = &[
    call("the_first_call_is_created", "D20, D24", first_is_created),
    call("created_is_not_repeated", "D20", created_once),
    call("nothing_follows_deleted", "D20", nothing_after_deleted),
    call(
        "deleted_is_called_when_no_informer_has_the_object",
        "D20",
        deleted_when_gone,
    ),
    call(
        "a_recreated_object_waits_for_the_delete",
        "D20",
        successor_waits,
    ),
    call(
        "a_recreated_object_ends_the_delete_if_configured",
        "D20, CK-30",
        successor_ends,
    ),
    call(
        "an_informer_has_an_object_before_it_is_handled",
        "D21",
        shown_before,
    ),
];

/// Whether the handler was added before any informer had the object.
fn was_there(facts: &Facts, began: &Began) -> bool {
    let added = facts.handler(began.handler).map(|it| it.added);
    let shown =
        (facts.observed.get(&began.object.uid)).and_then(|it| Some(it.presences.first()?.from.at));
    added.zip(shown).is_some_and(|(added, shown)| added < shown)
}

fn first_is_created(facts: &Facts, began: &Began) -> Verdict {
    let Some(handling) = facts.handler(began.handler) else {
        return Ok(());
    };
    let uid = &began.object.uid;
    if facts.work(began.handler, uid).is_some()
        || !was_there(facts, began)
        || handling.handler.filtered
    {
        return Ok(());
    }
    if handling.is_wrapped() {
        // An earlier process handled the objects that have the finalizer already.
        return ensure(began.action != Action::Updated, uid, || {
            format!("the first call of {} is {}", began.handler, began.action)
        });
    }
    let listed =
        (facts.observed.get(uid)).is_some_and(|it| it.presences.iter().any(|it| it.listed));
    let fine = match began.action {
        Action::Created => true,
        Action::Deleted => listed,
        Action::Updated | Action::Resynced => false,
    };
    ensure(fine, uid, || {
        let seen = if listed {
            "from a list"
        } else {
            "first received from a watch"
        };
        format!(
            "the first call of {} for an object {seen} is {}",
            began.handler, began.action
        )
    })
}

fn created_once(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(work) = facts.work(began.handler, uid) else {
        return Ok(());
    };
    if began.action != Action::Created
        || work.since.is_none()
        || facts.repeats_unchanged(began.handler)
    {
        return Ok(());
    }
    let wrapped = facts
        .handler(began.handler)
        .is_some_and(super::super::facts::HandlerState::is_wrapped);
    let retried = work.pending.iter().any(|it| it.action == Action::Created);
    let succeeded = work.succeeded.is_some();
    // When an object leaves the selector, a wrapper releases it, and adds it again when it returns.
    let left = facts.may_have_left(began.handler, uid);
    // Events that were queued when the last informer was removed are still dispatched.
    let again = (facts.observed.get(uid)).is_some_and(|it| it.times_forgotten() >= work.creations);
    let filtered = facts
        .handler(began.handler)
        .is_some_and(|it| it.handler.filtered);
    // A kept call is repeated, and the finalizer does not show that another call has succeeded.
    let early = facts
        .handler(began.handler)
        .is_some_and(|it| it.handler.early && facts.settings.dequeue != Dequeue::Always);
    ensure(
        filtered || early || retried || again || (wrapped && (left || !succeeded)),
        uid,
        || {
            format!(
                "{} is called with created again, although that call was not pending",
                began.handler
            )
        },
    )
}

fn nothing_after_deleted(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    if began.action == Action::Deleted || facts.repeats_unchanged(began.handler) {
        return Ok(());
    }
    let (Some(observed), Some(handling)) = (facts.observed.get(uid), facts.handler(began.handler))
    else {
        return Ok(());
    };
    // The delete of an object is dispatched to all handlers before its next event.
    let kind = &handling.handler.kind;
    let others = facts
        .chain(kind)
        .filter(|it| !it.is_wrapped() && !handling.is_wrapped());
    let others = others
        .filter(|it| it.handler.id != began.handler)
        .map(|it| it.handler.id);
    for handler in others.chain([began.handler]) {
        let Some(work) = facts.work(handler, uid) else {
            continue;
        };
        let Some(closed) = work.closed.filter(|_| work.since.is_none()) else {
            continue;
        };
        let again = observed.is_back_after(closed);
        // After a finished clean-up, an object that returns is new. A wrapper resumes an unfinished
        // one.
        let resumed = handling.is_wrapped() && !work.deleted;
        // Its `Created` may have been hidden.
        let resumed = resumed || handling.handler.filtered;
        let fine = again && (began.action == Action::Created || resumed);
        let fine = fine || (again && handler != began.handler);
        ensure(fine, uid, || {
            format!(
                "{} is called with {} after {handler} was called with deleted",
                began.handler, began.action
            )
        })?;
    }
    Ok(())
}

fn deleted_when_gone(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    if began.action != Action::Deleted {
        return Ok(());
    }
    let (Some(observed), Some(handling)) = (facts.observed.get(uid), facts.handler(began.handler))
    else {
        return Ok(());
    };
    if handling.is_wrapped() {
        let left = observed.absence_after(None).is_some();
        let left = left && facts.settings.selector_exit == SelectorExit::CleanUp;
        let terminating =
            facts.live(uid).is_none_or(|it| it.terminating) || observed.newest.terminating;
        return ensure(terminating || left, uid, || {
            "a clean-up begins for an object without a deletion mark".to_owned()
        });
    }
    let work = facts.work(began.handler, uid);
    let closed = work.and_then(|it| it.closed);
    let repeated = closed.is_some() && work.is_some_and(|it| it.since.is_none());
    let gone = repeated
        || observed
            .absence_after(closed.map(|it| it.from.at))
            .is_some();
    ensure(gone, uid, || {
        let holders: Vec<_> = observed.holders.keys().map(ToString::to_string).collect();
        format!(
            "no informer deleted the object; it is in the stores of [{}]",
            holders.join(" ")
        )
    })
}

fn successor_waits(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(handling) = facts.handler(began.handler) else {
        return Ok(());
    };
    let Some(own) = facts.observed.get(uid) else {
        return Ok(());
    };
    let closed = (facts.work(began.handler, uid)).and_then(|it| it.closed);
    let Some(came) = own.came_after(closed.map(|it| it.from.at)) else {
        return Ok(());
    };
    if !handling.is_plain() {
        return Ok(());
    }
    for (other, observed) in &facts.observed {
        if other == uid
            || observed.ambiguous_order
            || observed.key != own.key
            || observed.kind != own.kind
        {
            continue;
        }
        let Some(work) = facts.work(began.handler, other) else {
            continue;
        };
        // Two informers are two tasks: their events at the same time have no order.
        let gone = (observed.last_presence()).is_some_and(|it| {
            !it.forgotten && it.until.is_some_and(|until| until.time < came.time)
        });
        ensure(!(gone && work.since.is_some()), uid, || {
            format!(
                "{} was not called with deleted for {other}, which was deleted",
                began.handler
            )
        })?;
    }
    Ok(())
}

/// With `delete_until_successor`, no delete is retried after the recreated object was handled.
fn successor_ends(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    if began.action != Action::Deleted || !facts.settings.delete_until_successor {
        return Ok(());
    }
    let retried = (facts.work(began.handler, uid))
        .is_some_and(|it| it.since.is_none() && it.closed.is_some());
    let successor = facts.observed.iter().find(|(other, observed)| {
        let work = facts.work(began.handler, other);
        *other != uid
            && observed.key == began.object.key
            && work.is_some_and(|it| it.since.is_some())
    });
    ensure(!retried || successor.is_none(), uid, || {
        let successor = successor.map_or("", |(uid, _)| uid);
        format!(
            "the delete is retried after {} was called for {successor}",
            began.handler
        )
    })
}

fn shown_before(facts: &Facts, began: &Began) -> Verdict {
    let Some(handling) = facts.handler(began.handler) else {
        return Ok(());
    };
    let uid = &began.object.uid;
    let object = &began.object;
    let Some(observed) = facts.observed.get(uid) else {
        return ensure(false, uid, || {
            "no informer of this process had the object".to_owned()
        });
    };
    let shown = observed.versions.contains_key(&object.version)
        || observed.newest.version == object.version
        // The last state of a deleted object can have the version of its deletion.
        || began.action == Action::Deleted
        // A wrapper passes on objects from the responses to its patches and reads.
        || handling.is_wrapped();
    ensure(shown, uid, || format!("no informer had {object}"))
}
