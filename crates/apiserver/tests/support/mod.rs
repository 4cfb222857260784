//! Shared parts of the tests: a client of a server, and a custom resource.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, StatusCode, response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, ResponseBody};

/// A client without a socket.
pub(crate) fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

/// The definition of `widgets.ex.io`, with a status of its own.
pub(crate) fn widget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.ex.io" },
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "selectableFields": [{ "jsonPath": ".spec.color" }],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["size"],
                            "properties": {
                                "size": { "type": "integer", "minimum": 1 },
                                "color": { "type": "string", "default": "grey" },
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": { "ready": { "type": "boolean" } },
                        },
                    },
                }},
            }],
        },
    })
}

/// Registers a definition.
pub(crate) async fn register(client: &Client, definition: Value) -> kube::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(definition).map_err(kube::Error::SerdeError)?;
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .map(drop)
}

/// The type name of a widget in kube.
pub(crate) fn widget_resource() -> ApiResource {
    ApiResource {
        group: "ex.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "ex.io/v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    }
}

/// The widgets of the namespace `default`.
pub(crate) fn widgets(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &widget_resource())
}

/// A widget.
pub(crate) fn widget(name: &str, spec: &Value) -> DynamicObject {
    DynamicObject::new(name, &widget_resource()).data(json!({ "spec": spec }))
}

/// The status with which a request was refused.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason, status.message),
        other => panic!("expected a refusal, not {other:?}"),
    }
}

/// A response without its body, and its body.
pub(crate) async fn answer(
    server: &ApiServer,
    request: Request<Full<Bytes>>,
) -> (response::Parts, Bytes) {
    let Ok(response) = server.service().oneshot(request).await;
    let (parts, body) = response.into_parts();
    let Ok(body) = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    (parts, body)
}

/// Sends JSON and reads JSON, past any client; what isn't JSON reads as `null`.
pub(crate) async fn request(
    server: &ApiServer,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> (StatusCode, Value) {
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Full::new(body))
        .expect("a request");
    let (parts, body) = answer(server, request).await;
    (
        parts.status,
        serde_json::from_slice(&body).unwrap_or_default(),
    )
}

/// The events of a watch, as they come.
pub(crate) struct Events {
    body: ResponseBody,
    read: Vec<u8>,
}

/// Starts a watch of `path`, which has a query, and accepts `accept`.
pub(crate) async fn watch(server: &ApiServer, path: &str, accept: &str) -> Events {
    let request = Request::get(path)
        .header("accept", accept)
        .body(Full::new(Bytes::new()))
        .expect("a request");
    let Ok(response) = server.service().oneshot(request).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    Events {
        body: response.into_body(),
        read: Vec::new(),
    }
}

impl Events {
    /// The next event; nothing if the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("a line is JSON"));
            }
            let Ok(frame) = self.body.frame().await?;
            self.read
                .extend_from_slice(&frame.into_data().expect("a frame of data"));
        }
    }

    /// The next event in short: `ADDED a`, `BOOKMARK 12`, `ERROR 410`.
    pub(crate) async fn next_line(&mut self) -> String {
        let Some(event) = self.next().await else {
            return "end".to_owned();
        };
        let object = &event["object"];
        let what = match event["type"].as_str() {
            Some("BOOKMARK") => &object["metadata"]["resourceVersion"],
            Some("ERROR") => &object["code"],
            _ => &object["metadata"]["name"],
        };
        let what = what
            .as_str()
            .map_or_else(|| what.to_string(), str::to_owned);
        format!("{} {what}", event["type"].as_str().unwrap_or_default())
    }
}

/// The resident memory of this process, in bytes; nothing where the system does not say.
pub(crate) fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Opens the watch at `path` and reads only its first byte.
pub(crate) async fn open_unread(address: SocketAddr, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    // The kernel is to take little, so that the server has to keep the rest.
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(address).await.expect("a connection");
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("it listens");
    // The first byte shows that the watch is running.
    let mut first = [0];
    stream.read_exact(&mut first).await.expect("an answer");
    stream
}
