//! `TraceParent` without OpenTelemetry: empty.

use windlass_informer::GuardedSpan;

/// The parent of later spans, without content.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceParent(());

// === impl TraceParent ===

impl TraceParent {
    pub(crate) const fn of(_span: &GuardedSpan) -> Self {
        Self(())
    }

    pub(crate) const fn set_as_parent_of(&self, _span: &GuardedSpan) {
        let Self(()) = self;
    }

    pub(crate) const fn link_from(&self, _span: &GuardedSpan) {
        let Self(()) = self;
    }
}
