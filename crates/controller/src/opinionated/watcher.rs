//! `OpinionatedWatcher`: wraps a watcher with a finalizer, so that it misses no deletion.
//!
//! It is an [`OpinionatedReconciler`] around an adapter from actions to the methods of the watcher.

use std::{fmt, future::Future, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use kube::Resource;
use serde::Serialize;

use super::{
    next_step::UnheldDeletes, reconciler::OpinionatedReconciler, selector_exit::OnSelectorExit,
};
use crate::{
    Action, Failure, Filtered, FinalizerHook, Finalizers, Outcome, Predicate, Reconciler, Request,
    Watcher,
    watcher::{call_method, current_attempt, decline_current},
};

/// Wraps a watcher, and keeps each object with a finalizer until the watcher has cleaned up after
/// it.
///
/// # Contract
///
/// *Guaranteed.*
/// - A new object gets the in-progress finalizer (suffix `.in-progress`), is passed to
///   [`add`](Watcher::add), and gets the finalizer after that has succeeded. So no deletion after
///   the first call is missed, even if the operator does not run.
/// - An object that is marked for deletion is passed to [`delete`](Watcher::delete). The finalizer
///   is removed after that has succeeded, and not before. The later deletion is not passed.
/// - At the start, an object that has the finalizer was added by an earlier process. It is passed
///   to [`sync`](Self::sync), not to `add`; by default nothing is called. An add that has not
///   succeeded is repeated.
/// - An update is passed if the generation has changed (for kinds without one: anything except the
///   status), or if finalizers of other writers have changed. A failed update is repeated with its
///   old state, whatever events follow. One whose old state does not decode is passed to `add`, or to
///   `sync` if that is set. If a dequeue policy keeps a failed add while another call
///   adds the object, its repetition passes what has changed since to `update`, or to `resync`.
/// - If another writer removes the finalizer, it is added again. If an object disappears before its
///   clean-up has succeeded, the clean-up runs with its last state.
/// - Events of our own patches are not passed. A concurrent change by another writer is. Versions
///   never decrease.
/// - The periodic resync is always passed. Predicates of the wrapped watcher decide which calls it
///   receives. They do not affect finalizers. A call that has not succeeded is repeated for any event,
///   also for one that they reject, and also if its retries are exhausted: an `on_exhausted` hook that
///   writes the object with another content each time causes calls without end.
///
/// *Required.* Add, update and delete are idempotent: after a crash between a call and its
/// finalizer the call is repeated. A delete can come for an object whose add has not succeeded.
///
/// # Example
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{FinalizerName, Finalizers, OpinionatedWatcher, SimpleWatcher};
///
/// # fn example(client: kube::Client) -> Result<(), windlass_controller::InvalidFinalizer> {
/// let finalizers = Finalizers::new(client, FinalizerName::new("example.io/publisher")?)?;
/// let watcher = SimpleWatcher::new()
///     .on_add(|new: Arc<ConfigMap>| async move { publish(&new).await })
///     .on_delete(|terminating: Arc<ConfigMap>| async move { withdraw(&terminating).await });
/// let watcher = OpinionatedWatcher::new(finalizers, watcher).sync_to_add();
/// # let _ = watcher;
/// # Ok(())
/// # }
/// # async fn publish(_: &ConfigMap) -> Result<(), Infallible> { Ok(()) }
/// # async fn withdraw(_: &ConfigMap) -> Result<(), Infallible> { Ok(()) }
/// ```
///
/// Source: grafana-app-sdk, `operator.OpinionatedWatcher`. There the finalizer is only added after
/// the add; here an in-progress finalizer precedes it.
#[must_use = "a watcher does nothing until it is added to a controller"]
pub struct OpinionatedWatcher<K, W> {
    reconciler: OpinionatedReconciler<K, WatcherCalls<K, W>>,
}

/// A watcher as the reconciler in a wrapper.
struct WatcherCalls<K, W> {
    watcher: W,
    sync: OnSync<K>,
}

/// The function for a sync.
enum OnSync<K> {
    /// Nothing at the start, and the watcher's `resync` for a periodic resync.
    Unset,
    /// The watcher's `add`.
    Add,
    /// This function.
    Call(Box<dyn Fn(Arc<K>) -> Done + Send + Sync>),
}

type Done = BoxFuture<'static, Result<(), Failure>>;

// === impl OpinionatedWatcher ===

impl<K, W> OpinionatedWatcher<K, W>
where
    K: Resource + Serialize + Send + Sync + 'static,
    W: Watcher<K>,
{
    /// Wraps `watcher`.
    pub fn new(finalizers: Finalizers<K>, watcher: W) -> Self {
        let sync = OnSync::Unset;
        let mut reconciler = OpinionatedReconciler::new(finalizers, WatcherCalls { watcher, sync });
        let settings = &mut reconciler.settings;
        settings.for_watcher = true;
        settings.resumes = false;
        settings.unheld = UnheldDeletes::PassIfSeenBefore;
        Self { reconciler }
    }

    /// Calls `f` for an object that an earlier process has added, and for a periodic resync. By
    /// default nothing is called for the first, and the watcher's [`resync`](Watcher::resync) for
    /// the second.
    pub fn sync<F, Fut, E>(self, f: F) -> Self
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let call = move |object| f(object).map(|done| done.map_err(Into::into)).boxed();
        self.on_sync(OnSync::Call(Box::new(call)))
    }

    /// Calls the watcher's [`add`](Watcher::add) for an object that an earlier process has added, and
    /// for a periodic resync.
    pub fn sync_to_add(self) -> Self {
        self.on_sync(OnSync::Add)
    }

    fn on_sync(mut self, sync: OnSync<K>) -> Self {
        self.reconciler.settings.resumes = true;
        self.reconciler.reconciler.sync = sync;
        self
    }

    /// Calls the watcher only for events that pass `predicate`. The finalizer is written and
    /// removed as without it.
    pub fn filter<P: Predicate<K>>(self, predicate: P) -> OpinionatedWatcher<K, Filtered<W, P>> {
        let OpinionatedReconciler {
            state,
            reconciler: WatcherCalls { watcher, sync },
            settings,
        } = self.reconciler;
        let watcher = watcher.filter(predicate);
        OpinionatedWatcher {
            reconciler: OpinionatedReconciler {
                state,
                reconciler: WatcherCalls { watcher, sync },
                settings,
            },
        }
    }

    /// Sets what happens when an object leaves the selector of the informer. By default the
    /// finalizer is removed.
    pub fn on_selector_exit(mut self, exit: OnSelectorExit) -> Self {
        self.reconciler = self.reconciler.on_selector_exit(exit);
        self
    }

    async fn call(
        &self,
        action: Action,
        object: Arc<K>,
        old: Option<Arc<K>>,
    ) -> Result<(), Failure> {
        let request = Request::new(action, object).attempted(old, current_attempt());
        let outcome = self.reconciler.reconcile(request).await?;
        if outcome.is_declined() {
            decline_current();
        }
        Ok(())
    }
}

impl<K, W> Watcher<K> for OpinionatedWatcher<K, W>
where
    K: Resource + Serialize + Send + Sync + 'static,
    W: Watcher<K>,
{
    type Error = Failure;

    async fn add(&self, object: Arc<K>) -> Result<(), Failure> {
        self.call(Action::Created, object, None).await
    }

    async fn update(&self, old: Arc<K>, new: Arc<K>) -> Result<(), Failure> {
        self.call(Action::Updated, new, Some(old)).await
    }

    async fn delete(&self, last: Arc<K>) -> Result<(), Failure> {
        self.call(Action::Deleted, last, None).await
    }

    async fn resync(&self, object: Arc<K>) -> Result<(), Failure> {
        self.call(Action::Resynced, object, None).await
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        self.reconciler.finalizer()
    }
}

impl<K, W: fmt::Debug> fmt::Debug for OpinionatedWatcher<K, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpinionatedWatcher")
            .field("state", &self.reconciler.state)
            .field("watcher", &self.reconciler.reconciler.watcher)
            .finish_non_exhaustive()
    }
}

// === impl WatcherCalls ===

impl<K, W> Reconciler<K> for WatcherCalls<K, W>
where
    K: Resource + Send + Sync + 'static,
    W: Watcher<K>,
{
    type Error = Failure;

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, Failure> {
        let object = Arc::clone(request.object());
        let request = match (request.action(), &self.sync) {
            (Action::Resynced, OnSync::Call(call)) => {
                return call(object).await.map(|()| Outcome::done());
            }
            (Action::Resynced, OnSync::Add) => {
                let state = request.state().cloned();
                request.passed_on(Action::Created, object, None, state)
            }
            _ => request,
        };
        call_method(&self.watcher, request).await
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        self.watcher.predicates()
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        self.watcher.finalizer()
    }
}
