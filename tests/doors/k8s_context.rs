//! What a `Context` can rely on, in virtual time.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass::{
    controller::{RunError, Runnable as _},
    k8s_controller::{Action, Context, Controller, Error, watcher},
    leader::{Fence, FenceClosed},
};

use crate::cluster::{Cluster, until};

const FINALIZER: &str = "example.com/scripted";

/// What the next calls return, and what was called when.
#[derive(Clone, Default)]
struct Script {
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    apply: Arc<Mutex<VecDeque<Answer>>>,
    cleanup: Arc<Mutex<VecDeque<Answer>>>,
    /// What `error_action` returns. Without one, a requeue after 10 s.
    errors: Arc<Mutex<VecDeque<Action>>>,
}

#[derive(Clone, Debug)]
enum Answer {
    Act(Action),
    Fail,
    Panic,
    Hang,
}

#[derive(Debug, thiserror::Error)]
#[error("not yet")]
struct NotYet;

/// A context with the default actions.
struct Defaults(Script);

/// A context that records its actions, and requeues a success after 1,000 s.
struct Recorded(Script);

impl Script {
    fn say(&self, line: String) {
        let mut lines = self.lines.lock().expect("not poisoned");
        lines.push((Instant::now(), line));
    }

    async fn answer(answers: &Mutex<VecDeque<Answer>>) -> Result<Option<Action>, NotYet> {
        let answer = answers.lock().expect("not poisoned").pop_front();
        match answer {
            None => Ok(None),
            Some(Answer::Act(action)) => Ok(Some(action)),
            Some(Answer::Fail) => Err(NotYet),
            Some(Answer::Panic) => panic!("the provider is out of order"),
            Some(Answer::Hang) => std::future::pending().await,
        }
    }

    fn on_error(&self, actions: impl IntoIterator<Item = Action>) {
        self.errors.lock().expect("not poisoned").extend(actions);
    }

    fn on_apply(&self, answers: impl IntoIterator<Item = Answer>) {
        self.apply.lock().expect("not poisoned").extend(answers);
    }

    fn on_cleanup(&self, answers: impl IntoIterator<Item = Answer>) {
        self.cleanup.lock().expect("not poisoned").extend(answers);
    }

    fn all(&self) -> Vec<(Instant, String)> {
        self.lines.lock().expect("not poisoned").clone()
    }

    /// The lines since the last call.
    fn take(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.lines.lock().expect("not poisoned"));
        lines.into_iter().map(|(_, line)| line).collect()
    }

    async fn called(&self, times: usize) {
        until(async || self.all().len() >= times).await;
    }

    async fn apply(&self, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        assert!(object.finalizers().iter().any(|it| it == FINALIZER));
        self.say(format!("apply {} {}", object.name_any(), value(object)));
        Self::answer(&self.apply).await
    }

    async fn cleanup(&self, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.say(format!("cleanup {}", object.name_any()));
        Self::answer(&self.cleanup).await
    }
}

fn value(object: &ConfigMap) -> String {
    let value = object.data.as_ref().and_then(|it| it.get("value"));
    value.cloned().unwrap_or_default()
}

#[async_trait::async_trait]
impl Context for Defaults {
    type Resource = ConfigMap;
    type Error = NotYet;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.apply(object).await
    }

    async fn cleanup(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.cleanup(object).await
    }
}

#[async_trait::async_trait]
impl Context for Recorded {
    type Resource = ConfigMap;
    type Error = NotYet;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.apply(object).await
    }

    async fn cleanup(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        self.0.cleanup(object).await
    }

    fn success_action(&self, object: &ConfigMap) -> Action {
        self.0.say(format!("success {}", object.name_any()));
        Action::requeue(Duration::from_secs(1000))
    }

    fn error_action(
        self: Arc<Self>,
        object: Arc<ConfigMap>,
        err: &Error<NotYet>,
        consecutive_errors: u32,
    ) -> Action {
        let phase = match err {
            Error::ApplyFailed(NotYet) => "apply",
            Error::CleanupFailed(NotYet) => "cleanup",
            Error::AddFinalizer(_) => "add",
            Error::RemoveFinalizer(_) => "remove",
            _ => "other",
        };
        let name = object.name_any();
        self.0
            .say(format!("error {name} {phase} {consecutive_errors}"));
        let action = self.0.errors.lock().expect("not poisoned").pop_front();
        action.unwrap_or_else(|| Action::requeue(Duration::from_secs(10)))
    }
}

/// A controller that runs.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

macro_rules! start {
    ($cluster:expr, $context:expr) => {{
        let controller =
            Controller::namespaced_all($cluster.client(), $context, watcher::Config::default());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { controller.run_until(stopped).await });
        Running { stop, task }
    }};
}

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("no error");
    }
}

async fn create(cluster: &Cluster, name: &str) {
    let object = json!({ "metadata": { "name": name }, "data": { "value": "1" } });
    cluster.create::<ConfigMap>("shop", object).await;
}

async fn merge(cluster: &Cluster, name: &str, patch: Value) {
    let api = cluster.api::<ConfigMap>("shop");
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("it exists");
}

async fn get(cluster: &Cluster, name: &str) -> Option<ConfigMap> {
    let api = cluster.api::<ConfigMap>("shop");
    api.get_opt(name).await.expect("a response")
}

/// Lets paused time pass.
async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn requeue(seconds: u64) -> Answer {
    Answer::Act(Action::requeue(Duration::from_secs(seconds)))
}

/// Rows: KC-07, KC-09, KC-10, KC-11, KC-17
#[tokio::test(start_paused = true)]
async fn exactly_the_returned_action_is_performed() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply([requeue(100), Answer::Act(Action::await_change())]);
    let running = start!(cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(2).await;
    let calls = script.all();
    let delay = (calls[1].0 - calls[0].0).as_secs_f64();
    assert!((100.0..100.5).contains(&delay), "{delay}");
    pass(7200).await;
    assert_eq!(
        script.take(),
        ["apply a 1", "apply a 1"],
        "it waits for a change"
    );

    // Without an action, that of `success_action`.
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    script.called(3).await;
    let calls = script.all();
    let delay = (calls[2].0 - calls[1].0).as_secs_f64();
    assert!((1000.0..1000.5).contains(&delay), "{delay}");
    let lines: Vec<_> = calls.into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines[..3], ["apply a 2", "success a", "apply a 2"]);
    running.stop().await;
}

/// Rows: KC-18
#[tokio::test(start_paused = true)]
async fn by_default_a_success_is_requeued_after_40_to_60_minutes() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let running = start!(cluster, Defaults(script.clone()));
    for at in 0..20 {
        create(&cluster, &format!("o{at}")).await;
    }
    script.called(20).await;
    let first = script.all();
    pass(2390).await;
    assert_eq!(script.all().len(), 20, "none before 40 minutes");
    pass(1220).await;
    let all = script.all();
    let mut delays: Vec<_> = (first.iter())
        .map(|(at, line)| {
            let again = all[20..].iter().find(|it| it.1 == *line);
            (again.expect("within 60 minutes").0 - *at).as_secs()
        })
        .collect();
    assert!(
        delays.iter().all(|it| (2400..=3600).contains(it)),
        "{delays:?}"
    );
    delays.sort_unstable();
    delays.dedup();
    assert!(delays.len() > 10, "they are random: {delays:?}");
    running.stop().await;
}

/// Rows: KC-12, KC-14, KC-15, KC-30
#[tokio::test(start_paused = true)]
async fn a_requeue_keeps_the_finalizer_and_none_removes_it() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let running = start!(cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(2).await;
    script.on_cleanup([requeue(100), requeue(100_000), Answer::Fail]);
    script.take();
    cluster.delete::<ConfigMap>("shop", "a").await;
    script.called(2).await;
    let calls = script.all();
    let delay = (calls[1].0 - calls[0].0).as_secs_f64();
    assert!((100.0..100.5).contains(&delay), "{delay}");
    pass(3600).await;
    assert_eq!(script.take(), ["cleanup a", "cleanup a"]);
    assert_eq!(
        get(&cluster, "a").await.expect("it is kept").finalizers(),
        [FINALIZER]
    );

    // The next change calls it again. Then it fails, and succeeds without an action.
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    until(async || get(&cluster, "a").await.is_none()).await;
    pass(7200).await;
    assert_eq!(
        script.take(),
        ["cleanup a", "error a cleanup 0", "cleanup a", "success a"],
        "no call follows"
    );
    running.stop().await;
}

/// Rows: KC-19, KC-20, KC-25
#[tokio::test(start_paused = true)]
async fn consecutive_errors_are_counted_per_uid_until_a_success() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply(vec![Answer::Fail; 3]);
    script.on_cleanup([Answer::Fail]);
    let running = start!(cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(4).await;
    assert_eq!(
        script.take(),
        [
            "apply a 1",
            "error a apply 0",
            "apply a 1",
            "error a apply 1"
        ]
    );
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    script.called(2).await;
    cluster.delete::<ConfigMap>("shop", "a").await;
    until(async || get(&cluster, "a").await.is_none()).await;
    assert_eq!(
        script.take(),
        [
            "apply a 2",
            "error a apply 2",
            "cleanup a",
            "error a cleanup 3",
            "cleanup a",
            "success a"
        ]
    );
    script.on_apply([
        Answer::Fail,
        Answer::Act(Action::await_change()),
        Answer::Fail,
    ]);
    create(&cluster, "a").await;
    script.called(3).await;
    merge(&cluster, "a", json!({ "data": { "value": "3" } })).await;
    script.called(5).await;
    assert_eq!(
        script.take()[..5],
        [
            "apply a 1",
            "error a apply 0",
            "apply a 1",
            "apply a 3",
            "error a apply 0"
        ]
    );
    running.stop().await;
}

/// Rows: KC-21, KC-22, KC-23
#[tokio::test(start_paused = true)]
async fn default_retries_back_off_with_jitter_up_to_256_seconds() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply(vec![Answer::Fail; 100]);
    let running = start!(cluster, Defaults(script.clone()));
    create(&cluster, "a").await;
    create(&cluster, "b").await;
    script.called(22).await;
    let delays = |name: &str| {
        let all = script.all();
        let own: Vec<_> = all
            .iter()
            .filter(|it| it.1 == format!("apply {name} 1"))
            .collect();
        let pairs = own.windows(2).take(10);
        pairs
            .map(|it| (it[1].0 - it[0].0).as_secs_f64())
            .collect::<Vec<_>>()
    };
    let (a, b) = (delays("a"), delays("b"));
    for delays in [&a, &b] {
        assert!(delays.len() >= 9, "{delays:?}");
        for (n, delay) in (0..).zip(delays) {
            let most = f64::from(2_u32.pow((n + 1).min(8)));
            assert!((most / 2.0..most + 0.01).contains(delay), "{n}: {delay}");
        }
    }
    assert_ne!(a, b, "they are random");
    running.stop().await;
}

/// Rows: KC-31
#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_without_our_finalizer_is_left_alone() {
    let cluster = Cluster::start().await;
    let object = json!({ "metadata": { "name": "a", "finalizers": ["example.com/other"] } });
    cluster.create::<ConfigMap>("shop", object).await;
    cluster.delete::<ConfigMap>("shop", "a").await;
    let before = get(&cluster, "a")
        .await
        .expect("it is kept")
        .resource_version();
    let script = Script::default();
    let running = start!(cluster, Recorded(script.clone()));
    pass(600).await;
    let after = get(&cluster, "a")
        .await
        .expect("it is kept")
        .resource_version();
    assert_eq!(before, after, "no patch");
    merge(&cluster, "a", json!({ "metadata": { "finalizers": null } })).await;
    pass(600).await;
    assert!(get(&cluster, "a").await.is_none());
    assert_eq!(script.take(), [""; 0], "no call");
    running.stop().await;
}

/// Rows: KC-32, KC-33
#[tokio::test(start_paused = true)]
async fn a_restart_applies_each_object_once_without_a_patch() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let running = start!(cluster, Recorded(script.clone()));
    create(&cluster, "kept").await;
    create(&cluster, "deleted").await;
    script.called(4).await;
    running.stop().await;
    script.take();
    cluster.delete::<ConfigMap>("shop", "deleted").await;
    let before = get(&cluster, "kept")
        .await
        .expect("it exists")
        .resource_version();

    let running = start!(cluster, Recorded(script.clone()));
    until(async || get(&cluster, "deleted").await.is_none()).await;
    pass(600).await;
    let mut lines = script.take();
    lines.sort();
    assert_eq!(
        lines,
        [
            "apply kept 1",
            "cleanup deleted",
            "success deleted",
            "success kept"
        ]
    );
    let after = get(&cluster, "kept")
        .await
        .expect("it exists")
        .resource_version();
    assert_eq!(before, after, "no patch");
    running.stop().await;
}

/// Rows: KC-33, KC-34
#[tokio::test(start_paused = true)]
async fn a_removed_finalizer_is_added_again_before_the_next_apply() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    let running = start!(cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(2).await;
    script.take();
    // `Script::apply` checks the finalizer.
    merge(
        &cluster,
        "a",
        json!({ "metadata": { "finalizers": null }, "data": { "value": "2" } }),
    )
    .await;
    script.called(2).await;
    assert_eq!(script.take(), ["apply a 2", "success a"]);
    assert_eq!(
        get(&cluster, "a").await.expect("it exists").finalizers(),
        [FINALIZER]
    );

    // A clean-up comes although apply never succeeds.
    script.on_apply(vec![Answer::Fail; 100]);
    create(&cluster, "b").await;
    script.called(1).await;
    cluster.delete::<ConfigMap>("shop", "b").await;
    until(async || get(&cluster, "b").await.is_none()).await;
    assert!(script.take().contains(&"cleanup b".to_owned()));
    running.stop().await;
}

/// Writes after its lease has ended.
struct Late {
    fence: Fence,
    result: Arc<Mutex<Option<bool>>>,
}

#[async_trait::async_trait]
impl Context for Late {
    type Resource = ConfigMap;
    type Error = kube::Error;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(
        &self,
        client: Client,
        object: &ConfigMap,
    ) -> Result<Option<Action>, kube::Error> {
        self.fence.close();
        let api = kube::Api::<ConfigMap>::namespaced(client, "shop");
        let patch = Patch::Merge(json!({ "data": { "value": "late" } }));
        let written = api
            .patch(&object.name_any(), &PatchParams::default(), &patch)
            .await;
        let is_refused = written
            .as_ref()
            .err()
            .is_some_and(|it| FenceClosed::find(it).is_some());
        *self.result.lock().expect("not poisoned") = Some(is_refused);
        written.map(|_| Some(Action::await_change()))
    }

    async fn cleanup(&self, _: Client, _: &ConfigMap) -> Result<Option<Action>, kube::Error> {
        Ok(None)
    }
}

/// Rows: KC-35
#[tokio::test(start_paused = true)]
async fn the_client_of_apply_sends_no_write_after_the_lease() {
    let cluster = Cluster::start().await;
    let fence = Fence::new();
    fence.open_until(fence.now() + Duration::from_secs(3600));
    let result = Arc::new(Mutex::new(None));
    let context = Late {
        fence: fence.clone(),
        result: Arc::clone(&result),
    };
    let controller =
        Controller::namespaced_all(cluster.client(), context, watcher::Config::default());
    controller.set_fence(&fence);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { controller.run_until(stopped).await });
    create(&cluster, "a").await;
    until(async || result.lock().expect("not poisoned").is_some()).await;
    assert_eq!(
        *result.lock().expect("not poisoned"),
        Some(true),
        "it was refused"
    );
    assert_eq!(value(&get(&cluster, "a").await.expect("it exists")), "1");
    stop.cancel();
    running.await.expect("no panic").expect("no error");
}

/// Rows: KC-24
#[tokio::test(start_paused = true)]
async fn the_action_of_error_action_is_obeyed() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply([Answer::Fail, Answer::Fail]);
    script.on_error([
        Action::requeue(Duration::from_secs(77)),
        Action::await_change(),
    ]);
    let running = start!(cluster, Recorded(script.clone()));
    create(&cluster, "a").await;
    script.called(4).await;
    let calls = script.all();
    let delay = (calls[2].0 - calls[0].0).as_secs_f64();
    assert!((77.0..77.5).contains(&delay), "{delay}");
    pass(7200).await;
    let lines = [
        "apply a 1",
        "error a apply 0",
        "apply a 1",
        "error a apply 1",
    ];
    assert_eq!(script.take(), lines, "it waits for a change");
    merge(&cluster, "a", json!({ "data": { "value": "2" } })).await;
    script.called(2).await;
    assert_eq!(script.take(), ["apply a 2", "success a"]);

    // In a clean-up, the object is kept.
    script.on_cleanup([Answer::Fail]);
    script.on_error([Action::await_change()]);
    cluster.delete::<ConfigMap>("shop", "a").await;
    pass(7200).await;
    assert_eq!(script.take(), ["cleanup a", "error a cleanup 0"]);
    let kept = get(&cluster, "a").await.expect("it is kept");
    assert_eq!(kept.finalizers(), [FINALIZER]);
    merge(&cluster, "a", json!({ "data": { "value": "3" } })).await;
    until(async || get(&cluster, "a").await.is_none()).await;
    assert_eq!(script.take(), ["cleanup a", "success a"]);
    running.stop().await;
}

/// Rows: KC-19
#[tokio::test(start_paused = true)]
async fn panics_and_time_outs_are_repeated_without_a_call_of_error_action() {
    let cluster = Cluster::start().await;
    let script = Script::default();
    script.on_apply([Answer::Panic, Answer::Hang, Answer::Fail]);
    let context = Recorded(script.clone());
    let controller =
        Controller::namespaced_all(cluster.client(), context, watcher::Config::default())
            .with_controller(|it| it.timeout(Duration::from_secs(30)));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = tokio::spawn(async move { controller.run_until(stopped).await });
    create(&cluster, "a").await;
    script.called(6).await;
    assert_eq!(
        script.take()[..6],
        [
            "apply a 1",
            "apply a 1",
            "apply a 1",
            "error a apply 0",
            "apply a 1",
            "success a"
        ]
    );
    Running { stop, task }.stop().await;
}

/// Counts its concurrent calls, which wait until the gate is open.
struct Gated {
    running: Arc<Mutex<HashSet<String>>>,
    most: Arc<AtomicUsize>,
    is_open: CancellationToken,
}

#[async_trait::async_trait]
impl Context for Gated {
    type Resource = ConfigMap;
    type Error = NotYet;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        let name = object.name_any();
        {
            let mut running = self.running.lock().expect("not poisoned");
            let is_only_one = running.insert(name.clone());
            let count = if is_only_one {
                running.len()
            } else {
                usize::MAX
            };
            self.most.fetch_max(count, Ordering::Relaxed);
        }
        self.is_open.cancelled().await;
        self.running.lock().expect("not poisoned").remove(&name);
        Ok(Some(Action::await_change()))
    }

    async fn cleanup(&self, _: Client, _: &ConfigMap) -> Result<Option<Action>, NotYet> {
        Ok(None)
    }
}

/// Rows: KC-28
#[tokio::test(start_paused = true)]
async fn the_number_of_concurrent_calls_is_limited_and_none_overlap_for_one_object() {
    for (concurrency, objects, most) in [(None, 40, 16), (Some(3), 10, 3), (Some(0), 1030, 1024)] {
        let cluster = Cluster::start().await;
        let gated = Gated {
            running: Arc::default(),
            most: Arc::default(),
            is_open: CancellationToken::new(),
        };
        let (running, reached) = (Arc::clone(&gated.running), Arc::clone(&gated.most));
        let is_open = gated.is_open.clone();
        let mut controller =
            Controller::namespaced_all(cluster.client(), gated, watcher::Config::default());
        if let Some(concurrency) = concurrency {
            controller = controller.with_concurrency(concurrency);
        }
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { controller.run_until(stopped).await });
        for at in 0..objects {
            create(&cluster, &format!("o{at}")).await;
        }
        let count = || running.lock().expect("not poisoned").len();
        until(async || count() == most).await;
        // Events of objects whose calls are in progress.
        let names: Vec<_> = running
            .lock()
            .expect("not poisoned")
            .iter()
            .cloned()
            .collect();
        for name in names.iter().take(20) {
            merge(&cluster, name, json!({ "data": { "value": "2" } })).await;
        }
        pass(60).await;
        assert_eq!(count(), most);
        is_open.cancel();
        pass(60).await;
        assert_eq!(count(), 0);
        assert_eq!(reached.load(Ordering::Relaxed), most);
        Running { stop, task }.stop().await;
    }
}
