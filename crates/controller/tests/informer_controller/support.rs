//! A running controller with scripted informers.

use std::{fmt::Display, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Action, InformerController, InformerControllerBuilder, Kind, Outcome, Reconciler, Request,
    RunError, SimpleWatcher, Watcher,
};
use windlass_informer::{Informer, Script, Scripted};

/// The kind of most tests.
pub(crate) const KIND: &str = "configs";

/// The error of a handler that is scripted to fail.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) &'static str);

/// The calls, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

/// A controller, and the informer of its first kind.
pub(crate) struct Rig {
    pub(crate) controller: InformerController,
    pub(crate) kind: Kind<ConfigMap>,
    pub(crate) informer: Informer<ConfigMap>,
    pub(crate) script: Script<ConfigMap>,
    pub(crate) stop: CancellationToken,
    pub(crate) log: Log,
}

/// A running controller.
pub(crate) struct Running {
    pub(crate) rig: Rig,
    task: JoinHandle<Result<(), RunError>>,
}

// === impl Log ===

impl Log {
    pub(crate) fn say(&self, line: impl Display) {
        self.0.lock().push(line.to_string());
    }

    /// Waits until all tasks are idle, and returns the lines since the last call.
    pub(crate) async fn take(&self) -> String {
        settle().await;
        std::mem::take(&mut *self.0.lock()).join(", ")
    }

    /// A watcher that logs its calls.
    pub(crate) fn watcher(&self, name: &'static str) -> SimpleWatcher<ConfigMap> {
        let (add, update, delete) = (self.clone(), self.clone(), self.clone());
        SimpleWatcher::new()
            .on_add(move |object: Arc<ConfigMap>| {
                add.say(format_args!("{name} add {}", show(&object)));
                ok()
            })
            .on_update(move |old: Arc<ConfigMap>, new: Arc<ConfigMap>| {
                update.say(format_args!("{name} update {} {}", show(&old), show(&new)));
                ok()
            })
            .on_delete(move |last: Arc<ConfigMap>| {
                delete.say(format_args!("{name} delete {}", show(&last)));
                ok()
            })
    }

    /// A reconciler that records its requests.
    pub(crate) fn reconciler(&self, name: &'static str) -> impl Reconciler<ConfigMap> + use<> {
        let log = self.clone();
        move |request: Request<ConfigMap>| {
            log.say(format_args!("{name} {}", ask(&request)));
            async { Ok::<_, Refused>(Outcome::done()) }
        }
    }

    /// A watcher that logs its calls, and fails the first `times` of them.
    pub(crate) fn failing(&self, name: &'static str, times: usize) -> impl Watcher<ConfigMap> {
        Failing {
            name,
            log: self.clone(),
            left: Mutex::new(times),
        }
    }
}

struct Failing {
    name: &'static str,
    log: Log,
    left: Mutex<usize>,
}

impl Failing {
    fn call(&self, what: impl Display) -> Result<(), Refused> {
        self.log.say(format_args!("{} {what}", self.name));
        let mut left = self.left.lock();
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(Refused("not yet"))
    }
}

impl Watcher<ConfigMap> for Failing {
    type Error = Refused;

    async fn add(&self, object: Arc<ConfigMap>) -> Result<(), Refused> {
        self.call(format_args!("add {}", show(&object)))
    }

    async fn update(&self, old: Arc<ConfigMap>, new: Arc<ConfigMap>) -> Result<(), Refused> {
        self.call(format_args!("update {} {}", show(&old), show(&new)))
    }

    async fn delete(&self, last: Arc<ConfigMap>) -> Result<(), Refused> {
        self.call(format_args!("delete {}", show(&last)))
    }
}

// === impl Rig ===

impl Rig {
    /// A controller with one informer of [`KIND`], which has not listed yet.
    pub(crate) fn new(builder: InformerControllerBuilder) -> Self {
        let controller = builder.build().expect("good settings");
        let (script, source) = Scripted::new();
        let informer = Informer::new(source);
        let kind = controller.kind(KIND).expect("a new kind");
        controller
            .add_informer(&kind, &informer)
            .expect("the first informer");
        Self {
            controller,
            kind,
            informer,
            script,
            stop: CancellationToken::new(),
            log: Log::default(),
        }
    }

    /// Adds handlers named after their place: `w` for a watcher, `r` for a reconciler.
    pub(crate) fn watch(&self, watcher: impl Watcher<ConfigMap>) -> &Self {
        self.controller
            .add_watcher(&self.kind, watcher)
            .expect("a watcher");
        self
    }

    pub(crate) fn reconcile(&self, reconciler: impl Reconciler<ConfigMap>) -> &Self {
        self.controller
            .add_reconciler(&self.kind, reconciler)
            .expect("a reconciler");
        self
    }

    /// Begins to run; the informer has listed nothing yet.
    pub(crate) fn start(self) -> Running {
        let (controller, stop) = (self.controller.clone(), self.stop.clone());
        Running {
            task: tokio::spawn(async move { controller.run(stop).await }),
            rig: self,
        }
    }

    /// Begins to run, and lists nothing, so that everything after is live.
    pub(crate) async fn start_empty(self) -> Running {
        let running = self.start();
        running.rig.script.list([]).await.expect("it runs");
        settle().await;
        running
    }
}

// === impl Running ===

impl Running {
    pub(crate) async fn apply(&self, object: ConfigMap) {
        self.rig.script.apply(object).await.expect("it runs");
    }

    pub(crate) async fn delete(&self, object: ConfigMap) {
        self.rig.script.delete(object).await.expect("it runs");
    }

    /// Waits until all tasks are idle, and returns the lines since the last call.
    pub(crate) async fn logged(&self) -> String {
        self.rig.log.take().await
    }

    /// Whether the run has returned.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Stops the controller, and waits for its end.
    pub(crate) async fn stop(self) -> Result<(), RunError> {
        self.rig.stop.cancel();
        self.ended().await
    }

    pub(crate) async fn ended(self) -> Result<(), RunError> {
        self.task.await.expect("it does not panic")
    }
}

// --- objects and words ---

/// An object called `name`, of generation 1, with one value.
pub(crate) fn config(name: &str, value: u32) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("shop".to_owned());
    object.metadata.uid = Some(format!("uid-{name}"));
    object.metadata.generation = Some(1);
    object.metadata.resource_version = Some(value.to_string());
    object.data = Some([("value".to_owned(), value.to_string())].into());
    object
}

/// Another object of the same name.
pub(crate) fn reborn(name: &str, value: u32) -> ConfigMap {
    let mut object = config(name, value);
    object.metadata.uid = Some(format!("uid-{name}-2"));
    object
}

/// The same object in another generation.
pub(crate) fn generation(mut object: ConfigMap, generation: i64) -> ConfigMap {
    object.metadata.generation = Some(generation);
    object
}

/// An object as `name=value`.
pub(crate) fn show(object: &ConfigMap) -> String {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let value = object.data.as_ref().map_or("?", |data| &data["value"]);
    format!("{name}={value}")
}

/// A request as `created web=1`.
pub(crate) fn ask(request: &Request<ConfigMap>) -> String {
    format!("{} {}", word(request.action()), show(request.object()))
}

pub(crate) fn word(action: Action) -> &'static str {
    match action {
        Action::Created => "created",
        Action::Updated => "updated",
        Action::Deleted => "deleted",
        _ => "resynced",
    }
}

#[expect(clippy::unused_async, reason = "a watcher's closure returns a future")]
async fn ok() -> Result<(), Refused> {
    Ok(())
}

/// Waits until every task waits: paused time moves only then.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Lets time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
