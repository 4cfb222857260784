//! Rules about repeated calls: when, with which attempt and which state.
//!
//! The failures and the state of other actions say nothing about a delete (D19, D14): with a policy
//! that gives up, a delete would be given up after the failures of other calls.

use super::{Checked, Verdict, call, must};
use crate::{
    Action, Began, Dequeue,
    facts::{Facts, Pending},
};

pub(super) const RULES: &[Checked] = &[
    call("a_call_has_a_cause", "D12, D19, GA-98", has_cause),
    call("a_retry_waits_until_it_is_due", "D19", waits),
    call("an_attempt_counts_the_failures", "D19", counts),
    call(
        "a_state_lives_until_an_outcome_without_one",
        "D14, D19",
        carries_state,
    ),
];

/// Whether the wrapper of the handler makes calls of its own.
fn is_wrapped(facts: &Facts, began: &Began) -> bool {
    facts
        .handler(began.handler)
        .is_some_and(super::super::facts::Handling::is_wrapped)
}

fn has_cause(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(work) = facts.work(began.handler, uid) else {
        return Ok(());
    };
    if is_wrapped(facts, began) {
        return Ok(());
    }
    let sighted = facts.sighted.get(uid);
    let cause = work.cause(began, sighted, facts.now);
    let doubtful = sighted.is_some_and(|it| it.doubtful);
    // The delete between two lives may have been hidden from it.
    let filtered = (facts.handler(began.handler)).is_some_and(|it| it.handler.filtered);
    let doubtful = doubtful || (filtered && sighted.is_some_and(|it| it.lives.len() > 1));
    must(
        cause.event || cause.due || cause.urgent || cause.resync || doubtful,
        uid,
        || match work.pending.first() {
            Some(pending) => format!(
                "nothing happened, and what is pending is due at {:.3}s",
                pending.due.as_secs_f64()
            ),
            None => "nothing happened, and nothing is pending".to_owned(),
        },
    )
}

/// While a call is in backoff, only a new generation, a deletion mark or a delete makes a call.
fn waits(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(work) = facts.work(began.handler, uid) else {
        return Ok(());
    };
    let cause = work.cause(began, facts.sighted.get(uid), facts.now);
    // A kept call keeps its object, so a new event needs a call of its own; and the wrapper may
    // have been called for another reason than the inner handler.
    let kept = (facts.settings.retry_as_received || is_wrapped(facts, began))
        && facts.settings.dequeue != Dequeue::Always;
    // A finalizer that another client removed is put back at once.
    let ours = (facts.handler(began.handler)).map(|it| &it.handler.finalizers);
    let stripped = ours
        .zip(facts.server.get(uid))
        .is_some_and(|(ours, on_server)| {
            let mut pending = work.pending.iter().map(|it| it.object.version);
            pending.any(|it| on_server.was_stripped_in(&(it..began.object.version), ours))
        });
    if cause.due || cause.urgent || kept || stripped || began.action == Action::Deleted {
        return Ok(());
    }
    // An object that is back after its delete is called for at once.
    let waits = |it: &&Pending| it.failed && !it.uncertain && it.due > facts.now;
    let waiting = (work.pending.iter()).find(|it| waits(it) && it.action != Action::Deleted);
    must(waiting.is_none(), uid, || {
        let due = waiting.map_or(0.0, |it| it.due.as_secs_f64());
        format!("it is in backoff until {due:.3}s, and nothing urgent happened")
    })
}

fn counts(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let (Some(work), Some(request)) = (facts.work(began.handler, uid), began.request) else {
        let first = began.request.is_none_or(|it| it.attempt == 0);
        // A failed patch of the wrapper is a failed call.
        return must(first || is_wrapped(facts, began), uid, || {
            "the first call has an attempt that is not 0".to_owned()
        });
    };
    if work.is_first_delete(began) {
        return must(request.attempt == 0, uid, || {
            format!("the first delete has the attempt {}", request.attempt)
        });
    }
    let failed_patches = (facts.handler(began.handler)).is_some_and(|it| it.failed_patches > 0);
    // A call of the wrapper that the policy kept counts on, whatever the inner one did.
    let kept = is_wrapped(facts, began) && facts.settings.dequeue != Dequeue::Always;
    // Of such a policy the rules do not know which calls it keeps.
    let kept = kept || facts.settings.dequeue == Dequeue::Other;
    // A wrapper may give what the restored server answered before the informers notice, and the
    // engine counts by what they show.
    let restored = is_wrapped(facts, began) && began.object.version.epoch > 0;
    // It counts the calls for what it is given.
    let filtered = (facts.handler(began.handler)).is_some_and(|it| it.handler.filtered);
    if failed_patches || kept || restored || filtered {
        // They are failures of the wrapped call.
        return Ok(());
    }
    // The engine counts by the state that the informers had shown.
    let overtaken = work.pending.iter().any(|it| it.ahead);
    // A call that the policy kept counts by itself, and one that it removed for nothing.
    let uncertain = work.pending.iter().any(|it| it.failed && it.uncertain);
    // What a wrapper was answered need not be what the engine counts by.
    let shown =
        (facts.sighted.get(uid)).is_none_or(|it| it.versions.contains_key(&began.object.version));
    let ahead = is_wrapped(facts, began) && !shown;
    let is_new = (work.counted.as_ref()).is_some_and(|it| began.object.is_urgent_after(it));
    let cause = work.cause(began, facts.sighted.get(uid), facts.now);
    // A deletion mark is urgent, and need not be a new generation.
    let deleted = began.action == Action::Deleted || began.object.dying;
    let fine = match request.attempt {
        0 => {
            overtaken
                || uncertain
                || work.failures == 0
                || is_new
                || deleted
                || work.since.is_none()
        }
        // A retry can have been given an object that is newer than its generation.
        attempt => {
            let counted = attempt == work.failures || uncertain;
            counted && (!is_new || cause.due || deleted || ahead)
        }
    };
    must(fine, uid, || {
        let new = if is_new {
            " in an earlier generation"
        } else {
            ""
        };
        format!(
            "the attempt is {}, and {} calls failed{new}",
            request.attempt, work.failures
        )
    })
}

fn carries_state(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(request) = began.request else {
        return Ok(());
    };
    if facts.repeats_as_it_was(began.handler) {
        return Ok(());
    }
    let Some(work) = facts.work(began.handler, uid) else {
        return must(request.state.is_none(), uid, || {
            "the first call has a state".to_owned()
        });
    };
    if work.is_first_delete(began) {
        return must(request.state.is_none(), uid, || {
            "the first delete has the state of another action".to_owned()
        });
    }
    let cause = work.cause(began, facts.sighted.get(uid), facts.now);
    let repeats = cause.due && !cause.event && !cause.urgent && !cause.resync;
    if repeats && !is_wrapped(facts, began) {
        // A repeated call has the state of its own request, whatever other calls left meanwhile.
        let mut due = work.pending.iter().filter(|it| it.due <= facts.now);
        let own = due.any(|it| it.uncertain || it.state == request.state);
        return must(own, uid, || {
            format!(
                "the state is {:?}, and no call that is due has it",
                request.state
            )
        });
    }
    let pending = work.pending.iter().any(|it| it.state == request.state);
    let other = work.pending.len() > 1 || work.pending.iter().any(|it| it.action != began.action);
    // A call that the policy kept keeps its state, and the event has none.
    let ended = work.exhausted.is_some() || facts.settings.dequeue != Dequeue::Always;
    let fine =
        request.state == work.state || pending || ((other || ended) && request.state.is_none());
    must(fine, uid, || {
        format!(
            "the state is {:?}, and the last call left {:?}",
            request.state, work.state
        )
    })
}
