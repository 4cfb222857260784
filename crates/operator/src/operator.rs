//! `Operator`: runs controllers and stops them gracefully, with leader election and an admin server.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::{Client, Config};
use prometheus::core::Collector;
use tokio_util::sync::CancellationToken;
use windlass_controller::Runnable;
use windlass_informer::log;

use crate::{
    AddControllerError, AdminServer, LeaderElection, OperatorError,
    admin::{RunningWebhooks, Subject},
    metrics::RequestMetrics,
    signal::Signals,
    watchdog::{BlockedTimeouts, Progress, Watchdog, Watched},
    webhook::{WebhookMetrics, WebhookServer},
};

// Settings.
mod builder;

// All controllers before the start, all running controllers, and a single one.
mod controller_set;
mod each_replica;
mod exit;
mod lead;
mod registry;
mod run;

pub use self::builder::OperatorBuilder;
use self::registry::{ControllerRegistry, Place};

/// Runs controllers as one process, like a `Manager` of controller-runtime.
///
/// # Contract
///
/// *Guaranteed.* All controllers run concurrently; with a [`LeaderElection`], only while this
/// replica leads. When a controller ends for any reason, or the operator is stopped, the operator
/// stops all controllers and waits for them. It aborts a controller that does not end within the
/// [drain timeout](OperatorBuilder::drain_timeout) (25 s by default), and all of them at once if
/// this replica lost its lease. Then it releases the lease, and stops the webhook server, the tasks of
/// [each replica](Self::add_to_each_replica), whose stores the webhooks may read, and the
/// [`AdminServer`], in this order. [`run`](Self::run) returns; the error names the controller that ended.
///
/// *Required.* An operator can run only once. A [`Runnable`](windlass_controller::Runnable) of yours
/// runs until its token is cancelled, also if it has nothing more to do.
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
    controllers: ControllerRegistry,
    election: Option<LeaderElection>,
    /// None after the operator has started.
    admin: Mutex<Option<AdminServer>>,
    /// None after the operator has started.
    webhooks: Mutex<Option<WebhookServer>>,
    webhook_metrics: Option<WebhookMetrics>,
    requests: RequestMetrics,
    drain: Duration,
    blocked: BlockedTimeouts,
}

/// The time after the drain timeout in which controllers are aborted and the lease is released. A
/// task that does not yield within this time is blocked, and a release takes two requests.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

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
            webhooks,
            drain,
            blocked,
        } = builder;
        let shared = Shared {
            controllers: ControllerRegistry::default(),
            election,
            admin: Mutex::new(admin),
            webhook_metrics: webhooks.as_ref().map(WebhookServer::metrics),
            webhooks: Mutex::new(webhooks),
            requests: RequestMetrics::new(),
            drain,
            blocked,
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
    /// [`AddControllerError::Finalizer`] if one of its handlers has a finalizer that a handler of
    /// another controller has, for objects that both receive.
    pub fn add_controller(&self, controller: impl Runnable) -> Result<(), AddControllerError> {
        (self.shared.controllers).add(Arc::new(controller), Place::Leader)
    }

    /// Creates a client from `config` that sends writes only while this replica leads: a fenced
    /// client. Without a [`LeaderElection`] it always sends them.
    ///
    /// Use this client in reconcilers and finalizers. It is the [`Fence::connect`] of the
    /// [election's fence](LeaderElection::fence): its connections check the deadline of the lease
    /// each time before they write to the socket, so that a request that waited, for example while
    /// the process was frozen, is not sent late. [`fenced_client`](Self::fenced_client) checks the
    /// deadline only when the request enters the client.
    ///
    /// Each request is sent once, with and without an election, whatever `default_retry` of `config`
    /// says: kube's own retries (15 after 429, 503 or 504, also of a `POST` that may have been
    /// applied) wait for as long as the server asks for, within the handler's call. The retry policy
    /// of the controller repeats a failed call. The metric `rest_client_requests_total` counts the requests
    /// that had a response or an error.
    ///
    /// # Errors
    ///
    /// [`kube::Error`] if no client can be created from `config`.
    ///
    /// # Example
    ///
    /// ```
    /// use kube::Config;
    /// use windlass_operator::{LeaderElection, Operator};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // In a pod: `Config::infer().await?`.
    /// let config = Config::new("http://127.0.0.1:8001".parse()?);
    /// let election = LeaderElection::new(config.clone(), "default", "website-operator")?;
    /// let operator = Operator::builder().leader_election(election).build();
    /// let client = operator.connect(config)?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Fence::connect`]: windlass_controller::Fence::connect
    pub fn connect(&self, mut config: Config) -> Result<Client, kube::Error> {
        config.default_retry = false;
        let url = config.cluster_url.clone();
        let client = match &self.shared.election {
            Some(election) => election.fence().connect(config)?,
            None => Client::try_from(config)?,
        };
        Ok(self.shared.requests.client(client, &url))
    }

    /// Returns a client that passes writes to `client` only while this replica leads. Without a
    /// [`LeaderElection`] it returns `client` unchanged.
    ///
    /// For clients that have no [`Config`], such as one of the embedded API server. On a cluster use
    /// [`connect`](Self::connect): this client checks the deadline of the lease before a write enters
    /// `client`, and `client` may send the write later. It is the [`Fence::client`] of the
    /// [election's fence](LeaderElection::fence).
    ///
    /// [`Fence::client`]: windlass_controller::Fence::client
    #[must_use]
    pub fn fenced_client(&self, client: Client) -> Client {
        match &self.shared.election {
            Some(election) => election.fence().client(client),
            None => client,
        }
    }

    /// Returns the collectors of the operator and all its controllers, for your own registry. An
    /// [`AdminServer`] without a registry serves them by itself. Two operators of one process need a
    /// registry each: some metrics have no label that names the operator.
    #[must_use]
    pub fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let controllers = self.shared.controllers.all();
        let controllers = controllers.iter().flat_map(|it| it.collectors());
        let election = self.shared.election.iter();
        let election = election.flat_map(LeaderElection::collectors);
        let webhooks = self.shared.webhook_metrics.iter();
        let webhooks = webhooks.flat_map(WebhookMetrics::collectors);
        let requests = self.shared.requests.collectors();
        (controllers.chain(election).chain(webhooks))
            .chain(requests)
            .collect()
    }

    /// Runs all controllers until SIGINT or SIGTERM arrives, then drains them. A second signal ends
    /// the operator at once, except the same signal within a second: `timeout` and some shells send
    /// one twice.
    ///
    /// # The end of the process
    ///
    /// A stop takes at most the [drain timeout](OperatorBuilder::drain_timeout) and 2 s, and 11 s
    /// with webhooks, whose requests in progress have 9 s after the controllers have ended. If handlers
    /// block all threads of the runtime, no task can perform the stop: then the process exits 3 s
    /// after the drain timeout, or 12 s with webhooks, with the exit code 1 and an error in the log that
    /// names the calls. With tasks of [each replica](Self::add_to_each_replica) a stop takes up to 1.1 s
    /// longer, and a blocked process exits 4 s after the drain timeout, or 13 s with webhooks.
    ///
    /// After `run` has returned, the runtime of `#[tokio::main]` still waits for blocking calls that
    /// hang: a lookup of a host name, or an exec plugin. Run the program with
    /// [`block_on`](crate::block_on), which does not wait for them. On a runtime of your own, call
    /// [`Runtime::shutdown_background`](tokio::runtime::Runtime::shutdown_background).
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
        let mut signals = Signals::take().map_err(|source| OperatorError::Signals { source })?;
        let stop = CancellationToken::new();
        let mut run = Box::pin(self.run_watched(stop.clone(), Some(self.exit_after())));
        let first = tokio::select! {
            // An operator that is stopped before it runs starts nothing.
            biased;
            signal = signals.next() => signal,
            ended = &mut run => return ended,
        };
        log::info!(signal = first, "stopping");
        stop.cancel();
        tokio::select! {
            ended = &mut run => ended,
            signal = signals.after(first) => {
                log::warn!(signal, "stopping at once");
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
        self.run_watched(stop, None).await
    }

    /// Runs all controllers until `stop` is cancelled, and watches whether the runtime is blocked. A
    /// process that is blocked for `exit_after` after a signal exits.
    async fn run_watched(
        &self,
        stop: CancellationToken,
        exit_after: Option<Duration>,
    ) -> Result<(), OperatorError> {
        let Some(added) = self.shared.controllers.close() else {
            return Err(OperatorError::AlreadyRan);
        };
        if added.all().next().is_none() && self.shared.webhook_metrics.is_none() {
            log::warn!(
                "the operator has no controllers and reconciles nothing; \
                 add them with Operator::add_controller before it runs"
            );
        }
        let stop = stop.child_token();
        let progress = Progress::default();
        let watched = Watched {
            controllers: added.all().cloned().collect(),
            election: self.shared.election.clone(),
            timeouts: self.shared.blocked,
            exit_after,
        };
        let webhooks = match take(&self.shared.webhooks) {
            Some(webhooks) => {
                Some((webhooks.serve()).map_err(|source| OperatorError::Webhooks { source })?)
            }
            None => None,
        };
        let subject = Subject {
            controllers: added.controllers.clone(),
            each_replica: added.each_replica.clone(),
            election: self.shared.election.clone(),
            stop: stop.clone(),
            progress: progress.clone(),
            webhooks: webhooks.as_ref().map(RunningWebhooks::of),
        };
        let admin = match take(&self.shared.admin) {
            Some(admin) => Some(
                (admin.serve(subject, self.prometheus_collectors()))
                    .map_err(|source| OperatorError::Admin { source })?,
            ),
            None => None,
        };
        let _watchdog = Watchdog::start(watched, &progress);
        let outcome = self.run_added(added, &stop, webhooks).await;
        if let Some(admin) = admin {
            admin.end(ADMIN_END).await;
        }
        outcome
    }
}

/// The time for the requests of the admin server that are in progress when the controllers have ended:
/// only a client that reads slowly is left.
const ADMIN_END: Duration = Duration::from_secs(1);

fn take<T>(once: &Mutex<Option<T>>) -> Option<T> {
    let mut once = once.lock().unwrap_or_else(PoisonError::into_inner);
    once.take()
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
