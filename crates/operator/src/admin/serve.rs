//! Accepts connections, and answers requests with pages.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::TcpListener as Listener,
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
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    task::{JoinSet, yield_now},
    time::{Instant, sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tracing::instrument::WithSubscriber as _;
use windlass_informer::log;

use super::{
    AdminError, AdminLimits, HealthDetails, Listen, Pages, Subject,
    connections::ConnectionTable,
    diagnostics::DiagnosticsPage,
    readiness::Readiness,
    responder::{ClientAccess, Responder, Served},
    scrape::MetricsPage,
    tls::Tls,
};
use crate::isolated::Isolated;

/// The largest head of a request, in bytes. It also limits the read buffer of each connection.
const MAX_HEAD: usize = 16 * 1024;

/// The shortest time between two responses on one connection. Probes and scrapes never wait for it;
/// a client that pipelines requests does.
const PACE: Duration = Duration::from_millis(250);

/// A running admin server. Dropping it stops the server.
pub(crate) struct Serving {
    stop: CancellationToken,
    threads: Vec<Isolated<()>>,
}

/// A port, and the pages that it serves.
pub(super) struct Port {
    pub(super) listen: Listen,
    pub(super) served: Served,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) details: HealthDetails,
}

/// A bound port.
struct BoundPort {
    listener: Listener,
    served: Served,
    tls: Option<Arc<Tls>>,
    details: HealthDetails,
}

// === impl Serving ===

impl Serving {
    pub(super) fn begin(
        ports: Vec<Port>,
        pages: Pages,
        subject: Subject,
        metrics: MetricsPage,
        limits: AdminLimits,
    ) -> Result<Self, AdminError> {
        let mut listeners = Vec::new();
        for port in ports {
            let Port {
                listen,
                served,
                tls,
                details,
            } = port;
            let listener = open(listen)?;
            if let Ok(address) = listener.local_addr() {
                let tls = tls.is_some();
                log::info!(%address, pages = ?served, tls, "admin server listening");
            }
            listeners.push(BoundPort {
                listener,
                served,
                tls,
                details,
            });
        }
        let diagnostics = (pages.has_diagnostics).then(|| DiagnosticsPage::new(&subject));
        let responder = Arc::new(Responder {
            pages,
            diagnostics,
            readiness: Readiness::new(subject),
            metrics,
            limits,
            users: Handle::current(),
        });
        let stop = CancellationToken::new();
        // TLS handshakes take processor time, and a client can begin many. So they delay no probe on
        // a port without TLS.
        let (tls, plain): (Vec<_>, Vec<_>) =
            listeners.into_iter().partition(|port| port.tls.is_some());
        let mut threads = Vec::new();
        for (name, ports) in [("windlass-admin", plain), ("windlass-admin-tls", tls)] {
            if ports.is_empty() {
                continue;
            }
            let (responder, stop) = (Arc::clone(&responder), stop.clone());
            let run = async move {
                let ports = ports
                    .into_iter()
                    .map(|port| accept(port, &responder, &stop));
                join_all(ports).await;
            };
            let thread = Isolated::thread(name, run);
            threads.push(thread.map_err(|source| AdminError::Thread { source })?);
        }
        Ok(Self { stop, threads })
    }

    /// Completes the requests in progress, and stops the server.
    pub(crate) async fn end(self) {
        /// Short, because the controllers have ended: only a client that reads slowly is left.
        const LIMIT: Duration = Duration::from_secs(1);

        self.stop.cancel();
        _ = timeout(LIMIT, join_all(self.threads)).await;
    }
}

fn open(listen: Listen) -> Result<Listener, AdminError> {
    let non_blocking = |listener: Listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    match listen {
        Listen::Address(address) => Listener::bind(address)
            .and_then(non_blocking)
            .map_err(|source| AdminError::Bind { address, source }),
        Listen::Listener(listener) => {
            non_blocking(listener).map_err(|source: io::Error| AdminError::Listener { source })
        }
    }
}

async fn accept(port: BoundPort, responder: &Arc<Responder>, stop: &CancellationToken) {
    /// The first pause after a failure to accept, which is most often a lack of file descriptors.
    /// Each further failure in a row doubles it.
    const PAUSE: Duration = Duration::from_millis(50);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);
    /// The time between two warnings.
    const WARNING: Duration = Duration::from_secs(60);

    let BoundPort {
        listener,
        served,
        tls,
        details,
    } = port;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            log::error!(%error, "admin server stopped: it cannot use its listener");
            return;
        }
    };
    let AdminLimits {
        connections: total,
        connections_per_client: per_client,
        ..
    } = responder.limits;
    let (total, per_client) = (descriptors(total), descriptors(per_client));
    let mut table = ConnectionTable::new(total, per_client);
    let mut connections = JoinSet::new();
    let mut handles = HashMap::new();
    let (mut pause, mut warned) = (PAUSE, None::<Instant>);
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
                    let access = ClientAccess {
                        address: client.ip(),
                        served,
                        has_details: details.are_for(client.ip()),
                    };
                    let (responder, stop) = (Arc::clone(responder), stop.clone());
                    let connection = connect(stream, tls.clone(), access, responder, stop);
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
                    if warned.is_none_or(|it| it.elapsed() >= WARNING) {
                        warned = Some(Instant::now());
                        log::warn!(%error, "admin server cannot accept a connection");
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
async fn connect(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    access: ClientAccess,
    responder: Arc<Responder>,
    stop: CancellationToken,
) {
    let AdminLimits {
        read_timeout,
        write_timeout,
        ..
    } = responder.limits;
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(write_timeout));
    let stream = Box::pin(stream);
    let Some(tls) = tls else {
        return serve(stream, access, responder, stop).await;
    };
    let handshake = stop.run_until_cancelled(timeout(read_timeout, tls.accept(stream)));
    match handshake.await {
        Some(Ok(Ok(stream))) => serve(stream, access, responder, stop).await,
        Some(Ok(Err(error))) => log::debug!(%error, "a TLS handshake failed"),
        Some(Err(_)) => log::debug!("a TLS handshake took too long"),
        None => {}
    }
}

async fn serve(
    stream: Stream,
    access: ClientAccess,
    responder: Arc<Responder>,
    stop: CancellationToken,
) {
    let AdminLimits {
        read_timeout,
        write_timeout,
        connection_timeout,
        ..
    } = responder.limits;
    let has_request = AtomicBool::new(false);
    let service = service_fn(|request| {
        let (responder, again) = (&responder, has_request.swap(true, Ordering::Relaxed));
        async move {
            if again {
                sleep(PACE).await;
            }
            Ok::<_, Infallible>(responder.answer(access, request).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(read_timeout)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => finish(connection, write_timeout).await,
        () = sleep(connection_timeout) => finish(connection, write_timeout).await,
    };
    if let Err(error) = ended {
        log::debug!(%error, "a connection of the admin server failed");
    }
}

/// Closes a connection after the request in progress is answered, or after `limit`.
async fn finish<S>(
    mut connection: Pin<&mut http1::Connection<TokioIo<Stream>, S>>,
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
