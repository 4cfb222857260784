//! `Background`: what the background task of a resource gets.

use std::sync::Arc;

use futures::poll;
use tokio::{pin, sync::oneshot, task::JoinSet};
use tokio_util::sync::CancellationToken;
use windlass_informer::panic_message;

use super::KeyedResource;
use crate::{Fence, RunError, Runnable};

/// The scope of [`KeyedResource::background`]: until when it runs, and how it runs other
/// controllers.
#[derive(Clone, Debug)]
pub struct Background {
    stop: CancellationToken,
    fence: Option<Fence>,
}

// === impl Background ===

impl Background {
    pub(super) const fn new(stop: CancellationToken, fence: Option<Fence>) -> Self {
        Self { stop, fence }
    }

    /// Cancelled when the controller is stopped or fails.
    #[must_use]
    pub const fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs another controller until the stop, behind the fence of this one. Its health and metrics
    /// are not those of this controller;
    /// [`ResourceController::nest`](super::ResourceController::nest) is for controllers that are
    /// known before the run.
    ///
    /// # Errors
    ///
    /// The error of `nested`. It does not end this controller.
    pub async fn run<C: Runnable>(&self, nested: C) -> Result<(), C::Error> {
        if let Some(fence) = &self.fence {
            nested.set_fence(fence);
        }
        nested.run(self.stop.clone()).await
    }
}

/// Spawns the background task of `resource`, and waits until it has begun.
pub(super) async fn start<R: KeyedResource>(
    tasks: &mut JoinSet<Result<(), RunError>>,
    resource: Arc<R>,
    scope: Background,
) {
    let (begun, has_begun) = oneshot::channel();
    let task = tokio::spawn(async move {
        let background = resource.background(scope);
        pin!(background);
        let first = poll!(&mut background);
        // If the receiver was dropped, the run was dropped.
        _ = begun.send(());
        if first.is_pending() {
            background.await;
        }
    });
    let task = tokio_util::task::AbortOnDropHandle::new(task);
    tasks.spawn(async move {
        match task.await {
            Err(error) if error.is_panic() => Err(RunError::Background {
                message: panic_message(error.into_panic()),
            }),
            _ => Ok(()),
        }
    });
    // An error: it panicked, which its task reports.
    _ = has_begun.await;
}
