//! Graceful shutdown by futures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::channel::oneshot;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::Semaphore;
use windlass::runtime::{
    controller::{Action, Controller},
    watcher,
};

use super::{Polled, Refused, config, create, merge, never, nothing, until};

on_both_servers! {
    /// Rows: KR-23, KR-24, KR-25, KR-26, KR-32
    async fn a_graceful_shutdown_waits_for_the_running_calls_and_begins_no_other(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        // Any future, for example that of a service manager.
        let (stop, stopped) = oneshot::channel::<()>();
        let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (counted, opened) = (Arc::clone(&begun), Arc::clone(&gate));
        let (signalled, signal) = oneshot::channel::<()>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let store = controller.store();
        let mut polled = Polled::start(
            controller
                .graceful_shutdown_on(async move {
                    _ = stopped.await;
                    _ = signalled.send(());
                })
                .run(
                    move |_: Arc<ConfigMap>, _| {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let gate = Arc::clone(&opened);
                        async move {
                            gate.acquire().await.expect("open").forget();
                            Ok::<_, Refused>(Action::requeue(Duration::from_millis(1)))
                        }
                    },
                    never,
                    Arc::new(()),
                ),
        );
        for name in ["a", "b"] {
            create(&aside, config(name, "1")).await;
        }
        until(|| begun.load(Ordering::SeqCst) == 2).await;
        // A change that waits for the running call.
        merge(&aside, "a", json!({ "data": { "value": "2" } })).await;
        until(|| store.find(|it| super::value(it) == "2").is_some()).await;
        stop.send(()).expect("it is polled");
        signal.await.expect("it was polled");
        // The watch ends while both calls run.
        cluster.connection().no_watch_runs().await;
        create(&aside, config("late", "1")).await;
        assert!(polled.items.try_recv().is_err());
        gate.add_permits(100);
        let mut names = vec![polled.name().await, polled.name().await];
        names.sort_unstable();
        assert_eq!(names, ["a", "b"]);
        // Neither the change, nor the requeues, nor the new object.
        assert!(polled.end().await.is_empty());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        assert_eq!(store.len(), 2);
    }

    /// Rows: KR-27
    async fn the_first_of_several_shutdown_triggers_counts(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let (stop, stopped) = oneshot::channel::<()>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let mut polled = Polled::start(
            controller
                .graceful_shutdown_on(std::future::pending())
                .graceful_shutdown_on(async {
                    _ = stopped.await;
                })
                .graceful_shutdown_on(std::future::pending())
                .run(nothing, never, Arc::new(())),
        );
        create(&aside, config("a", "1")).await;
        assert_eq!(polled.name().await, "a");
        stop.send(()).expect("it is polled");
        assert!(polled.end().await.is_empty());
    }
}
