//! Watches: their events, the order of events, and their end.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, pin_mut};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Profile};

mod support;

use support::{client, register, request, watch, widget_definition};

type TestResult = Result<(), Box<dyn std::error::Error>>;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

fn configmap(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).expect("it is a ConfigMap")
}

fn describe(event: &WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(map) => format!("added {}", map.name_any()),
        WatchEvent::Modified(map) => format!("modified {}", map.name_any()),
        WatchEvent::Deleted(map) => format!("deleted {}", map.name_any()),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

async fn create(server: &ApiServer, name: &str, labels: Value) -> Value {
    let body = json!({ "metadata": { "name": name, "labels": labels } });
    let (code, answer) = request(server, Method::POST, MAPS, Some(&body)).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

async fn label(server: &ApiServer, name: &str, labels: Value) -> Value {
    let path = format!("{MAPS}/{name}");
    let body = json!({ "metadata": { "labels": labels } });
    let (code, answer) = request(server, Method::PATCH, &path, Some(&body)).await;
    assert_eq!(code, 200, "{answer}");
    answer
}

async fn delete(server: &ApiServer, name: &str) {
    let (code, answer) = request(server, Method::DELETE, &format!("{MAPS}/{name}"), None).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_events_after_its_version_and_ends_at_its_timeout() -> TestResult {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let from = server.resource_version().to_string();
    maps.create(&PostParams::default(), &configmap("a")).await?;
    let events = maps
        .watch(&WatchParams::default().timeout(10), &from)
        .await?;
    pin_mut!(events);

    assert_eq!(
        events.try_next().await?.as_ref().map(describe).as_deref(),
        Some("added a")
    );
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&labels))
        .await?;
    maps.delete("a", &DeleteParams::default()).await?;
    assert_eq!(
        events.try_next().await?.as_ref().map(describe).as_deref(),
        Some("modified a")
    );
    assert_eq!(
        events.try_next().await?.as_ref().map(describe).as_deref(),
        Some("deleted a")
    );
    let rest: Vec<_> = events
        .map_ok(|event| describe(&event))
        .try_collect()
        .await?;
    assert_eq!(
        rest,
        ["bookmark"],
        "before the deadline, and then a clean end"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_compacted_version_gets_an_error() -> TestResult {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let from = server.resource_version();
    maps.create(&PostParams::default(), &configmap("a")).await?;
    server.compact(server.resource_version());
    let events = maps
        .watch(&WatchParams::default(), &from.to_string())
        .await?;
    let events: Vec<_> = events
        .map(|event| event.map(|event| describe(&event)))
        .try_collect()
        .await?;
    assert_eq!(events, ["error 410"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_running_watch_survives_compaction_and_ends_when_it_is_closed() {
    let server = ApiServer::new();
    let from = server.resource_version();
    let mut events = watch(
        &server,
        &format!("{MAPS}?watch=1&resourceVersion={from}"),
        JSON,
    )
    .await;
    create(&server, "a", json!({})).await;
    server.compact(server.resource_version());
    assert_eq!(
        events.next_line().await,
        "ADDED a",
        "a watch that was there receives what was forgotten"
    );
    server.close_watches();
    assert_eq!(events.next_line().await, "end");
    let from = server.resource_version();
    let mut events = watch(
        &server,
        &format!("{MAPS}?watch=1&resourceVersion={from}"),
        JSON,
    )
    .await;
    create(&server, "b", json!({})).await;
    assert_eq!(
        events.next_line().await,
        "ADDED b",
        "a new one may start at once"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_enters_or_leaves_the_selector_is_added_or_deleted() {
    let server = ApiServer::new();
    let from = server.resource_version();
    let path = format!("{MAPS}?watch=1&resourceVersion={from}&labelSelector=tier%3Dfront");
    let mut events = watch(&server, &path, JSON).await;

    create(&server, "a", json!({})).await;
    label(&server, "a", json!({ "tier": "front" })).await;
    assert_eq!(events.next_line().await, "ADDED a");
    label(&server, "a", json!({ "other": "1" })).await;
    assert_eq!(events.next_line().await, "MODIFIED a");
    let out = label(&server, "a", json!({ "tier": "back" })).await;
    let event = events.next().await.expect("the object left the selection");
    assert_eq!(event["type"], "DELETED");
    assert_eq!(
        event["object"]["metadata"]["labels"]["tier"], "front",
        "the state before"
    );
    let version = &event["object"]["metadata"]["resourceVersion"];
    assert_eq!(
        *version, out["metadata"]["resourceVersion"],
        "at the time of the change"
    );
    delete(&server, "a").await;
    create(&server, "b", json!({ "tier": "front" })).await;
    assert_eq!(
        events.next_line().await,
        "ADDED b",
        "what is outside goes unseen"
    );
    delete(&server, "b").await;
    let event = events.next().await.expect("b was deleted");
    let version = server.resource_version().to_string();
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"], version,
        "that of the deletion"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_events_sends_bookmarks() {
    let server = ApiServer::new();
    let from = server.resource_version();
    let query = format!("watch=1&resourceVersion={from}&timeoutSeconds=100");
    let mut marked = watch(
        &server,
        &format!("{MAPS}?{query}&allowWatchBookmarks=true"),
        JSON,
    )
    .await;
    let mut plain = watch(&server, &format!("{MAPS}?{query}"), JSON).await;
    // Not a ConfigMap, and yet the counter moves on.
    let body = json!({ "metadata": { "name": "other" } });
    request(&server, Method::POST, "/api/v1/namespaces", Some(&body)).await;
    let version = server.resource_version();
    assert_eq!(
        marked.next_line().await,
        format!("BOOKMARK {version}"),
        "after a minute"
    );
    assert_eq!(
        marked.next_line().await,
        format!("BOOKMARK {version}"),
        "before the end"
    );
    assert_eq!(marked.next_line().await, "end");
    assert_eq!(plain.next_line().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_a_bookmark() {
    let server = ApiServer::new();
    create(&server, "a", json!({})).await;
    create(&server, "b", json!({})).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut events = watch(
        &server,
        &format!("{MAPS}?{query}&allowWatchBookmarks=true"),
        JSON,
    )
    .await;
    assert_eq!(events.next_line().await, "ADDED a");
    assert_eq!(events.next_line().await, "ADDED b");
    let bookmark = events.next().await.expect("a bookmark");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "ConfigMap");
    let metadata = &bookmark["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(
        metadata["resourceVersion"],
        server.resource_version().to_string()
    );
    create(&server, "c", json!({})).await;
    assert_eq!(events.next_line().await, "ADDED c");

    let old = ApiServer::builder().profile(Profile::V1_33).start();
    let (code, answer) = request(&old, Method::GET, &format!("{MAPS}?{query}"), None).await;
    assert_eq!(code, 422, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_from_the_future_is_refused_in_the_stream() {
    let server = ApiServer::new();
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut events = watch(
        &server,
        &format!("{MAPS}?{query}&resourceVersion=999"),
        JSON,
    )
    .await;
    assert_eq!(events.next_line().await, "ERROR 504");
    assert_eq!(events.next_line().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_begins_with_the_current_objects() {
    let server = ApiServer::new();
    create(&server, "a", json!({})).await;
    for query in ["watch", "watch=true&resourceVersion=0"] {
        let mut events = watch(&server, &format!("{MAPS}?{query}"), JSON).await;
        assert_eq!(events.next_line().await, "ADDED a", "{query}");
    }
    let query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut events = watch(&server, &format!("{MAPS}?{query}&timeoutSeconds=5"), JSON).await;
    assert_eq!(
        events.next_line().await,
        "end",
        "what is there was not asked for"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_future_version_begins_after_it() {
    let server = ApiServer::new();
    let from = server.resource_version() + 1;
    let mut events = watch(
        &server,
        &format!("{MAPS}?watch=1&resourceVersion={from}"),
        JSON,
    )
    .await;
    create(&server, "a", json!({})).await;
    create(&server, "b", json!({})).await;
    assert_eq!(events.next_line().await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn watches_can_send_metadata_and_tables() {
    let server = ApiServer::new();
    create(&server, "a", json!({})).await;
    let path = format!("{MAPS}?watch=1");
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let event = watch(&server, &path, accept).await.next().await.expect("a");
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"]["metadata"]["name"], "a");

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut events = watch(&server, &path, accept).await;
    let first = events.next().await.expect("a");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    assert!(first["object"]["columnDefinitions"].is_array());
    create(&server, "b", json!({})).await;
    let second = events.next().await.expect("b");
    assert_eq!(
        second["object"]["columnDefinitions"],
        Value::Null,
        "they are sent once"
    );
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_a_kind_end_with_its_definition() -> TestResult {
    let server = ApiServer::new();
    register(&client(&server), widget_definition()).await?;
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    let body = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget",
        "metadata": { "name": "w" }, "spec": { "size": 1 },
    });
    request(&server, Method::POST, widgets, Some(&body)).await;
    let mut events = watch(&server, "/apis/ex.io/v1/widgets?watch=1", JSON).await;
    assert_eq!(events.next_line().await, "ADDED w");
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.io";
    request(&server, Method::DELETE, definition, None).await;
    assert_eq!(events.next_line().await, "DELETED w");
    assert_eq!(events.next_line().await, "end");
    assert_eq!(request(&server, Method::GET, widgets, None).await.0, 404);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_the_last_finalizer_sends_no_modified_event() {
    let server = ApiServer::new();
    let from = server.resource_version();
    let mut events = watch(
        &server,
        &format!("{MAPS}?watch=1&resourceVersion={from}"),
        JSON,
    )
    .await;
    let body = json!({ "metadata": { "name": "a", "finalizers": ["ex.io/clean"] } });
    request(&server, Method::POST, MAPS, Some(&body)).await;
    assert_eq!(events.next_line().await, "ADDED a");

    let path = format!("{MAPS}/a");
    let (_, dying) = request(&server, Method::DELETE, &path, None).await;
    assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 0);
    let (_, again) = request(&server, Method::DELETE, &path, None).await;
    assert_eq!(again, dying, "an object dies once");
    assert_eq!(events.next_line().await, "MODIFIED a");

    let more = json!({ "metadata": { "finalizers": ["ex.io/clean", "ex.io/new"] } });
    assert_eq!(
        request(&server, Method::PATCH, &path, Some(&more)).await.0,
        422
    );
    let none = json!({ "metadata": { "finalizers": null } });
    let (code, answer) = request(&server, Method::PATCH, &path, Some(&none)).await;
    assert_eq!(
        (code.as_u16(), answer["metadata"].get("finalizers")),
        (200, None)
    );
    let event = events.next().await.expect("a was deleted");
    assert_eq!(event["type"], "DELETED", "without a MODIFIED before it");
    assert_eq!(
        event["object"]["metadata"]["finalizers"],
        json!(["ex.io/clean"])
    );
    assert_eq!(request(&server, Method::GET, &path, None).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_a_backlog_ends_in_time_with_a_bookmark() {
    let server = ApiServer::new();
    let from = server.resource_version();
    let query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=100";
    let mut events = watch(
        &server,
        &format!("{MAPS}?{query}&resourceVersion={from}"),
        JSON,
    )
    .await;
    // Writes continue while the test reads.
    let mut number = 0;
    let mut write_more = async || {
        for _ in 0..300 {
            number += 1;
            create(&server, &format!("m{number}"), json!({})).await;
        }
    };
    write_more().await;
    assert_eq!(events.next_line().await, "ADDED m1");
    tokio::time::advance(Duration::from_secs(70)).await;
    write_more().await;
    let mut lines = Vec::new();
    while lines.len() < 250 {
        lines.push(events.next_line().await);
    }
    assert_eq!(
        lines
            .iter()
            .filter(|event| event.starts_with("BOOKMARK"))
            .count(),
        1
    );
    tokio::time::advance(Duration::from_secs(40)).await;
    let mut after = 0;
    while events.next_line().await != "end" {
        after += 1;
        write_more().await;
        assert!(after < 200, "it continues after its end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_with_the_objects_as_they_were_though_they_change_while_it_is_read() {
    let server = ApiServer::new();
    let map = |number: usize, text: &str| json!({ "metadata": { "name": format!("m{number:02}") }, "data": { "t": text } });
    let write = async |method: Method, number: usize, text: &str| {
        let path = match method {
            Method::POST => MAPS.to_owned(),
            _ => format!("{MAPS}/m{number:02}"),
        };
        let (code, _) = request(&server, method, &path, Some(&map(number, text))).await;
        assert!(code.is_success());
    };
    // More than is sent at once.
    let long = "x".repeat(2_000);
    for number in (0..60).filter(|number| number % 2 == 0) {
        write(Method::POST, number, &long).await;
    }
    let shown = async |watch: &mut support::Events| {
        let event = watch.next().await.expect("an event");
        let part = |pointer: &str| {
            event
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let text = part("/object/data/t").unwrap_or_default();
        let name = part("/object/metadata/name").unwrap_or_default();
        format!(
            "{} {name} {}",
            event["type"].as_str().unwrap_or_default(),
            text.len()
        )
    };
    for query in ["", "&fieldSelector=metadata.namespace=default"] {
        let path = format!("{MAPS}?watch=1{query}");
        let mut watch = watch(&server, &path, JSON).await;
        assert_eq!(shown(&mut watch).await, "ADDED m00 2000");
        // After the last object that was sent, one object changes, one is deleted, and one is
        // created.
        write(Method::PUT, 40, "new").await;
        delete(&server, "m50").await;
        write(Method::POST, 55, "new").await;
        server.compact(server.resource_version());
        for number in (2..60).filter(|number| number % 2 == 0) {
            assert_eq!(shown(&mut watch).await, format!("ADDED m{number:02} 2000"));
        }
        let mut after = shown(&mut watch).await;
        if after.starts_with("BOOKMARK") {
            after = shown(&mut watch).await;
        }
        assert_eq!(after, "MODIFIED m40 3");
        assert_eq!(shown(&mut watch).await, "DELETED m50 2000");
        assert_eq!(shown(&mut watch).await, "ADDED m55 3");
        write(Method::PUT, 40, &long).await;
        write(Method::POST, 50, &long).await;
        delete(&server, "m55").await;
    }
}
