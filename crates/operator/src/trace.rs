//! Spans of operators. All names are in this file.

use tracing::{Span, info_span};

/// One candidate from its start to its end. Its log lines are in this span.
pub(crate) fn election(lease: &str, identity: &str) -> Span {
    info_span!("leader-election", lease, identity)
}
