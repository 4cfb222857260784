//! Finalizers and their wrappers, on the embedded API server.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::json;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use windlass::{
    Action, FinalizerName, Finalizers, Informer, InformerController, ListWatch,
    OpinionatedReconciler, OpinionatedWatcher, Outcome, Reconciler, Request, SimpleWatcher,
    Watcher,
    controller::{AddError, Kind, RunError},
    finalizer::{FinalizerSupplier, InvalidFinalizer},
};
use windlass_apiserver::ApiServer;

use crate::rig::{KIND, Log, Refused, config, quiet};

/// The finalizer of the tested wrappers.
const OURS: &str = "example.io/keeper";

/// The `ConfigMap`s of a server, and the log of their handlers.
struct TestServer {
    configs: Api<ConfigMap>,
    log: Log,
}

/// A running controller.
struct Running {
    stop: CancellationToken,
    run: JoinHandle<Result<(), RunError>>,
}

// === impl TestServer ===

impl TestServer {
    fn new() -> Self {
        let server = ApiServer::new();
        Self {
            configs: Api::namespaced(server.client(), "default"),
            log: Log::default(),
        }
    }

    fn finalizers(&self) -> Finalizers<ConfigMap> {
        let name = FinalizerName::new(OURS).expect("a good name");
        Finalizers::new(self.configs.clone(), name).expect("a good name")
    }

    /// Runs a controller with this watcher.
    fn watch(&self, watcher: impl Watcher<ConfigMap>) -> Running {
        self.run(|controller, kind| controller.add_watcher(kind, watcher).map(|_| ()))
    }

    /// Runs a controller with this reconciler.
    fn reconcile(&self, reconciler: impl Reconciler<ConfigMap>) -> Running {
        self.run(|controller, kind| controller.add_reconciler(kind, reconciler).map(|_| ()))
    }

    fn run(
        &self,
        add: impl FnOnce(&InformerController, &Kind<ConfigMap>) -> Result<(), AddError>,
    ) -> Running {
        let soon = |_: &windlass::controller::ErrorReport<'_>| Some(Duration::from_millis(1));
        let controller = quiet().retry_policy(soon).build().expect("valid settings");
        let seen = ListWatch::new(self.configs.clone()).labels("app=web");
        let informer = Informer::new(seen.expect("a selector"));
        let kind = controller.kind(KIND).expect("a new kind");
        controller.add_informer(&kind, &informer).expect("added");
        add(&controller, &kind).expect("added");
        let stop = CancellationToken::new();
        let token = stop.clone();
        let run = tokio::spawn(async move { controller.run(token).await });
        Running { stop, run }
    }

    async fn create(&self, name: &str) {
        let mut object = config(name, 1);
        object.metadata = kube::api::ObjectMeta {
            name: object.metadata.name,
            labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..Default::default()
        };
        let created = self.configs.create(&PostParams::default(), &object).await;
        created.expect("a new object");
    }

    async fn merge(&self, name: &str, patch: serde_json::Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.configs.patch(name, &params, &patch).await;
        patched.expect("the object exists");
    }

    async fn delete(&self, name: &str) {
        let deleted = self.configs.delete(name, &DeleteParams::default()).await;
        deleted.expect("the object exists");
    }

    /// The finalizers of an object. None if it does not exist.
    async fn finalizers_of(&self, name: &str) -> Option<Vec<String>> {
        let object = self.configs.get_opt(name).await.expect("a response");
        object.map(|object| object.finalizers().to_vec())
    }

    /// Waits until an object has exactly these finalizers, or for `None`, until it is deleted.
    async fn until(&self, name: &str, finalizers: Option<&[&str]>) {
        let there = async {
            loop {
                let now = self.finalizers_of(name).await;
                if now.as_deref() == finalizers.map(owned).as_deref() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        let waited = timeout(Duration::from_secs(60), there).await;
        waited.unwrap_or_else(|_| {
            panic!("timed out after 60s waiting for {name} to have {finalizers:?}")
        });
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

// === impl Running ===

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.run.await.expect("no panic").expect("no error");
    }
}

/// An object has the in-progress finalizer during the first call, and the final one afterwards.
#[tokio::test]
async fn w06_one_patch_replaces_the_in_progress_finalizer() {
    let server = TestServer::new();
    let (log, configs) = (server.log.clone(), server.configs.clone());
    let watcher = SimpleWatcher::new().on_add(move |object: Arc<ConfigMap>| {
        let (log, configs) = (log.clone(), configs.clone());
        async move {
            let now = configs.get(&object.name_any()).await?;
            log.push(now.finalizers().join(" "));
            Ok::<_, kube::Error>(())
        }
    });
    let running = server.watch(OpinionatedWatcher::new(server.finalizers(), watcher));
    server.create("web").await;
    server.until("web", Some(&[OURS])).await;
    let during = server.log.take().await;
    let guard = FinalizerName::new(OURS).expect("good").in_progress();
    assert_eq!(during, guard.as_str());
    running.stop().await;
}

/// An object is deleted during its first call. The handler is called once for the add and once for
/// the delete.
#[tokio::test]
async fn w07_each_event_causes_one_call_and_a_deletion_during_the_add_is_dispatched() {
    let server = TestServer::new();
    let (log, configs) = (server.log.clone(), server.configs.clone());
    let (updates, deletes) = (server.log.clone(), server.log.clone());
    let watcher = SimpleWatcher::new()
        .on_add(move |object: Arc<ConfigMap>| {
            let (log, configs) = (log.clone(), configs.clone());
            async move {
                log.push("add");
                let name = object.name_any();
                configs.delete(&name, &DeleteParams::default()).await?;
                Ok::<_, kube::Error>(())
            }
        })
        .on_update(move |_: Arc<ConfigMap>, _: Arc<ConfigMap>| {
            updates.push("update");
            async { Ok::<_, Refused>(()) }
        })
        .on_delete(move |_: Arc<ConfigMap>| {
            deletes.push("delete");
            async { Ok::<_, Refused>(()) }
        });
    let running = server.watch(OpinionatedWatcher::new(server.finalizers(), watcher));
    server.create("web").await;
    server.until("web", None).await;
    assert_eq!(server.log.take().await, "add, delete");
    running.stop().await;
}

/// Logs the calls that an [`OpinionatedReconciler`] passes on, and returns the result of `answer`.
fn reconciler(
    server: &TestServer,
    answer: fn(&Request<ConfigMap>) -> Result<Outcome, Refused>,
) -> impl Reconciler<ConfigMap> + use<> {
    let log = server.log.clone();
    let inner = move |request: Request<ConfigMap>| {
        log.push(format_args!("{:?}", request.action()));
        let answer = answer(&request);
        async move { answer }
    };
    OpinionatedReconciler::new(server.finalizers(), inner)
}

#[tokio::test]
async fn w09_a_delete_before_the_finalizer_was_added_is_dispatched() {
    let server = TestServer::new();
    let (log, configs) = (server.log.clone(), server.configs.clone());
    let inner = move |request: Request<ConfigMap>| {
        let (log, configs) = (log.clone(), configs.clone());
        async move {
            log.push(format_args!("{:?}", request.action()));
            if request.action() == Action::Created {
                let name = request.key().name();
                configs.delete(name, &DeleteParams::default()).await?;
            }
            Ok::<_, kube::Error>(Outcome::done())
        }
    };
    let running = server.reconcile(OpinionatedReconciler::new(server.finalizers(), inner));
    server.create("web").await;
    server.until("web", None).await;
    assert_eq!(server.log.take().await, "Created, Deleted");
    running.stop().await;
}

/// A requeue is no failure: the final finalizer is set after the first call.
#[tokio::test]
async fn w09_a_reconciler_that_always_requeues_gets_its_finalizer() {
    let server = TestServer::new();
    let running = server.reconcile(reconciler(&server, |request| {
        Ok(match request.action() {
            Action::Deleted => Outcome::done(),
            _ => Outcome::requeue_after(Duration::from_secs(3600)),
        })
    }));
    server.create("web").await;
    server.until("web", Some(&[OURS])).await;
    server.delete("web").await;
    server.until("web", None).await;
    // The event of our own finalizer write causes no call.
    assert_eq!(server.log.take().await, "Created, Deleted");
    running.stop().await;
}

/// After a restart, an object with the in-progress finalizer is created, and an object with the
/// final one is resynced.
#[tokio::test]
async fn w09_an_object_whose_create_failed_is_created_after_a_restart() {
    let server = TestServer::new();
    let running = server.reconcile(reconciler(&server, |_| Err(Refused("not yet"))));
    server.create("web").await;
    let guard = FinalizerName::new(OURS).expect("good").in_progress();
    server.until("web", Some(&[guard.as_str()])).await;
    // Another event does not set the final finalizer either.
    server
        .merge("web", json!({ "data": { "value": "2" } }))
        .await;
    running.stop().await;
    assert!(!server.log.take().await.contains("Resynced"));
    server.until("web", Some(&[guard.as_str()])).await;

    let running = server.reconcile(reconciler(&server, |_| Ok(Outcome::done())));
    server.until("web", Some(&[OURS])).await;
    running.stop().await;
    assert_eq!(server.log.take().await, "Created");

    let third = server.reconcile(reconciler(&server, |_| Ok(Outcome::done())));
    let resynced = timeout(Duration::from_secs(60), async {
        while server.log.take().await != "Resynced" {}
    });
    resynced.await.expect("a new process resyncs the object");
    third.stop().await;
}

#[tokio::test]
async fn w14_an_object_that_leaves_the_selector_can_be_deleted() {
    let server = TestServer::new();
    let watcher = SimpleWatcher::<ConfigMap>::new();
    let running = server.watch(OpinionatedWatcher::new(server.finalizers(), watcher));
    server.create("web").await;
    server.until("web", Some(&[OURS])).await;
    server
        .merge(
            "web",
            json!({ "metadata": { "labels": { "app": "other" } } }),
        )
        .await;
    server.until("web", Some(&[])).await;
    server.delete("web").await;
    assert_eq!(server.finalizers_of("web").await, None);
    running.stop().await;
}

/// A wrapper requires its handler and its finalizers, and an invalid finalizer name is an error.
#[test]
fn w40_a_wrapper_is_complete_when_it_is_created() {
    assert!(matches!(
        FinalizerName::new(""),
        Err(InvalidFinalizer::Empty)
    ));
    // A built-in kind requires a domain. The error is returned when the finalizers are created, not
    // after the first patch.
    let api_server = ApiServer::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let _inside = runtime.enter();
    let configs: Api<ConfigMap> = Api::namespaced(api_server.client(), "default");
    let refused = Finalizers::<ConfigMap>::new(configs, |_: &GroupVersionKind| "bare".to_owned());
    assert!(matches!(
        refused,
        Err(InvalidFinalizer::NotQualified { .. })
    ));
}

#[test]
fn w41_finalizer_names_follow_kubernetes_limits_and_the_default_has_a_domain() {
    let domain = format!("{}.example.io", "d".repeat(63));
    let long = format!("{domain}/{}", "n".repeat(63));
    assert!(long.len() > 63);
    assert_eq!(FinalizerName::new(&long).expect("it fits").as_str(), long);
    for refused in [format!("{domain}/{}", "n".repeat(64)), "n".repeat(64)] {
        assert!(FinalizerName::new(refused).is_err());
    }
    // The in-progress finalizer of the longest name is valid too, and different.
    let name = FinalizerName::new(&long).expect("it fits");
    let guard = name.in_progress();
    assert!(guard != name && FinalizerName::new(guard.as_str()).is_ok());

    let kind = GroupVersionKind::gvk("weaknesses.example.io", "v1alpha1", "VeryLongKindOfThing");
    let qualified =
        |kind: &GroupVersionKind| format!("{}/operator.{}.{}", kind.group, kind.version, kind.kind);
    let name = qualified.finalizer(&kind);
    assert_eq!(
        name.expect("it fits").as_str(),
        "weaknesses.example.io/operator.v1alpha1.VeryLongKindOfThing"
    );
}
