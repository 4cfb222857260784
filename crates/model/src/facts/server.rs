//! One object of the API server: its current state and all its changes.

use std::{ops::Range, sync::Arc};

use crate::{HandlerId, Snapshot, Version, Writer};

/// One object of the API server: its current state and all its changes.
#[derive(Debug, Default)]
pub(crate) struct ServerObject {
    pub(crate) current: Option<Arc<Snapshot>>,
    /// The index of the entry that removed it.
    pub(crate) removed: Option<usize>,
    /// All changes, oldest first.
    pub(crate) changes: Vec<Change>,
}

/// One write.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) by: Writer,
    pub(crate) before: Option<Arc<Snapshot>>,
    /// `None` if it removed the object.
    pub(crate) after: Option<Arc<Snapshot>>,
    /// The index of the entry.
    pub(crate) at: usize,
}

// === impl ServerObject ===

impl ServerObject {
    pub(super) fn commit(&mut self, by: Writer, object: &Arc<Snapshot>, at: usize) {
        self.changes.push(Change {
            by,
            before: self.current.replace(Arc::clone(object)),
            after: Some(Arc::clone(object)),
            at,
        });
    }

    pub(super) fn erase(&mut self, by: Writer, last: &Arc<Snapshot>, at: usize) {
        let before = self.current.take().or_else(|| Some(Arc::clone(last)));
        self.removed = Some(at);
        self.changes.push(Change {
            by,
            before,
            after: None,
            at,
        });
    }

    /// The object, unless it is removed.
    pub(crate) fn live(&self) -> Option<&Arc<Snapshot>> {
        self.current.as_ref().filter(|_| self.removed.is_none())
    }

    /// Whether a wrapper ever wrote one of these finalizers.
    pub(crate) fn was_guarded(&self, by: HandlerId) -> bool {
        self.changes.iter().any(|it| it.by == Writer::Wrapper(by))
    }

    /// Whether its wrapper wrote one of these finalizers after the entry `at`, to an object without
    /// them.
    pub(crate) fn was_guarded_after(
        &self,
        by: HandlerId,
        finalizers: &[String],
        at: usize,
    ) -> bool {
        let mut changes = self.changes.iter().filter(|it| it.at > at);
        changes.any(|it| it.by == Writer::Wrapper(by) && it.guards(finalizers))
    }

    /// Whether another client removed the last of these finalizers after the entry `at`.
    pub(crate) fn was_stripped_after(&self, finalizers: &[String], at: usize) -> bool {
        let mut changes = self.changes.iter().filter(|it| it.at > at);
        changes.any(|it| it.by == Writer::Other && it.strips(finalizers))
    }

    /// Whether another client removed the last of these finalizers between the two versions (the
    /// first excluded, the second included).
    pub(crate) fn was_stripped_in(&self, range: &Range<Version>, finalizers: &[String]) -> bool {
        self.changes.iter().any(|it| {
            let version = it.after.as_ref().map(|it| it.version);
            it.by == Writer::Other
                && version.is_some_and(|it| range.start < it && it <= range.end)
                && it.strips(finalizers)
        })
    }

    /// Whether `is` accepts a state between the two versions (the first excluded).
    pub(crate) fn was_in(&self, range: &Range<Version>, is: impl Fn(&Snapshot) -> bool) -> bool {
        let states = self.changes.iter().filter_map(|it| it.after.as_deref());
        let mut states = states.filter(|it| range.start < it.version && it.version <= range.end);
        states.any(is)
    }

    /// The newest change that removed the last of these finalizers.
    pub(crate) fn stripped(&self, finalizers: &[String]) -> Option<&Change> {
        self.changes.iter().rev().find(|it| it.strips(finalizers))
    }
}

// === impl Change ===

impl Change {
    /// Whether it removed the last of these finalizers.
    pub(crate) fn strips(&self, finalizers: &[String]) -> bool {
        let [before, after] = self.has(finalizers);
        before && !after
    }

    /// Whether it added the first of these finalizers.
    fn guards(&self, finalizers: &[String]) -> bool {
        let [before, after] = self.has(finalizers);
        !before && after
    }

    /// Whether the object had one of these finalizers before it, and after it.
    fn has(&self, finalizers: &[String]) -> [bool; 2] {
        let has = |it: &Option<Arc<Snapshot>>| it.as_ref().is_some_and(|it| it.has_any(finalizers));
        [has(&self.before), has(&self.after)]
    }
}
