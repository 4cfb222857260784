//! The client that writes the finalizers of objects.

use std::{future::Future, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use http::header::{ACCEPT, CONTENT_TYPE};
use kube::{
    Api, Client, Resource,
    core::{
        Status,
        response::{StatusCause, StatusDetails},
    },
};
use serde::de::DeserializeOwned;
use windlass_informer::{
    ObjectKey,
    api_request::{self, RequestError, ResponseLimits, ServerStatus, path_segment},
};

use super::{FinalizerPatch, answer};
use crate::error::MAX_RETRY_AFTER;

/// The timeout of a request and its complete response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The limits of a response. Its body can have ten times the size of the largest object that etcd
/// stores by default, because lists of metadata are also read.
const LIMITS: ResponseLimits = ResponseLimits {
    time: TIMEOUT,
    bytes: 16 * 1024 * 1024,
};

/// Patches the finalizers of the objects of a kind.
///
/// A [`Client`] implements it for each kind that is known at compile time. An [`Api`] implements it
/// for its kind: in its namespace or, if it has none, in the namespace of each object. One with
/// another namespace than the object returns an error. Only [`patch`](Self::patch) is required.
///
/// # Contract
///
/// *Required.* A call ends, with an error if the server does not answer:
/// [`InformerControllerBuilder::timeout`](crate::InformerControllerBuilder::timeout) does not limit it.
/// An error response of the server is returned as [`kube::Error::Api`] with its status
/// code and reason: 404 and `NotFound` if the object does not exist, 409 or 422 if a test of the
/// patch fails.
///
/// # Cancel safety
///
/// A call may be dropped at any `await`. The next call detects whether the patch was applied.
pub trait PatchClient<K>: Send + Sync + 'static {
    /// Applies `patch` to the object with `key`, and returns the patched object.
    ///
    /// # Errors
    ///
    /// The error of the server.
    fn patch(
        &self,
        key: &ObjectKey,
        patch: &FinalizerPatch,
    ) -> impl Future<Output = Result<K, kube::Error>> + Send;

    /// Returns the current object with `key`. By default sends a patch without changes.
    ///
    /// # Errors
    ///
    /// The error of the server.
    fn get(&self, key: &ObjectKey) -> impl Future<Output = Result<K, kube::Error>> + Send {
        async { self.patch(key, &FinalizerPatch::empty()).await }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("timed out after {TIMEOUT:?} without a complete response")]
struct TimedOut;

#[derive(Debug, thiserror::Error)]
#[error(
    "the finalizers of {key} cannot be written with an `Api` of the namespace `{namespace}`; create \
     the `Finalizers` with `Api::all`"
)]
struct OtherNamespace {
    key: ObjectKey,
    namespace: String,
}

/// A [`PatchClient`] of any type.
pub(super) trait ErasedClient<K>: Send + Sync {
    fn patch<'a>(
        &'a self,
        key: &'a ObjectKey,
        patch: &'a FinalizerPatch,
    ) -> BoxFuture<'a, Result<K, kube::Error>>;

    fn get<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<K, kube::Error>>;
}

// === impl PatchClient ===

impl<K: 'static, C: PatchClient<K>> ErasedClient<K> for C {
    fn patch<'a>(
        &'a self,
        key: &'a ObjectKey,
        patch: &'a FinalizerPatch,
    ) -> BoxFuture<'a, Result<K, kube::Error>> {
        PatchClient::patch(self, key, patch).boxed()
    }

    fn get<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<K, kube::Error>> {
        PatchClient::get(self, key).boxed()
    }
}

impl<K> PatchClient<K> for Client
where
    K: Resource<DynamicType = ()> + DeserializeOwned + 'static,
{
    async fn patch(&self, key: &ObjectKey, patch: &FinalizerPatch) -> Result<K, kube::Error> {
        let url = K::url_path(&(), key.namespace());
        send_patch(self, &url, key, patch).await
    }

    async fn get(&self, key: &ObjectKey) -> Result<K, kube::Error> {
        send_get(self, K::url_path(&(), key.namespace()), key).await
    }
}

impl<K> PatchClient<K> for Api<K>
where
    K: Resource + Clone + DeserializeOwned + 'static,
{
    async fn patch(&self, key: &ObjectKey, patch: &FinalizerPatch) -> Result<K, kube::Error> {
        let client = self.clone().into_client();
        send_patch(&client, &url(self, key)?, key, patch).await
    }

    async fn get(&self, key: &ObjectKey) -> Result<K, kube::Error> {
        let client = self.clone().into_client();
        send_get(&client, url(self, key)?, key).await
    }
}

/// The URL of the objects of `api` in the namespace of `key`.
fn url<K: Resource>(api: &Api<K>, key: &ObjectKey) -> Result<String, kube::Error> {
    let url = api.resource_url();
    match (api.namespace(), key.namespace(), url.rsplit_once('/')) {
        (None, Some(namespace), Some((base, plural))) => {
            Ok(format!("{base}/namespaces/{namespace}/{plural}"))
        }
        // The server would answer 404, as if the object were deleted.
        (Some(namespace), Some(other), _) if namespace != other => {
            let (key, namespace) = (key.clone(), namespace.to_owned());
            let error = OtherNamespace { key, namespace };
            Err(kube::Error::Service(Box::new(error)))
        }
        _ => Ok(url.to_owned()),
    }
}

async fn send_patch<K: Resource + DeserializeOwned>(
    client: &Client,
    url: &str,
    key: &ObjectKey,
    patch: &FinalizerPatch,
) -> Result<K, kube::Error> {
    let body = serde_json::to_vec(patch).map_err(kube::Error::SerdeError)?;
    let (name, manager) = (path_segment(key.name()), patch.field_manager());
    let request = http::Request::patch(format!("{url}/{name}?fieldManager={manager}"))
        .header(CONTENT_TYPE, "application/json-patch+json");
    send_for_object(client, request, body).await
}

async fn send_get<K: Resource + DeserializeOwned>(
    client: &Client,
    url: String,
    key: &ObjectKey,
) -> Result<K, kube::Error> {
    let request = http::Request::get(format!("{url}/{}", path_segment(key.name())));
    send_for_object(client, request, Vec::new()).await
}

/// Sends `request` once, and decodes the object in its response as the informer does: of a type with
/// only metadata, only the metadata are transferred.
async fn send_for_object<K: Resource + DeserializeOwned>(
    client: &Client,
    mut request: http::request::Builder,
    body: Vec<u8>,
) -> Result<K, kube::Error> {
    const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    if K::metadata_api() {
        request = request.header(ACCEPT, METADATA);
    }
    let request = request.body(body).map_err(kube::Error::HttpError)?;
    match api_request::send(client, request, LIMITS).await {
        Ok(body) => answer::decode(&body),
        Err(error) => Err(kube_error(error)),
    }
}

/// Sends `request` once, and decodes its response.
///
/// # Errors
///
/// [`kube::Error::Api`] if the server refuses, [`kube::Error::SerdeError`] if the response does not
/// decode, [`kube::Error::Service`] if there is no complete response in time, or it is too long.
pub(super) async fn send<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> Result<T, kube::Error> {
    match api_request::send(client, request, LIMITS).await {
        Ok(body) => api_request::decode(&body),
        Err(error) => Err(kube_error(error)),
    }
}

/// Converts the error of a request that had at most [`TIMEOUT`].
pub(crate) fn kube_error(error: RequestError) -> kube::Error {
    match error {
        RequestError::Status(status) => kube::Error::Api(Box::new(refusal(status))),
        RequestError::Connection(error) => error,
        RequestError::TimedOut => kube::Error::Service(Box::new(TimedOut)),
    }
}

/// Converts `status`, without the texts that may quote the object or describe a crash.
fn refusal(status: ServerStatus) -> Status {
    let quotes = status.code == 422 || status.code >= 500;
    let causes = status.causes.into_iter().map(|cause| StatusCause {
        message: String::new(),
        ..cause
    });
    let wait = status.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    Status {
        code: status.code,
        reason: status.reason,
        message: if quotes {
            String::new()
        } else {
            status.message
        },
        details: Some(StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: causes.collect(),
            retry_after_seconds: u32::try_from(seconds).unwrap_or_default(),
        }),
        ..Status::default()
    }
}
