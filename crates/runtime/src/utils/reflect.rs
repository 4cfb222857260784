//! `Reflect`: a stream of watch events that keeps the objects in a store.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    pin::Pin,
    task::{Context, Poll},
};

use futures::Stream;
use kube::Resource;

use crate::{
    reflector::store::Writer,
    watcher::{Error, Event},
};

/// The stream of [`WatchStreamExt::reflect`](super::WatchStreamExt::reflect).
#[must_use = "streams do nothing unless polled"]
pub struct Reflect<St, K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    // In a box, so that it is pinned without unsafe code.
    stream: Pin<Box<St>>,
    writer: Writer<K>,
}

// === impl Reflect ===

impl<St, K> Reflect<St, K>
where
    K: Resource + Clone,
    K::DynamicType: Eq + Hash + Clone,
{
    pub(super) fn new(stream: St, writer: Writer<K>) -> Self {
        Self {
            stream: Box::pin(stream),
            writer,
        }
    }
}

impl<St, K> Stream for Reflect<St, K>
where
    K: Resource + Clone,
    K::DynamicType: Eq + Hash + Clone,
    St: Stream<Item = Result<Event<K>, Error>>,
{
    type Item = Result<Event<K>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.stream.as_mut().poll_next(cx);
        if let Poll::Ready(Some(Ok(event))) = &polled {
            self.writer.apply_watcher_event(event);
        }
        polled
    }
}

/// Its stream is in a box.
impl<St, K> Unpin for Reflect<St, K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
}

impl<St, K> Debug for Reflect<St, K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflect").finish_non_exhaustive()
    }
}
