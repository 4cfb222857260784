//! One object as the informers showed it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{InformerId, Seen, Shown, Snapshot, Version};

/// One object as the informers of its kind showed it, in one process.
#[derive(Debug)]
pub(crate) struct Sighted {
    pub(crate) kind: Arc<str>,
    pub(crate) key: Arc<str>,
    /// Its newest state, as of any informer.
    pub(crate) newest: Arc<Snapshot>,
    /// When it was first shown in each version, merged over all informers.
    pub(crate) versions: BTreeMap<Version, Moment>,
    /// The times in which at least one informer had it, oldest first.
    pub(crate) lives: Vec<Life>,
    /// The informers that have it, and since when.
    pub(crate) holders: BTreeMap<InformerId, Moment>,
    /// When no informer had it, or when it can have looked so.
    absences: Vec<Absence>,
    /// The newest version of its deletes: what is older and comes later is from an informer that
    /// lags.
    buried: Option<Version>,
    /// Whether two informers disagreed in one instant, so that the engine may have read either
    /// first.
    pub(crate) unsure: bool,
    /// Whether an informer showed it while another one had not noticed that the server was
    /// restored: no version tells the engine which of the two is right.
    pub(crate) doubtful: bool,
    /// When each informer last showed it.
    shown: BTreeMap<InformerId, Moment>,
    /// Whether an informer was removed in the instant in which it showed something: that need
    /// not have been read.
    pub(crate) unread: bool,
    /// When it was last shown as a resync.
    pub(crate) resynced: Option<Moment>,
}

/// An entry and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) at: usize,
    pub(crate) time: Duration,
}

/// A time in which at least one informer had an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) from: Moment,
    pub(crate) until: Option<Moment>,
    /// Whether a list showed it first to an informer in that time.
    pub(crate) listed: bool,
    /// Whether the first list of an informer did.
    pub(crate) listed_first: bool,
    /// Whether it ended because the last informer that had it was removed.
    pub(crate) forgotten: bool,
}

/// A moment in which no informer had an object.
///
/// Informers are tasks of their own: of what two of them show in one instant, the engine may
/// read either first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absence {
    pub(crate) from: Moment,
    /// Whether an informer had it, which the engine need not have known.
    pub(crate) apparent: bool,
}

// === impl Sighted ===

impl Sighted {
    pub(super) fn new(kind: Arc<str>, shown: &Shown) -> Self {
        let object = shown.object();
        Self {
            kind,
            key: Arc::clone(&object.key),
            newest: Arc::clone(object),
            versions: BTreeMap::new(),
            lives: Vec::new(),
            holders: BTreeMap::new(),
            absences: Vec::new(),
            buried: None,
            unsure: false,
            doubtful: false,
            shown: BTreeMap::new(),
            unread: false,
            resynced: None,
        }
    }

    pub(super) fn show(&mut self, informer: InformerId, shown: &Shown, now: Moment) {
        let object = shown.object();
        self.shown.insert(informer, now);
        match shown {
            Shown::Deleted(_) => {
                self.buried = self.buried.max(Some(object.version));
                if self.holders.remove(&informer).is_some() {
                    self.end(now, false);
                }
                return;
            }
            Shown::Resynced(_) => self.resynced = Some(now),
            Shown::Added { .. } | Shown::Updated(_) => {}
        }
        self.versions.entry(object.version).or_insert(now);
        let lags = self.buried.is_some_and(|buried| object.version < buried);
        if lags && self.holders.is_empty() {
            let ended = self.life().and_then(|it| it.until);
            self.unsure |= ended.is_some_and(|it| it.time == now.time);
            return;
        }
        let seen = match shown {
            Shown::Added { from, .. } => *from,
            _ => Seen::Watch,
        };
        if self.holders.is_empty() {
            self.lives.push(Life {
                from: now,
                until: None,
                listed: false,
                listed_first: false,
                forgotten: false,
            });
        }
        if let Some(life) = self.lives.last_mut() {
            life.listed |= seen != Seen::Watch;
            life.listed_first |= seen == Seen::FirstList;
        }
        self.holders.entry(informer).or_insert(now);
        self.advance(object);
    }

    /// Whether an informer other than `informer` showed it at `time`.
    pub(super) fn was_shown_by_others(&self, informer: InformerId, time: Duration) -> bool {
        let mut others = self.shown.iter().filter(|(other, _)| **other != informer);
        others.any(|(_, shown)| shown.time == time)
    }

    /// An informer was removed. Returns whether no other has it.
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
            self.unsure |= apparent;
            self.absences.push(Absence {
                from: now,
                apparent,
            });
        }
        if let (false, Some(life)) = (apparent, self.lives.last_mut()) {
            life.until.get_or_insert(now);
            life.forgotten |= forgotten;
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

    /// The newest time in which an informer had it.
    pub(crate) fn life(&self) -> Option<&Life> {
        self.lives.last()
    }

    /// When it came, for a handler that has heard of all absences up to the entry `closed`.
    pub(crate) fn came_after(&self, closed: Option<usize>) -> Option<Moment> {
        let mut lives = self.lives.iter().map(|it| it.from);
        lives.find(|from| closed.is_none_or(|closed| from.at > closed))
    }

    /// How often its last informer was removed.
    pub(crate) fn times_forgotten(&self) -> usize {
        self.lives.iter().filter(|it| it.forgotten).count()
    }

    /// The first absence after the entry `after`.
    pub(crate) fn absence_after(&self, after: Option<usize>) -> Option<Absence> {
        let mut absences = self.absences.iter();
        absences
            .find(|it| after.is_none_or(|after| it.from.at > after))
            .copied()
    }

    /// Whether it was shown again after an absence.
    pub(crate) fn is_back_after(&self, absence: Absence) -> bool {
        (absence.apparent && self.is_held())
            || self.lives.iter().any(|it| it.from > absence.from)
            || (self.holders.values()).any(|it| it.time == absence.from.time)
            // Of what several informers showed in that instant, any can have been read first.
            || (absence.apparent && self.lives.iter().any(|it| it.from.time == absence.from.time))
    }
}
