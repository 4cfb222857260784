//! Mappers: which objects of another kind a change concerns.

use windlass_informer::{DecodeError, LazyObject, ObjectKey};

use crate::{Filtered, Predicate};

mod owners;
mod same_name;

pub use self::{owners::Owners, same_name::SameName};

/// Names the objects of one kind that an object of another, of type `K`, concerns.
///
/// Every `Fn(&K) -> I` is a mapper, where `I` is an `Option`, an array, a `Vec` or whatever else
/// can be iterated over, of [`ObjectKey`]s. [`Owners`] names the owners, [`SameName`] the object
/// that is called the same.
///
/// # Contract
///
/// *Guaranteed.* It is asked of each event of its kind, when that comes and before it waits for
/// anybody: of an update with the old object and with the new, so that a reference that moved
/// wakes both ends. Each object that it names and that exists is dispatched to all handlers of its
/// kind as [`Resynced`](crate::Action::Resynced), in its newest state, in its turn, and as soon
/// as the change itself would be. Named again before it is dispatched, it is dispatched once: a
/// thousand changes of one object are not a thousand calls for those that it concerns. One that is
/// not there is dispatched to no handler; when it is created it is dispatched as any other. By the
/// time they are called, the store has what woke them. A mapper that panics loses its own answer
/// and nothing else; [`on_error`](crate::InformerControllerBuilder::on_error) is called.
///
/// *Required.* That it answers at once and waits for nothing: meanwhile no event of its kind is
/// queued.
///
/// *Not guaranteed.* That it is asked of objects that were there before it was added. What it
/// names is not a change of that object, and is asked of no mapper again.
///
/// # Why it is no handler
///
/// A mapper that was called in the turn of the changed object would be late where a handler of
/// that object is slow or fails, and would not see what
/// [`Coalescing`](crate::Coalescing) folds: of a reference that moved twice, one end
/// would not be woken. So it is asked where events come in; it has nothing to repeat, and an
/// order would mean nothing, since each object that it names is dispatched in its own turn.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// use windlass_controller::{InformerController, Mapper, Owners};
/// use windlass_informer::{Informer, ObjectKey, Scripted};
///
/// let controller = InformerController::new();
/// controller.add_informer("configs", &Informer::new(Scripted::<ConfigMap>::new().1))?;
///
/// // A change of a pod reconciles its owner.
/// controller.add_mapper::<Pod>("pods", "configs", Owners::of::<ConfigMap>(&()))?;
///
/// // A change of a secret reconciles the object that an annotation names, as "namespace/name".
/// let named = |secret: &Secret| {
///     let annotation = secret.metadata.annotations.as_ref()?.get("example.io/for")?;
///     let (namespace, name) = annotation.split_once('/')?;
///     Some(ObjectKey::new(name).within(namespace))
/// };
/// controller.add_mapper("secrets", "configs", named)?;
///
/// let mut secret = Secret::default();
/// assert!(named.keys(&secret).into_iter().next().is_none());
/// secret.metadata.annotations = Some([("example.io/for".into(), "shop/web".into())].into());
/// let key = ObjectKey::new("web").within("shop");
/// assert!(named.keys(&secret).into_iter().eq([key]));
/// # Ok::<(), windlass_controller::AddError>(())
/// ```
pub trait Mapper<K>: Send + Sync + 'static {
    /// The objects that `object` concerns.
    fn keys(&self, object: &K) -> impl IntoIterator<Item = ObjectKey>;

    /// The same, of an object as it was before an update. By default that is decoded for it,
    /// again; a mapper that needs no more than the metadata can do with
    /// [`LazyObject::metadata`](windlass_informer::LazyObject::metadata), as [`Owners`] does.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it does not decode.
    fn keys_before(&self, old: &LazyObject<K>) -> Result<Vec<ObjectKey>, DecodeError>
    where
        K: Send + Sync + 'static,
    {
        Ok(self.keys(&*old.get()?).into_iter().collect())
    }

    /// What an event must pass for it to be asked: by default nothing, and more with each
    /// [`filter`](Self::filter).
    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        Vec::new()
    }

    /// This mapper, asked of nothing but what passes `predicate`.
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
