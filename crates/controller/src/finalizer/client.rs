//! The client that writes the finalizers of objects.

use std::future::Future;

use futures::{FutureExt, future::BoxFuture};
use http::header::CONTENT_TYPE;
use kube::{
    Api, Client, Resource,
    core::{Request, params::GetParams},
};
use serde::de::DeserializeOwned;
use windlass_informer::ObjectKey;

use super::{FinalizerPatch, request::send};

/// Patches the finalizers of the objects of a kind.
///
/// A [`Client`] implements it for each kind that is known at compile time. An [`Api`] implements it
/// for its kind: in its namespace or, if it has none, in the namespace of each object. Only
/// [`patch`](Self::patch) is required.
///
/// # Contract
///
/// *Required.* An error response of the server is returned as [`kube::Error::Api`] with its status
/// code: 404 if the object does not exist, 409 or 422 if a test of the patch fails.
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
        send_patch(&client, &url(self, key), key, patch).await
    }

    async fn get(&self, key: &ObjectKey) -> Result<K, kube::Error> {
        let client = self.clone().into_client();
        send_get(&client, url(self, key), key).await
    }
}

/// The URL of the objects of `api` in the namespace of `key`.
fn url<K: Resource>(api: &Api<K>, key: &ObjectKey) -> String {
    let url = api.resource_url();
    match (api.namespace(), key.namespace(), url.rsplit_once('/')) {
        (None, Some(namespace), Some((base, plural))) => {
            format!("{base}/namespaces/{namespace}/{plural}")
        }
        _ => url.to_owned(),
    }
}

async fn send_patch<K: DeserializeOwned>(
    client: &Client,
    url: &str,
    key: &ObjectKey,
    patch: &FinalizerPatch,
) -> Result<K, kube::Error> {
    let body = serde_json::to_vec(patch).map_err(kube::Error::SerdeError)?;
    let request = http::Request::patch(format!("{url}/{}?", key.name()))
        .header(CONTENT_TYPE, "application/json-patch+json")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    send(client, request).await
}

async fn send_get<K: DeserializeOwned>(
    client: &Client,
    url: String,
    key: &ObjectKey,
) -> Result<K, kube::Error> {
    let request = (Request::new(url).get(key.name(), &GetParams::default()))
        .map_err(kube::Error::BuildRequest)?;
    send(client, request).await
}
