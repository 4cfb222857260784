//! The identity of an informer within the process.

use std::sync::atomic::{AtomicU64, Ordering};

/// The identity of an informer. Equal for clones, and different for all other informers of the
/// process.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InformerId(u64);

// === impl InformerId ===

impl InformerId {
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
