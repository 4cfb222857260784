//! `OpinionatedWatcher`: wraps a watcher with a finalizer, so that it misses no deletion.

use std::{fmt, future::Future, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use kube::Resource;
use serde::Serialize;
use windlass_informer::{Event, LazyObject};

use super::{
    change,
    finalizer_state::FinalizerState,
    memory::{Progress, UnfinishedCall, is_to_be_added},
    next_step::{Cause, NextStep, next_step},
    selector_exit::OnSelectorExit,
};
use crate::{
    Failure, Filtered, FinalizerIdentity, Finalizers, Outcome, Predicate, Watcher, fence,
    finalizer::FinalizerPresence,
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
///   old state, whatever events follow.
/// - If another writer removes the finalizer, it is added again. If an object disappears before its
///   clean-up has succeeded, the clean-up runs with its last state.
/// - Events of our own patches are not passed. A concurrent change by another writer is. Versions
///   never decrease.
/// - The periodic resync is always passed. Predicates of the wrapped watcher decide which calls it
///   receives. They do not affect finalizers.
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
    state: FinalizerState<K>,
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
        Self {
            state: FinalizerState::new(finalizers),
            watcher,
            sync: OnSync::Unset,
        }
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
        Self {
            sync: OnSync::Call(Box::new(call)),
            ..self
        }
    }

    /// Calls the watcher's [`add`](Watcher::add) for an object that an earlier process has added, and
    /// for a periodic resync.
    pub fn sync_to_add(self) -> Self {
        Self {
            sync: OnSync::Add,
            ..self
        }
    }

    /// Calls the watcher only for events that pass `predicate`. The finalizer is written and
    /// removed as without it.
    pub fn filter<P: Predicate<K>>(self, predicate: P) -> OpinionatedWatcher<K, Filtered<W, P>> {
        OpinionatedWatcher {
            state: self.state,
            watcher: self.watcher.filter(predicate),
            sync: self.sync,
        }
    }

    /// Sets what happens when an object leaves the selector of the informer. By default the
    /// finalizer is removed.
    pub fn on_selector_exit(mut self, exit: OnSelectorExit) -> Self {
        self.state.on_selector_exit = exit;
        self
    }

    /// Processes an object that exists.
    async fn process(
        &self,
        cause: Cause,
        old: Option<Arc<K>>,
        object: &Arc<K>,
    ) -> Result<(), Failure> {
        let (state, shown) = (&self.state, object);
        let mut object = state.newest(shown);
        let mut observed = state.observe(&object, old.as_deref());
        let (mut cause, mut old) = (cause, state.given_before(&object).or(old));
        state.note_shown(shown);
        match (state.unfinished(&object), cause) {
            // Even if the object is the same again: half of the call may have been done.
            (Some(UnfinishedCall::Update(since) | UnfinishedCall::Undecided(since)), _) => {
                cause = Cause::Updated { matters: true };
                old = Some(since);
            }
            (Some(UnfinishedCall::Resume), Cause::Updated { matters: false }) => {
                cause = Cause::Resynced;
            }
            _ => {}
        }
        loop {
            let progress = state.progress(&object);
            match next_step(cause, observed, progress) {
                NextStep::Nothing => return Ok(()),
                NextStep::Ignore => {
                    state.set_progress(&object, Progress::Ignored);
                    return Ok(());
                }
                NextStep::Hold => {
                    if let (Cause::Updated { matters: true }, Some(old)) = (cause, &old) {
                        // If the patch fails, the next event has a newer old state.
                        state.begin_undecided(&object, old);
                    }
                    let Some(updated) = state.hold(&object).await? else {
                        return Ok(());
                    };
                    object = updated;
                    observed.presence = FinalizerPresence::Held { tidy: true };
                    if progress == Some(Progress::Added) && cause == Cause::Added {
                        // A repeated add whose finalizer alone was not written. Later changes are
                        // passed.
                        let matters = (old.as_ref())
                            .is_some_and(|old| change::matters(&state.finalizers, old, &object));
                        cause = Cause::Updated { matters };
                    }
                }
                NextStep::Add => {
                    let Some(marked) = state.mark_in_progress(&object).await? else {
                        return Ok(());
                    };
                    object = marked;
                    observed.presence = state.finalizers.presence(&object);
                    if let FinalizerPresence::Held { .. } = observed.presence
                        && !is_to_be_added(progress)
                    {
                        // The event is old: the object was already added.
                        state.set_progress(&object, Progress::Held);
                        return self.resume(Cause::Added, object).await;
                    }
                    return self.add_in_progress(object).await;
                }
                NextStep::Resume => return self.resume(cause, object).await,
                NextStep::Update => {
                    let old = old.unwrap_or_else(|| Arc::clone(&object));
                    if state.is_due(&object)
                        || self.is_wanted(|| Event::Updated {
                            old: LazyObject::from(Arc::clone(&old)),
                            new: Arc::clone(&object),
                        })
                    {
                        state.begin(&object, UnfinishedCall::Update(Arc::clone(&old)));
                        fence::check()?;
                        state.set_given(&object);
                        let updated = self.watcher.update(old, Arc::clone(&object)).await;
                        updated.map_err(Into::into)?;
                    }
                    state.finish(&object);
                    return Ok(());
                }
                NextStep::CleanUp => {
                    let clean_up = |object| self.clean_up(object);
                    return state.clean_up_and_release(object, clean_up).await.map(drop);
                }
                NextStep::Release => return Ok(state.release(&object).await?),
            }
        }
    }

    /// Adds an object that has the in-progress finalizer.
    async fn add_in_progress(&self, object: Arc<K>) -> Result<(), Failure> {
        if self.state.is_due(&object) || self.is_wanted(|| Event::Added(Arc::clone(&object))) {
            self.state.begin(&object, UnfinishedCall::Add);
            fence::check()?;
            self.state.set_given(&object);
            let added = self.watcher.add(Arc::clone(&object)).await;
            added.map_err(Into::into)?;
            self.state.finish(&object);
        }
        self.state.set_added(&object);
        self.state.hold(&object).await?;
        Ok(())
    }

    /// Syncs an object that was added before.
    async fn resume(&self, cause: Cause, object: Arc<K>) -> Result<(), Failure> {
        if self.state.is_due(&object) || self.is_wanted(|| Event::Resynced(Arc::clone(&object))) {
            self.state.begin(&object, UnfinishedCall::Resume);
            fence::check()?;
            self.state.set_given(&object);
            let again = Arc::clone(&object);
            match &self.sync {
                OnSync::Unset if cause == Cause::Resynced => {
                    self.watcher.resync(again).await.map_err(Into::into)?;
                }
                OnSync::Unset => {}
                OnSync::Add => self.watcher.add(again).await.map_err(Into::into)?,
                OnSync::Call(call) => call(again).await?,
            }
        }
        self.state.finish(&object);
        Ok(())
    }

    async fn clean_up(&self, object: Arc<K>) -> Result<Outcome, Failure> {
        if self.is_wanted(|| Event::Deleted {
            last: Arc::clone(&object),
            missed: false,
        }) {
            fence::check()?;
            let deleted = self.watcher.delete(object).await;
            deleted.map_err(Into::into)?;
        }
        Ok(Outcome::done())
    }

    /// Processes an object that the informer reported as deleted.
    async fn process_deleted(&self, last: &Arc<K>) -> Result<(), Failure> {
        let state = &self.state;
        let last = state.newest(last);
        match state.progress(&last) {
            Some(Progress::Released | Progress::Gone) => state.retire(&last),
            Some(Progress::Ignored) => state.forget(&last),
            _ => {
                let clean_up = |object| self.clean_up(object);
                return state.process_deleted(last, clean_up).await.map(drop);
            }
        }
        Ok(())
    }

    /// Whether the predicates of the inner watcher accept `event`.
    fn is_wanted(&self, event: impl FnOnce() -> Event<K>) -> bool {
        let predicates = self.watcher.predicates();
        if predicates.is_empty() {
            return true;
        }
        let event = event();
        predicates.iter().all(|predicate| predicate.passes(&event))
    }
}

impl<K, W> Watcher<K> for OpinionatedWatcher<K, W>
where
    K: Resource + Serialize + Send + Sync + 'static,
    W: Watcher<K>,
{
    type Error = Failure;

    async fn add(&self, object: Arc<K>) -> Result<(), Failure> {
        self.process(Cause::Added, None, &object).await
    }

    async fn update(&self, old: Arc<K>, new: Arc<K>) -> Result<(), Failure> {
        let matters = self.state.matters(&old, &new);
        self.process(Cause::Updated { matters }, Some(old), &new)
            .await
    }

    async fn delete(&self, last: Arc<K>) -> Result<(), Failure> {
        self.process_deleted(&last).await
    }

    async fn resync(&self, object: Arc<K>) -> Result<(), Failure> {
        self.process(Cause::Resynced, None, &object).await
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        vec![&self.state]
    }

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        Some(self.state.finalizers.identity())
    }

    fn needs(&self, event: &Event<K>) -> bool {
        self.state.needs(event)
    }
}

impl<K, W: fmt::Debug> fmt::Debug for OpinionatedWatcher<K, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpinionatedWatcher")
            .field("state", &self.state)
            .field("watcher", &self.watcher)
            .finish_non_exhaustive()
    }
}
