//! The decoded form of an object that is kept as JSON, and how long it stays.
//!
//! A decoded object stays while a handler processes it ([`ErasedDecodedSlot::pin`],
//! [`ErasedDecodedSlot::unpin`]), and while it is read repeatedly: at least twice between two calls
//! of [`ErasedDecodedSlot::evict_unread`]. One read is not enough, because a single read of the
//! whole store would otherwise keep every object decoded.

use std::{any::Any, sync::Arc};

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{DecodedSlot, ErasedDecodedSlot as _};

    fn slot() -> DecodedSlot<u8> {
        let slot = DecodedSlot::new();
        assert_eq!(slot.get(), None);
        slot.pin(Arc::new(7_u8));
        assert_eq!(slot.get(), Some(Arc::new(7)));
        slot
    }

    #[test]
    fn a_pinned_object_stays_until_it_is_unpinned() {
        for reads in 0..2 {
            let slot = slot();
            for _ in 0..reads {
                slot.read();
            }
            slot.unpin();
            assert_eq!(slot.get(), None, "{reads} reads");
        }
    }

    #[test]
    fn an_object_that_was_read_twice_in_a_period_stays_decoded_through_the_next() {
        let slot = slot();
        let often: Vec<_> = (0..3).map(|_| slot.read().1).collect();
        assert_eq!(often, [false, true, true]);
        assert_eq!(slot.reads(), 3);
        slot.unpin();
        assert!(slot.get().is_some());
        assert!(slot.evict_unread().is_none(), "it was read in this period");
        assert!(slot.get().is_some());
        assert!(slot.evict_unread().is_some(), "it was not read since");
        assert_eq!(slot.get(), None);
        assert!(slot.evict_unread().is_none(), "there is none to return");
    }

    #[test]
    fn a_new_state_is_read_as_often_as_the_last_one() {
        for (reads, stays) in [(0, false), (1, false), (2, true), (3, true)] {
            let slot = slot();
            assert_eq!(slot.inherit_reads(reads), stays, "{reads} reads");
            assert_eq!(slot.reads(), reads);
            slot.unpin();
            assert_eq!(slot.get().is_some(), stays, "{reads} reads");
        }
    }

    #[test]
    fn a_failure_to_decode_is_remembered() {
        let slot = slot();
        assert!(!slot.has_failed());
        slot.fail();
        assert!(slot.has_failed());
    }
}
