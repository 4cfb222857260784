//! Decoded objects that are held beside their JSON, and for how long.
//!
//! An object is worth holding decoded while a handler works on it, and while it is read
//! repeatedly. The first is said by the handler's controller ([`ErasedDecodedSlot::pin`], [`ErasedDecodedSlot::unpin`]); the
//! second is counted, from one [`ErasedDecodedSlot::evict_unread`] to the next. To be read once is not enough: else one
//! look at everything would fill the memory with everything.

use std::{any::Any, fmt, sync::Arc};

use parking_lot::Mutex;

/// What is held of one object, of whatever type.
#[doc(hidden)]
pub trait ErasedDecodedSlot {
    /// The object is read. Returns what is held, and whether it is read so often that it
    /// should be.
    fn read(&self) -> (Option<Arc<dyn Any + Send + Sync>>, bool);

    /// Holds `object`, until it [rests](Self::unpin).
    fn pin(&self, object: Arc<dyn Any + Send + Sync>);

    /// No handler works on it. It is held on only if it is read often.
    fn unpin(&self);

    /// Another while is over: what was not read in it is not held any more, and is given back,
    /// to be dropped.
    fn evict_unread(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// How often it was read in this while.
    fn reads(&self) -> u8;

    /// It is a later state of an object that was read `reads` times. Returns whether that is so
    /// often that it should be held.
    fn inherit_reads(&self, reads: u8) -> bool;

    /// Whether decoding failed.
    fn has_failed(&self) -> bool;
}

/// What is held of one `K`.
pub(crate) struct DecodedSlot<K>(Mutex<SlotState<K>>);

struct SlotState<K> {
    object: Option<Arc<K>>,
    reads: u8,
    failed: bool,
}

// === impl DecodedSlot ===

impl<K> DecodedSlot<K> {
    /// So many reads in one while are often.
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

    /// Decoding failed.
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
            // Dropped where nothing is locked.
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
