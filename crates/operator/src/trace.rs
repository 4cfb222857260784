//! The spans of operators. All names stand in this file.

use tracing::{Span, info_span};

/// The life of one candidate; its log lines are within it.
pub(crate) fn election(lease: &str, identity: &str) -> Span {
    info_span!("leader-election", lease, identity)
}
