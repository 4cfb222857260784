//! A running controller of config maps, with scripted informers and without an API server.

use std::{future::Future, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Context, Controller, ControllerBuilder, Failure, ObjectReconciler, Outcome, RunError, Watch,
};
use windlass_informer::{Informer, Script, Scripted};

/// The calls, in order, with the seconds since the start.
#[derive(Clone)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    began: Instant,
}

/// A running controller.
pub(crate) struct Rig {
    pub(crate) log: Log,
    pub(crate) controller: Arc<Controller<ConfigMap>>,
    pub(crate) script: Script<ConfigMap>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

// === impl Log ===

impl Log {
    pub(crate) fn new() -> Self {
        Self {
            lines: Arc::default(),
            began: Instant::now(),
        }
    }

    pub(crate) fn say(&self, line: impl std::fmt::Display) {
        let seconds = self.began.elapsed().as_millis() / 100;
        let time = format!("{}.{}", seconds / 10, seconds % 10);
        self.lines.lock().push(format!("{time} {line}"));
    }

    /// Waits until all tasks are idle, and returns the lines since the last call.
    pub(crate) async fn take(&self) -> String {
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::mem::take(&mut *self.lines.lock()).join(", ")
    }

    /// A reconciler that logs its calls, and returns what `next` returns for the number of the call.
    pub(crate) fn reconciler<F, Fut>(
        &self,
        next: F,
    ) -> impl ObjectReconciler<ConfigMap> + use<F, Fut>
    where
        F: Fn(usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, Failure>> + Send + 'static,
    {
        let (log, calls) = (self.clone(), Arc::new(Mutex::new(0)));
        move |cx: Context<ConfigMap>| {
            log.say(show(&cx));
            let call = {
                let mut calls = calls.lock();
                *calls += 1;
                *calls
            };
            next(call)
        }
    }
}

// === impl Rig ===

impl Rig {
    /// Runs a controller, whose informer has listed nothing.
    pub(crate) async fn start<R: ObjectReconciler<ConfigMap>>(
        log: &Log,
        configure: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
        reconciler: R,
    ) -> Self {
        Self::prepared(log, configure, reconciler, |_| ()).await
    }

    /// Like `start`, with a controller that `prepare` gets before it runs.
    pub(crate) async fn prepared<R: ObjectReconciler<ConfigMap>>(
        log: &Log,
        configure: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
        reconciler: R,
        prepare: impl FnOnce(&Controller<ConfigMap>),
    ) -> Self {
        let (script, source) = Scripted::new();
        let informer = Informer::new(source);
        let builder = Controller::builder(no_server(), Watch::from(&informer)).seed(1);
        let controller = configure(builder).build(reconciler).expect("good settings");
        prepare(&controller);
        let (controller, stop) = (Arc::new(controller), CancellationToken::new());
        let task = tokio::spawn({
            let (controller, stop) = (Arc::clone(&controller), stop.clone());
            async move { controller.run(stop).await }
        });
        script.list([]).await.expect("it runs");
        let rig = Self {
            log: log.clone(),
            controller,
            script,
            stop,
            task,
        };
        rig.log.take().await;
        rig
    }

    pub(crate) async fn apply(&self, object: ConfigMap) {
        self.script.apply(object).await.expect("it runs");
    }

    pub(crate) async fn logged(&self) -> String {
        self.log.take().await
    }

    /// Drops the controller while it runs.
    pub(crate) async fn abort(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|ended| ended.is_cancelled()));
        // Its tasks end with it.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task
            .await
            .expect("no panic")
            .expect("a graceful shutdown");
    }
}

/// A call as `web@7 for changed`, with the attempt if there were failed ones.
pub(crate) fn show(cx: &Context<ConfigMap>) -> String {
    let version = cx.object().metadata.resource_version.as_deref();
    let attempt = match cx.attempt() {
        0 => String::new(),
        attempt => format!(" attempt {attempt}"),
    };
    let version = version.unwrap_or("-");
    format!("{}@{version} for {}{attempt}", cx.key(), cx.reasons())
}

/// An object of generation 1.
pub(crate) fn config(name: &str, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.uid = Some(format!("uid-{name}"));
    object.metadata.generation = Some(1);
    object.metadata.resource_version = Some(version.to_string());
    object
}

/// The same object in another generation.
pub(crate) fn generation(name: &str, version: u64) -> ConfigMap {
    let mut object = config(name, version);
    object.metadata.generation = i64::try_from(version).ok();
    object
}

pub(crate) async fn done() -> Result<Outcome, Failure> {
    Ok(Outcome::done())
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Lets time pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A client whose requests fail.
pub(crate) fn no_server() -> Client {
    let refuse = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("there is no server"))
    });
    Client::new(refuse, "default")
}
