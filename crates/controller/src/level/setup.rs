//! The parts that all calls of one controller share.

use std::sync::{Arc, OnceLock, Weak};

use kube::Client;

use windlass_informer::ObjectKey;

use super::{
    Informers, Reasons, Watchable,
    children::Memories,
    memo::Memos,
    own::{OwnWriteTracker, Wake},
};
use crate::{EventRecorder, Fence, controller::Shared, route::KindId, schedule::Priority};

/// The shared parts of a controller: its client, its primary objects and its names.
pub(super) struct Setup<K: Watchable> {
    pub(super) field_manager: String,
    pub(super) primaries: Informers<K>,
    pub(super) engine: Weak<Shared>,
    pub(super) fence: Arc<OnceLock<Fence>>,
    pub(super) memories: Memories,
    pub(super) memos: Memos,
    pub(super) events: EventRecorder,
    pub(super) own: Arc<OwnWriteTracker>,
    pub(super) kind: OnceLock<KindId>,
    client: Client,
    /// Created at the first use, after the fence is set.
    fenced: OnceLock<Client>,
}

// === impl Setup ===

impl<K: Watchable> Setup<K> {
    pub(super) fn new(
        field_manager: String,
        primaries: Informers<K>,
        engine: Weak<Shared>,
        fence: Arc<OnceLock<Fence>>,
        own: Arc<OwnWriteTracker>,
        events: EventRecorder,
        client: Client,
    ) -> Self {
        Self {
            field_manager,
            primaries,
            engine,
            fence,
            memories: Memories::default(),
            memos: Memos::default(),
            events,
            own,
            kind: OnceLock::new(),
            client,
            fenced: OnceLock::new(),
        }
    }

    /// The group, version and plural name of the primary kind.
    pub(super) fn types(&self) -> &K::DynamicType {
        self.primaries.types()
    }

    /// The client of the calls.
    pub(super) fn client(&self) -> &Client {
        self.fenced.get_or_init(|| match self.fence.get() {
            Some(fence) => fence.client(self.client.clone()),
            None => self.client.clone(),
        })
    }

    /// Counts a call whose stores did not show own writes in time.
    pub(super) fn count_stale(&self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.count_stale();
        }
    }

    /// The histogram of the step called `name`, while the controller exists.
    pub(super) fn step(&self, name: &str) -> Option<prometheus::Histogram> {
        Some(self.engine.upgrade()?.step(name))
    }
}

impl<K: Watchable> Wake for Setup<K> {
    fn wake(&self, key: &ObjectKey, reasons: Reasons) {
        if let Some((engine, kind)) = self.engine.upgrade().zip(self.kind.get()) {
            engine.wake(*kind, [key.clone()], Priority::Live, reasons);
        }
    }
}
