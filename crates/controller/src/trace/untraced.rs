//! What stands for the origin of a trace where there is none: without OpenTelemetry.

use tracing::Span;

/// Where a trace would go on from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin(());

// === impl Origin ===

impl Origin {
    pub(crate) const fn of(_span: &Span) -> Self {
        Self(())
    }

    pub(crate) const fn lead_to(&self, _span: &Span) {
        let Self(()) = self;
    }

    pub(crate) const fn link_to(&self, _span: &Span) {
        let Self(()) = self;
    }
}
