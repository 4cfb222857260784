//! One object as the informers showed it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{InformerId, Shown, Snapshot, Version};

/// One object as the informers of its kind showed it, in one process.
#[derive(Debug)]
pub(crate) struct Sighted {
    pub(crate) kind: Arc<str>,
    pub(crate) key: Arc<str>,
    /// Its newest state, as of any informer.
    pub(crate) newest: Arc<Snapshot>,
    /// When it was first shown in each version, merged over all informers.
    pub(crate) versions: BTreeMap<Version, (usize, Arc<Snapshot>)>,
    /// The times in which at least one informer had it, oldest first.
    pub(crate) lives: Vec<Life>,
    /// The informers that have it.
    pub(crate) holders: BTreeSet<InformerId>,
    /// When it was last shown as a resync.
    pub(crate) resynced: Option<usize>,
}

/// A time in which at least one informer had an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) from: usize,
    pub(crate) until: Option<usize>,
    /// Whether a list showed it in that time.
    pub(crate) listed: bool,
    /// Whether it ended because the last informer that had it was removed.
    pub(crate) forgotten: bool,
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
            holders: BTreeSet::new(),
            resynced: None,
        }
    }

    pub(super) fn show(&mut self, informer: InformerId, shown: &Shown, at: usize) {
        let object = shown.object();
        match shown {
            Shown::Deleted(_) => {
                self.holders.remove(&informer);
                self.end(at, false);
                self.advance(object);
                return;
            }
            Shown::Resynced(_) => self.resynced = Some(at),
            Shown::Added { .. } | Shown::Updated(_) => {}
        }
        let listed = matches!(shown, Shown::Added { listed: true, .. });
        if self.holders.is_empty() {
            self.lives.push(Life {
                from: at,
                until: None,
                listed,
                forgotten: false,
            });
        } else if let (true, Some(life)) = (listed, self.lives.last_mut()) {
            life.listed = true;
        }
        self.holders.insert(informer);
        let seen = (at, Arc::clone(object));
        self.versions.entry(object.version).or_insert(seen);
        self.advance(object);
    }

    pub(super) fn forget(&mut self, informer: InformerId, at: usize) {
        if self.holders.remove(&informer) {
            self.end(at, true);
        }
    }

    fn end(&mut self, at: usize, forgotten: bool) {
        if let (true, Some(life)) = (self.holders.is_empty(), self.lives.last_mut()) {
            life.until.get_or_insert(at);
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

    /// The first time, after the entry `after`, from which on no informer had it.
    pub(crate) fn absent_after(&self, after: usize) -> Option<usize> {
        let mut ends = self.lives.iter().filter_map(|it| it.until);
        ends.find(|until| *until > after)
    }
}
