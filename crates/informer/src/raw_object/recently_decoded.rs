//! Cache of the objects that were decoded last.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

/// A direct-mapped cache of decoded objects, by number.
///
/// Each number has one slot, which it shares with every `SLOTS`th number. So eviction needs no
/// bookkeeping, and threads that decode different objects rarely contend for one lock.
pub(crate) struct RecentlyDecoded<K> {
    /// Allocated when the first object is cached.
    slots: OnceLock<Box<[Slot<K>]>>,

    /// The next free number.
    next: AtomicU64,
}

type Slot<K> = Mutex<Option<(u64, Arc<K>)>>;

// === impl RecentlyDecoded ===

impl<K> RecentlyDecoded<K> {
    /// Twice the default concurrency of a controller, because an update has two states.
    pub(super) const SLOTS: usize = 32;

    /// Returns a number that no other object of this cache has.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<K>> {
        let slot = Self::slot(self.slots.get()?, number).lock();
        let (of, object) = slot.as_ref()?;
        (*of == number).then(|| Arc::clone(object))
    }

    pub(super) fn put(&self, number: u64, object: Arc<K>) {
        let slots = self
            .slots
            .get_or_init(|| (0..Self::SLOTS).map(|_| Mutex::new(None)).collect());
        let before = Self::slot(slots, number).lock().replace((number, object));
        // Dropped without the lock.
        drop(before);
    }

    /// Removes the object with this number.
    pub(super) fn remove(&self, number: u64) {
        let Some(slots) = self.slots.get() else {
            return;
        };
        let mut slot = Self::slot(slots, number).lock();
        if matches!(&*slot, Some((of, _)) if *of == number) {
            let object = slot.take();
            // Dropped without the lock.
            drop(slot);
            drop(object);
        }
    }

    fn slot(slots: &[Slot<K>], number: u64) -> &Slot<K> {
        let slot = usize::try_from(number % Self::SLOTS as u64).expect("less than SLOTS");
        &slots[slot]
    }
}

impl<K> Default for RecentlyDecoded<K> {
    fn default() -> Self {
        Self {
            slots: OnceLock::new(),
            next: AtomicU64::new(0),
        }
    }
}
