//! New subscriptions, before the informer's task takes them.
//!
//! A subscription is created on any thread. The task that runs the informer delivers the first
//! events.

use std::{num::NonZeroUsize, panic::Location, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::{
    EventEnvelope, SubscriberCount, Subscription, publisher::Subscriber, reader::Reader,
    resync_handle::RequestedKeys,
};
use crate::log;

/// New subscriptions, and the count of all subscriptions.
pub(crate) struct NewSubscribers<K> {
    /// The kind of the informer, for logs.
    resource: Arc<str>,
    count: SubscriberCount,
    waiting: Mutex<Waiting<K>>,
    /// The name of the subscription that has delayed the watch for 30 s.
    unread: Mutex<Option<Arc<str>>>,
    /// Notified when a subscription is added.
    added: Notify,
    /// Notified when a subscription requests a resync. Shared by all subscriptions.
    requested: Arc<Notify>,
}

/// New subscriptions that the informer has not taken.
struct Waiting<K> {
    subscribers: Vec<Subscriber<K>>,
    /// How many runs of the informer have ended.
    ended_runs: u64,
}

// === impl NewSubscribers ===

impl<K> NewSubscribers<K> {
    pub(crate) fn new(resource: Arc<str>) -> Self {
        Self {
            resource,
            count: SubscriberCount::default(),
            waiting: Mutex::new(Waiting {
                subscribers: Vec::new(),
                ended_runs: 0,
            }),
            unread: Mutex::new(None),
            added: Notify::new(),
            requested: Arc::default(),
        }
    }

    /// The number of all subscriptions.
    pub(crate) const fn count(&self) -> &SubscriberCount {
        &self.count
    }

    /// Creates a subscription with space for `buffer` events, for the code at `at`.
    pub(crate) fn add(
        self: &Arc<Self>,
        buffer: NonZeroUsize,
        at: &Location<'_>,
    ) -> Subscription<K> {
        // Counted before it is in the list: the informer skips events while the count is zero,
        // and it may take the new subscriber out of the list, replay the store to it and see
        // the next change before this function returns. The lock of the list orders the two:
        // a task that has taken the subscriber has seen the count.
        let counted = self.count.count_one();
        let (sender, events) = mpsc::channel(buffer.get().min(Semaphore::MAX_PERMITS));
        let requested_keys = Arc::new(RequestedKeys::new(Arc::clone(&self.requested)));
        let reader = {
            let mut waiting = self.waiting.lock();
            let reader = Arc::new(Reader::new(at, requested_keys, waiting.ended_runs));
            let subscriber = Subscriber::new(sender, Arc::clone(&reader));
            // An informer that does not run takes none.
            waiting.subscribers.retain(|other| !other.is_closed());
            waiting.subscribers.push(subscriber);
            reader
        };
        self.added.notify_one();
        Subscription {
            _counted: counted,
            events,
            has_synced: false,
            reader,
            informer: Arc::downgrade(self),
        }
    }

    /// Subscribes again for `reader`. `None` if the run to which its subscription belongs has ended.
    pub(super) fn add_again(
        &self,
        reader: &Arc<Reader>,
        buffer: usize,
    ) -> Option<mpsc::Receiver<EventEnvelope<K>>> {
        let (sender, events) = mpsc::channel(buffer);
        let mut waiting = self.waiting.lock();
        if waiting.ended_runs != reader.run {
            return None;
        }
        let subscriber = Subscriber::new(sender, Arc::clone(reader));
        waiting.subscribers.push(subscriber);
        drop(waiting);
        self.added.notify_one();
        Some(events)
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
        std::mem::take(&mut self.waiting.lock().subscribers)
    }

    /// Ends a run: takes its new subscriptions, and lets no other one start anew in it.
    pub(crate) fn end_run(&self) -> Vec<Subscriber<K>> {
        *self.unread.lock() = None;
        let mut waiting = self.waiting.lock();
        waiting.ended_runs += 1;
        std::mem::take(&mut waiting.subscribers)
    }

    /// The name of the subscription that has delayed the watch for 30 s, if there is one.
    pub(crate) fn unread(&self) -> Option<Arc<str>> {
        self.unread.lock().clone()
    }

    /// Notes that `subscription` has delayed the watch for `waited`.
    pub(super) fn note_unread(&self, subscription: &Arc<str>, waited: Duration) {
        *self.unread.lock() = Some(Arc::clone(subscription));
        log::warn!(
            resource = %self.resource,
            %subscription,
            ?waited,
            "a subscription is not read, the watch waits for it; read it, drop it, or let it lag"
        );
    }

    /// Notes that the watch continues.
    pub(super) fn note_read(&self) {
        *self.unread.lock() = None;
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
        panic::Location,
        pin::pin,
        sync::{Arc, Weak},
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
        let new = Arc::new(NewSubscribers::new(Arc::from("pods")));
        let informer = Arc::new(Informer {
            new: Arc::downgrade(&new),
            seen: Mutex::default(),
        });
        let waker = Waker::from(Arc::clone(&informer));
        let mut added = pin!(new.added());
        let waiting = added.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(waiting.is_pending());
        let subscription = new.add(NonZeroUsize::MIN, Location::caller());
        assert_eq!(*informer.seen.lock(), [(1, true)]);
        drop(subscription);
        assert!(!new.count().any());
    }

    /// The same between two threads, without the notification in between.
    #[test]
    fn a_subscriber_is_counted_before_it_is_visible_to_other_threads() {
        for _ in 0..500 {
            let new = Arc::new(NewSubscribers::<()>::new(Arc::from("pods")));
            let (subscription, counted) = thread::scope(|scope| {
                let take = scope.spawn(|| {
                    while new.take_all().is_empty() {
                        std::hint::spin_loop();
                    }
                    new.count().any()
                });
                let subscription = new.add(NonZeroUsize::MIN, Location::caller());
                (subscription, take.join().expect("no panic"))
            });
            assert!(counted);
            assert!(!subscription.has_synced());
        }
    }
}
