//! Tests of the times in `managedFields`, in paused time. `tests/behaviour/api/apply.rs` tests the
//! ownership of fields on both servers.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::advance;
use windlass_apiserver::ApiServer;

mod support;

use support::{answer, request};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "a" }, "data": { "k": value },
    })
}

async fn put(server: &ApiServer, value: &str) -> Value {
    let path = format!("{MAPS}/a?fieldManager=me");
    let (code, object) = request(server, Method::PUT, &path, Some(&map(value))).await;
    assert_eq!(code, 200, "{object}");
    object
}

async fn apply(server: &ApiServer, manager: &str, value: &str) -> Value {
    let request = Request::patch(format!("{MAPS}/a?fieldManager={manager}"))
        .header("content-type", "application/apply-patch+yaml")
        .body(Full::new(Bytes::from(map(value).to_string())))
        .expect("a request");
    let (parts, body) = answer(server, request).await;
    assert!(parts.status.is_success(), "{}", parts.status);
    serde_json::from_slice(&body).expect("an object")
}

/// The times of the entries, by manager.
fn times(object: &Value) -> Vec<(String, String)> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut times: Vec<_> = entries
        .map(|entry| (text(&entry["manager"]), text(&entry["time"])))
        .collect();
    times.sort();
    times
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_entry_is_that_of_the_last_change() {
    let server = ApiServer::new();
    request(
        &server,
        Method::POST,
        &format!("{MAPS}?fieldManager=me"),
        Some(&map("1")),
    )
    .await;
    let first = put(&server, "2").await;
    advance(Duration::from_secs(5)).await;
    let same = put(&server, "2").await;
    assert_eq!(same, first, "nothing has changed, not even a time");
    let second = put(&server, "3").await;
    assert_ne!(times(&second), times(&first));
}

#[tokio::test(start_paused = true)]
async fn an_apply_without_changes_is_not_written() {
    let server = ApiServer::new();
    let first = apply(&server, "me", "1").await;
    advance(Duration::from_secs(5)).await;
    let before = server.resource_version();
    assert_eq!(apply(&server, "me", "1").await, first);
    assert_eq!(server.resource_version(), before);
    let shared = apply(&server, "you", "1").await;
    assert_eq!(times(&shared)[0], times(&first)[0]);
    assert_eq!(times(&shared)[1], ("you".to_owned(), "-".to_owned()));
    assert_ne!(
        server.resource_version(),
        before,
        "who owns what has changed"
    );
}
