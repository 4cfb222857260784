//! The repetition of a failed call, or its dead letter.

use std::{sync::Arc, time::Duration};

use windlass_informer::{ErrorChain, ObjectKey, log};

use super::{Turn, call::Invocation};
use crate::{
    Action, ErrorReport, ExponentialBackoff, Reasons, State,
    controller::{
        dead_letters::DeadLetterEntry,
        exhausted,
        queued::{LastFailure, RepeatableCall, RetrySchedule},
    },
    reconciler::Retry,
    schedule::{LaneKey, Moment, Priority},
    work::{CallFailure, call_user_code},
};

// === impl Turn ===

impl Turn<'_> {
    /// The repetition of a failed call, and the delay until it. `None` if it is not repeated: then it
    /// is a dead letter. Without a delay from the policy, `now` advances to the end of the hook.
    pub(super) async fn failed(
        &self,
        invocation: &Invocation<'_>,
        (attempt, state): (u32, Option<State>),
        backoff: RetrySchedule,
        is_fenced: bool,
        failed: CallFailure,
        now: &mut Moment,
    ) -> Option<(Duration, RepeatableCall)> {
        let action = reported_action(invocation, &failed);
        let kept_due = backoff.kept_by_failure(*now, failed.error.is_finalizer_failure());
        let (delay, attempt, backoff) = if is_fenced {
            // It did not fail: the lease ended. Its repetition waits for the next lease.
            (Some(Duration::ZERO), attempt, backoff.without_early_call())
        } else {
            self.next_attempt(invocation, (attempt, backoff), (*now, kept_due), &failed)
        };
        self.warn_of_ended_backoffs(invocation, backoff.ended);
        let call = RepeatableCall {
            event: invocation.event.clone(),
            is_deferred: false,
            attempt,
            state: failed.instructions.state.or(state).map(Box::new),
            failed: Some(Box::new(LastFailure {
                error: Arc::new(failed.error),
                object: None,
                backoff,
            })),
            reasons: Reasons::default(),
            origin: self.origin.clone(),
        };
        let Some(delay) = delay else {
            self.wake_instead_of_retry(invocation.key);
            self.add_exhausted(invocation, action, call).await;
            *now = self.shared.engine.now();
            return None;
        };
        if !is_fenced && kept_due.is_none() {
            self.metrics.retried();
        }
        Some((delay, call))
    }

    /// The delay until the retry of a call that failed at `now`, if there is one, its attempt number and
    /// its schedule. `kept_due` is the due time that it keeps.
    ///
    /// A finalizer that was not written is not a failure of the handler: it uses none of its attempts,
    /// and is repeated whatever the policy says, because the object would keep the finalizer.
    fn next_attempt(
        &self,
        invocation: &Invocation<'_>,
        (attempt, backoff): (u32, RetrySchedule),
        (now, kept_due): (Moment, Option<Moment>),
        failed: &CallFailure,
    ) -> (Option<Duration>, u32, RetrySchedule) {
        let is_finalizer = failed.error.is_finalizer_failure();
        let kept = kept_due.map(|due| due - now);
        let delay = if failed.instructions.is_repeated_conflict() {
            self.conflict_delay(invocation, failed)
        } else if is_finalizer {
            let delay = |random| {
                ExponentialBackoff::DEFAULT.delay_after(backoff.finalizer_failures, random)
            };
            let delay = kept.or_else(|| delay(self.shared.random()));
            self.retry_delay(invocation, attempt, delay, failed)
        } else {
            self.retry_delay(invocation, attempt, kept, failed)
        };
        let is_counted = kept.is_none() && !failed.instructions.is_conflict && !is_finalizer;
        let attempt = attempt.saturating_add(u32::from(is_counted));
        let backoff = backoff.after_failure(now, kept_due, (attempt, is_finalizer), delay);
        (delay, attempt, backoff)
    }

    /// Calls a level-triggered handler again if events wait for a retry that does not follow.
    fn wake_instead_of_retry(&self, key: &ObjectKey) {
        let own_writes = self.shared.own_writes.get();
        if let Some(reasons) = own_writes.and_then(|own| own.not_repeated(key)) {
            let keys = [key.clone()];
            self.shared.wake(self.kind, keys, Priority::Live, reasons);
        }
    }

    /// Logs that calls of a handler fail without a backoff, because its object changes each time.
    fn warn_of_ended_backoffs(&self, invocation: &Invocation<'_>, ended: u32) {
        /// How many backoffs in a row are ended before it is logged.
        const ROUNDS: u32 = 10;
        if ended == ROUNDS {
            log::warn!(
                component = "InformerController",
                kind = %self.metrics.kind,
                key = %invocation.key,
                handler = invocation.handler.id.0,
                handler_type = invocation.handler.code.type_name(),
                rounds = ROUNDS,
                "calls fail without backoff because the object changes after each failure; if the \
                 handler writes it, write only what differs, and after all other steps"
            );
        }
    }

    /// Logs that the handlers of an object are called very often.
    pub(super) fn warn_of_frequent_calls(
        &self,
        invocation: &Invocation<'_>,
        calls: u32,
        within: Duration,
    ) {
        log::warn!(
            component = "InformerController",
            kind = %self.metrics.kind,
            key = %invocation.key,
            calls,
            ?within,
            handler = invocation.handler.id.0,
            handler_type = invocation.handler.code.type_name(),
            "an object changes very often, and its handlers are called for each change; if a handler \
             writes the object, write only what differs"
        );
    }

    /// Returns the delay until the retry of a failed call, if there is one, and reports the
    /// failure. If there is a `fixed` delay, the policy is not asked.
    fn retry_delay(
        &self,
        invocation: &Invocation<'_>,
        attempt: u32,
        fixed: Option<Duration>,
        failed: &CallFailure,
    ) -> Option<Duration> {
        let settings = &self.shared.settings;
        let policy = || fixed.or_else(|| self.policy(invocation, attempt, failed));
        let retry_in = match failed.instructions.retry {
            Retry::Never => None,
            Retry::Policy => {
                let asked = failed.error.retry_after().unwrap_or_default();
                policy().map(|delay| delay.max(asked))
            }
            Retry::After(asked) => policy().map(|_| asked.max(fixed.unwrap_or_default())),
        };
        let report = self.report(invocation, attempt, failed, retry_in);
        call_user_code("on_error", || (settings.on_error)(&report));
        retry_in
    }

    /// Returns the delay after a conflict with another writer, if the policy repeats the call, and logs
    /// it: that of the failure or, if it has none, that of a first failure.
    fn conflict_delay(
        &self,
        invocation: &Invocation<'_>,
        failed: &CallFailure,
    ) -> Option<Duration> {
        let asked = failed.error.retry_after().unwrap_or_default();
        let delay = self.policy(invocation, 0, failed)?;
        let delay = match failed.instructions.retry {
            Retry::After(delay) => delay,
            _ => delay,
        };
        let delay = delay.max(asked);
        log::info!(
            component = "InformerController",
            kind = &*self.metrics.kind,
            object = %invocation.key,
            retry_in = ?delay,
            error = %ErrorChain::new(&failed.error),
            "another writer was faster, retrying"
        );
        Some(delay)
    }

    fn report<'a>(
        &'a self,
        invocation: &'a Invocation<'_>,
        attempt: u32,
        failed: &'a CallFailure,
        retry_in: Option<Duration>,
    ) -> ErrorReport<'a> {
        ErrorReport {
            kind: &self.metrics.kind,
            key: invocation.key,
            handler: invocation.handler.id,
            handler_type: invocation.handler.code.type_name(),
            role: invocation.handler.role,
            action: reported_action(invocation, failed),
            attempt,
            error: &failed.error,
            retry_in,
            object: invocation.event.object(),
            random: 0.0,
        }
    }

    /// Adds a dead letter with `action` for a call that is not repeated any more, and calls the hook.
    async fn add_exhausted(
        &self,
        invocation: &Invocation<'_>,
        action: Action,
        call: RepeatableCall,
    ) {
        let Some(error) = call.failed.as_ref().map(|failed| Arc::clone(&failed.error)) else {
            return;
        };
        let lane = LaneKey {
            kind: self.kind,
            object: invocation.key.clone(),
        };
        let (kind, handler) = (&self.metrics.kind, invocation.handler);
        let mut entry = DeadLetterEntry::new(lane, kind, handler, invocation.action, error, call);
        entry.letter.action = action;
        self.metrics.retries_exhausted();
        let letter = self.shared.add_dead_letter(entry);
        // After the dead letter was added: the hook may redrive it.
        let settings = &self.shared.settings;
        if let Some(hook) = &settings.on_exhausted {
            // As for a handler, because the hook may write a status. After a stop, no hook waits for
            // the lease.
            let permit = tokio::select! {
                biased;
                permit = self.shared.permit() => permit,
                () = self.end.cancelled() => return,
            };
            let called = exhausted::call(hook, letter, settings.call_timeout);
            match &permit {
                Some(permit) => permit.within(called).await,
                None => called.await,
            }
        }
    }

    /// Returns the decision of the retry policy; of the default policy if it panics.
    fn policy(
        &self,
        invocation: &Invocation<'_>,
        attempt: u32,
        failed: &CallFailure,
    ) -> Option<Duration> {
        let random = self.shared.random();
        let policy = &self.shared.settings.retry;
        let report = ErrorReport {
            random,
            ..self.report(invocation, attempt, failed, None)
        };
        call_user_code("retry_policy", || policy.delay(&report, random))
            .unwrap_or_else(|| ExponentialBackoff::DEFAULT.delay_after(attempt, random))
    }

    pub(super) fn is_last(&self, attempt: u32) -> bool {
        let max = self.shared.max_attempts;
        max.is_some_and(|max| attempt >= max)
    }
}

/// The action of the call of the handler that has failed: of a wrapper with a finalizer, that of its
/// inner call.
fn reported_action(invocation: &Invocation<'_>, failed: &CallFailure) -> Action {
    let inner = failed.instructions.inner_action;
    inner.unwrap_or(invocation.action)
}
