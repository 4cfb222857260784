//! The process: start, wait, stop, join.

use std::{error::Error, fmt, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use prometheus::core::Collector;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_controller::Controller;

use crate::{AddControllerError, OperatorError, signal::Signals};

mod registry;

use self::registry::Registry;

/// Runs controllers as one process.
///
/// # Contract
///
/// *Promised.* All controllers that were added are run side by side. When one of them meets
/// what no waiting mends, or the operator is told to stop, all are stopped, and each has ended
/// before [`run`](Self::run) returns. A controller that ends well, of itself, ends nothing
/// else.
///
/// *Asked.* That it is run once.
///
/// Clones are the same operator.
///
/// # Example
///
/// ```
/// use tokio_util::sync::CancellationToken;
/// use windlass_controller::InformerController;
/// use windlass_operator::Operator;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let operator = Operator::new();
/// operator.add_controller(InformerController::builder().name("websites").build()?)?;
///
/// let registry = prometheus::Registry::new();
/// for collector in operator.prometheus_collectors() {
///     registry.register(collector)?;
/// }
///
/// let stop = CancellationToken::new();
/// stop.cancel();
/// operator.run_until(stop).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Operator {
    controllers: Arc<Registry>,
}

/// A [`Controller`] of whatever type.
pub(crate) trait Run: Send + Sync {
    fn name(&self) -> &str;

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>>;

    fn collectors(&self) -> Vec<Box<dyn Collector>>;
}

/// How a controller ended.
type Ended = Result<(), OperatorError>;

// === impl Operator ===

impl Operator {
    /// Creates an operator without controllers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has `controller` run by [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// [`AddControllerError::AlreadyRan`] if the operator runs, or has run.
    pub fn add_controller(&self, controller: impl Controller) -> Result<(), AddControllerError> {
        let name = controller.name().to_owned();
        let added = self.controllers.add(Arc::new(controller));
        added.map_err(|_| AddControllerError::AlreadyRan { controller: name })
    }

    /// The collectors of all controllers, to be registered in a registry.
    #[must_use]
    pub fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let controllers = self.controllers.all();
        controllers.iter().flat_map(|it| it.collectors()).collect()
    }

    /// Runs all controllers until SIGINT or SIGTERM comes. A second one ends the operator at
    /// once.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if a controller could not go on, or a second signal came.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all controllers as they are.
    pub async fn run(&self) -> Result<(), OperatorError> {
        let mut signals = Signals::listen().map_err(|source| OperatorError::Signals { source })?;
        let stop = CancellationToken::new();
        let mut run = std::pin::pin!(self.run_until(stop.clone()));
        tokio::select! {
            ended = &mut run => return ended,
            signal = signals.next() => tracing::info!(signal, "stopping"),
        }
        stop.cancel();
        tokio::select! {
            ended = &mut run => ended,
            signal = signals.next() => {
                tracing::warn!(signal, "stopping at once");
                Err(OperatorError::Forced)
            }
        }
    }

    /// Runs all controllers until `stop` is cancelled, whatever signals come.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if a controller could not go on: the first that could not.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all controllers as they are.
    pub async fn run_until(&self, stop: CancellationToken) -> Result<(), OperatorError> {
        let Some(controllers) = self.controllers.close() else {
            return Err(OperatorError::AlreadyRan);
        };
        let stop = stop.child_token();
        let mut tasks = JoinSet::new();
        for controller in controllers {
            tasks.spawn(run(controller, stop.clone()));
        }

        let mut outcome = Ok(());
        loop {
            tokio::select! {
                biased;
                Some(ended) = tasks.join_next() => {
                    // Panics are caught within, and nobody aborts the tasks but who drops us.
                    let ended = ended.unwrap_or(Ok(()));
                    if ended.is_err() {
                        stop.cancel();
                    }
                    // The first is the reason; those after it are its consequence.
                    outcome = outcome.and(ended);
                }
                () = stop.cancelled(), if tasks.is_empty() => return outcome,
            }
        }
    }
}

/// Runs one controller; whatever it does comes back as a value.
async fn run(controller: Arc<dyn Run>, stop: CancellationToken) -> Ended {
    let name = controller.name().to_owned();
    tracing::info!(controller = %name, "starting");
    let ended = AssertUnwindSafe(controller.run(stop)).catch_unwind().await;
    match ended {
        Ok(Ok(())) => {
            tracing::info!(controller = %name, "ended");
            Ok(())
        }
        Ok(Err(source)) => {
            tracing::error!(controller = %name, error = %source, "cannot go on");
            Err(OperatorError::Controller {
                controller: name,
                source,
            })
        }
        Err(panic) => {
            let message = (panic.downcast_ref::<&str>().copied())
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("a panic without a message");
            tracing::error!(controller = %name, message, "panicked");
            Err(OperatorError::Panicked {
                controller: name,
                message: message.chars().take(256).collect(),
            })
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controllers = self.controllers.all();
        let names = controllers.iter().map(|it| it.name().to_owned());
        f.debug_struct("Operator")
            .field("controllers", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

// === impl Run ===

impl<C: Controller> Run for C {
    fn name(&self) -> &str {
        Controller::name(self)
    }

    fn run(
        self: Arc<Self>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>> {
        async move { Controller::run(&*self, stop).await.map_err(Into::into) }.boxed()
    }

    fn collectors(&self) -> Vec<Box<dyn Collector>> {
        self.prometheus_collectors()
    }
}
