//! A simulation: an operator, the steps of its users, and the faults to inject.

use std::{
    collections::BTreeSet,
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use kube::Resource;
use serde::Serialize;

use crate::{EndState, Failure, Fault, Plan, Process, Step, Summary, Trace, explore, run};

/// Runs an operator in virtual time against an in-process API server, injects faults, and checks
/// the oracles.
///
/// # Contract
///
/// *Guaranteed.*
/// - **Repeatable.** A run depends only on its [`Plan`]: uids, times, delays and the order of
///   tasks are the same in every process. The text of a plan replays it.
/// - **One thread.** Each run has a separate runtime with paused time.
/// - **The end state** of each run is compared with that of a run without faults, after all
///   faults have ended and the operator had [time to recover](Self::recovery). `docs/testing.md`
///   lists the oracles.
///
/// *Required.* The operator uses its [`Process`] for all effects, and nothing else that differs
/// between two executions: no sockets, no threads, no `SystemTime::now()`, no random numbers
/// except those seeded with [`random_seed`](windlass_informer::random_seed), no output that depends
/// on the order of a `HashMap`, and no `tokio::select!` without `biased`.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::Api;
/// use windlass_controller::{Failure, InformerController, Outcome, Request};
/// use windlass_informer::Informer;
/// use windlass_simulate::{Process, Simulation, Step};
///
/// async fn operator(process: Process) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     let configs = Informer::new(Api::<ConfigMap>::all(process.client()));
///     let controller = InformerController::new();
///     let kind = controller.kind("configs")?;
///     controller.add_informer(&kind, &configs)?;
///     let external = process.external();
///     controller.add_reconciler(&kind, move |request: Request<ConfigMap>| {
///         let external = external.clone();
///         async move {
///             external.put(&request.key().to_string(), "published").await?;
///             Ok::<_, Failure>(Outcome::done())
///         }
///     })?;
///     Ok(controller.run(process.stop()).await?)
/// }
///
/// let mut config = ConfigMap::default();
/// config.metadata.name = Some("blog".into());
/// config.metadata.namespace = Some("default".into());
/// let summary = Simulation::new("configs", operator)
///     .step(Step::create(&config))
///     .seeds(2)
///     .run()?;
/// assert!(summary.single_faults > 0);
/// # Ok::<(), Box<windlass_simulate::Failure>>(())
/// ```
#[derive(Clone)]
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation {
    pub(crate) operator: Operator,
    pub(crate) settings: Arc<Settings>,
}

pub(crate) type Operator = Arc<dyn Fn(Process) -> BoxFuture<'static, String> + Send + Sync>;

/// Checks the end state. The error describes the violation.
pub(crate) type Check = Arc<dyn Fn(&EndState) -> Result<(), String> + Send + Sync>;

/// The settings of a simulation: its steps, its faults and the number of runs.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) initial_steps: Vec<Step>,
    pub(crate) steps: Vec<Step>,
    pub(crate) oracles: Vec<(String, Check)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) oracles_left_out: Vec<String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) ignored: BTreeSet<String>,
    pub(crate) replicas: usize,
    pub(crate) seeds: u64,
    pub(crate) single_faults: usize,
    pub(crate) fault_pairs: usize,
    pub(crate) pace: Duration,
    pub(crate) recovery: Duration,
    pub(crate) stay: Duration,
    pub(crate) request_limit: u64,
    /// Whether the server may reject steps as invalid, which it does in walks.
    pub(crate) has_invalid_steps: bool,
}

// === impl Simulation ===

impl Simulation {
    /// The default number of runs with random faults, which take one or two seconds.
    pub const DEFAULT_SEEDS: u64 = 20;

    /// The default number of runs with two faults at one object.
    pub const DEFAULT_FAULT_PAIRS: usize = 50;

    /// The default time that the operator has to recover from all faults, in virtual time. It is
    /// longer than the longest pause between two retries of a controller (5 min and jitter), and
    /// longer than an informer needs to detect a silent watch.
    pub const DEFAULT_RECOVERY: Duration = Duration::from_secs(1200);

    /// The default time for which the end state must not change.
    pub const DEFAULT_STAY: Duration = Duration::from_secs(300);

    /// The default of the longest pause between two steps of the users.
    pub const DEFAULT_PACE: Duration = Duration::from_secs(4);

    /// The default limit of requests in a run: a hundred times the number that a small operator sends.
    pub const DEFAULT_REQUEST_LIMIT: u64 = 20_000;

    /// Creates a simulation of an operator. Reports use `name`.
    ///
    /// `operator` is called at each start of a process. Its future runs until it ends or is
    /// dropped. The trace shows its result.
    pub fn new<F, Fut>(name: &str, operator: F) -> Self
    where
        F: Fn(Process) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: Debug> + Send + 'static,
    {
        let operator = move |process| operator(process).map(|it| format!("{it:?}")).boxed();
        let ignored = [
            "leases.coordination.k8s.io",
            "events",
            "events.events.k8s.io",
        ];
        Self {
            operator: Arc::new(operator),
            settings: Arc::new(Settings {
                name: name.to_owned(),
                initial_steps: Vec::new(),
                steps: Vec::new(),
                oracles: Vec::new(),
                faults: Fault::ALL.to_vec(),
                oracles_left_out: Vec::new(),
                secrets: Vec::new(),
                ignored: ignored.map(str::to_owned).into(),
                replicas: 1,
                seeds: Self::DEFAULT_SEEDS,
                single_faults: usize::MAX,
                fault_pairs: Self::DEFAULT_FAULT_PAIRS,
                pace: Self::DEFAULT_PACE,
                recovery: Self::DEFAULT_RECOVERY,
                stay: Self::DEFAULT_STAY,
                request_limit: Self::DEFAULT_REQUEST_LIMIT,
                has_invalid_steps: false,
            }),
        }
    }

    /// Adds an object that is created before the operator starts, such as a custom resource
    /// definition. If the server rejects it, a run without faults breaks the oracle
    /// `every_step_succeeds`.
    pub fn object<K>(self, object: &K) -> Self
    where
        K: Resource + Serialize,
        K::DynamicType: Default,
    {
        self.set(|settings| settings.initial_steps.push(Step::create(object)))
    }

    /// Adds a step that is made before the operator starts. Unlike [`object`](Self::object), it can
    /// be any step.
    pub fn initial_step(self, step: Step) -> Self {
        self.set(|settings| settings.initial_steps.push(step))
    }

    /// Adds a step of the users. Steps are made in the order in which they were added, with pauses
    /// between them. If the server rejects a step, a run without faults breaks the oracle
    /// `every_step_succeeds`.
    pub fn step(self, step: Step) -> Self {
        self.set(|settings| settings.steps.push(step))
    }

    /// Adds several [steps](Self::step).
    pub fn steps(self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.set(|settings| settings.steps.extend(steps))
    }

    /// Adds an oracle: a check of every end state. The error of `check` describes the violation.
    pub fn oracle(
        self,
        name: &str,
        check: impl Fn(&EndState) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.set(|settings| {
            let check: Check = Arc::new(check);
            settings.oracles.push((name.to_owned(), check));
        })
    }

    /// Adds a text that no log line and no span may contain, of any level, such as the content of a
    /// secret. Runs are slower with this check. The default is no such text.
    pub fn secret(self, text: &str) -> Self {
        self.set(|settings| settings.secrets.push(text.to_owned()))
    }

    /// Sets the faults to inject. The default is [`Fault::ALL`].
    pub fn faults(self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.set(|settings| settings.faults = faults.into_iter().collect())
    }

    /// Excludes faults that the operator does not have to survive.
    pub fn without_faults(self, faults: impl IntoIterator<Item = Fault>) -> Self {
        let left_out: Vec<_> = faults.into_iter().collect();
        self.set(|settings| settings.faults.retain(|it| !left_out.contains(it)))
    }

    /// Disables an oracle of `docs/testing.md` that does not fit the operator, for example
    /// `calls_begin_after_the_first_lists` if its controllers do not wait for each other.
    pub fn without_oracle(self, name: &str) -> Self {
        self.set(|settings| settings.oracles_left_out.push(name.to_owned()))
    }

    /// Excludes a resource, such as `configmaps`, from the end state. Leases and events are always
    /// excluded.
    pub fn ignore(self, resource: &str) -> Self {
        self.set(|settings| _ = settings.ignored.insert(resource.to_owned()))
    }

    /// Sets the number of replicas of the operator. The default is 1.
    pub fn replicas(self, replicas: usize) -> Self {
        self.set(|settings| settings.replicas = replicas.max(1))
    }

    /// Sets the number of runs with random faults. The default is 20.
    pub fn seeds(self, seeds: u64) -> Self {
        self.set(|settings| settings.seeds = seeds)
    }

    /// Sets the largest number of runs with one fault. If there are more combinations of a fault
    /// and a step, a constant random sample of them is used. The default is every fault at every
    /// step.
    pub fn single_faults(self, most: usize) -> Self {
        self.set(|settings| settings.single_faults = most)
    }

    /// Sets the number of runs with two coinciding faults: at two steps in a row that touch objects of
    /// one name. They are a constant random sample of all such pairs. The default is 50.
    pub fn fault_pairs(self, pairs: usize) -> Self {
        self.set(|settings| settings.fault_pairs = pairs)
    }

    /// Sets the longest pause between two steps of the users. The default is 4 s.
    pub fn pace(self, pace: Duration) -> Self {
        self.set(|settings| settings.pace = pace)
    }

    /// Sets the time that the operator has to recover from all faults, in virtual time. The default
    /// is 20 min.
    pub fn recovery(self, recovery: Duration) -> Self {
        self.set(|settings| settings.recovery = recovery)
    }

    /// Sets the time for which the end state must not change. The default is 5 min.
    pub fn stay(self, stay: Duration) -> Self {
        self.set(|settings| settings.stay = stay)
    }

    /// Sets the largest number of requests in a run. The default is 20,000.
    pub fn request_limit(self, limit: u64) -> Self {
        self.set(|settings| settings.request_limit = limit)
    }

    /// Runs the simulation twice without faults, then with each fault alone at each step, then with
    /// pairs of faults that touch one object, then with random combinations of faults.
    ///
    /// Environment variables:
    ///
    /// - `WINDLASS_SIMULATION`: a [`Plan`]. Only this plan is run, and its trace is printed.
    /// - `WINDLASS_SIMULATION_SEEDS`: the number of runs with random faults.
    /// - `WINDLASS_SIMULATION_SECONDS`: the seconds in which runs with random faults are started,
    ///   instead of a number of runs.
    /// - `WINDLASS_SIMULATION_SINGLE_FAULTS`: the largest number of runs with one fault.
    /// - `WINDLASS_SIMULATION_FAULT_PAIRS`: the number of runs with two faults at one object.
    ///
    /// # Errors
    ///
    /// [`Failure`] of the first run that broke an oracle, with the smallest plan that breaks it.
    ///
    /// # Panics
    ///
    /// If a thread cannot be started, or if one of these variables is malformed.
    pub fn run(&self) -> Result<Summary, Box<Failure>> {
        explore::explore(self)
    }

    /// Runs one plan and returns its trace. No oracle is checked.
    ///
    /// # Panics
    ///
    /// Like [`run`](Self::run).
    #[must_use]
    pub fn trace(&self, plan: &Plan) -> Trace {
        explore::isolated(|| run::run(self, plan).trace)
    }

    pub(crate) fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("name", &self.settings.name)
            .field("steps", &self.settings.steps)
            .finish_non_exhaustive()
    }
}
