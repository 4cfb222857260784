//! Watches, through kube's client.

use futures::{StreamExt as _, TryStreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use windlass_apiserver::ApiServer;

mod support;

use support::client;

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn configmap(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).expect("it is a ConfigMap")
}

fn told(event: &WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(map) => format!("added {}", map.name_any()),
        WatchEvent::Modified(map) => format!("modified {}", map.name_any()),
        WatchEvent::Deleted(map) => format!("deleted {}", map.name_any()),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_happens_after_its_version_and_ends_in_time() -> TestResult {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let from = server.resource_version().to_string();
    maps.create(&PostParams::default(), &configmap("a")).await?;
    let events = maps
        .watch(&WatchParams::default().timeout(10), &from)
        .await?;
    pin_mut!(events);

    assert_eq!(
        events.try_next().await?.as_ref().map(told).as_deref(),
        Some("added a")
    );
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&labels))
        .await?;
    maps.delete("a", &DeleteParams::default()).await?;
    assert_eq!(
        events.try_next().await?.as_ref().map(told).as_deref(),
        Some("modified a")
    );
    assert_eq!(
        events.try_next().await?.as_ref().map(told).as_deref(),
        Some("deleted a")
    );
    let rest: Vec<_> = events.map_ok(|event| told(&event)).try_collect().await?;
    assert_eq!(
        rest,
        ["bookmark"],
        "before the deadline, and then a clean end"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_forgotten_version_is_told_so() -> TestResult {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let from = server.resource_version();
    maps.create(&PostParams::default(), &configmap("a")).await?;
    server.compact(server.resource_version());
    let events = maps
        .watch(&WatchParams::default(), &from.to_string())
        .await?;
    let events: Vec<_> = events
        .map(|event| event.map(|event| told(&event)))
        .try_collect()
        .await?;
    assert_eq!(events, ["error 410"]);
    Ok(())
}
