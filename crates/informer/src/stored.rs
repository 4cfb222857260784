//! The trait of everything that a store keeps, in any form.

use std::{borrow::Cow, sync::Arc};

use kube::{Resource, api::ObjectMeta};

use crate::{DecodeError, ObjectKey, decoded_slot::ErasedDecodedSlot};

/// An object that knows who it is, decoded or not.
///
/// Every [`Resource`] is one.
pub trait ObjectIdentity {
    /// The namespace, unless the kind has none.
    fn namespace(&self) -> Option<&str>;

    /// The name; empty if it has none.
    fn name(&self) -> &str;

    /// The uid, if the API server has given it one.
    fn uid(&self) -> Option<&str>;

    /// The version of this state, opaque.
    fn resource_version(&self) -> Option<&str>;

    /// The namespace and the name.
    fn key(&self) -> ObjectKey {
        let key = ObjectKey::new(self.name());
        match self.namespace() {
            Some(namespace) => key.within(namespace),
            None => key,
        }
    }
}

/// An object as a store keeps it: decoded, or in a smaller form that knows who it is.
///
/// Every [`Resource`] is one, as it is; [`RawObject`](crate::RawObject) is another.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_informer::{ObjectIdentity as _, Stored as _};
///
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("web".into());
/// let map = Arc::new(map);
///
/// assert_eq!(map.key().name(), "web");
/// assert!(Arc::ptr_eq(&Arc::clone(&map).object()?, &map));
/// # Ok::<(), windlass_informer::DecodeError>(())
/// ```
pub trait Stored: ObjectIdentity + Send + Sync + 'static {
    /// What it is, decoded.
    type Object: Send + Sync + 'static;

    /// The metadata. Costs nothing for an object that is decoded, and a part of its decoding
    /// for one that is not.
    fn metadata(&self) -> Cow<'_, ObjectMeta>;

    /// The object. Costs nothing for one that is decoded.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it does not decode.
    fn object(self: Arc<Self>) -> Result<Arc<Self::Object>, DecodeError>;

    /// The JSON of the object, if it is kept as JSON.
    #[doc(hidden)]
    fn kept_json(&self) -> Option<&str> {
        None
    }

    /// What is held of it decoded, if it is kept in another form.
    #[doc(hidden)]
    fn decoded_slot(&self) -> Option<&dyn ErasedDecodedSlot> {
        None
    }

    /// Drops what was remembered of it decoded because it was decoded not long ago.
    #[doc(hidden)]
    fn forget_decoded(&self) {}
}

// === impl ObjectIdentity ===

impl<K: Resource> ObjectIdentity for K {
    fn namespace(&self) -> Option<&str> {
        self.meta().namespace.as_deref()
    }

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    fn resource_version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }
}

// === impl Stored ===

impl<K: Resource + Send + Sync + 'static> Stored for K {
    type Object = K;

    fn metadata(&self) -> Cow<'_, ObjectMeta> {
        Cow::Borrowed(self.meta())
    }

    fn object(self: Arc<Self>) -> Result<Arc<K>, DecodeError> {
        Ok(self)
    }
}
