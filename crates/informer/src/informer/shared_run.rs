//! The run that all callers of `Informer::run` share.
//!
//! Overlapping calls of [`Informer::run`](super::Informer::run) share one run. One of the callers,
//! the driver, polls its future. A driver that leaves parks the future, and another caller
//! continues to poll it, so that no change is lost and no list is repeated. The last caller drops
//! the future, which ends the run. The next call begins another run.
//!
//! Not a spawned task: an aborted task ends later, possibly while it runs on another thread. Here the
//! run has ended when its last caller was dropped, so that two runs never write to one store.

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{InformerError, Shared, run::run};
use crate::{Stored, subscription::Subscriber};

/// The active run, if there is one.
pub(super) struct SharedRun(Mutex<Option<ActiveRun>>);

struct ActiveRun {
    state: Arc<RunState>,

    /// The number of callers. Never zero: the last caller removes the run.
    callers: usize,

    /// The future, while no caller polls it. It owns the informer; the last caller ends this
    /// reference cycle.
    parked: Option<BoxFuture<'static, InformerError>>,
}

/// The state that all callers of one run share.
struct RunState {
    /// Why the run failed.
    failure: OnceLock<InformerError>,

    /// Notified when the future is parked or has failed.
    changed: Notify,
}

/// One call of `run`, from the call until its future is ready or dropped.
pub(super) struct RunCaller<K: Stored> {
    shared: Arc<Shared<K>>,
    state: Arc<RunState>,
}

/// A caller that polls the future of the run. Dropping it parks the future.
struct Driver<'c, K: Stored> {
    caller: &'c RunCaller<K>,
    run: Option<BoxFuture<'static, InformerError>>,
}

// === impl SharedRun ===

impl SharedRun {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }
}

// === impl RunCaller ===

impl<K: Stored> RunCaller<K> {
    /// Joins the active run, or begins one.
    pub(super) fn enter(shared: &Arc<Shared<K>>) -> Self {
        let mut shared_run = shared.active_run.0.lock();
        let current = shared_run.get_or_insert_with(|| ActiveRun {
            state: Arc::new(RunState {
                failure: OnceLock::new(),
                changed: Notify::new(),
            }),
            callers: 0,
            parked: Some(Box::pin(run(Arc::clone(shared)))),
        });
        current.callers += 1;
        Self {
            state: Arc::clone(&current.state),
            shared: Arc::clone(shared),
        }
    }

    /// Waits until `stop` is cancelled or the run fails, and drives the run while no other caller
    /// does.
    pub(super) async fn wait(self, stop: CancellationToken) -> Result<(), InformerError> {
        let mut stopped = pin!(stop.cancelled());
        loop {
            // Created before the state is read, so that no later notification is missed.
            let changed = self.state.changed.notified();
            if let Some(failure) = self.state.failure.get() {
                return Err(failure.clone());
            }
            if let Some(driver) = self.drive() {
                tokio::select! {
                    biased;
                    () = &mut stopped => return Ok(()),
                    () = driver.finish() => {}
                }
            } else {
                tokio::select! {
                    biased;
                    () = &mut stopped => return Ok(()),
                    () = changed => {}
                }
            }
        }
    }

    /// Takes the parked future, if no other caller polls it.
    fn drive(&self) -> Option<Driver<'_, K>> {
        let mut shared_run = self.shared.active_run.0.lock();
        let run = self.current(&mut shared_run)?.parked.take()?;
        self.shared
            .status
            .send_modify(|status| status.is_driven = true);
        Some(Driver {
            caller: self,
            run: Some(run),
        })
    }

    /// The run of this caller, unless it has ended.
    fn current<'s>(&self, shared_run: &'s mut Option<ActiveRun>) -> Option<&'s mut ActiveRun> {
        shared_run
            .as_mut()
            .filter(|current| Arc::ptr_eq(&current.state, &self.state))
    }

    /// Ends the run. Called with the lock held, so that later calls of `run` and later
    /// subscriptions belong to the next run.
    fn end(&self, failure: Option<InformerError>) -> Vec<Subscriber<K>> {
        let ended = self.shared.new_subscribers.end_run();
        self.shared.status.send_modify(|status| status.end(failure));
        ended
    }
}

impl<K: Stored> Drop for RunCaller<K> {
    fn drop(&mut self) {
        let mut shared_run = self.shared.active_run.0.lock();
        let Some(current) = self.current(&mut shared_run) else {
            return;
        };
        current.callers -= 1;
        if current.callers > 0 {
            return;
        }
        let ended = (shared_run.take(), self.end(None));
        // The future contains the source, which is user code: dropped without a lock.
        drop(shared_run);
        drop(ended);
    }
}

// === impl Driver ===

impl<K: Stored> Driver<'_, K> {
    /// Polls the future of the run until it fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping this future parks the future of the run.
    async fn finish(mut self) {
        let Some(run) = &mut self.run else { return };
        let failure = run.await;
        // The future owns the source.
        self.run = None;
        let RunCaller { shared, state } = self.caller;
        let mut shared_run = shared.active_run.0.lock();
        _ = state.failure.set(failure.clone());
        let ended = (shared_run.take(), self.caller.end(Some(failure)));
        drop(shared_run);
        drop(ended);
        state.changed.notify_waiters();
    }
}

impl<K: Stored> Drop for Driver<'_, K> {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let RunCaller { shared, state } = self.caller;
        let mut shared_run = shared.active_run.0.lock();
        if let Some(current) = self.caller.current(&mut shared_run) {
            current.parked = Some(run);
            shared.status.send_modify(|status| status.is_driven = false);
        }
        drop(shared_run);
        state.changed.notify_waiters();
    }
}
