//! A resource that records its calls, and its controller.

use std::{collections::VecDeque, fmt::Display, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use windlass_controller::{Background, Failure, KeyedResource, ResourceController, RunError};
use windlass_informer::{Informer, ObjectKey, Script, Scripted};

/// The calls of a resource, in order, and what happens in them.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(crate) informer: Informer<ConfigMap>,
    lines: Arc<Mutex<Vec<String>>>,
    /// How the next calls fail.
    pub(crate) failures: Arc<Mutex<VecDeque<Fails>>>,
    /// While it is held, calls wait.
    held: Arc<Held>,
    running: watch::Sender<usize>,
    most: Arc<Mutex<usize>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fails {
    WithError,
    WithPanic,
}

struct Held(Semaphore);

/// A controller that runs.
pub(crate) struct Running {
    pub(crate) controller: ResourceController<Recorder>,
    pub(crate) stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

// === impl Recorder ===

impl Recorder {
    pub(crate) fn new() -> (Script<ConfigMap>, Self) {
        let (script, source) = Scripted::new();
        (script, Self::of(Informer::new(source)))
    }

    pub(crate) fn of(informer: Informer<ConfigMap>) -> Self {
        Self {
            informer,
            lines: Arc::default(),
            failures: Arc::default(),
            held: Arc::new(Held(Semaphore::new(usize::MAX >> 4))),
            running: watch::channel(0).0,
            most: Arc::default(),
        }
    }

    pub(crate) fn say(&self, line: impl Display) {
        self.lines.lock().push(line.to_string());
    }

    /// Waits until all tasks are idle, and returns the lines since the last call.
    pub(crate) async fn take(&self) -> String {
        settle().await;
        std::mem::take(&mut *self.lines.lock()).join(", ")
    }

    pub(crate) fn fail(&self, times: usize, fails: Fails) {
        self.failures
            .lock()
            .extend(std::iter::repeat_n(fails, times));
    }

    /// Lets calls wait until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        self.held.0.forget_permits(usize::MAX);
    }

    /// Lets the calls continue, after all sent events have arrived.
    pub(crate) async fn release(&self) {
        settle().await;
        self.held.0.add_permits(usize::MAX >> 4);
    }

    /// Lets one call continue.
    pub(crate) async fn release_one(&self) {
        settle().await;
        self.held.0.add_permits(1);
    }

    /// Waits until `count` calls run at the same time.
    pub(crate) async fn until_running(&self, count: usize) {
        let mut running = self.running.subscribe();
        let limit = Duration::from_secs(60);
        let reached = tokio::time::timeout(limit, running.wait_for(|it| *it == count)).await;
        reached.expect("the calls begin").expect("it is open");
    }

    /// The most calls that ran at the same time.
    pub(crate) fn most_at_once(&self) -> usize {
        *self.most.lock()
    }

    async fn call(&self, line: String) -> Result<(), Failure> {
        self.say(line);
        self.running.send_modify(|it| *it += 1);
        {
            let mut most = self.most.lock();
            *most = (*most).max(*self.running.borrow());
        }
        self.held.0.acquire().await.expect("it is open").forget();
        self.running.send_modify(|it| *it -= 1);
        let fails = self.failures.lock().pop_front();
        match fails {
            Some(Fails::WithError) => Err(Failure::new("not yet")),
            Some(Fails::WithPanic) => panic!("the registry does not answer"),
            None => Ok(()),
        }
    }
}

impl KeyedResource for Recorder {
    type Object = ConfigMap;

    fn informer(&self) -> Informer<ConfigMap> {
        self.informer.clone()
    }

    async fn upsert(&self, key: &ObjectKey, object: Arc<ConfigMap>) -> Result<(), Failure> {
        self.call(format!("upsert {key} {}", value(&object))).await
    }

    async fn delete(&self, key: &ObjectKey, last: Arc<ConfigMap>) -> Result<(), Failure> {
        self.call(format!("delete {key} {}", value(&last))).await
    }

    async fn background(&self, scope: Background) {
        self.say("begun");
        scope.stop().cancelled().await;
        self.say("stopping");
        tokio::time::sleep(secs(5)).await;
        self.say("ended");
    }
}

// === impl Running ===

impl Running {
    pub(crate) fn start(controller: ResourceController<Recorder>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (controller, stop) = (controller.clone(), stop.clone());
            async move { controller.run(stop).await }
        });
        Self {
            controller,
            stop,
            task,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    pub(crate) async fn stop(self) -> Result<(), RunError> {
        self.stop.cancel();
        self.ended().await
    }

    pub(crate) async fn ended(self) -> Result<(), RunError> {
        self.task.await.expect("no panic")
    }
}

/// Starts a controller with one worker and quiet errors, over an empty list.
pub(crate) async fn start_empty(script: &Script<ConfigMap>, recorder: &Recorder) -> Running {
    let running = Running::start(quiet(recorder, 1));
    script.list([]).await.expect("it runs");
    assert_eq!(recorder.take().await, "begun");
    running
}

/// The same, with `a`, which was deleted and created again while another call runs.
pub(crate) async fn start_recreated(script: &Script<ConfigMap>, recorder: &Recorder) -> Running {
    let running = start_empty(script, recorder).await;
    script.apply(config("a", 1)).await.expect("it runs");
    assert_eq!(recorder.take().await, "upsert shop/a 1");
    recorder.hold();
    script.apply(config("busy", 2)).await.expect("it runs");
    recorder.until_running(1).await;
    script.delete(config("a", 3)).await.expect("it runs");
    script.apply(recreated("a", 4)).await.expect("it runs");
    running
}

/// A controller that does not log errors.
pub(crate) fn quiet(recorder: &Recorder, workers: usize) -> ResourceController<Recorder> {
    let workers = workers.try_into().expect("not zero");
    ResourceController::new(recorder.clone())
        .with_controller(move |settings| settings.concurrency(workers).on_error(|_| {}).seed(1))
}

// --- objects ---

/// An object called `name` with one value, which is also its version.
pub(crate) fn config(name: &str, value: u32) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("shop".to_owned());
    object.metadata.uid = Some(format!("uid-{name}"));
    object.metadata.resource_version = Some(value.to_string());
    object.data = Some([("value".to_owned(), value.to_string())].into());
    object
}

/// Another object with the same name.
pub(crate) fn recreated(name: &str, value: u32) -> ConfigMap {
    let mut object = config(name, value);
    object.metadata.uid = Some(format!("uid-{name}-{value}"));
    object
}

pub(crate) fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().map_or("?", |data| &data["value"])
}

/// Waits until all tasks are idle: paused time advances only then.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_micros(1)).await;
    tokio::time::sleep(Duration::from_micros(1)).await;
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
