//! An API server in the process, for controllers that have their own list and watch.
//!
//! It shows all objects as the beginning of the watch, and no change after them.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::object;
use crate::Result;

/// A client of a server with `count` objects.
pub(super) fn client(count: usize) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("sendInitialEvents=true") {
            return response(StatusCode::OK, initial(count));
        }
        // The watch continues after the initial events, so nothing else is expected.
        let refusal = json!({
            "kind": "Status", "status": "Failure", "code": 501, "reason": "NotImplemented",
            "message": "this server supports streamed lists only",
        });
        let refusal = Full::from(refusal.to_string());
        response(StatusCode::NOT_IMPLEMENTED, refusal.boxed_unsync())
    });
    Client::new(service, "default")
}

/// The body of a response, in memory.
type Answer = UnsyncBoxBody<Bytes, Infallible>;

fn response(status: StatusCode, body: Answer) -> Result<Response<Answer>> {
    let response = Response::builder().status(status);
    let response = response.header("Content-Type", "application/json");
    Ok(response.body(body)?)
}

/// The events of a watch: each object, the bookmark after them, and no end.
fn initial(count: usize) -> Answer {
    let objects = (0..count).map(|index| event("ADDED", &json!(object(index))));
    let bookmark = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "resourceVersion": "1",
            "annotations": { "k8s.io/initial-events-end": "true" },
        },
    });
    let end = std::iter::once_with(move || event("BOOKMARK", &bookmark));
    let events = stream::iter(objects.chain(end)).chain(stream::pending());
    StreamBody::new(events.map(|event| Ok(Frame::data(event)))).boxed_unsync()
}

fn event(action: &str, object: &Value) -> Bytes {
    let mut line = json!({ "type": action, "object": object }).to_string();
    line.push('\n');
    line.into()
}
