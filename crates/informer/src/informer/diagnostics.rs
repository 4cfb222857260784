//! `Diagnostics`: what an informer has done so far, and a checksum of its store.

use std::{collections::BTreeMap, time::SystemTime};

use super::Informer;
use crate::{Health, Stored};

/// What an informer has done so far, and a checksum of its store, to find out why two replicas
/// differ.
///
/// It contains no content of an object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnostics {
    /// The health of the watch.
    pub health: Health,

    /// The namespaces of the informer, or `None` for all.
    pub namespaces: Option<Vec<String>>,

    /// The number of complete lists. One is the first list, and each further one a relist.
    pub lists: u64,

    /// How often a list or watch ended or broke, by the reason that the label `reason` of the
    /// metric `informer_watch_restarts_total` has. All except `ended` and `requested` are errors.
    pub restarts: BTreeMap<&'static str, u64>,

    /// When an event or a list last changed the store, by the clock of this machine. Resyncs do not
    /// count.
    pub last_event: Option<SystemTime>,

    /// The number of objects in the store.
    pub objects: usize,

    /// A checksum of the uids and resource versions in the store. Equal stores have equal checksums
    /// in all processes of a release, whatever the order in which they received their objects.
    pub checksum: u64,
}

// === impl Informer ===

impl<K: Stored> Informer<K> {
    /// What the informer has done so far, and a checksum of its store. Reads the identities of all
    /// objects, so call it for people and not in a loop.
    ///
    /// *Guaranteed.* It decodes no object, and blocks no other reader.
    ///
    /// *Not guaranteed.* A consistent snapshot: the store may change meanwhile. Compare checksums
    /// while no object changes.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass_informer::{Informer, Scripted};
    ///
    /// let (_script, source) = Scripted::<Pod>::new();
    /// let diagnostics = Informer::new(source).diagnostics();
    /// assert_eq!((diagnostics.lists, diagnostics.objects), (0, 0));
    /// assert!(diagnostics.last_event.is_none());
    /// ```
    #[must_use]
    pub fn diagnostics(&self) -> Diagnostics {
        let shared = &self.shared;
        let activity = shared.instruments.activity();
        let (objects, checksum) = shared.store.checksum();
        Diagnostics {
            health: self.health(),
            namespaces: self.namespaces().map(<[String]>::to_vec),
            lists: activity.lists,
            restarts: activity.restarts,
            last_event: activity.last_event,
            objects,
            checksum,
        }
    }
}
