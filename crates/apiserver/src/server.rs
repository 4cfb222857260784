//! The server: the handle of users, its settings and its ports.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;

use crate::managed;
use crate::service::ApiService;
use crate::shared::Shared;

mod builder;
mod listen;
#[cfg(feature = "tls")]
mod tls;

pub use builder::ApiServerBuilder;
pub use listen::{ListenError, Listening};

/// A Kubernetes API server in the process, in memory.
///
/// It is for first steps and tests, not for production: it requires no credentials and stores
/// nothing on disk. `docs/apiserver.md` states for each behaviour of kube-apiserver whether this
/// server has it.
///
/// # Contract
///
/// - **Like Kubernetes.** The requests, responses, errors and watches are those of kube-apiserver,
///   with the exceptions that `docs/apiserver.md` states.
/// - **One version counter.** Each write of any resource gets the next `resourceVersion`.
/// - **Time of the runtime.** Timestamps and timeouts follow tokio's time, which tests can pause.
/// - A clone is another handle of the same server. The server has no task of its own, and exists as
///   long as one of its handles, services or ports.
///
/// # Example
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass_apiserver::ApiServer;
/// use http_body_util::{BodyExt, Empty};
/// use tower::ServiceExt;
///
/// let server = ApiServer::new();
/// let request = http::Request::get("/api/v1/namespaces/default").body(Empty::<&[u8]>::new())?;
/// let response = server.service().oneshot(request).await?;
/// assert_eq!(response.status(), 200);
///
/// let body = response.into_body().collect().await?.to_bytes();
/// let namespace: serde_json::Value = serde_json::from_slice(&body)?;
/// assert_eq!(namespace["status"]["phase"], "Active");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

// === impl ApiServer ===

impl ApiServer {
    /// Starts a server with the default settings, the built-in kinds and the initial namespaces of a
    /// cluster.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().start()
    }

    /// Returns a builder for a server with other settings.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::new()
    }

    /// Returns the server as a tower service, which kube's `Client::new` accepts.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.shared.clone())
    }

    /// Returns a client of this server, without a socket, whose default namespace is `default`.
    ///
    /// Requires the feature `kube`, and a version feature of `k8s-openapi` in the program.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, like every kube client.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kube::Result<()> {
    /// let client = windlass_apiserver::ApiServer::new().client();
    /// assert_eq!(client.apiserver_version().await?.git_version, "v1.36.3");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "kube")]
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// Opens a loopback port for kubectl and clients in other languages, with HTTP/1.1 and HTTP/2.
    /// For port 0, the operating system chooses a free port.
    ///
    /// # Errors
    ///
    /// [`ListenError`] if `addr` is not a loopback address or the port cannot be opened.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_apiserver::ListenError> {
    /// use windlass_apiserver::ApiServer;
    ///
    /// let listening = ApiServer::new().listen(([127, 0, 0, 1], 0)).await?;
    /// assert!(listening.url().starts_with("http://127.0.0.1:"));
    /// listening.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen(&self, addr: impl Into<SocketAddr>) -> Result<Listening, ListenError> {
        Listening::open(self, addr.into()).await
    }

    /// Returns the `resourceVersion` of the last write.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.shared.read(|cluster| cluster.store.revision())
    }

    /// Returns all objects, each with the name of its resource, such as `pods` or `widgets.ex.io`.
    ///
    /// They are ordered by resource and then as in a list. The objects have no `apiVersion` and no
    /// `kind`.
    #[must_use]
    pub fn objects(&self) -> Vec<(String, Value)> {
        self.shared.read(|cluster| {
            let all = cluster.store.all();
            all.map(|(table, stored)| {
                let mut object = stored.value().clone();
                managed::expand(&mut object);
                (table.to_string(), object)
            })
            .collect()
        })
    }

    /// Drops the history before `resource_version`.
    ///
    /// A later list or watch of an older version gets `410 Expired`. Running watches continue.
    pub fn compact(&self, resource_version: u64) {
        self.shared
            .write(|cluster, _| cluster.store.compact(resource_version));
    }

    /// Authorizes requests by roles from now on, as [`ApiServerBuilder::rbac`] does from the start. Creates
    /// the initial roles and bindings of a cluster, except those that exist.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use http_body_util::Empty;
    /// use tower::ServiceExt;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::new();
    /// for expected in [200, 403] {
    ///     let request = http::Request::get("/api/v1/namespaces/default/secrets")
    ///         .header("impersonate-user", "system:serviceaccount:default:operator")
    ///         .body(Empty::<&[u8]>::new())?;
    ///     let response = server.service().oneshot(request).await?;
    ///     assert_eq!(response.status(), expected);
    ///     server.enable_rbac();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn enable_rbac(&self) {
        self.shared.enable_roles();
    }

    /// Ends all running watches, like a broken connection. New watches can start immediately.
    pub fn close_watches(&self) {
        std::mem::take(&mut *self.shared.cut.lock()).cancel();
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}
