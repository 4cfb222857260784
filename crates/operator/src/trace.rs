//! Spans of operators. All names are in this file.

use tracing::{Span, info_span};

/// One candidate, from start to end; its log lines are within it.
pub(crate) fn election(lease: &str, identity: &str) -> Span {
    info_span!("leader-election", lease, identity)
}
