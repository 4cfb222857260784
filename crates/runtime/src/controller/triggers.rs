//! Triggers: streams that reconcile objects without a change of the controlled kind.

use std::{
    fmt::Debug,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures::{FutureExt as _, Stream, StreamExt as _, stream::BoxStream};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use windlass_informer::{ObjectKey, log, panic_message};

use super::{
    Controller, delays::Delays, primary::Wake, tasks::RunState, watch_errors::WatchErrors,
};
use crate::{
    reflector::{Lookup, ObjectRef, Store, store::keys},
    utils::Backoff as _,
    watcher::{self, DefaultBackoff},
};

/// An item of a trigger stream.
pub(super) enum Trigger {
    /// The objects with these keys are reconciled.
    Keys(Vec<ObjectKey>),
    /// The object of the controlled kind with this key was listed or has changed.
    Object(ObjectKey),
    /// All objects are reconciled.
    All,
    /// The stream reports an error, and is polled again after a backoff.
    Failed(watcher::Error),
}

/// What the triggers act on.
pub(super) struct Target<K>
where
    K: Lookup + 'static,
    K::DynamicType: Hash + Eq,
{
    pub(super) wake: Wake<K>,
    pub(super) store: Store<K>,
    pub(super) errors: Arc<WatchErrors>,
    pub(super) delays: Arc<Delays>,
    pub(super) state: Arc<RunState>,
}

/// The keys that `mapper` returns. None if it panics, which is logged.
pub(super) fn mapped<K: Lookup, I>(mapper: impl FnOnce() -> I) -> Vec<ObjectKey>
where
    I: IntoIterator<Item = ObjectRef<K>>,
{
    let map = || mapper().into_iter().flat_map(|it| keys(&it)).collect();
    catch_unwind(AssertUnwindSafe(map)).unwrap_or_else(|panic| {
        let error = panic_message(panic);
        log::error!(error, "mapper of a stream panicked, its keys are lost");
        Vec::new()
    })
}

/// Follows a trigger stream until it ends. If it panics, the run ends: without the stream, changes
/// would be lost.
pub(super) async fn follow<K>(stream: BoxStream<'static, Trigger>, target: Target<K>)
where
    K: Lookup + Clone + Send + Sync + 'static,
    K::DynamicType: Hash + Eq + Clone + Send + Sync,
{
    let state = Arc::clone(&target.state);
    let followed = AssertUnwindSafe(follow_items(stream, target)).catch_unwind();
    if let Err(panic) = followed.await {
        let error = panic_message(panic);
        log::error!(
            error,
            "stream of the controller panicked, the controller ends"
        );
        *state.panicked.lock() = Some(error);
        state.stop.cancel();
    }
}

async fn follow_items<K>(mut stream: BoxStream<'static, Trigger>, target: Target<K>)
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Hash + Eq + Clone,
{
    let (mut failures, mut backoff) = (0_u32, DefaultBackoff::default());
    while let Some(trigger) = stream.next().await {
        match trigger {
            Trigger::Failed(error) => {
                target.errors.push(error);
                let delay = (target.delays.after(failures)).or_else(|| backoff.next());
                failures = failures.saturating_add(1);
                sleep(delay.unwrap_or_default()).await;
                continue;
            }
            Trigger::Keys(keys) => target.wake.keys(keys),
            Trigger::Object(key) => target.wake.object(key),
            Trigger::All => target.wake.all(&target.store),
        }
        if std::mem::take(&mut failures) > 0 {
            backoff.reset();
        }
    }
}

// === impl Controller ===

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Reconciles all objects of the [`store`](Self::store) for each item of `trigger`.
    ///
    /// Several triggers add up. A stream that ends is dropped, and the controller continues.
    #[must_use]
    pub fn reconcile_all_on(mut self, trigger: impl Stream<Item = ()> + Send + 'static) -> Self {
        self.triggers.push(trigger.map(|()| Trigger::All).boxed());
        self
    }

    /// Reconciles the object that an item of `trigger` names. An object that does not exist is
    /// ignored.
    ///
    /// Several triggers add up. A stream that ends is dropped, and the controller continues.
    #[must_use]
    pub fn reconcile_on(
        mut self,
        trigger: impl Stream<Item = ObjectRef<K>> + Send + 'static,
    ) -> Self {
        let trigger = trigger.map(|target| Trigger::Keys(keys(&target).collect()));
        self.triggers.push(trigger.boxed());
        self
    }
}

// === impl Target ===

impl<K> Clone for Target<K>
where
    K: Lookup + 'static,
    K::DynamicType: Hash + Eq,
{
    fn clone(&self) -> Self {
        Self {
            wake: self.wake.clone(),
            store: self.store.clone(),
            errors: Arc::clone(&self.errors),
            delays: Arc::clone(&self.delays),
            state: Arc::clone(&self.state),
        }
    }
}
