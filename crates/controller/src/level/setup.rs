//! The parts that all calls of one controller share.

use std::sync::{Arc, OnceLock};

use kube::Client;

use super::{
    Informers, Watchable, children::Memories, memo::Memos, own::OwnWriteTracker, triggers::Target,
};
use crate::{EventRecorder, Fence};

/// The shared parts of a controller: its client, its primary objects and its names.
pub(super) struct Setup<K: Watchable> {
    pub(super) field_manager: String,
    /// The field managers whose fields of the status are taken over.
    pub(super) earlier_managers: Vec<String>,
    pub(super) primaries: Informers<K>,
    pub(super) target: Target,
    pub(super) fence: Arc<OnceLock<Fence>>,
    pub(super) memories: Memories,
    pub(super) memos: Memos,
    pub(super) events: EventRecorder,
    pub(super) own: Arc<OwnWriteTracker>,
    pub(super) client: Client,
    /// Created at the first use, after the fence is set.
    pub(super) fenced: OnceLock<Client>,
}

// === impl Setup ===

impl<K: Watchable> Setup<K> {
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
        if let Some(engine) = self.target.engine.upgrade() {
            engine.count_stale();
        }
    }

    /// The histogram of the step called `name`, while the controller exists.
    pub(super) fn step(&self, name: &str) -> Option<prometheus::Histogram> {
        Some(self.target.engine.upgrade()?.step(name))
    }
}
