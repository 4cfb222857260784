//! The trait of the objects that a store keeps.

use std::{borrow::Cow, sync::Arc};

use kube::{Resource, api::ObjectMeta};

use crate::{DecodeError, ObjectIdentity, json_form::JsonForm};

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

    /// A hash of the content, if the object is stored decoded and has no generation.
    #[doc(hidden)]
    fn content_hash(&self) -> Option<u64> {
        None
    }

    /// The object itself, if it is stored as JSON, with access to its decoded form.
    #[doc(hidden)]
    fn json_form(&self) -> Option<&dyn JsonForm> {
        None
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
