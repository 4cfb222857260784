//! `Kind`: the typed handle of one kind of a controller.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Weak},
};

use kube::Resource;
use serde::de::DeserializeOwned;
use windlass_informer::{RawObject, Stored};

use super::shared::Shared;
use crate::route::KindId;

/// A kind of an [`InformerController`](crate::InformerController): it connects informers with
/// watchers, reconcilers and mappers of one type.
///
/// `S` is the form in which the informers store the objects: a type like `Website`, or a
/// [`RawObject<Website>`](RawObject). [`HandledAs`] says which handlers a kind takes. Another type
/// does not compile:
///
/// ```compile_fail,E0277
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass_controller::{Failure, InformerController, Outcome, Request};
///
/// let controller = InformerController::new();
/// let configs = controller.kind::<ConfigMap>("configs")?;
/// controller.add_reconciler(&configs, |_: Request<Secret>| async {
///     Ok::<_, Failure>(Outcome::done())
/// })?;
/// # Ok::<(), windlass_controller::AddError>(())
/// ```
///
/// ```compile_fail,E0308
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass_controller::InformerController;
/// use windlass_informer::{Informer, Scripted};
///
/// let controller = InformerController::new();
/// let configs = controller.kind::<ConfigMap>("configs")?;
/// controller.add_informer(&configs, &Informer::new(Scripted::<Secret>::new().1))?;
/// # Ok::<(), windlass_controller::AddError>(())
/// ```
///
/// Clones are handles of the same kind. The kind exists until its last handle is dropped and it has
/// no informer, handler or mapper. Then its metrics are removed, and its name can be used again.
pub struct Kind<S> {
    handle: Arc<KindHandle>,
    stored: PhantomData<fn() -> S>,
}

/// The form of the objects of a kind: `Self` is stored, and handlers take `T`.
///
/// A kind of `K` takes handlers of `K`. A kind of [`RawObject<K>`] takes handlers of `K`, for which
/// the objects are decoded, and of `RawObject<K>`. This trait cannot be implemented outside of this
/// crate.
#[diagnostic::on_unimplemented(
    message = "a kind of `{Self}` does not take a handler of `{T}`",
    label = "this handler takes `{T}`, and the informers of the kind store `{Self}`",
    note = "create the kind with the type of its handlers: `controller.kind::<{T}>(name)`"
)]
pub trait HandledAs<T>: Stored + sealed::Sealed<T> {}

mod sealed {
    /// Prevents implementations in other crates.
    pub trait Sealed<T> {}
}

/// A kind without its type. The kind may be removed when this is dropped.
pub(crate) struct KindHandle {
    id: KindId,
    name: Arc<str>,
    /// Weak, because handlers, which the controller owns, may have handles.
    controller: Weak<Shared>,
}

// === impl Kind ===

impl<S> Kind<S> {
    pub(super) fn new(handle: KindHandle) -> Self {
        Self {
            handle: Arc::new(handle),
            stored: PhantomData,
        }
    }

    /// The name, which logs, errors and metrics show.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    pub(crate) fn id(&self) -> KindId {
        self.handle.id
    }

    pub(super) fn handle(&self) -> &KindHandle {
        &self.handle
    }
}

impl<S> Clone for Kind<S> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
            stored: PhantomData,
        }
    }
}

impl<S> fmt::Debug for Kind<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name()).finish()
    }
}

// === impl HandledAs ===

impl<S: Stored> sealed::Sealed<S> for S {}
impl<S: Stored> HandledAs<S> for S {}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> sealed::Sealed<K> for RawObject<K> {}
impl<K: Resource + DeserializeOwned + Send + Sync + 'static> HandledAs<K> for RawObject<K> {}

// === impl KindHandle ===

impl KindHandle {
    pub(super) const fn new(id: KindId, name: Arc<str>, controller: Weak<Shared>) -> Self {
        Self {
            id,
            name,
            controller,
        }
    }

    pub(super) const fn id(&self) -> KindId {
        self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is a kind of `controller`.
    pub(super) fn is_of(&self, controller: &Arc<Shared>) -> bool {
        std::ptr::eq(self.controller.as_ptr(), Arc::as_ptr(controller))
    }
}

impl Drop for KindHandle {
    fn drop(&mut self) {
        if let Some(controller) = self.controller.upgrade() {
            controller.drop_handle(self.id);
        }
    }
}
