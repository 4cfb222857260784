//! The admin server: how an operator is, over HTTP.

use std::{
    collections::BTreeMap,
    fmt,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use prometheus::{Registry, core::Collector};
use tokio_util::sync::CancellationToken;

use crate::{LeaderElection, operator::Run};

// What is asked of whom.
mod check;
mod readiness;
mod route;

// What is answered.
mod page;
mod serve;

// What can go wrong.
mod error;

pub(crate) use self::serve::Serving;
use self::{check::Check, route::AnyRoute};
pub use self::{
    check::HealthCheck,
    error::{AdminError, RouteError},
    route::Route,
};

/// Tells over HTTP how an operator is: to a kubelet, to Prometheus, to people.
///
/// | path | answers |
/// |--|--|
/// | `/live`, `/livez`, `/healthz` | 200 while all [live checks](Self::live_check) go well |
/// | `/ready`, `/readyz` | 200 while every informer of every controller has told its first list and is not down, and all [ready checks](Self::ready_check) go well; 503 from the moment the operator is told to stop |
/// | `/metrics` | what a registry has gathered, in the text format of Prometheus |
/// | any other | what [routes](Self::route) answer |
///
/// Each page of health has a line for each thing that was looked at, `[+]` if it is well and
/// `[-]` if it is not, with what is wrong: for an informer its kind and the last error.
///
/// # Contract
///
/// *Promised.* It answers from before the first controller starts until after the last one has
/// ended, and the lease is released. Checks run side by side, each with a time limit; one that
/// fails, panics or takes too long is one line, and nothing else.
///
/// *Asked.* That only who may see it can reach it: there is no authentication.
///
/// A replica that stands by for the lease is ready: it is ready to take over. It has to be, or
/// a Deployment would wait for it before it ends the replica that leads. It is not while it
/// cannot read the lease.
///
/// Not supported: HTTPS and HTTP/2; put something in front of it that knows them.
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
    registry: Option<Registry>,
    pages: Pages,
}

/// What users add to the pages.
struct Pages {
    live: Vec<Check>,
    ready: Vec<Check>,
    limit: Duration,
    routes: BTreeMap<String, Box<dyn AnyRoute>>,
}

/// Where an [`AdminServer`] listens.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listen {
    /// At an address, from when the operator runs.
    Address(SocketAddr),
    /// At a port that is open already.
    Listener(TcpListener),
}

/// Whom an admin server tells of.
pub(crate) struct Subject {
    pub(crate) controllers: Vec<Arc<dyn Run>>,
    pub(crate) election: Option<LeaderElection>,
    /// Cancelled from the moment the operator is told to stop.
    pub(crate) stop: CancellationToken,
}

// === impl AdminServer ===

impl AdminServer {
    /// A kubelet gives up after one second, if nobody says otherwise, and then has no page to
    /// show.
    pub const DEFAULT_CHECK_TIMEOUT: Duration = Duration::from_millis(500);

    /// Creates a server that listens there when its operator runs: an address, or a listener.
    pub fn new(listen: impl Into<Listen>) -> Self {
        Self {
            listen: listen.into(),
            registry: None,
            pages: Pages {
                live: Vec::new(),
                ready: Vec::new(),
                limit: Self::DEFAULT_CHECK_TIMEOUT,
                routes: BTreeMap::new(),
            },
        }
    }

    /// Serves what this registry gathers at `/metrics`. The default is a registry with the
    /// operator's own collectors, and nothing else.
    pub fn registry(self, registry: Registry) -> Self {
        Self {
            registry: Some(registry),
            ..self
        }
    }

    /// Has `/live` ask `check` too. Where that fails for long, a kubelet restarts the process:
    /// it is for what only a restart mends.
    pub fn live_check(mut self, name: impl Into<String>, check: impl HealthCheck) -> Self {
        self.pages.live.push(Check::new(name.into(), check));
        self
    }

    /// Has `/ready` ask `check` too.
    pub fn ready_check(mut self, name: impl Into<String>, check: impl HealthCheck) -> Self {
        self.pages.ready.push(Check::new(name.into(), check));
        self
    }

    /// How long a check may take. The default is half a second.
    pub fn check_timeout(mut self, limit: Duration) -> Self {
        self.pages.limit = limit;
        self
    }

    /// Has `route` answer requests for exactly this path, whatever their method.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if `path` does not begin with a slash, or has a route already.
    pub fn route(mut self, path: impl Into<String>, route: impl Route) -> Result<Self, RouteError> {
        let path = path.into();
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return Err(RouteError::NoPath { path });
        }
        if page::Page::at(&path).is_some() || self.pages.routes.contains_key(&path) {
            return Err(RouteError::Taken { path });
        }
        self.pages.routes.insert(path, Box::new(route));
        Ok(self)
    }

    /// Begins to answer.
    pub(crate) fn serve(
        self,
        subject: Subject,
        collectors: Vec<Box<dyn Collector>>,
    ) -> Result<Serving, AdminError> {
        let registry = match self.registry {
            Some(registry) => registry,
            None => gathered(collectors)?,
        };
        Serving::begin(self.listen, self.pages, subject, registry)
    }
}

/// A registry with these collectors.
fn gathered(collectors: Vec<Box<dyn Collector>>) -> Result<Registry, AdminError> {
    let registry = Registry::new();
    for collector in collectors {
        let registered = registry.register(collector);
        registered.map_err(|source| AdminError::Collectors { source })?;
    }
    Ok(registry)
}

impl fmt::Debug for AdminServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminServer")
            .field("listen", &self.listen)
            .field("routes", &self.pages.routes.keys())
            .finish_non_exhaustive()
    }
}

// === impl Listen ===

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl From<([u8; 4], u16)> for Listen {
    fn from(address: ([u8; 4], u16)) -> Self {
        Self::Address(address.into())
    }
}

impl From<TcpListener> for Listen {
    fn from(listener: TcpListener) -> Self {
        Self::Listener(listener)
    }
}
