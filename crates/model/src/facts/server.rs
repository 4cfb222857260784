//! One object as the API server has it.

use std::{ops::Range, sync::Arc};

use crate::{HandlerId, Snapshot, Version, Writer};

/// One object as the API server has it, and had it.
#[derive(Debug, Default)]
pub(crate) struct OnServer {
    pub(crate) current: Option<Arc<Snapshot>>,
    /// The entry that erased it.
    pub(crate) erased: Option<usize>,
    /// Every change: who made it, of what, and into what.
    pub(crate) changes: Vec<Change>,
}

/// One write.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) by: Writer,
    pub(crate) before: Option<Arc<Snapshot>>,
    /// None if it erased the object.
    pub(crate) after: Option<Arc<Snapshot>>,
}

// === impl OnServer ===

impl OnServer {
    pub(super) fn commit(&mut self, by: Writer, object: &Arc<Snapshot>) {
        self.changes.push(Change {
            by,
            before: self.current.replace(Arc::clone(object)),
            after: Some(Arc::clone(object)),
        });
    }

    pub(super) fn erase(&mut self, by: Writer, last: &Arc<Snapshot>, at: usize) {
        let before = self.current.take().or_else(|| Some(Arc::clone(last)));
        self.erased = Some(at);
        self.changes.push(Change {
            by,
            before,
            after: None,
        });
    }

    /// The object, unless it is erased.
    pub(crate) fn live(&self) -> Option<&Arc<Snapshot>> {
        self.current.as_ref().filter(|_| self.erased.is_none())
    }

    /// Whether a wrapper ever wrote one of these finalizers.
    pub(crate) fn was_guarded(&self, by: HandlerId) -> bool {
        self.changes.iter().any(|it| it.by == Writer::Wrapper(by))
    }

    /// Whether another client took the last of these finalizers away after the first of these
    /// versions, and not after the second.
    pub(crate) fn was_stripped_in(&self, range: &Range<Version>, finalizers: &[String]) -> bool {
        self.changes.iter().any(|it| {
            let version = it.after.as_ref().map(|it| it.version);
            it.by == Writer::Other
                && version.is_some_and(|it| range.start < it && it <= range.end)
                && it.strips(finalizers)
        })
    }

    /// Whether it ever was in a state of these versions, the first excluded, that `is` accepts.
    pub(crate) fn was_in(&self, range: &Range<Version>, is: impl Fn(&Snapshot) -> bool) -> bool {
        let states = self.changes.iter().filter_map(|it| it.after.as_deref());
        let mut states = states.filter(|it| range.start < it.version && it.version <= range.end);
        states.any(is)
    }

    /// The last change that took the last of these finalizers away, and who made it.
    pub(crate) fn stripped(&self, finalizers: &[String]) -> Option<&Change> {
        self.changes.iter().rev().find(|it| it.strips(finalizers))
    }
}

// === impl Change ===

impl Change {
    /// Whether it took the last of these finalizers away.
    pub(crate) fn strips(&self, finalizers: &[String]) -> bool {
        let has =
            |it: &Option<Arc<Snapshot>>| (it.as_ref()).is_some_and(|it| it.has_any(finalizers));
        has(&self.before) && !has(&self.after)
    }
}
