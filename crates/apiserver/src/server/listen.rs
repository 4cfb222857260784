//! A port of the server, for clients in other processes.

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

/// An open port of the server. Dropping it closes the port.
///
/// A drop does not wait for open connections; [`Listening::stop`] does.
#[derive(Debug)]
#[must_use = "dropping this closes the port"]
pub struct Listening {
    addr: SocketAddr,
    /// The TLS credentials for clients; `None` for plain HTTP.
    tls: Option<TlsCredentials>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The credentials in the kubeconfig of a port with TLS.
struct TlsCredentials {
    /// The certificate of the authority, in PEM.
    authority: String,
    /// A token of the administrator. The server does not require it, but kubectl prompts for a user
    /// name and a password if a kubeconfig for `https` has no credentials.
    token: String,
}

/// The error of opening a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is not a loopback address. The server requires no credentials, so it listens
    /// only on loopback addresses.
    #[error(
        "{addr} is not a loopback address, and the embedded API server does not authenticate clients; \
         listen on 127.0.0.1 or [::1]"
    )]
    NotLoopback {
        /// The requested address.
        addr: SocketAddr,
    },
    /// The operating system rejected the address, for example because the port is in use.
    #[error("cannot listen on {addr}")]
    Bind {
        /// The requested address.
        addr: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The TLS certificate of the port could not be generated.
    #[error("cannot make the certificate of the port")]
    Certificate {
        /// The error of the generation.
        source: io::Error,
    },
}

// === impl TlsCredentials ===

impl fmt::Debug for TlsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token must not appear in logs.
        f.debug_struct("TlsCredentials").finish_non_exhaustive()
    }
}

// === impl ListenError ===

impl ListenError {
    /// Returns a stable name of the variant in snake case, for metric labels.
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
        let tls = authority.map(|authority| TlsCredentials {
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

    /// Returns the address of the port, with the port number that the system chose for port 0.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL of the server, such as `http://127.0.0.1:40123`; the scheme is `https` with
    /// TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.tls {
            None => "http",
            Some(_) => "https",
        };
        format!("{scheme}://{}", self.addr)
    }

    /// Returns the certificate authority of this port in PEM, or `None` without TLS.
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.authority.as_str())
    }

    /// Returns a kubeconfig for this port, in YAML.
    ///
    /// With TLS, it contains the certificate authority and a token of the administrator. Without
    /// TLS, it contains `insecure-skip-tls-verify`, which some clients require for plain HTTP.
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
            // The JavaScript client does not connect over plain HTTP without this field.
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

    /// Closes the port, ends its watches, and waits until all its connections are closed.
    ///
    /// A connection with a request in progress is closed after 5 s. The other ports and services of
    /// the server continue to accept requests.
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

/// The maximum size of buffered response bytes, for each HTTP/1.1 connection and each HTTP/2
/// stream: 32 KiB. It also limits the head of a request. With hyper's default of 400 KiB, thousands
/// of watches whose clients do not read would take gigabytes.
const CONNECTION_BUFFER: usize = 32 * 1024;

/// The time that a closing port waits for requests in progress. Without it, a client that does not
/// read its response or does not finish its request would keep the port open forever.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The TLS acceptor of a port; `None` for plain HTTP.
#[cfg(feature = "tls")]
type Acceptor = Option<tokio_rustls::TlsAcceptor>;
#[cfg(not(feature = "tls"))]
type Acceptor = Option<NoTls>;

/// An empty type in place of the TLS acceptor.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
enum NoTls {}

#[cfg(feature = "tls")]
fn acceptor(uses_tls: bool) -> Result<(Acceptor, Option<String>), ListenError> {
    if !uses_tls {
        return Ok((None, None));
    }
    let certificate = super::tls::Certificate::generate();
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
    /// The delay after a failed accept, which is usually caused by a lack of file descriptors.
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let service = service.clone().until(stop.clone(), tasks.clone());
                tasks.spawn(serve_stream(
                    stream,
                    acceptor.clone(),
                    service,
                    stop.clone(),
                ));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Serves a connection, after the TLS handshake if the port has TLS.
async fn serve_stream(
    stream: TcpStream,
    acceptor: Acceptor,
    service: ApiService,
    stop: CancellationToken,
) {
    // Nagle's algorithm would delay watch events, which are small.
    _ = stream.set_nodelay(true);
    #[cfg(feature = "tls")]
    if let Some(acceptor) = acceptor {
        /// The timeout of a TLS handshake, so that a client that sends nothing does not hold memory.
        const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => accepted,
        };
        match accepted {
            Ok(Ok(stream)) => serve(stream, service, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
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
                tracing::debug!("closed a connection with a request in progress after the timeout");
                return;
            };
            served
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection failed");
    }
}
