//! The time to live of events.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::advance;
use windlass_apiserver::{ApiServer, ApiServerBuilder};

mod support;

use support::request;

const EVENTS: &str = "/api/v1/namespaces/default/events";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server whose events expire after a minute.
fn server() -> ApiServer {
    expiring(60).start()
}

fn expiring(seconds: u64) -> ApiServerBuilder {
    ApiServer::builder().event_ttl(Duration::from_secs(seconds))
}

async fn create(server: &ApiServer, name: &str) {
    let event = json!({
        "metadata": { "name": name },
        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default" },
    });
    let (code, body) = request(server, Method::POST, EVENTS, Some(&event)).await;
    assert_eq!(code, 201, "{body}");
}

/// The names of the events.
async fn names(server: &ApiServer) -> Vec<String> {
    let (_, list) = request(server, Method::GET, EVENTS, None).await;
    let items = list["items"].as_array().expect("a list");
    let names = items.iter().map(|item| item["metadata"]["name"].as_str());
    names.map(|name| name.expect("a name").to_owned()).collect()
}

async fn patch(server: &ApiServer, name: &str, change: &Value) {
    let path = format!("{EVENTS}/{name}");
    let (code, body) = request(server, Method::PATCH, &path, Some(change)).await;
    assert_eq!(code, 200, "{body}");
}

async fn seconds(seconds: u64) {
    advance(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_expires_a_certain_time_after_its_last_write() {
    let server = server();
    create(&server, "a").await;
    create(&server, "b").await;
    create(&server, "c").await;
    seconds(59).await;
    patch(&server, "b", &json!({ "message": "again" })).await;
    patch(&server, "c", &json!({ "metadata": { "name": "c" } })).await;
    assert_eq!(names(&server).await, ["a", "b", "c"]);
    seconds(1).await;
    assert_eq!(
        names(&server).await,
        ["b"],
        "a write without a change does not count"
    );
    seconds(58).await;
    assert_eq!(names(&server).await, ["b"]);
    seconds(1).await;
    assert!(names(&server).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_created_again_has_its_own_time() {
    let server = server();
    create(&server, "a").await;
    seconds(30).await;
    let path = format!("{EVENTS}/a");
    request(&server, Method::DELETE, &path, None).await;
    create(&server, "a").await;
    seconds(30).await;
    assert_eq!(names(&server).await, ["a"]);
    seconds(30).await;
    let (code, _) = request(&server, Method::GET, &path, None).await;
    assert_eq!(code, 404);
}

#[tokio::test(start_paused = true)]
async fn any_write_deletes_expired_events() {
    let server = server();
    create(&server, "a").await;
    seconds(60).await;
    let events = |server: &ApiServer| {
        let objects = server.objects();
        objects
            .iter()
            .filter(|(resource, _)| resource == "events")
            .count()
    };
    assert_eq!(events(&server), 1);
    let before = server.resource_version();
    let map = json!({ "metadata": { "name": "m" } });
    request(&server, Method::POST, MAPS, Some(&map)).await;
    assert_eq!(events(&server), 0);
    assert_eq!(server.resource_version(), before + 2);
}

#[tokio::test(start_paused = true)]
async fn the_default_is_an_hour_and_zero_means_forever() {
    for (server, is_kept) in [(ApiServer::new(), false), (expiring(0).start(), true)] {
        create(&server, "a").await;
        seconds(3599).await;
        assert_eq!(names(&server).await, ["a"]);
        seconds(1).await;
        assert_eq!(names(&server).await.len(), usize::from(is_kept));
    }
}
