//! `ApplyCleanup`: its calls, its finalizer, and other writers of finalizers.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Outcome,
    apply_cleanup::{ApplyCleanup, ApplyCleanupController, ApplyCleanupError},
    controller::{RunError, Runnable as _},
    finalizer::OnSelectorExit,
    leader::{Fence, FenceClosed},
    retry::NeverRetry,
};

use crate::{
    cluster::{Cluster, await_condition},
    kinds::{config, labelled, value},
    watched::quick,
};

const FINALIZER: &str = "test.windlass.dev/apply-cleanup";

/// Objects with this label are watched.
const LABEL: (&str, &str) = ("test", "apply-cleanup");

/// Says what it is called with, and answers what the test has scripted.
struct Scripted {
    calls: mpsc::Sender<String>,
    script: Script,
}

/// The results of the next calls. Without one, a call returns `None`.
#[derive(Clone, Default)]
struct Script {
    apply: Arc<Mutex<VecDeque<Answer>>>,
    cleanup: Arc<Mutex<VecDeque<Answer>>>,
}

#[derive(Clone)]
enum Answer {
    Outcome(Outcome),
    Fails,
}

#[derive(Debug, thiserror::Error)]
#[error("not yet")]
struct NotYet;

/// A running controller, and the calls that it made.
struct Rig {
    calls: mpsc::Receiver<String>,
    script: Script,
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), RunError>>,
}

on_both_servers! {
    /// Rows: KC-01, KC-02, KC-06, KC-07, KC-08, KC-09, KC-11, KC-12, KC-13, KC-14, KC-15, KC-17,
    /// KC-19, KC-27, KC-30
    async fn an_object_has_the_finalizer_from_before_its_first_call_until_its_clean_up_succeeds(
        cluster: Cluster
    ) {
        let configs = cluster.api_aside::<ConfigMap>();
        let mut rig = Rig::start(&cluster, cluster.client().await);
        // Not selected.
        configs.create(&PostParams::default(), &config("other", "1")).await.expect("new");
        create(&configs, "a", &["other.dev/one"]).await;
        assert_eq!(rig.next().await, "apply a 1");
        assert_eq!(rig.next().await, "success a");
        merge(&configs, "a", json!({ "data": { "value": "2" } })).await;
        assert_eq!(rig.next().await, "apply a 2");
        assert_eq!(rig.next().await, "success a");

        let soon = Outcome::requeue_after(Duration::from_millis(50));
        rig.script.on_cleanup([Answer::Fails, Answer::Outcome(soon), Answer::Outcome(Outcome::done())]);
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        // Each clean-up checks that the finalizer is there.
        for line in ["cleanup a 2", "error a cleanup 0", "cleanup a 2", "cleanup a 2"] {
            assert_eq!(rig.next().await, line);
        }
        let is_released = |it: Option<&ConfigMap>| it.is_some_and(|it| it.finalizers() == ["other.dev/one"]);
        await_condition(configs.clone(), "a", is_released).await.expect("released");
        // It is of no interest any more.
        merge(&configs, "a", json!({ "data": { "value": "3" } })).await;
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;

        // Without an outcome, `success_outcome` is called, and its requeue is not performed.
        create(&configs, "b", &[]).await;
        assert_eq!(rig.next().await, "apply b 1");
        assert_eq!(rig.next().await, "success b");
        configs.delete("b", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "cleanup b 1");
        assert_eq!(rig.next().await, "success b");
        await_condition(configs.clone(), "b", is_deleted).await.expect("deleted");
        let other = configs.get("other").await.expect("there");
        assert!(other.finalizers().is_empty());
        rig.stop().await;
    }

    /// Another writer changes the finalizers before the patches arrive.
    ///
    /// Rows: KC-19, KC-25, KC-29
    async fn a_lost_race_is_repeated_with_the_fresh_object_up_to_eight_times(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let rival = Rival::new(configs.clone());
        let mut rig = Rig::start(&cluster, rival.client(cluster.client().await));

        // Lost once: no error, and the call gets what the other writer has written.
        rival.adds_a_finalizer("a", 1);
        create(&configs, "a", &[]).await;
        let lines = rig.until("success a").await;
        assert_eq!(lines.first().map(String::as_str), Some("apply a rival"), "{lines:?}");
        assert!(lines.iter().all(|it| !it.starts_with("error")), "{lines:?}");
        assert_eq!(rival.attempts("a"), 2);
        assert_eq!(finalizers(&configs, "a").await, of(["rival.dev/1", FINALIZER]));

        // Lost seven times: the eighth attempt succeeds.
        rival.adds_a_finalizer("d", 7);
        create(&configs, "d", &[]).await;
        let lines = rig.until("success d").await;
        assert!(lines.iter().all(|it| !it.starts_with("error")), "{lines:?}");
        assert_eq!(rival.attempts("d"), 8);

        // Lost eight times: reported, and no call without the finalizer. The retry adds it.
        rival.adds_a_finalizer("b", 8);
        create(&configs, "b", &[]).await;
        let lines = rig.until("error b add 0").await;
        assert!(lines.iter().all(|it| !it.contains(" b ") || it.starts_with("error")), "{lines:?}");
        let lines = rig.until("success b").await;
        assert!(lines.iter().all(|it| !it.starts_with("error")), "{lines:?}");
        // The retry may begin before the watch shows what the rival has written: one attempt more.
        assert!((9..=10).contains(&rival.attempts("b")), "{}", rival.attempts("b"));
        let foreign: Vec<_> = (1..=8).map(|number| format!("rival.dev/{number}")).collect();
        let mut expected = of(foreign.iter().map(String::as_str));
        expected.insert(FINALIZER.to_owned());
        assert_eq!(finalizers(&configs, "b").await, expected, "no foreign finalizer is lost");

        // The same when the finalizer is removed: the clean-up is not repeated.
        let foreign: Vec<_> = (0..10).map(|number| format!("other.dev/{number}")).collect();
        let foreign: Vec<_> = foreign.iter().map(String::as_str).collect();
        create(&configs, "c", &foreign).await;
        rig.until("success c").await;
        rival.removes_a_finalizer("c", 8);
        configs.delete("c", &DeleteParams::default()).await.expect("there");
        let lines = rig.until("error c remove 0").await;
        assert_eq!(lines, ["cleanup c 1", "success c", "error c remove 0"]);
        let is_released = |it: Option<&ConfigMap>| {
            it.is_some_and(|it| it.finalizers() == ["other.dev/8", "other.dev/9"])
        };
        await_condition(configs.clone(), "c", is_released).await.expect("released");
        // One for the add, and perhaps one with an old object.
        assert!((10..=11).contains(&rival.attempts("c")), "{}", rival.attempts("c"));
        assert_eq!(rig.stop().await, [""; 0], "and not cleaned up again");
    }

    /// Rows: KC-31, KC-32, KC-33
    async fn a_restart_applies_each_object_once_and_cleans_up_after_those_that_were_deleted(
        cluster: Cluster
    ) {
        let configs = cluster.api_aside::<ConfigMap>();
        let mut rig = Rig::start(&cluster, cluster.client().await);
        create(&configs, "kept", &[]).await;
        rig.until("success kept").await;
        // Its first call never succeeds.
        rig.script.on_apply(vec![Answer::Fails; 1000]);
        create(&configs, "deleted", &[]).await;
        rig.until("error deleted apply 0").await;
        rig.stop().await;

        configs.delete("deleted", &DeleteParams::default()).await.expect("there");
        create(&configs, "foreign", &["other.dev/one"]).await;
        configs.delete("foreign", &DeleteParams::default()).await.expect("there");
        let version = async |name| configs.get(name).await.expect("there").resource_version();
        let before = (version("kept").await, version("foreign").await);

        let mut rig = Rig::start(&cluster, cluster.client().await);
        await_condition(configs.clone(), "deleted", is_deleted).await.expect("cleaned up");
        create(&configs, "last", &[]).await;
        let mut lines = rig.until("success last").await;
        lines.sort();
        assert_eq!(
            lines,
            ["apply kept 1", "apply last 1", "cleanup deleted 1",
             "success deleted", "success kept", "success last"]
        );
        assert_eq!((version("kept").await, version("foreign").await), before, "no patch");
        assert_eq!(rig.stop().await, [""; 0]);
    }

    /// Rows: KC-34
    async fn a_finalizer_that_another_writer_removes_is_added_again_before_the_next_apply(
        cluster: Cluster
    ) {
        let configs = cluster.api_aside::<ConfigMap>();
        let mut rig = Rig::start(&cluster, cluster.client().await);
        create(&configs, "a", &["other.dev/one"]).await;
        rig.until("success a").await;
        // Together with a change: each call checks that the finalizer is there.
        let change = json!({ "metadata": { "finalizers": null }, "data": { "value": "2" } });
        merge(&configs, "a", change).await;
        assert_eq!(rig.until("success a").await, ["apply a 2", "success a"]);
        assert_eq!(finalizers(&configs, "a").await, of([FINALIZER]));
        // Alone, and beside another one, which stays.
        merge(&configs, "a", json!({ "metadata": { "finalizers": ["other.dev/two"] } })).await;
        let has_both = |it: Option<&ConfigMap>| it.is_some_and(|it| it.finalizers().len() == 2);
        await_condition(configs.clone(), "a", has_both).await.expect("added again");
        assert_eq!(finalizers(&configs, "a").await, of(["other.dev/two", FINALIZER]));
        rig.until("success a").await;
        // While the operator does not run.
        rig.stop().await;
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        let mut rig = Rig::start(&cluster, cluster.client().await);
        assert_eq!(rig.until("success a").await, ["apply a 2", "success a"]);
        assert_eq!(finalizers(&configs, "a").await, of([FINALIZER]));
        rig.stop().await;
    }

    /// Rows: KC-25
    async fn a_finalizer_is_removed_whatever_the_retry_policy_says(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let refusals = Arc::new(AtomicUsize::new(0));
        let client = refusing_patches(cluster.client().await, Arc::clone(&refusals));
        let mut rig = Rig::with(&cluster, client, |controller| {
            controller.with_controller(|settings| {
                let settings = settings.concurrency(NonZeroUsize::MIN).on_error(|_| {});
                settings.retry_policy(NeverRetry)
            })
        });
        create(&configs, "a", &[]).await;
        rig.until("success a").await;
        // No event of another writer follows.
        refusals.store(2, Ordering::Relaxed);
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        rig.until("error a remove 1").await;
        let is_released = |it: Option<&ConfigMap>| {
            it.is_none_or(|it| it.finalizers().iter().all(|it| it != FINALIZER))
        };
        await_condition(configs.clone(), "a", is_released).await.expect("released");
        rig.stop().await;
    }

    async fn an_object_that_leaves_the_selector_is_cleaned_up_only_if_that_is_set(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let leaves = json!({ "metadata": { "labels": { LABEL.0: null } } });
        let is_released = |it: Option<&ConfigMap>| it.is_some_and(|it| it.finalizers().is_empty());
        for exit in [OnSelectorExit::Release, OnSelectorExit::CleanUp] {
            let name = format!("{exit:?}").to_lowercase();
            let mut rig = Rig::with(&cluster, cluster.client().await, |it| it.on_selector_exit(exit));
            create(&configs, &name, &[]).await;
            rig.until(&format!("success {name}")).await;
            merge(&configs, &name, leaves.clone()).await;
            await_condition(configs.clone(), &name, is_released).await.expect("released");
            let calls = rig.stop().await;
            let was_cleaned_up = calls.iter().any(|it| it.starts_with("cleanup"));
            assert_eq!(was_cleaned_up, exit == OnSelectorExit::CleanUp, "{exit:?}: {calls:?}");
        }
    }

    /// Rows: KC-35
    async fn the_client_of_a_call_sends_no_write_after_the_lease(cluster: Cluster) {
        /// Writes after its lease has ended.
        struct Late(Fence, mpsc::Sender<bool>);

        impl ApplyCleanup for Late {
            type Resource = ConfigMap;
            type Error = kube::Error;
            const FINALIZER_NAME: &'static str = FINALIZER;

            async fn apply(
                &self,
                client: Client,
                object: &ConfigMap,
            ) -> Result<Option<Outcome>, kube::Error> {
                let namespace = object.namespace().unwrap_or_default();
                let api = Api::<ConfigMap>::namespaced(client, &namespace);
                let patch = Patch::Merge(json!({ "data": { "value": "in time" } }));
                api.patch(&object.name_any(), &PatchParams::default(), &patch).await?;
                self.0.close();
                let patch = Patch::Merge(json!({ "data": { "value": "late" } }));
                let late = api.patch(&object.name_any(), &PatchParams::default(), &patch).await;
                let refused = late.as_ref().err().is_some_and(|it| FenceClosed::find(it).is_some());
                _ = self.1.try_send(refused);
                late.map(|_| None)
            }

            async fn cleanup(&self, _: Client, _: &ConfigMap) -> Result<Option<Outcome>, kube::Error> {
                Ok(None)
            }
        }

        let configs = cluster.api_aside::<ConfigMap>();
        let fence = Fence::new();
        fence.open_until(fence.now() + Duration::from_secs(3600));
        let (sender, mut receiver) = mpsc::channel(8);
        let client = cluster.client().await;
        let api = Api::<ConfigMap>::namespaced(client.clone(), cluster.namespace());
        let late = Late(fence.clone(), sender);
        let controller = ApplyCleanupController::new(client, late, selected(api));
        controller.set_fence(&fence);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move { controller.run(stopped).await }));
        create(&configs, "a", &[]).await;
        assert_eq!(receiver.recv().await, Some(true), "it was refused");
        assert_eq!(value(&configs.get("a").await.expect("there")), "in time");
        stop.cancel();
        task.await.expect("no panic").expect("no error");
    }
}

// === impl Script ===

impl Script {
    fn on_apply(&self, answers: impl IntoIterator<Item = Answer>) {
        self.apply.lock().expect("not poisoned").extend(answers);
    }

    fn on_cleanup(&self, answers: impl IntoIterator<Item = Answer>) {
        self.cleanup.lock().expect("not poisoned").extend(answers);
    }

    fn answer(of: &Mutex<VecDeque<Answer>>) -> Result<Option<Outcome>, NotYet> {
        match of.lock().expect("not poisoned").pop_front() {
            None => Ok(None),
            Some(Answer::Outcome(outcome)) => Ok(Some(outcome)),
            Some(Answer::Fails) => Err(NotYet),
        }
    }
}

// === impl Scripted ===

impl Scripted {
    fn say(&self, line: String) {
        // If the test has ended, it does not listen.
        _ = self.calls.try_send(line);
    }

    /// Says what is called, and checks the finalizers of `object` and of what the server has.
    async fn called(&self, call: &str, client: Client, object: &ConfigMap) {
        let namespace = object.namespace().unwrap_or_default();
        let api = Api::<ConfigMap>::namespaced(client, &namespace);
        let stored = api.get(&object.name_any()).await.expect("the client works");
        self.say(format!("{call} {} {}", object.name_any(), value(object)));
        for finalizers in [object.finalizers(), stored.finalizers()] {
            let ours = finalizers.iter().filter(|it| it.contains("apply-cleanup"));
            let ours: Vec<_> = ours.collect();
            if ours != [FINALIZER] {
                self.say(format!("{call} has {finalizers:?}"));
            }
        }
    }
}

impl ApplyCleanup for Scripted {
    type Resource = ConfigMap;
    type Error = NotYet;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, client: Client, object: &ConfigMap) -> Result<Option<Outcome>, NotYet> {
        self.called("apply", client, object).await;
        Script::answer(&self.script.apply)
    }

    async fn cleanup(&self, client: Client, object: &ConfigMap) -> Result<Option<Outcome>, NotYet> {
        self.called("cleanup", client, object).await;
        Script::answer(&self.script.cleanup)
    }

    fn success_outcome(&self, object: &ConfigMap) -> Outcome {
        self.say(format!("success {}", object.name_any()));
        // Longer than the test.
        Outcome::requeue_after(Duration::from_secs(3600))
    }

    fn error_outcome(
        self: Arc<Self>,
        object: Arc<ConfigMap>,
        error: &ApplyCleanupError<NotYet>,
        consecutive_errors: u32,
    ) -> Outcome {
        let phase = match error {
            ApplyCleanupError::ApplyFailed(NotYet) => "apply",
            ApplyCleanupError::CleanupFailed(NotYet) => "cleanup",
            ApplyCleanupError::AddFinalizer(_) => "add",
            ApplyCleanupError::RemoveFinalizer(_) => "remove",
            _ => "other",
        };
        let name = object.name_any();
        self.say(format!("error {name} {phase} {consecutive_errors}"));
        Outcome::requeue_after(Duration::from_millis(50))
    }
}

// === impl Rig ===

impl Rig {
    /// The time within which a call arrives on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Starts a controller with one worker, so that lines of different objects do not mix.
    fn start(cluster: &Cluster, client: Client) -> Self {
        Self::with(cluster, client, |it| it)
    }

    fn with(
        cluster: &Cluster,
        client: Client,
        change: impl FnOnce(ApplyCleanupController<Scripted>) -> ApplyCleanupController<Scripted>,
    ) -> Self {
        let (sender, calls) = mpsc::channel(1024);
        let script = Script::default();
        let scripted = Scripted {
            calls: sender,
            script: script.clone(),
        };
        let api = Api::<ConfigMap>::namespaced(client.clone(), cluster.namespace());
        let controller = ApplyCleanupController::new(client, scripted, selected(api))
            .with_controller(|settings| settings.concurrency(NonZeroUsize::MIN).on_error(|_| {}));
        let controller = change(controller);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { controller.run(stopped).await });
        Self {
            calls,
            script,
            stop,
            task: AbortOnDropHandle::new(task),
        }
    }

    async fn next(&mut self) -> String {
        let next = tokio::time::timeout(Self::LIMIT, self.calls.recv()).await;
        next.expect("a call").expect("the controller runs")
    }

    /// The lines up to this one.
    async fn until(&mut self, last: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|it| it != last) {
            let next = tokio::time::timeout(Self::LIMIT, self.calls.recv()).await;
            let next = next.unwrap_or_else(|_| panic!("no {last:?} after {lines:?}"));
            lines.push(next.expect("the controller runs"));
        }
        lines
    }

    /// Stops the controller, and returns the lines that were not read.
    async fn stop(mut self) -> Vec<String> {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("no error");
        let mut left = Vec::new();
        while let Ok(line) = self.calls.try_recv() {
            left.push(line);
        }
        left
    }
}

/// Another writer, who changes the finalizers of an object before a patch of it arrives.
#[derive(Clone)]
struct Rival {
    configs: Api<ConfigMap>,
    state: Arc<Mutex<RivalState>>,
}

#[derive(Default)]
struct RivalState {
    /// The object, whether finalizers are added or removed, and how often.
    plan: Option<(String, bool, u32)>,
    patched: Vec<String>,
}

// === impl Rival ===

impl Rival {
    fn new(configs: Api<ConfigMap>) -> Self {
        Self {
            configs,
            state: Arc::default(),
        }
    }

    fn adds_a_finalizer(&self, name: &str, times: u32) {
        self.state.lock().expect("not poisoned").plan = Some((name.to_owned(), true, times));
    }

    fn removes_a_finalizer(&self, name: &str, times: u32) {
        self.state.lock().expect("not poisoned").plan = Some((name.to_owned(), false, times));
    }

    /// The number of patches of an object by the controller.
    fn attempts(&self, name: &str) -> usize {
        let state = self.state.lock().expect("not poisoned");
        state.patched.iter().filter(|it| *it == name).count()
    }

    /// A client for the controller.
    fn client(&self, client: Client) -> Client {
        let (rival, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (rival, client) = (rival.clone(), client.clone());
            async move {
                if request.method() == http::Method::PATCH {
                    let path = request.uri().path();
                    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                    rival.interfere(name).await;
                }
                client.send(request).await
            }
        });
        Client::new(service, namespace)
    }

    async fn interfere(&self, name: String) {
        let step = {
            let mut state = self.state.lock().expect("not poisoned");
            state.patched.push(name.clone());
            match &mut state.plan {
                Some((of, adds, times)) if *of == name && *times > 0 => {
                    *times -= 1;
                    Some(*adds)
                }
                _ => None,
            }
        };
        let Some(adds) = step else { return };
        let stored = self.configs.get(&name).await.expect("there");
        let mut finalizers = stored.finalizers().to_vec();
        if adds {
            finalizers.push(format!("rival.dev/{}", finalizers.len() + 1));
        } else {
            finalizers.retain(|it| it != FINALIZER);
            finalizers.remove(0);
            finalizers.push(FINALIZER.to_owned());
        }
        let change = json!({
            "metadata": { "finalizers": finalizers },
            "data": { "value": if adds { "rival" } else { "1" } },
        });
        merge(&self.configs, &name, change).await;
    }
}

/// A client whose next patches fail, as many as `refusals` says.
fn refusing_patches(through: Client, refusals: Arc<AtomicUsize>) -> Client {
    let namespace = through.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_refused = request.method() == http::Method::PATCH
            && (refusals
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)))
            .is_ok();
        let through = through.clone();
        async move {
            if is_refused {
                return Err(io::Error::other("on purpose").into());
            }
            Ok::<_, tower::BoxError>(through.send(request).await?)
        }
    });
    Client::new(service, namespace)
}

fn selected(api: Api<ConfigMap>) -> windlass::ListWatch<ConfigMap> {
    let (key, value) = LABEL;
    let selected = quick(api).labels(format!("{key}={value}"));
    selected.expect("a good selector")
}

async fn create(configs: &Api<ConfigMap>, name: &str, finalizers: &[&str]) {
    let mut object = labelled(config(name, "1"), LABEL.0, LABEL.1);
    object.metadata.finalizers = Some(finalizers.iter().map(|it| (*it).to_owned()).collect());
    let created = configs.create(&PostParams::default(), &object).await;
    created.expect("a new object");
}

async fn merge(configs: &Api<ConfigMap>, name: &str, change: Value) {
    let change = Patch::Merge(change);
    let patched = configs.patch(name, &PatchParams::default(), &change).await;
    patched.expect("there");
}

async fn finalizers(configs: &Api<ConfigMap>, name: &str) -> BTreeSet<String> {
    let object = configs.get(name).await.expect("there");
    object.finalizers().iter().cloned().collect()
}

fn of<'a>(finalizers: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    finalizers.into_iter().map(str::to_owned).collect()
}

fn is_deleted(object: Option<&ConfigMap>) -> bool {
    object.is_none()
}
