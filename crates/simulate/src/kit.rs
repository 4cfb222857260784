//! A test kit: runs an operator against an API server in the test, in virtual time, and checks what
//! the operator does.
//!
//! `docs/testing.md` has an example. The difference to a [`Simulation`](crate::Simulation): the test
//! says what happens in which order, and what it expects after each step.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::StatusCode;
use kube::Client;
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{runtime::Builder, time::sleep};
use tokio_util::sync::CancellationToken;
use windlass_controller::{CallObserver, observe_calls};
use windlass_informer::SimulatedHost;

use self::{gates::Gates, journal::Journal, watchdog::Watchdog};
use crate::{direct::Direct, run};

mod connection;
mod expectation;
mod gates;
mod journal;
mod manifests;
mod matching;
mod objects;
mod operator;
mod paths;
mod permissions;
mod quiet;
mod status;
mod watchdog;

pub use self::{
    expectation::Expectation as KitExpectation,
    gates::{Hold, Outage, Verb},
    journal::{Call, Calls, Mark, Write},
    operator::KitOperator,
    permissions::MissingRule,
    status::NewStatus,
};

/// An API server, the operators that run on it, and the journal of what they do.
///
/// # Contract
///
/// *Guaranteed.* In [`run`], everything happens on one thread, in virtual time that passes only while
/// all tasks wait, with the same random numbers in every execution. The methods of the kit are those
/// of a user of the cluster: they are not recorded and never refused.
///
/// *Required.* As for a [`Simulation`](crate::Simulation): no sockets, no threads, no
/// `SystemTime::now()`.
///
/// *Not guaranteed.* [`calls`](Self::calls) has only the calls of controllers that run on the thread
/// on which the kit was created.
///
/// Names are `blog` or `namespace/blog`; without a namespace, it is that of the client: `default` in
/// [`run`].
#[derive(Clone)]
pub struct Kit {
    core: Arc<Core>,
}

struct Core {
    user: Direct,
    client: Client,
    /// The namespace of names without one.
    namespace: String,
    journal: Arc<Journal>,
    gates: Gates,
    operators: Mutex<Vec<Arc<operator::OperatorProcess>>>,
    /// By resource and version: whether its objects have a namespace.
    namespaced: Mutex<BTreeMap<String, bool>>,
    /// The source of latencies, in virtual time.
    random: Option<Mutex<StdRng>>,
    write_lock: tokio::sync::Mutex<()>,
    seed: u64,
}

/// The longest wait of an expectation.
const LIMIT: Duration = Duration::from_secs(60);

/// The largest latency in virtual time, in milliseconds.
const LATENCY: u64 = 5;

/// The environment variable with the seed of the random numbers.
const SEED: &str = "WINDLASS_KIT_SEED";

/// Runs a test on a new API server, on a runtime of its own: one thread, in virtual time.
///
/// The random numbers follow from a constant, or from the environment variable `WINDLASS_KIT_SEED`.
///
/// # Panics
///
/// If `test` panics, if this thread has a runtime already, if an operator ended by itself and the test
/// did not ask for it with [`KitOperator::ended`], or if an operator lacks a permission and the test did
/// not ask for it with [`KitOperator::missing_rules`].
pub fn run(test: impl AsyncFnOnce(Kit)) {
    let seed = std::env::var(SEED).ok();
    let seed = seed.map_or(1, |it| {
        it.parse()
            .unwrap_or_else(|_| panic!("{SEED} is not a number: {it:?}"))
    });
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime without I/O needs no resources of the system");
    runtime.block_on(async {
        let start = SystemTime::UNIX_EPOCH + run::START;
        let _host = SimulatedHost::enter(seed, start);
        let server = run::server(seed, start);
        let client = Client::new(server.service(), "default");
        let random = StdRng::seed_from_u64(!seed);
        let kit = Kit::new(Direct::new(server), client, Some(random), seed);
        let _watchdog = Watchdog::of(&kit.core);
        test(kit.clone()).await;
        let operators = kit.core.operators.lock().clone();
        let unnoticed = operators.iter().find_map(|it| it.unnoticed());
        observe_calls(None);
        if let Some(unnoticed) = unnoticed {
            panic!("{unnoticed}");
        }
    });
}

// === impl Kit ===

impl Kit {
    /// Creates a kit for an existing cluster, where time is real: an operator is
    /// [quiet](Self::quiet) after two seconds. Names without a namespace are in the default namespace
    /// of `client`. [`calls`](Self::calls) has all calls only if the runtime has one thread, as that of
    /// `#[tokio::test]`. The kit deletes nothing by itself.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::{Client, Config};
    /// use windlass_simulate::kit::Kit;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut config = Config::infer().await?;
    /// config.default_namespace = "website-keeps".to_owned();
    /// let kit = Kit::connect(Client::try_from(config)?);
    /// kit.install("{apiVersion: v1, kind: Namespace, metadata: {name: website-keeps}}").await;
    /// // The test.
    /// kit.delete::<Namespace>("website-keeps").await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn connect(client: Client) -> Self {
        Self::new(Direct::of_client(client.clone()), client, None, 0)
    }

    fn new(user: Direct, client: Client, random: Option<StdRng>, seed: u64) -> Self {
        let journal = Arc::new(Journal::new());
        observe_calls(Some(Arc::clone(&journal) as Arc<dyn CallObserver>));
        Self {
            core: Arc::new(Core {
                user,
                namespace: client.default_namespace().to_owned(),
                client,
                journal,
                gates: Gates::default(),
                operators: Mutex::default(),
                namespaced: Mutex::default(),
                random: random.map(Mutex::new),
                write_lock: tokio::sync::Mutex::default(),
                seed,
            }),
        }
    }

    // --- operators ---

    /// Starts an operator: `operator` gets its client, and the token that is cancelled when it has to
    /// stop. It is called again by [`KitOperator::restart`].
    pub fn start<F, Fut>(&self, operator: F) -> KitOperator
    where
        F: Fn(Client, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: fmt::Debug> + Send + 'static,
    {
        KitOperator::start(&self.core, None, operator)
    }

    /// Starts an operator with the permissions of a service account, `name` or `namespace/name`: those
    /// of the roles that are bound to it, and to the groups of all service accounts. The other
    /// functions of the kit have all permissions.
    ///
    /// A request without a permission gets 403, and [`KitOperator::missing_rules`] names the rule. In
    /// [`run`], a test fails with these rules at its end, unless it has asked for them. The client of
    /// the kit needs the permission to impersonate the account.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kube::{Api, Client};
    /// use tokio_util::sync::CancellationToken;
    /// use windlass_simulate::kit::{self, Kit};
    ///
    /// // In a test, `include_str!` of the manifests that the operator is deployed with.
    /// const ROLES: &str = "
    /// apiVersion: rbac.authorization.k8s.io/v1
    /// kind: Role
    /// metadata: { name: reader }
    /// rules: [{ apiGroups: [''], resources: [secrets], verbs: [list] }]
    /// ---
    /// apiVersion: rbac.authorization.k8s.io/v1
    /// kind: RoleBinding
    /// metadata: { name: reader }
    /// roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader }
    /// subjects: [{ kind: ServiceAccount, name: reader }]
    /// ";
    ///
    /// async fn operator(client: Client, stop: CancellationToken) {
    ///     let secrets = Api::<Secret>::default_namespaced(client);
    ///     assert!(secrets.list(&Default::default()).await.is_ok());
    ///     _ = secrets.get("token").await; // `get` is not `list`
    ///     stop.cancelled().await;
    /// }
    ///
    /// kit::run(async |kit: Kit| {
    ///     kit.install(ROLES).await;
    ///     let operator = kit.start_as("reader", operator);
    ///     kit.quiet().await;
    ///     let missing = operator.missing_rules();
    ///     assert_eq!(missing.len(), 1);
    ///     assert_eq!(
    ///         missing[0].to_string(),
    ///         r#"{ apiGroups: [""], resources: ["secrets"], verbs: ["get"] } in the namespace default"#
    ///     );
    /// });
    /// ```
    pub fn start_as<F, Fut>(&self, account: &str, operator: F) -> KitOperator
    where
        F: Fn(Client, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: fmt::Debug> + Send + 'static,
    {
        let (namespace, name) = match account.split_once('/') {
            Some(parts) => parts,
            None => (self.namespace(), account),
        };
        let account = format!("system:serviceaccount:{namespace}:{name}");
        self.core.user.enable_rbac();
        KitOperator::start(&self.core, Some(account), operator)
    }

    /// The namespace of names without one.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.core.namespace
    }

    // --- the journal and time ---

    /// Returns the current point in the journal.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.core.journal.mark()
    }

    /// The write requests of operators since `since`, except those to leases.
    #[must_use]
    pub fn writes(&self, since: Mark) -> Vec<Write> {
        self.core.journal.writes(since)
    }

    /// The calls of handlers that have ended since `since`.
    #[must_use]
    pub fn calls(&self, since: Mark) -> Calls {
        self.core.journal.calls(since)
    }

    /// The time of day, for the operators too. In [`run`] it begins at 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        windlass_informer::wall_clock()
    }

    /// Lets time pass. What is due exactly then may happen afterwards: [`quiet`](Self::quiet) waits
    /// for it.
    pub async fn advance(&self, time: Duration) {
        sleep(time).await;
    }

    // --- faults ---

    /// Refuses the next request of an operator with this verb and resource, such as `deployments` or
    /// `deployments.apps`, with an HTTP code. The request does not reach the server.
    ///
    /// # Panics
    ///
    /// If `code` is no code of an error.
    #[track_caller]
    pub fn refuse_next(&self, verb: Verb, resource: &str, code: u16) {
        let status = StatusCode::from_u16(code).ok();
        let status = status.filter(|it| it.is_client_error() || it.is_server_error());
        let status = status.unwrap_or_else(|| panic!("{code} is no code of an error"));
        self.core.gates.refuse_next(verb, resource, status);
    }

    /// Holds the requests of operators with this verb and resource before they reach the server, until
    /// the hold is released or dropped.
    pub fn hold(&self, verb: Verb, resource: &str) -> Hold {
        self.core.gates.add_hold(verb, resource)
    }

    /// Makes the API server unreachable for operators, until the outage is ended or dropped: their
    /// running watches end, and each of their requests fails with a connection error. A request in
    /// progress can reach the server, and its response is lost. The methods of the kit still reach the
    /// server.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::{Api, Client};
    /// use tokio_util::sync::CancellationToken;
    /// use windlass_simulate::kit::{self, Kit};
    ///
    /// /// Creates the config map `started`.
    /// async fn operator(client: Client, _stop: CancellationToken) -> Result<(), kube::Error> {
    ///     let mut config = ConfigMap::default();
    ///     config.metadata.name = Some("started".to_owned());
    ///     let configs = Api::<ConfigMap>::default_namespaced(client);
    ///     configs.create(&Default::default(), &config).await.map(drop)
    /// }
    ///
    /// kit::run(async |kit: Kit| {
    ///     let outage = kit.outage();
    ///     let operator = kit.start(operator);
    ///     kit.quiet().await;
    ///     assert!(operator.ended().is_some_and(|it| it.starts_with("Err")));
    ///     assert!(kit.get::<ConfigMap>("started").await.is_none());
    ///
    ///     outage.end();
    ///     operator.restart();
    ///     kit.quiet().await;
    ///     assert_eq!(operator.ended().as_deref(), Some("Ok(())"));
    ///     assert!(kit.get::<ConfigMap>("started").await.is_some());
    /// });
    /// ```
    pub fn outage(&self) -> Outage {
        self.core.gates.begin_outage()
    }

    /// Ends the running watches of operators once, as an API server does after its timeout. New watches
    /// can start immediately.
    pub fn close_watches(&self) {
        self.core.gates.close_watches();
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit")
            .field("seed", &self.core.seed)
            .finish_non_exhaustive()
    }
}

// === impl Core ===

impl Core {
    fn latency(&self) -> Duration {
        let random = self.random.as_ref();
        let millis = random.map(|it| it.lock().random_range(1..=LATENCY));
        Duration::from_millis(millis.unwrap_or_default())
    }

    /// The states of the operators, and the seed, for a failure.
    fn describe(&self) -> String {
        let operators = self.operators.lock();
        let states = (1..).zip(operators.iter());
        let states = states.map(|(number, it)| format!("\noperator {number} {}", it.describe()));
        let mut text: String = states.collect();
        text += &self.gates.describe();
        if self.random.is_some() {
            _ = write!(text, "\nseed: {SEED}={}", self.seed);
        }
        text
    }
}
