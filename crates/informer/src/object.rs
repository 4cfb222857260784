//! Type-erased objects: any kind, decoded or kept as JSON.

use std::{any::Any, borrow::Cow, fmt, sync::Arc};

use kube::api::ObjectMeta;

use crate::{DecodeError, ObjectIdentity, Stored, json_form::JsonForm};

/// An object of any kind, for code that handles several kinds at once.
///
/// Every type that a store can keep implements it. `Arc<K>` converts to `Arc<dyn ErasedObject>`
/// without a copy.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass_informer::{ErasedObject, ObjectIdentity as _};
///
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("web".into());
///
/// let any: Arc<dyn ErasedObject> = Arc::new(map);
/// assert_eq!(any.key().name(), "web");
/// assert!(any.typed::<ConfigMap>()?.is_some());
/// assert!(any.typed::<Secret>()?.is_none());
/// # Ok::<(), windlass_informer::DecodeError>(())
/// ```
pub trait ErasedObject: Any + ObjectIdentity + Send + Sync {
    /// Returns the metadata. A decoded object lends it; otherwise only the metadata are decoded.
    fn metadata(&self) -> Cow<'_, ObjectMeta>;

    /// Returns the decoded object.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the object is kept as JSON and does not decode.
    fn decoded(self: Arc<Self>) -> Result<Arc<dyn Any + Send + Sync>, DecodeError>;

    /// The JSON of the object, if the object is kept as JSON.
    #[doc(hidden)]
    fn json(&self) -> Option<&str>;

    /// A hash of the content without the status, the finalizers and the fields that change with each
    /// write, if the object is kept decoded and has no generation.
    #[doc(hidden)]
    fn content_hash(&self) -> Option<u64>;

    /// The object itself, if it is kept as JSON, with access to its decoded form.
    #[doc(hidden)]
    fn json_form(&self) -> Option<&dyn JsonForm>;
}

// === impl ErasedObject ===

impl<K: Stored> ErasedObject for K {
    fn metadata(&self) -> Cow<'_, ObjectMeta> {
        Stored::metadata(self)
    }

    fn decoded(self: Arc<Self>) -> Result<Arc<dyn Any + Send + Sync>, DecodeError> {
        Ok(Stored::object(self)?)
    }

    fn json(&self) -> Option<&str> {
        Stored::raw_json(self)
    }

    fn content_hash(&self) -> Option<u64> {
        Stored::content_hash(self)
    }

    fn json_form(&self) -> Option<&dyn JsonForm> {
        Stored::json_form(self)
    }
}

impl dyn ErasedObject {
    /// Returns the object as a `K`, decoding it if necessary, or `None` if it has another type.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the object is kept as JSON and does not decode.
    pub fn typed<K: Any + Send + Sync>(self: &Arc<Self>) -> Result<Option<Arc<K>>, DecodeError> {
        Arc::clone(self).into_typed()
    }

    /// Like `typed`, but consumes the reference, so that a decoded object is converted without a
    /// change of its reference count.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the object is kept as JSON and does not decode.
    pub(crate) fn into_typed<K: Any + Send + Sync>(
        self: Arc<Self>,
    ) -> Result<Option<Arc<K>>, DecodeError> {
        let any: &dyn Any = &*self;
        let object: Arc<dyn Any + Send + Sync> = if any.is::<K>() { self } else { self.decoded()? };
        Ok(object.downcast().ok())
    }

    /// The generation, which changes with the spec. `None` if the API server does not count it for
    /// this kind.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.metadata().generation
    }

    /// Returns the object as a `K` for a handler. An object that is kept as JSON stays decoded until
    /// [`release_decoded`](Self::release_decoded).
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the object is kept as JSON and does not decode.
    #[doc(hidden)]
    pub fn into_typed_for_handler<K: Any + Send + Sync>(
        self: Arc<Self>,
    ) -> Result<Option<Arc<K>>, DecodeError> {
        let object = Arc::clone(&self).into_typed_uncached::<K>()?;
        if let (Some(form), Some(object)) = (self.json_form(), &object) {
            form.pin(Arc::clone(object) as _);
        }
        Ok(object)
    }

    /// Like `into_typed`, but an object that is decoded is not cached.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the object is kept as JSON and does not decode.
    #[doc(hidden)]
    pub fn into_typed_uncached<K: Any + Send + Sync>(
        self: Arc<Self>,
    ) -> Result<Option<Arc<K>>, DecodeError> {
        let any: &dyn Any = &*self;
        match self.json_form() {
            Some(form) if !any.is::<K>() => Ok(form.decode()?.downcast().ok()),
            _ => self.into_typed(),
        }
    }

    /// Drops the decoded form of an object that is kept as JSON, unless it is in the cache of its
    /// informer. The controller calls this after the last handler of an event.
    #[doc(hidden)]
    pub fn release_decoded(&self) {
        if let Some(form) = self.json_form() {
            form.unpin();
        }
    }

    /// Whether an attempt to decode the object has failed.
    #[doc(hidden)]
    #[must_use]
    pub fn is_undecodable(&self) -> bool {
        self.json_form().is_some_and(JsonForm::has_failed)
    }
}

/// Shows the key and never the content, which may be secret.
impl fmt::Debug for dyn ErasedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErasedObject({})", self.key())
    }
}
