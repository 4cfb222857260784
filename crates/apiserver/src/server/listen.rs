//! A port of the server, for clients that are not in this process.

use std::io;
use std::net::SocketAddr;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ApiServer;
use crate::service::ApiService;

/// A port that is open; it is closed when this is dropped.
#[derive(Debug)]
#[must_use = "dropping this closes the port"]
pub struct Listening {
    addr: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The server knows no authentication, so it listens only on loopback addresses.
    #[error(
        "{addr} is not a loopback address, and the embedded API server does not authenticate clients; \
         listen on 127.0.0.1 or [::1]"
    )]
    NotLoopback {
        /// What was asked for.
        addr: SocketAddr,
    },
    /// The system doesn't give us the port.
    #[error("cannot listen on {addr}")]
    Bind {
        /// What was asked for.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

// === impl ListenError ===

impl ListenError {
    /// One stable word for it, for a metric's label.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotLoopback { .. } => "not_loopback",
            Self::Bind { .. } => "bind",
        }
    }
}

// === impl Listening ===

impl Listening {
    pub(super) async fn open(server: &ApiServer, addr: SocketAddr) -> Result<Self, ListenError> {
        if !addr.ip().is_loopback() {
            return Err(ListenError::NotLoopback { addr });
        }
        let bind = |source| ListenError::Bind { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(bind)?;
        let addr = listener.local_addr().map_err(bind)?;
        let listening = Self {
            addr,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let accept = accept(
            listener,
            server.service(),
            listening.stop.clone(),
            listening.tasks.clone(),
        );
        listening.tasks.spawn(accept);
        Ok(listening)
    }

    /// The address, with the port that the system chose.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where clients find the server, such as `http://127.0.0.1:40123`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// A kubeconfig for this port, as YAML.
    ///
    /// # Example
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_apiserver::ListenError> {
    /// # use windlass_apiserver::ApiServer;
    /// let listening = ApiServer::new().listen(([127, 0, 0, 1], 0)).await?;
    /// let kubeconfig = listening.kubeconfig();
    /// assert!(kubeconfig.contains(&listening.url()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: windlass\n\
             \x20 cluster:\n\
             \x20   server: {}\n\
             users:\n\
             - name: windlass\n\
             \x20 user: {{}}\n\
             contexts:\n\
             - name: windlass\n\
             \x20 context:\n\
             \x20   cluster: windlass\n\
             \x20   user: windlass\n\
             \x20   namespace: default\n\
             current-context: windlass\n",
            self.url()
        )
    }

    /// Closes the port, ends its watches and waits until every connection is done.
    ///
    /// The server continues to run: its other ports and services accept requests.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How many bytes of answers wait for a client that does not read, for each connection of
/// HTTP/1.1 and each stream of HTTP/2. It also bounds the head of a request. By default it
/// would be 400 KiB, and thousands of unread watches would take gigabytes.
const CONNECTION_BUFFER: usize = 32 * 1024;

async fn accept(
    listener: TcpListener,
    service: ApiService,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    /// After a failure to accept, which is mostly a lack of file handles.
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let service = service.clone().until(stop.clone(), tasks.clone());
                tasks.spawn(serve(stream, service, stop.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, service: ApiService, stop: CancellationToken) {
    // Events are small and should not wait for company.
    _ = stream.set_nodelay(true);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(CONNECTION_BUFFER);
    builder.http2().max_send_buf_size(CONNECTION_BUFFER);
    let service = TowerToHyperService::new(service);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection broke");
    }
}
