//! Walks: sequences of specs for one object, whose end state must not depend on the earlier specs.

use std::{collections::BTreeSet, fmt, time::Duration};

use kube::Resource;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    Failure, Plan, Simulation, Step, Violation,
    explore::{self, Plans},
    oracle,
    run::{Run, run},
    state,
};

mod specs;

/// Sequences of specs for one object, which are generated from the schema of its kind.
///
/// Specs are random, at a limit of the schema (an empty text, the highest number, no optional
/// field), or invalid. Each spec is first tried alone, with a new object, and classified:
/// - *refused*: the API server rejects it,
/// - *failing*: the API server accepts it, but after the time to recover the handlers still fail,
///   or the API server still rejects writes of the operator,
/// - *attained*: all others.
///
/// A walk creates the object, replaces its spec several times with specs of all three classes, and
/// finally with an attained spec. The end state must then equal that of a new object with this last
/// spec. So an operator must recover when a failing spec is rolled back.
///
/// # Example
///
/// See [`Simulation::walks`].
#[derive(Clone, Debug)]
#[must_use = "walks are made by `Simulation::walks`"]
pub struct Walks {
    object: Value,
    collection: String,
    schema: Value,
    specs: usize,
    count: u64,
    longest: usize,
}

/// The summary of walks in which no oracle was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalkSummary {
    /// The name of the simulation.
    pub name: String,
    /// The number of attained specs.
    pub attained: usize,
    /// The number of failing specs: the API server accepted them, and the operator failed.
    pub failing: usize,
    /// The number of refused specs: the API server rejected them.
    pub refused: usize,
    /// The number of walks. All of them passed.
    pub walks: usize,
    /// The duration of the walks in real time.
    pub took: Duration,
}

/// An attained spec, and the end state of a new object with this spec.
struct AttainedSpec {
    spec: Value,
    fields: state::Fields,
    /// The fields that differ between two runs.
    masked: BTreeSet<String>,
}

/// All specs, by class.
#[derive(Default)]
struct Specs {
    attained: Vec<AttainedSpec>,
    failing: Vec<Value>,
    refused: Vec<Value>,
}

// === impl Walks ===

impl Walks {
    /// The default number of generated specs.
    pub const DEFAULT_SPECS: usize = 30;

    /// The default number of walks, which take one or two seconds.
    pub const DEFAULT_WALKS: u64 = 30;

    /// The default of the largest number of specs in a walk.
    pub const DEFAULT_LONGEST: usize = 5;

    /// Creates walks for `object`. `definition` is the `CustomResourceDefinition` of its kind, and
    /// the schema is that of the version of `K`.
    ///
    /// For a field with a pattern or a format, the value of `object` is used. Without a schema for
    /// `spec`, the only spec is that of `object`.
    pub fn new<K>(definition: &impl Serialize, object: &K) -> Self
    where
        K: Resource + Serialize,
        K::DynamicType: Default,
    {
        let kind = K::DynamicType::default();
        let collection = K::url_path(&kind, object.meta().namespace.as_deref());
        let definition = serde_json::to_value(definition).unwrap_or_default();
        let versions = definition["spec"]["versions"].as_array();
        let of_kind = versions.into_iter().flatten();
        let version = of_kind
            .filter(|it| it["name"].as_str() == Some(&K::version(&kind)))
            .map(|it| it["schema"]["openAPIV3Schema"]["properties"]["spec"].clone());
        Self {
            object: serde_json::to_value(object).unwrap_or_default(),
            collection,
            schema: version.last().unwrap_or_default(),
            specs: Self::DEFAULT_SPECS,
            count: Self::DEFAULT_WALKS,
            longest: Self::DEFAULT_LONGEST,
        }
    }

    /// Sets the number of generated specs. The default is 30.
    pub const fn specs(mut self, specs: usize) -> Self {
        self.specs = specs;
        self
    }

    /// Sets the number of walks. The default is 30.
    pub const fn walks(mut self, walks: u64) -> Self {
        self.count = walks;
        self
    }

    /// Sets the largest number of specs in a walk, at least 2. The default is 5.
    pub const fn longest(mut self, longest: usize) -> Self {
        self.longest = longest;
        self
    }

    fn create(&self, spec: &Value) -> Step {
        let mut object = self.object.clone();
        object["spec"] = spec.clone();
        Step::create_at(self.collection.clone(), object)
    }

    fn change(&self, spec: &Value) -> Step {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default();
        Step::replace_spec_at(format!("{}/{name}", self.collection), spec.clone())
    }

    /// The steps of the walk with this seed, each with the spec that it writes.
    fn path(&self, specs: &Specs, seed: u64) -> Vec<(Step, Value)> {
        let mut random = StdRng::seed_from_u64(seed);
        let attained: Vec<_> = specs.attained.iter().map(|it| &it.spec).collect();
        let accepted: Vec<_> = attained.iter().copied().chain(&specs.failing).collect();
        let all: Vec<_> = accepted.iter().copied().chain(&specs.refused).collect();
        let mut path = Vec::new();
        let first = accepted.choose(&mut random).copied();
        path.extend(first.map(|spec| (self.create(spec), spec.clone())));
        let between = random.random_range(0..=self.longest.saturating_sub(2));
        let between = (0..between).filter_map(|_| all.choose(&mut random).copied());
        let between: Vec<_> = between.collect();
        let last = attained.choose(&mut random).copied();
        let rest = between.into_iter().chain(last);
        path.extend(rest.map(|spec| (self.change(spec), spec.clone())));
        path
    }
}

// === impl Specs ===

impl Specs {
    /// Tries each spec alone with a new object, and classifies it.
    fn new(simulation: &Simulation, walks: &Walks) -> Result<Self, Box<Failure>> {
        let given = &walks.object["spec"];
        let mut specs = Self::default();
        for spec in specs::specs(&walks.schema, given, walks.specs, 1) {
            let from_nothing = simulation.with_steps(vec![walks.create(&spec)]);
            let plan = Plan::quiet(1);
            let one = run(&from_nothing, &plan);
            let other = run(&from_nothing, &Plan::quiet(2));
            if !one.violations.is_empty() {
                return Err(explore::failure(&from_nothing, plan, one));
            }
            if one.refused_steps.contains(&0) {
                specs.refused.push(spec);
            } else if one.fails || other.fails {
                specs.failing.push(spec);
            } else {
                specs.attained.push(AttainedSpec {
                    spec,
                    masked: state::differing(&one.fields, &other.fields),
                    fields: one.fields,
                });
            }
        }
        if specs.attained.is_empty() {
            // Without an attained spec nothing would be compared, and every walk would pass.
            let from_nothing = simulation.with_steps(vec![walks.create(given)]);
            let plan = Plan::quiet(1);
            let mut run = run(&from_nothing, &plan);
            let text = format!(
                "none of {} specs was attained: {} failed and {} were refused",
                walks.specs,
                specs.failing.len(),
                specs.refused.len()
            );
            run.violations.push(Violation::new(oracle::ATTAINED, text));
            return Err(explore::failure(&from_nothing, plan, run));
        }
        Ok(specs)
    }

    /// Compares the end state of a walk with that of a new object with the last accepted spec.
    fn check(&self, path: &[(Step, Value)], plan: &Plan, run: &mut Run) {
        let mut steps = path.iter().enumerate();
        let last = steps.rfind(|(number, _)| {
            !run.refused_steps.contains(number) && !plan.without.contains(number)
        });
        let expected =
            last.and_then(|(_, (_, spec))| self.attained.iter().find(|it| it.spec == *spec));
        let Some(expected) = expected else { return };
        if let Some(violation) = oracle::compare(&expected.fields, run, &expected.masked) {
            run.violations
                .insert(0, Violation::new(oracle::PATH, violation));
        }
    }
}

impl Simulation {
    /// Runs [`Walks`]: sequences of specs of one object, without faults.
    ///
    /// The initial objects of the simulation are created, but its steps are not made. The
    /// environment variable `WINDLASS_SIMULATION` replays one walk.
    ///
    /// # Errors
    ///
    /// [`Failure`] of the first walk that broke an oracle, such as
    /// `the_end_state_does_not_depend_on_the_path`, without unnecessary specs.
    ///
    /// # Panics
    ///
    /// Like [`run`](Self::run).
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    /// use kube::{Api, CustomResource, CustomResourceExt as _};
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    /// use windlass_controller::{Failure, InformerController, Outcome, Request};
    /// use windlass_informer::Informer;
    /// use windlass_simulate::{Process, Simulation, Walks};
    ///
    /// #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
    /// #[kube(group = "example.io", version = "v1", kind = "Page", namespaced)]
    /// struct PageSpec {
    ///     text: String,
    /// }
    ///
    /// async fn operator(process: Process) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     let controller = InformerController::new();
    ///     let kind = controller.kind("pages")?;
    ///     controller.add_informer(&kind, &Informer::new(Api::<Page>::all(process.client())))?;
    ///     let external = process.external();
    ///     controller.add_reconciler(&kind, move |request: Request<Page>| {
    ///         let external = external.clone();
    ///         async move {
    ///             let text = request.object().spec.text.clone();
    ///             external.put(&request.key().to_string(), text).await?;
    ///             Ok::<_, Failure>(Outcome::done())
    ///         }
    ///     })?;
    ///     Ok(controller.run(process.stop()).await?)
    /// }
    ///
    /// let definition: CustomResourceDefinition = Page::crd();
    /// let mut page = Page::new("blog", PageSpec { text: "hello".into() });
    /// page.metadata.namespace = Some("default".into());
    /// let summary = Simulation::new("pages", operator)
    ///     .object(&definition)
    ///     .walks(&Walks::new(&definition, &page).specs(6).walks(4))?;
    /// assert_eq!(summary.walks, 4);
    /// # Ok::<(), Box<windlass_simulate::Failure>>(())
    /// ```
    pub fn walks(&self, walks: &Walks) -> Result<WalkSummary, Box<Failure>> {
        let began = Instant::now();
        let specs = explore::isolated(|| Specs::new(self, walks))?;
        let attempt = |plan: &Plan| {
            let path = walks.path(&specs, plan.seed);
            let steps = path.iter().map(|(step, _)| step.clone()).collect();
            let simulation = self.with_steps(steps);
            let mut run = run(&simulation, plan);
            specs.check(&path, plan, &mut run);
            (simulation, run)
        };
        let plans = match explore::replayed() {
            Some(plan) => Plans::of(vec![plan]),
            None => Plans::of((0..walks.count).map(Plan::quiet).collect()),
        };
        let (broken, made) = explore::first_broken(&self.settings.name, &plans, |plan| {
            let (_, run) = attempt(plan);
            (!run.violations.is_empty()).then_some(run)
        });
        if let Some((plan, run)) = broken {
            let oracle = run.violations[0].oracle.clone();
            let breaks = |plan: &Plan| {
                let (_, run) = attempt(plan);
                run.violations.iter().any(|it| it.oracle == oracle)
            };
            let steps = walks.path(&specs, plan.seed).len();
            // The first step creates the object.
            let plan = explore::isolated(|| explore::without_steps(plan, 1..steps, breaks));
            let (simulation, run) = explore::isolated(|| attempt(&plan));
            return Err(explore::failure(&simulation, plan, run));
        }
        Ok(WalkSummary {
            name: self.settings.name.clone(),
            attained: specs.attained.len(),
            failing: specs.failing.len(),
            refused: specs.refused.len(),
            walks: made,
            took: began.elapsed(),
        })
    }

    /// Returns the same simulation with the steps of a walk.
    fn with_steps(&self, steps: Vec<Step>) -> Self {
        self.clone().set(|settings| {
            settings.steps = steps;
            settings.has_invalid_steps = true;
        })
    }
}

// === impl WalkSummary ===

impl fmt::Display for WalkSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            attained,
            failing,
            refused,
            walks,
            took,
        } = self;
        let seconds = took.as_secs_f64();
        write!(
            f,
            "{name}: {attained} specs attained, {failing} failing, {refused} refused; {walks} \
             walks passed in {seconds:.1} s"
        )
    }
}
