//! `TypedReconciler`: a typed reconciler for dynamic objects.

use std::{fmt, marker::PhantomData, sync::Arc};

use kube::{Resource, api::DynamicObject};
use serde::de::DeserializeOwned;

use windlass_informer::{Event, LazyObject, Uid};

use super::{Failure, Outcome, Reconciler, Request};
use crate::{FinalizerHook, Interest, Predicate, finalizer::OnEvent};

/// Adapts a reconciler of `K`s to dynamic objects.
///
/// Each object is deserialized as a `K`; the rest of the request does not change. An object that
/// cannot be deserialized is a [`CannotCastError`] of its call. This error is permanent: it is
/// reported, and the call is not repeated until the object changes. An update whose old state
/// cannot be deserialized is passed as `Created`, because the reconciler has not received that
/// state.
///
/// # Example
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{ApiResource, DynamicObject};
/// use windlass_controller::{Action, Outcome, Reconciler, Request, TypedReconciler};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let typed = TypedReconciler::new(|request: Request<ConfigMap>| async move {
///     assert_eq!(request.key().name(), "web");
///     Ok::<_, Infallible>(Outcome::done())
/// });
/// let object = DynamicObject::new("web", &ApiResource::erase::<ConfigMap>(&()));
/// assert!(typed.reconcile(Request::new(Action::Created, Arc::new(object))).await.is_ok());
/// # }
/// ```
pub struct TypedReconciler<K, R> {
    reconciler: R,
    of: PhantomData<fn(K)>,
}

/// An object cannot be deserialized as the type of its reconciler.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {kind}.{group} {namespace}/{name} as {expected}")]
#[non_exhaustive]
pub struct CannotCastError {
    /// The object's namespace; empty if it has none.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The group of its kind. Empty for the core group, and if the object has no types.
    pub group: String,
    /// Its kind. Empty if the object has no types.
    pub kind: String,
    /// The type of the reconciler.
    pub expected: &'static str,
    /// The error.
    pub source: serde_json::Error,
}

// === impl TypedReconciler ===

impl<K, R> TypedReconciler<K, R>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    R: Reconciler<K>,
{
    /// Adapts `reconciler` to dynamic objects.
    pub const fn new(reconciler: R) -> Self {
        Self {
            reconciler,
            of: PhantomData,
        }
    }
}

impl<K, R> Reconciler<DynamicObject> for TypedReconciler<K, R>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    R: Reconciler<K>,
{
    type Error = Failure;

    fn predicates(&self) -> Vec<&dyn Predicate<DynamicObject>> {
        // Without predicates no object is deserialized here.
        if self.reconciler.predicates().is_empty() {
            Vec::new()
        } else {
            vec![self]
        }
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, DynamicObject>> {
        let finalizer = self.reconciler.finalizer()?;
        Some(FinalizerHook::new(finalizer.identity(), self))
    }

    async fn reconcile(&self, request: Request<DynamicObject>) -> Result<Outcome, Failure> {
        let object = read::<K>(request.object());
        let object = object.map_err(|error| Failure::from(error).permanent())?;
        let old = request.old().and_then(|old| read::<K>(old).ok());
        let typed = request.about(Arc::new(object), old.map(Arc::new));
        self.reconciler.reconcile(typed).await.map_err(Into::into)
    }
}

/// Calls the predicates of the typed reconciler, so that its filter also applies to dynamic
/// objects. An object that cannot be deserialized passes, so that its call reports the error.
impl<K, R> Predicate<DynamicObject> for TypedReconciler<K, R>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    R: Reconciler<K>,
{
    fn passes(&self, event: &Event<DynamicObject>) -> bool {
        let predicates = self.reconciler.predicates();
        typed(event).is_none_or(|event| predicates.iter().all(|it| it.passes(&event)))
    }
}

/// Shows the events to the finalizer of the typed reconciler.
impl<K, R> OnEvent<DynamicObject> for TypedReconciler<K, R>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    R: Reconciler<K>,
{
    fn on_event(&self, event: &Event<DynamicObject>) -> Interest {
        let shown = self.reconciler.finalizer().zip(typed(event));
        shown.map_or(Interest::Yes, |(finalizer, event)| {
            finalizer.on_event(&event)
        })
    }

    fn on_repetition(&self, event: &Event<DynamicObject>) -> Interest {
        let shown = self.reconciler.finalizer().zip(typed(event));
        shown.map_or(Interest::Yes, |(finalizer, event)| {
            finalizer.on_repetition(&event)
        })
    }

    fn awaits(&self, uid: Option<&Uid>) -> bool {
        let finalizer = self.reconciler.finalizer();
        finalizer.is_some_and(|finalizer| finalizer.awaits(uid))
    }
}

/// Converts the event, if its objects can be deserialized.
fn typed<K>(event: &Event<DynamicObject>) -> Option<Event<K>>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    let read = |object: &DynamicObject| read::<K>(object).ok().map(Arc::new);
    Some(match event {
        Event::Added(object) => Event::Added(read(object)?),
        Event::Updated { old, new } => {
            let new = read(new)?;
            match old.get().ok().and_then(|old| read(&old)) {
                Some(old) => {
                    let old = LazyObject::from(old);
                    Event::Updated { old, new }
                }
                // The typed reconciler has not received it.
                None => Event::Added(new),
            }
        }
        Event::Deleted { last, missed } => Event::Deleted {
            last: read(last)?,
            missed: *missed,
        },
        Event::Resynced(object) => Event::Resynced(read(object)?),
        _ => return None,
    })
}

impl<K, R: fmt::Debug> fmt::Debug for TypedReconciler<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedReconciler")
            .field(&self.reconciler)
            .finish()
    }
}

fn read<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, CannotCastError> {
    let read = serde_json::to_value(object).and_then(serde_json::from_value);
    read.map_err(|source| CannotCastError::new::<K>(object, source))
}

/// The name of a type without its path.
fn short_name<K>() -> &'static str {
    let name = std::any::type_name::<K>();
    name.rsplit("::").next().unwrap_or(name)
}

// === impl CannotCastError ===

impl CannotCastError {
    /// Describes `object` by its metadata.
    fn new<K>(object: &DynamicObject, source: serde_json::Error) -> Self {
        let types = object.types.clone().unwrap_or_default();
        let group = match types.api_version.split_once('/') {
            Some((group, _version)) => group.to_owned(),
            None => String::new(),
        };
        Self {
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            group,
            kind: types.kind,
            expected: short_name::<K>(),
            source,
        }
    }
}
