//! The cache of the objects that were decoded last.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

/// The objects that were decoded last, by their number.
///
/// A number has one slot that it shares with every `SLOTS`th: to forget, nothing need be
/// counted, and two who decode different objects seldom meet.
pub(crate) struct RecentlyDecoded<K> {
    /// Not there before the first object is.
    slots: OnceLock<Box<[Slot<K>]>>,

    /// The next number.
    next: AtomicU64,
}

type Slot<K> = Mutex<Option<(u64, Arc<K>)>>;

// === impl RecentlyDecoded ===

impl<K> RecentlyDecoded<K> {
    /// Twice as many as a controller works on at once, by default: an update has two states.
    pub(super) const SLOTS: usize = 32;

    /// A number that nothing has yet.
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
        // What was there is dropped here, where nothing is locked.
        drop(before);
    }

    /// Forgets the object of this number.
    pub(super) fn remove(&self, number: u64) {
        let Some(slots) = self.slots.get() else {
            return;
        };
        let mut slot = Self::slot(slots, number).lock();
        if matches!(&*slot, Some((of, _)) if *of == number) {
            let object = slot.take();
            // Dropped where nothing is locked.
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

impl<K> fmt::Debug for RecentlyDecoded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentlyDecoded").finish_non_exhaustive()
    }
}
