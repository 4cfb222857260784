//! Calls that fail, panic, block, or exceed their time limit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::json;
use windlass::composite::{ChildConfig, SyncRequest};

use super::rig::{BLOG, Composite, Rig, desired, until};

on_both_servers! {
    /// Rows: RO-12, RO-13, RO-30, RO-32, RO-36
    async fn an_error_or_a_panic_changes_no_child(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        rig.create(BLOG, Some("1")).await;
        rig.has_status(json!({ "children": ["ConfigMap blog"], "observedGeneration": 1 })).await;
        let before = rig.parents.get(BLOG).await.expect("it exists");

        // Without an error status nothing is written.
        let failed = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&failed);
        rig.handler.script(move |request| {
            if request.name() != BLOG {
                return desired(request);
            }
            count.fetch_add(1, Ordering::Relaxed);
            Err("silent".into())
        });
        rig.change(Some("2")).await;
        until("three calls", async || failed.load(Ordering::Relaxed) >= 3).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"));
        let after = rig.parents.get(BLOG).await.expect("it exists");
        assert_eq!(
            serde_json::to_value(&after.status).expect("JSON"),
            serde_json::to_value(&before.status).expect("JSON"),
        );
        let map = rig.maps.get(BLOG).await.expect("it exists");
        assert!(map.metadata.deletion_timestamp.is_none());
        // Other parents are not disturbed.
        rig.create("other", Some("x")).await;
        until("the other child", async || rig.data("other").await.is_some()).await;

        // An error, or a panic, is shown in the status.
        rig.handler.script(|_| Err("the template is wrong".into()));
        rig.has_status(json!({
            "error": "the handler failed: the template is wrong", "observedGeneration": 1,
        }))
        .await;
        rig.handler.script(|_| panic!("on purpose"));
        rig.has_status(json!({ "error": "the handler panicked: on purpose" })).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"));
        rig.handler.script(desired);
        rig.has_status(json!({ "error": null, "observedGeneration": 2 })).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("2"));
        rig.stop().await;
    }

    /// Rows: RO-02, RO-05, RO-45
    async fn blocking_calls_for_one_parent_never_overlap(cluster: Cluster) {
        let limit = Duration::from_millis(100);
        let rig = Rig::with(&cluster, ChildConfig::apply(), |it| {
            it.with_controller(move |it| it.timeout(limit))
        })
        .await;
        rig.create("other", None).await;
        rig.create(BLOG, Some("1")).await;
        // A call has seen the child.
        rig.has_status(json!({ "children": ["ConfigMap blog"] })).await;

        let (running, overlaps) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (block, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler = {
            let (running, overlaps, seen) =
                (Arc::clone(&running), Arc::clone(&overlaps), Arc::clone(&seen));
            move |request: &SyncRequest<Composite>| {
                if request.name() != BLOG {
                    return desired(request);
                }
                overlaps.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let data = || {
                    let map = request.children().of::<ConfigMap>().get(BLOG);
                    let map = map.and_then(Result::ok).and_then(|it| it.data);
                    map.and_then(|it| it.get("value").cloned())
                };
                let before = data();
                _ = blocked.lock().recv_timeout(Duration::from_secs(20));
                seen.lock().push((before, data()));
                running.fetch_sub(1, Ordering::SeqCst);
                desired(request)
            }
        };
        rig.handler.script(handler);
        rig.change(Some("2")).await;
        until("a blocked call", async || running.load(Ordering::SeqCst) == 1).await;
        // Another parent proceeds, and the cache changes during the call.
        let patch = Patch::Merge(json!({ "spec": { "data": "x" } }));
        let patched = rig.parents.patch("other", &PatchParams::default(), &patch).await;
        patched.expect("an object that exists");
        until("the other child", async || rig.data("other").await.is_some()).await;
        let changed = Patch::Merge(json!({ "data": { "value": "by hand" } }));
        rig.maps.patch(BLOG, &PatchParams::default(), &changed).await.expect("patched");
        // Several time-outs pass.
        until("time-outs", async || {
            let status = rig.status().await;
            status["error"].as_str().is_some_and(|it| it.contains("timed out"))
        })
        .await;
        tokio::time::sleep(limit * 5).await;
        assert_eq!(running.load(Ordering::SeqCst), 1, "the next call waits");
        drop(block);
        until("the second state", async || rig.data(BLOG).await.as_deref() == Some("2")).await;
        assert_eq!(overlaps.load(Ordering::SeqCst), 1);
        let first = seen.lock()[0].clone();
        assert_eq!(first, (Some("1".to_owned()), Some("1".to_owned())), "a request does not change");
        rig.stop().await;
    }
}
