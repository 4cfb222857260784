//! A simulation: an operator, its users, and the faults to try.

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

/// Runs an operator under virtual time against an API server in the process, injects faults, and
/// checks what must hold.
///
/// # Contract
///
/// *Guaranteed.*
/// - **Repeatable.** A run follows from its [`Plan`] alone: uids, times, delays and
///   the order of tasks are the same in every process. The text of a plan replays it.
/// - **One thread.** Each run has a runtime of its own, with paused time.
/// - **The end state** of each run is compared with that of a run without faults, after all
///   faults have ended and the operator had [time to recover](Self::recovery). The names of the
///   oracles are in `docs/testing.md`.
///
/// *Required.* The operator does everything through its [`Process`], and nothing that depends on
/// the process it runs in: no sockets, no threads, no `SystemTime::now()`, no random numbers
/// but those seeded with [`random_seed`](windlass_informer::random_seed), no output that depends
/// on the order of a `HashMap`, no `tokio::select!` without `biased`.
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
///     controller.add_informer("configs", &configs)?;
///     let external = process.external();
///     controller.add_reconciler("configs", move |request: Request<ConfigMap>| {
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

/// Looks at the end state; an error says what is wrong.
pub(crate) type Check = Arc<dyn Fn(&EndState) -> Result<(), String> + Send + Sync>;

/// The settings: which faults and runs are tried.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) beginning: Vec<Step>,
    pub(crate) steps: Vec<Step>,
    pub(crate) oracles: Vec<(String, Check)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) oracles_left_out: Vec<String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) ignored: BTreeSet<String>,
    pub(crate) replicas: usize,
    pub(crate) seeds: u64,
    pub(crate) single_faults: usize,
    pub(crate) pace: Duration,
    pub(crate) recovery: Duration,
    pub(crate) stay: Duration,
    pub(crate) request_limit: u64,
    /// Whether the server may refuse steps as invalid: it does in walks.
    pub(crate) has_invalid_steps: bool,
}

// === impl Simulation ===

impl Simulation {
    /// How many runs with random faults are made by default: a second or two.
    pub const DEFAULT_SEEDS: u64 = 20;

    /// How long the operator has to recover from all faults: longer than the retries of a
    /// controller are apart at most (5 min, and jitter), and than a silent watch stays unnoticed.
    pub const DEFAULT_RECOVERY: Duration = Duration::from_secs(1200);

    /// How long the end state has to stay.
    pub const DEFAULT_STAY: Duration = Duration::from_secs(300);

    /// The longest pause between two steps of the users.
    pub const DEFAULT_PACE: Duration = Duration::from_secs(4);

    /// A hundred times what a small operator sends in a run.
    pub const DEFAULT_REQUEST_LIMIT: u64 = 20_000;

    /// Prepares the simulation of an operator. `name` is how reports name it.
    ///
    /// `operator` is called for each start of a process, and runs it until the future is dropped
    /// or ends; whatever it ends with is shown in the trace.
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
                beginning: Vec::new(),
                steps: Vec::new(),
                oracles: Vec::new(),
                faults: Fault::ALL.to_vec(),
                oracles_left_out: Vec::new(),
                secrets: Vec::new(),
                ignored: ignored.map(str::to_owned).into(),
                replicas: 1,
                seeds: Self::DEFAULT_SEEDS,
                single_faults: usize::MAX,
                pace: Self::DEFAULT_PACE,
                recovery: Self::DEFAULT_RECOVERY,
                stay: Self::DEFAULT_STAY,
                request_limit: Self::DEFAULT_REQUEST_LIMIT,
                has_invalid_steps: false,
            }),
        }
    }

    /// Adds an object that exists before the operator starts, such as a definition of a custom
    /// resource. If the server refuses it, a run without faults breaks the oracle
    /// `every_step_succeeds`.
    pub fn object<K>(self, object: &K) -> Self
    where
        K: Resource + Serialize,
        K::DynamicType: Default,
    {
        self.set(|settings| settings.beginning.push(Step::create(object)))
    }

    /// Adds a step that is made before the operator starts: as [`object`](Self::object), of any
    /// kind.
    pub fn initial_step(self, step: Step) -> Self {
        self.set(|settings| settings.beginning.push(step))
    }

    /// Adds a step of the users, after those before it and a pause. If the server refuses it, a
    /// run without faults breaks the oracle `every_step_succeeds`.
    pub fn step(self, step: Step) -> Self {
        self.set(|settings| settings.steps.push(step))
    }

    /// Adds several [steps](Self::step).
    pub fn steps(self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.set(|settings| settings.steps.extend(steps))
    }

    /// Adds an oracle: something that must hold of every end state. An error says what is wrong.
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

    /// Adds a text that must be in no log line and in no span, of any level: the content of a
    /// secret that a step has. Runs are slower with it. The default is none.
    pub fn secret(self, text: &str) -> Self {
        self.set(|settings| settings.secrets.push(text.to_owned()))
    }

    /// Sets which faults happen. The default is all that fit the operator.
    pub fn faults(self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.set(|settings| settings.faults = faults.into_iter().collect())
    }

    /// Leaves faults out that the operator does not claim to survive.
    pub fn without_faults(self, faults: impl IntoIterator<Item = Fault>) -> Self {
        let left_out: Vec<_> = faults.into_iter().collect();
        self.set(|settings| settings.faults.retain(|it| !left_out.contains(it)))
    }

    /// Leaves out an oracle of `docs/testing.md` that does not fit the operator: for example
    /// `calls_begin_after_the_first_lists`, if its controllers do not wait for each other.
    pub fn without_oracle(self, name: &str) -> Self {
        self.set(|settings| settings.oracles_left_out.push(name.to_owned()))
    }

    /// Leaves a resource, such as `configmaps`, out of the end state. Leases and events are left
    /// out always.
    pub fn ignore(self, resource: &str) -> Self {
        self.set(|settings| _ = settings.ignored.insert(resource.to_owned()))
    }

    /// Sets how many replicas of the operator run at once. The default is 1.
    pub fn replicas(self, replicas: usize) -> Self {
        self.set(|settings| settings.replicas = replicas.max(1))
    }

    /// Sets how many runs with random faults are made. The default is 20.
    pub fn seeds(self, seeds: u64) -> Self {
        self.set(|settings| settings.seeds = seeds)
    }

    /// Sets how many runs with one fault are made at most: if there are more, a random sample of
    /// them is made, each time the same. The default is every fault at every step.
    pub fn single_faults(self, most: usize) -> Self {
        self.set(|settings| settings.single_faults = most)
    }

    /// Sets the longest pause between two steps of the users. The default is 4 s.
    pub fn pace(self, pace: Duration) -> Self {
        self.set(|settings| settings.pace = pace)
    }

    /// Sets how long the operator has to recover from all faults, in virtual time. The default is
    /// 20 min.
    pub fn recovery(self, recovery: Duration) -> Self {
        self.set(|settings| settings.recovery = recovery)
    }

    /// Sets for how long the end state must not change. The default is 5 min.
    pub fn stay(self, stay: Duration) -> Self {
        self.set(|settings| settings.stay = stay)
    }

    /// Sets how many requests a run may have. The default is 20,000.
    pub fn request_limit(self, limit: u64) -> Self {
        self.set(|settings| settings.request_limit = limit)
    }

    /// Runs everything: twice without faults, each fault alone at each step, and random
    /// combinations of faults.
    ///
    /// The environment variable `WINDLASS_SIMULATION` replays one [`Plan`] instead, and prints its
    /// trace. `WINDLASS_SIMULATION_SEEDS` sets how many random runs are made,
    /// `WINDLASS_SIMULATION_SECONDS` for how many seconds they are made instead, and
    /// `WINDLASS_SIMULATION_SINGLE_FAULTS` how many runs with one fault are made at most.
    ///
    /// # Errors
    ///
    /// [`Failure`] of the first run that broke an oracle, with the smallest plan that breaks it.
    ///
    /// # Panics
    ///
    /// If a thread cannot be started, or one of these variables is malformed.
    pub fn run(&self) -> Result<Summary, Box<Failure>> {
        explore::explore(self)
    }

    /// Runs one plan, and returns what happened. No oracle is checked.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
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
