//! Rules about retries and requeues: their time, their attempt and their state.
//!
//! A delete starts with attempt 0 and without the state of other actions (D19, D14). Otherwise, a
//! policy with a limit would end the retries of a delete after failures of other calls.

use super::{CheckedRule, Verdict, call, ensure};
use crate::{
    Action, Began, Dequeue,
    facts::{Facts, Pending},
};

pub(super) const RULES: &[CheckedRule] = &[
    call("a_call_has_a_cause", "D12, D19, GA-98", has_cause),
    call("a_retry_waits_until_it_is_due", "D19", waits),
    call("an_attempt_counts_the_failures", "D19", counts),
    call(
        "a_state_is_kept_until_an_outcome_without_a_state",
        "D14, D19",
        carries_state,
    ),
];

/// Whether the handler has a wrapper, which makes additional calls.
fn is_wrapped(facts: &Facts, began: &Began) -> bool {
    facts
        .handler(began.handler)
        .is_some_and(super::super::facts::HandlerState::is_wrapped)
}

fn has_cause(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(work) = facts.work(began.handler, uid) else {
        return Ok(());
    };
    if is_wrapped(facts, began) {
        return Ok(());
    }
    let observed = facts.observed.get(uid);
    let cause = work.cause(began, observed, facts.now);
    // A predicate may have rejected the delete between two periods.
    let filtered = (facts.handler(began.handler)).is_some_and(|it| it.handler.filtered);
    let hidden = filtered && observed.is_some_and(|it| it.presences.len() > 1);
    ensure(
        cause.event || cause.due || cause.urgent || cause.resync || hidden,
        uid,
        || match work.pending.first() {
            Some(pending) => format!(
                "no event, and the pending call is due at {:.3}s",
                pending.due.as_secs_f64()
            ),
            None => "no event, and no pending call".to_owned(),
        },
    )
}

/// During a backoff, only a new generation, a deletion mark or a delete causes a call.
fn waits(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(work) = facts.work(began.handler, uid) else {
        return Ok(());
    };
    let cause = work.cause(began, facts.observed.get(uid), facts.now);
    // A pending call that is kept keeps its object, so a new event needs a separate call. Besides,
    // the wrapper may have been called for another reason than the inner handler.
    let kept = (facts.settings.retry_as_received || is_wrapped(facts, began))
        && facts.settings.dequeue != Dequeue::Always;
    // A finalizer that another client removed is restored immediately.
    let ours = (facts.handler(began.handler)).map(|it| &it.handler.finalizers);
    let stripped = ours
        .zip(facts.server.get(uid))
        .is_some_and(|(ours, server_object)| {
            let mut pending = work.pending.iter().map(|it| it.object.version);
            pending.any(|it| server_object.was_stripped_in(&(it..began.object.version), ours))
        });
    let returned = facts.may_have_left(began.handler, uid);
    let early = cause.urgent || kept || stripped || returned;
    if cause.due || early || began.action == Action::Deleted {
        return Ok(());
    }
    // An object that returned after its delete is dispatched immediately.
    let waits = |it: &&Pending| it.failed && !it.uncertain && it.due > facts.now;
    let waiting = (work.pending.iter()).find(|it| waits(it) && it.action != Action::Deleted);
    ensure(waiting.is_none(), uid, || {
        let due = waiting.map_or(0.0, |it| it.due.as_secs_f64());
        format!("the object is in backoff until {due:.3}s, and there was no urgent event")
    })
}

fn counts(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let (Some(work), Some(request)) = (facts.work(began.handler, uid), began.request) else {
        let first = began.request.is_none_or(|it| it.attempt == 0);
        return ensure(first, uid, || {
            "the first call has an attempt that is not 0".to_owned()
        });
    };
    if work.is_first_delete(began) {
        return ensure(request.attempt == 0, uid, || {
            format!("the first delete has the attempt {}", request.attempt)
        });
    }
    // A kept call of the wrapper continues its count, independent of the inner handler.
    let kept = is_wrapped(facts, began) && facts.settings.dequeue != Dequeue::Always;
    // The rules do not know which calls a policy of the user keeps.
    let kept = kept || facts.settings.dequeue == Dequeue::Other;
    // A handler with a predicate counts only the calls for the events that it receives.
    let filtered = (facts.handler(began.handler)).is_some_and(|it| it.handler.filtered);
    let returned = facts.may_have_left(began.handler, uid);
    if kept || filtered || returned {
        return Ok(());
    }
    // The engine counts by the states of the informers.
    let overtaken = work.pending.iter().any(|it| it.ahead);
    // A kept call has a separate count, and a removed call is not counted.
    let uncertain = work.pending.iter().any(|it| it.failed && it.uncertain);
    // The response that a wrapper passes on can differ from the state by which the engine counts.
    let shown =
        (facts.observed.get(uid)).is_none_or(|it| it.versions.contains_key(&began.object.version));
    let ahead = is_wrapped(facts, began) && !shown;
    let is_new = (work.counted.as_ref()).is_some_and(|it| began.object.is_urgent_after(it));
    let cause = work.cause(began, facts.observed.get(uid), facts.now);
    // A deletion mark is urgent also without a new generation.
    let deleted = began.action == Action::Deleted || began.object.terminating;
    let fine = match request.attempt {
        0 => {
            overtaken
                || uncertain
                || work.failures == 0
                || is_new
                || deleted
                || work.since.is_none()
        }
        // A retry can receive an object with a newer generation.
        attempt => {
            let counted = attempt == work.failures || uncertain;
            counted && (!is_new || cause.due || deleted || ahead)
        }
    };
    ensure(fine, uid, || {
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
    if facts.repeats_unchanged(began.handler) {
        return Ok(());
    }
    let Some(work) = facts.work(began.handler, uid) else {
        return ensure(request.state.is_none(), uid, || {
            "the first call has a state".to_owned()
        });
    };
    if work.is_first_delete(began) {
        return ensure(request.state.is_none(), uid, || {
            "the first delete has the state of another action".to_owned()
        });
    }
    let cause = work.cause(began, facts.observed.get(uid), facts.now);
    let repeats = cause.due && !cause.event && !cause.urgent && !cause.resync;
    if repeats && !is_wrapped(facts, began) {
        // A repeated call has the state of its request, independent of other calls.
        let mut due = work.pending.iter().filter(|it| it.due <= facts.now);
        let own = due.any(|it| it.uncertain || it.state == request.state);
        return ensure(own, uid, || {
            format!(
                "the state is {:?}, and no due call has this state",
                request.state
            )
        });
    }
    let pending = work.pending.iter().any(|it| it.state == request.state);
    let other = work.pending.len() > 1 || work.pending.iter().any(|it| it.action != began.action);
    // A kept call keeps its state, and an event has no state.
    let ended = work.exhausted.is_some() || facts.settings.dequeue != Dequeue::Always;
    let ended = ended || facts.may_have_left(began.handler, uid);
    // A clean-up does not pass its state to the calls for an object that has returned.
    let observed = facts.observed.get(uid);
    let closed = work.closed.filter(|_| work.since.is_none());
    let ended = ended
        || (observed.zip(closed)).is_some_and(|(observed, closed)| observed.is_back_after(closed));
    let fine =
        request.state == work.state || pending || ((other || ended) && request.state.is_none());
    ensure(fine, uid, || {
        format!(
            "the state is {:?}, and the last call returned {:?}",
            request.state, work.state
        )
    })
}
