//! Calls a reconciler with the newest object of the stores.

use std::{
    any::type_name,
    marker::PhantomData,
    sync::{Arc, Weak},
};

use futures::{FutureExt as _, future::BoxFuture};
use windlass_informer::{ErasedObject, Event, ObjectKey, Uid};

use crate::{
    Failure, Outcome, Reconciler, controller::Shared, event::AnyEvent,
    finalizer::FinalizerIdentity, handler::ErasedHandler, reconciler::Call, route::KindId,
    work::typed,
};

/// A level-triggered reconciler as an [`ErasedHandler`].
pub(crate) struct LevelAdapter<K, R> {
    stores: Weak<Shared>,
    reconciler: R,
    filter: Option<Arc<EventFilter>>,
    /// The type that logs and errors name.
    type_name: &'static str,
    of: PhantomData<fn(K)>,
}

/// Decides which events cause a call.
pub(crate) type EventFilter = dyn Fn(&AnyEvent) -> bool + Send + Sync;

// === impl LevelAdapter ===

impl<K, R> LevelAdapter<K, R> {
    pub(crate) fn new(stores: Weak<Shared>, reconciler: R) -> Self {
        Self {
            stores,
            reconciler,
            filter: None,
            type_name: type_name::<R>(),
            of: PhantomData,
        }
    }

    /// Calls the reconciler only for events that pass `filter`.
    pub(crate) fn filtered(self, filter: Arc<EventFilter>) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// Names the type of the user's code, which the reconciler calls.
    pub(crate) fn calling<T>(self) -> Self {
        Self {
            type_name: type_name::<T>(),
            ..self
        }
    }

    /// The event of a call that begins now: `event` with the newest object. `None` if the object
    /// does not exist: then a `Deleted` follows or was called.
    fn current(&self, kind: KindId, key: &ObjectKey, event: AnyEvent) -> Option<AnyEvent> {
        if matches!(event, Event::Deleted { .. }) {
            return Some(event);
        }
        let newest = self.stores.upgrade()?.newest(kind, key)?;
        let queued = event.object()?;
        // Without reading the objects, which are rarely in the CPU cache.
        if Arc::ptr_eq(&newest, queued) {
            return Some(event);
        }
        if newest.uid() != queued.uid() {
            // The events of the other object follow.
            return None;
        }
        if newest.resource_version() == queued.resource_version() {
            // The object of the event is decoded, and that of the store may not be.
            return Some(event);
        }
        Some(with_object(event, newest))
    }
}

/// Replaces the object of `event`.
fn with_object(event: AnyEvent, object: Arc<dyn ErasedObject>) -> AnyEvent {
    match event {
        Event::Added(_) => Event::Added(object),
        Event::Updated { old, .. } => Event::Updated { old, new: object },
        Event::Resynced(_) => Event::Resynced(object),
        other => other,
    }
}

impl<K: Send + Sync + 'static, R: Reconciler<K>> ErasedHandler for LevelAdapter<K, R> {
    fn type_name(&self) -> &'static str {
        self.type_name
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Failure>> {
        async move {
            let Call {
                kind, key, event, ..
            } = call;
            let Some(event) = self.current(kind, &key, event) else {
                return Ok(Outcome::done());
            };
            // What is processed again is likely to be processed once more.
            let is_cached = call.attempt.is_repeated || matches!(event, Event::Resynced(_));
            let object = event.object().filter(|_| !is_cached).cloned();
            let call = Call { key, event, ..call };
            let request = if is_cached {
                call.cached_request()?
            } else {
                call.request()?
            };
            let ended = self.reconciler.reconcile(request).await;
            if let Some(object) = object {
                object.release_decoded();
            }
            ended.map_err(Into::into)
        }
        .boxed()
    }

    fn wants(&self, event: &AnyEvent) -> bool {
        let is_wanted = self.filter.as_ref().is_none_or(|passes| passes(event));
        if !is_wanted && let Some(finalizer) = self.reconciler.finalizer() {
            // Few objects are awaited, so few are decoded.
            let uid = event.object().and_then(|it| it.uid()).map(Uid::from);
            if finalizer.awaits(uid.as_ref())
                && let Some(event) = typed(event)
            {
                _ = finalizer.on_event(&event);
            }
        }
        is_wanted
    }

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        self.reconciler.finalizer().map(|it| it.identity())
    }
}
