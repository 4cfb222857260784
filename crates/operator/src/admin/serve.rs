//! Accepts connections, and answers their requests.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    io,
    net::{IpAddr, SocketAddr, TcpListener as Listener},
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::future::join_all;
use http::Request;
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::{JoinSet, yield_now},
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tracing::instrument::WithSubscriber as _;
use windlass_informer::log;

use super::{
    AdminError, AdminLimits, Listen,
    connections::ConnectionTable,
    head_timeout::{AwaitsHead, HeadTimeout},
    listen,
    page::Answer,
    tls::Tls,
};
use crate::{isolated::Isolated, log_limit::LogLimit};

/// The longest timeout of an I/O operation: longer than a process runs, and without an overflow of the
/// clock.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The largest head of a request, in bytes. It also limits the read buffer of each connection.
const MAX_HEAD: usize = 16 * 1024;

/// A running server. Dropping it stops the server.
pub(crate) struct Serving {
    stop: CancellationToken,
    threads: Vec<Isolated<()>>,
    addresses: Vec<SocketAddr>,
    ended: CancellationToken,
}

/// A port, and what answers the requests of its connections.
pub(crate) struct Port<R> {
    pub(crate) listen: Listen,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) responder: R,
}

/// A bound port.
struct BoundPort<R> {
    listener: Listener,
    tls: Option<Arc<Tls>>,
    responder: Arc<R>,
}

/// Answers the requests of a port.
pub(crate) trait Respond: Send + Sync + 'static {
    /// The name of the server in logs and of its threads.
    const SERVER: &'static str;

    /// The shortest time between two responses on one connection.
    const PACE: Duration;

    fn limits(&self) -> AdminLimits;

    /// The timeout for reading the head of a request, from the end of the previous response. From its
    /// first byte, it is the read timeout.
    fn idle_timeout(&self) -> Duration;

    /// The time for a request in progress when its connection is to be closed.
    fn drain_limit(&self) -> Duration;

    /// Answers a request of the client with this address.
    fn answer(
        &self,
        client: IpAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Answer> + Send;
}

// === impl Serving ===

impl Serving {
    /// Serves nothing, in a simulation: its replicas are in one process, and have no sockets and files.
    pub(crate) fn nothing() -> Self {
        Self {
            stop: CancellationToken::new(),
            threads: Vec::new(),
            addresses: Vec::new(),
            ended: CancellationToken::new(),
        }
    }

    /// Opens the ports.
    pub(crate) fn begin<R: Respond>(ports: Vec<Port<R>>) -> Result<Self, AdminError> {
        let (mut bound, mut addresses) = (Vec::new(), Vec::new());
        for port in ports {
            let Port {
                listen,
                tls,
                responder,
            } = port;
            let listener = open(listen)?;
            if let Ok(address) = listener.local_addr() {
                let tls = tls.is_some();
                log::info!(server = R::SERVER, %address, tls, "server listening");
                addresses.push(address);
            }
            bound.push(BoundPort {
                listener,
                tls,
                responder: Arc::new(responder),
            });
        }
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        // TLS handshakes take processor time, and a client can begin many. So they delay no probe on
        // a port without TLS.
        let (tls, plain): (Vec<_>, Vec<_>) = bound.into_iter().partition(|port| port.tls.is_some());
        let mut threads = Vec::new();
        for (suffix, ports) in [("", plain), ("-tls", tls)] {
            if ports.is_empty() {
                continue;
            }
            let (stop, ended) = (stop.clone(), ended.clone());
            let run = async move {
                let ports = (ports.into_iter()).map(|port| {
                    let ended = ended.clone().drop_guard();
                    let accept = accept(port, &stop);
                    async move {
                        accept.await;
                        drop(ended);
                    }
                });
                join_all(ports).await;
            };
            let thread = Isolated::thread(&format!("windlass-{}{suffix}", R::SERVER), run);
            threads.push(thread.map_err(|source| AdminError::Thread { source })?);
        }
        Ok(Self {
            stop,
            threads,
            addresses,
            ended,
        })
    }

    /// The addresses of the ports.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Cancelled when a port accepts no more connections.
    pub(crate) const fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Completes the requests in progress within `limit`, and stops the server.
    pub(crate) async fn end(self, limit: Duration) {
        self.stop.cancel();
        _ = timeout(limit, join_all(self.threads)).await;
    }
}

fn open(listen: Listen) -> Result<Listener, AdminError> {
    let non_blocking = |listener: Listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    match listen {
        Listen::Address(address) => listen::bind(address)
            .and_then(non_blocking)
            .map_err(|source| AdminError::Bind { address, source }),
        Listen::Listener(listener) => {
            non_blocking(listener).map_err(|source: io::Error| AdminError::Listener { source })
        }
    }
}

async fn accept<R: Respond>(port: BoundPort<R>, stop: &CancellationToken) {
    /// The first pause after a failure to accept, which is most often a lack of file descriptors.
    /// Each further failure in a row doubles it.
    const PAUSE: Duration = Duration::from_millis(50);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);

    let BoundPort {
        listener,
        tls,
        responder,
    } = port;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            log::error!(server = R::SERVER, %error, "server stopped: it cannot use its listener");
            return;
        }
    };
    let AdminLimits {
        connections: total,
        connections_per_client: per_client,
        ..
    } = responder.limits();
    let (total, per_client) = (descriptors(total), descriptors(per_client));
    let mut table = ConnectionTable::new(total, per_client);
    let mut connections = JoinSet::new();
    let mut handles = HashMap::new();
    let (mut pause, warnings) = (PAUSE, LogLimit::default());
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next_with_id() => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                table.close(id);
                handles.remove(&id);
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    pause = PAUSE;
                    let (responder, stop) = (Arc::clone(&responder), stop.clone());
                    let connection = connect(stream, tls.clone(), client.ip(), responder, stop);
                    let handle = connections.spawn(connection.with_current_subscriber());
                    let replaced = table.open(client.ip(), handle.id());
                    handles.insert(handle.id(), handle);
                    if let Some(replaced) = replaced.and_then(|id| handles.remove(&id)) {
                        log::debug!(%client, "too many connections, closing the oldest");
                        replaced.abort();
                    }
                    // Let the connection answer before newer connections can replace it.
                    yield_now().await;
                }
                Err(error) => {
                    if warnings.is_due() {
                        log::warn!(server = R::SERVER, %error, "server cannot accept a connection");
                    }
                    // Closes connections that have ended meanwhile.
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = sleep(pause) => {}
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// `limit`, but at most a quarter of the file descriptors that this process can open: the others are
/// for requests to the API server, among them those that renew the lease.
fn descriptors(limit: NonZeroUsize) -> NonZeroUsize {
    #[cfg(unix)]
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        let quarter = usize::try_from(most / 4).unwrap_or(usize::MAX);
        return NonZeroUsize::new(quarter).map_or(NonZeroUsize::MIN, |most| most.min(limit));
    }
    limit
}

/// Serves a connection, behind TLS if the port has it.
async fn connect<R: Respond>(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    client: IpAddr,
    responder: Arc<R>,
    stop: CancellationToken,
) {
    let AdminLimits {
        read_timeout,
        write_timeout,
        ..
    } = responder.limits();
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(write_timeout.min(LONGEST)));
    let stream = Box::pin(stream);
    let Some(tls) = tls else {
        return serve(stream, client, responder, stop).await;
    };
    let handshake = stop.run_until_cancelled(timeout(read_timeout, tls.accept(stream)));
    match handshake.await {
        Some(Ok(Ok(stream))) => serve(stream, client, responder, stop).await,
        Some(Ok(Err(error))) => {
            // Not of a client that only opens a connection, such as the probe of a port.
            if error.kind() == io::ErrorKind::InvalidData && tls.failures().is_due() {
                log::warn!(server = R::SERVER, %client, %error, "a TLS handshake failed");
            } else {
                log::debug!(server = R::SERVER, %client, %error, "a TLS handshake failed");
            }
        }
        Some(Err(_)) => log::debug!("a TLS handshake took too long"),
        None => {}
    }
}

async fn serve<R: Respond>(
    stream: Stream,
    client: IpAddr,
    responder: Arc<R>,
    stop: CancellationToken,
) {
    let AdminLimits {
        read_timeout,
        connection_timeout,
        ..
    } = responder.limits();
    let drain_limit = responder.drain_limit();
    let (has_request, awaits_head) = (AtomicBool::new(false), AwaitsHead::new());
    let stream = HeadTimeout::new(stream, read_timeout, awaits_head.clone());
    let service = service_fn(|request| {
        let (responder, again) = (&responder, has_request.swap(true, Ordering::Relaxed));
        let awaits_head = awaits_head.clone();
        awaits_head.set(false);
        async move {
            if again && !R::PACE.is_zero() {
                sleep(R::PACE).await;
            }
            let answer = responder.answer(client, request).await;
            awaits_head.set(true);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(responder.idle_timeout().min(LONGEST))
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => finish(connection, drain_limit).await,
        () = sleep(connection_timeout) => finish(connection, drain_limit).await,
    };
    if let Err(error) = ended {
        log::debug!(server = R::SERVER, %error, "a connection of the server failed");
    }
}

/// Closes a connection after the request in progress is answered, or after `limit`.
async fn finish<S>(
    mut connection: Pin<&mut http1::Connection<TokioIo<HeadTimeout<Stream>>, S>>,
    limit: Duration,
) -> hyper::Result<()>
where
    S: hyper::service::HttpService<Incoming, ResBody = Full<Bytes>, Error = Infallible>,
{
    connection.as_mut().graceful_shutdown();
    timeout(limit, connection).await.unwrap_or(Ok(()))
}

/// A connection, with or without TLS.
pub(super) type Stream = Pin<Box<dyn ReadWrite>>;

/// Bytes in both directions.
pub(super) trait ReadWrite: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> ReadWrite for S {}
