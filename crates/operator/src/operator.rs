//! The process: start, lead, wait, stop, join.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus::core::Collector;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument as _;
use windlass_controller::Controller;

use crate::{
    AddControllerError, AdminServer, LeaderElection, OperatorError, admin::Subject, error::Causes,
    signal::Signals, trace,
};

// What it is to be like.
mod builder;

// The controllers: before they run, as they run, and one of them.
mod crew;
mod registry;
mod run;

pub use self::builder::OperatorBuilder;
pub(crate) use self::run::{Run, message};
use self::{crew::Crew, registry::Registry};

/// Runs controllers as one process.
///
/// # Contract
///
/// *Promised.* All controllers that were added are run side by side; with a
/// [`LeaderElection`], only while this replica leads. When one of them meets what no waiting
/// mends, or the operator is told to stop, all are stopped, and each has ended or was dropped
/// before [`run`](Self::run) returns: dropped if it did not end within the
/// [drain timeout](OperatorBuilder::drain_timeout), or if this replica leads no more. After
/// them the lease is released, and at last the [`AdminServer`] ends. A controller that ends
/// well, of itself, ends nothing else.
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
#[derive(Clone)]
pub struct Operator {
    shared: Arc<Shared>,
}

/// What all clones of an operator share.
struct Shared {
    controllers: Registry,
    election: Option<LeaderElection>,
    /// Until it runs.
    admin: Mutex<Option<AdminServer>>,
    drain: Duration,
}

// === impl Operator ===

impl Operator {
    /// Creates an operator without controllers, and with its defaults;
    /// [`builder`](Self::builder) sets more.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Begins an operator.
    pub fn builder() -> OperatorBuilder {
        OperatorBuilder::new()
    }

    fn from_builder(builder: OperatorBuilder) -> Self {
        let OperatorBuilder {
            election,
            admin,
            drain,
        } = builder;
        let shared = Shared {
            controllers: Registry::default(),
            election,
            admin: Mutex::new(admin),
            drain,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Has `controller` run by [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// [`AddControllerError::AlreadyRan`] if the operator runs, or has run.
    pub fn add_controller(&self, controller: impl Controller) -> Result<(), AddControllerError> {
        let name = controller.name().to_owned();
        let added = self.shared.controllers.add(Arc::new(controller));
        added.map_err(|_| AddControllerError::AlreadyRan { controller: name })
    }

    /// The collectors of the operator and all its controllers, to be registered in a registry.
    #[must_use]
    pub fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let controllers = self.shared.controllers.all();
        let controllers = controllers.iter().flat_map(|it| it.collectors());
        let election = self.shared.election.iter();
        let election = election.flat_map(LeaderElection::collectors);
        controllers.chain(election).collect()
    }

    /// Runs all controllers until SIGINT or SIGTERM comes. A second one ends the operator at
    /// once.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if a controller could not go on, or did not end in time, or a second
    /// signal came, or this replica leads no more, or the admin server could not begin.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all controllers as they are.
    pub async fn run(&self) -> Result<(), OperatorError> {
        let mut signals = Signals::listen().map_err(|source| OperatorError::Signals { source })?;
        let stop = CancellationToken::new();
        let mut run = Box::pin(self.run_until(stop.clone()));
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
    /// [`OperatorError`] if a controller could not go on, the first that could not, or did not
    /// end in time; or this replica leads no more, or the admin server could not begin.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all controllers as they are. A lease is then not released: it
    /// runs out.
    pub async fn run_until(&self, stop: CancellationToken) -> Result<(), OperatorError> {
        let Some(controllers) = self.shared.controllers.close() else {
            return Err(OperatorError::AlreadyRan);
        };
        let stop = stop.child_token();
        let subject = Subject {
            controllers: controllers.clone(),
            election: self.shared.election.clone(),
            stop: stop.clone(),
        };
        let admin = (self.shared.admin.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let admin = match admin {
            Some(admin) => Some(
                (admin.serve(subject, self.prometheus_collectors()))
                    .map_err(|source| OperatorError::Admin { source })?,
            ),
            None => None,
        };
        let crew = || Crew::start(controllers, stop.clone());
        // An election is many states, and whoever awaits us should not be as large as all of them.
        let outcome = match &self.shared.election {
            Some(election) => Box::pin(self.lead(election, &stop, crew)).await,
            None => crew().work(self.shared.drain).await,
        };
        if let Some(admin) = admin {
            admin.end().await;
        }
        outcome
    }

    /// Has the controllers work once this replica leads, and until it is told to stop, or leads
    /// no more.
    async fn lead(
        &self,
        election: &LeaderElection,
        stop: &CancellationToken,
        crew: impl FnOnce() -> Crew,
    ) -> Result<(), OperatorError> {
        let span = trace::election(&election.lease(), election.identity());
        let mut candidate = election.candidate();
        if !candidate.elected(stop).instrument(span.clone()).await {
            candidate.release().instrument(span).await;
            return Ok(());
        }

        // A task of its own: whatever keeps whoever waits for us, the lease is renewed.
        let let_go = CancellationToken::new();
        let keep = candidate.keep(let_go.clone()).instrument(span.clone());
        let mut keep = AbortOnDropHandle::new(tokio::spawn(keep));
        let mut crew = crew();
        let outcome = tokio::select! {
            biased;
            kept = &mut keep => {
                crew.dismiss().await;
                let lost = kept.ok().and_then(|kept| kept.lost);
                let source = lost.unwrap_or_else(|| election.abandoned());
                tracing::error!(parent: &span, error = %Causes(&source), "leading no more");
                return Err(OperatorError::LeadershipLost { source });
            }
            outcome = crew.work(self.shared.drain) => outcome,
        };
        let_go.cancel();
        // What still runs may still write: then the lease runs out by itself.
        if let Ok(kept) = keep.await
            && crew.is_gone()
        {
            kept.candidate.release().instrument(span).await;
        }
        outcome
    }
}

impl Default for Operator {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controllers = self.shared.controllers.all();
        let names = controllers.iter().map(|it| it.name().to_owned());
        f.debug_struct("Operator")
            .field("controllers", &names.collect::<Vec<_>>())
            .field("election", &self.shared.election)
            .field("drain", &self.shared.drain)
            .finish_non_exhaustive()
    }
}
