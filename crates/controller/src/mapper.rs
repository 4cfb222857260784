//! Mappers: from a changed object to the keys of affected objects of another kind.

use windlass_informer::{DecodeError, LazyObject, ObjectKey};

use crate::{Filtered, Predicate};

mod owners;
mod same_name;

pub use self::{owners::Owners, same_name::SameName};

/// Returns the keys of the objects of another kind that a change of a `K` affects.
///
/// Every `Fn(&K) -> I` is a mapper, where `I` iterates over [`ObjectKey`]s, for example an
/// `Option`, an array, or a `Vec`. [`Owners`] returns the owners, [`SameName`] the object with the
/// same namespace and name.
///
/// # Contract
///
/// *Guaranteed.*
/// - A mapper is called for each event of its kind when the event arrives, not when it is
///   dispatched. For an update it is called with the old and with the new object, so that both
///   targets of a changed reference are dispatched.
/// - Each object in the store whose key it returns is dispatched to all handlers of its kind as
///   [`Resynced`](crate::Action::Resynced), in the newest state that the store has when the mapper
///   is called, or a newer one. A state that the store receives later, for example of a write by a
///   call that runs meanwhile, follows as [`Updated`](crate::Action::Updated). A dispatch that a
///   watch event causes precedes retries and objects of the first list.
/// - A key that is returned again before the dispatch causes one call: a thousand changes of one
///   object do not cause a thousand calls for each affected object.
/// - A key that is not in the store is ignored. When the object is created, it is dispatched as
///   usual.
/// - When the handlers are called, the store has the changed object.
/// - If a mapper panics, only its own result is lost, and
///   [`on_error`](crate::InformerControllerBuilder::on_error) is called.
///
/// *Required.* It returns immediately and does not block: while it runs, no other event of its
/// informer is queued.
///
/// *Not guaranteed.* Calls for objects that existed before it was added. A resync that a mapper
/// requests is not a change of that object, and is passed to no mapper.
///
/// # Why a mapper is not a handler
///
/// If mappers were called like handlers, they would be late when a handler of the changed object is
/// slow or fails, and would miss events that [`Coalescing`](crate::Coalescing) coalesces: of a
/// reference that changed twice, one target would be missed.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// use windlass_controller::{InformerController, Mapper, Owners};
/// use windlass_informer::{Informer, ObjectKey, Scripted};
///
/// let controller = InformerController::new();
/// let configs = controller.kind::<ConfigMap>("configs")?;
/// let (pods, secrets) = (controller.kind::<Pod>("pods")?, controller.kind::<Secret>("secrets")?);
/// controller.add_informer(&configs, &Informer::new(Scripted::<ConfigMap>::new().1))?;
///
/// // A change of a pod reconciles its owner.
/// controller.add_mapper(&pods, &configs, Owners::of::<ConfigMap>(&()))?;
///
/// // A change of a secret reconciles the object that an annotation names, as "namespace/name".
/// let named = |secret: &Secret| {
///     let annotation = secret.metadata.annotations.as_ref()?.get("example.io/for")?;
///     let (namespace, name) = annotation.split_once('/')?;
///     Some(ObjectKey::new(name).within(namespace))
/// };
/// controller.add_mapper(&secrets, &configs, named)?;
///
/// let mut secret = Secret::default();
/// assert!(named.keys(&secret).into_iter().next().is_none());
/// secret.metadata.annotations = Some([("example.io/for".into(), "shop/web".into())].into());
/// let key = ObjectKey::new("web").within("shop");
/// assert!(named.keys(&secret).into_iter().eq([key]));
/// # Ok::<(), windlass_controller::AddError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mapper of `{K}`",
    label = "neither implements `Mapper<{K}>` nor is a function of a `&{K}` that returns keys",
    note = "a closure is one in this form: `|changed: &{K}| -> Option<ObjectKey> {{ .. }}`; it can also return an array or a `Vec` of keys",
    note = "`Owners::of::<Owner>(&())` returns the owners, `SameName` the object with the same name"
)]
pub trait Mapper<K>: Send + Sync + 'static {
    /// Returns the keys of the objects that `object` affects.
    fn keys(&self, object: &K) -> impl IntoIterator<Item = ObjectKey>;

    /// Returns the keys of the objects that `old`, the state before an update, affected. By default
    /// this decodes `old`. A mapper that only needs metadata can use
    /// [`LazyObject::metadata`](windlass_informer::LazyObject::metadata), like [`Owners`].
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the old object does not decode.
    fn keys_before(&self, old: &LazyObject<K>) -> Result<Vec<ObjectKey>, DecodeError>
    where
        K: Send + Sync + 'static,
    {
        Ok(self.keys(&*old.get()?).into_iter().collect())
    }

    /// The predicates that an event must pass. By default none; each [`filter`](Self::filter) adds
    /// one.
    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        vec![]
    }

    /// Calls this mapper only for events that pass `predicate`.
    fn filter<P: Predicate<K>>(self, predicate: P) -> Filtered<Self, P>
    where
        Self: Sized,
    {
        Filtered::new(self, predicate)
    }
}

// === impl Mapper ===

impl<K, F, I> Mapper<K> for F
where
    F: Fn(&K) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = ObjectKey>,
{
    fn keys(&self, object: &K) -> impl IntoIterator<Item = ObjectKey> {
        self(object)
    }
}
