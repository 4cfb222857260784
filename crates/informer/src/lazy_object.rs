//! An object as the store keeps it: decoded, or as JSON until it is read.

use std::{any::Any, borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use kube::api::ObjectMeta;

use crate::{DecodeError, ErasedObject, ObjectIdentity, ObjectKey, Stored};

/// A `K` as the store keeps it: as it is, or as the JSON that it came in, which is decoded
/// at the first read.
///
/// # Contract
///
/// *Guaranteed.* It knows its name, uid and version without decoding anything. What came
/// through a [`ListWatch`](crate::ListWatch) has decoded once before anybody sees it.
///
/// *Required.* That `K` decodes from the same JSON each time, as every derived `Deserialize`
/// does.
///
/// Cloning one clones no object. `K` may be unsized, as in [`Event`](crate::Event).
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
    object: Arc<dyn ErasedObject>,
    of: PhantomData<fn() -> Arc<K>>,
}

/// An object that has just come: as it will be kept, and decoded, for subscribers.
///
/// A source that has nothing but the object makes one with `From`.
pub struct IncomingObject<K> {
    pub(crate) kept: LazyObject<K>,

    /// None without subscribers.
    pub(crate) object: Option<Arc<K>>,

    /// How long it was when it came, if that is known.
    pub(crate) bytes: usize,
}

// === impl LazyObject ===

impl<K: ?Sized> LazyObject<K> {
    /// The object, which must be a `K` or decode to one, as code that works on many kinds at
    /// once has it.
    #[must_use]
    pub fn from_erased(object: Arc<dyn ErasedObject>) -> Self {
        Self {
            object,
            of: PhantomData,
        }
    }

    /// The object, for code that works on many kinds at once.
    #[must_use]
    pub const fn as_erased(&self) -> &Arc<dyn ErasedObject> {
        &self.object
    }

    /// The object, for code that works on many kinds at once.
    #[must_use]
    pub fn into_erased(self) -> Arc<dyn ErasedObject> {
        self.object
    }

    /// The metadata. Costs nothing for an object that is decoded, and a part of its decoding
    /// for one that is not.
    #[must_use]
    pub fn metadata(&self) -> Cow<'_, ObjectMeta> {
        ErasedObject::metadata(&*self.object)
    }
}

impl<K: Any + Send + Sync> LazyObject<K> {
    /// The object. Costs nothing for one that is decoded, or was not long ago.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it does not decode, though it did: see *Required*.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.object.typed()?.ok_or_else(|| DecodeError::Kind {
            expected: std::any::type_name::<K>().to_owned(),
            found: "another type".to_owned(),
        })
    }

    /// The object, and how it is kept if that is another form; none if it does not decode,
    /// though it did.
    pub(crate) fn open(self) -> Option<(Arc<K>, Option<Self>)>
    where
        K: Stored,
    {
        if self.object.decoded_slot().is_some() {
            return Some((decoded(&self, Self::get)?, Some(self)));
        }
        Some((self.object.into_typed().ok()??, None))
    }

    /// The same, if it is another form than the object itself.
    pub(crate) fn if_not_decoded(self) -> Option<Self> {
        self.object.decoded_slot().is_some().then_some(self)
    }

    /// The object, for a reader of the store: who reads often what is not decoded finds it
    /// decoded from then on.
    pub(crate) fn read(&self) -> Result<Arc<K>, DecodeError> {
        let Some(slot) = self.object.decoded_slot() else {
            return self.get();
        };
        let (object, often) = slot.read();
        if let Some(Ok(object)) = object.map(Arc::downcast) {
            return Ok(object);
        }
        let object = self.get()?;
        if often {
            slot.pin(Arc::clone(&object) as _);
        }
        Ok(object)
    }

    /// Says that a handler will work on it soon, as `object`, which it decodes to.
    pub(crate) fn pin(&self, object: &Arc<K>) {
        if let Some(slot) = self.object.decoded_slot() {
            slot.pin(Arc::clone(object) as _);
        }
    }

    /// What was not read since the last sweep is not held decoded any more, and is given back, to
    /// be dropped.
    pub(crate) fn evict_unread(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.object.decoded_slot()?.evict_unread()
    }
}

impl<K: Stored> From<Arc<K>> for LazyObject<K> {
    fn from(object: Arc<K>) -> Self {
        Self::from_erased(object)
    }
}

impl<K: ?Sized> ObjectIdentity for LazyObject<K> {
    fn namespace(&self) -> Option<&str> {
        self.object.namespace()
    }

    fn name(&self) -> &str {
        self.object.name()
    }

    fn uid(&self) -> Option<&str> {
        ObjectIdentity::uid(&*self.object)
    }

    fn resource_version(&self) -> Option<&str> {
        self.object.resource_version()
    }

    fn key(&self) -> ObjectKey {
        self.object.key()
    }
}

impl<K: ?Sized> Clone for LazyObject<K> {
    fn clone(&self) -> Self {
        Self::from_erased(Arc::clone(&self.object))
    }
}

/// Shows who it is, and never what is in it, which may be secret.
impl<K: ?Sized> fmt::Debug for LazyObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LazyObject({})", self.key())
    }
}

// === impl IncomingObject ===

impl<K> IncomingObject<K> {
    /// The same, for the store alone. What was decoded is dropped while it is in all caches, and
    /// its memory goes to the next.
    pub(crate) fn without_decoded(self) -> Self {
        Self {
            object: None,
            ..self
        }
    }
}

impl<K: Stored> IncomingObject<K> {
    /// The object, decoded: none if it does not decode, though it did.
    pub(crate) fn get(&self) -> Option<Arc<K>> {
        let object = self.object.clone();
        object.or_else(|| decoded(&self.kept, LazyObject::get))
    }

    /// Says that this is a later state of `old`: if that was read often, this will be.
    pub(crate) fn follow(&self, old: &LazyObject<K>) {
        let (now, before) = (self.kept.object.decoded_slot(), old.object.decoded_slot());
        if let Some((slot, before)) = now.zip(before)
            && slot.inherit_reads(before.reads())
            && let Some(object) = &self.object
        {
            slot.pin(Arc::clone(object) as _);
        }
    }
}

impl<K> From<LazyObject<K>> for IncomingObject<K> {
    fn from(kept: LazyObject<K>) -> Self {
        Self {
            kept,
            object: None,
            bytes: 0,
        }
    }
}

impl<K: Stored> From<Arc<K>> for IncomingObject<K> {
    fn from(object: Arc<K>) -> Self {
        Self {
            kept: LazyObject::from(Arc::clone(&object)),
            object: Some(object),
            bytes: 0,
        }
    }
}

impl<K: Stored> From<K> for IncomingObject<K> {
    fn from(object: K) -> Self {
        Self::from(Arc::new(object))
    }
}

/// Shows who it is, and never what is in it, which may be secret.
impl<K> fmt::Debug for IncomingObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IncomingObject({})", self.kept.key())
    }
}

/// What `kept` decodes to, as `look` finds it.
pub(crate) fn decoded<K: Stored>(
    kept: &LazyObject<K>,
    look: impl FnOnce(&LazyObject<K>) -> Result<Arc<K>, DecodeError>,
) -> Option<Arc<K>> {
    let object = look(kept);
    let object = object.inspect_err(|error| {
        let key = kept.key();
        tracing::error!(%key, %error, "an object that has decoded does not decode again");
    });
    object.ok()
}
