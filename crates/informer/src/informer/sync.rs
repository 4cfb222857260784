//! Waits for the first complete list of an informer.

use std::sync::Arc;

use tokio::time::timeout;

use super::{Informer, Shared, SyncError, status::InformerStatus};
use crate::{HealthState, Stored};

/// The state of an informer as `synced` sees it.
enum SyncState {
    Synced,
    /// A caller of `run` drives it.
    Driven,
    /// No caller drives it.
    Idle,
    Stopped,
}

pub(super) async fn synced<K: Stored>(shared: &Shared<K>) -> Result<(), SyncError> {
    let mut status = shared.status.subscribe();
    let mut was_driven = false;
    loop {
        let progress = SyncState::of(&status.borrow_and_update());
        match progress {
            SyncState::Synced => return Ok(()),
            SyncState::Driven => {
                was_driven = true;
                // The sender lives as long as `shared`, so waiting cannot fail.
                _ = status
                    .wait_for(|status| status.synced || !status.is_driven)
                    .await;
            }
            SyncState::Stopped if was_driven => return Err(why(shared)),
            // A spawned task may be about to run or to drive it.
            SyncState::Idle | SyncState::Stopped => {
                let driven = status.wait_for(|status| status.synced || status.is_driven);
                if timeout(Informer::<K>::RUN_GRACE, driven).await.is_err() {
                    return Err(why(shared));
                }
            }
        }
    }
}

/// Why an informer without a driver is not synced.
fn why<K: Stored>(shared: &Shared<K>) -> SyncError {
    let status = shared.status.borrow();
    let resource = Arc::clone(&shared.resource);
    match (&status.state, &status.failure) {
        (HealthState::Stopped, Some(failure)) => SyncError::Failed {
            resource,
            source: failure.clone(),
        },
        (HealthState::Stopped, None) => SyncError::Stopped { resource },
        _ => SyncError::NotRun { resource },
    }
}

// === impl SyncState ===

impl SyncState {
    fn of(status: &InformerStatus) -> Self {
        match status.state {
            _ if status.synced => Self::Synced,
            _ if status.is_driven => Self::Driven,
            HealthState::Stopped => Self::Stopped,
            _ => Self::Idle,
        }
    }
}
