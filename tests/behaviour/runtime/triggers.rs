//! `reconcile_on` and `reconcile_all_on`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{channel::mpsc, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use windlass::runtime::{controller::Controller, reflector::ObjectRef, watcher};

use super::{Polled, config, create, never, nothing};

on_both_servers! {
    /// Rows: KR-20, KR-21, KR-22
    async fn each_item_of_each_trigger_reconciles_all_objects(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let (first, firsts) = mpsc::unbounded::<()>();
        let (second, seconds) = mpsc::unbounded::<()>();
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        // A stream that may not be polled after its end.
        let mut ended = false;
        let ends = stream::poll_fn(move |_| {
            assert!(!std::mem::replace(&mut ended, true), "polled after the end");
            counted.fetch_add(1, Ordering::SeqCst);
            std::task::Poll::Ready(None)
        });
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let mut polled = Polled::start(
            controller
                .reconcile_all_on(firsts)
                .reconcile_all_on(seconds)
                .reconcile_all_on(ends)
                .run(nothing, never, Arc::new(())),
        );
        for name in ["a", "b"] {
            create(&aside, config(name, "1")).await;
            assert_eq!(polled.name().await, name);
        }
        for _ in 0..2 {
            first.unbounded_send(()).expect("it is polled");
            assert_eq!(polled.names(2).await, ["a", "b"]);
            second.unbounded_send(()).expect("it is polled");
            assert_eq!(polled.names(2).await, ["a", "b"]);
        }
        // A trigger that ends while others continue.
        drop(first);
        second.unbounded_send(()).expect("it is polled");
        assert_eq!(polled.names(2).await, ["a", "b"]);
        drop(second);
        create(&aside, config("c", "1")).await;
        assert_eq!(polled.name().await, "c");
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        assert!(polled.items.try_recv().is_err());
    }

    async fn a_trigger_reconciles_the_objects_that_it_names(cluster: Cluster) {
        let aside = cluster.api_aside::<ConfigMap>();
        let (targets, named) = mpsc::unbounded();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let mut polled = Polled::start(
            controller
                .reconcile_on(named)
                .run(nothing, never, Arc::new(())),
        );
        for name in ["a", "b"] {
            create(&aside, config(name, "1")).await;
            assert_eq!(polled.name().await, name);
        }
        for name in ["b", "missing", "a"] {
            let target = ObjectRef::<ConfigMap>::new(name).within(cluster.namespace());
            targets.unbounded_send(target).expect("it is polled");
        }
        assert_eq!(polled.names(2).await, ["a", "b"]);
        assert!(polled.items.try_recv().is_err());
    }
}
