//! `ReflectHandle`: a subscription to the objects that a writer applies.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};

use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{Lookup, ObjectRef, Store};

/// A stream of the objects that a [`Writer`](super::store::Writer) applies.
///
/// An object that was deleted before the stream is polled is skipped. In kube-runtime the stream
/// stalls then, until another object is applied.
pub struct ReflectHandle<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    targets: Receiver<ObjectRef<K>>,
    reader: Store<K>,
    buffer: usize,
    /// The stream ends when the writer is dropped.
    senders: Weak<Senders<K>>,
}

/// The subscribers of a writer.
pub(super) struct Subscribers<K: Lookup> {
    buffer: usize,
    senders: Arc<Senders<K>>,
}

type Senders<K> = Mutex<Vec<Sender<ObjectRef<K>>>>;

// === impl Subscribers ===

impl<K> Subscribers<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    pub(super) fn new(buffer: usize) -> Self {
        Self {
            buffer: buffer.max(1),
            senders: Arc::default(),
        }
    }

    /// Subscribes from now on.
    pub(super) fn subscribe(&self, reader: Store<K>) -> ReflectHandle<K> {
        let (sender, targets) = channel(self.buffer);
        self.senders.lock().push(sender);
        ReflectHandle {
            targets,
            reader,
            buffer: self.buffer,
            senders: Arc::downgrade(&self.senders),
        }
    }

    /// Sends `target` to all subscribers, and waits while one of them is full.
    pub(super) async fn send(&self, target: ObjectRef<K>) {
        let senders = {
            let mut senders = self.senders.lock();
            senders.retain(|sender| !sender.is_closed());
            senders.clone()
        };
        for sender in senders {
            // A subscriber that was dropped meanwhile is removed the next time.
            _ = sender.send(target.clone()).await;
        }
    }
}

// === impl ReflectHandle ===

impl<K> ReflectHandle<K>
where
    K: Lookup + Clone,
    K::DynamicType: Eq + Hash + Clone,
{
    /// The store of the writer.
    #[must_use]
    pub fn reader(&self) -> Store<K> {
        self.reader.clone()
    }
}

/// A clone is another subscription, from now on.
impl<K> Clone for ReflectHandle<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    fn clone(&self) -> Self {
        // Without a writer the subscription ends at once.
        let senders = self.senders.upgrade().unwrap_or_default();
        let subscribers = Subscribers {
            buffer: self.buffer,
            senders,
        };
        subscribers.subscribe(self.reader())
    }
}

impl<K> Stream for ReflectHandle<K>
where
    K: Lookup + Clone,
    K::DynamicType: Eq + Hash + Clone + Default,
{
    type Item = Arc<K>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(target) = ready!(self.targets.poll_recv(cx)) else {
                return Poll::Ready(None);
            };
            if let Some(object) = self.reader.get(&target) {
                return Poll::Ready(Some(object));
            }
        }
    }
}

/// Nothing in it is pinned.
impl<K> Unpin for ReflectHandle<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
}

impl<K> Debug for ReflectHandle<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectHandle").finish_non_exhaustive()
    }
}
