//! Requests in, pages out.

use std::{
    convert::Infallible, io, net::TcpListener as Listener, panic::AssertUnwindSafe, sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::Registry;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    AdminError, Listen, Pages, Subject,
    check::ask,
    page::{self, Answer, Page},
    readiness,
};
use crate::operator::message;

/// More than all who have business here, and few enough to be held whoever comes.
const MAX_CONNECTIONS: usize = 256;

/// A connection on which nobody asks for so long is closed. Prometheus asks each minute at
/// least, if nobody says otherwise.
const SILENCE: Duration = Duration::from_secs(90);

/// The largest body of a request to a route.
const MAX_BODY: usize = 1024 * 1024;

/// An admin server that runs; dropping it ends it.
pub(crate) struct Serving {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

/// What all requests share.
struct Shared {
    pages: Pages,
    subject: Subject,
    registry: Registry,
}

// === impl Serving ===

impl Serving {
    pub(super) fn begin(
        listen: Listen,
        pages: Pages,
        subject: Subject,
        registry: Registry,
    ) -> Result<Self, AdminError> {
        let listener = open(listen)?;
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "the admin server listens");
        }
        let shared = Arc::new(Shared {
            pages,
            subject,
            registry,
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, shared, stop.clone()));
        Ok(Self {
            stop,
            task: AbortOnDropHandle::new(task),
        })
    }

    /// Answers what has been asked, and no more.
    pub(crate) async fn end(self) {
        /// The controllers have ended; nobody should wait for a slow reader.
        const PATIENCE: Duration = Duration::from_secs(1);

        self.stop.cancel();
        _ = timeout(PATIENCE, self.task).await;
    }
}

fn open(listen: Listen) -> Result<TcpListener, AdminError> {
    match listen {
        Listen::Address(address) => Listener::bind(address)
            .and_then(in_the_runtime)
            .map_err(|source| AdminError::Bind { address, source }),
        Listen::Listener(listener) => {
            in_the_runtime(listener).map_err(|source| AdminError::Listener { source })
        }
    }
}

fn in_the_runtime(listener: Listener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    /// After a failure to accept, which is mostly a lack of file handles.
    const PAUSE: Duration = Duration::from_millis(50);

    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&shared), stop.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, stop: CancellationToken) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
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

// === impl Shared ===

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let answer = AssertUnwindSafe(self.page(&path, request)).catch_unwind();
        answer.await.unwrap_or_else(|panic| {
            let message = message(&*panic);
            tracing::error!(path, message, "a page panicked");
            let text = format!("{path} panicked: {message}\n");
            page::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }

    async fn page(&self, path: &str, request: Request<Incoming>) -> Answer {
        let Pages {
            live,
            ready,
            limit,
            routes,
        } = &self.pages;
        if let Some(page) = Page::at(path) {
            if !page::reads(request.method()) {
                return page::method_not_allowed();
            }
            return match page {
                Page::Live => page::health(&ask(live, *limit).await),
                Page::Ready => {
                    let asked = ask(ready, *limit).await;
                    // After the checks, which take time: it is as it is when it is sent.
                    let mut lines = readiness::lines(&self.subject);
                    lines.extend(asked);
                    page::health(&lines)
                }
                Page::Metrics => page::metrics(&self.registry),
            };
        }
        let Some(route) = routes.get(path) else {
            return page::not_found(routes.keys().map(String::as_str));
        };
        let (parts, body) = request.into_parts();
        match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => {
                let request = Request::from_parts(parts, body.to_bytes());
                route.answer(request).await.map(Full::new)
            }
            Err(error) if error.is::<LengthLimitError>() => page::text(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a body has at most {MAX_BODY} bytes\n"),
            ),
            Err(_) => page::text(
                StatusCode::BAD_REQUEST,
                "the body of the request broke off\n".to_owned(),
            ),
        }
    }
}
