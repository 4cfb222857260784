//! Tests with many objects and many watches.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::Instant;
use windlass_apiserver::ApiServer;

mod support;

use support::client;

const OBJECTS: usize = 10_000;

fn configmap(number: usize) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": { "name": format!("map-{number:05}") },
        "data": { "text": "x".repeat(1000) },
    }))
    .expect("it is a ConfigMap")
}

#[tokio::test]
async fn ten_thousand_objects_are_listed_at_once_and_in_pages() -> Result<(), kube::Error> {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let start = Instant::now();
    for number in 0..OBJECTS {
        maps.create(&PostParams::default(), &configmap(number))
            .await?;
    }
    println!("created in {:?}", start.elapsed());

    let start = Instant::now();
    assert_eq!(
        maps.list(&ListParams::default()).await?.items.len(),
        OBJECTS
    );
    println!("listed in {:?}", start.elapsed());

    let start = Instant::now();
    let mut names = Vec::new();
    let mut page = ListParams::default().limit(500);
    loop {
        let list = maps.list(&page).await?;
        names.extend(list.items.iter().map(ResourceExt::name_any));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = ListParams::default().limit(500).continue_token(&token),
            None => break,
        }
        // Objects that are created between two pages are in no page.
        maps.create(&PostParams::default(), &configmap(OBJECTS + names.len()))
            .await?;
    }
    println!("listed in pages in {:?}", start.elapsed());
    assert_eq!(names.len(), OBJECTS);
    assert!(names.is_sorted());
    Ok(())
}

#[tokio::test]
async fn a_hundred_watchers_see_every_event_in_order() -> Result<(), kube::Error> {
    const EVENTS: usize = 200;
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let from: Arc<str> = server.resource_version().to_string().into();
    let watchers: Vec<_> = (0..100)
        .map(|_| {
            let (maps, from) = (maps.clone(), from.clone());
            tokio::spawn(async move {
                let events = maps.watch(&WatchParams::default(), &from).await?;
                let names = events.take(EVENTS).map_ok(|event| match event {
                    WatchEvent::Added(map) => map.name_any(),
                    other => format!("{other:?}"),
                });
                names.try_collect::<Vec<_>>().await
            })
        })
        .collect();
    for number in 0..EVENTS {
        maps.create(&PostParams::default(), &configmap(number))
            .await?;
    }
    let expected: Vec<_> = (0..EVENTS)
        .map(|number| format!("map-{number:05}"))
        .collect();
    for watcher in watchers {
        assert_eq!(watcher.await.expect("no watcher panics")?, expected);
    }
    Ok(())
}
