//! The API server of a history for the requests of calls.

use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_model::{CallId, Writer};

use super::script::WriteForm;
use crate::stage::{Stage, add_note};

/// The header with the number of the call that writes.
const CALL: &str = "x-call";

/// The header with the form of the write.
const FORM: &str = "x-form";

/// The path of the leases of the namespace.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

/// The client of the controller.
pub(super) fn client(stage: &Stage) -> Client {
    let stage = stage.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let stage = stage.clone();
        async move { Ok::<_, kube::Error>(answer(&stage, request).await) }
    });
    Client::new(service, crate::stage::NAMESPACE)
}

/// The request of a call that writes to an object, if it has one of this `version`.
pub(super) fn write(
    call: CallId,
    name: &str,
    form: WriteForm,
    version: Option<&str>,
) -> Request<Vec<u8>> {
    let mut body = json!({});
    if let Some(version) = version {
        body["metadata"]["resourceVersion"] = version.into();
    }
    let request = Request::patch(format!("{LEASES}/{name}"))
        .header("content-type", "application/merge-patch+json")
        .header(CALL, call.0.to_string())
        .header(FORM, format!("{form:?}"));
    let body = serde_json::to_vec(&body).expect("JSON");
    request.body(body).expect("a request")
}

async fn answer(stage: &Stage, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    if head.method == Method::GET {
        // What a call asks after a write with an unknown result.
        let version = stage.with(|state| state.server.version.to_string());
        let list = json!({
            "apiVersion": "meta.k8s.io/v1",
            "kind": "PartialObjectMetadataList",
            "metadata": { "resourceVersion": version },
            "items": [],
        });
        return response(200, &list);
    }
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let body: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let header = |name: &str| {
        let value = head.headers.get(name).and_then(|it| it.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let name = head.uri.path().rsplit('/').next().unwrap_or_default();
    let found = stage.with(|state| state.server.objects.get(name).cloned());
    let Some(mut lease) = found else {
        return refusal(404, "NotFound");
    };
    let precondition = body["metadata"]["resourceVersion"].as_str();
    let version = lease.metadata.resource_version.as_deref();
    if precondition.is_some_and(|it| Some(it) != version) {
        return refusal(409, "Conflict");
    }
    let (call, form) = (header(CALL).parse().map(CallId), header(FORM));
    let is = |other: WriteForm| form == format!("{other:?}");
    if let Ok(call) = call
        && !is(WriteForm::Unchanged)
    {
        add_note(&mut lease);
        lease = stage.write(Writer::Call(call), lease);
    }
    if is(WriteForm::LosesAnswer) {
        return refusal(500, "InternalError");
    }
    if is(WriteForm::Slow) {
        // Simulated time.
        sleep(Duration::from_secs(2)).await;
    }
    response(200, &typed(&lease))
}

fn typed(lease: &Lease) -> Value {
    let mut value = serde_json::to_value(lease).expect("JSON");
    value["apiVersion"] = "coordination.k8s.io/v1".into();
    value["kind"] = "Lease".into();
    value
}

fn refusal(code: u16, reason: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": "as planned",
    });
    response(code, &status)
}

fn response(code: u16, body: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(body).expect("JSON"));
    let response = Response::builder().status(code);
    let response = response.header("content-type", "application/json");
    response.body(body).expect("a response")
}
