//! When the reconciler and the error policy are called, and with what.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::{sync::Semaphore, time::Instant};
use windlass::runtime::{
    controller::{Action, Config, Controller, Error},
    reflector::ObjectRef,
    watcher,
};

use super::{Polled, Refused, config, create, delete, merge, never, nothing, until, value};

fn is_send<T: Send>(_: &T) {}

on_both_servers! {
    /// Rows: KR-01, KR-14, KR-36
    async fn nothing_happens_before_the_first_poll(cluster: Cluster) {
        let (aside, api) = (cluster.api_aside::<ConfigMap>(), cluster.api::<ConfigMap>().await);
        create(&aside, config("a", "1")).await;
        let controller = Controller::new(api, watcher::Config::default());
        is_send(&controller);
        let store = controller.store();
        let mut stream = controller.run(nothing, never, Arc::new(())).boxed();
        // Time for a request that must not be sent.
        aside.list(&Default::default()).await.expect("a list");
        assert_eq!(cluster.connection().requests(), [""; 0]);
        assert!(store.is_empty());
        // Infinite: it yields an item for each change, and otherwise waits.
        for change in ["a", "b", "c"] {
            let (target, _) = stream.next().await.expect("it continues").expect("no error");
            assert_eq!(target.name, "a");
            // The store shows what the controller sees.
            let object = store.get(&target).expect("the object that was reconciled");
            assert_eq!(object.name_any(), "a");
            assert!(!object.managed_fields().is_empty(), "it has all its fields");
            assert_eq!((store.len(), store.state().len()), (1, 1));
            merge(&aside, "a", json!({ "data": { "value": change } })).await;
        }
        store.wait_until_ready().await.expect("it is ready");
        stream.next().await.expect("it continues").expect("no error");
        let object = store.find(|it| value(it) == "c").expect("the newest state");
        assert_eq!(object.name_any(), "a");
    }

    /// Rows: KR-02, KR-03, KR-06, KR-07, KR-33, KR-34
    async fn each_change_is_reconciled_and_each_error_reaches_the_policy(cluster: Cluster) {
        struct Context(&'static str);

        let aside = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let (mut count, decided) = (0, Arc::new(Mutex::new(Vec::new())));
        let decisions = Arc::clone(&decided);
        let mut polled = Polled::start(controller.run(
            // A closure that changes its captures.
            move |config: Arc<ConfigMap>, context: Arc<Context>| {
                count += 1;
                let call = count;
                async move {
                    assert_eq!(context.0, "the context");
                    match value(&config) {
                        "bad" => Err(Refused(format!("call {call} of {}", config.name_any()))),
                        _ => Ok(Action::await_change()),
                    }
                }
            },
            move |config, error, context| {
                assert_eq!(context.0, "the context");
                decisions.lock().expect("no panic").push((config.name_any(), error.0.clone()));
                Action::await_change()
            },
            Arc::new(Context("the context")),
        ));
        create(&aside, config("a", "1")).await;
        let (target, action) = polled.next().await.expect("no error");
        let expected = ObjectRef::<ConfigMap>::new("a").within(cluster.namespace());
        assert_eq!((&target, action), (&expected, Action::await_change()));
        for change in [
            json!({ "data": { "value": "2" } }),
            json!({ "metadata": { "labels": { "x": "y" } } }),
            json!({ "metadata": { "annotations": { "x": "y" } } }),
            json!({ "metadata": { "finalizers": ["test.windlass.dev/x"] } }),
        ] {
            merge(&aside, "a", change).await;
            assert_eq!(polled.name().await, "a");
        }
        merge(&aside, "a", json!({ "data": { "value": "bad" } })).await;
        match polled.next().await {
            Err(Error::ReconcilerFailed(error, object)) => {
                assert_eq!(error.0, "call 6 of a");
                assert_eq!((&*object.name, &*object.dyntype.kind), ("a", "ConfigMap"));
            }
            item => panic!("{item:?}"),
        }
        assert_eq!(*decided.lock().expect("no panic"), [("a".to_owned(), "call 6 of a".to_owned())]);
        // Marked for deletion, and then gone.
        merge(&aside, "a", json!({ "data": { "value": "3" } })).await;
        assert_eq!(polled.name().await, "a");
        delete(&aside, "a").await;
        assert_eq!(polled.name().await, "a");
        merge(&aside, "a", json!({ "metadata": { "finalizers": null } })).await;
        create(&aside, config("b", "1")).await;
        assert_eq!(polled.name().await, "b");
    }

    /// Rows: KR-08
    async fn a_requeue_repeats_the_call_and_await_change_does_not(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&calls);
        let wait = Duration::from_millis(100);
        let mut polled = Polled::start(controller.run(
            move |config: Arc<ConfigMap>, _| {
                let mut calls = recorded.lock().expect("no panic");
                calls.push((config.name_any(), Instant::now()));
                let first = calls.iter().filter(|(name, _)| *name == config.name_any()).count() == 1;
                async move {
                    match config.name_any().as_str() {
                        "fails" if first => Err(Refused("once".into())),
                        "requeued" => Ok(Action::requeue(wait)),
                        _ => Ok(Action::await_change()),
                    }
                }
            },
            move |_, _, _| Action::requeue(wait),
            Arc::new(()),
        ));
        create(&aside, config("waits", "1")).await;
        assert_eq!(polled.name().await, "waits");
        create(&aside, config("fails", "1")).await;
        assert!(matches!(polled.next().await, Err(Error::ReconcilerFailed(..))));
        assert_eq!(polled.name().await, "fails");
        create(&aside, config("requeued", "1")).await;
        for _ in 0..5 {
            assert_eq!(polled.name().await, "requeued");
        }
        let calls = calls.lock().expect("no panic").clone();
        let times = |name: &str| {
            let calls = calls.iter().filter(|(it, _)| it == name);
            calls.map(|(_, at)| *at).collect::<Vec<_>>()
        };
        assert_eq!((times("waits").len(), times("fails").len()), (1, 2));
        for pair in times("requeued").windows(2).chain([&*times("fails")]) {
            assert!(pair[1] - pair[0] >= wait, "{:?}", pair[1] - pair[0]);
        }
        // The next change.
        merge(&aside, "waits", json!({ "data": { "value": "2" } })).await;
        while polled.name().await != "waits" {}
    }

    /// Rows: KR-09
    async fn the_scope_and_the_selectors_bound_what_is_reconciled(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let elsewhere = format!("{}-elsewhere", cluster.namespace());
        crate::cluster::create_namespace(cluster.aside(), &elsewhere).await;
        let other = Api::<ConfigMap>::namespaced(cluster.aside(), &elsewhere);
        let labelled = |name: &str| json!({ "metadata": { "name": name, "labels": { "tier": "web" } } });
        let start = |api, config| {
            Polled::start(Controller::new(api, config).run(nothing, never, Arc::new(())))
        };
        let any = watcher::Config::default;
        let mut one = start(cluster.api::<ConfigMap>().await, any());
        let mut all = start(Api::all(cluster.client().await), any().fields("metadata.name!=kube-root-ca.crt"));
        let mut labels = start(cluster.api::<ConfigMap>().await, any().labels("tier=web"));
        let mut fields = start(cluster.api::<ConfigMap>().await, any().fields("metadata.name=b,"));
        create(&aside, config("a", "1")).await;
        create(&aside, labelled("b")).await;
        create(&other, labelled("c")).await;
        create(&aside, labelled("d")).await;
        assert_eq!(one.names(3).await, ["a", "b", "d"]);
        // Other tests use the same server.
        let mut seen = Vec::new();
        while seen.len() < 4 {
            let (target, _) = all.next().await.expect("no error");
            let namespace = target.namespace.unwrap_or_default();
            if namespace == cluster.namespace() || namespace == elsewhere {
                seen.push(target.name);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, ["a", "b", "c", "d"]);
        assert_eq!(labels.names(2).await, ["b", "d"]);
        assert_eq!(fields.name().await, "b");
        create(&aside, config("e", "1")).await;
        assert_eq!(one.name().await, "e");
        assert!(labels.items.try_recv().is_err() && fields.items.try_recv().is_err());
        // A kind without namespaces.
        let label = json!({ "metadata": { "labels": { "test": cluster.namespace() } } });
        let namespaces = Api::<Namespace>::all(cluster.client().await);
        let selected = any().labels(&format!("test={}", cluster.namespace()));
        let mut scoped = Polled::start(Controller::new(namespaces, selected).run(nothing, never, Arc::new(())));
        merge(&Api::<Namespace>::all(cluster.aside()), cluster.namespace(), label).await;
        let (target, _) = scoped.next().await.expect("no error");
        assert_eq!((&*target.name, target.namespace), (cluster.namespace(), None));
    }

    /// Rows: KR-11
    async fn the_concurrency_bounds_the_calls_that_run(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        for number in 0..70 {
            create(&aside, config(&format!("config-{number}"), "1")).await;
        }
        for (settings, most) in [
            (Config::default().concurrency(1), 1),
            (Config::default().concurrency(3), 3),
            (Config::default(), 64),
            (Config::default().concurrency(0), 70),
        ] {
            let (started, permits) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
            let (counted, gate) = (Arc::clone(&started), Arc::clone(&permits));
            let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
            let mut polled = Polled::start(controller.with_config(settings).run(
                move |_: Arc<ConfigMap>, _| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let gate = Arc::clone(&gate);
                    async move {
                        gate.acquire().await.expect("open").forget();
                        Ok::<_, Refused>(Action::await_change())
                    }
                },
                never,
                Arc::new(()),
            ));
            until(|| started.load(Ordering::SeqCst) == most).await;
            // When a call ends, one other begins.
            if most < 70 {
                permits.add_permits(1);
                polled.name().await;
                until(|| started.load(Ordering::SeqCst) == most + 1).await;
            }
        }
    }

    /// Rows: KR-11
    async fn a_debounce_combines_changes_and_ends_although_changes_continue(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let period = Duration::from_millis(300);
        let mut polled = Polled::start(
            controller
                .with_config(Config::default().debounce(period))
                .run(nothing, never, Arc::new(())),
        );
        let begin = Instant::now();
        create(&aside, config("quiet", "0")).await;
        for number in 0..5 {
            merge(&aside, "quiet", json!({ "data": { "value": number.to_string() } })).await;
        }
        assert_eq!(polled.name().await, "quiet");
        assert!(begin.elapsed() >= period);
        let mut quiet_calls = 1;
        // Changes without a pause: kube-runtime never calls the reconciler.
        create(&aside, config("busy", "0")).await;
        let changes = async {
            for number in 0_u64.. {
                merge(&aside, "busy", json!({ "data": { "value": number.to_string() } })).await;
                tokio::time::sleep(period / 10).await;
            }
        };
        tokio::select! {
            () = changes => {}
            () = async {
                while polled.name().await != "busy" {
                    quiet_calls += 1;
                }
            } => {}
        }
        // One call, unless the test pauses among the changes.
        assert!(quiet_calls < 6, "{quiet_calls} calls for 6 changes");
    }
}
