//! Lists and watches that the real server answers from its watch cache.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::garbage::Collected;
use super::raw::{named, names, version};

on_both_servers! {
    /// docs/apiserver.md: row 39.
    async fn a_list_of_version_zero_ignores_its_limit(cluster: Cluster) {
        let raw = Collected::new(&cluster, "").await.raw;
        for name in ["a", "b", "c"] {
            raw.post(&raw.maps(), &named(name)).await.ok();
        }
        let limited = raw.get(&format!("{}?limit=1", raw.maps())).await.ok();
        assert_eq!(names(&limited), "a", "the limit applies to other lists");
        // The cache may be behind the last write.
        let path = format!("{}?resourceVersion=0&limit=1", raw.maps());
        let list = raw.until(&path, |answer| {
            let token = &answer.body["metadata"]["continue"];
            assert!(token.is_null(), "{}", answer.text);
            names(&answer.body) == "a b c"
        }).await;
        assert_eq!(list["metadata"]["remainingItemCount"], json!(null));
    }

    /// docs/apiserver.md: row 44.
    async fn a_future_version_times_out_with_a_time_to_wait(cluster: Cluster) {
        let raw = Collected::new(&cluster, "").await.raw;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let future = version(&created) + 1_000_000;
        for path in [raw.maps(), format!("{}/a", raw.maps())] {
            let begun = Instant::now();
            let answer = raw.get(&format!("{path}?resourceVersion={future}")).await;
            assert!(begun.elapsed() >= Duration::from_secs(3), "{path}");
            let details = &answer.body["details"];
            assert_eq!(details["retryAfterSeconds"], 1, "{path}");
            assert_eq!(details["causes"], json!([
                { "reason": "ResourceVersionTooLarge", "message": "Too large resource version" },
            ]), "{path}");
            let message = answer.refused(504, "Timeout");
            let beginning = format!("Timeout: Too large resource version: {future}, current: ");
            assert!(message.starts_with(&beginning), "{message}");
        }
    }

    /// docs/apiserver.md: row 63.
    async fn a_bookmark_is_sent_before_the_end_of_a_watch(cluster: Cluster) {
        let raw = Collected::new(&cluster, "").await.raw;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let query = format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds=10&resourceVersion={}",
            version(&created),
        );
        let mut events = raw.watch(&format!("{}?{query}", raw.maps())).await;
        // The real server sends a bookmark only if there was an event.
        let created = raw.post(&raw.maps(), &named("b")).await.ok();
        assert_eq!(events.next_line().await, "ADDED b");
        let bookmark = events.event().await;
        assert_eq!(bookmark["type"], "BOOKMARK");
        let object = &bookmark["object"];
        assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
        let metadata = object["metadata"].as_object().expect("metadata");
        let fields: Vec<_> = metadata.keys().map(String::as_str).collect();
        assert_eq!(fields, ["resourceVersion"]);
        assert!(version(object) >= version(&created), "{bookmark}");
        // At most the bookmark of each minute is sent before.
        let mut next = events.next_line().await;
        while next == "BOOKMARK" {
            next = events.next_line().await;
        }
        assert_eq!(next, "end");
    }
}
