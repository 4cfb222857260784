//! The spans of informers. All names stand in this file.

use tracing::Span;

/// The life of one informer.
pub(crate) fn informer(resource: &str) -> Span {
    tracing::info_span!("informer", kind = resource)
}
