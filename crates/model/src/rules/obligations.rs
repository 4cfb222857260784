//! Rules about what must have happened in the end.

use super::{Broken, Checked, Verdict, must, settled};
use crate::{
    Action, Coalescing, Role, SelectorExit, Writer,
    facts::{Facts, Handling, Sighted, Uid, Work},
};

pub(super) const RULES: &[Checked] = &[
    settled("every_call_has_ended", "D16", all_ended),
    settled("the_newest_state_is_handled", "O4, D24", newest_handled),
    settled("a_delete_is_handled", "D20, D24", delete_handled),
    settled("a_pending_call_is_made", "D18, D28, GA-99", pending_made),
    settled("an_object_that_left_is_let_go", "D22", let_go),
    settled("a_live_object_has_our_finalizer", "D22, GA-83", guarded),
    settled(
        "no_dying_object_keeps_our_finalizer",
        "GA-76, O11",
        released,
    ),
    settled(
        "what_we_held_is_cleaned_up",
        "D22, GA-71, GA-75",
        cleaned_up,
    ),
];

/// Each handler with each object of its kind that came after the handler.
fn pairs(facts: &Facts) -> impl Iterator<Item = (&Handling, &Uid, &Sighted, Option<&Work>)> {
    let handlers = facts.handlers.values().filter(|it| it.removed.is_none());
    handlers.flat_map(move |handling| {
        let id = handling.handler.id;
        let sighted = facts.sighted.iter();
        let sighted = sighted.filter(|(_, it)| it.kind == handling.handler.kind && !it.unread);
        let sighted =
            sighted.filter(|(_, it)| it.life().is_some_and(|it| it.from.at > handling.added));
        sighted.map(move |(uid, sighted)| (handling, uid, sighted, facts.work(id, uid)))
    })
}

fn all_ended(facts: &Facts) -> Verdict {
    match facts.open.values().next() {
        None => Ok(()),
        Some(open) => Err(Broken::new(
            &open.began.object.uid,
            format!("{} has not ended", open.began.call),
        )),
    }
}

/// Each handler has been called with success for the newest state of each live object.
fn newest_handled(facts: &Facts) -> Verdict {
    for (handling, uid, sighted, work) in pairs(facts) {
        if !sighted.is_held() || handling.handler.filtered {
            continue;
        }
        let newest = &sighted.newest;
        let id = handling.handler.id;
        let Some(work) = work else {
            must(handling.is_wrapped(), uid, || {
                format!("{id} was never called, and {newest} is there")
            })?;
            continue;
        };
        if work.exhausted.is_some_and(|it| it >= newest.version) {
            continue;
        }
        let handled = work.since.and(work.succeeded);
        if handling.is_wrapped() {
            handled_by_wrapped(facts, handling, uid, sighted, work)?;
            continue;
        }
        must(handled.is_some_and(|it| it >= newest.version), uid, || {
            let handled = handled.map_or("nothing".to_owned(), |it| it.to_string());
            format!("{id} has handled {handled}, and {newest} is there")
        })?;
    }
    Ok(())
}

/// A wrapped handler has been given everything of the newest state that matters to it.
fn handled_by_wrapped(
    facts: &Facts,
    handling: &Handling,
    uid: &Uid,
    sighted: &Sighted,
    work: &Work,
) -> Verdict {
    let newest = &sighted.newest;
    let Some(last) = &work.last else {
        return Ok(());
    };
    let ends = facts.live(uid).is_none() || gave_up(facts, handling, Some(work));
    if newest.dying || ends {
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
    must(same, uid, || {
        format!(
            "{} was last given {last}, and {newest} is there",
            handling.handler.id
        )
    })?;
    must(
        work.succeeded.is_some_and(|it| it >= last.version),
        uid,
        || {
            format!(
                "the last call of {}, for {last}, failed",
                handling.handler.id
            )
        },
    )
}

/// Each handler has been called with success for the delete of each object that it was called
/// for, and that no informer has.
fn delete_handled(facts: &Facts) -> Verdict {
    for (handling, uid, sighted, work) in pairs(facts) {
        if sighted.is_held() || !handling.is_plain() {
            continue;
        }
        let Some(life) = sighted.life().filter(|it| !it.forgotten) else {
            continue;
        };
        let id = handling.handler.id;
        let Some(work) = work else {
            must(!life.listed_first && !every_event(facts), uid, || {
                format!("{id} was never called for an object that is gone")
            })?;
            continue;
        };
        must(work.since.is_none(), uid, || {
            format!("{id} was not called with deleted for an object that is gone")
        })?;
        let ended = facts.settings.delete_until_successor && has_successor(facts, uid);
        must(
            work.deleted || ended || work.exhausted.is_some(),
            uid,
            || format!("no call of {id} with deleted has succeeded"),
        )?;
    }
    Ok(())
}

fn pending_made(facts: &Facts) -> Verdict {
    for (handling, uid, sighted, work) in pairs(facts) {
        if !handling.is_plain() && !sighted.is_held() {
            // It was let go when it left the selector, or its delete was hidden.
            continue;
        }
        let pending = work.into_iter().flat_map(|it| &it.pending);
        // An object that is back is not cleaned up.
        let back = handling.is_wrapped() && sighted.is_held();
        let ends = facts.settings.delete_until_successor || back;
        let mut pending = pending.filter(|it| !it.uncertain && it.due < facts.now);
        let waiting = pending.find(|it| !(ends && it.action == Action::Deleted));
        must(waiting.is_none(), uid, || {
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
    for (handling, uid, sighted, work) in pairs(facts) {
        let Some(live) = facts.live(uid).filter(|it| !it.dying) else {
            continue;
        };
        let Some(ours) = handling.handler.finalizers.first() else {
            continue;
        };
        if !sighted.is_held() || gave_up(facts, handling, work) {
            continue;
        }
        must(live.finalizers.contains(ours), uid, || {
            format!(
                "the server has {live}, without the finalizer of {}",
                handling.handler.id
            )
        })?;
    }
    Ok(())
}

fn released(facts: &Facts) -> Verdict {
    for (handling, uid, sighted, work) in pairs(facts) {
        let Some(live) = facts.live(uid).filter(|it| it.dying) else {
            continue;
        };
        if !sighted.is_held() || gave_up(facts, handling, work) {
            continue;
        }
        must(!live.has_any(&handling.handler.finalizers), uid, || {
            format!("the server has {live}")
        })?;
    }
    Ok(())
}

/// What a wrapper held and has seen leave the selector has no finalizer of it any more.
fn let_go(facts: &Facts) -> Verdict {
    if facts.settings.selector_exit == SelectorExit::Report {
        return Ok(());
    }
    for (handling, uid, sighted, work) in pairs(facts) {
        let left = sighted.life().is_some_and(|it| !it.forgotten) && !sighted.is_held();
        // What a restored server has outside of the selector, no informer has shown.
        let restored =
            (facts.live(uid)).is_some_and(|it| it.version.epoch > sighted.newest.version.epoch);
        let left = left && !restored;
        let Some(live) = facts.live(uid).filter(|_| left && handling.is_wrapped()) else {
            continue;
        };
        if gave_up(facts, handling, work) {
            continue;
        }
        must(!live.has_any(&handling.handler.finalizers), uid, || {
            format!("it left the selector, and the server has {live}")
        })?;
    }
    Ok(())
}

/// Whether another object of the same name was shown.
fn has_successor(facts: &Facts, uid: &Uid) -> bool {
    let own = facts.sighted.get(uid).map(|it| &it.key);
    let mut others = facts.sighted.iter().filter(|(other, _)| *other != uid);
    others.any(|(_, it)| Some(&it.key) == own)
}

/// Whether the retry policy gave up: after calls of the handler, or after patches of its wrapper.
fn gave_up(facts: &Facts, handling: &Handling, work: Option<&Work>) -> bool {
    let patches = handling.failed_patches > 0 && !facts.settings.retry.is_endless();
    patches || work.is_some_and(|it| it.exhausted.is_some())
}

/// Whether each event is dispatched by itself: there is one informer, and nothing is folded.
fn every_event(facts: &Facts) -> bool {
    facts.settings.coalescing == Coalescing::Never && facts.informers.len() == 1
}

/// Whatever a wrapper held, and is gone, has been cleaned up after, unless another client took
/// our finalizer away while no process watched.
fn cleaned_up(facts: &Facts) -> Verdict {
    for handling in facts
        .handlers
        .values()
        .filter(|it| it.is_wrapped() && it.removed.is_none())
    {
        let id = handling.handler.id;
        for (uid, on_server) in &facts.server {
            if on_server.live().is_some() || !on_server.was_guarded(id) {
                continue;
            }
            if facts.cleaned.contains_key(&(id, uid.clone()))
                || (facts.settings.delete_until_successor && has_successor(facts, uid))
            {
                continue;
            }
            let work = facts.work(id, uid);
            if gave_up(facts, handling, work) {
                continue;
            }
            let stripped = on_server
                .stripped(&handling.handler.finalizers)
                .map(|it| it.by);
            // It let the object go when that left the selector.
            if stripped == Some(Writer::Wrapper(id)) {
                continue;
            }
            let sighted = facts.sighted.get(uid);
            let absence = sighted.and_then(|it| it.absence_after(None));
            if facts.settings.selector_exit == SelectorExit::Report
                && absence.is_some_and(|it| on_server.erased > Some(it.from.at))
            {
                // It was left alone when it left the selector, and then nothing showed it.
                continue;
            }
            let by_other = stripped == Some(Writer::Other);
            let life = facts.sighted.get(uid).and_then(Sighted::life);
            let seen = life.is_some_and(|it| !it.forgotten) && work.is_some();
            must(by_other && !seen, uid, || {
                format!("{id} held it, it is gone, and no clean-up has succeeded")
            })?;
        }
    }
    Ok(())
}
