//! Hooks that answer for the containers of pods: logs, commands and forwarded ports.
//!
//! No kubelet runs here, so a test says what its containers do.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::DuplexStream;

/// A request for the log of a container, as [`ApiServerBuilder::logs`] sees it.
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
    /// Whether the log is that of the container before its last restart.
    pub previous: bool,
}

/// A command in a container, or an attachment to its main process, as [`ApiServerBuilder::exec`]
/// sees it.
///
/// A stream that the client did not ask for is closed, or its output is dropped.
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
    /// Whether the client asked for a terminal.
    pub tty: bool,
    /// What the client sends. It ends when the client closes it.
    pub stdin: DuplexStream,
    /// What the client reads as standard output.
    pub stdout: DuplexStream,
    /// What the client reads as standard error.
    pub stderr: DuplexStream,
}

/// A connection to a port of a pod, as [`ApiServerBuilder::port_forward`] sees it.
///
/// [`ApiServerBuilder::port_forward`]: crate::ApiServerBuilder::port_forward
#[derive(Debug)]
#[non_exhaustive]
pub struct ForwardedPort {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The port of the pod.
    pub port: u16,
    /// The connection. The client sees its end when it is dropped.
    pub stream: DuplexStream,
}

type Job<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Hook<A, T> = Arc<dyn Fn(A) -> T + Send + Sync>;

/// The hooks of a server; those that are missing were not registered.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) logs: Option<Hook<LogRequest, String>>,
    pub(crate) exec: Option<Hook<ContainerSession, Job<u8>>>,
    pub(crate) port_forward: Option<Hook<ForwardedPort, Job<()>>>,
}

// === impl Hooks ===

impl Hooks {
    /// A hook whose future is boxed.
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
