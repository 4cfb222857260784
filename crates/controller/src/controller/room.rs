//! Room in the queue of an informer: so many events wait, and no more.

use std::{num::NonZeroUsize, sync::Arc};

use tokio::sync::Notify;

// From our own room, not the crate's: the model test has others in their places.
use super::sync::{AtomicUsize, Ordering};

/// How many more events may wait. Events of one informer come from one task: it alone takes.
#[derive(Debug)]
pub(crate) struct Space {
    free: AtomicUsize,
    /// Told when there is some again.
    freed: Notify,
}

/// Room for one event, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Room(Arc<Space>);

/// Room for several events that have not come yet, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Rooms {
    space: Arc<Space>,
    left: usize,
}

// === impl Space ===

impl Space {
    pub(crate) fn new(events: NonZeroUsize) -> Arc<Self> {
        Arc::new(Self {
            free: AtomicUsize::new(events.get()),
            freed: Notify::new(),
        })
    }

    /// Waits for room, and takes what there is of it, up to `most`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing.
    pub(crate) async fn take(self: &Arc<Self>, most: NonZeroUsize) -> Rooms {
        loop {
            // Nobody else takes, so what is there stays there.
            let left = self.free.load(Ordering::Acquire).min(most.get());
            if left > 0 {
                self.free.fetch_sub(left, Ordering::AcqRel);
                let space = Arc::clone(self);
                return Rooms { space, left };
            }
            self.freed.notified().await;
        }
    }

    fn give_back(&self, events: usize) {
        // Whoever takes waits only where there was nothing.
        if self.free.fetch_add(events, Ordering::AcqRel) == 0 {
            self.freed.notify_one();
        }
    }
}

// === impl Rooms ===

impl Rooms {
    /// For how many events there is room.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Room for one of them, if there is.
    pub(crate) fn one(&mut self) -> Option<Room> {
        self.left = self.left.checked_sub(1)?;
        Some(Room(Arc::clone(&self.space)))
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        if self.left > 0 {
            self.space.give_back(self.left);
        }
    }
}

// === impl Room ===

impl Drop for Room {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}
