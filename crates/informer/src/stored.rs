//! The traits of the objects that a store keeps: identity and stored form.

use std::{borrow::Cow, sync::Arc};

use kube::{Resource, api::ObjectMeta};

use crate::{DecodeError, ObjectKey, decoded_slot::DecodedForm};

/// An object whose identity is known without decoding it.
///
/// Every [`Resource`] implements it.
pub trait ObjectIdentity {
    /// The namespace, or `None` if the kind has no namespaces.
    fn namespace(&self) -> Option<&str>;

    /// The name. Empty if the object has none.
    fn name(&self) -> &str;

    /// The uid, or `None` if no API server has assigned one.
    fn uid(&self) -> Option<&str>;

    /// The `resourceVersion` of this state.
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

/// An object in the form in which a store keeps it: decoded, or as JSON.
///
/// Every [`Resource`] implements it in decoded form. [`RawObject`](crate::RawObject) is the JSON
/// form.
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
    /// The decoded type.
    type Object: Send + Sync + 'static;

    /// Returns the metadata. A decoded object lends it; a raw object decodes only the metadata.
    fn metadata(&self) -> Cow<'_, ObjectMeta>;

    /// Returns the decoded object. A decoded object is returned as it is.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the JSON does not decode.
    fn object(self: Arc<Self>) -> Result<Arc<Self::Object>, DecodeError>;

    /// The JSON of the object, if the object is stored as JSON.
    #[doc(hidden)]
    fn raw_json(&self) -> Option<&str> {
        None
    }

    /// The decoded form, if the object is stored as JSON.
    #[doc(hidden)]
    fn decoded_form(&self) -> Option<&dyn DecodedForm> {
        None
    }
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
