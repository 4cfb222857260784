//! Objects of any kind and any form, type-erased.

use std::{any::Any, borrow::Cow, fmt, sync::Arc};

use kube::api::ObjectMeta;

use crate::{DecodeError, Named, Stored, Uid, held::Hold};

/// An object of whatever kind, for code that works on many kinds at once.
///
/// Implemented by everything that a store can keep; `Arc<K>` becomes `Arc<dyn AnyObject>`
/// without a copy.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass_informer::{AnyObject, Named as _};
///
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("web".into());
///
/// let any: Arc<dyn AnyObject> = Arc::new(map);
/// assert_eq!(any.key().name(), "web");
/// assert!(any.typed::<ConfigMap>()?.is_some());
/// assert!(any.typed::<Secret>()?.is_none());
/// # Ok::<(), windlass_informer::DecodeError>(())
/// ```
pub trait AnyObject: Any + Named + Send + Sync {
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
    fn held(&self) -> Option<&dyn Hold>;

    /// Drops what was remembered of it decoded because it was decoded not long ago.
    #[doc(hidden)]
    fn forget(&self);
}

// === impl AnyObject ===

impl<K: Stored> AnyObject for K {
    fn metadata(&self) -> Cow<'_, ObjectMeta> {
        Stored::metadata(self)
    }

    fn decoded(self: Arc<Self>) -> Result<Arc<dyn Any + Send + Sync>, DecodeError> {
        Ok(Stored::object(self)?)
    }

    fn json(&self) -> Option<&str> {
        Stored::kept_json(self)
    }

    fn held(&self) -> Option<&dyn Hold> {
        Stored::held(self)
    }

    fn forget(&self) {
        Stored::forget(self);
    }
}

impl dyn AnyObject {
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
        Named::uid(self).map(Uid::from)
    }

    /// The generation, which changes with the spec, if the API server counts it.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.metadata().generation
    }

    /// Says that no handler works on the object now: what was held of it decoded for that may go.
    /// The next read decodes it again.
    pub fn rest(&self) {
        if let Some(held) = self.held() {
            held.rest();
            self.forget();
        }
    }

    /// Whether decoding of the object was tried and failed.
    #[must_use]
    pub fn is_undecodable(&self) -> bool {
        self.held().is_some_and(Hold::has_failed)
    }
}

/// Shows who it is, and never what is in it, which may be secret.
impl fmt::Debug for dyn AnyObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyObject({})", self.key())
    }
}
