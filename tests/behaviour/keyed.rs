//! Keyed resources: upserts and deletes by key, across relists, recreations and runs.

use std::{
    collections::VecDeque, convert::Infallible, num::NonZeroUsize, sync::Arc, time::Duration,
};

use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRole};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Failure, Informer, ListWatch, ObjectKey,
    controller::{RunError, Runnable as _},
    keyed::{Background, KeyedResource, ResourceController, new_resource, test_controller_run},
};

use crate::{
    cluster::Cluster,
    kinds::{config, labelled, value},
    queue::until_waiting,
    watched::quick,
};

/// Objects with this label are watched.
const LABEL: (&str, &str) = ("test", "keyed");

/// Says what it is called with. Its calls fail as the test has scripted.
#[derive(Clone)]
struct Recorder {
    informer: Informer<ConfigMap>,
    calls: mpsc::Sender<String>,
    /// Whether calls for the object `busy` wait.
    held: watch::Sender<bool>,
    failures: Arc<Mutex<VecDeque<&'static str>>>,
}

/// A controller of a recorder.
struct Rig {
    recorder: Recorder,
    controller: ResourceController<Recorder>,
    calls: mpsc::Receiver<String>,
    /// How many markers were created.
    markers: usize,
}

/// A run of a controller.
struct Run {
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), RunError>>,
}

on_both_servers! {
    /// Rows: CK-01, CK-04, CK-05, CK-06, CK-08, CK-09, CK-10, CK-12, CK-13, CK-15, CK-16, CK-17,
    /// CK-19, CK-23, CK-24
    async fn a_resource_is_called_for_what_the_server_has(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        create(&configs, "a").await;
        let mut rig = Rig::new(&cluster).await;
        assert!(!rig.controller.has_synced());
        assert_eq!(rig.controller.last_sync_resource_version(), None);
        cluster.connection().hold();
        let run = rig.run();
        assert_eq!(rig.next().await, "begun");
        assert!(!rig.controller.has_synced(), "nothing is listed");
        cluster.connection().release();
        let key = |name: &str| format!("{}/{name}", cluster.namespace());
        assert_eq!(rig.next().await, format!("upsert {} 1", key("a")));
        assert!(rig.controller.has_synced());

        create(&configs, "b").await;
        assert_eq!(rig.next().await, format!("upsert {} 1", key("b")));
        let changed = set(&configs, "b", "2").await;
        assert_eq!(rig.next().await, format!("upsert {} 2", key("b")));
        let number = |version: Option<String>| version.and_then(|it| it.parse::<u64>().ok());
        let seen = number(rig.controller.last_sync_resource_version());
        // A bookmark can be newer.
        assert!(seen.is_some() && seen >= number(changed.resource_version()), "{seen:?}");
        let store = rig.recorder.informer.store();
        assert_eq!(store.len(), 2, "callers read the store");
        configs.delete("b", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, format!("delete {} 2", key("b")));

        // It ran until the stop. The background task sees the stop, and is awaited.
        assert!(!run.task.is_finished());
        run.stop().await.expect("no error");
        assert_eq!(rig.next().await, "stopping");
        assert_eq!(rig.next().await, "ended");
    }

    /// Rows: CK-02, CK-03, CK-12, CK-21, CK-22
    async fn functions_are_a_resource_and_keys_of_a_cluster_scoped_kind_are_names(cluster: Cluster) {
        let roles: Api<ClusterRole> = Api::all(cluster.aside());
        let name = format!("{}-role", cluster.namespace());
        let (sender, mut receiver) = mpsc::channel(64);
        let added = sender.clone();
        let label = format!("test={}", cluster.namespace());
        let watched = quick(Api::<ClusterRole>::all(cluster.client().await)).labels(label);
        let resource = new_resource(
            Informer::new(watched.expect("a good selector")),
            move |key: ObjectKey, _: Arc<ClusterRole>| {
                let added = added.clone();
                async move {
                    _ = added.send(format!("upsert {key}")).await;
                    Ok::<_, Infallible>(())
                }
            },
            move |key: ObjectKey, last: Arc<ClusterRole>| {
                let sender = sender.clone();
                async move {
                    _ = sender.send(format!("delete {key} {}", last.name_any())).await;
                    Ok::<_, Infallible>(())
                }
            },
        );
        let closer = test_controller_run(resource);
        let role = json!({ "metadata": { "name": name, "labels": { "test": cluster.namespace() } } });
        let role: ClusterRole = serde_json::from_value(role).expect("a role");
        roles.create(&PostParams::default(), &role).await.expect("new");
        assert_eq!(next(&mut receiver).await, format!("upsert {name}"));
        roles.delete(&name, &DeleteParams::default()).await.expect("there");
        assert_eq!(next(&mut receiver).await, format!("delete {name} {name}"));
        closer.stop().await.expect("no error");
        // The controller has ended: its functions are dropped.
        assert_eq!(receiver.recv().await, None);
    }

    /// Rows: CK-13, CK-14, CK-25, CK-30, CK-34
    async fn calls_work_on_the_store_and_not_on_events(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let mut rig = Rig::new(&cluster).await;
        let run = rig.run();
        assert_eq!(rig.next().await, "begun");
        create(&configs, "a").await;
        let key = |name: &str| format!("{}/{name}", cluster.namespace());
        assert_eq!(rig.next().await, format!("upsert {} 1", key("a")));

        // The only worker waits in a call, and the informer continues.
        rig.hold();
        create(&configs, "busy").await;
        assert_eq!(rig.next().await, format!("upsert {} 1", key("busy")));
        set(&configs, "a", "2").await;
        create(&configs, "moment").await;
        configs.delete("moment", &DeleteParams::default()).await.expect("there");
        set(&configs, "a", "3").await;
        rig.queues(&configs, 1).await;
        rig.release();
        assert_eq!(rig.beside_markers().await, format!("upsert {} 3", key("a")), "once, with the newest");

        // Recreated before the delete is processed: only the new object is upserted.
        rig.hold();
        set(&configs, "busy", "2").await;
        assert_eq!(rig.next().await, format!("upsert {} 2", key("busy")));
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        create(&configs, "a").await;
        set(&configs, "a", "new").await;
        rig.queues(&configs, 1).await;
        rig.release();
        assert_eq!(rig.beside_markers().await, format!("upsert {} new", key("a")));

        // Recreated and deleted again before that: one delete.
        rig.hold();
        set(&configs, "busy", "3").await;
        assert_eq!(rig.next().await, format!("upsert {} 3", key("busy")));
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        create(&configs, "a").await;
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        rig.queues(&configs, 1).await;
        rig.release();
        assert_eq!(rig.beside_markers().await, format!("delete {} new", key("a")));
        run.stop().await.expect("no error");
        assert_eq!(rig.left(), ["stopping", "ended"]);
    }

    /// Rows: CK-18, CK-20, CK-29, CK-31
    async fn failed_calls_are_repeated_and_a_delete_that_only_a_relist_shows_is_one(
        cluster: Cluster
    ) {
        let configs = cluster.api_aside::<ConfigMap>();
        let mut rig = Rig::new(&cluster).await;
        let run = rig.run();
        assert_eq!(rig.next().await, "begun");
        let key = format!("{}/a", cluster.namespace());
        rig.fail(&["error", "panic"]).await;
        create(&configs, "a").await;
        for _ in 0..3 {
            assert_eq!(rig.next().await, format!("upsert {key} 1"));
        }

        // Deleted while the watch is broken, and the history expired.
        cluster.connection().hold();
        cluster.connection().cut();
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        cluster.forget_history().await;
        rig.fail(&["error", "error"]).await;
        cluster.connection().release();
        for _ in 0..3 {
            assert_eq!(rig.next().await, format!("delete {key} 1"), "the last known state");
        }
        run.stop().await.expect("no error");
        assert_eq!(rig.left(), ["stopping", "ended"]);
    }

    /// Rows: CK-11, CK-28
    async fn a_stop_drains_the_queue_and_a_controller_runs_again_after_it(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let mut rig = Rig::new(&cluster).await;
        let first = rig.run();
        assert_eq!(rig.next().await, "begun");
        let second = rig.run();
        let error = second.task.await.expect("no panic").expect_err("the first one runs");
        assert!(matches!(error, RunError::AlreadyRuns), "{error}");

        rig.hold();
        create(&configs, "busy").await;
        let key = |name: &str| format!("{}/{name}", cluster.namespace());
        assert_eq!(rig.next().await, format!("upsert {} 1", key("busy")));
        create(&configs, "queued").await;
        until_waiting(|| rig.controller.prometheus_collectors(), 1).await;
        rig.fail(&["error"]).await;
        first.stop.cancel();
        assert_eq!(rig.next().await, "stopping");
        assert_eq!(rig.next().await, "ended");
        rig.release();
        first.task.await.expect("no panic").expect("no error");
        // It failed, and is not repeated.
        assert_eq!(rig.left(), [format!("upsert {} 1", key("queued"))]);

        let third = rig.run();
        assert_eq!(rig.next().await, "begun");
        let mut lines = [rig.next().await, rig.next().await];
        lines.sort();
        assert_eq!(lines, [format!("upsert {} 1", key("busy")), format!("upsert {} 1", key("queued"))]);
        third.stop().await.expect("no error");
    }
}

// === impl Recorder ===

impl Recorder {
    async fn call(&self, line: String) -> Result<(), Failure> {
        let failure = self.failures.lock().await.pop_front();
        let is_busy = line.contains("/busy ");
        // If the test has ended, it does not listen.
        _ = self.calls.try_send(line);
        if is_busy {
            let mut held = self.held.subscribe();
            held.wait_for(|held| !held).await.expect("it is open");
        }
        match failure {
            None => Ok(()),
            Some("panic") => panic!("the registry does not answer"),
            Some(error) => Err(Failure::new(error)),
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
        _ = self.calls.try_send("begun".to_owned());
        scope.stop().cancelled().await;
        _ = self.calls.try_send("stopping".to_owned());
        tokio::task::yield_now().await;
        _ = self.calls.try_send("ended".to_owned());
    }
}

// === impl Rig ===

impl Rig {
    /// A controller with one worker.
    async fn new(cluster: &Cluster) -> Self {
        let (sender, calls) = mpsc::channel(1024);
        let selected: ListWatch<ConfigMap> = quick(cluster.api::<ConfigMap>().await);
        let selected = selected.labels(format!("{}={}", LABEL.0, LABEL.1));
        let recorder = Recorder {
            informer: Informer::new(selected.expect("a good selector")),
            calls: sender,
            held: watch::Sender::new(false),
            failures: Arc::default(),
        };
        let controller = ResourceController::new(recorder.clone())
            .with_controller(|settings| settings.concurrency(NonZeroUsize::MIN).on_error(|_| {}));
        Self {
            recorder,
            controller,
            calls,
            markers: 0,
        }
    }

    fn run(&self) -> Run {
        let stop = CancellationToken::new();
        let (controller, stopped) = (self.controller.clone(), stop.clone());
        let task = tokio::spawn(async move { controller.run(stopped).await });
        Run {
            stop,
            task: AbortOnDropHandle::new(task),
        }
    }

    async fn next(&mut self) -> String {
        next(&mut self.calls).await
    }

    /// The lines that were not read.
    fn left(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }

    /// Lets calls for `busy` wait until [`release`](Self::release).
    fn hold(&self) {
        self.recorder.held.send_replace(true);
    }

    fn release(&self) {
        self.recorder.held.send_replace(false);
    }

    async fn fail(&self, how: &[&'static str]) {
        self.recorder.failures.lock().await.extend(how);
    }

    /// Waits until the queue has all events until now, which are of this number of objects. With one
    /// marker, an object that was created and deleted, and waits for a moment, would count for it.
    async fn queues(&mut self, configs: &Api<ConfigMap>, objects: usize) {
        self.markers += 2;
        for marker in [self.markers - 1, self.markers] {
            create(configs, &format!("marker-{marker}")).await;
        }
        until_waiting(|| self.controller.prometheus_collectors(), objects + 2).await;
    }

    /// Reads the calls for the markers and for one other object, in any order. Returns the latter.
    async fn beside_markers(&mut self) -> String {
        let mut lines = [self.next().await, self.next().await, self.next().await];
        lines.sort_by_key(|line| line.contains("/marker-"));
        let [line, first, second] = lines;
        assert!(
            first.contains("/marker-") && second.contains("/marker-"),
            "{line} {first} {second}"
        );
        line
    }
}

// === impl Run ===

impl Run {
    async fn stop(self) -> Result<(), RunError> {
        self.stop.cancel();
        self.task.await.expect("no panic")
    }
}

async fn next(from: &mut mpsc::Receiver<String>) -> String {
    let next = tokio::time::timeout(Duration::from_secs(60), from.recv()).await;
    next.expect("a call").expect("the controller exists")
}

async fn create(configs: &Api<ConfigMap>, name: &str) {
    let object = labelled(config(name, "1"), LABEL.0, LABEL.1);
    let created = configs.create(&PostParams::default(), &object).await;
    created.expect("a new object");
}

async fn set(configs: &Api<ConfigMap>, name: &str, value: &str) -> ConfigMap {
    let change = Patch::Merge(json!({ "data": { "value": value } }));
    let patched = configs.patch(name, &PatchParams::default(), &change).await;
    patched.expect("there")
}
