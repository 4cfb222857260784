//! Health checks that you add.

use std::{fmt::Display, future::Future, sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::task::AbortOnDropHandle;
use windlass_informer::panic_message;

use super::page::Line;

/// A health check of an [`AdminServer`](super::AdminServer).
///
/// # Contract
///
/// *Guaranteed.* It is called for each request, concurrently with the other checks, on the runtime
/// of the operator. A check that panics, or takes longer than the
/// [timeout](super::AdminServer::check_timeout), counts as failed and is dropped.
///
/// *Required.* It must be cheap, and must not block its thread.
///
/// Every `Fn() -> impl Future<Output = Result<(), E>>` is a check.
///
/// # Example
///
/// ```
/// use windlass_operator::HealthCheck;
///
/// struct Disk;
///
/// impl HealthCheck for Disk {
///     type Error = String;
///
///     async fn check(&self) -> Result<(), String> {
///         Err("only 3 MB left".to_owned())
///     }
/// }
/// ```
pub trait HealthCheck: Send + Sync + 'static {
    /// The error of a failed check.
    type Error: Display + Send + 'static;

    /// Runs the check.
    ///
    /// # Errors
    ///
    /// The reason of the failure. Its text is shown on the health page, to the clients that
    /// [`HealthDetails`](super::HealthDetails) allows.
    fn check(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A check and its name.
pub(super) struct Check {
    name: String,
    check: Arc<dyn ErasedCheck>,
}

/// A [`HealthCheck`] with its type erased.
trait ErasedCheck: Send + Sync {
    fn check(self: Arc<Self>) -> BoxFuture<'static, Result<(), String>>;
}

/// Runs all `checks` concurrently on the runtime `users`, each for `limit` at most.
pub(super) async fn ask(checks: &[Check], limit: Duration, users: &Handle) -> Vec<Line> {
    join_all(checks.iter().map(|check| check.ask(limit, users))).await
}

// === impl Check ===

impl Check {
    pub(super) fn new(name: String, check: impl HealthCheck) -> Self {
        let check = Arc::new(check);
        Self { name, check }
    }

    async fn ask(&self, limit: Duration, users: &Handle) -> Line {
        // A separate task, so that a panic affects nothing else.
        let check = AbortOnDropHandle::new(users.spawn(Arc::clone(&self.check).check()));
        let verdict = match timeout(limit, check).await {
            Err(_) => Err(format!("timed out after {limit:?}")),
            Ok(Ok(Ok(()))) => Ok("ok".to_owned()),
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(error)) => Err(match error.try_into_panic() {
                Ok(panic) => format!("panicked: {}", panic_message(panic)),
                Err(_) => "aborted: the runtime shuts down".to_owned(),
            }),
        };
        Line::new(&self.name, verdict)
    }
}

// === impl HealthCheck ===

impl<F, Fut, E> HealthCheck for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    E: Display + Send + 'static,
{
    type Error = E;

    fn check(&self) -> impl Future<Output = Result<(), E>> + Send {
        self()
    }
}

// === impl ErasedCheck ===

impl<C: HealthCheck> ErasedCheck for C {
    fn check(self: Arc<Self>) -> BoxFuture<'static, Result<(), String>> {
        async move {
            HealthCheck::check(&*self)
                .await
                .map_err(|it| it.to_string())
        }
        .boxed()
    }
}
