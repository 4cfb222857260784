//! Watches: their start, their events and their end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::raw::{Raw, named, version};

const INITIAL: &str = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

on_both_servers! {
    /// docs/apiserver.md: rows 55, 56, 65.
    async fn a_watch_sends_the_events_after_its_version(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        let path = format!("{maps}/a");
        let from = version(&raw.post(&maps, &named("before")).await.ok());
        let created = raw.post(&maps, &named("a")).await.ok();
        let mut events = raw.watch(&format!("{maps}?watch=1&resourceVersion={from}")).await;
        assert_eq!(events.content_type, "application/json");
        let changed = raw.merge(&path, &json!({ "data": { "k": "v" } })).await.ok();
        raw.delete(&path).await.ok();
        assert_eq!(events.event().await, json!({ "type": "ADDED", "object": created }));
        assert_eq!(events.event().await, json!({ "type": "MODIFIED", "object": changed }));

        let mut deleted = events.event().await;
        assert_eq!(deleted["type"], "DELETED");
        let gone = version(&deleted["object"]);
        assert!(gone > version(&changed), "the version is that of the deletion");
        assert!(gone <= version(&raw.get(&maps).await.ok()));
        deleted["object"]["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"].clone();
        assert_eq!(deleted["object"], changed, "otherwise it is the last state");
    }

    /// docs/apiserver.md: rows 16, 57, 69.
    async fn a_version_that_is_too_old_is_an_error_in_the_stream(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let from = version(&raw.post(&raw.maps(), &named("a")).await.ok());
        raw.post(&raw.maps(), &named("b")).await.ok();
        cluster.forget_history().await;
        let mut events = raw.watch(&format!("{}?watch=1&resourceVersion={from}", raw.maps())).await;
        let error = events.event().await;
        assert_eq!(error["type"], "ERROR");
        assert_eq!(error["object"]["kind"], "Status");
        assert_eq!((&error["object"]["code"], &error["object"]["reason"]), (&json!(410), &json!("Expired")));
        assert_eq!(events.next_line().await, "end");
    }

    /// docs/apiserver.md: row 69.
    async fn the_events_of_the_last_seconds_are_kept(cluster: Cluster) {
        /// More than the 100 events that the watch cache of the real server can hold at first.
        const CHANGES: u64 = 250;
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        let from = version(&raw.post(&raw.maps(), &named("a")).await.ok());
        let mut versions = Vec::new();
        for change in 0..CHANGES {
            let changed = raw.merge(&path, &json!({ "data": { "k": change.to_string() } })).await.ok();
            versions.push(version(&changed));
        }
        let mut events = raw.watch(&format!("{}?watch=1&resourceVersion={from}", raw.maps())).await;
        for expected in versions {
            let event = events.event().await;
            assert_eq!((&event["type"], version(&event["object"])), (&json!("MODIFIED"), expected));
        }
    }

    /// docs/apiserver.md: row 58.
    async fn a_watch_without_a_version_begins_with_the_current_objects(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        raw.post(&raw.maps(), &named("b")).await.ok();
        for (number, query) in ["watch=true", "watch=true&resourceVersion=0"].iter().enumerate() {
            let mut events = raw.watch(&format!("{}?{query}", raw.maps())).await;
            let mut lines = [events.next_line().await, events.next_line().await];
            lines.sort();
            assert_eq!(lines, ["ADDED a", "ADDED b"], "{query}");
            let label = json!({ "metadata": { "labels": { "number": number.to_string() } } });
            raw.merge(&format!("{}/a", raw.maps()), &label).await.ok();
            assert_eq!(events.next_line().await, "MODIFIED a", "the watch continues");
        }
    }

    /// docs/apiserver.md: rows 56, 64.
    async fn a_watch_from_a_future_version_sends_no_events(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let path = format!("{}?watch=1&resourceVersion=1000000000000&timeoutSeconds=5", raw.maps());
        let mut events = raw.watch(&path).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        assert_eq!(events.next_line().await, "end");
    }

    /// docs/apiserver.md: row 64.
    async fn the_timeout_of_other_requests_does_not_end_a_watch(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        for timeout in ["1s", "nonsense"] {
            let begun = Instant::now();
            let mut events = raw.watch(&format!("{}?watch=1&timeout={timeout}&timeoutSeconds=3", raw.maps())).await;
            assert_eq!(events.next_line().await, "end");
            assert!(begun.elapsed() >= Duration::from_millis(2900), "{timeout}");
        }
    }

    /// docs/apiserver.md: row 64.
    async fn a_watch_ends_cleanly_at_its_timeout(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let mut events = raw.watch(&format!("{}?watch=1&timeoutSeconds=5", raw.maps())).await;
        assert_eq!(events.next_line().await, "ADDED a");
        assert_eq!(events.next_line().await, "end", "without an error, or a bookmark that was not asked for");
    }

    /// docs/apiserver.md: row 60.
    async fn the_initial_events_end_with_a_bookmark(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let mut events = raw.watch(&format!("{}?{INITIAL}&allowWatchBookmarks=true", raw.maps())).await;
        assert_eq!(events.next_line().await, "ADDED a");
        let bookmark = events.event().await;
        assert_eq!(bookmark["type"], "BOOKMARK");
        let object = &bookmark["object"];
        assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("v1"), &json!("ConfigMap")));
        assert_eq!(object["metadata"]["annotations"], json!({ "k8s.io/initial-events-end": "true" }));
        assert_eq!(object["metadata"].get("name"), None);
        assert!(version(object) >= version(&created));
        raw.post(&raw.maps(), &named("b")).await.ok();
        let mut next = events.next_line().await;
        while next == "BOOKMARK" {
            next = events.next_line().await;
        }
        assert_eq!(next, "ADDED b");
    }

    /// docs/apiserver.md: rows 60, 63.
    async fn no_bookmarks_are_sent_unless_the_client_allows_them(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let mut events = raw.watch(&format!("{}?{INITIAL}", raw.maps())).await;
        assert_eq!(events.next_line().await, "ADDED a");
        raw.post(&raw.maps(), &named("b")).await.ok();
        assert_eq!(events.next_line().await, "ADDED b");
    }

    /// docs/apiserver.md: rows 47, 64.
    async fn a_watch_cannot_continue_a_list_and_a_negative_timeout_ends_it(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let version = version(&raw.post(&raw.maps(), &named("a")).await.ok());
        let watch = format!("{}?watch=1", raw.maps());
        for query in ["continue=x", "continue=x&resourceVersion=0"] {
            let why = raw.get(&format!("{watch}&{query}")).await.refused(422, "Invalid");
            assert_eq!(why, "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
                resourceVersionMatch is forbidden when continue is provided");
        }
        let query = format!("{watch}&continue=x&resourceVersion={version}&timeoutSeconds=1");
        assert_eq!(raw.get(&query).await.code, 200, "the token is ignored");

        let ended = raw.get(&format!("{watch}&timeoutSeconds=-1")).await;
        // A busy real server may see the end of the time before the watch begins.
        let is_timeout = ended.text.contains("context deadline exceeded");
        assert!(ended.code == 200 && (ended.text.is_empty() || is_timeout), "{}", ended.text);
        let list = raw.get(&format!("{}?timeoutSeconds=-1", raw.maps())).await.ok();
        assert_eq!(list["items"][0]["metadata"]["name"], "a");
        let why = raw.get(&format!("{}?timeoutSeconds=99999999999999999999", raw.maps())).await;
        let why = why.refused(400, "BadRequest");
        assert!(why.ends_with("value out of range"), "{why}");
    }

    /// docs/apiserver.md: row 61.
    async fn a_watch_without_initial_events_sends_only_later_events(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        for (version, name) in [("", "b"), ("&resourceVersion=0", "c")] {
            let query = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
            let mut events = raw.watch(&format!("{}?{query}{version}", raw.maps())).await;
            raw.post(&raw.maps(), &named(name)).await.ok();
            assert_eq!(events.next_line().await, format!("ADDED {name}"), "{version}");
        }
    }

    /// docs/apiserver.md: rows 43, 60.
    async fn initial_events_require_all_their_options(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let requires = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting \
                        resourceVersionMatch to NotOlderThan";
        let unset = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
                     sendInitialEvents is provided";
        let other = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
        for (query, errors) in [
            ("watch=true&sendInitialEvents=true", requires.to_owned()),
            (
                "watch=true&sendInitialEvents=false&resourceVersionMatch=Exact",
                format!("[{requires}, {other}]"),
            ),
            ("watch=true&resourceVersionMatch=NotOlderThan", unset.to_owned()),
            ("watch=true&resourceVersionMatch=Exact", format!("[{unset}, {other}]")),
            (
                "sendInitialEvents=true",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list".to_owned(),
            ),
        ] {
            let message = raw.get(&format!("{}?{query}", raw.maps())).await.refused(422, "Invalid");
            assert_eq!(message, format!("ListOptions.meta.k8s.io \"\" is invalid: {errors}"), "{query}");
        }
    }

    /// docs/apiserver.md: rows 45, 67.
    async fn an_invalid_watch_is_rejected_before_it_starts(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let pods = format!("{}?watch=1&timeoutSeconds=1", raw.at("/api/v1", "pods"));
        for query in ["labelSelector=a+b", "fieldSelector=data.x%3D1"] {
            raw.get(&format!("{pods}&{query}")).await.refused(400, "BadRequest");
        }
        // Where a list says 400.
        let message = raw.get(&format!("{pods}&resourceVersion=x")).await.refused(500, "");
        assert!(message.starts_with("resourceVersion: Invalid value: \"x\""), "{message}");
    }

    /// docs/apiserver.md: row 66.
    async fn an_object_that_leaves_the_selector_is_sent_in_its_last_selected_state(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let from = version(&raw.post(&raw.maps(), &named("a")).await.ok());
        let path = format!("{}?watch=1&resourceVersion={from}&labelSelector=tier%3Dfront", raw.maps());
        let mut events = raw.watch(&path).await;
        let label = async |labels: Value| {
            let change = json!({ "metadata": { "labels": labels } });
            raw.merge(&format!("{}/a", raw.maps()), &change).await.ok()
        };
        label(json!({ "tier": "front" })).await;
        assert_eq!(events.next_line().await, "ADDED a");
        label(json!({ "other": "1" })).await;
        assert_eq!(events.next_line().await, "MODIFIED a");
        let out = label(json!({ "tier": "back" })).await;
        let event = events.event().await;
        assert_eq!(event["type"], "DELETED");
        assert_eq!(event["object"]["metadata"]["labels"]["tier"], "front");
        assert_eq!(version(&event["object"]), version(&out), "at the time of the change");
        label(json!({ "other": "2" })).await;
        label(json!({ "tier": "front" })).await;
        assert_eq!(events.next_line().await, "ADDED a", "what is outside goes unseen");
    }

    /// docs/apiserver.md: row 70.
    async fn one_object_is_watched_by_its_name(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        raw.post(&raw.maps(), &named("b")).await.ok();
        let path = format!("{}?watch=1&fieldSelector=metadata.name%3Da", raw.maps());
        let mut events = raw.watch(&path).await;
        assert_eq!(events.next_line().await, "ADDED a");
        raw.delete(&format!("{}/b", raw.maps())).await.ok();
        raw.delete(&format!("{}/a", raw.maps())).await.ok();
        assert_eq!(events.next_line().await, "DELETED a");
    }

    /// docs/apiserver.md: row 52.
    async fn a_watch_can_send_only_metadata(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let mut events = raw.watch_as(&format!("{}?watch=1", raw.maps()), accept).await;
        assert_eq!(events.event().await, json!({ "type": "ADDED", "object": {
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": created["metadata"],
        } }));
    }

    /// docs/apiserver.md: row 53.
    async fn a_watched_table_has_its_header_once(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let mut events = raw.watch_as(&format!("{}?watch=1", raw.maps()), accept).await;
        let first = events.event().await;
        assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
        assert!(first["object"]["columnDefinitions"].is_array());
        raw.post(&raw.maps(), &named("b")).await.ok();
        let second = events.event().await;
        assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
        assert!(second["object"]["columnDefinitions"].is_null());
    }

    /// docs/apiserver.md: row 32.
    async fn a_write_without_a_change_is_no_event(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let mut events = raw.watch(&format!("{}?watch=1", raw.maps())).await;
        assert_eq!(events.next_line().await, "ADDED a");
        let path = format!("{}/a", raw.maps());
        assert_eq!(raw.put(&path, &created).await.ok(), created);
        let nothing = json!({ "metadata": { "labels": {} } });
        assert_eq!(version(&raw.merge(&path, &nothing).await.ok()), version(&created));
        raw.delete(&path).await.ok();
        assert_eq!(events.next_line().await, "DELETED a");
    }
}
