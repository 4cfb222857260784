//! `ReflectHandle`: a subscription to the objects that a writer applies.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use async_broadcast::{InactiveReceiver, Receiver, Sender, broadcast};
use futures::{Stream, StreamExt as _};

use super::{Lookup, ObjectRef, Store};

/// A stream of the objects that a [`Writer`](super::store::Writer) applies.
///
/// A clone yields what this stream has not yielded yet. An object that was deleted before the stream
/// is polled is skipped. In kube-runtime the stream stalls then, until another object is applied.
pub struct ReflectHandle<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    targets: Receiver<ObjectRef<K>>,
    reader: Store<K>,
}

/// The subscribers of a writer.
pub(super) struct Subscribers<K: Lookup> {
    sender: Sender<ObjectRef<K>>,
    /// Keeps the channel open while there is no subscription.
    _open: InactiveReceiver<ObjectRef<K>>,
}

// === impl Subscribers ===

impl<K> Subscribers<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    pub(super) fn new(buffer: usize) -> Self {
        let (mut sender, receiver) = broadcast(buffer.max(1));
        sender.set_await_active(false);
        Self {
            sender,
            _open: receiver.deactivate(),
        }
    }

    /// Subscribes from now on.
    pub(super) fn subscribe(&self, reader: Store<K>) -> ReflectHandle<K> {
        ReflectHandle {
            targets: self.sender.new_receiver(),
            reader,
        }
    }

    /// Sends `target` to all subscribers, and waits while one of them is full.
    pub(super) async fn send(&self, target: ObjectRef<K>) {
        // Fails if there is no subscription.
        _ = self.sender.broadcast_direct(target).await;
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

impl<K> Clone for ReflectHandle<K>
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    fn clone(&self) -> Self {
        Self {
            targets: self.targets.clone(),
            reader: self.reader(),
        }
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
            let Some(target) = ready!(self.targets.poll_next_unpin(cx)) else {
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
