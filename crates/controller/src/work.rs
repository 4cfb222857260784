//! Calls user code, and turns panics and timeouts into errors.
//!
//! Panics and calls that exceed the time limit are errors of that call. No lock of this crate is
//! held during a call.

use std::{
    future::Future,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use windlass_informer::{DecodeError, Event, LazyObject, ObjectKey, log, panic_message};

use crate::{
    Action, ErasedObject, Failure, FinalizerHook, HandlerError, Mapper, Outcome, Predicate,
    Reconciler, Watcher,
    event::AnyEvent,
    finalizer::{FinalizerIdentity, is_called_for},
    handler::{ErasedHandler, ErasedMapper, Handler},
    reconciler::{Call, Instructions, of_kind, of_kind_uncached},
    watcher::call_method,
};

/// A watcher as an [`ErasedHandler`].
pub(crate) struct WatcherAdapter<K, W>(W, PhantomData<fn(K)>);

/// A reconciler as an [`ErasedHandler`].
pub(crate) struct ReconcilerAdapter<K, R>(R, PhantomData<fn(K)>);

/// A mapper as an [`ErasedMapper`].
pub(crate) struct MapperAdapter<K, M>(M, PhantomData<fn(K)>);

/// The failure of a call.
#[derive(Debug)]
pub(crate) struct CallFailure {
    pub(crate) error: HandlerError,
    pub(crate) instructions: Instructions,
}

/// Calls `handler` with a time limit.
///
/// # Cancel safety
///
/// Dropping the future drops the future of the handler.
pub(crate) async fn call(
    handler: &Handler,
    call: Call,
    limit: Option<Duration>,
) -> Result<Outcome, CallFailure> {
    guarded("drop of a call", handler.code.call(call), limit)
        .await?
        .map_err(|failure| {
            let (source, instructions) = failure.into_parts();
            // A controller that catches panics and timeouts of user code passes them on.
            let error = match source.downcast::<HandlerError>() {
                Ok(error) => *error,
                Err(source) => HandlerError::Failed { source },
            };
            CallFailure {
                error,
                instructions,
            }
        })
}

/// Polls a future of user code, for at most `limit`. Panics and timeouts become errors. `what` names
/// the code in the log if it panics when it is dropped.
///
/// # Cancel safety
///
/// Dropping the future drops `code`.
pub(crate) async fn guarded<T>(
    what: &'static str,
    code: impl Future<Output = T> + Unpin,
    limit: Option<Duration>,
) -> Result<T, HandlerError> {
    let mut caught = AssertUnwindSafe(code).catch_unwind();
    let ended = match limit {
        None => Ok((&mut caught).await),
        Some(limit) => (tokio::time::timeout(limit, &mut caught).await)
            .map_err(|_| HandlerError::TimedOut { limit }),
    };
    // Values on its stack may panic when they are dropped.
    call_user_code(what, || drop(caught));
    ended?.map_err(|panic| {
        let message = panic_message(panic);
        HandlerError::Panicked { message }
    })
}

/// Returns what `handler` receives for `event`, into which a resync may have been coalesced: the
/// event, or the resync if it rejects the event; `None` if it rejects both.
pub(crate) fn event_for(handler: &Handler, event: &AnyEvent, resynced: bool) -> Option<AnyEvent> {
    if wants(handler, event) {
        return Some(event.clone());
    }
    resync_instead(handler, event, resynced)
}

/// Whether `handler` accepts `event`.
pub(crate) fn wants(handler: &Handler, event: &AnyEvent) -> bool {
    call_user_code("predicate", || handler.code.wants(event)).unwrap_or(true)
}

/// Returns what `handler` receives for `event`, which it rejects.
pub(crate) fn resync_instead(
    handler: &Handler,
    event: &AnyEvent,
    resynced: bool,
) -> Option<AnyEvent> {
    match event {
        Event::Added(object) | Event::Updated { new: object, .. } if resynced => {
            let again = Event::Resynced(Arc::clone(object));
            wants(handler, &again).then_some(again)
        }
        _ => None,
    }
}

/// Calls a mapper with each object of `event`, if it accepts the event. Also returns an error if it
/// panicked or an object does not decode; keys for the other object are still returned.
pub(crate) fn map(
    mapper: &dyn ErasedMapper,
    event: &AnyEvent,
) -> (Vec<ObjectKey>, Option<HandlerError>) {
    if !call_user_code("predicate", || mapper.wants(event)).unwrap_or(true) {
        return (Vec::new(), None);
    }
    let before = match event {
        Event::Updated { old, .. } => Some(old.as_erased()),
        _ => None,
    };
    let before = before.map(|old| catch_unwind(AssertUnwindSafe(|| mapper.keys_before(old))));
    let now = event.object();
    let now = now.map(|object| catch_unwind(AssertUnwindSafe(|| mapper.keys(object))));
    let (mut named, mut failed) = (Vec::new(), None);
    for result in before.into_iter().chain(now) {
        match result {
            Ok(Ok(keys)) => named.extend(keys),
            Ok(Err(error)) => {
                let source = error.into();
                failed = Some(HandlerError::Failed { source });
            }
            Err(panic) => {
                let message = panic_message(panic);
                failed = Some(HandlerError::Panicked { message });
            }
        }
    }
    (named, failed)
}

/// Calls user code that is not a handler: a policy or a hook. `None` if it panicked.
pub(crate) fn call_user_code<T>(what: &'static str, code: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(value) => Some(value),
        Err(panic) => {
            let panic = panic_message(panic);
            log::error!(
                component = "InformerController",
                what,
                panic,
                "user code panicked"
            );
            None
        }
    }
}

// === impl CallFailure ===

impl From<HandlerError> for CallFailure {
    fn from(error: HandlerError) -> Self {
        Self {
            error,
            instructions: Instructions::default(),
        }
    }
}

// === impl WatcherAdapter ===

impl<K, W> WatcherAdapter<K, W> {
    pub(crate) const fn new(watcher: W) -> Self {
        Self(watcher, PhantomData)
    }
}

impl<K: Send + Sync + 'static, W: Watcher<K>> ErasedHandler for WatcherAdapter<K, W> {
    fn type_name(&self) -> &'static str {
        std::any::type_name::<W>()
    }

    fn call(&self, mut call: Call) -> BoxFuture<'_, Result<Outcome, Failure>> {
        async move {
            call.attempt.hides_finalizer = self.0.finalizer().is_none();
            call.action = Action::of(&call.event).unwrap_or(call.action);
            call_method(&self.0, call.request()?).await
        }
        .boxed()
    }

    fn wants(&self, event: &AnyEvent) -> bool {
        is_wanted(&self.0.predicates(), self.0.finalizer(), event)
    }

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        self.0.finalizer().map(|it| it.identity())
    }
}

// === impl ReconcilerAdapter ===

impl<K, R> ReconcilerAdapter<K, R> {
    pub(crate) const fn new(reconciler: R) -> Self {
        Self(reconciler, PhantomData)
    }
}

impl<K: Send + Sync + 'static, R: Reconciler<K>> ErasedHandler for ReconcilerAdapter<K, R> {
    fn type_name(&self) -> &'static str {
        std::any::type_name::<R>()
    }

    fn call(&self, mut call: Call) -> BoxFuture<'_, Result<Outcome, Failure>> {
        async move {
            call.attempt.hides_finalizer = self.0.finalizer().is_none();
            let request = call.request()?;
            self.0.reconcile(request).await.map_err(Into::into)
        }
        .boxed()
    }

    fn wants(&self, event: &AnyEvent) -> bool {
        is_wanted(&self.0.predicates(), self.0.finalizer(), event)
    }

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        self.0.finalizer().map(|it| it.identity())
    }
}

// === impl MapperAdapter ===

impl<K, M> MapperAdapter<K, M> {
    pub(crate) const fn new(mapper: M) -> Self {
        Self(mapper, PhantomData)
    }
}

impl<K: Send + Sync + 'static, M: Mapper<K>> ErasedMapper for MapperAdapter<K, M> {
    fn type_name(&self) -> &'static str {
        std::any::type_name::<M>()
    }

    fn keys(&self, object: &Arc<dyn ErasedObject>) -> Result<Vec<ObjectKey>, DecodeError> {
        // Not pinned: the event may already be released.
        let object = Arc::clone(object).into_typed_uncached::<K>()?;
        Ok(object.map_or_else(Vec::new, |object| {
            self.0.keys(&object).into_iter().collect()
        }))
    }

    fn keys_before(&self, old: &Arc<dyn ErasedObject>) -> Result<Vec<ObjectKey>, DecodeError> {
        self.0
            .keys_before(&LazyObject::from_erased(Arc::clone(old)))
    }

    fn wants(&self, event: &AnyEvent) -> bool {
        passes(&self.0.predicates(), event)
    }
}

/// Whether `event` passes all `predicates`. Without predicates the object is not decoded.
fn passes<K: Send + Sync + 'static>(predicates: &[&dyn Predicate<K>], event: &AnyEvent) -> bool {
    let all = |event| predicates.iter().all(|it| it.passes(&event));
    let event = || of_kind_uncached(event.clone()).ok().flatten();
    predicates.is_empty() || event().is_none_or(all)
}

/// Whether a handler with these `predicates` and this `finalizer` is called for `event`. Without
/// them the object is not decoded.
fn is_wanted<K: Send + Sync + 'static>(
    predicates: &[&dyn Predicate<K>],
    finalizer: Option<FinalizerHook<'_, K>>,
    event: &AnyEvent,
) -> bool {
    if predicates.is_empty() && finalizer.is_none() {
        return true;
    }
    typed(event).is_none_or(|event| {
        let interest = finalizer.map(|it| it.on_event(&event));
        is_called_for(predicates, interest, &event)
    })
}

/// Converts the event for predicates. `None` if it does not decode; then it is accepted, so that
/// the error is reported.
pub(crate) fn typed<K: Send + Sync + 'static>(event: &AnyEvent) -> Option<Event<K>> {
    of_kind(event.clone()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{HandlerId, Reconciler, Request, Role, SameName, route::Route};

    #[test]
    fn a_resync_is_received_if_the_event_into_which_it_was_coalesced_is_rejected() {
        for (wanted, event, alone, with_resync) in [
            ("CREATE UPDATE DELETE RESYNC", "CREATE", "CREATE", "CREATE"),
            ("RESYNC", "CREATE", "-", "RESYNC"),
            ("RESYNC", "UPDATE", "-", "RESYNC"),
            ("CREATE", "UPDATE", "-", "-"),
            ("CREATE RESYNC", "DELETE", "-", "-"),
            ("RESYNC", "RESYNC", "RESYNC", "RESYNC"),
        ] {
            let chain = chain(wanted);
            let share = |resynced| {
                let called = event_for(&chain[0], &event_called(event), resynced);
                called.map_or("-", |called| called.action())
            };
            let shown = (share(false), share(true));
            assert_eq!(shown, (alone, with_resync), "{event}, wanted {wanted}");
        }
    }

    #[test]
    fn a_mapper_is_called_with_the_old_and_the_new_object() {
        let named = |event: &str, mapper: &dyn ErasedMapper| {
            let (keys, panicked) = map(mapper, &event_called(event));
            let keys: Vec<_> = keys.iter().map(ObjectKey::name).collect();
            (keys.join(" "), panicked.is_some())
        };
        let same = MapperAdapter::<ConfigMap, _>::new(SameName);
        assert_eq!(named("UPDATE", &same), ("old new".to_owned(), false));
        assert_eq!(named("DELETE", &same), ("new".to_owned(), false));
        let refuses = |object: &ConfigMap| {
            assert_ne!(object.metadata.name.as_deref(), Some("old"), "not this one");
            SameName.keys(object).into_iter().collect::<Vec<_>>()
        };
        let refuses = MapperAdapter::<ConfigMap, _>::new(refuses);
        assert_eq!(named("UPDATE", &refuses), ("new".to_owned(), true));
        let nothing = |_: &Event<ConfigMap>| false;
        let deaf = MapperAdapter::<ConfigMap, _>::new(Mapper::filter(SameName, nothing));
        assert_eq!(named("UPDATE", &deaf), (String::new(), false));
    }

    /// A chain of one, which wants the actions that `wanted` holds.
    fn chain(wanted: &'static str) -> crate::route::Chain {
        let handler = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
        let wants = move |event: &Event<ConfigMap>| wanted.contains(event.action());
        let code = ReconcilerAdapter::<ConfigMap, _>::new(handler.filter(wants));
        let mut route = Route::default();
        let metrics = crate::metrics::Metrics::new("", "test").expect("good names");
        let added = route.add_kind("configs", false, |name| {
            crate::metrics::KindMetrics::new(&metrics, name)
        });
        let (kind, _) = added.expect("a new kind");
        assert_eq!(
            route.add(kind, Role::Reconciler, Box::new(code)),
            HandlerId(0)
        );
        route.chain(kind)
    }

    fn event_called(action: &str) -> AnyEvent {
        let object = |name: &str| -> Arc<dyn ErasedObject> {
            let mut object = ConfigMap::default();
            object.metadata.name = Some(name.to_owned());
            Arc::new(object)
        };
        match action {
            "CREATE" => Event::Added(object("new")),
            "UPDATE" => Event::Updated {
                old: LazyObject::from_erased(object("old")),
                new: object("new"),
            },
            "DELETE" => Event::Deleted {
                last: object("new"),
                missed: false,
            },
            _ => Event::Resynced(object("new")),
        }
    }

    #[test]
    fn a_panic_of_user_code_has_no_result() {
        assert_eq!(call_user_code("policy", || 1), Some(1));
        assert_eq!(call_user_code("policy", || -> u8 { panic!("no") }), None);
    }
}
