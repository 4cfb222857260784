//! Spans of operators. All names are in this file.

use tracing::info_span;
use windlass_informer::GuardedSpan;

/// One candidate from its start to its end. Its log lines are in this span.
pub(crate) fn election(lease: &str, identity: &str) -> GuardedSpan {
    GuardedSpan::new(|| info_span!("leader-election", lease, identity))
}
