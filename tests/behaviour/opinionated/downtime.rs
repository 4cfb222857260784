//! Deletes during downtime, and crashes between two writes.

use std::future::Future;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use super::{
    configs::{GUARD, OWN, create, delete, gone, has},
    operator::{Crashing, Log, Running, source},
};
use crate::{cluster::Cluster, kinds::config};

on_both_servers! {
    /// Rows: GA-75, GA-77, GA-78
    async fn a_watcher_receives_a_delete_from_its_downtime(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let start = || async {
            let watcher = log.opinionated_watcher(cluster.aside(), OWN);
            Running::watch(source(&cluster).await, watcher)
        };
        down(&configs, &log, start, ["sync b=1", "delete a=1"]).await;
    }

    /// Rows: GA-67, GA-71
    async fn a_reconciler_receives_a_delete_from_its_downtime(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let start = || async {
            let reconciler = log.opinionated_reconciler(cluster.aside(), OWN);
            Running::reconcile(source(&cluster).await, reconciler)
        };
        down(&configs, &log, start, ["resynced b=1", "deleted a=1"]).await;
    }

    /// Rows: GA-75
    async fn a_watcher_that_crashes_between_two_writes_misses_nothing(cluster: Cluster) {
        for write in 1..=3 {
            let log = Log::new();
            let start = |client: Crashing| {
                let log = log.clone();
                let cluster = &cluster;
                async move {
                    let watcher = log.opinionated_watcher(client, OWN);
                    Running::watch(source(cluster).await, watcher)
                }
            };
            crash(&cluster, write, &log, start, ["add", "delete"]).await;
        }
    }

    /// Rows: GA-71
    async fn a_reconciler_that_crashes_between_two_writes_misses_nothing(cluster: Cluster) {
        for write in 1..=3 {
            let log = Log::new();
            let start = |client: Crashing| {
                let log = log.clone();
                let cluster = &cluster;
                async move {
                    let reconciler = log.opinionated_reconciler(client, OWN);
                    Running::reconcile(source(cluster).await, reconciler)
                }
            };
            crash(&cluster, write, &log, start, ["created", "deleted"]).await;
        }
    }
}

/// One of two objects is deleted while the operator is down. `calls` are the calls of the
/// restarted operator: that for the remaining object, and that for the deleted one.
async fn down<F>(configs: &Api<ConfigMap>, log: &Log, start: impl Fn() -> F, calls: [&str; 2])
where
    F: Future<Output = Running>,
{
    let running = start().await;
    for name in ["a", "b"] {
        create(configs, &config(name, "1")).await;
    }
    for name in ["a", "b"] {
        has(configs, name, &[OWN]).await;
    }
    running.stop().await;
    delete(configs, "a").await;
    has(configs, "a", &[OWN]).await;
    let running = start().await;
    gone(configs, "a").await;
    for line in calls {
        log.until(line).await;
        assert_eq!(log.count(line), 1, "{line}");
    }
    running.stop().await;
}

/// The life of an object under an operator that crashes after a write; `calls` are what its
/// beginning and its end are called.
async fn crash<F>(
    cluster: &Cluster,
    write: u32,
    log: &Log,
    start: impl Fn(Crashing) -> F,
    calls: [&str; 2],
) where
    F: Future<Output = Running>,
{
    let configs = cluster.api_aside::<ConfigMap>();
    let name = &format!("crash-{write}");
    let client = Crashing::after(cluster.aside(), write);
    let crashed = client.crashed.clone();
    let mut running = start(client).await;
    create(&configs, &config(name, "1")).await;
    if write == 3 {
        has(&configs, name, &[OWN]).await;
        delete(&configs, name).await;
    }
    crashed.notified().await;
    running.crash().await;
    if write == 1 {
        // Between its guard and its end, without an operator.
        has(&configs, name, &[GUARD]).await;
    }
    running = start(Crashing::after(cluster.aside(), 0)).await;
    if write < 3 {
        has(&configs, name, &[OWN]).await;
        delete(&configs, name).await;
    }
    gone(&configs, name).await;
    running.stop().await;
    for call in calls {
        let line = format!("{call} {name}=1");
        assert_eq!(
            log.count(&line),
            1,
            "{line} in {:?} after {write}",
            log.lines()
        );
    }
}
