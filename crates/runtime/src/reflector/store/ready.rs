//! `Ready`: makes a store ready.

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
pub(crate) struct Ready(watch::Sender<bool>);

/// The error of a store whose writer was dropped before it was ready. Only kube-runtime can create it.
pub(crate) fn writer_dropped() -> Option<WriterDropped> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "", ""));
    let reader = kube_store::Writer::<DynamicObject>::new(kind).as_reader();
    reader.wait_until_ready().now_or_never()?.err()
}

// === impl Ready ===

impl Ready {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Whether the store is ready.
    pub(super) fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    /// Makes the store ready.
    pub(crate) fn set(&self) {
        self.0.send_replace(true);
    }
}
