//! Objects of any kind and any form, type-erased.

use std::{any::Any, borrow::Cow, fmt, sync::Arc};

use kube::api::ObjectMeta;

use crate::{DecodeError, ObjectIdentity, Stored, Uid, decoded_slot::ErasedDecodedSlot};

/// An object of whatever kind, for code that works on many kinds at once.
///
/// Implemented by everything that a store can keep; `Arc<K>` becomes `Arc<dyn ErasedObject>`
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
    /// The object's metadata. Costs nothing for an object that is decoded.
    fn metadata(&self) -> Cow<'_, ObjectMeta>;

    /// The object, decoded: what handlers are for.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it is kept in another form, and does not decode.
    fn decoded(self: Arc<Self>) -> Result<Arc<dyn Any + Send + Sync>, DecodeError>;

    /// The JSON of the object, if it is kept as JSON.
    #[doc(hidden)]
    fn json(&self) -> Option<&str>;

    /// What is held of it decoded, if it is kept in another form.
    #[doc(hidden)]
    fn decoded_slot(&self) -> Option<&dyn ErasedDecodedSlot>;

    /// Drops what was remembered of it decoded because it was decoded not long ago.
    #[doc(hidden)]
    fn forget_decoded(&self);
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
        Stored::kept_json(self)
    }

    fn decoded_slot(&self) -> Option<&dyn ErasedDecodedSlot> {
        Stored::decoded_slot(self)
    }

    fn forget_decoded(&self) {
        Stored::forget_decoded(self);
    }
}

impl dyn ErasedObject {
    /// The object as a `K`, if it is one: as it is, or decoded, where it is kept in another
    /// form.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it is kept in another form, and does not decode.
    pub fn typed<K: Any + Send + Sync>(self: &Arc<Self>) -> Result<Option<Arc<K>>, DecodeError> {
        Arc::clone(self).into_typed()
    }

    /// The object as a `K`, if it is one, as `typed` has it; nothing is counted for one
    /// that is decoded.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it is kept in another form, and does not decode.
    pub fn into_typed<K: Any + Send + Sync>(
        self: Arc<Self>,
    ) -> Result<Option<Arc<K>>, DecodeError> {
        let any: &dyn Any = &*self;
        let object: Arc<dyn Any + Send + Sync> = if any.is::<K>() { self } else { self.decoded()? };
        Ok(object.downcast().ok())
    }

    /// The uid, if the API server has given it one.
    #[must_use]
    pub fn uid(&self) -> Option<Uid> {
        ObjectIdentity::uid(self).map(Uid::from)
    }

    /// The generation, which changes with the spec, if the API server counts it.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.metadata().generation
    }

    /// Says that no handler works on the object now: what was held of it decoded for that may go.
    /// The next read decodes it again.
    pub fn release_decoded(&self) {
        if let Some(slot) = self.decoded_slot() {
            slot.unpin();
            self.forget_decoded();
        }
    }

    /// Whether decoding of the object was tried and failed.
    #[must_use]
    pub fn is_undecodable(&self) -> bool {
        self.decoded_slot()
            .is_some_and(ErasedDecodedSlot::has_failed)
    }
}

/// Shows who it is, and never what is in it, which may be secret.
impl fmt::Debug for dyn ErasedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErasedObject({})", self.key())
    }
}
