//! `LazyObject`: an object in the form in which the store keeps it, decoded at the first read.

use std::{any::Any, borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use kube::api::ObjectMeta;

use crate::{
    DecodeError, ErasedObject, ObjectIdentity, ObjectKey, Stored, json_form::JsonForm,
    key::identity_of, log,
};

/// A `K` in the form in which the store keeps it: decoded, or as JSON that is decoded at the first
/// read.
///
/// # Contract
///
/// *Guaranteed.* The name, uid and version are known without decoding. An object from a
/// [`ListWatch`](crate::ListWatch) has decoded once before it reaches a handler or the store.
///
/// *Required.* `K` decodes from the same JSON each time, like every derived `Deserialize`.
///
/// Cloning a `LazyObject` clones a reference, not the object. `K` may be unsized, as in
/// [`Event`](crate::Event).
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_informer::{LazyObject, ObjectIdentity as _};
///
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("web".into());
/// let kept = LazyObject::from(Arc::new(map));
///
/// assert_eq!(kept.name(), "web");
/// assert!(kept.metadata().labels.is_none());
/// assert_eq!(kept.get()?.data, None);
/// # Ok::<(), windlass_informer::DecodeError>(())
/// ```
pub struct LazyObject<K: ?Sized> {
    /// One of four: an `Arc<K>`; an `Arc<DecodedObject<K>>`, which is decoded too; an
    /// `Arc<RawObject<K>>`, which is JSON, the default; or, if `K` is itself a `RawObject`, that object,
    /// which [`read`](Self::read) does not decode.
    object: Arc<dyn ErasedObject>,
    of: PhantomData<fn() -> Arc<K>>,
}

/// An object that has just arrived: the form that the store keeps, and the decoded object for
/// subscribers.
///
/// A source that has only the decoded object creates it with `From`.
#[doc(hidden)]
pub struct IncomingObject<K> {
    pub(crate) lazy: LazyObject<K>,

    /// `None` if the informer has no subscribers.
    pub(crate) object: Option<Arc<K>>,
}

// === impl LazyObject ===

impl<K: ?Sized> LazyObject<K> {
    /// Wraps a type-erased object, which must be a `K` or decode to a `K`.
    #[doc(hidden)]
    #[must_use]
    pub fn from_erased(object: Arc<dyn ErasedObject>) -> Self {
        Self {
            object,
            of: PhantomData,
        }
    }

    /// The type-erased object.
    #[doc(hidden)]
    #[must_use]
    pub const fn as_erased(&self) -> &Arc<dyn ErasedObject> {
        &self.object
    }

    /// The type-erased object.
    #[doc(hidden)]
    #[must_use]
    pub fn into_erased(self) -> Arc<dyn ErasedObject> {
        self.object
    }

    /// Returns the metadata. A decoded object lends it; otherwise only the metadata are decoded.
    #[must_use]
    pub fn metadata(&self) -> Cow<'_, ObjectMeta> {
        ErasedObject::metadata(&*self.object)
    }
}

impl<K: Any + Send + Sync> LazyObject<K> {
    /// Returns the object, and decodes it if it is neither decoded nor in the cache of its informer.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the JSON does not decode: of a [`RawObject`](crate::RawObject), or if `K`
    /// does not fulfil *Required*.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        typed(self.object.typed()?)
    }

    /// Returns the decoded object, and the stored form if that is not the decoded one. `None` if
    /// the object has decoded before and does not decode now.
    pub(crate) fn into_decoded(self) -> Option<(Arc<K>, Option<Self>)>
    where
        K: Stored,
    {
        if self.is_plain() {
            return Some((self.object.into_typed().ok()??, None));
        }
        Some((decoded(&self, Self::decode)?, Some(self)))
    }

    /// Whether the stored form is the decoded object, without JSON or a hash.
    pub(crate) fn is_plain(&self) -> bool {
        self.object.json_form().is_none() && self.object.content_hash().is_none()
    }

    /// Like [`get`](Self::get). Calls `count` with whether an object that is kept as JSON was
    /// decoded before.
    pub(crate) fn read(&self, count: impl FnOnce(bool)) -> Result<Arc<K>, DecodeError> {
        let any: &dyn Any = &*self.object;
        if let Some(form) = self.object.json_form().filter(|_| !any.is::<K>()) {
            let known = form.decoded().map(Arc::downcast);
            count(known.is_some());
            if let Some(Ok(object)) = known {
                return Ok(object);
            }
        }
        self.get()
    }

    /// Like [`get`](Self::get), for an event: a decoded object is not cached.
    fn decode(&self) -> Result<Arc<K>, DecodeError> {
        typed(Arc::clone(&self.object).into_typed_uncached()?)
    }

    /// Keeps `object`, the decoded form, until a handler has processed it.
    pub(crate) fn pin(&self, object: &Arc<K>) {
        if let Some(form) = self.object.json_form() {
            form.pin(Arc::clone(object) as _);
        }
    }
}

impl<K: Stored> From<Arc<K>> for LazyObject<K> {
    fn from(object: Arc<K>) -> Self {
        Self::from_erased(object)
    }
}

identity_of!([K: ?Sized] LazyObject<K>, object);

impl<K: ?Sized> Clone for LazyObject<K> {
    fn clone(&self) -> Self {
        Self::from_erased(Arc::clone(&self.object))
    }
}

/// Shows the key and never the content, which may be secret.
impl<K: ?Sized> fmt::Debug for LazyObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LazyObject({})", self.key())
    }
}

// === impl IncomingObject ===

impl<K> IncomingObject<K> {
    /// Drops the decoded object of an informer without subscribers. It is still in the CPU cache,
    /// and the allocator reuses its memory for the next object.
    pub(crate) fn without_decoded(self) -> Self {
        Self {
            object: None,
            ..self
        }
    }
}

impl<K: Stored> IncomingObject<K> {
    /// Returns the decoded object. `None` if it has decoded before and does not decode now.
    pub(crate) fn get(&self) -> Option<Arc<K>> {
        let object = self.object.clone();
        object.or_else(|| decoded(&self.lazy, LazyObject::decode))
    }

    /// Replaces `old`, the state before this one, in the cache of decoded objects.
    pub(crate) fn replace_in_cache(&self, old: &LazyObject<K>) {
        if let Some(old) = old.object.json_form()
            && old.evict().is_some()
            && let (Some(form), Some(object)) = (self.lazy.object.json_form(), &self.object)
        {
            form.cache(Arc::clone(object) as _);
        }
    }
}

impl<K: Any + Send + Sync> IncomingObject<K> {
    /// The last state of an object that was removed from the store, and so leaves the cache of
    /// decoded objects.
    pub(crate) fn removed(last: LazyObject<K>) -> Self {
        let cached = last.object.json_form().and_then(JsonForm::evict);
        Self {
            object: cached.and_then(|object| object.downcast().ok()),
            lazy: last,
        }
    }
}

impl<K> From<LazyObject<K>> for IncomingObject<K> {
    fn from(lazy: LazyObject<K>) -> Self {
        Self { lazy, object: None }
    }
}

impl<K: Stored> From<Arc<K>> for IncomingObject<K> {
    fn from(object: Arc<K>) -> Self {
        Self {
            lazy: LazyObject::from(Arc::clone(&object)),
            object: Some(object),
        }
    }
}

impl<K: Stored> From<K> for IncomingObject<K> {
    fn from(object: K) -> Self {
        Self::from(Arc::new(object))
    }
}

/// Shows the key and never the content, which may be secret.
impl<K> fmt::Debug for IncomingObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IncomingObject({})", self.lazy.key())
    }
}

fn typed<K>(object: Option<Arc<K>>) -> Result<Arc<K>, DecodeError> {
    object.ok_or_else(|| DecodeError::Kind {
        expected: std::any::type_name::<K>().to_owned(),
        found: "another type".to_owned(),
    })
}

/// Decodes `lazy` by calling `decode`. Logs an error and returns `None` if that fails.
pub(crate) fn decoded<K: Stored>(
    lazy: &LazyObject<K>,
    decode: impl FnOnce(&LazyObject<K>) -> Result<Arc<K>, DecodeError>,
) -> Option<Arc<K>> {
    let object = decode(lazy);
    let object = object.inspect_err(|error| {
        let key = lazy.key();
        log::error!(%key, %error, "cannot decode an object that has decoded before, skipping it");
    });
    object.ok()
}
