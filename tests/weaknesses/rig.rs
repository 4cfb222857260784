//! A running controller with a scripted informer: the test decides which events it delivers.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::{Registry, TextEncoder, core::Collector};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass::{
    Action, ExponentialBackoff, Informer, InformerController, Reconciler, Request, Watcher,
    controller::{InformerControllerBuilder, Kind, Registration, RunError},
    source::{Script, Scripted},
};

/// The kind of most tests.
pub(crate) const KIND: &str = "configs";

/// The error of handlers that fail on purpose.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) &'static str);

/// The lines that handlers logged, in order. All clones share one log.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

/// A controller, and the informer of its first kind.
pub(crate) struct Rig {
    pub(crate) controller: InformerController,
    pub(crate) kind: Kind<ConfigMap>,
    pub(crate) informer: Informer<ConfigMap>,
    pub(crate) script: Arc<Script<ConfigMap>>,
    pub(crate) stop: CancellationToken,
    pub(crate) log: Log,
    run: Option<JoinHandle<Result<(), RunError>>>,
}

// === impl Log ===

impl Log {
    pub(crate) fn push(&self, line: impl Display) {
        self.0.lock().expect("not poisoned").push(line.to_string());
    }

    /// Waits until all tasks are idle, and returns the lines since the last call.
    pub(crate) async fn take(&self) -> String {
        settle().await;
        std::mem::take(&mut *self.0.lock().expect("not poisoned")).join(", ")
    }
}

// === impl Rig ===

impl Rig {
    /// A controller with one informer of [`KIND`], which has not listed yet.
    pub(crate) fn new(builder: InformerControllerBuilder) -> Self {
        Self::over(builder, Informer::new)
    }

    /// Like [`Rig::new`], with a custom informer.
    pub(crate) fn over(
        builder: InformerControllerBuilder,
        informer: impl FnOnce(Scripted<ConfigMap>) -> Informer<ConfigMap>,
    ) -> Self {
        let controller = builder.build().expect("valid settings");
        let (script, source) = Scripted::new();
        let informer = informer(source);
        let kind = controller.kind(KIND).expect("a new kind");
        controller
            .add_informer(&kind, &informer)
            .expect("the first informer");
        Self {
            controller,
            kind,
            informer,
            script: Arc::new(script),
            stop: CancellationToken::new(),
            log: Log::default(),
            run: None,
        }
    }

    pub(crate) fn watch(&self, watcher: impl Watcher<ConfigMap>) -> Registration {
        let added = self.controller.add_watcher(&self.kind, watcher);
        added.expect("a watcher")
    }

    pub(crate) fn reconcile(&self, reconciler: impl Reconciler<ConfigMap>) -> Registration {
        let added = self.controller.add_reconciler(&self.kind, reconciler);
        added.expect("a reconciler")
    }

    /// Starts the controller, and lists no objects, so that all later events are live.
    pub(crate) async fn start(&mut self) {
        self.start_unsynced();
        self.script.list([]).await.expect("it runs");
        settle().await;
    }

    /// Starts the controller without a first list.
    pub(crate) fn start_unsynced(&mut self) {
        let (controller, stop) = (self.controller.clone(), self.stop.clone());
        self.run = Some(tokio::spawn(async move { controller.run(stop).await }));
    }

    pub(crate) async fn apply(&self, object: ConfigMap) {
        self.script.apply(object).await.expect("it runs");
    }

    pub(crate) async fn delete(&self, object: ConfigMap) {
        self.script.delete(object).await.expect("it runs");
    }

    /// Waits until all tasks are idle, and returns the lines since the last call.
    pub(crate) async fn logged(&self) -> String {
        self.log.take().await
    }

    pub(crate) fn pending(&self) -> usize {
        self.controller.pending_calls()
    }

    /// One series of the controller's metrics, by its name and some of its labels.
    pub(crate) fn counted(&self, name: &str, labels: &[&str]) -> i64 {
        counted(self.controller.prometheus_collectors(), name, labels)
    }

    /// Stops the controller, and checks that it ends without an error.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let run = self.run.take().expect("the rig was started");
        run.await.expect("it does not panic").expect("no error");
    }
}

/// The sum of the series called `name` that have all of `labels`, as `label="value"`.
pub(crate) fn counted(collectors: Vec<Box<dyn Collector>>, name: &str, labels: &[&str]) -> i64 {
    let all = series(collectors);
    let wanted = all.iter().filter(|(series, _)| {
        series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label))
    });
    let values: Vec<i64> = wanted
        .map(|(_, value)| value.parse().expect("a whole number"))
        .collect();
    assert!(!values.is_empty(), "no {name} {labels:?} in {all:#?}");
    values.iter().sum()
}

/// All series that `collectors` collect, in the text format.
pub(crate) fn series(collectors: Vec<Box<dyn Collector>>) -> BTreeMap<String, String> {
    let registry = Registry::new();
    for collector in collectors {
        registry.register(collector).expect("no name twice");
    }
    let text = TextEncoder::new().encode_to_string(&registry.gather());
    let text = text.expect("text");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_owned(), value.to_owned())
        })
        .collect()
}

/// A controller that logs no errors and waits 5 s before the first retry of five.
pub(crate) fn quiet() -> InformerControllerBuilder {
    InformerController::builder()
        .retry_policy(ExponentialBackoff::GRAFANA)
        .on_error(|_| {})
}

// --- objects and their text form ---

/// An object called `name`. `value` is also its generation, so each value is a change of the spec.
pub(crate) fn config(name: &str, value: u32) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("shop".to_owned());
    object.metadata.uid = Some(format!("uid-{name}"));
    object.metadata.generation = Some(i64::from(value));
    object.metadata.resource_version = Some(value.to_string());
    object.data = Some([("value".to_owned(), value.to_string())].into());
    object
}

/// A recreated object: the same name, but another uid.
pub(crate) fn recreated(name: &str, value: u32) -> ConfigMap {
    let mut object = config(name, value);
    object.metadata.uid = Some(format!("uid-{name}-2"));
    object
}

/// An object as `name=value`.
pub(crate) fn show(object: &ConfigMap) -> String {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    format!("{name}={}", value(object))
}

pub(crate) fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().map_or("?", |data| &data["value"])
}

/// A request as `created web=1`.
pub(crate) fn describe(request: &Request<ConfigMap>) -> String {
    let word = match request.action() {
        Action::Created => "created",
        Action::Updated => "updated",
        Action::Deleted => "deleted",
        _ => "resynced",
    };
    format!("{word} {}", show(request.object()))
}

/// Waits until all tasks are idle: paused time advances only then.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Advances the paused time.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(secs(seconds)).await;
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
