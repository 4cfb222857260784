//! The status that an informer publishes. *(pure)*

use std::{collections::BTreeMap, sync::Arc};

use super::InformerError;
use crate::{Health, HealthState, HistoryWentBack, ObjectKey, watch::is_older};

/// The status that an informer publishes.
#[derive(Debug, Default)]
pub(crate) struct InformerStatus {
    pub(crate) state: HealthState,

    /// Whether a list was complete since the informer was started.
    pub(crate) synced: bool,

    /// Whether a caller of `run` drives the informer.
    pub(crate) is_driven: bool,

    /// Why the informer failed, if it did.
    pub(crate) failure: Option<InformerError>,

    pub(crate) resource_version: Option<String>,
    /// The version of the newest complete list.
    pub(crate) list_version: Option<String>,
    pub(crate) undecodable: BTreeMap<ObjectKey, UndecodableObject>,
    /// What last showed that the history of the server went back.
    pub(crate) went_back: Option<HistoryWentBack>,
}

/// An object that does not decode.
#[derive(Debug)]
pub(crate) struct UndecodableObject {
    /// The last report about it. An equal one is not repeated.
    report: String,

    /// Whether the current list, or an event since it began, has shown the object.
    is_shown: bool,
}

// === impl InformerStatus ===

impl InformerStatus {
    /// The informer was started, and lists.
    pub(crate) fn start(&mut self) {
        self.state = HealthState::Listing;
        self.failure = None;
        self.undecodable.clear();
    }

    /// A list begins.
    pub(crate) fn begin_list(&mut self) {
        self.state = HealthState::Listing;
        for object in self.undecodable.values_mut() {
            object.is_shown = false;
        }
    }

    /// A list is complete, with this version.
    pub(crate) fn end_list(&mut self, version: Option<String>) {
        self.synced = true;
        self.state = HealthState::Watching;
        self.undecodable.retain(|_, object| object.is_shown);
        self.list_version.clone_from(&version);
        if version.is_some() {
            self.resource_version = version;
        }
    }

    /// Notes an object that does not decode. Returns whether `report` differs from the last one about
    /// it: the object may be listed often, or change often.
    pub(crate) fn add_undecodable(&mut self, key: &ObjectKey, report: String) -> bool {
        let last = self.undecodable.remove(key);
        let is_new = last.is_none_or(|last| last.report != report);
        let object = UndecodableObject {
            report,
            is_shown: true,
        };
        self.undecodable.insert(key.clone(), object);
        is_new
    }

    /// The informer has stopped, because its last caller has left or it failed.
    pub(crate) fn end(&mut self, failure: Option<InformerError>) {
        self.state = HealthState::Stopped;
        self.synced = false;
        self.is_driven = false;
        self.failure = failure;
    }

    /// Advances the version up to which no change was missed. The objects of a first list come in
    /// any order and do not advance it. Neither does an older version, such as that of an object
    /// that was requested again.
    pub(crate) fn advance_version(&mut self, version: Option<&str>) {
        if !matches!(self.state, HealthState::Watching) {
            return;
        }
        let known = self.resource_version.as_deref();
        if let Some(version) = version
            && known != Some(version)
            && !known.is_some_and(|known| is_older(version, known))
        {
            // In place, because this happens for each event.
            let complete = self.resource_version.get_or_insert_default();
            complete.clear();
            complete.push_str(version);
        }
    }

    pub(crate) fn health(
        &self,
        resource: &Arc<str>,
        namespaces: Option<&Arc<[String]>>,
        unread: Option<Arc<str>>,
    ) -> Health {
        Health {
            resource: Arc::clone(resource),
            namespaces: namespaces.map(Arc::clone),
            state: self.state.clone(),
            synced: self.synced,
            undecodable: self.undecodable.keys().cloned().collect(),
            unread,
        }
    }
}
