//! New subscriptions, before the informer's task takes them.
//!
//! A subscription is created on any thread. The task that runs the informer delivers the first
//! events.

use std::{
    num::NonZeroUsize,
    sync::{Arc, atomic::AtomicBool},
};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::{SubscriberCount, Subscription, publisher::Subscriber, resync_handle::RequestedKeys};
use crate::history::HistorySignal;

/// New subscriptions, and the count of all subscriptions.
pub(crate) struct NewSubscribers<K> {
    count: SubscriberCount,
    waiting: Mutex<Vec<Subscriber<K>>>,
    /// Notified when a subscription is added.
    added: Notify,
    /// Notified when a subscription requests a resync. Shared by all subscriptions.
    requested: Arc<Notify>,
}

// === impl NewSubscribers ===

impl<K> NewSubscribers<K> {
    pub(crate) fn new() -> Self {
        Self {
            count: SubscriberCount::default(),
            waiting: Mutex::new(Vec::new()),
            added: Notify::new(),
            requested: Arc::default(),
        }
    }

    /// The number of all subscriptions.
    pub(crate) const fn count(&self) -> &SubscriberCount {
        &self.count
    }

    /// Creates a subscription with space for `buffer` events.
    pub(crate) fn add(&self, buffer: NonZeroUsize) -> Subscription<K> {
        // Counted before it is in the list: the informer skips events while the count is zero,
        // and it may take the new subscriber out of the list, replay the store to it and see
        // the next change before this function returns. The lock of the list orders the two:
        // a task that has taken the subscriber has seen the count.
        let counted = self.count.count_one();
        let (sender, events) = mpsc::channel(buffer.get().min(Semaphore::MAX_PERMITS));
        let requested_keys = Arc::new(RequestedKeys::new(Arc::clone(&self.requested)));
        let history = HistorySignal::default();
        let subscriber = Subscriber::new(sender, Arc::clone(&requested_keys), history.clone());
        self.waiting.lock().push(subscriber);
        self.added.notify_one();
        Subscription {
            _counted: counted,
            events,
            synced: Arc::new(AtomicBool::new(false)),
            requested_keys,
            history,
        }
    }

    /// Waits until a subscription may have been added.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// Takes all new subscriptions, oldest first.
    pub(crate) fn take_all(&self) -> Vec<Subscriber<K>> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Notified when a subscription requests a resync.
    pub(crate) const fn requested(&self) -> &Arc<Notify> {
        &self.requested
    }
}

#[cfg(test)]
mod tests {
    use std::{
        num::NonZeroUsize,
        pin::pin,
        sync::{Arc, Weak, atomic::Ordering},
        task::{Context, Wake, Waker},
        thread,
    };

    use parking_lot::Mutex;

    use super::NewSubscribers;

    /// The state that the informer's task reads while `add` is running.
    struct Informer {
        new: Weak<NewSubscribers<()>>,
        /// For each time that it was woken: how many new ones it took, and whether it would have
        /// delivered the next event.
        seen: Mutex<Vec<(usize, bool)>>,
    }

    impl Wake for Informer {
        fn wake(self: Arc<Self>) {
            if let Some(new) = self.new.upgrade() {
                let taken = new.take_all().len();
                self.seen.lock().push((taken, new.count().any()));
            }
        }
    }

    #[test]
    fn a_registered_subscriber_is_counted() {
        let new = Arc::new(NewSubscribers::new());
        let informer = Arc::new(Informer {
            new: Arc::downgrade(&new),
            seen: Mutex::default(),
        });
        let waker = Waker::from(Arc::clone(&informer));
        let mut added = pin!(new.added());
        let waiting = added.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(waiting.is_pending());
        let subscription = new.add(NonZeroUsize::MIN);
        assert_eq!(*informer.seen.lock(), [(1, true)]);
        drop(subscription);
        assert!(!new.count().any());
    }

    /// The same between two threads, without the notification in between.
    #[test]
    fn a_subscriber_is_counted_before_it_is_visible_to_other_threads() {
        for _ in 0..500 {
            let new = NewSubscribers::<()>::new();
            let (subscription, counted) = thread::scope(|scope| {
                let take = scope.spawn(|| {
                    while new.take_all().is_empty() {
                        std::hint::spin_loop();
                    }
                    new.count().any()
                });
                let subscription = new.add(NonZeroUsize::MIN);
                (subscription, take.join().expect("no panic"))
            });
            assert!(counted);
            assert!(!subscription.synced.load(Ordering::Relaxed));
        }
    }
}
