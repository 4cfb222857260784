//! The rules of level-triggered controllers.

use std::time::Duration;

use super::{CheckedRule, Verdict, call, ensure, idle, settled};
use crate::{
    Began, Outcome, Snapshot,
    facts::{Change, Facts, Lane, LaneCall},
    settings::Level,
};

pub(super) const RULES: &[CheckedRule] = &[
    call("a_call_has_the_newest_object", "BO-06, KR-04", is_newest),
    call(
        "no_call_begins_while_an_informer_lists_first",
        "D23, D38",
        all_synced,
    ),
    call("an_own_write_causes_no_call", "BO-07", has_cause),
    call(
        "an_early_call_keeps_the_attempt",
        "BO-21, D37",
        keeps_attempt,
    ),
    idle("a_change_is_not_late", "BO-04, BO-47", in_time),
    idle(
        "a_scheduled_call_is_not_late",
        "BO-05, BO-19, D37",
        scheduled,
    ),
    settled(
        "a_change_is_followed_by_a_call",
        "BO-04, BO-07, BO-09",
        followed,
    ),
    settled("the_last_call_succeeds", "O4, BO-19", succeeded),
];

/// The tolerance of a call that polls the stores.
const SLACK: Duration = Duration::from_secs(1);

/// The settings of a level-triggered controller, and the object and calls of each lane whose object
/// an informer has, without those that are marked for deletion: they need no call.
fn lanes(facts: &Facts) -> impl Iterator<Item = (&Level, &Change, Option<&Lane>)> {
    let level = facts.settings.level.iter();
    level.flat_map(move |level| {
        let changes = facts.level.changes.iter().filter(|it| it.is_primary);
        let newest = changes.filter(|it| {
            let newest = facts.level.newest(true, &it.object.key);
            newest.is_some_and(|newest| newest.at == it.at) && !it.is_deletion
        });
        let existing = newest.filter(|it| !it.object.terminating);
        existing.map(move |it| (level, it, facts.level.lanes.get(&it.object.key)))
    })
}

fn is_newest(facts: &Facts, began: &Began) -> Verdict {
    let object = &began.object;
    // The store has what was shown at an earlier time.
    let mut changes = facts.level.changes.iter().rev();
    let shown =
        changes.find(|it| it.is_primary && it.object.key == object.key && it.at.time < facts.now);
    let Some(shown) = shown else { return Ok(()) };
    let is_removed = shown.is_deletion && shown.object.uid == object.uid;
    ensure(!is_removed, &object.uid, || {
        format!("{} begins for an object that does not exist", began.call)
    })?;
    let is_newest = shown.is_deletion || object.version >= shown.object.version;
    ensure(is_newest, &object.uid, || {
        format!(
            "{} has {object}, and an informer has {}",
            began.call, shown.object
        )
    })
}

/// Also informers that were added while the controller runs: a call that reads an empty store deletes
/// or creates objects again.
fn all_synced(facts: &Facts, began: &Began) -> Verdict {
    let waiting = facts.informers.iter().find(|(_, it)| !it.synced);
    ensure(waiting.is_none(), &began.object.uid, || {
        let waiting = waiting.map(|(id, _)| id.to_string()).unwrap_or_default();
        format!("{} begins, and {waiting} has not synced", began.call)
    })
}

/// Since the last call began, another client has changed the object or one that affects it, or the
/// call is scheduled.
fn has_cause(facts: &Facts, began: &Began) -> Verdict {
    let Some(level) = &facts.settings.level else {
        return Ok(());
    };
    let object = &began.object;
    let lane = facts.level.lanes.get(&object.key);
    let Some((lane, last)) = lane.and_then(|lane| Some((lane, lane.calls.last()?))) else {
        return Ok(());
    };
    let is_new = last.object.uid != object.uid;
    let is_due = (lane.scheduled.as_ref()).is_some_and(|it| it.due <= facts.now);
    if is_new || is_due || facts.level.has_unknown_write(last) {
        return Ok(());
    }
    let is_in_backoff = (lane.scheduled.as_ref()).is_some_and(|it| it.has_failed);
    let timeout = level.own_write_timeout;
    // The last call may not have seen what was shown at the time of its begin.
    let mut changes = (facts.level.changes.iter()).filter(|it| it.at.time >= last.began.time);
    let is_caused = changes.any(|it| {
        affects(level, it, &object.key)
            && !facts.level.is_echo(it, &object.key, timeout, is_in_backoff)
    });
    ensure(is_caused, &object.uid, || {
        format!("{} begins, and only own writes were shown", began.call)
    })
}

/// A call that begins before the retry is due neither resets nor advances the number of failures.
fn keeps_attempt(facts: &Facts, began: &Began) -> Verdict {
    let object = &began.object;
    let lane = facts.level.lanes.get(&object.key);
    let lane = lane.filter(|lane| {
        let last = lane.calls.last();
        last.is_some_and(|last| last.object.uid == object.uid)
    });
    let failures = lane.map_or(0, |lane| lane.failures);
    let is_urgent = facts.level.is_renewed(began);
    let attempt = began.request.map_or(failures, |it| it.attempt);
    ensure(attempt == failures || is_urgent, &object.uid, || {
        format!(
            "{} has the attempt {attempt}, and {failures} calls failed",
            began.call
        )
    })
}

/// When the last informer has synced. `None` while calls are not allowed.
fn opened(facts: &Facts) -> Option<Duration> {
    let is_open = facts.started.is_some() && facts.informers.values().all(|it| it.synced);
    let synced = facts.informers.values().filter_map(|it| it.synced_at).max();
    synced.filter(|_| is_open)
}

/// A change that no call has seen waits only for a retry, or until the stores show own writes.
fn in_time(facts: &Facts) -> Verdict {
    let Some(opened) = opened(facts) else {
        return Ok(());
    };
    for (level, newest, lane) in lanes(facts) {
        let last = lane.and_then(|lane| lane.calls.last());
        let is_in_backoff =
            (lane.and_then(|lane| lane.scheduled.as_ref())).is_some_and(|it| it.has_failed);
        if is_in_backoff {
            continue;
        }
        let ended = last.and_then(|last| last.ended).map(|it| it.time);
        let from = ended.unwrap_or_default().max(opened);
        if let Some((change, reason)) = unseen(facts, level, newest, lane) {
            // One of several informers can still have an object that another one has deleted.
            if change.is_deletion && facts.informers.len() > 2 {
                continue;
            }
            let latest = change.at.time.max(from) + level.own_write_timeout + SLACK;
            ensure(facts.now <= latest, &newest.object.uid, || reason)?;
        }
    }
    Ok(())
}

/// The requeue or the retry that the last call has left has begun when it is due.
fn scheduled(facts: &Facts) -> Verdict {
    let Some(opened) = opened(facts) else {
        return Ok(());
    };
    for (level, newest, lane) in lanes(facts) {
        let Some(scheduled) = lane.and_then(|lane| lane.scheduled.as_ref()) else {
            continue;
        };
        let latest = scheduled.latest.max(opened) + level.own_write_timeout + SLACK;
        let is_of_object = scheduled.object.uid == newest.object.uid;
        ensure(
            !is_of_object || facts.now <= latest,
            &newest.object.uid,
            || {
                let what = if scheduled.has_failed {
                    "retry"
                } else {
                    "requeue"
                };
                format!("a {what} was due at {:.3}s", scheduled.latest.as_secs_f64())
            },
        )?;
    }
    Ok(())
}

/// Each change by others, of the object or of one that affects it, was seen by a call.
fn followed(facts: &Facts) -> Verdict {
    for (level, newest, lane) in lanes(facts) {
        if let Some((_, reason)) = unseen(facts, level, newest, lane) {
            ensure(false, &newest.object.uid, || reason)?;
        }
    }
    Ok(())
}

fn succeeded(facts: &Facts) -> Verdict {
    for (_, newest, lane) in lanes(facts) {
        let last = lane.and_then(|lane| lane.calls.last());
        let outcome = last.and_then(|last| last.outcome.as_ref());
        let has_succeeded = matches!(outcome, Some(Outcome::Done | Outcome::Requeue { .. }));
        ensure(has_succeeded, &newest.object.uid, || {
            format!("the last call for {} has not succeeded", newest.object)
        })?;
    }
    Ok(())
}

/// Whether a change causes a call of `lane`.
fn affects(level: &Level, change: &Change, lane: &str) -> bool {
    let key = &change.object.key;
    if change.is_primary {
        return &**key == lane;
    }
    (level.mapped.iter()).any(|(from, to)| from == key && &**to == lane)
}

/// The first change by others, of the object of a lane or of one that affects it, after the last one
/// that a call has seen.
fn unseen<'a>(
    facts: &'a Facts,
    level: &'a Level,
    newest: &'a Change,
    lane: Option<&Lane>,
) -> Option<(&'a Change, String)> {
    let object = &newest.object;
    let calls = || {
        let calls = lane.into_iter().flat_map(|lane| &lane.calls);
        calls.filter(|call| call.object.uid == object.uid)
    };
    let own = facts.level.foreign(&object.key, true, &object.key);
    let own = own.filter(|it| it.object.uid == object.uid);
    // Changes that cancel each other out need no call.
    let is_equal = |one: &Snapshot, other: &Snapshot| {
        (&one.content, one.generation, &one.finalizers)
            == (&other.content, other.generation, &other.finalizers)
    };
    let has_begun = |change: &Change| {
        let mut calls = calls().map(|call| &call.object);
        calls.any(|seen| seen.version >= change.object.version || is_equal(seen, &change.object))
    };
    if let Some(change) = first_unseen(own, has_begun) {
        let reason = format!("no call began with {} or a newer state", change.object);
        return Some((change, reason));
    }
    let mapped = level.mapped.iter().filter(|(_, to)| *to == object.key);
    for (from, _) in mapped {
        let changes = facts.level.foreign(&object.key, false, from);
        let is_seen = |change: &Change| calls().any(|call| has_seen(call, change));
        if let Some(change) = first_unseen(changes, is_seen) {
            let what = if change.is_deletion {
                "the end of "
            } else {
                ""
            };
            let reason = format!(
                "no call for {object} has seen {what}{}, which affects it",
                change.object
            );
            return Some((change, reason));
        }
    }
    None
}

/// The first change after the last one that is seen.
fn first_unseen<'a>(
    changes: impl Iterator<Item = &'a Change>,
    is_seen: impl Fn(&Change) -> bool,
) -> Option<&'a Change> {
    let changes: Vec<_> = changes.collect();
    let seen = changes.iter().rposition(|change| is_seen(change));
    changes.get(seen.map_or(0, |seen| seen + 1)).copied()
}

/// Whether a call has read the state of `change`, or a newer one.
fn has_seen(call: &LaneCall, change: &Change) -> bool {
    let read = call.read.get(&change.object.key);
    if change.is_deletion {
        let is_later = call.began.at > change.at.at;
        return is_later && read.is_none_or(|read| read.uid != change.object.uid);
    }
    read.is_some_and(|read| read.version >= change.object.version)
}
