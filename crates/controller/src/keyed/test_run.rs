//! `test_controller_run`: runs a resource in the background of a test.

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{KeyedResource, ResourceController};
use crate::{RunError, controller::flatten};

/// A controller that runs in the background. [`stop`](Self::stop) it; dropping it aborts the run.
#[derive(Debug)]
#[must_use = "dropping it aborts the controller"]
pub struct TestRun {
    stop: CancellationToken,
    run: JoinSet<Result<(), RunError>>,
}

/// Runs `resource` in the background, with the default settings of a [`ResourceController`].
///
/// # Panics
///
/// Outside of a tokio runtime.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{new_resource, test_controller_run};
/// use windlass_informer::{Informer, Scripted};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (script, source) = Scripted::<ConfigMap>::new();
/// let ignore = |_, _| async { Ok::<_, Infallible>(()) };
/// let running = test_controller_run(new_resource(Informer::new(source), ignore, ignore));
/// script.list([]).await?;
/// running.stop().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "TestControllerRun")]
pub fn test_controller_run<R: KeyedResource>(resource: R) -> TestRun {
    let stop = CancellationToken::new();
    let mut run = JoinSet::new();
    let stopped = stop.clone();
    run.spawn(async move { ResourceController::new(resource).run(stopped).await });
    TestRun { stop, run }
}

// === impl TestRun ===

impl TestRun {
    /// Stops the controller, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// The error of [`ResourceController::run`].
    pub async fn stop(mut self) -> Result<(), RunError> {
        self.stop.cancel();
        self.run.join_next().await.map_or(Ok(()), flatten)
    }
}
