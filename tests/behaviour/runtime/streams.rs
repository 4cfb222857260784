//! Controllers of streams, in gaps of their watch.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, future, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Resource as _, ResourceExt as _, api::PartialObjectMeta};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::runtime::{
    Config, WatchStreamExt as _,
    controller::{Action, Controller},
    predicates,
    reflector::{self, ObjectRef},
    watcher::{self, watcher},
};

use super::{Each, Polled, Refused, config, create, delete, merge, never, nothing, until, value};

/// The last state of each object in a call.
type Seen = Arc<Mutex<BTreeMap<String, String>>>;

on_both_servers! {
    /// A stream yields the objects of a list before the store has them.
    async fn a_list_of_many_pages_reconciles_each_object_of_a_stream(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        for number in 0..30 {
            create(&aside, config(&format!("c-{number:02}"), "1")).await;
        }
        let (store, writer) = reflector::store::<ConfigMap>();
        let api = cluster.api::<ConfigMap>().await;
        let configs = watcher(api, watcher::Config::default().page_size(3))
            .default_backoff()
            .reflect(writer)
            .applied_objects()
            .predicate_filter(predicates::resource_version, Default::default());
        // The pages of a slow server.
        let configs = configs.then(async |config| {
            tokio::time::sleep(Duration::from_millis(5)).await;
            config
        });
        let controller = Controller::for_stream(configs, store);
        let mut polled = Polled::start(controller.run(nothing, never, Arc::new(())));
        polled.names(30).await;
    }

    /// One watch for several controllers and a loop, as in kube's example of a shared stream.
    async fn several_subscribers_of_one_watch_survive_a_gap(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        create(&aside, config("first", "1")).await;
        let (reader, writer) = reflector::store_shared::<ConfigMap>(4);
        let one = writer.subscribe().expect("shared");
        let two = writer.subscribe().expect("shared");
        let mut log = writer.subscribe().expect("shared");
        let api = cluster.api::<ConfigMap>().await;
        let reflected = watcher(api, watcher::Config::default().page_size(2))
            .modify(|config: &mut ConfigMap| config.managed_fields_mut().clear())
            .default_backoff()
            .reflect_shared(writer);
        let _reflected = Polled::start(reflected);
        let logged = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&logged);
        let _log = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
            while log.next().await.is_some() {
                counted.fetch_add(1, Ordering::SeqCst);
                // A slow subscriber. Nothing depends on the time.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }));
        let secrets = cluster.api::<Secret>().await;
        let secrets = watcher(secrets, watcher::Config::default()).default_backoff().touched_objects();
        let shared = one.reader();
        let one = Controller::for_shared_stream(one, shared)
            .with_config(Config::default().concurrency(2))
            .owns_stream(secrets)
            .run(nothing, never, Arc::new(()));
        let slow = async |config: Arc<ConfigMap>, _: Arc<()>| {
            // The requests of a reconciler.
            tokio::time::sleep(Duration::from_millis(30)).await;
            drop(config);
            Ok::<_, Refused>(Action::requeue(Duration::from_secs(3600)))
        };
        let filtered = two.filter(|config| future::ready(config.data.is_some()));
        let two = Controller::for_shared_stream(filtered, reader.clone()).run(slow, never, Arc::new(()));
        let (mut one, mut two) = (Polled::start(one), Polled::start(two));
        assert_eq!((one.name().await, two.name().await), ("first".into(), "first".into()));
        cluster.connection().hold();
        cluster.connection().cut();
        delete(&aside, "first").await;
        for number in 0..10 {
            create(&aside, config(&format!("c-{number}"), "1")).await;
        }
        cluster.forget_history().await;
        cluster.connection().release();
        one.names(10).await;
        two.names(10).await;
        until(|| logged.load(Ordering::SeqCst) >= 11).await;
        assert_eq!(reader.len(), 10);
        let owner = reader.get(&ObjectRef::new("c-3").within(cluster.namespace())).expect("in the store");
        let owned = json!({ "metadata": { "name": "s", "ownerReferences": [owner.owner_ref(&()).expect("an owner")] } });
        create(&cluster.api_aside::<Secret>(), owned).await;
        assert_eq!(one.name().await, "c-3");
        delete(&cluster.api_aside::<Secret>(), "s").await;
        assert_eq!(one.name().await, "c-3");
    }

    /// Objects with metadata only, from a list and watch and from a stream.
    async fn controllers_of_metadata_reconcile(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        create(&aside, config("a", "1")).await;
        let partial = Api::<PartialObjectMeta<ConfigMap>>::namespaced(cluster.client().await, cluster.namespace());
        let controller = Controller::new(partial, watcher::Config::default());
        let mut one = Polled::start(controller.run(nothing, never, Arc::new(())).filter_map(|item| future::ready(item.ok().map(|(target, _)| target.name))));
        let (reader, writer) = reflector::store::<PartialObjectMeta<ConfigMap>>();
        #[expect(deprecated, reason = "programs use it")]
        let metadata = watcher::metadata_watcher(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let metadata = metadata.default_backoff().reflect(writer).applied_objects();
        let controller = Controller::for_stream(metadata, reader);
        let mut two = Polled::start(controller.run(nothing, never, Arc::new(())).filter_map(|item| future::ready(item.ok().map(|(target, _)| target.name))));
        for name in ["a", "b"] {
            assert_eq!((one.next().await, two.next().await), (name.into(), name.into()));
            if name == "a" {
                create(&aside, config("b", "1")).await;
            }
        }
    }

    /// Tasks and watches of controllers that come and go.
    async fn controllers_that_end_leave_no_task(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        create(&aside, config("a", "1")).await;
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        // What the client starts once.
        aside.list(&Default::default()).await.expect("a list");
        let mut before = None;
        for round in 0..6 {
            let (reader, writer) = reflector::store::<ConfigMap>();
            let configs = watcher(cluster.api::<ConfigMap>().await, watcher::Config::default()).reflect(writer).applied_objects();
            let one = Controller::for_stream(configs, reader)
                .reconcile_all_on(stream::pending())
                .run(nothing, never, Arc::new(()));
            let two = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default())
                .owns(cluster.api::<Secret>().await, watcher::Config::default())
                .watches(cluster.api::<Secret>().await, watcher::Config::default(), |_| None)
                .run(async |_, _| Ok::<_, Refused>(Action::requeue(Duration::from_secs(60))), never, Arc::new(()));
            let stop = CancellationToken::new();
            let three = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default())
                .graceful_shutdown_on(stop.clone().cancelled_owned())
                .run(nothing, never, Arc::new(()));
            let mut three = Box::pin(three);
            drop(one.boxed().next().await);
            drop(two.boxed().next().await);
            drop(three.next().await);
            stop.cancel();
            while three.next().await.is_some() {}
            cluster.connection().no_watch_runs().await;
            if round == 1 {
                before = Some(tasks());
            }
        }
        let before = before.expect("a round");
        until(|| tasks() <= before).await;
    }

    /// Random changes, gaps and pages: each object is reconciled in its last state.
    async fn random_changes_and_gaps_reconcile_the_last_state(cluster: Cluster) {
        let seed = crate::cluster::number("WINDLASS_SEED").unwrap_or_else(|| rand::rng().random());
        let mut random = StdRng::seed_from_u64(seed);
        let aside = cluster.api_aside::<ConfigMap>();
        let record = |seen: &Seen| {
            let seen = Arc::clone(seen);
            move |config: Arc<ConfigMap>, _: Arc<()>| {
                seen.lock().expect("no panic").insert(config.name_any(), format!("{} {}", config.uid().expect("a uid"), value(&config)));
                async {
                    // The requests of a reconciler, during which changes and gaps happen.
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    Ok::<_, Refused>(Action::await_change())
                }
            }
        };
        let seen: [Seen; 4] = Default::default();
        let (reader, writer) = reflector::store::<ConfigMap>();
        let api = cluster.api::<ConfigMap>().await;
        let settings = || watcher::Config::default().page_size(3);
        let configs = watcher(api.clone(), settings()).backoff(Each(Duration::from_millis(10))).reflect(writer).applied_objects()
            .predicate_filter(predicates::resource_version, Default::default())
            .then(async |config| { tokio::task::yield_now().await; config });
        let one = Controller::for_stream(configs, reader).run(record(&seen[0]), never, Arc::new(()));
        let (reader, writer) = reflector::store_shared::<ConfigMap>(3);
        let handles = [writer.subscribe().expect("shared"), writer.subscribe().expect("shared")];
        let _reflected = Polled::start(watcher(api.clone(), settings().streaming_lists()).backoff(Each(Duration::from_millis(10))).reflect_shared(writer));
        let [a, b] = handles;
        let two = Controller::for_shared_stream(a, reader.clone()).run(record(&seen[1]), never, Arc::new(()));
        let three = Controller::for_shared_stream(b, reader).with_config(Config::default().concurrency(1)).run(record(&seen[2]), never, Arc::new(()));
        let four = Controller::new(api, settings()).trigger_backoff(Each(Duration::from_millis(10))).run(record(&seen[3]), never, Arc::new(()));
        let _running = (Polled::start(one), Polled::start(two), Polled::start(three), Polled::start(four));
        let mut expected = BTreeMap::<String, String>::new();
        for step in 0..120 {
            let name = format!("c-{}", random.random_range(0..12));
            match random.random_range(0..10) {
                0 => { cluster.connection().cut(); }
                1 => {
                    cluster.connection().hold();
                    cluster.connection().cut();
                    cluster.forget_history().await;
                }
                2 => cluster.connection().release(),
                3..5 if expected.contains_key(&name) => {
                    delete(&aside, &name).await;
                    expected.remove(&name);
                }
                _ if expected.contains_key(&name) => {
                    merge(&aside, &name, json!({ "data": { "value": step.to_string() } })).await;
                    let uid = expected[&name].split(' ').next().unwrap_or_default().to_owned();
                    expected.insert(name, format!("{uid} {step}"));
                }
                _ => {
                    let created = create(&aside, config(&name, &step.to_string())).await;
                    expected.insert(name, format!("{} {step}", created.uid().expect("a uid")));
                }
            }
        }
        cluster.connection().release();
        for (index, seen) in seen.iter().enumerate() {
            let all = || {
                let seen = seen.lock().expect("no panic");
                expected.iter().all(|(name, state)| seen.get(name) == Some(state))
            };
            let done = tokio::time::timeout(Duration::from_secs(60), until(all)).await;
            assert!(done.is_ok(), "SEED={seed}, controller {index}: {:?} instead of {expected:?}", seen.lock().expect("no panic"));
        }
    }
}
