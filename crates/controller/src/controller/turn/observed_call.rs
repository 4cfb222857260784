//! A call that is reported to the hook and to the observer of calls.

use super::{Turn, call::Invocation};
use crate::{
    CallOutcome, CallReport, Outcome,
    call_observer::observer,
    schedule::Moment,
    work::{CallFailure, call_user_code},
};

/// A call, which is reported when it ends or is dropped.
pub(super) struct ObservedCall<'a> {
    pub(super) turn: &'a Turn<'a>,
    pub(super) invocation: &'a Invocation<'a>,
    pub(super) attempt: u32,
    /// When it began. `None` after it was reported.
    pub(super) began: Option<Moment>,
}

// === impl ObservedCall ===

impl ObservedCall<'_> {
    pub(super) fn begin(&self) {
        if let Some(observer) = observer() {
            observer.began(&self.turn.metrics.kind, self.invocation.key);
        }
    }

    /// Does not report a call that did not take place.
    pub(super) fn discard(&mut self) {
        self.began = None;
        if let Some(observer) = observer() {
            observer.ended(&self.turn.metrics.kind, self.invocation.key, None);
        }
    }

    pub(super) fn ended(&mut self, now: Moment, ended: &Result<Outcome, CallFailure>) {
        let outcome = match ended {
            Ok(outcome) => match outcome.delay() {
                Some(delay) => CallOutcome::Requeued(delay),
                None => CallOutcome::Succeeded,
            },
            Err(failed) if failed.instructions.is_repeated_conflict() => {
                CallOutcome::Conflict(&failed.error)
            }
            Err(failed) => CallOutcome::Failed(&failed.error),
        };
        self.report(now, outcome);
    }

    fn report(&mut self, now: Moment, outcome: CallOutcome<'_>) {
        let (hook, observer) = (&self.turn.shared.settings.on_call, observer());
        let Some(began) = self.began.take() else {
            return;
        };
        if hook.is_none() && observer.is_none() {
            return;
        }
        let report = CallReport {
            kind: &self.turn.metrics.kind,
            key: self.invocation.key,
            handler: self.invocation.handler.id,
            role: self.invocation.handler.role,
            action: self.invocation.action,
            attempt: self.attempt,
            outcome,
            duration: now - began,
        };
        if let Some(hook) = hook {
            call_user_code("on_call", || hook(&report));
        }
        if let Some(observer) = observer {
            observer.ended(report.kind, report.key, Some(&report));
        }
    }
}

impl Drop for ObservedCall<'_> {
    fn drop(&mut self) {
        if self.began.is_some() {
            let now = self.turn.shared.engine.now();
            self.report(now, CallOutcome::Abandoned);
        }
    }
}
