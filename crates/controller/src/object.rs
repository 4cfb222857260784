//! An object of any kind: what the engine carries.

use std::any::Any;

use kube::{Resource, api::ObjectMeta};
use windlass_informer::{Event, ObjectKey, Uid};

/// An event about an object of any kind.
pub(crate) type AnyEvent = Event<dyn AnyObject>;

/// An object of whatever kind, for code that works on many kinds at once.
///
/// Implemented by every [`Resource`]; `Arc<K>` becomes `Arc<dyn AnyObject>` without a copy.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::AnyObject;
///
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("web".into());
///
/// let any: &dyn AnyObject = &map;
/// assert_eq!(any.key().name(), "web");
/// assert!(any.downcast_ref::<ConfigMap>().is_some());
/// ```
pub trait AnyObject: Any + Send + Sync {
    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// The namespace and the name.
    fn key(&self) -> ObjectKey;
}

// === impl AnyObject ===

impl<K: Resource + Send + Sync + 'static> AnyObject for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::of(self)
    }
}

impl dyn AnyObject {
    /// The object as a `K`, if it is one.
    #[must_use]
    pub fn downcast_ref<K: 'static>(&self) -> Option<&K> {
        (self as &dyn Any).downcast_ref()
    }

    /// The uid, if the API server has given it one.
    #[must_use]
    pub fn uid(&self) -> Option<Uid> {
        self.metadata().uid.as_deref().map(Uid::from)
    }

    /// The generation, which changes with the spec, if the API server counts it.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.metadata().generation
    }
}

/// Shows who it is, and never what is in it, which may be secret.
impl std::fmt::Debug for dyn AnyObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AnyObject({})", self.key())
    }
}
