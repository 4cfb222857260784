//! The responses of the containers of pods: logs, commands and ports.

use std::sync::Arc;

use super::ApiServerBuilder;
use crate::containers::{ContainerSession, ForwardedPort, Hooks, LogRequest};

impl ApiServerBuilder {
    /// Sets the function that returns the log of a container.
    ///
    /// The server applies `tailLines` and `limitBytes`. With `follow`, the response ends after the
    /// text. The pod needs no node. Without this function, the log of a pod without a node is empty,
    /// as in a cluster, and a request for the log of a pod with a node gets 500.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use http_body_util::{BodyExt, Full};
    /// use tower::ServiceExt;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder()
    ///     .logs(|request| format!("{} started\n", request.container))
    ///     .start();
    /// # let pods = "/api/v1/namespaces/default/pods";
    /// # let pod = r#"{"metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"i"}]}}"#;
    /// # let request = http::Request::post(pods).header("content-type", "application/json");
    /// # server.service().oneshot(request.body(Full::new(pod.as_bytes()))?).await?;
    /// let log = http::Request::get("/api/v1/namespaces/default/pods/web/log");
    /// let response = server.service().oneshot(log.body(Full::new(&b""[..]))?).await?;
    /// assert_eq!(response.into_body().collect().await?.to_bytes(), "main started\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn logs(mut self, log: impl Fn(LogRequest) -> String + Send + Sync + 'static) -> Self {
        self.hooks.logs = Some(Arc::new(log));
        self
    }

    /// Sets the function that is called when a client executes a command in a container or attaches
    /// to one. It returns the exit code.
    ///
    /// A client must connect to a [port](crate::ApiServer::listen), over a WebSocket with the protocol
    /// `v5.channel.k8s.io` or `v4.channel.k8s.io`, as kube and kubectl do. The
    /// [service](crate::ApiServer::service) rejects such requests. The future is dropped when the client
    /// disconnects. The size of a terminal is ignored. The pod needs no node.
    ///
    /// # Example
    ///
    /// ```
    /// use tokio::io::AsyncWriteExt;
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder()
    ///     .exec(|mut session| async move {
    ///         let text = session.command.join(" ");
    ///         match session.stdout.write_all(text.as_bytes()).await {
    ///             Ok(()) => 0,
    ///             Err(_) => 1,
    ///         }
    ///     })
    ///     .start();
    /// # drop(server);
    /// ```
    pub fn exec<F>(mut self, run: impl Fn(ContainerSession) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u8> + Send + 'static,
    {
        self.hooks.exec = Some(Hooks::boxed(run));
        self
    }

    /// Sets the function that is called for each port of a pod that a client forwards.
    ///
    /// A client must connect to a [port](crate::ApiServer::listen), over a WebSocket with the protocol
    /// `v4.channel.k8s.io`, as kube does. `kubectl port-forward` uses SPDY and gets 400. The future
    /// is dropped when the client disconnects. The pod needs no node.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder()
    ///     .port_forward(|port| async move {
    ///         // Sends back what it receives.
    ///         let (mut reader, mut writer) = tokio::io::split(port.stream);
    ///         _ = tokio::io::copy(&mut reader, &mut writer).await;
    ///     })
    ///     .start();
    /// # drop(server);
    /// ```
    pub fn port_forward<F>(
        mut self,
        serve: impl Fn(ForwardedPort) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hooks.port_forward = Some(Hooks::boxed(serve));
        self
    }
}
