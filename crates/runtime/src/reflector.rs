//! Stores: objects in memory, of a controller or of a stream.

mod handle;
pub mod store;

use std::hash::Hash;

use futures::{Stream, StreamExt as _, stream};
#[doc(inline)]
pub use kube::runtime::reflector::{Lookup, ObjectRef, ObjectRefExtra};

pub use self::{
    handle::ReflectHandle,
    store::{Store, store, store_shared},
};
use crate::watcher;

/// Keeps the objects of `stream` in the store of `writer`, sends them to its subscribers, and yields
/// the events.
///
/// While a subscriber is full, the stream waits.
pub fn reflector<K, W>(writer: store::Writer<K>, stream: W) -> impl Stream<Item = W::Item>
where
    K: Lookup + Clone,
    K::DynamicType: Eq + Hash + Clone,
    W: Stream<Item = watcher::Result<watcher::Event<K>>>,
{
    let state = (Box::pin(stream), writer);
    stream::unfold(state, |(mut stream, mut writer)| async move {
        let event = stream.next().await?;
        if let Ok(event) = &event {
            writer.apply_watcher_event(event);
            writer.dispatch(event).await;
        }
        Some((event, (stream, writer)))
    })
    // It can be polled after its end, as that of kube-runtime.
    .fuse()
}
