//! The decoded form of an object that is kept as JSON, and how long it stays.
//!
//! A decoded object stays while a handler processes it ([`ErasedDecodedSlot::pin`],
//! [`ErasedDecodedSlot::unpin`]), and while it is read repeatedly: at least twice between two calls
//! of [`ErasedDecodedSlot::evict_unread`]. One read is not enough, because a single read of the
//! whole store would otherwise keep every object decoded.

use std::{any::Any, fmt, sync::Arc};

use parking_lot::Mutex;

/// A [`DecodedSlot`] of any type.
#[doc(hidden)]
pub trait ErasedDecodedSlot {
    /// Counts a read. Returns the decoded object, and whether the object is read so often that it
    /// should stay decoded.
    fn read(&self) -> (Option<Arc<dyn Any + Send + Sync>>, bool);

    /// Keeps `object` until [`unpin`](Self::unpin).
    fn pin(&self, object: Arc<dyn Any + Send + Sync>);

    /// No handler processes the object any more. Drops the decoded object unless it is read often.
    fn unpin(&self);

    /// Ends a period. Removes and returns the decoded object if it was not read in the period.
    fn evict_unread(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// How often the object was read in this period.
    fn reads(&self) -> u8;

    /// Takes over the read count of the previous state. Returns whether the object should stay
    /// decoded.
    fn inherit_reads(&self, reads: u8) -> bool;

    /// Whether an attempt to decode the object has failed.
    fn has_failed(&self) -> bool;
}

/// The decoded form of one object, if it is kept, and its read count.
pub(crate) struct DecodedSlot<K>(Mutex<SlotState<K>>);

struct SlotState<K> {
    object: Option<Arc<K>>,
    reads: u8,
    failed: bool,
}

// === impl DecodedSlot ===

impl<K> DecodedSlot<K> {
    /// An object with this number of reads in a period stays decoded.
    const HOT_READS: u8 = 2;

    pub(crate) const fn new() -> Self {
        Self(Mutex::new(SlotState {
            object: None,
            reads: 0,
            failed: false,
        }))
    }

    pub(crate) fn get(&self) -> Option<Arc<K>> {
        self.0.lock().object.clone()
    }

    /// Notes that decoding failed.
    pub(crate) fn fail(&self) {
        self.0.lock().failed = true;
    }
}

impl<K: Send + Sync + 'static> ErasedDecodedSlot for DecodedSlot<K> {
    fn read(&self) -> (Option<Arc<dyn Any + Send + Sync>>, bool) {
        let mut state = self.0.lock();
        state.reads = state.reads.saturating_add(1);
        let object = state.object.clone();
        (
            object.map(|object| object as _),
            state.reads >= Self::HOT_READS,
        )
    }

    fn pin(&self, object: Arc<dyn Any + Send + Sync>) {
        if let Ok(object) = object.downcast() {
            let before = self.0.lock().object.replace(object);
            // Dropped without the lock.
            drop(before);
        }
    }

    fn unpin(&self) {
        let mut state = self.0.lock();
        if state.reads < Self::HOT_READS {
            let object = state.object.take();
            drop(state);
            drop(object);
        }
    }

    fn evict_unread(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let mut state = self.0.lock();
        let unread = std::mem::take(&mut state.reads) == 0;
        let object = if unread { state.object.take() } else { None };
        Some(object?)
    }

    fn reads(&self) -> u8 {
        self.0.lock().reads
    }

    fn inherit_reads(&self, reads: u8) -> bool {
        self.0.lock().reads = reads;
        reads >= Self::HOT_READS
    }

    fn has_failed(&self) -> bool {
        self.0.lock().failed
    }
}

impl<K> fmt::Debug for DecodedSlot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedSlot").finish_non_exhaustive()
    }
}
