//! Records the writes of a client.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::Value;

/// The distinct writes of each object, in the order of their first occurrence.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    writes: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
}

// === impl Record ===

impl Record {
    /// `client`, whose writes are recorded. `namespace` is shown as `NAMESPACE`.
    pub(super) fn of(&self, client: &Client, namespace: &str) -> Client {
        let (record, client) = (self.clone(), client.clone());
        let default = namespace.to_owned();
        let namespace = namespace.to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (record, client, namespace) = (record.clone(), client.clone(), namespace.clone());
            async move { record.send(&client, &namespace, request).await }
        });
        Client::new(service, default)
    }

    /// The writes of each path.
    pub(super) fn writes(&self) -> BTreeMap<String, Vec<String>> {
        self.writes.lock().expect("no panic").clone()
    }

    async fn send(
        &self,
        client: &Client,
        namespace: &str,
        request: Request<Body>,
    ) -> Result<Response<Body>, kube::Error> {
        if request.method() == Method::GET {
            return client.send(request).await;
        }
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = head.uri.path().replace(namespace, "NAMESPACE");
        let method = head.method.clone();
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        let response = client
            .send(Request::from_parts(head, Body::from(body)))
            .await?;
        let (answer, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let received: Value = serde_json::from_slice(&body).unwrap_or_default();
        // A JSON patch is compared by its effect: its guards may differ.
        let write = if sent.is_array() {
            format!("finalizers {}", received["metadata"]["finalizers"])
        } else {
            without_uids(sent).to_string()
        };
        let result = match answer.status {
            status if status.is_success() => "ok",
            ref status => status.as_str(),
        };
        let write = format!("{method} {write} -> {result}");
        {
            let mut writes = self.writes.lock().expect("no panic");
            let writes = writes.entry(path).or_default();
            if !writes.contains(&write) {
                writes.push(write);
            }
        }
        Ok(Response::from_parts(answer, Body::from(body)))
    }
}

/// Each object of a test has another uid.
fn without_uids(mut sent: Value) -> Value {
    let owners = sent["metadata"]["ownerReferences"].as_array_mut();
    for owner in owners.into_iter().flatten() {
        owner["uid"] = Value::Null;
    }
    sent
}
