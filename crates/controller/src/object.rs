//! An object of any kind: what the engine carries.

use std::{any::Any, borrow::Cow, sync::Arc};

use kube::api::ObjectMeta;
use windlass_informer::{DecodeError, Event, Named, ObjectKey, Stored, Uid};

/// An event about an object of any kind.
pub(crate) type AnyEvent = Event<dyn AnyObject>;

/// An object of whatever kind, for code that works on many kinds at once.
///
/// Implemented by everything that a store can keep; `Arc<K>` becomes `Arc<dyn AnyObject>`
/// without a copy.
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
    /// The object's metadata. Costs nothing for an object that is decoded.
    fn metadata(&self) -> Cow<'_, ObjectMeta>;

    /// The namespace and the name.
    fn key(&self) -> ObjectKey;

    /// The uid as text, if the API server has given it one.
    fn uid_text(&self) -> Option<&str>;

    /// The version of this state, opaque.
    fn resource_version(&self) -> Option<&str>;

    /// The object, decoded: what handlers are for.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it is kept in another form, and does not decode.
    fn decoded(self: Arc<Self>) -> Result<Arc<dyn Any + Send + Sync>, DecodeError>;
}

// === impl AnyObject ===

impl<K: Stored> AnyObject for K {
    fn metadata(&self) -> Cow<'_, ObjectMeta> {
        Stored::metadata(self)
    }

    fn key(&self) -> ObjectKey {
        Named::key(self)
    }

    fn uid_text(&self) -> Option<&str> {
        Named::uid(self)
    }

    fn resource_version(&self) -> Option<&str> {
        Named::resource_version(self)
    }

    fn decoded(self: Arc<Self>) -> Result<Arc<dyn Any + Send + Sync>, DecodeError> {
        Ok(Stored::object(self)?)
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
        self.uid_text().map(Uid::from)
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
