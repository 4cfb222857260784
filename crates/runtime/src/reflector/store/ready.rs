//! `Ready`: how complete a store is.

use futures::FutureExt as _;
use kube::{
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::reflector::store as kube_store,
};
use tokio::sync::watch;

use super::WriterDropped;

/// Makes a store ready. If it is dropped before, waiting for the store is an error.
///
/// Not that of kube-runtime, which wakes only one of several tasks that wait.
#[derive(Debug)]
pub(crate) struct Ready(watch::Sender<Stage>);

/// How complete a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No list has ended.
    Unlisted,
    /// Another list is in progress: the store does not have its objects before it ends.
    Relisting,
    /// The last list has ended.
    Complete,
}

/// The error of a store whose writer was dropped before it was ready. Only kube-runtime can create it.
pub(crate) fn writer_dropped() -> Option<WriterDropped> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "", ""));
    let reader = kube_store::Writer::<DynamicObject>::new(kind).as_reader();
    reader.wait_until_ready().now_or_never()?.err()
}

// === impl Ready ===

impl Ready {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Stage::Unlisted))
    }

    /// The stage of the store.
    pub(super) fn subscribe(&self) -> watch::Receiver<Stage> {
        self.0.subscribe()
    }

    /// Makes the store ready: a list has ended.
    pub(crate) fn set(&self) {
        self.0.send_replace(Stage::Complete);
    }

    /// A list has begun.
    pub(super) fn relist(&self) {
        self.0.send_if_modified(|stage| {
            let was_complete = *stage == Stage::Complete;
            if was_complete {
                *stage = Stage::Relisting;
            }
            was_complete
        });
    }
}
