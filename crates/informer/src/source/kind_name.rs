//! The reasons for an informer without objects: another plural of its kind, or a missing namespace.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use kube::{Client, Resource};
use serde::Deserialize;

use crate::{
    WatchError, WatchErrorCause,
    api_request::{self, NOT_FOUND, RequestError, ResponseLimits},
    message::one_line,
};

/// The kind of an informer, with its plural.
pub(super) struct KindName {
    client: Client,
    kind: String,
    plural: String,
    /// The path of the discovery document of its group and version.
    document: String,
    /// The namespace of the informer, if it has one.
    namespace: Option<String>,
}

/// The discovery document of a group and version.
#[derive(Deserialize)]
struct Served {
    resources: Vec<ServedResource>,
}

#[derive(Deserialize)]
struct ServedResource {
    name: String,
    kind: String,
}

// === impl KindName ===

impl KindName {
    /// The time for the document. The report of the error waits for it.
    const TIMEOUT: Duration = Duration::from_secs(5);

    /// The size of the largest document that is read: that of the core group has 20 KiB.
    const MAX_BYTES: usize = 1024 * 1024;

    /// `url` is the path of the resource.
    pub(super) fn new<K: Resource>(client: Client, types: &K::DynamicType, url: &str) -> Self {
        let namespace = url
            .split_once("/namespaces/")
            .and_then(|(_, it)| it.split_once('/'));
        let version = K::api_version(types);
        let root = if version.contains('/') {
            "/apis"
        } else {
            "/api"
        };
        Self {
            client,
            kind: K::kind(types).into_owned(),
            plural: K::plural(types).into_owned(),
            document: format!("{root}/{version}"),
            namespace: namespace.map(|(namespace, _)| namespace.to_owned()),
        }
    }

    /// Returns the error of an unknown kind with the plural under which the API server serves the
    /// kind, if it serves it. Other errors, and those of the lookup, change nothing.
    pub(super) async fn explain(&self, mut error: WatchError) -> WatchError {
        if matches!(error.cause, WatchErrorCause::UnknownKind)
            && let Some(served) = self.served().await
            && let Some(plural) = self.other_plural(served)
        {
            error.cause = WatchErrorCause::OtherPlural {
                kind: one_line(&self.kind).into_owned(),
                plural: one_line(&plural).into_owned(),
                requested: one_line(&self.plural).into_owned(),
            };
        }
        error
    }

    /// The plural of the kind, if the API server does not serve the requested one.
    fn other_plural(&self, served: Served) -> Option<String> {
        let mut resources = served.resources;
        // A subresource can have the kind of its object.
        resources.retain(|it| it.kind == self.kind && !it.name.contains('/'));
        let is_requested = resources.iter().any(|it| it.name == self.plural);
        let other = resources.into_iter().next()?;
        (!is_requested).then_some(other.name)
    }

    async fn served(&self) -> Option<Served> {
        let document = self.get(&self.document).await?.ok()?;
        serde_json::from_slice(&document).ok()
    }

    /// The namespace of the informer, if the API server says that it does not exist. An operator
    /// usually lacks the permission to read it; then nothing is known.
    pub(super) async fn missing_namespace(&self) -> Option<&str> {
        let namespace = self.namespace.as_deref()?;
        let path = format!("/api/v1/namespaces/{namespace}");
        match self.get(&path).await? {
            Err(RequestError::Status(status))
                if status.code == 404 && status.reason == NOT_FOUND =>
            {
                Some(namespace)
            }
            _ => None,
        }
    }

    async fn get(&self, path: &str) -> Option<Result<Bytes, RequestError>> {
        let request = Request::get(path)
            .header(header::ACCEPT, "application/json")
            .body(Vec::new())
            .ok()?;
        let limits = ResponseLimits {
            time: Self::TIMEOUT,
            bytes: Self::MAX_BYTES,
        };
        Some(api_request::send(&self.client, request, limits).await)
    }
}
