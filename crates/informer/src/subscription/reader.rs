//! The reader of one subscription, as the informer knows it.

use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::SetOnce;

use super::resync_handle::RequestedKeys;
use crate::HistoryWentBack;

/// The reader of one subscription. Shared by the subscription and the informer.
pub(crate) struct Reader {
    /// Where the program subscribed, as `file:line`.
    pub(super) name: Arc<str>,
    pub(super) requested_keys: Arc<RequestedKeys>,
    /// Set when the history of the server goes back.
    pub(super) went_back: Arc<SetOnce<HistoryWentBack>>,
    /// Whether the subscription lags, instead of delaying the watch.
    pub(super) may_lag: AtomicBool,
    /// How many runs of the informer had ended when the subscription was created.
    pub(super) run: u64,
    /// Whether the informer dropped an event, so that the subscription starts anew.
    has_lagged: AtomicBool,
    /// How often it has started anew.
    lags: AtomicU64,
}

// === impl Reader ===

impl Reader {
    pub(super) fn new(at: &Location<'_>, requested_keys: Arc<RequestedKeys>, run: u64) -> Self {
        Self {
            name: format!("{}:{}", at.file(), at.line()).into(),
            requested_keys,
            went_back: Arc::default(),
            may_lag: AtomicBool::new(false),
            run,
            has_lagged: AtomicBool::new(false),
            lags: AtomicU64::new(0),
        }
    }

    pub(super) fn may_lag(&self) -> bool {
        self.may_lag.load(Ordering::Acquire)
    }

    /// Notes that an event was dropped.
    pub(super) fn lag(&self) {
        self.has_lagged.store(true, Ordering::Release);
    }

    /// Whether an event was dropped since the subscription last started.
    pub(super) fn take_lag(&self) -> bool {
        let has_lagged = self.has_lagged.swap(false, Ordering::AcqRel);
        self.lags
            .fetch_add(u64::from(has_lagged), Ordering::Relaxed);
        has_lagged
    }

    pub(super) fn lags(&self) -> u64 {
        self.lags.load(Ordering::Relaxed)
    }
}
