//! One informer of a kind that has several, and how far it has followed the history. *(pure)*

use std::collections::BTreeMap;

use windlass_informer::{InformerId, ObjectKey, Uid};

use super::version::Version;

/// One informer of the kind.
pub(super) struct MemberInformer {
    pub(super) informer: InformerId,

    /// Whether it started before the second informer of the kind was added: its earlier events
    /// passed unmerged.
    pub(super) preceding: bool,

    /// The version up to which it has followed: of its newest watch event or list.
    pub(super) last_version: Version,

    /// The version that it has to pass, because a tombstone of that version was dropped. `None` if
    /// there is none.
    pub(super) catch_up_to: Option<Version>,

    /// Whether a relist was requested.
    pub(super) relisting: bool,

    /// The objects that it shows and that may be deleted. They are in its store, or were shortly
    /// before.
    pub(super) withheld: BTreeMap<Uid, ObjectKey>,
}

// === impl MemberInformer ===

impl MemberInformer {
    pub(super) fn new(informer: InformerId, preceding: bool) -> Self {
        Self {
            informer,
            preceding,
            last_version: Version::default(),
            catch_up_to: None,
            relisting: false,
            withheld: BTreeMap::new(),
        }
    }

    /// Whether the informer, at this version, still has to pass the version of a tombstone.
    pub(super) fn must_still_pass(&self, version: Version) -> bool {
        self.catch_up_to.is_some_and(|it| version.is_before(it))
    }
}
