//! `JsonForm`: an object that is kept as JSON, with access to its decoded form.

use std::{any::Any, sync::Arc};

use parking_lot::Mutex;

use crate::DecodeError;

/// An object that is kept as JSON. Its decoded form exists in two places for a limited time: in its
/// `DecodedSlot` while a handler processes the object, and in the cache of the informer after a
/// read.
#[doc(hidden)]
pub trait JsonForm {
    /// Keeps `object`, the decoded form, until [`unpin`](Self::unpin).
    fn pin(&self, object: Arc<dyn Any + Send + Sync>);

    /// Drops the decoded form that [`pin`](Self::pin) has kept: no handler processes the object any
    /// more.
    fn unpin(&self);

    /// Decodes the object, unless it is decoded. Does not cache it.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the JSON does not decode.
    fn decode(&self) -> Result<Arc<dyn Any + Send + Sync>, DecodeError>;

    /// Returns the decoded form, if it is in the slot or in the cache.
    fn decoded(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// Caches `object`, the decoded form, unless this state was evicted.
    fn cache(&self, object: Arc<dyn Any + Send + Sync>);

    /// Removes the object from the cache and returns it. Later reads of this state do not cache it:
    /// the store has another state, or no object.
    fn evict(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// Whether an attempt to decode the object has failed.
    fn has_failed(&self) -> bool;
}

/// The decoded form of one object while a handler processes it.
pub(crate) struct DecodedSlot<K>(Mutex<SlotState<K>>);

struct SlotState<K> {
    object: Option<Arc<K>>,
    failed: bool,
    evicted: bool,
}

// === impl DecodedSlot ===

impl<K> DecodedSlot<K> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(SlotState {
            object: None,
            failed: false,
            evicted: false,
        }))
    }

    pub(crate) fn get(&self) -> Option<Arc<K>> {
        self.0.lock().object.clone()
    }

    /// Keeps `object`, or nothing. The previous object is dropped without the lock.
    pub(crate) fn set(&self, object: Option<Arc<K>>) {
        let before = std::mem::replace(&mut self.0.lock().object, object);
        drop(before);
    }

    /// Notes that decoding failed.
    pub(crate) fn fail(&self) {
        self.0.lock().failed = true;
    }

    /// Notes that the store has another state.
    pub(crate) fn evict(&self) {
        self.0.lock().evicted = true;
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.0.lock().evicted
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.lock().failed
    }
}
