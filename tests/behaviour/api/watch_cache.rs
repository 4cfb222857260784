//! Lists and watches that the real server answers from its watch cache.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::garbage::Collected;
use super::raw::{Raw, named, names, version};
use super::widget::Widget;

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

    /// docs/apiserver.md: rows 15, 44.
    async fn a_future_version_times_out_with_a_time_to_wait(cluster: Cluster) {
        let raw = Collected::new(&cluster, "").await.raw;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let future = version(&created) + 1_000_000;
        for path in [raw.maps(), format!("{}/a", raw.maps())] {
            let begun = Instant::now();
            let answer = raw.get(&format!("{path}?resourceVersion={future}")).await;
            assert!(begun.elapsed() >= Duration::from_secs(3), "{path}");
            assert_eq!(answer.retry_after, "1", "{path}");
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

    /// docs/apiserver.md: row 15.
    async fn a_request_ends_at_its_timeout(cluster: Cluster) {
        let raw = Collected::new(&cluster, "").await.raw;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let future = version(&created) + 1_000_000;
        let begun = Instant::now();
        let answer = raw.get(&format!("{}?resourceVersion={future}&timeout=1s", raw.maps())).await;
        assert!(begun.elapsed() >= Duration::from_secs(1));
        assert_eq!((answer.code, &answer.body["reason"]), (504, &json!("Timeout")), "{}", answer.text);
        let message = answer.body["message"].as_str().expect("a message");
        // A server that pauses may notice the end of its own wait for the version, after 3 s, first.
        let is_paused = begun.elapsed() >= Duration::from_secs(3);
        assert!(
            message == "Timeout: request did not complete within the allotted timeout"
                || is_paused && message.starts_with("Timeout: Too large resource version"),
            "{message}"
        );
    }

    /// docs/apiserver.md: rows 15, 60.
    async fn initial_events_of_a_future_version_time_out(cluster: Cluster) {
        let raw = Collected::new(&cluster, "").await.raw;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let future = version(&created) + 1_000_000;
        let query = format!(
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={future}"
        );
        let begun = Instant::now();
        let mut events = raw.watch(&format!("{}?{query}", raw.maps())).await;
        let event = events.event().await;
        assert!(begun.elapsed() >= Duration::from_secs(3), "{event}");
        assert_eq!(event["type"], "ERROR");
        let status = &event["object"];
        assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Failure")));
        assert_eq!((&status["code"], &status["reason"]), (&json!(504), &json!("Timeout")));
        assert_eq!(status["details"], json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        }));
        let message = status["message"].as_str().expect("a message");
        let beginning = format!("Timeout: Too large resource version: {future}, current: ");
        assert!(message.starts_with(&beginning), "{message}");
        assert_eq!(events.next_line().await, "end");
    }

    /// docs/apiserver.md: rows 16, 57.
    async fn the_error_of_a_version_that_is_too_old_names_the_oldest_one(cluster: Cluster) {
        let raw = if cluster.is_embedded() {
            Raw::new(&cluster).await
        } else {
            Collected::new(&cluster, "").await.raw
        };
        // The cache of a new kind never had the version 1.
        let widgets = Widget::served(&raw, &json!({ "type": "object" })).await;
        if cluster.is_embedded() {
            cluster.forget_history().await;
        }
        let mut events = raw.watch(&format!("{}?watch=1&resourceVersion=1", widgets.all())).await;
        let error = events.event().await;
        assert_eq!(error["type"], "ERROR");
        let message = error["object"]["message"].as_str().expect("a message");
        let oldest = message.strip_prefix("too old resource version: 1 (").and_then(|rest| rest.strip_suffix(')'));
        let oldest = oldest.unwrap_or_else(|| panic!("{message}"));
        assert!(oldest.parse::<u64>().is_ok_and(|oldest| oldest > 1), "{message}");
        assert_eq!(error["object"], json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Expired", "code": 410,
        }));
        assert_eq!(events.next_line().await, "end");
    }

    /// docs/apiserver.md: row 63.
    async fn a_bookmark_is_sent_before_the_end_of_a_watch(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Collected::new(&cluster, "").await.raw;
        let mut created = raw.post(&raw.maps(), &named("a")).await.ok();
        let mut attempts = 0;
        let (mut events, bookmark) = loop {
            let query = format!(
                "watch=1&allowWatchBookmarks=true&timeoutSeconds=10&resourceVersion={}",
                version(&created),
            );
            let mut events = raw.watch(&format!("{}?{query}", raw.maps())).await;
            // The real server sends a bookmark only if there was an event.
            let name = format!("b{attempts}");
            created = raw.post(&raw.maps(), &named(&name)).await.ok();
            assert_eq!(events.next_line().await, format!("ADDED {name}"));
            if let Some(bookmark) = events.next().await {
                break (events, bookmark);
            }
            // A real server that pauses before the end of the watch sends none.
            attempts += 1;
            assert!(attempts < 3 && !cluster.is_embedded(), "no bookmark");
        };
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
