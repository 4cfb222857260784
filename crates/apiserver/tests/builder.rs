//! Tests of `ApiServerBuilder`, and of the methods of `ApiServer` that return its state.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

mod support;

use support::{answer, request};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn created(server: &ApiServer, metadata: Value) -> Value {
    let object = json!({ "metadata": metadata, "data": { "a": "b" } });
    let (code, object) = request(server, Method::POST, MAPS, Some(&object)).await;
    assert_eq!(code, 201, "{object}");
    object
}

#[tokio::test]
async fn timestamps_begin_with_the_given_wall_clock() {
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let server = ApiServer::builder().wall_clock(time).start();
    let object = created(&server, json!({ "name": "a" })).await;
    let stamp = object["metadata"]["creationTimestamp"].as_str();
    assert!(
        stamp.is_some_and(|it| it.starts_with("2001-09-09T01:46:4")),
        "{object}"
    );
}

#[tokio::test]
async fn a_seed_makes_uids_and_generated_names_the_same_in_each_run() {
    let identity = async |seed: Option<u64>| {
        let builder = ApiServer::builder();
        let server = match seed {
            Some(seed) => builder.seed(seed).start(),
            None => builder.start(),
        };
        let object = created(&server, json!({ "generateName": "a-" })).await;
        let metadata = &object["metadata"];
        (metadata["uid"].clone(), metadata["name"].clone())
    };
    let one = identity(Some(1)).await;
    assert_eq!(one, identity(Some(1)).await);
    let other = identity(Some(2)).await;
    assert!(one.0 != other.0 && one.1 != other.1, "{one:?} {other:?}");
    assert_ne!(identity(None).await.0, identity(None).await.0);
}

#[tokio::test]
async fn all_objects_are_returned_with_their_resource_and_content() {
    let server = ApiServer::new();
    let object = created(&server, json!({ "name": "a" })).await;
    let shown = server.objects();
    let maps: Vec<_> = shown
        .iter()
        .filter(|(_, it)| it["metadata"]["name"] == "a")
        .collect();
    let [(resource, content)] = &maps[..] else {
        panic!("one object has this name: {maps:?}");
    };
    assert_eq!(resource, "configmaps");
    assert_eq!(
        (&content["data"], &content["metadata"]),
        (&object["data"], &object["metadata"])
    );
    assert!(shown.iter().any(|(resource, _)| resource == "namespaces"));
}

#[tokio::test]
async fn the_versions_of_the_core_group_contain_the_host_of_the_request() {
    let server = ApiServer::new();
    for (uri, header, host) in [
        ("/api", Some("a.example:1"), "a.example:1"),
        ("http://b.example:2/api", None, "b.example:2"),
        ("http://b.example:2/api", Some("a.example:1"), "a.example:1"),
    ] {
        let mut request = Request::get(uri);
        if let Some(header) = header {
            request = request.header("host", header);
        }
        let request = request.body(Full::new(Bytes::new())).expect("a request");
        let (_, body) = answer(&server, request).await;
        let versions: Value = serde_json::from_slice(&body).expect("JSON");
        let address = &versions["serverAddressByClientCIDRs"][0]["serverAddress"];
        assert_eq!(address, host, "{uri} {versions}");
    }
}
