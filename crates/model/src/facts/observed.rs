//! One object as the informers observed it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{AddedBy, InformerEvent, InformerId, Snapshot, Version};

/// One object as the informers of its kind observed it, in one process.
#[derive(Debug)]
pub(crate) struct ObservedObject {
    pub(crate) kind: Arc<str>,
    pub(crate) key: Arc<str>,
    /// Its newest state of all informers.
    pub(crate) newest: Arc<Snapshot>,
    /// When any informer first published each version.
    pub(crate) versions: BTreeMap<Version, Moment>,
    /// The periods in which at least one informer had it, oldest first.
    pub(crate) presences: Vec<Presence>,
    /// The informers that have it, with the time since which they have it.
    pub(crate) holders: BTreeMap<InformerId, Moment>,
    /// The moments in which no informer had it, or in which the engine could not see that one had it.
    absences: Vec<Absence>,
    /// The versions of its deletes and exits from selectors. Later events with an older version than
    /// the newest are from an informer that lags.
    deleted_versions: BTreeSet<Version>,
    /// Whether two informers disagreed at the same time, so that the engine may have read either
    /// event first.
    pub(crate) ambiguous_order: bool,
    /// When each informer last published an event of it.
    shown: BTreeMap<InformerId, Moment>,
    /// Whether an informer was removed at the same time at which it published an event, which the
    /// engine may not have read.
    pub(crate) unread: bool,
    /// The last resync.
    pub(crate) resynced: Option<Moment>,
}

/// The index of an entry and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) at: usize,
    pub(crate) time: Duration,
}

/// A period in which at least one informer had an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presence {
    pub(crate) from: Moment,
    pub(crate) until: Option<Moment>,
    /// Whether an informer received it from a list in this period.
    pub(crate) listed: bool,
    /// Whether an informer received it from its first list in this period.
    pub(crate) listed_first: bool,
    /// Whether the period ended because the last informer that had the object was removed.
    pub(crate) forgotten: bool,
}

/// A moment in which no informer had an object.
///
/// Informers are separate tasks: of two events at the same time, the engine may read either first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absence {
    pub(crate) from: Moment,
    /// Whether an informer had the object, which the engine may not have read yet.
    pub(crate) apparent: bool,
}

// === impl ObservedObject ===

impl ObservedObject {
    pub(super) fn new(kind: Arc<str>, shown: &InformerEvent) -> Self {
        let object = shown.object();
        Self {
            kind,
            key: Arc::clone(&object.key),
            newest: Arc::clone(object),
            versions: BTreeMap::new(),
            presences: Vec::new(),
            holders: BTreeMap::new(),
            absences: Vec::new(),
            deleted_versions: BTreeSet::new(),
            ambiguous_order: false,
            shown: BTreeMap::new(),
            unread: false,
            resynced: None,
        }
    }

    pub(super) fn show(&mut self, informer: InformerId, shown: &InformerEvent, now: Moment) {
        let object = shown.object();
        self.shown.insert(informer, now);
        match shown {
            InformerEvent::Deleted(_) => {
                self.deleted_versions.insert(object.version);
                if self.holders.remove(&informer).is_some() {
                    self.end(now, false);
                }
                return;
            }
            InformerEvent::Resynced(_) => self.resynced = Some(now),
            InformerEvent::Added { .. } | InformerEvent::Updated(_) => {}
        }
        self.versions.entry(object.version).or_insert(now);
        let lags = (self.deleted_versions.last()).is_some_and(|deleted| object.version < *deleted);
        if lags && self.holders.is_empty() {
            let ended = self.last_presence().and_then(|it| it.until);
            self.ambiguous_order |= ended.is_some_and(|it| it.time == now.time);
            return;
        }
        let seen = match shown {
            InformerEvent::Added { from, .. } => *from,
            _ => AddedBy::Watch,
        };
        if self.holders.is_empty() {
            self.presences.push(Presence {
                from: now,
                until: None,
                listed: false,
                listed_first: false,
                forgotten: false,
            });
        }
        if let Some(presence) = self.presences.last_mut() {
            presence.listed |= seen != AddedBy::Watch;
            presence.listed_first |= seen == AddedBy::FirstList;
        }
        self.holders.entry(informer).or_insert(now);
        self.advance(object);
    }

    /// Removes an informer. Returns whether no other informer has the object.
    pub(super) fn forget(&mut self, informer: InformerId, now: Moment) -> bool {
        let shown = self.shown.remove(&informer);
        self.unread |= shown.is_some_and(|it| it.time == now.time);
        if self.holders.remove(&informer).is_none() {
            return false;
        }
        self.end(now, true);
        self.holders.is_empty()
    }

    fn end(&mut self, now: Moment, forgotten: bool) {
        let apparent = !self.holders.is_empty();
        if self.holders.values().all(|since| since.time == now.time) {
            self.ambiguous_order |= apparent;
            self.absences.push(Absence {
                from: now,
                apparent,
            });
        }
        if let (false, Some(presence)) = (apparent, self.presences.last_mut()) {
            presence.until.get_or_insert(now);
            presence.forgotten |= forgotten;
        }
    }

    fn advance(&mut self, object: &Arc<Snapshot>) {
        if object.version >= self.newest.version {
            self.newest = Arc::clone(object);
        }
    }

    /// Whether an informer has it.
    pub(crate) fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The newest period in which an informer had it.
    pub(crate) fn last_presence(&self) -> Option<&Presence> {
        self.presences.last()
    }

    /// When it appeared, for a handler that has been called for all absences up to the entry `closed`.
    pub(crate) fn came_after(&self, closed: Option<usize>) -> Option<Moment> {
        let mut presences = self.presences.iter().map(|it| it.from);
        presences.find(|from| closed.is_none_or(|closed| from.at > closed))
    }

    /// How often its last informer was removed.
    pub(crate) fn times_forgotten(&self) -> usize {
        self.presences.iter().filter(|it| it.forgotten).count()
    }

    /// The first absence after the entry `after`.
    pub(crate) fn absence_after(&self, after: Option<usize>) -> Option<Absence> {
        let mut absences = self.absences.iter();
        absences
            .find(|it| after.is_none_or(|after| it.from.at > after))
            .copied()
    }

    /// Whether it was deleted, or had left the selector, before this version.
    pub(crate) fn had_left_before(&self, version: Version) -> bool {
        (self.deleted_versions.first()).is_some_and(|deleted| *deleted < version)
    }

    /// Whether a delete or an exit from the selector may have cancelled a pending call for `object`,
    /// which is `ahead` if no informer had shown it.
    pub(crate) fn may_have_cancelled(&self, object: &Snapshot, ahead: bool) -> bool {
        let deleted = self.deleted_versions.last();
        deleted.is_some_and(|deleted| ahead || *deleted >= object.version)
    }

    /// Whether an informer had it again after an absence.
    pub(crate) fn is_back_after(&self, absence: Absence) -> bool {
        (absence.apparent && self.is_held())
            || self.presences.iter().any(|it| it.from > absence.from)
            || (self.holders.values()).any(|it| it.time == absence.from.time)
            // Of several events at the same time, the engine may have read any first.
            || (absence.apparent && self.presences.iter().any(|it| it.from.time == absence.from.time))
    }
}
