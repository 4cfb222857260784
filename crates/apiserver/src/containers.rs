//! Functions that stand in for the kubelet: container logs, commands and forwarded ports.
//!
//! The builder registers them. The service calls them for the subresources of pods.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::DuplexStream;

/// A request for the log of a container, which the function of [`ApiServerBuilder::logs`] receives.
///
/// [`ApiServerBuilder::logs`]: crate::ApiServerBuilder::logs
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogRequest {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
    /// Whether the client requests the log of the container before its last restart.
    pub previous: bool,
}

/// An `exec` or `attach` session of a container, which the function of [`ApiServerBuilder::exec`]
/// receives.
///
/// If the client did not request a stream, `stdin` is at its end, and the server discards the
/// output.
///
/// [`ApiServerBuilder::exec`]: crate::ApiServerBuilder::exec
#[derive(Debug)]
#[non_exhaustive]
pub struct ContainerSession {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
    /// The command and its arguments; empty for `attach`.
    pub command: Vec<String>,
    /// Whether the client requested a terminal.
    pub tty: bool,
    /// The standard input from the client. It ends when the client closes it.
    pub stdin: DuplexStream,
    /// The standard output to the client.
    pub stdout: DuplexStream,
    /// The standard error to the client.
    pub stderr: DuplexStream,
}

/// A connection to a port of a pod, which the function of [`ApiServerBuilder::port_forward`]
/// receives.
///
/// [`ApiServerBuilder::port_forward`]: crate::ApiServerBuilder::port_forward
#[derive(Debug)]
#[non_exhaustive]
pub struct ForwardedPort {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The port number of the pod.
    pub port: u16,
    /// The connection. Dropping it closes the connection to the client.
    pub stream: DuplexStream,
}

type Job<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Hook<A, T> = Arc<dyn Fn(A) -> T + Send + Sync>;

/// The registered container functions of a server; `None` means that none is registered.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) logs: Option<Hook<LogRequest, String>>,
    pub(crate) exec: Option<Hook<ContainerSession, Job<u8>>>,
    pub(crate) port_forward: Option<Hook<ForwardedPort, Job<()>>>,
}

// === impl Hooks ===

impl Hooks {
    /// Wraps an async function as a hook by boxing its future.
    pub(crate) fn boxed<A, F>(
        hook: impl Fn(A) -> F + Send + Sync + 'static,
    ) -> Hook<A, Job<F::Output>>
    where
        F: Future + Send + 'static,
    {
        Arc::new(move |argument| Box::pin(hook(argument)))
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("logs", &self.logs.is_some())
            .field("exec", &self.exec.is_some())
            .field("port_forward", &self.port_forward.is_some())
            .finish()
    }
}
