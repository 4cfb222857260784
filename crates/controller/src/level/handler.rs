//! Calls an `ObjectReconciler` for the newest object, with its finalizer, pace and hooks.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::time::Instant;
use windlass_informer::log;

use super::{
    Context, Mode, ObjectReconciler, Watchable,
    children::CallWrites,
    context::CallContext,
    own::{Begin, RunningCall},
    pace::Paces,
    setup::Setup,
};
use crate::{
    Action, Failure, FinalizerHook, FinalizerTiming, Finalizers, HandlerError, OnSelectorExit,
    OpinionatedReconciler, Outcome, Reconciler, Request, Retry,
    finalizer::{FinalizerGoal, FinalizerPresence},
    reconciler::Instructions,
    work::guarded,
};

/// The reconciler of the primary kind.
pub(super) struct LevelHandler<K: Watchable, R> {
    pub(super) paces: Paces,
    pub(super) calls: Arc<LevelCalls<K, R>>,
    pub(super) held: Option<HoldingCalls<K, R>>,
}

/// Calls with a finalizer.
pub(super) struct HoldingCalls<K: Watchable, R> {
    pub(super) finalizers: Finalizers<K>,
    pub(super) wrapper: OpinionatedReconciler<K, SharedCalls<K, R>>,
}

/// The calls of the user's reconciler, for the wrapper with the finalizer.
pub(super) struct SharedCalls<K: Watchable, R>(pub(super) Arc<LevelCalls<K, R>>);

/// Calls the user's reconciler.
pub(super) struct LevelCalls<K: Watchable, R> {
    pub(super) setup: Arc<Setup<K>>,
    pub(super) reconciler: R,
    pub(super) limit: Option<Duration>,
}

// === impl LevelHandler ===

impl<K, R> LevelHandler<K, R>
where
    K: Watchable + Serialize,
    R: ObjectReconciler<K>,
{
    pub(super) fn new(
        paces: Paces,
        calls: LevelCalls<K, R>,
        finalizers: Option<Finalizers<K>>,
        on_selector_exit: OnSelectorExit,
    ) -> Self {
        let calls = Arc::new(calls);
        let held = finalizers.map(|finalizers| HoldingCalls {
            wrapper: OpinionatedReconciler::new(
                finalizers.clone(),
                SharedCalls(Arc::clone(&calls)),
            )
            .finalizer_timing(FinalizerTiming::BeforeFirstCall)
            .on_selector_exit(on_selector_exit),
            finalizers,
        });
        Self { paces, calls, held }
    }

    /// Processes an object with a finalizer.
    async fn with_finalizer(
        &self,
        held: &HoldingCalls<K, R>,
        request: Request<K>,
    ) -> Result<Outcome, Failure> {
        let object = request.object();
        let is_held = held.finalizers.presence(object.meta()) != FinalizerPresence::Absent;
        let is_terminating = object.meta().deletion_timestamp.is_some();
        let is_paused = Mode::of(object.meta()) == Mode::Paused;
        if is_held && is_terminating && request.action() != Action::Deleted {
            self.calls.show_waiting_cleanup(&request).await?;
            if is_paused {
                return Ok(Outcome::done());
            }
        }
        let is_needed = self.calls.needs_finalizer(object);
        let is_deleted = request.action() == Action::Deleted;
        // An object that is not shown any more may exist, without the label that is selected, and may have
        // a finalizer that the informer has not shown.
        let is_held_outside = is_deleted && (is_held || held.wrapper.is_stale(object));
        if is_needed || (is_held && is_terminating) || is_held_outside {
            return held.wrapper.reconcile(request).await;
        }
        if is_deleted {
            held.wrapper.forget(object);
        }
        if is_deleted || is_terminating {
            return Ok(Outcome::done());
        }
        if is_held && !is_paused {
            held.finalizers
                .reach(FinalizerGoal::Release, object)
                .await?;
        }
        self.calls.reconcile(request).await
    }
}

impl<K, R> Reconciler<K> for LevelHandler<K, R>
where
    K: Watchable + Serialize,
    R: ObjectReconciler<K>,
{
    type Error = Failure;

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, Failure> {
        if request.action() == Action::Deleted {
            let setup = &self.calls.setup;
            self.paces.forget(request.key());
            setup.own.forget(request.key(), || {
                setup.primaries.get_lazy(request.key()).is_some()
            });
            let object = Arc::clone(request.object());
            let ended = match &self.held {
                Some(held) => self.with_finalizer(held, request).await,
                None => Ok(Outcome::done()),
            };
            // Last: a clean-up that applies or deletes children remembers them, and it can use memos.
            setup.memories.forget(&*object);
            setup.memos.forget(&*object);
            return ended;
        }
        let now = Instant::now();
        if let Some(wait) = self.paces.wait(request.key(), request.reasons(), now) {
            return Ok(Outcome::deferred(wait));
        }
        let setup = &self.calls.setup;
        let mut request = request;
        match setup
            .own
            .before_call(request.key(), setup.client(), now)
            .await
        {
            Begin::Now { is_stale } => {
                if is_stale {
                    setup.count_stale();
                }
                request.attempt.is_stale = is_stale;
            }
            Begin::After(wait) => return Ok(Outcome::deferred(wait)),
        }
        // A call that has waited for own writes has not used the limit.
        self.paces.begin(request.key(), Instant::now());
        match &self.held {
            Some(held) => self.with_finalizer(held, request).await,
            None if request.object().meta().deletion_timestamp.is_some() => Ok(Outcome::done()),
            None => self.calls.reconcile(request).await,
        }
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        self.held.as_ref()?.wrapper.finalizer()
    }
}

// === impl SharedCalls ===

impl<K, R> Reconciler<K> for SharedCalls<K, R>
where
    K: Watchable + Serialize,
    R: ObjectReconciler<K>,
{
    type Error = Failure;

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, Failure> {
        self.0.reconcile(request).await
    }
}

// === impl LevelCalls ===

impl<K, R> LevelCalls<K, R>
where
    K: Watchable,
    R: ObjectReconciler<K>,
{
    /// Whether the user's reconciler needs the finalizer. If that code panics, it does.
    pub(super) fn needs_finalizer(&self, object: &K) -> bool {
        let asked = || self.reconciler.needs_finalizer(object);
        crate::work::call_user_code("needs_finalizer", asked).unwrap_or(true)
    }

    /// Shows in the status whether the clean-up waits because the object is paused.
    async fn show_waiting_cleanup(&self, request: &Request<K>) -> Result<(), Failure>
    where
        K: Serialize,
    {
        let context = self.context(request);
        let _running = RunningCall(&context.call.writer);
        match context.show_waiting_cleanup().await {
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 422) => {
                log::debug!(
                    component = "Controller",
                    object = %context.key(),
                    code = status.code,
                    "the status of this kind cannot show that the clean-up waits"
                );
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Err(Failure::new(kube::Error::Api(status)).conflict())
            }
            shown => Ok(shown?),
        }
    }

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, Failure> {
        let context = self.context(&request);
        let _running = RunningCall(&context.call.writer);
        // Boxed, because the future of a reconciler can be large: each function that it passes through
        // would copy it, which takes more than the stack of a thread in a debug build.
        let ended = if request.action() == Action::Deleted {
            let cleanup = Box::pin(self.reconciler.cleanup(context.clone()));
            guarded("drop of a call", cleanup, self.limit).await
        } else {
            let reconcile = Box::pin(self.reconciler.reconcile(context.clone()));
            guarded("drop of a call", reconcile, self.limit).await
        };
        let (failure, error) = match ended {
            Ok(Ok(outcome)) => {
                self.setup.own.set_failing(request.key(), false);
                return Ok(context.call.writes.outcome(outcome));
            }
            Ok(Err(failure)) => {
                let (source, instructions) = failure.into().into_parts();
                (instructions, HandlerError::Failed { source })
            }
            Err(error) => (Instructions::default(), error),
        };
        if context.call.writer.has_refused() {
            // The annotation that pauses the object is the cause, and its removal wakes the lane.
            log::debug!(
                component = "Controller",
                object = %context.key(),
                error = %error,
                "a call for a paused object ended at a write"
            );
            self.setup.own.set_failing(request.key(), false);
            return Ok(context.call.writes.outcome(Outcome::done()));
        }
        let is_conflict = failure.is_conflict || error.is_conflict();
        let decided = if is_conflict {
            Retry::Policy
        } else {
            let hook = Box::pin(async { self.reconciler.failed(&context, &error).await });
            let decided = guarded("failed", hook, self.limit).await;
            decided.unwrap_or_else(|panicked| {
                log::error!(
                    component = "Controller",
                    object = %context.key(),
                    error = %panicked,
                    "the `failed` hook did not return, the retry policy decides"
                );
                Retry::Policy
            })
        };
        let retry = match decided {
            Retry::Policy => failure.retry,
            Retry::After(delay) => Retry::After(delay.max(error.retry_after().unwrap_or_default())),
            Retry::Never => Retry::Never,
        };
        // Before the call ends: events of its writes wait for the retry.
        let is_repeated = retry != Retry::Never && !request.last_attempt();
        (self.setup.own).set_failing(
            request.key(),
            is_repeated && request.action() != Action::Deleted,
        );
        let state = failure.state;
        let instructions = Instructions {
            state,
            retry,
            is_conflict,
            ..Instructions::default()
        };
        Err(Failure::with(error, instructions))
    }

    fn context(&self, request: &Request<K>) -> Context<K> {
        let mode = match request.action() {
            // The last call for an object that does not exist any more, or a clean-up, which waits
            // until the pause has ended.
            Action::Deleted => Mode::Normal,
            _ => Mode::of(request.object().meta()),
        };
        let writer = (self.setup.own).begin(request.key(), mode, self.setup.target.clone());
        Context {
            call: Arc::new(CallContext {
                setup: Arc::clone(&self.setup),
                key: request.key().clone(),
                object: Arc::clone(request.object()),
                reasons: request.reasons(),
                attempt: request.attempt(),
                is_last: request.last_attempt(),
                state: request.state().cloned(),
                writes: CallWrites::default(),
                writer,
                is_stale: request.attempt.is_stale,
                mode,
            }),
        }
    }
}
