//! Nothing is deleted unseen, and nothing is kept for ever: on the embedded API server.

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
    controller::RunError,
    finalizer::{FinalizerSupplier, InvalidFinalizer, QualifiedFinalizerSupplier},
};
use windlass_apiserver::ApiServer;

use crate::rig::{KIND, Log, Refused, config, quiet};

/// A name of ours, and what the object has before its first call has succeeded.
const OURS: &str = "example.io/keeper";

/// A server, its `ConfigMap`s, and what was told of them.
struct Town {
    configs: Api<ConfigMap>,
    log: Log,
}

/// An operator that runs in a [`Town`].
struct Life {
    stop: CancellationToken,
    run: JoinHandle<Result<(), RunError>>,
}

// === impl Town ===

impl Town {
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

    /// Runs an operator with this watcher.
    fn watch(&self, watcher: impl Watcher<ConfigMap>) -> Life {
        self.live(|controller| controller.add_watcher(KIND, watcher).map(|_| ()))
    }

    /// Runs an operator with this reconciler.
    fn reconcile(&self, reconciler: impl Reconciler<ConfigMap>) -> Life {
        self.live(|controller| controller.add_reconciler(KIND, reconciler).map(|_| ()))
    }

    fn live(
        &self,
        add: impl FnOnce(&InformerController) -> Result<(), windlass::controller::AddError>,
    ) -> Life {
        let soon = |_: &windlass::controller::ErrorReport<'_>| Some(Duration::from_millis(1));
        let controller = quiet().retry_policy(soon).build().expect("good settings");
        let seen = ListWatch::new(self.configs.clone()).labels("app=web");
        let informer = Informer::new(seen.expect("a selector"));
        controller.add_informer(KIND, &informer).expect("added");
        add(&controller).expect("added");
        let stop = CancellationToken::new();
        let token = stop.clone();
        let run = tokio::spawn(async move { controller.run(token).await });
        Life { stop, run }
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
        patched.expect("it is there");
    }

    async fn delete(&self, name: &str) {
        let deleted = self.configs.delete(name, &DeleteParams::default()).await;
        deleted.expect("it is there");
    }

    /// The finalizers of an object; none if it is gone.
    async fn finalizers_of(&self, name: &str) -> Option<Vec<String>> {
        let object = self.configs.get_opt(name).await.expect("an answer");
        object.map(|object| object.finalizers().to_vec())
    }

    /// Waits until an object has exactly these finalizers; or, for none, until it is gone.
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
        waited.unwrap_or_else(|_| panic!("{name} never has {finalizers:?}"));
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

// === impl Life ===

impl Life {
    async fn stop(self) {
        self.stop.cancel();
        self.run.await.expect("no panic").expect("it ends well");
    }
}

/// The in-progress finalizer while the first call is made, the real one afterwards, and never
/// both: on a server that keeps them.
#[tokio::test]
async fn w06_the_finalizer_in_progress_gives_way_to_the_real_one() {
    let town = Town::new();
    let (log, configs) = (town.log.clone(), town.configs.clone());
    let watcher = SimpleWatcher::new().on_add(move |object: Arc<ConfigMap>| {
        let (log, configs) = (log.clone(), configs.clone());
        async move {
            let now = configs.get(&object.name_any()).await?;
            log.say(now.finalizers().join(" "));
            Ok::<_, kube::Error>(())
        }
    });
    let life = town.watch(OpinionatedWatcher::new(town.finalizers(), watcher));
    town.create("web").await;
    town.until("web", Some(&[OURS])).await;
    let during = town.log.take().await;
    let guard = FinalizerName::new(OURS).expect("good").in_progress();
    assert_eq!(during, guard.as_str());
    life.stop().await;
}

/// An object that changes and then dies while its first call is made: one call for each thing
/// that happened, and the deletion is not lost with a stale list of finalizers.
#[tokio::test]
async fn w07_one_event_is_one_call_and_a_deletion_during_the_add_is_told() {
    let town = Town::new();
    let (log, configs) = (town.log.clone(), town.configs.clone());
    let (updates, deletes) = (town.log.clone(), town.log.clone());
    let watcher = SimpleWatcher::new()
        .on_add(move |object: Arc<ConfigMap>| {
            let (log, configs) = (log.clone(), configs.clone());
            async move {
                log.say("add");
                let name = object.name_any();
                configs.delete(&name, &DeleteParams::default()).await?;
                Ok::<_, kube::Error>(())
            }
        })
        .on_update(move |_: Arc<ConfigMap>, _: Arc<ConfigMap>| {
            updates.say("update");
            async { Ok::<_, Refused>(()) }
        })
        .on_delete(move |_: Arc<ConfigMap>| {
            deletes.say("delete");
            async { Ok::<_, Refused>(()) }
        });
    let life = town.watch(OpinionatedWatcher::new(town.finalizers(), watcher));
    town.create("web").await;
    town.until("web", None).await;
    assert_eq!(town.log.take().await, "add, delete");
    life.stop().await;
}

/// What [`OpinionatedReconciler`] passes on is said; what `answer` says is answered.
fn reconciler(
    town: &Town,
    answer: fn(&Request<ConfigMap>) -> Result<Outcome, Refused>,
) -> impl Reconciler<ConfigMap> + use<> {
    let log = town.log.clone();
    let inner = move |request: Request<ConfigMap>| {
        log.say(format_args!("{:?}", request.action()));
        let answer = answer(&request);
        async move { answer }
    };
    OpinionatedReconciler::new(town.finalizers(), inner)
}

#[tokio::test]
async fn w09_a_delete_between_the_first_side_effect_and_the_finalizer_is_told() {
    let town = Town::new();
    let (log, configs) = (town.log.clone(), town.configs.clone());
    let inner = move |request: Request<ConfigMap>| {
        let (log, configs) = (log.clone(), configs.clone());
        async move {
            log.say(format_args!("{:?}", request.action()));
            if request.action() == Action::Created {
                let name = request.key().name();
                configs.delete(name, &DeleteParams::default()).await?;
            }
            Ok::<_, kube::Error>(Outcome::done())
        }
    };
    let life = town.reconcile(OpinionatedReconciler::new(town.finalizers(), inner));
    town.create("web").await;
    town.until("web", None).await;
    assert_eq!(town.log.take().await, "Created, Deleted");
    life.stop().await;
}

/// To be called again is no failure: the object is ours from the first call that went well.
#[tokio::test]
async fn w09_a_reconciler_that_always_asks_to_be_called_again_gets_its_finalizer() {
    let town = Town::new();
    let life = town.reconcile(reconciler(&town, |request| {
        Ok(match request.action() {
            Action::Deleted => Outcome::done(),
            _ => Outcome::requeue_after(Duration::from_secs(3600)),
        })
    }));
    town.create("web").await;
    town.until("web", Some(&[OURS])).await;
    town.delete("web").await;
    town.until("web", None).await;
    // The write of the finalizer comes back as an event, in which nothing else has changed.
    assert_eq!(town.log.take().await, "Created, Deleted");
    life.stop().await;
}

/// After a restart, what has not been created is created, though it has a finalizer in
/// progress; what has been is resynced.
#[tokio::test]
async fn w09_what_was_never_created_is_created_after_a_restart() {
    let town = Town::new();
    let life = town.reconcile(reconciler(&town, |_| Err(Refused("not yet"))));
    town.create("web").await;
    let guard = FinalizerName::new(OURS).expect("good").in_progress();
    town.until("web", Some(&[guard.as_str()])).await;
    // Any other event of it does not make it ours either.
    town.merge("web", json!({ "data": { "value": "2" } })).await;
    life.stop().await;
    assert!(!town.log.take().await.contains("Resynced"));
    town.until("web", Some(&[guard.as_str()])).await;

    let life = town.reconcile(reconciler(&town, |_| Ok(Outcome::done())));
    town.until("web", Some(&[OURS])).await;
    life.stop().await;
    assert_eq!(town.log.take().await, "Created");

    let third = town.reconcile(reconciler(&town, |_| Ok(Outcome::done())));
    while town.log.take().await != "Resynced" {}
    third.stop().await;
}

#[tokio::test]
async fn w14_an_object_that_leaves_the_selector_can_be_deleted() {
    let town = Town::new();
    let watcher = SimpleWatcher::<ConfigMap>::new();
    let life = town.watch(OpinionatedWatcher::new(town.finalizers(), watcher));
    town.create("web").await;
    town.until("web", Some(&[OURS])).await;
    town.merge(
        "web",
        json!({ "metadata": { "labels": { "app": "other" } } }),
    )
    .await;
    town.until("web", Some(&[])).await;
    town.delete("web").await;
    assert_eq!(town.finalizers_of("web").await, None);
    life.stop().await;
}

/// A wrapper cannot be had without what it wraps and its finalizers, and a finalizer cannot be
/// had that the server would not take.
#[test]
fn w40_a_wrapper_has_all_that_it_needs_when_it_is_made() {
    assert!(matches!(
        FinalizerName::new(""),
        Err(InvalidFinalizer::Empty)
    ));
    // A kind that is built in wants a domain: it is said when the finalizers are made, and
    // not by the first patch.
    let server = ApiServer::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let _inside = runtime.enter();
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let refused = Finalizers::<ConfigMap>::new(configs, |_: &GroupVersionKind| "bare".to_owned());
    assert!(matches!(
        refused,
        Err(InvalidFinalizer::NotQualified { .. })
    ));
}

#[test]
fn w41_a_finalizer_has_the_limits_of_kubernetes_and_a_default_with_a_domain() {
    let domain = format!("{}.example.io", "d".repeat(63));
    let long = format!("{domain}/{}", "n".repeat(63));
    assert!(long.len() > 63);
    assert_eq!(FinalizerName::new(&long).expect("it fits").as_str(), long);
    for refused in [format!("{domain}/{}", "n".repeat(64)), "n".repeat(64)] {
        assert!(FinalizerName::new(refused).is_err());
    }
    // However long the kind is, its guard fits too, and is another.
    let name = FinalizerName::new(&long).expect("it fits");
    let guard = name.in_progress();
    assert!(guard != name && FinalizerName::new(guard.as_str()).is_ok());

    let kind = GroupVersionKind::gvk("weaknesses.example.io", "v1alpha1", "VeryLongKindOfThing");
    let name = QualifiedFinalizerSupplier.finalizer(&kind);
    assert_eq!(
        name.expect("it fits").as_str(),
        "weaknesses.example.io/operator.v1alpha1.VeryLongKindOfThing"
    );
}
