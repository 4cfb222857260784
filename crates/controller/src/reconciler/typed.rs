//! A typed reconciler over objects whose type is known only when it runs.

use std::{fmt, marker::PhantomData, sync::Arc};

use kube::{Resource, api::DynamicObject};
use serde::de::DeserializeOwned;

use windlass_informer::{Event, LazyObject};

use super::{Failure, Outcome, Reconciler, Request};
use crate::Predicate;

/// Lets a reconciler of `K`s reconcile dynamic objects.
///
/// Each object is read as a `K`; everything else of the request stays as it is. One that
/// cannot be read is a [`CannotCastError`] of its call, which is reported and not repeated
/// until the object changes: the error is permanent. An update from a state that cannot be read is
/// passed on as `Created`, because the reconciler has not received that state.
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

/// An object cannot be read as the type that its reconciler is for.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {kind}.{group} {namespace}/{name} as {expected}")]
#[non_exhaustive]
pub struct CannotCastError {
    /// The object's namespace; empty if it has none.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The group of its kind; empty for the core group, or if the object does not say it.
    pub group: String,
    /// Its kind; empty if the object does not say it.
    pub kind: String,
    /// The type that was expected.
    pub expected: &'static str,
    /// What is wrong with it.
    pub source: serde_json::Error,
}

// === impl TypedReconciler ===

impl<K, R> TypedReconciler<K, R>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    R: Reconciler<K>,
{
    /// Lets `reconciler` reconcile dynamic objects.
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
        // Nothing is read for a reconciler that takes every event.
        if self.reconciler.predicates().is_empty() {
            Vec::new()
        } else {
            vec![self]
        }
    }

    fn finalizer(&self) -> Option<&str> {
        self.reconciler.finalizer()
    }

    fn needs(&self, event: &Event<DynamicObject>) -> bool {
        typed(event).is_some_and(|event| self.reconciler.needs(&event))
    }

    fn history_went_back(&self, uid: &str) {
        self.reconciler.history_went_back(uid);
    }

    async fn reconcile(&self, request: Request<DynamicObject>) -> Result<Outcome, Failure> {
        let object = read::<K>(request.object());
        let object = object.map_err(|error| Failure::from(error).permanent())?;
        let old = request.old().and_then(|old| read::<K>(old).ok());
        let typed = request.about(Arc::new(object), old.map(Arc::new));
        self.reconciler.reconcile(typed).await.map_err(Into::into)
    }
}

/// Asks the predicates of the typed reconciler, so that its filter holds for the dynamic objects
/// too. An object that cannot be read passes: its call reports why.
impl<K, R> Predicate<DynamicObject> for TypedReconciler<K, R>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    R: Reconciler<K>,
{
    fn passes(&self, event: &Event<DynamicObject>) -> bool {
        typed(event).is_none_or(|event| self.reconciler.receives(&event))
    }
}

/// The event as one about a `K`, if its objects can be read.
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

/// The name of a type without its path, which says how a crate is built and nothing more.
fn short_name<K>() -> &'static str {
    let name = std::any::type_name::<K>();
    name.rsplit("::").next().unwrap_or(name)
}

// === impl CannotCastError ===

impl CannotCastError {
    /// Names `object` by what can be read of it.
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
