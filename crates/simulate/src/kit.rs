//! A test kit: runs an operator against an API server in the test, in virtual time, and checks what
//! the operator does.
//!
//! `docs/testing.md` has an example. The difference to a [`Simulation`](crate::Simulation): the test
//! says what happens in which order, and what it expects after each step.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    future::Future,
    panic::Location,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::StatusCode;
use kube::{Client, Resource};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    runtime::Builder,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use windlass_controller::{CallObserver, observe_calls};
use windlass_informer::SimulatedHost;

use self::{connection::Gates, expectation::Expectation, journal::Journal};
use crate::{
    Step,
    direct::{Direct, Refusal},
    run,
};

mod connection;
mod expectation;
mod journal;
mod matching;
mod operator;

pub use self::{
    connection::{Hold, Verb},
    expectation::Expectation as KitExpectation,
    journal::{Call, Calls, Mark, Write},
    operator::KitOperator,
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
/// Names are `blog` or `namespace/blog`; the namespace is `default` if none is given.
#[derive(Clone)]
pub struct Kit {
    core: Arc<Core>,
}

struct Core {
    user: Direct,
    client: Client,
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

/// The time without a call and a write after which an operator is quiet.
const QUIET: Duration = Duration::from_secs(30);

/// The same, where time is real.
const REAL_QUIET: Duration = Duration::from_secs(2);

/// The longest wait for an operator to become quiet.
const QUIET_LIMIT: Duration = Duration::from_secs(3600);

/// The same, where time is real.
const REAL_QUIET_LIMIT: Duration = Duration::from_secs(120);

/// The number of writes after which an operator that is not quiet has failed.
const MOST_WRITES: u64 = 10_000;

/// The number of attempts of an edit that conflicts with other writers.
const EDITS: u32 = 20;

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
/// If `test` panics, if an operator ended by itself and the test did not ask for it with
/// [`KitOperator::ended`], or if this thread has a runtime already.
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
        test(kit.clone()).await;
        let operators = kit.core.operators.lock().clone();
        let ended = operators.iter().find_map(|it| it.ended_unnoticed());
        observe_calls(None);
        if let Some(how) = ended {
            panic!("an operator ended by itself: {how}");
        }
    });
}

// === impl Kit ===

impl Kit {
    /// Creates a kit for an existing cluster, where time is real: an operator is
    /// [quiet](Self::quiet) after two seconds. For the test of [`calls`](Self::calls) the runtime has
    /// one thread, as that of `#[tokio::test]`.
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
        KitOperator::start(&self.core, operator)
    }

    // --- what a user of the cluster does ---

    /// Creates a `CustomResourceDefinition`, and waits until its kind is served.
    ///
    /// # Panics
    ///
    /// If the server refuses it, or does not serve the kind within one minute.
    #[track_caller]
    pub fn install(&self, definition: &impl Serialize) -> impl Future<Output = ()> {
        let (place, core) = (Location::caller(), Arc::clone(&self.core));
        let definition = serde_json::to_value(definition).unwrap_or_default();
        async move {
            let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let created = core.user.create(collection, &definition).await;
            accepted(created, "install", collection, place);
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{collection}/{name}");
            let began = Instant::now();
            loop {
                let object = core.user.get(&path).await.unwrap_or_default();
                let conditions = object["status"]["conditions"].as_array().cloned();
                let is = |it: &Value| it["type"] == "Established" && it["status"] == "True";
                if conditions.unwrap_or_default().iter().any(is) {
                    return;
                }
                assert!(
                    began.elapsed() < LIMIT,
                    "{place}: {name} is not served after {LIMIT:?}"
                );
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Creates an object.
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    #[track_caller]
    pub fn create<K>(&self, object: &K) -> impl Future<Output = ()> + use<K>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let (place, kit) = (Location::caller(), self.clone());
        let (meta, content) = (object.meta().clone(), serde_json::to_value(object));
        async move {
            let collection = kit.collection::<K>(meta.namespace.as_deref(), place).await;
            let content = content.unwrap_or_else(|error| panic!("{place}: {error}"));
            let created = kit.core.user.create(&collection, &content).await;
            accepted(created, "create", &collection, place);
        }
    }

    /// Applies an object by server-side apply, as the field manager `kit`, with force.
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    #[track_caller]
    pub fn apply<K>(&self, object: &K) -> impl Future<Output = ()> + use<K>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let (place, kit) = (Location::caller(), self.clone());
        let (meta, content) = (object.meta().clone(), serde_json::to_value(object));
        async move {
            let mut content = content.unwrap_or_else(|error| panic!("{place}: {error}"));
            content["apiVersion"] = K::api_version(&()).into();
            content["kind"] = K::kind(&()).into();
            let collection = kit.collection::<K>(meta.namespace.as_deref(), place).await;
            let path = format!("{collection}/{}", meta.name.unwrap_or_default());
            accepted(
                kit.core.user.apply(&path, &content).await,
                "apply",
                &path,
                place,
            );
        }
    }

    /// Changes an object: reads it, calls `edit`, and writes it back. After a conflict with another
    /// writer it begins again.
    ///
    /// # Panics
    ///
    /// If the object does not exist or does not decode, if the server refuses the change, or after 20
    /// conflicts.
    #[track_caller]
    pub fn edit<K>(&self, name: &str, mut edit: impl FnMut(&mut K)) -> impl Future<Output = ()>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            let path = kit.path::<K>(&name, place).await;
            let mut result = Ok(());
            for _ in 0..EDITS {
                let Some(object) = kit.core.user.get(&path).await else {
                    panic!("{place}: cannot edit {path}: it does not exist");
                };
                let mut typed: K = decoded(object, &path, place);
                edit(&mut typed);
                let object = serde_json::to_value(&typed);
                let object = object.unwrap_or_else(|error| panic!("{place}: {error}"));
                result = kit.core.user.replace(&path, &object).await;
                if !matches!(&result, Err(refusal) if refusal.status == StatusCode::CONFLICT) {
                    break;
                }
            }
            accepted(result, "edit", &path, place);
        }
    }

    /// Merges `status` into the status of an object, as the controller of its kind does.
    ///
    /// # Panics
    ///
    /// If the server refuses the change.
    #[track_caller]
    pub fn set_status<K>(&self, name: &str, status: Value) -> impl Future<Output = ()> + use<K>
    where
        K: Resource<DynamicType = ()>,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            let path = format!("{}/status", kit.path::<K>(&name, place).await);
            let result = kit
                .core
                .user
                .merge(&path, &json!({ "status": status }))
                .await;
            accepted(result, "write", &path, place);
        }
    }

    /// Requests the deletion of an object, and does not wait for its finalizers.
    ///
    /// # Panics
    ///
    /// If the server refuses it, also because the object does not exist.
    #[track_caller]
    pub fn delete<K>(&self, name: &str) -> impl Future<Output = ()> + use<K>
    where
        K: Resource<DynamicType = ()>,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            let path = kit.path::<K>(&name, place).await;
            accepted(kit.core.user.delete(&path).await, "delete", &path, place);
        }
    }

    /// Makes a step of a [`Simulation`](crate::Simulation).
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    #[track_caller]
    pub fn step(&self, step: &Step) -> impl Future<Output = ()> + use<> {
        let (place, core, step) = (Location::caller(), Arc::clone(&self.core), step.clone());
        async move {
            let result = step.run(&core.user, &core.write_lock).await;
            accepted(result, "make the step", &step.to_string(), place);
        }
    }

    /// Returns an object, if it exists.
    ///
    /// # Panics
    ///
    /// If it does not decode.
    #[track_caller]
    pub fn get<K>(&self, name: &str) -> impl Future<Output = Option<K>> + use<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            let path = kit.path::<K>(&name, place).await;
            let object = kit.core.user.get(&path).await?;
            Some(decoded(object, &path, place))
        }
    }

    /// Returns all objects of a kind, of all namespaces.
    ///
    /// # Panics
    ///
    /// If the kind is not served, or an object does not decode.
    #[track_caller]
    pub fn list<K>(&self) -> impl Future<Output = Vec<K>> + use<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let (place, kit) = (Location::caller(), self.clone());
        async move {
            let path = K::url_path(&(), None);
            let Some(mut list) = kit.core.user.get(&path).await else {
                panic!("{place}: cannot list {path}");
            };
            let items = list["items"]
                .as_array_mut()
                .map(std::mem::take)
                .unwrap_or_default();
            items
                .into_iter()
                .map(|it| decoded(it, &path, place))
                .collect()
        }
    }

    // --- expectations ---

    /// Expects something of an object.
    #[track_caller]
    pub fn expect<K>(&self, name: &str) -> Expectation<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        Expectation::new(self.clone(), name, Location::caller())
    }

    /// Waits until an object does not exist, for at most one minute.
    ///
    /// # Panics
    ///
    /// If it still exists then.
    #[track_caller]
    pub fn expect_gone<K>(&self, name: &str) -> impl Future<Output = ()>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.expect::<K>(name).wait_until_absent()
    }

    /// Waits for `time`, and checks in this time every 50 ms that `is` returns false for an object.
    ///
    /// # Panics
    ///
    /// If it returns true.
    #[track_caller]
    pub fn expect_never<K>(
        &self,
        name: &str,
        time: Duration,
        is: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = ()>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.expect::<K>(name).never(time, is)
    }

    /// Waits until there is no call and no write for 30 s of virtual time, or for two seconds of real
    /// time. While requests are [held](Self::hold), calls in progress are ignored.
    ///
    /// # Panics
    ///
    /// After 10,000 writes, or after one hour of virtual time or two minutes of real time. The message
    /// names what is written and called most: this is a hot loop.
    #[track_caller]
    pub fn quiet(&self) -> impl Future<Output = ()> + use<> {
        let (place, core) = (Location::caller(), Arc::clone(&self.core));
        async move {
            let (window, limit) = match core.random {
                Some(_) => (QUIET, QUIET_LIMIT),
                None => (REAL_QUIET, REAL_QUIET_LIMIT),
            };
            let (began, mark) = (Instant::now(), core.journal.mark());
            let first = core.journal.count_writes();
            core.journal.touch();
            loop {
                let open = core.journal.open_calls();
                let is_busy = !open.is_empty() && !core.gates.has_holds();
                let idle = core.journal.idle();
                if idle >= window && !is_busy {
                    return;
                }
                let writes = core.journal.count_writes() - first;
                if writes >= MOST_WRITES || began.elapsed() >= limit {
                    let most = core.journal.most_written(mark);
                    let open = open.join(", ");
                    panic!(
                        "{place}: the operators are not quiet after {:?} and {writes} writes; calls in \
                         progress: {open}; most often:{most}{}",
                        began.elapsed(),
                        core.describe(),
                    );
                }
                sleep(window.saturating_sub(idle).clamp(window / 30, window)).await;
            }
        }
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

    /// Lets time pass.
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

    // --- paths ---

    /// The path of the objects of a kind in a namespace.
    async fn collection<K>(&self, namespace: Option<&str>, place: &Location<'_>) -> String
    where
        K: Resource<DynamicType = ()>,
    {
        let resource = format!("{} {}", K::url_path(&(), None), K::plural(&()));
        let known = self.core.namespaced.lock().get(&resource).copied();
        let namespaced = if let Some(known) = known {
            known
        } else {
            {
                let version = match &*K::group(&()) {
                    "" => format!("/api/{}", K::version(&())),
                    group => format!("/apis/{group}/{}", K::version(&())),
                };
                let list = self.core.user.get(&version).await.unwrap_or_default();
                let resources = list["resources"].as_array().cloned().unwrap_or_default();
                let Some(found) = resources.iter().find(|it| it["name"] == *K::plural(&())) else {
                    panic!(
                        "{place}: the server does not serve {} of {version}; `install` its \
                         CustomResourceDefinition first",
                        K::plural(&())
                    );
                };
                let namespaced = found["namespaced"] == true;
                self.core.namespaced.lock().insert(resource, namespaced);
                namespaced
            }
        };
        K::url_path(&(), namespaced.then(|| namespace.unwrap_or("default")))
    }

    async fn path<K>(&self, name: &str, place: &Location<'_>) -> String
    where
        K: Resource<DynamicType = ()>,
    {
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, name),
        };
        format!("{}/{name}", self.collection::<K>(namespace, place).await)
    }

    /// The name of an object as the journal has it.
    fn object_name<K: Resource<DynamicType = ()>>(&self, name: &str) -> String {
        let resource = format!("{} {}", K::url_path(&(), None), K::plural(&()));
        let namespaced = self.core.namespaced.lock().get(&resource).copied();
        if name.contains('/') || namespaced == Some(false) {
            name.to_owned()
        } else {
            format!("default/{name}")
        }
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
        if self.random.is_some() {
            _ = write!(text, "\nseed: {SEED}={}", self.seed);
        }
        text
    }
}

/// The resource of a kind with its group, as in `deployments.apps`.
fn resource<K: Resource<DynamicType = ()>>() -> String {
    match &*K::group(&()) {
        "" => K::plural(&()).into_owned(),
        group => format!("{}.{group}", K::plural(&())),
    }
}

fn decoded<K: DeserializeOwned>(object: Value, path: &str, place: &Location<'_>) -> K {
    serde_json::from_value(object)
        .unwrap_or_else(|error| panic!("{place}: {path} does not decode: {error}"))
}

/// Panics if the server refused a write of the test.
fn accepted(result: Result<(), Refusal>, what: &str, path: &str, place: &Location<'_>) {
    if let Err(refusal) = result {
        panic!("{place}: cannot {what} {path}: {refusal}");
    }
}
