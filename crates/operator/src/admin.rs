//! The admin server: health, metrics and pages over HTTP.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use kube::Client;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;
use windlass_controller::ErasedRunnable;

use crate::{LeaderElection, watchdog::Progress};

// The content of the pages, and who sees it.
mod check;
mod details;
mod diagnostics;
mod readiness;
mod route;
mod scrape;

// Connections, requests and pages.
mod authorize;
mod connections;
mod decisions;
mod head_timeout;
mod limits;
mod listen;
mod page;
mod ports;
mod responder;
mod route_call;
mod serve;
mod tls;

// Errors.
mod error;

use self::{authorize::Authorizer, check::Check, ports::MetricsPort};
pub use self::{
    check::HealthCheck,
    details::HealthDetails,
    error::{AdminError, RouteError},
    limits::AdminLimits,
    listen::Listen,
    route::Route,
};
#[cfg(feature = "webhook")]
pub(crate) use self::{
    page::Answer,
    route_call::RouteCall,
    serve::{Port, Respond},
    tls::Tls,
};
pub(crate) use self::{route::Routes, serve::Serving, tls::Files};

/// Serves the health and the metrics of an operator over HTTP, for kubelets, Prometheus and people.
///
/// | path | response |
/// |--|--|
/// | `/live`, `/livez`, `/health`, `/healthz` | 200 while all [live checks](Self::live_check) succeed and the runtime of the operator is not [blocked](crate::OperatorBuilder::report_blocked_after) |
/// | `/ready`, `/readyz` | 200 while every informer of every controller has completed its first list and is not down, and all [ready checks](Self::ready_check) succeed; 503 until the lease was read, and after the operator was stopped |
/// | `/metrics` | the metrics of a registry in the text format of Prometheus, at most a second old |
/// | `/debug/windlass` | the state of each informer and the holder of the lease, as JSON, with [`diagnostics`](Self::diagnostics) |
/// | other paths | the responses of your [routes](Self::route) |
///
/// A health page has one line for each check: `[+]` if it succeeds, or `[-]` and the reason if it
/// fails; for an informer the reason is its kind and its last error. Only clients on this machine,
/// such as `kubectl port-forward`, see these lines. Other clients only see `ok` or `not ok`.
/// [`health_details`](Self::health_details) changes this.
///
/// # Contract
///
/// *Guaranteed.* The server starts before the first controller, and stops after the last controller
/// has ended and the lease is released. It runs on a separate thread with a separate runtime, so
/// that busy handlers do not delay probes, and its clients do not delay handlers. Ports with TLS
/// have another such thread, so that TLS handshakes do not delay probes on a port without TLS. It
/// closes the connection of a client that sends an incomplete request or does not read, after the
/// timeouts of [`AdminLimits`]. It always accepts new connections; above the limits a new
/// connection replaces an old one. Checks and the health functions of controllers run concurrently,
/// each with a timeout. One that fails, panics or times out affects only its own line. A probe
/// sends no request to the API server.
///
/// *Required.* Only clients that may read the pages must be able to reach the port. Health pages
/// have no authentication. Metrics have it with [`authorize_metrics`](Self::authorize_metrics), and
/// TLS with `tls` (feature `tls`). In a pod, listen on an address that the kubelet and Prometheus
/// can reach, so not on loopback, and admit only them with a `NetworkPolicy`.
/// [`metrics_on`](Self::metrics_on) serves the metrics on a separate port.
///
/// A standby, a replica that does not lead, is ready, because it can take over. Otherwise a rolling
/// update of a Deployment would wait for the standby before it stops the leader. A replica that
/// cannot read the lease is not ready.
///
/// Not supported: HTTP/2; use a proxy in front of it. In the test kit and in a simulation, no port is
/// opened.
///
/// # Example
///
/// ```
/// use std::net::TcpListener;
///
/// use http::Response;
/// use tokio_util::sync::CancellationToken;
/// use windlass_operator::{AdminServer, Operator};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let server = AdminServer::new(listener)
///     .ready_check("database", || async { Err::<(), _>("no connection") })
///     .route("/version", |_| async { Response::new("1.2.3".into()) })?;
/// let operator = Operator::builder().admin_server(server).build();
///
/// let stop = CancellationToken::new();
/// # stop.cancel();
/// operator.run_until(stop).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an admin server does nothing until an operator runs it"]
pub struct AdminServer {
    listen: Listen,
    metrics: MetricsPort,
    authorizer: Option<Authorizer>,
    tls: Option<Files>,
    details: HealthDetails,
    limits: AdminLimits,
    registry: Option<Registry>,
    pages: Pages,
}

/// The checks and pages of users.
struct Pages {
    live: Vec<Check>,
    ready: Vec<Check>,
    check_timeout: Duration,
    routes: Routes,
    /// Those on the port of the metrics.
    metrics_routes: Routes,
    has_diagnostics: bool,
}

/// The operator whose state an admin server shows.
pub(crate) struct Subject {
    pub(crate) controllers: Vec<Arc<dyn ErasedRunnable>>,
    /// The tasks that also run in a replica that does not lead.
    pub(crate) each_replica: Vec<Arc<dyn ErasedRunnable>>,
    pub(crate) election: Option<LeaderElection>,
    /// Cancelled when the operator is stopped.
    pub(crate) stop: CancellationToken,
    /// Whether the runtime of the operator is blocked.
    pub(crate) progress: Progress,
    pub(crate) webhooks: Option<RunningWebhooks>,
}

/// A webhook server that runs.
pub(crate) struct RunningWebhooks {
    addresses: Vec<SocketAddr>,
    /// Cancelled when it accepts no more connections.
    ended: CancellationToken,
}

// === impl RunningWebhooks ===

impl RunningWebhooks {
    pub(crate) fn of(serving: &Serving) -> Self {
        Self {
            addresses: serving.addresses().to_vec(),
            ended: serving.ended().clone(),
        }
    }
}

// === impl AdminServer ===

impl AdminServer {
    /// The default of [`check_timeout`](Self::check_timeout): half of a kubelet's default
    /// `timeoutSeconds`, so that the kubelet receives the page that names the check that timed out.
    pub(crate) const DEFAULT_CHECK_TIMEOUT: Duration = Duration::from_millis(500);

    /// Creates a server for an address or a bound listener. It answers while its operator runs.
    pub fn new(listen: impl Into<Listen>) -> Self {
        Self {
            listen: listen.into(),
            metrics: MetricsPort::Shared,
            authorizer: None,
            tls: None,
            details: HealthDetails::default(),
            limits: AdminLimits::default(),
            registry: None,
            pages: Pages {
                live: Vec::new(),
                ready: Vec::new(),
                check_timeout: Self::DEFAULT_CHECK_TIMEOUT,
                routes: Routes::default(),
                metrics_routes: Routes::default(),
                has_diagnostics: false,
            },
        }
    }

    /// Serves `/metrics` on a separate port, and only there, so that a `NetworkPolicy` can admit
    /// Prometheus to that port and the kubelet to the other. By default all pages are on one port.
    pub fn metrics_on(self, listen: impl Into<Listen>) -> Self {
        Self {
            metrics: MetricsPort::Separate(listen.into()),
            ..self
        }
    }

    /// Serves no `/metrics`, for an operator whose metrics are pushed or not read.
    pub fn without_metrics(self) -> Self {
        Self {
            metrics: MetricsPort::None,
            ..self
        }
    }

    /// Serves `/metrics`, and neither health pages nor [routes](Self::route).
    pub fn metrics_only(self) -> Self {
        Self {
            metrics: MetricsPort::Alone,
            ..self
        }
    }

    /// Serves `/metrics`, and each [`metrics_route`](Self::metrics_route), only to clients whose bearer
    /// token the API server accepts, and that may `get` this non-resource URL. By default every client
    /// can read them.
    ///
    /// It sends a `TokenReview` and a `SubjectAccessReview` through `client`; the operator's
    /// `ClusterRole` must grant `create` on both. Decisions are cached for a minute. At most ten
    /// unknown tokens are reviewed per second, and further ones receive 429; this limit does not
    /// apply to a token that was allowed this page before, nor to the address of a client that had one. While
    /// the API server does not respond, the response to a scrape is 503. Without TLS, tokens can be
    /// read on the network.
    pub fn authorize_metrics(self, client: Client) -> Self {
        Self {
            authorizer: Some(Authorizer::new(client)),
            ..self
        }
    }

    /// Serves the port of the metrics, or the only port, over TLS, with the certificate chain and the
    /// private key in these PEM files. By default it is served without TLS.
    ///
    /// All pages are on that port unless [`metrics_on`](Self::metrics_on),
    /// [`metrics_only`](Self::metrics_only) or [`without_metrics`](Self::without_metrics) was called;
    /// of these three, the last call counts. The files
    /// are reloaded at most every 10 seconds, so that a renewed certificate is used without a restart.
    /// If they cannot be reloaded, the previous ones stay in use and a warning is logged. TLS 1.2
    /// and 1.3 are supported, client certificates are not.
    #[cfg(feature = "tls")]
    pub fn tls(
        self,
        certificate: impl Into<std::path::PathBuf>,
        key: impl Into<std::path::PathBuf>,
    ) -> Self {
        let files = Files {
            certificate: certificate.into(),
            key: key.into(),
        };
        Self {
            tls: Some(files),
            ..self
        }
    }

    /// Sets which clients see the reasons on health pages, and `/debug/windlass`. The default is clients on this machine.
    pub fn health_details(self, details: HealthDetails) -> Self {
        Self { details, ..self }
    }

    /// Serves `/debug/windlass`: what each informer has done so far, a checksum of its store, and the
    /// holder of the lease, as JSON. `docs/observability.md` describes its fields.
    ///
    /// It is off by default, because it is for the search of a fault: a server without debugging pages
    /// has less to protect.
    ///
    /// *Guaranteed.* Only clients that see the reasons on health pages see it, as
    /// [`health_details`](Self::health_details) says; others get 403. It contains no name and no
    /// content of an object, and no message of a server. It is read at most once a second for all
    /// clients, and delays no probe.
    ///
    /// *Not guaranteed.* That two replicas agree while objects change: compare their checksums while
    /// none does. A standby runs only the informers of
    /// [each replica](crate::Operator::add_to_each_replica).
    ///
    /// # Example
    ///
    /// ```
    /// use std::net::TcpListener;
    ///
    /// use windlass_operator::{AdminServer, Operator};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// # let address = listener.local_addr()?;
    /// let server = AdminServer::new(listener).diagnostics();
    /// let operator = Operator::builder().admin_server(server).build();
    /// # let stop = tokio_util::sync::CancellationToken::new();
    /// # let run = tokio::spawn({ let stop = stop.clone(); async move { operator.run_until(stop).await } });
    /// # let mut stream = tokio::net::TcpStream::connect(address).await?;
    /// # stream.write_all(b"GET /debug/windlass HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await?;
    /// # let mut response = String::new();
    /// # stream.read_to_string(&mut response).await?;
    /// // curl http://localhost:PORT/debug/windlass
    /// assert!(response.contains(r#""lease": null"#) && response.contains(r#""controllers": []"#));
    /// # stop.cancel();
    /// # run.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn diagnostics(mut self) -> Self {
        self.pages.has_diagnostics = true;
        self
    }

    /// Sets the limits of connections and requests.
    pub fn limits(self, limits: AdminLimits) -> Self {
        Self { limits, ..self }
    }

    /// Serves the metrics of this registry at `/metrics`. By default those of the operator and its
    /// controllers; into your own registry, register
    /// [`Operator::prometheus_collectors`](crate::Operator::prometheus_collectors) yourself.
    pub fn registry(self, registry: Registry) -> Self {
        Self {
            registry: Some(registry),
            ..self
        }
    }

    /// Adds a check to `/live`, like controller-runtime's `AddHealthzCheck`. A kubelet restarts the
    /// container if the check fails repeatedly, so use it only for failures that a restart corrects.
    pub fn live_check(mut self, name: impl Into<String>, check: impl HealthCheck) -> Self {
        self.pages.live.push(Check::new(name.into(), check));
        self
    }

    /// Adds a check to `/ready`, like controller-runtime's `AddReadyzCheck`.
    pub fn ready_check(mut self, name: impl Into<String>, check: impl HealthCheck) -> Self {
        self.pages.ready.push(Check::new(name.into(), check));
        self
    }

    /// Sets the timeout of each check, and of the health function of each controller. The default
    /// is half a second.
    pub fn check_timeout(mut self, limit: Duration) -> Self {
        self.pages.check_timeout = limit;
        self
    }
}

impl fmt::Debug for AdminServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminServer")
            .field("listen", &self.listen)
            .field("metrics", &self.metrics)
            .field("limits", &self.limits)
            .field("routes", &self.pages.routes.paths().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
