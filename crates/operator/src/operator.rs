//! The operator: starts its controllers, waits, stops them and waits for their end.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::Client;
use prometheus::core::Collector;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_controller::Controller;
use windlass_informer::ErrorChain;

use crate::{
    AddControllerError, AdminServer, LeaderElection, OperatorError,
    admin::Subject,
    election::{Leadership, LeadershipEnd},
    signal::Signals,
};

// Settings.
mod builder;

// All controllers before the start, all running controllers, and a single one.
mod controller_set;
mod registry;
mod run;

pub use self::builder::OperatorBuilder;
pub(crate) use self::run::Run;
use self::{
    controller_set::ControllerSet,
    registry::{Refused, Registry},
};

/// Runs controllers as one process.
///
/// # Contract
///
/// *Guaranteed.* All controllers run concurrently; with a [`LeaderElection`], only while this
/// replica leads. When a controller fails permanently, or the operator is stopped, the operator
/// stops all controllers and waits for them. It aborts a controller that does not end within the
/// [drain timeout](OperatorBuilder::drain_timeout), and all of them if this replica lost its lease.
/// Then it releases the lease, and stops the [`AdminServer`] last. After all of this
/// [`run`](Self::run) returns. When a controller ends without an error, the others continue.
///
/// *Required.* An operator can run only once.
///
/// All clones share one operator.
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

/// The state that all clones of an operator share.
struct Shared {
    controllers: Registry,
    election: Option<LeaderElection>,
    /// None after the operator has started.
    admin: Mutex<Option<AdminServer>>,
    drain: Duration,
}

// === impl Operator ===

impl Operator {
    /// Creates an operator with the default settings and without controllers. Use
    /// [`builder`](Self::builder) to change the settings.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder with the default settings.
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

    /// Adds a controller, which [`run`](Self::run) will run.
    ///
    /// # Errors
    ///
    /// [`AddControllerError::AlreadyRan`] if the operator is running or has run.
    /// [`AddControllerError::NameTaken`] if a controller with this name was added before: metrics,
    /// logs and errors identify a controller by its name.
    pub fn add_controller(&self, controller: impl Controller) -> Result<(), AddControllerError> {
        let name = controller.name().to_owned();
        let added = self.shared.controllers.add(Arc::new(controller));
        added.map_err(|refused| match refused {
            Refused::Closed => AddControllerError::AlreadyRan { controller: name },
            Refused::NameTaken => AddControllerError::NameTaken { controller: name },
        })
    }

    /// Returns a client that sends writes only while this replica leads. Without a
    /// [`LeaderElection`] it returns `client` unchanged.
    ///
    /// Use this client in reconcilers and finalizers. It is the [`Fence::client`] of the
    /// [election's fence](LeaderElection::fence). [`Fence::connect`] checks more strictly.
    ///
    /// [`Fence::client`]: windlass_controller::Fence::client
    /// [`Fence::connect`]: windlass_controller::Fence::connect
    #[must_use]
    pub fn fenced_client(&self, client: Client) -> Client {
        match &self.shared.election {
            Some(election) => election.fence().client(client),
            None => client,
        }
    }

    /// Returns the collectors of the operator and all its controllers. Register them in your
    /// registry.
    #[must_use]
    pub fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let controllers = self.shared.controllers.all();
        let controllers = controllers.iter().flat_map(|it| it.collectors());
        let election = self.shared.election.iter();
        let election = election.flat_map(LeaderElection::collectors);
        controllers.chain(election).collect()
    }

    /// Runs all controllers until SIGINT or SIGTERM arrives. A second signal ends the operator
    /// at once.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if a controller failed or did not end within the drain timeout, a second
    /// signal arrived, this replica lost its lease, or the admin server could not start.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts all controllers.
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

    /// Runs all controllers until `stop` is cancelled. Signals are not handled.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if a controller failed or did not end within the drain timeout, this
    /// replica lost its lease, or the admin server could not start. If several controllers fail,
    /// it is the error of the first one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts all controllers. The lease is not released then, but expires.
    pub async fn run_until(&self, stop: CancellationToken) -> Result<(), OperatorError> {
        let Some(controllers) = self.shared.controllers.close() else {
            return Err(OperatorError::AlreadyRan);
        };
        if controllers.is_empty() {
            tracing::warn!(
                "the operator has no controllers and reconciles nothing; \
                 add them with Operator::add_controller before it runs"
            );
        }
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
        // Boxed, because the future of an election is large and becomes part of the caller's.
        let outcome = if let Some(election) = &self.shared.election {
            Box::pin(self.lead(election, &stop, controllers)).await
        } else {
            let mut controllers = ControllerSet::start(controllers, stop);
            controllers.run(self.shared.drain).await
        };
        if let Some(admin) = admin {
            admin.end().await;
        }
        outcome
    }

    /// Runs the controllers while this replica holds the lease, until `stop` is cancelled or the
    /// lease is lost.
    async fn lead(
        &self,
        election: &LeaderElection,
        stop: &CancellationToken,
        controllers: Vec<Arc<dyn Run>>,
    ) -> Result<(), OperatorError> {
        let release_limit = self.release_limit(election, None);
        let mut leadership = Leadership::start(election, stop.clone(), release_limit)
            .map_err(|source| OperatorError::Thread { source })?;
        if !leadership.elected().await {
            return Self::left(leadership.ended().await);
        }
        for controller in &controllers {
            controller.set_fence(&election.fence());
        }
        let mut controllers = ControllerSet::start(controllers, stop.clone());
        let outcome = tokio::select! {
            biased;
            end = leadership.ended() => {
                controllers.abort().await;
                return Self::left(end);
            }
            outcome = controllers.run(self.shared.drain) => outcome,
        };
        let limit = self.release_limit(election, controllers.deadline());
        let release = controllers.is_empty();
        leadership.resign(release, Instant::now() + limit).await;
        outcome
    }

    /// Converts the end of an election to the result of the operator.
    fn left(end: LeadershipEnd) -> Result<(), OperatorError> {
        match end {
            LeadershipEnd::Stopped => Ok(()),
            LeadershipEnd::Lost(source) => {
                tracing::error!(error = %ErrorChain::new(&source), "leadership lost");
                Err(OperatorError::LeadershipLost { source })
            }
            LeadershipEnd::NoClient(source) => Err(OperatorError::LeaseClient { source }),
        }
    }

    /// The time limit for the release of the lease: the time until the drain `deadline`, but at most
    /// the timeout of one request and at least a second.
    fn release_limit(&self, election: &LeaderElection, deadline: Option<Instant>) -> Duration {
        /// For a release after a drain that used all its time.
        const LEAST: Duration = Duration::from_secs(1);

        let left = match deadline {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => self.shared.drain,
        };
        left.min(election.request_timeout()).max(LEAST)
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
