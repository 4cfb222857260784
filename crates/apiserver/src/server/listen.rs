//! A port of the server, for clients that are not in this process.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ApiServer;
use crate::service::ApiService;

/// A port that is open; it is closed when this is dropped.
#[derive(Debug)]
#[must_use = "dropping this closes the port"]
pub struct Listening {
    addr: SocketAddr,
    /// What a client needs to know if the port speaks TLS.
    tls: Option<Trust>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What the kubeconfig of a port with TLS says.
struct Trust {
    /// The certificate of the authority, as PEM.
    authority: String,
    /// A token of the administrator. The server needs none, but kubectl asks its user for a name
    /// and a password where a kubeconfig for `https` has no credentials.
    token: String,
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
    /// The certificate of the port can't be made.
    #[error("cannot make the certificate of the port")]
    Certificate {
        /// Why.
        source: io::Error,
    },
}

// === impl Trust ===

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token, which a log must not have.
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

// === impl ListenError ===

impl ListenError {
    /// One stable word for it, for a metric's label.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotLoopback { .. } => "not_loopback",
            Self::Bind { .. } => "bind",
            Self::Certificate { .. } => "certificate",
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
        let (acceptor, authority) = acceptor(server.shared.uses_tls)?;
        let tls = authority.map(|authority| Trust {
            authority,
            token: server.shared.write(|cluster, _| cluster.admin_token()),
        });
        let listening = Self {
            addr,
            tls,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let accept = accept(
            listener,
            acceptor,
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

    /// Where clients find the server, such as `http://127.0.0.1:40123`, or `https` with TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.tls {
            None => "http",
            Some(_) => "https",
        };
        format!("{scheme}://{}", self.addr)
    }

    /// The certificate of the authority that signed that of this port, as PEM; nothing without TLS.
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.authority.as_str())
    }

    /// A kubeconfig for this port, as YAML. If it speaks TLS, with its certificate authority and a
    /// token of the administrator; otherwise with `insecure-skip-tls-verify`, without which some
    /// clients do not speak plain HTTP.
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
        let (authority, user) = match &self.tls {
            // The JavaScript client does not connect to a plain port without this field.
            None => {
                let insecure = "    insecure-skip-tls-verify: true\n".to_owned();
                (insecure, "{}".to_owned())
            }
            Some(tls) => {
                let authority = STANDARD.encode(&tls.authority);
                let authority = format!("    certificate-authority-data: {authority}\n");
                (authority, format!("{{token: {:?}}}", tls.token))
            }
        };
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: windlass\n\
             \x20 cluster:\n\
             \x20   server: {}\n\
             {authority}\
             users:\n\
             - name: windlass\n\
             \x20 user: {user}\n\
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

    /// Closes the port, ends its watches and waits until every connection is done. Connections on
    /// which a request is still in progress after 5 s are dropped.
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

/// How long a port that closes waits for requests in progress. A client that never reads its
/// response, or never sends the rest of its request, would otherwise keep the port open forever.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes the streams of clients those of TLS; nothing for plain HTTP.
#[cfg(feature = "tls")]
type Acceptor = Option<tokio_rustls::TlsAcceptor>;
#[cfg(not(feature = "tls"))]
type Acceptor = Option<NoTls>;

/// Has no value.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
enum NoTls {}

#[cfg(feature = "tls")]
fn acceptor(uses_tls: bool) -> Result<(Acceptor, Option<String>), ListenError> {
    if !uses_tls {
        return Ok((None, None));
    }
    let certificate = super::tls::Certificate::make();
    let certificate = certificate.map_err(|source| ListenError::Certificate { source })?;
    Ok((Some(certificate.acceptor), Some(certificate.authority)))
}

#[cfg(not(feature = "tls"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "it can fail with the feature `tls`"
)]
fn acceptor(uses_tls: bool) -> Result<(Acceptor, Option<String>), ListenError> {
    debug_assert!(!uses_tls, "the builder cannot ask for TLS");
    Ok((None, None))
}

async fn accept(
    listener: TcpListener,
    acceptor: Acceptor,
    service: ApiService,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    /// After a failure to accept, which is mostly a lack of file handles.
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let service = service.clone().until(stop.clone(), tasks.clone());
                tasks.spawn(greet(stream, acceptor.clone(), service, stop.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Serves a connection, after the handshake of TLS if the port speaks it.
async fn greet(
    stream: TcpStream,
    acceptor: Acceptor,
    service: ApiService,
    stop: CancellationToken,
) {
    // Events are small and should not wait for company.
    _ = stream.set_nodelay(true);
    #[cfg(feature = "tls")]
    if let Some(acceptor) = acceptor {
        /// The timeout of a TLS handshake, so that a silent client does not hold memory.
        const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => accepted,
        };
        match accepted {
            Ok(Ok(stream)) => serve(stream, service, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
        return;
    }
    #[cfg(not(feature = "tls"))]
    let None = acceptor;
    serve(stream, service, stop).await;
}

async fn serve<S>(stream: S, service: ApiService, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
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
            let Ok(served) = timeout(CLOSE_TIMEOUT, connection).await else {
                tracing::debug!("closed a connection whose client does not read or did not finish its request");
                return;
            };
            served
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection broke");
    }
}
