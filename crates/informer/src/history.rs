//! `HistoryWentBack`: what showed that the history of an API server went back.

use std::{future::Future, sync::Arc};

use tokio::sync::SetOnce;

/// What showed that the history of the API server went back, for example because a cluster was
/// restored from a backup.
///
/// The store of the informer then becomes equal to the list of the server, and the differences are
/// delivered as events. What a program remembers of earlier states, such as their versions, the
/// results of its own writes, and which clean-ups have succeeded, may never have happened on this
/// server: end the process, and start it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a list has version {listed}, and version {seen} was seen before")]
pub struct HistoryWentBack {
    /// The newest version that was seen before.
    pub seen: String,
    /// The lower version of the list that was accepted.
    pub listed: String,
}

/// Tells one subscription that the history went back.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistorySignal(Arc<SetOnce<HistoryWentBack>>);

// === impl HistorySignal ===

impl HistorySignal {
    /// Notes that the history went back, unless that is known.
    pub(crate) fn set(&self, went_back: &HistoryWentBack) {
        // The first time is enough: what the subscriber remembers is obsolete.
        _ = self.0.set(went_back.clone());
    }

    /// Waits until the history has gone back.
    pub(crate) fn wait(&self) -> impl Future<Output = HistoryWentBack> + Send + use<> {
        let signal = Arc::clone(&self.0);
        async move { signal.wait().await.clone() }
    }
}
