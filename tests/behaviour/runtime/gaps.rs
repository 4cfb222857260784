//! What kube-runtime lacks: each test fails with its `Controller`.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, channel::oneshot, future::ready};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde_json::json;
use tokio::{sync::Semaphore, time::Instant};
use windlass::runtime::{
    WatchStreamExt as _,
    controller::{Action, Controller, Error},
    reflector::{self, Store},
    watcher::{self, watcher},
};

use super::{Polled, Refused, config, create, delete, merge, named, never, nothing, target, until};
use crate::kinds::Gizmo;

/// Sends when it is dropped.
struct OnDrop(Option<oneshot::Sender<()>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            _ = sender.send(());
        }
    }
}

on_both_servers! {
    /// Deletes of owned and watched objects that no watch has shown.
    async fn deletes_in_a_gap_of_the_watch_reconcile_what_they_affect(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let (a, b) = (create(&configs, config("a", "1")).await, create(&configs, config("b", "1")).await);
        let owner = json!([a.owner_ref(&()).expect("an owner")]);
        let owned = json!({ "metadata": { "name": "owned", "ownerReferences": owner } });
        create(&secrets, owned).await;
        let path = format!("{}/{}", cluster.namespace(), b.name_any());
        create(&secrets, named("watched", &path)).await;
        let calls = Arc::new(Mutex::new(Vec::new()));
        let called = Arc::clone(&calls);
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let _polled = Polled::start(
            controller
                .owns(cluster.api::<Secret>().await, watcher::Config::default())
                .watches(cluster.api::<Secret>().await, watcher::Config::default(), target)
                .run(
                    move |config: Arc<ConfigMap>, _| {
                        called.lock().expect("no panic").push(config.name_any());
                        std::future::ready(Ok::<_, Refused>(Action::await_change()))
                    },
                    never,
                    Arc::new(()),
                ),
        );
        let count = |name: &str| {
            let calls = calls.lock().expect("no panic");
            calls.iter().filter(|it| *it == name).count()
        };
        let connection = cluster.connection();
        // Both watches of secrets have listed.
        until(|| connection.count("/secrets") >= 2 && count("a") >= 1 && count("b") >= 1).await;
        // The first call is that of the object. A later one shows that the secret is known.
        for (secret, name) in [("owned", "a"), ("watched", "b")] {
            let before = count(name);
            merge(&secrets, secret, json!({ "metadata": { "labels": { "x": "y" } } })).await;
            until(|| count(name) > before).await;
        }
        connection.hold();
        connection.cut();
        let before = (count("a"), count("b"));
        delete(&secrets, "owned").await;
        delete(&secrets, "watched").await;
        cluster.forget_history().await;
        connection.release();
        until(|| count("a") > before.0 && count("b") > before.1).await;
    }

    /// In kube-runtime one object that does not decode fails the list of all others, and one that is
    /// corrected is missed.
    async fn an_object_that_does_not_decode_hides_no_other(cluster: Cluster) {
        cluster.install(&crate::kinds::loose_gizmo()).await;
        let kind = ApiResource::erase::<Gizmo>(&());
        let gizmos = Api::<DynamicObject>::namespaced_with(cluster.aside(), cluster.namespace(), &kind);
        let put = async |name: &str, size: serde_json::Value| {
            let spec = json!({ "spec": { "size": size } });
            let gizmo = DynamicObject::new(name, &kind).data(spec);
            gizmos.create(&PostParams::default(), &gizmo).await.expect("a new object");
        };
        put("listed-bad", json!("large")).await;
        put("listed", json!(1)).await;
        let controller = Controller::new(cluster.api::<Gizmo>().await, watcher::Config::default());
        let reconciled = controller.run(nothing, never, Arc::new(()));
        let mut polled = Polled::start(reconciled.filter_map(|item| ready(item.ok().map(|(target, _)| target.name))));
        assert_eq!(polled.next().await, "listed");
        put("watched-bad", json!("large")).await;
        put("watched", json!(1)).await;
        assert_eq!(polled.next().await, "watched");
        for name in ["listed-bad", "watched-bad"] {
            merge(&gizmos, name, json!({ "spec": { "size": 2 } })).await;
            assert_eq!(polled.next().await, name);
        }
    }

    /// kube-runtime lists from version 0, which may be older than what the program knows, and sends a
    /// limit that makes the server ignore the version.
    async fn the_first_list_is_consistent_with_each_setting(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        create(&aside, config("a", "1")).await;
        let any = watcher::Config::default;
        for settings in [any(), any().any_semantic(), any().streaming_lists()] {
            let controller = Controller::new(cluster.api::<ConfigMap>().await, settings);
            let mut polled = Polled::start(controller.run(nothing, never, Arc::new(())));
            assert_eq!(polled.name().await, "a");
        }
        let requests = cluster.connection().requests();
        let first = requests.iter().filter(|url| url.contains("sendInitialEvents=true"));
        assert_eq!(first.count(), 3, "{requests:?}");
        assert!(!requests.iter().any(|url| url.contains("resourceVersion=0")), "{requests:?}");
    }

    async fn a_call_that_panics_is_repeated_and_affects_no_other(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let calls = AtomicUsize::new(0);
        let mut polled = Polled::start(controller.run(
            move |config: Arc<ConfigMap>, _| {
                let call = match config.name_any().as_str() {
                    "panics" => calls.fetch_add(1, Ordering::SeqCst),
                    _ => 9,
                };
                assert!(call != 0, "the closure panics");
                async move {
                    assert!(call != 1, "the future panics");
                    match call {
                        2 => Err(Refused("the policy panics".into())),
                        _ => Ok(Action::await_change()),
                    }
                }
            },
            |_, _, _| panic!("the policy"),
            Arc::new(()),
        ));
        create(&aside, config("panics", "1")).await;
        create(&aside, config("a", "1")).await;
        // In any order: one object is retried while the other one is created.
        assert_eq!(polled.results(3).await, ["a", "panics", "panics: the policy panics"]);
    }

    /// The delay belongs to the object, and grows.
    async fn a_backoff_grows_for_each_object(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let called = Arc::clone(&calls);
        let mut polled = Polled::start(controller.run(
            move |config: Arc<ConfigMap>, _| {
                let mut calls = called.lock().expect("no panic");
                calls.push((config.name_any(), Instant::now()));
                let ends = calls.iter().filter(|(name, _)| *name == config.name_any()).count() == 3;
                std::future::ready(match config.name_any().as_str() {
                    "fails" if !ends => Err(Refused("not yet".into())),
                    _ => Ok(Action::await_change()),
                })
            },
            |_, _, _| Action::backoff(),
            Arc::new(()),
        ));
        create(&aside, config("fails", "1")).await;
        assert_eq!(polled.results(1).await, ["fails: not yet"]);
        create(&aside, config("a", "1")).await;
        assert_eq!(polled.results(3).await, ["a", "fails", "fails: not yet"]);
        let calls = calls.lock().expect("no panic").clone();
        let times: Vec<_> = calls.iter().filter(|(name, _)| name == "fails").map(|(_, at)| *at).collect();
        let (first, second) = (times[1] - times[0], times[2] - times[1]);
        // The delays are 1 s and 2 s, of which jitter leaves at least half.
        assert!(first >= Duration::from_millis(500) && second >= Duration::from_secs(1), "{first:?}, {second:?}");
    }

    /// The watch continues and nothing is lost, but no call begins.
    async fn a_stream_that_is_not_read_delays_calls_and_no_watch(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let store = controller.store();
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&begun);
        let mut stream = controller
            .run(
                move |_: Arc<ConfigMap>, _| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    std::future::ready(Ok::<_, Refused>(Action::await_change()))
                },
                never,
                Arc::new(()),
            )
            .boxed();
        create(&aside, config("config-0", "1")).await;
        stream.next().await.expect("it continues").expect("no error");
        for number in 1..200 {
            create(&aside, config(&format!("config-{number}"), "1")).await;
        }
        until(|| store.len() == 200).await;
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        let mut names = std::collections::BTreeSet::new();
        while names.len() < 199 {
            let (target, _) = stream.next().await.expect("it continues").expect("no error");
            names.insert(target.name);
        }
        assert!(!names.contains("config-0"));
    }

    async fn dropping_the_stream_aborts_all_calls_and_watches(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let store = controller.store();
        let (dropped, aborted) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let mut ends = Some((OnDrop(Some(dropped)), begun));
        let polled = Polled::start(controller.run(
            move |_: Arc<ConfigMap>, _| {
                let (guard, begun) = ends.take().expect("one call");
                async move {
                    let _guard = guard;
                    begun.send(()).expect("the test waits");
                    std::future::pending::<Result<Action, Refused>>().await
                }
            },
            never,
            Arc::new(()),
        ));
        create(&aside, config("a", "1")).await;
        begins.await.expect("a call");
        drop(polled);
        aborted.await.expect("the call was dropped");
        cluster.connection().no_watch_runs().await;
        // The tasks of the controller had the only writer of the store.
        create(&aside, config("late", "1")).await;
        assert_eq!(store.len(), 1);
    }

    /// In kube-runtime a subscriber that misses an object stalls until another one is applied.
    async fn a_subscriber_skips_an_object_that_was_deleted(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let (store, writer) = reflector::store_shared::<ConfigMap>(8);
        let mut handle = writer.subscribe().expect("a shared writer");
        let api = cluster.api::<ConfigMap>().await;
        let events = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&events);
        let _reflected = Polled::start(
            watcher(api, watcher::Config::default())
                .default_backoff()
                .reflect_shared(writer)
                .inspect(move |_| {
                    counted.fetch_add(1, Ordering::SeqCst);
                }),
        );
        store.wait_until_ready().await.expect("the writer is there");
        create(&aside, config("gone", "1")).await;
        until(|| store.len() == 1).await;
        delete(&aside, "gone").await;
        until(|| store.is_empty()).await;
        create(&aside, config("a", "1")).await;
        let next = handle.next().await.expect("the writer is there");
        assert_eq!(next.name_any(), "a");
        let clone = handle.clone();
        assert_eq!(clone.reader().len(), 1);
    }

    /// Errors of a store whose writer was dropped.
    async fn a_controller_of_a_store_without_a_writer_ends_with_an_error(cluster: Cluster) {
        let (store, writer) = reflector::store::<ConfigMap>();
        drop(writer);
        let objects = futures::stream::pending();
        let controller = Controller::for_stream(objects, store);
        let polled = Polled::start(controller.run(nothing, never, Arc::new(())));
        let mut items = polled.end().await;
        assert!(matches!(items.pop(), Some(Err(Error::RunnerError(_)))));
        let api = cluster.api::<ConfigMap>().await;
        let controller = Controller::new(api, watcher::Config::default());
        let store: Store<ConfigMap> = controller.store();
        drop(controller);
        store.wait_until_ready().await.expect_err("the controller was dropped");
    }

    /// A newer state that arrives while a call waits to begin is what the call gets.
    async fn a_call_gets_the_newest_object(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let store = controller.store();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (values, gate) = (Arc::clone(&seen), Arc::new(Semaphore::new(1)));
        let mut stream = controller
            .run(
                move |config: Arc<ConfigMap>, _| {
                    values.lock().expect("no panic").push(super::value(&config).to_owned());
                    let gate = Arc::clone(&gate);
                    async move {
                        drop(gate.acquire().await);
                        Ok::<_, Refused>(Action::await_change())
                    }
                },
                never,
                Arc::new(()),
            )
            .boxed();
        create(&aside, config("a", "0")).await;
        stream.next().await.expect("it continues").expect("no error");
        for number in 1..=20 {
            merge(&aside, "a", json!({ "data": { "value": number.to_string() } })).await;
        }
        until(|| store.find(|it| super::value(it) == "20").is_some()).await;
        stream.next().await.expect("it continues").expect("no error");
        let seen = seen.lock().expect("no panic").clone();
        // The change that waited while the call waited leads to another call.
        assert_eq!(seen[..2], ["0", "20"]);
    }
}
