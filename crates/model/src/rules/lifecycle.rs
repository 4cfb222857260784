//! Rules from the first call for an object to the last.

use super::{Checked, Verdict, call, must};
use crate::{Action, Began, SelectorExit, facts::Facts};

pub(super) const RULES: &[Checked] = &[
    call("the_first_call_is_created", "D20, D24", first_is_created),
    call("created_comes_once", "D20", created_once),
    call("nothing_follows_deleted", "D20", nothing_after_deleted),
    call(
        "deleted_comes_when_no_informer_has_it",
        "D20",
        deleted_when_gone,
    ),
    call("a_successor_waits_for_the_delete", "D20", successor_waits),
    call(
        "a_successor_ends_the_delete_if_set",
        "D20, CK-30",
        successor_ends,
    ),
    call(
        "an_object_is_shown_before_it_is_handled",
        "D21",
        shown_before,
    ),
];

/// Whether the handler was there before the object was.
fn was_there(facts: &Facts, began: &Began) -> bool {
    let added = facts.handler(began.handler).map(|it| it.added);
    let shown =
        (facts.sighted.get(&began.object.uid)).and_then(|it| Some(it.lives.first()?.from.at));
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
        // What has the finalizer was handled by an earlier process.
        return must(began.action != Action::Updated, uid, || {
            format!("the first call of {} is {}", began.handler, began.action)
        });
    }
    let listed = (facts.sighted.get(uid)).is_some_and(|it| it.lives.iter().any(|it| it.listed));
    let fine = match began.action {
        Action::Created => true,
        Action::Deleted => listed,
        Action::Updated | Action::Resynced => false,
    };
    must(fine, uid, || {
        let seen = if listed {
            "from a list"
        } else {
            "first seen live"
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
        || facts.repeats_as_it_was(began.handler)
    {
        return Ok(());
    }
    let wrapped = facts
        .handler(began.handler)
        .is_some_and(super::super::facts::Handling::is_wrapped);
    let retried = work.pending.iter().any(|it| it.action == Action::Created);
    let succeeded = work.succeeded.is_some();
    // A wrapper lets an object go that leaves the selector, and adds it again when it is back.
    let sighted = facts.sighted.get(uid);
    let left = sighted.is_some_and(|it| it.absence_after(None).is_some());
    // What was queued when its last informer was removed is still called.
    let again = (facts.sighted.get(uid)).is_some_and(|it| it.times_forgotten() >= work.creations);
    let filtered = facts
        .handler(began.handler)
        .is_some_and(|it| it.handler.filtered);
    must(
        filtered
            || retried
            || again
            || (wrapped && (left || !succeeded || work.is_restored(&began.object))),
        uid,
        || {
            format!(
                "{} is called with created again, which was not to be repeated",
                began.handler
            )
        },
    )
}

fn nothing_after_deleted(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    if began.action == Action::Deleted || facts.repeats_as_it_was(began.handler) {
        return Ok(());
    }
    let (Some(sighted), Some(handling)) = (facts.sighted.get(uid), facts.handler(began.handler))
    else {
        return Ok(());
    };
    // The delete of an object goes to all handlers before anything else of it does.
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
        let again = sighted.is_back_after(closed)
            || (handling.is_wrapped() && work.is_restored(&began.object));
        // What was cleaned up and is back begins anew; a wrapper resumes what was not.
        let resumed = handling.is_wrapped() && !work.deleted;
        // Its `Created` may have been hidden.
        let resumed = resumed || handling.handler.filtered;
        let fine = again && (began.action == Action::Created || resumed);
        let fine = fine || (again && handler != began.handler);
        must(fine, uid, || {
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
    let (Some(sighted), Some(handling)) = (facts.sighted.get(uid), facts.handler(began.handler))
    else {
        return Ok(());
    };
    if handling.is_wrapped() {
        let left = sighted.absence_after(None).is_some();
        let left = left && facts.settings.selector_exit == SelectorExit::CleanUp;
        let dying = facts.live(uid).is_none_or(|it| it.dying) || sighted.newest.dying;
        // A server that was restored may have it alive again, which the wrapper cannot know.
        let dying = dying || began.object.dying;
        return must(dying || left, uid, || {
            "a clean-up begins for an object that is not to be deleted".to_owned()
        });
    }
    let work = facts.work(began.handler, uid);
    let closed = work.and_then(|it| it.closed);
    let repeated = closed.is_some() && work.is_some_and(|it| it.since.is_none());
    let gone = repeated || sighted.absence_after(closed.map(|it| it.from.at)).is_some();
    must(gone, uid, || {
        let holders: Vec<_> = sighted.holders.keys().map(ToString::to_string).collect();
        format!(
            "no informer lost it since; it is with [{}]",
            holders.join(" ")
        )
    })
}

fn successor_waits(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(handling) = facts.handler(began.handler) else {
        return Ok(());
    };
    let Some(own) = facts.sighted.get(uid) else {
        return Ok(());
    };
    let closed = (facts.work(began.handler, uid)).and_then(|it| it.closed);
    let Some(came) = own.came_after(closed.map(|it| it.from.at)) else {
        return Ok(());
    };
    if !handling.is_plain() {
        return Ok(());
    }
    for (other, sighted) in &facts.sighted {
        if other == uid || sighted.unsure || sighted.key != own.key || sighted.kind != own.kind {
            continue;
        }
        let Some(work) = facts.work(began.handler, other) else {
            continue;
        };
        // Two informers are two tasks: what both show in one instant has no order.
        let gone = (sighted.life()).is_some_and(|it| {
            !it.forgotten && it.until.is_some_and(|until| until.time < came.time)
        });
        must(!(gone && work.since.is_some()), uid, || {
            format!(
                "{} was not called with deleted for {other}, which is gone",
                began.handler
            )
        })?;
    }
    Ok(())
}

/// With the setting, no delete is retried once its successor was handled.
fn successor_ends(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    if began.action != Action::Deleted || !facts.settings.delete_until_successor {
        return Ok(());
    }
    let retried = (facts.work(began.handler, uid))
        .is_some_and(|it| it.since.is_none() && it.closed.is_some());
    let successor = facts.sighted.iter().find(|(other, sighted)| {
        let work = facts.work(began.handler, other);
        *other != uid
            && sighted.key == began.object.key
            && work.is_some_and(|it| it.since.is_some())
    });
    // It may have come with a restored server, and the delete after it.
    let restored = successor.is_some_and(|(_, it)| it.newest.version.epoch > 0);
    must(!retried || restored || successor.is_none(), uid, || {
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
    let Some(sighted) = facts.sighted.get(uid) else {
        return must(false, uid, || {
            "no informer of this process showed it".to_owned()
        });
    };
    let shown = sighted.versions.contains_key(&object.version)
        || sighted.newest.version == object.version
        // Its last state can have the version of its deletion.
        || began.action == Action::Deleted
        // A wrapper passes on what its patches and questions were answered.
        || handling.is_wrapped();
    must(shown, uid, || format!("no informer showed {object}"))
}
