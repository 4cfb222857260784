//! Programs as users of kube-rs write them, in circumstances that are rare.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, channel::mpsc, future};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _,
    api::{
        ApiResource, DeleteParams, DynamicObject, ObjectMeta, PartialObjectMeta, Patch,
        PatchParams, PostParams,
    },
    core::DeserializeGuard,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::runtime::{
    Config, WatchStreamExt as _,
    controller::{self, Action, Controller},
    events::{Event, EventType, Recorder, Reporter},
    finalizer::{self, finalizer},
    reflector::{self, ObjectRef},
    wait::{Condition as _, await_condition, conditions, delete::delete_and_finalize},
    watcher::{self, watch_object},
};

use super::{Each, Polled, Refused, config, create, delete, merge, never, nothing, until, value};
use crate::kinds::{Gizmo, loose_gizmo};

/// A kind that only these programs have.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "programs.windlass.dev",
    version = "v1",
    kind = "Widget",
    namespaced
)]
pub(crate) struct WidgetSpec {
    content: String,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("invalid object: {0}")]
    Invalid(String),
    #[error("cannot write: {0}")]
    Write(#[source] kube::Error),
}

async fn generate(
    guard: Arc<DeserializeGuard<Gizmo>>,
    client: Arc<Client>,
) -> Result<Action, Failed> {
    let gizmo = guard
        .0
        .as_ref()
        .map_err(|invalid| Failed::Invalid(invalid.error.clone()))?;
    let namespace = gizmo.namespace().unwrap_or_default();
    let configs = Api::<ConfigMap>::namespaced(Client::clone(&client), &namespace);
    let owned = ConfigMap {
        metadata: ObjectMeta {
            name: gizmo.metadata.name.clone(),
            owner_references: gizmo.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("size".to_owned(), gizmo.spec.size.to_string())].into()),
        ..ConfigMap::default()
    };
    let params = PatchParams::apply("gizmos").force();
    configs
        .patch(&gizmo.name_any(), &params, &Patch::Apply(&owned))
        .await
        .map_err(Failed::Write)?;
    Ok(Action::await_change())
}

/// Publishes an event for a call that failed.
async fn report<K, E>(
    recorder: &Recorder,
    result: &Result<(ObjectRef<K>, Action), controller::Error<E, watcher::Error>>,
) where
    K: reflector::Lookup,
    E: std::error::Error,
{
    match result {
        Ok(_) => {}
        Err(controller::Error::ReconcilerFailed(error, target)) => {
            let event = Event {
                type_: EventType::Warning,
                reason: "Failed".to_owned(),
                note: Some(error.to_string()),
                action: "Reconcile".to_owned(),
                secondary: None,
            };
            let target = (**target).clone().into();
            recorder.publish(&event, &target).await.expect("an event");
        }
        Err(_) => {}
    }
}

on_both_servers! {
    /// An operator with guarded objects, a scan of its store, and events.
    async fn an_operator_of_guarded_objects_reports_invalid_ones(cluster: Cluster) {
        cluster.install(&loose_gizmo()).await;
        let kind = ApiResource::erase::<Gizmo>(&());
        let gizmos = Api::<DynamicObject>::namespaced_with(cluster.aside(), cluster.namespace(), &kind);
        let put = async |name: &str, size: serde_json::Value| {
            let gizmo = DynamicObject::new(name, &kind).data(json!({ "spec": { "size": size } }));
            gizmos.create(&PostParams::default(), &gizmo).await.expect("a new object");
        };
        put("bad", json!("large")).await;
        put("good", json!(1)).await;
        let client = cluster.client().await;
        let api = Api::<DeserializeGuard<Gizmo>>::namespaced(client.clone(), cluster.namespace());
        let recorder = Arc::new(Recorder::new(client.clone(), Reporter { controller: "gizmos".into(), instance: None }));
        let stop = CancellationToken::new();
        let controller = Controller::new(api, watcher::Config::default());
        let store = controller.store();
        let stopped = stop.clone().cancelled_owned().shared();
        let seen = store.clone();
        let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), cluster.namespace());
        let configs = Api::<PartialObjectMeta<ConfigMap>>::namespaced(client.clone(), cluster.namespace());
        let items = Arc::new(Mutex::new(Vec::new()));
        let results = Arc::clone(&items);
        let running = tokio::spawn(
            controller
                .owns(configs, watcher::Config::default())
                .watches(secrets, watcher::Config::default(), move |secret| {
                    let named = move |gizmo: &Arc<DeserializeGuard<Gizmo>>| gizmo.meta().name == secret.metadata.name;
                    store.state().into_iter().filter(named).map(|gizmo| ObjectRef::from_obj(&*gizmo)).collect::<Vec<_>>()
                })
                .graceful_shutdown_on(stopped)
                .run(generate, |_, error, _| match error {
                    Failed::Invalid(_) => Action::await_change(),
                    Failed::Write(_) => Action::requeue(Duration::from_secs(5)),
                }, Arc::new(client))
                .for_each_concurrent(16, move |result| {
                    let (recorder, results) = (Arc::clone(&recorder), Arc::clone(&results));
                    async move {
                        report(&recorder, &result).await;
                        results.lock().expect("no panic").push(match result {
                            Ok((target, _)) => target.name,
                            Err(error) => error.to_string(),
                        });
                    }
                }),
        );
        let configs = cluster.api_aside::<ConfigMap>();
        until(|| items.lock().expect("no panic").len() >= 2).await;
        seen.wait_until_ready().await.expect("ready");
        assert_eq!(seen.len(), 2, "{:?}", items.lock().expect("no panic"));
        let bad = seen.get(&ObjectRef::new("bad").within(cluster.namespace())).expect("in the store");
        assert!(bad.0.is_err());
        let events = Api::<k8s_openapi::api::events::v1::Event>::namespaced(cluster.aside(), cluster.namespace());
        let events = events.list(&Default::default()).await.expect("events");
        assert_eq!(events.items.len(), 1, "{events:?}");
        assert_eq!(events.items[0].regarding.as_ref().and_then(|it| it.name.as_deref()), Some("bad"));
        merge(&gizmos, "bad", json!({ "spec": { "size": 2 } })).await;
        await_condition(configs.clone(), "bad", |it: Option<&ConfigMap>| it.is_some()).await.expect("written");
        let before = items.lock().expect("no panic").len();
        create(&cluster.api_aside::<Secret>(), json!({ "metadata": { "name": "good" } })).await;
        until(|| items.lock().expect("no panic")[before..].contains(&"good".to_owned())).await;
        delete(&configs, "good").await;
        await_condition(configs.clone(), "good", |it: Option<&ConfigMap>| it.is_some()).await.expect("written");
        stop.cancel();
        running.await.expect("it ends");
    }

    /// The definition of the kind is deleted and created again while the operator runs.
    async fn an_operator_survives_the_end_of_its_kind(cluster: Cluster) {
        cluster.install(&Widget::crd()).await;
        let aside = cluster.api_aside::<Widget>();
        let widget = |name: &str| json!({ "metadata": { "name": name }, "spec": { "content": "x" } });
        create(&aside, widget("old")).await;
        let controller = Controller::new(cluster.api::<Widget>().await, watcher::Config::default());
        let store = controller.store();
        let refused = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&refused);
        let (sender, mut names) = mpsc::unbounded();
        let configs = cluster.api::<ConfigMap>().await;
        let running = controller
            .trigger_backoff(Each(Duration::from_millis(50)))
            .owns(configs, watcher::Config::default())
            .run(nothing, never, Arc::new(()))
            .for_each(move |item| {
                match item {
                    Ok((target, _)) => sender.unbounded_send(target.name).expect("open"),
                    Err(controller::Error::QueueError(
                        watcher::Error::InitialListFailed(kube::Error::Api(status)) | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
                    )) if status.code == 404 => { counted.fetch_add(1, Ordering::SeqCst); }
                    Err(_) => {}
                }
                future::ready(())
            });
        let running = tokio::spawn(running);
        assert_eq!(names.next().await.as_deref(), Some("old"));
        let crds = Api::<CustomResourceDefinition>::all(cluster.aside());
        delete_and_finalize(crds, &Widget::crd().name_any(), &DeleteParams::default()).await.expect("deleted");
        until(|| refused.load(Ordering::SeqCst) > 0).await;
        cluster.install(&Widget::crd()).await;
        let mut new = widget("new");
        new["apiVersion"] = "programs.windlass.dev/v1".into();
        new["kind"] = "Widget".into();
        let new: Widget = serde_json::from_value(new).expect("a widget");
        let created = async {
            loop {
                match aside.create(&PostParams::default(), &new).await {
                    Ok(_) => return,
                    // Between two requests: kube-apiserver serves a kind a moment after it is established.
                    Err(kube::Error::Api(status)) if status.is_not_found() => tokio::time::sleep(Duration::from_millis(10)).await,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), created).await.expect("the kind is served again");
        while names.next().await.as_deref() != Some("new") {}
        until(|| store.len() == 1).await;
        running.abort();
    }

    /// Delays of all lengths, with a debounce and a periodic trigger.
    async fn delays_without_an_end_and_of_nothing(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let (ticks, ticked) = mpsc::channel::<()>(1);
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let calls = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
        let counted = Arc::clone(&calls);
        let _running = Polled::start(
            controller
                .with_config(Config::default().concurrency(1).debounce(Duration::from_millis(20)))
                .reconcile_all_on(ticked)
                .run(
                    move |config: Arc<ConfigMap>, _| {
                        *counted.lock().expect("no panic").entry(config.name_any()).or_default() += 1;
                        future::ready(match value(&config) {
                            "endless" => Ok(Action::requeue(Duration::MAX)),
                            "nothing" => Ok(Action::requeue(Duration::ZERO)),
                            "fails" => Err(Refused("no".into())),
                            _ => Ok(Action::await_change()),
                        })
                    },
                    |_, _, _| Action::requeue(Duration::MAX),
                    Arc::new(()),
                ),
        );
        for name in ["endless", "nothing", "fails", "waits"] {
            create(&aside, config(name, name)).await;
        }
        let count = |name: &str| calls.lock().expect("no panic").get(name).copied().unwrap_or_default();
        until(|| count("nothing") > 5 && ["endless", "fails", "waits"].iter().all(|name| count(name) == 1)).await;
        ticks.clone().try_send(()).expect("polled");
        until(|| ["endless", "fails", "waits"].iter().all(|name| count(name) == 2)).await;
        merge(&aside, "endless", json!({ "data": { "other": "x" } })).await;
        until(|| count("endless") == 3).await;
    }

    /// A program that waits, as a script does.
    async fn a_script_waits_for_conditions(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let api = cluster.api::<ConfigMap>().await;
        let exists = |config: Option<&ConfigMap>| config.is_some();
        let two = |config: Option<&ConfigMap>| config.is_some_and(|config| value(config) == "2");
        let waiting = tokio::spawn(await_condition(api.clone(), "a", exists.and(two)));
        let mut states = watch_object(api.clone(), "a").default_backoff().boxed();
        assert!(states.next().await.expect("a state").expect("no error").is_none());
        create(&aside, config("a", "1")).await;
        assert!(states.next().await.expect("a state").expect("no error").is_some());
        merge(&aside, "a", json!({ "data": { "value": "2" } })).await;
        let found = waiting.await.expect("no panic").expect("found").expect("an object");
        assert_eq!(value(&found), "2");
        let uid = found.uid().expect("a uid");
        let gone = tokio::spawn(await_condition(api.clone(), "a", conditions::is_deleted(uid.leak())));
        delete_and_finalize(api, "a", &DeleteParams::default()).await.expect("deleted");
        gone.await.expect("no panic").expect("gone");
    }

    /// A copy of each object elsewhere, with a finalizer, and restarts.
    async fn an_operator_with_finalizers_is_restarted(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let secrets = cluster.api_aside::<Secret>();
        let start = async || {
            let client = cluster.client().await;
            let api = cluster.api::<ConfigMap>().await;
            let controller = Controller::new(api.clone(), watcher::Config::default().labels("copied"));
            Polled::start(controller.run(
                move |config: Arc<ConfigMap>, client: Arc<Client>| {
                    let api = api.clone();
                    async move {
                        let secrets = Api::<Secret>::namespaced(Client::clone(&client), &config.namespace().unwrap_or_default());
                        finalizer(&api, "programs.windlass.dev/copy", config, |event| async move {
                            match event {
                                finalizer::Event::Apply(config) => {
                                    let copy = json!({
                                        "apiVersion": "v1", "kind": "Secret",
                                        "metadata": { "name": config.name_any() }, "stringData": config.data,
                                    });
                                    let params = PatchParams::apply("copies").force();
                                    secrets.patch(&config.name_any(), &params, &Patch::Apply(copy)).await?;
                                    Ok::<_, kube::Error>(Action::requeue(Duration::from_secs(300)))
                                }
                                finalizer::Event::Cleanup(config) => {
                                    let deleted = secrets.delete(&config.name_any(), &DeleteParams::default()).await;
                                    match deleted {
                                        Ok(_) => {}
                                        Err(kube::Error::Api(status)) if status.is_not_found() => {}
                                        Err(error) => return Err(error),
                                    }
                                    Ok(Action::await_change())
                                }
                            }
                        }).await
                    }
                },
                |_, _: &finalizer::Error<kube::Error>, _| {
                    Action::requeue(Duration::from_millis(50))
                },
                Arc::new(client),
            ))
        };
        let copied = |name: &str| json!({ "metadata": { "name": name, "labels": { "copied": "" } }, "data": { "x": name } });
        let running = start().await;
        create(&aside, copied("a")).await;
        create(&aside, copied("b")).await;
        for name in ["a", "b"] {
            await_condition(secrets.clone(), name, |it: Option<&Secret>| it.is_some()).await.expect("a copy");
        }
        drop(running);
        // While it is away.
        delete(&aside, "a").await;
        create(&aside, copied("c")).await;
        let _running = start().await;
        for name in ["a"] {
            await_condition(secrets.clone(), name, |it: Option<&Secret>| it.is_none()).await.expect("no copy");
            await_condition(aside.clone(), name, |it: Option<&ConfigMap>| it.is_none()).await.expect("deleted");
        }
        await_condition(secrets.clone(), "c", |it: Option<&Secret>| it.is_some()).await.expect("a copy");
        // The label is removed: the object is no longer selected, and its finalizer stays.
        merge(&aside, "b", json!({ "metadata": { "labels": { "copied": null } } })).await;
        delete(&aside, "b").await;
        merge(&aside, "b", json!({ "metadata": { "labels": { "copied": "" } } })).await;
        await_condition(aside.clone(), "b", |it: Option<&ConfigMap>| it.is_none()).await.expect("deleted");
    }

    /// Pods without a node, each of which leaves the selection when it is bound.
    async fn a_scheduler_binds_pods_that_leave_its_selection(cluster: Cluster) {
        let pods = cluster.api_aside::<Pod>();
        let pod = |name: &str| json!({
            "metadata": { "name": name },
            "spec": { "schedulerName": "programs", "containers": [{ "name": "c", "image": "i" }] },
        });
        create(&pods, pod("a")).await;
        let selected = watcher::Config::default().fields("spec.schedulerName=programs,spec.nodeName=");
        let api = cluster.api::<Pod>().await;
        let controller = Controller::new(api.clone(), selected);
        let store = controller.store();
        let mut polled = Polled::start(controller.run(
            move |pod: Arc<Pod>, _| {
                let api = api.clone();
                async move {
                    let name = pod.name_any();
                    let binding = json!({
                        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
                        "target": { "apiVersion": "v1", "kind": "Node", "name": "node-1" },
                    });
                    let bound = api.create_subresource::<_, serde_json::Value>("binding", &name, &Default::default(), &binding).await;
                    bound.map_err(|error| Refused(error.to_string()))?;
                    Ok(Action::requeue(Duration::from_millis(10)))
                }
            },
            |_, _: &Refused, _| Action::requeue(Duration::from_millis(100)),
            Arc::new(()),
        ).map(|item| match item {
            Ok((target, _)) => target.name,
            Err(error) => format!("{error}"),
        }));
        assert_eq!(polled.next().await, "a");
        create(&pods, pod("b")).await;
        loop {
            let result = polled.next().await;
            if result == "b" { break; }
        }
        until(|| store.is_empty()).await;
    }
}
