//! Memos: what a reconciler remembers of an object between two calls.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use windlass::{
    Context, Controller, Failure, ObjectReconciler, Outcome, retry::ExponentialBackoff,
};

use super::rig::{Rig, builder, create, patch, say};
use crate::{
    cluster::Cluster,
    kinds::{config, value},
};

/// The memo of the program.
#[derive(Default)]
struct Calls {
    count: AtomicU32,
    of: OnceLock<Dropped>,
}

/// Reports the uid of its object when it is dropped.
struct Dropped {
    uid: String,
    uids: watch::Sender<Vec<String>>,
}

/// The program of a user: it counts the calls for each object. A call fails if the object names its
/// number.
struct Counter {
    lines: mpsc::Sender<String>,
    dropped: watch::Sender<Vec<String>>,
}

/// Starts the program. The receiver has the uids of the objects whose memos were dropped.
async fn start(cluster: &Cluster, finalizer: Option<&str>) -> (Rig, watch::Receiver<Vec<String>>) {
    let (lines, calls) = mpsc::channel(64);
    let (dropped, uids) = watch::channel(Vec::new());
    let builder = builder::<ConfigMap>(cluster).await;
    let builder = builder
        .retry_policy(ExponentialBackoff::new(Duration::from_millis(5), 100))
        .on_error(|_| ());
    let builder = match finalizer {
        Some(finalizer) => builder.finalizer(finalizer),
        None => builder,
    };
    let built = builder.build(Counter { lines, dropped });
    let controller: Controller<ConfigMap> = built.expect("good settings");
    (Rig::start(controller, calls), uids)
}

/// Waits until exactly the memos of the objects with these uids were dropped.
async fn until_dropped(dropped: &mut watch::Receiver<Vec<String>>, uids: &[String]) {
    let are_dropped = |dropped: &Vec<String>| dropped.len() >= uids.len();
    let dropped = dropped.wait_for(are_dropped).await.expect("it is kept");
    let (mut found, mut wanted) = (dropped.clone(), uids.to_vec());
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

// === impl Counter ===

impl Counter {
    async fn count(&self, what: &str, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
        let name = cx.key().name();
        if name == "kube-root-ca.crt" {
            return Ok(Outcome::done());
        }
        let memo = cx.memo::<Calls>();
        memo.of.get_or_init(|| Dropped {
            uid: cx.object().uid().expect("stored"),
            uids: self.dropped.clone(),
        });
        let count = memo.count.fetch_add(1, Ordering::SeqCst) + 1;
        // A memo of another type is another memo.
        let other = cx.memo::<AtomicU32>();
        assert_eq!(other.fetch_add(1, Ordering::SeqCst) + 1, count);
        say(&self.lines, format!("{what} {name} {count}")).await;
        if value(cx.object()) == format!("fail {count}") {
            return Err(Failure::new("as the object says"));
        }
        Ok(Outcome::done())
    }
}

impl ObjectReconciler<ConfigMap> for Counter {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
        self.count("reconcile", cx).await
    }

    async fn cleanup(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
        self.count("clean up", cx).await
    }
}

// === impl Dropped ===

impl Drop for Dropped {
    fn drop(&mut self) {
        self.uids.send_modify(|uids| uids.push(self.uid.clone()));
    }
}

on_both_servers! {
    /// Rows: BO-61
    async fn the_calls_for_an_object_share_a_memo_until_it_is_deleted(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let (mut rig, mut dropped) = start(&cluster, None).await;
        let change = async |name: &str, value: &str| {
            patch(&configs, name, json!({ "data": { "value": value } })).await;
        };
        let uid = |object: &ConfigMap| object.uid().expect("stored");

        // It lives over calls, also those that fail, and each object has its own.
        let mut a = create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "reconcile a 1");
        let b = create(&configs, config("b", "1")).await;
        assert_eq!(rig.next().await, "reconcile b 1");
        change("a", "2").await;
        assert_eq!(rig.next().await, "reconcile a 2");
        change("a", "fail 3").await;
        assert_eq!(rig.next().await, "reconcile a 3");
        assert_eq!(rig.next().await, "reconcile a 4");
        change("b", "2").await;
        assert_eq!(rig.next().await, "reconcile b 2");
        assert!(dropped.borrow().is_empty());

        // It is dropped with its object, and only then.
        let mut uids = vec![uid(&a)];
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        until_dropped(&mut dropped, &uids).await;
        a = create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "reconcile a 1", "a successor starts with a new memo");

        // Also if the watch misses both the deletion and the creation, and resumes or lists again.
        // The list does not show that b was there.
        for is_expired in [false, true] {
            cluster.connection().hold();
            cluster.connection().cut();
            configs.delete("a", &DeleteParams::default()).await.expect("there");
            uids.push(uid(&a));
            a = create(&configs, config("a", "1")).await;
            if is_expired {
                configs.delete("b", &DeleteParams::default()).await.expect("there");
                uids.push(uid(&b));
                cluster.forget_history().await;
            }
            cluster.connection().release();
            assert_eq!(rig.next().await, "reconcile a 1");
            until_dropped(&mut dropped, &uids).await;
            change("a", "2").await;
            assert_eq!(rig.next().await, "reconcile a 2");
        }
        rig.stop().await;
    }

    /// Rows: BO-61
    async fn a_clean_up_has_the_memo_which_is_dropped_after_it(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let (mut rig, mut dropped) = start(&cluster, Some("test.windlass.dev/memo")).await;
        let created = create(&configs, config("a", "fail 2")).await;
        assert_eq!(rig.next().await, "reconcile a 1");
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "clean up a 2");
        assert_eq!(rig.next().await, "clean up a 3", "the first one has failed");
        until_dropped(&mut dropped, &[created.uid().expect("stored")]).await;
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "reconcile a 1");
        rig.stop().await;
    }
}
