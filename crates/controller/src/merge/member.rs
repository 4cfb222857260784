//! One informer of a kind that has several, and how far it has followed the history. *(pure)*

use std::collections::HashMap;

use windlass_informer::{InformerId, ObjectKey, Uid};

use super::version::Version;

/// One informer of the kind.
pub(super) struct MemberInformer {
    pub(super) informer: InformerId,

    /// Whether it started before the second informer of the kind was added: its earlier events
    /// passed unmerged.
    pub(super) preceding: bool,

    /// The newest version of its watch events.
    pub(super) last_version: Version,

    /// Its epoch as the informer counts.
    pub(super) own_epoch: u32,

    /// Its epoch as the kind counts.
    pub(super) epoch: u32,

    /// The version that it has to pass, because a tombstone of that version was dropped. `None` if
    /// there is none.
    pub(super) catch_up_to: Option<Version>,

    /// Whether a relist was requested.
    pub(super) relisting: bool,

    /// Whether another relist must follow: the requested one may have begun before the newest
    /// epoch.
    pub(super) relist_again: bool,

    /// The objects that it shows and that may be deleted. They are in its store, or were shortly
    /// before.
    pub(super) withheld: HashMap<Uid, WithheldObject>,
}

/// An object that may be deleted.
pub(super) struct WithheldObject {
    pub(super) key: ObjectKey,
    /// Whether a state of it was the first since the history went back.
    pub(super) restored: bool,
}

// === impl MemberInformer ===

impl MemberInformer {
    /// Creates the informer, whose own epoch is `own_epoch`, in the epoch of its kind.
    pub(super) fn new(informer: InformerId, preceding: bool, own_epoch: u32, epoch: u32) -> Self {
        Self {
            informer,
            preceding,
            last_version: Version::default(),
            own_epoch,
            epoch,
            catch_up_to: None,
            relisting: false,
            relist_again: false,
            withheld: HashMap::new(),
        }
    }

    /// Whether this version is older than the one that the informer has to pass.
    pub(super) fn is_behind(&self, version: Version) -> bool {
        self.catch_up_to.is_some_and(|it| version.is_before(it))
    }
}
