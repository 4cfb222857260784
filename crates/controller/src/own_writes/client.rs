//! The client of a call: it records the writes of the call from their responses.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;
use tower::BoxError;
use windlass_informer::{ObjectKey, api_request::sent_once};

use super::{CallAnswers, OwnWrite, OwnWrites, Scope, WriteEffect, parse_version};
use crate::mode::WritePaused;

/// Records the writes of one call.
#[derive(Clone, Debug)]
pub(crate) struct CallRecorder {
    pub(crate) lane: ObjectKey,
    pub(crate) writes: Arc<Mutex<OwnWrites>>,
    pub(crate) answers: Arc<Mutex<CallAnswers>>,
    /// Of a call for a paused object: set when a write was refused.
    pub(crate) paused: Option<Arc<AtomicBool>>,
}

/// What a write is for, from the path of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// The kind, as `plural.group`.
    resource: Arc<str>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
}

/// A write without a response. When it is dropped, its result is unknown.
struct PendingWrite {
    recorder: CallRecorder,
    target: Target,
    is_finished: bool,
}

/// The fields of a request or response that decide.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Envelope {
    kind: Option<String>,
    metadata: Metadata,
    details: Details,
    preconditions: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    name: Option<String>,
    uid: Option<String>,
}

/// Returns a client that sends everything through `client`, each write once, and records the writes.
/// Call it within a tokio runtime, like [`Client::new`].
pub(crate) fn recording_client(client: Client, recorder: CallRecorder) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, recorder) = (client.clone(), recorder.clone());
        async move { send(&client, recorder, request).await }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}

async fn send(
    client: &Client,
    recorder: CallRecorder,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let Some(target) = write_target(&request) else {
        return Ok(client.send(request).await?);
    };
    if let Some(refused) = &recorder.paused
        && !target.is_written_while_paused()
    {
        refused.store(true, Ordering::Release);
        return Err(Box::new(WritePaused {
            method: match *request.method() {
                Method::POST => "POST",
                Method::PUT => "PUT",
                Method::PATCH => "PATCH",
                _ => "DELETE",
            },
            target: request.uri().path().to_owned(),
        }));
    }
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let precondition = precondition(&head, &body);
    let method = head.method.clone();
    let request = Request::from_parts(head, sent_once(body.to_vec()).await?);

    let mut pending = PendingWrite::new(recorder, target);
    let response = client.send(request).await?;
    let (head, body) = response.into_parts();
    let body = body.collect_bytes().await?;
    pending.finish(&method, head.status, precondition.as_deref(), &body);
    Ok(Response::from_parts(head, Body::from(body)))
}

/// What `request` writes. `None` if it is no write.
fn write_target(request: &Request<Body>) -> Option<Target> {
    let is_write = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH | Method::DELETE
    );
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let query = request.uri().query().unwrap_or_default();
    if !is_write || is_upgrade || query.contains("dryRun=") {
        return None;
    }
    Target::of(request.uri().path())
}

/// The version that the object must have before the write, if the request has one. An apply in YAML
/// is not read.
fn precondition(head: &http::request::Parts, body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Operation {
        op: String,
        path: String,
        #[serde(default)]
        value: serde_json::Value,
    }

    let content_type = head.headers.get(header::CONTENT_TYPE);
    if content_type.is_some_and(|it| it.as_bytes().starts_with(b"application/json-patch+json")) {
        let operations: Vec<Operation> = serde_json::from_slice(body).ok()?;
        let mut tests = operations.into_iter().take_while(|it| it.op == "test");
        let test = tests.find(|it| it.path == "/metadata/resourceVersion")?;
        return Some(test.value.as_str()?.to_owned());
    }
    let envelope: Envelope = serde_json::from_slice(body).ok()?;
    let given = match head.method {
        Method::DELETE => envelope.preconditions.resource_version,
        _ => envelope.metadata.resource_version,
    };
    given.filter(|version| !version.is_empty())
}

// === impl Target ===

impl Target {
    /// Reads `/api/v1/…` and `/apis/group/version/…`. `None` for any other path.
    fn of(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let _version = parts.next()?;
        let rest: Vec<_> = parts.collect();
        let (namespace, rest) = match *rest {
            // The subresources of a namespace.
            ["namespaces", _, "status" | "finalize"] => (None, &rest[..]),
            ["namespaces", namespace, _, ..] => (Some(namespace), &rest[2..]),
            _ => (None, &rest[..]),
        };
        let plural = *rest.first()?;
        let resource = if group.is_empty() {
            plural.to_owned()
        } else {
            format!("{plural}.{group}")
        };
        let part = |index: usize| rest.get(index).map(|part| (*part).to_owned());
        Some(Self {
            resource: resource.into(),
            namespace: namespace.map(str::to_owned),
            name: part(1),
            subresource: part(2),
        })
    }

    /// Whether a call for a paused object may write it: a status, an Event, or a question in the form
    /// of a create, such as a review of permissions.
    fn is_written_while_paused(&self) -> bool {
        let is_event = matches!(&*self.resource, "events" | "events.events.k8s.io");
        let is_question = [".authorization.k8s.io", ".authentication.k8s.io"]
            .iter()
            .any(|group| self.resource.ends_with(group));
        self.subresource.as_deref() == Some("status") || is_event || is_question
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::in_namespace(name, self.namespace.as_deref())
    }
}

// === impl PendingWrite ===

impl PendingWrite {
    fn new(recorder: CallRecorder, target: Target) -> Self {
        recorder.writes.lock().sending(&recorder.lane);
        Self {
            recorder,
            target,
            is_finished: false,
        }
    }

    /// Records the complete response.
    fn finish(
        &mut self,
        method: &Method,
        status: http::StatusCode,
        precondition: Option<&str>,
        body: &Bytes,
    ) {
        if status.is_client_error() {
            // Nothing was written.
            self.is_finished = true;
            return;
        }
        if !status.is_success() {
            return;
        }
        let is_collection = self.target.name.is_none() && *method != Method::POST;
        let answer: Envelope = serde_json::from_slice(body).unwrap_or_default();
        let written = if is_collection {
            None
        } else {
            self.written(method, status, precondition, &answer)
        };
        match written {
            Some(Some((write, has_object))) => self.record(write, has_object.then(|| body.clone())),
            // An object that is not stored, such as a review, or whose version is not a number.
            Some(None) => {}
            None => return,
        }
        self.is_finished = true;
    }

    /// The write of a response, and whether the response is the object. `None` if the result cannot
    /// be read from it; `Some(None)` if nothing is to be tracked.
    #[expect(
        clippy::option_option,
        reason = "unknown and nothing are two answers, and are used in one place"
    )]
    fn written(
        &self,
        method: &Method,
        status: http::StatusCode,
        precondition: Option<&str>,
        answer: &Envelope,
    ) -> Option<Option<(OwnWrite, bool)>> {
        let target = &self.target;
        let write = |name: &str, uid: &str, effect, is_proven| OwnWrite {
            resource: Arc::clone(&target.resource),
            key: target.key(name),
            uid: uid.into(),
            effect,
            is_proven,
            at: Instant::now(),
        };
        let metadata = &answer.metadata;
        let name = metadata.name.as_deref().or(target.name.as_deref());
        if let (Some(name), Some(uid), Some(version)) =
            (name, &metadata.uid, &metadata.resource_version)
        {
            // The finalizers of a namespace are in its spec.
            let is_marked = metadata.deletion_timestamp.is_some()
                && (answer.kind.as_deref() == Some("Namespace")
                    || metadata.finalizers.iter().flatten().next().is_some()
                    || metadata.deletion_grace_period_seconds.unwrap_or(0) > 0);
            if *method == Method::DELETE && target.subresource.is_none() && !is_marked {
                return Some(Some((write(name, uid, WriteEffect::Gone, false), false)));
            }
            let Some(number) = parse_version(version) else {
                return Some(None);
            };
            let is_created = status == http::StatusCode::CREATED && target.subresource.is_none();
            let is_guarded = precondition.is_some_and(|before| before != version);
            let effect = WriteEffect::Version(number);
            let has_object = matches!(target.subresource.as_deref(), None | Some("status"))
                && answer.kind.as_deref() != Some("PartialObjectMetadata");
            let write = write(name, uid, effect, is_created || is_guarded);
            return Some(Some((write, has_object)));
        }
        if *method == Method::DELETE && target.subresource.is_none() {
            let name = answer.details.name.as_deref().or(target.name.as_deref())?;
            let uid = answer.details.uid.as_deref()?;
            return Some(Some((write(name, uid, WriteEffect::Gone, false), false)));
        }
        if *method == Method::POST && target.name.is_none() {
            return Some(None);
        }
        None
    }

    fn record(&self, write: OwnWrite, body: Option<Bytes>) {
        self.recorder.answers.lock().put(
            Arc::clone(&write.resource),
            write.key.clone(),
            Arc::clone(&write.uid),
            write.effect,
            body,
        );
        let lane = &self.recorder.lane;
        self.recorder.writes.lock().record(lane, write);
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        if !self.is_finished {
            let scope = Scope {
                resource: Arc::clone(&self.target.resource),
                namespace: self.target.namespace.as_deref().map(Arc::from),
            };
            let mut writes = self.recorder.writes.lock();
            writes.record_unknown(&self.recorder.lane, scope, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
