//! Rules about the versions that a handler receives, and their order.

use super::{CheckedRule, Verdict, call, ensure};
use crate::{Action, Began, Coalescing, facts::Facts};

pub(super) const RULES: &[CheckedRule] = &[
    call(
        "no_event_is_skipped_without_coalescing",
        "D24",
        none_skipped,
    ),
    call("versions_never_go_back", "D21", never_back),
    call("an_update_begins_where_the_last_call_ended", "D21", chained),
];

fn never_back(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let Some(work) = facts.work(began.handler, uid) else {
        return Ok(());
    };
    let Some(last) = &work.last else {
        return Ok(());
    };
    // A policy may have replaced the object of a pending call, and then kept the call. The call of a
    // wrapper is repeated with the object of its event, and it may have passed on a newer one.
    let as_received = facts.settings.retry_as_received
        && (work.pending.iter())
            .any(|it| it.uncertain || work.wrapped || it.object.version == began.object.version);
    // A repeated clean-up of a deleted object receives the last state that an informer had.
    let gone = work.wrapped && began.action == Action::Deleted && work.since.is_none();
    let may_be_older = as_received || gone || facts.repeats_unchanged(began.handler);
    ensure(
        began.object.version >= last.version || may_be_older,
        uid,
        || {
            format!(
                "{} received {} before, and now {}",
                began.handler, last.version, began.object.version
            )
        },
    )
}

fn chained(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    let (Some(old), Action::Updated) = (&began.old, began.action) else {
        return Ok(());
    };
    ensure(old.uid == *uid, uid, || {
        format!(
            "the old state of the update belongs to {}, another object",
            old.uid
        )
    })?;
    let wrapped = facts.handler(began.handler).is_none_or(|it| !it.is_plain());
    ensure(old.version <= began.object.version, uid, || {
        format!(
            "the update is from {} to {}",
            old.version, began.object.version
        )
    })?;
    let Some(last) = facts
        .work(began.handler, uid)
        .filter(|it| it.since.is_some())
    else {
        return Ok(());
    };
    let given = last.last.as_ref().map(|it| it.version);
    let retried = last.pending.iter().any(|it| {
        it.old.as_ref().is_some_and(|it| it.version == old.version)
            || it.object.version == old.version
    });
    // A wrapper does not pass on each state, and a retry may have received a state whose event is
    // dispatched only now.
    let known = given == Some(old.version)
        || retried
        || (given.is_some_and(|given| old.version < given)
            && (last.was_retry || facts.settings.retry_as_received))
        || wrapped;
    ensure(known, uid, || {
        let given = given.map(|it| it.to_string()).unwrap_or_default();
        format!(
            "the update is from {}, and the last call was for {given}",
            old.version
        )
    })
}

/// Without coalescing, each state of the informer is dispatched separately, except to a handler in
/// backoff.
fn none_skipped(facts: &Facts, began: &Began) -> Verdict {
    let uid = &began.object.uid;
    if facts.settings.coalescing != Coalescing::Never || facts.informers.len() != 1 {
        return Ok(());
    }
    let (Some(observed), Some(work)) = (facts.observed.get(uid), facts.work(began.handler, uid))
    else {
        return Ok(());
    };
    let wrapped = facts.handler(began.handler).is_none_or(|it| !it.is_plain());
    let Some(event) = work
        .event
        .filter(|_| !wrapped && !work.backed_off && !observed.unread)
    else {
        return Ok(());
    };
    // After a delete, a new period begins.
    if !matches!(began.action, Action::Updated) || work.since.is_none() {
        return Ok(());
    }
    if began.object.version <= event {
        return Ok(());
    }
    let mut between = observed.versions.range(event..began.object.version);
    let skipped = between.find(|(version, _)| **version > event);
    ensure(skipped.is_none(), uid, || {
        let skipped = skipped.map(|it| it.0.to_string()).unwrap_or_default();
        format!("{} never received {skipped}", began.handler)
    })
}
