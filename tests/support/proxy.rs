//! A proxy in front of an API server: records requests, and injects the faults that a test selects.
//!
//! It reads HTTP/1.1 without TLS and forwards each request through a [`Client`], so that a test needs
//! the same code for the embedded server and for the real kube-apiserver.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A running proxy. Dropping it closes its port and its connections.
#[allow(
    dead_code,
    reason = "each test that includes this file uses some of it"
)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _accept: AbortOnDropHandle<()>,
}

/// The fault of a request.
#[derive(Clone, Copy, Debug)]
#[allow(
    dead_code,
    reason = "each test that includes this file uses some of it"
)]
pub(crate) enum Fault {
    None,
    /// Forwards the request after this delay.
    Delayed(Duration),
    /// Responds with this status, and does not forward the request.
    Refused(StatusCode),
    /// Closes the connection, and does not forward the request.
    Unsent,
    /// Forwards the request, and closes the connection instead of sending the response.
    Unanswered,
    /// Closes the connection this long after the start of the response.
    CutAfter(Duration),
}

/// A write that the proxy received.
#[derive(Clone, Debug)]
#[allow(
    dead_code,
    reason = "each test that includes this file uses some of it"
)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) received: Duration,
    pub(crate) passed_on: Option<Duration>,
    pub(crate) answered: Option<Duration>,
}

struct Shared {
    client: Client,
    clock: fn() -> Duration,
    fault: Box<dyn Fn(&Parts) -> Fault + Send + Sync>,
    writes: Mutex<Vec<Write>>,
}

// === impl Proxy ===

impl Proxy {
    /// Listens on a free loopback port, and forwards requests through `client`. `clock` gives the
    /// times of writes.
    pub(crate) async fn start(
        client: Client,
        clock: fn() -> Duration,
        fault: impl Fn(&Parts) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            client,
            clock,
            fault: Box::new(fault),
            writes: Mutex::default(),
        });
        let accept = accept(listener, Arc::clone(&shared));
        Self {
            address,
            shared,
            _accept: AbortOnDropHandle::new(tokio::spawn(accept)),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Calls `look` with all writes, in the order of their arrival.
    #[allow(
        dead_code,
        reason = "each test that includes this file uses some of it"
    )]
    pub(crate) fn writes<T>(&self, look: impl FnOnce(&mut Vec<Write>) -> T) -> T {
        let writes = self.shared.writes.lock();
        look(&mut writes.unwrap_or_else(PoisonError::into_inner))
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let cut = CancellationToken::new();
            let answer = service_fn(|request| shared.answer(request, cut.clone()));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            _ = cut.run_until_cancelled(connection).await;
        });
    }
}

// === impl Shared ===

impl Shared {
    async fn answer(
        &self,
        request: Request<Incoming>,
        cut: CancellationToken,
    ) -> Result<Response<UnsyncBoxBody<Bytes, Error>>, Error> {
        let received = (self.clock)();
        let (mut parts, body) = request.into_parts();
        for name in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING] {
            parts.headers.remove(name);
        }
        let body = body.collect().await?.to_bytes();
        let number = self.note(&parts, received);
        let fault = (self.fault)(&parts);
        match fault {
            Fault::Delayed(delay) => sleep(delay).await,
            Fault::Unsent => return Err("cut before it was passed on".into()),
            Fault::Refused(status) => {
                let mut answer = Response::new(empty());
                *answer.status_mut() = status;
                return Ok(answer);
            }
            Fault::None | Fault::Unanswered | Fault::CutAfter(_) => {}
        }
        self.update(number, |write| write.passed_on = Some((self.clock)()));
        let request = Request::from_parts(parts, Body::from(body));
        let answer = self.client.send(request).await?;
        match fault {
            Fault::Unanswered => return Err("cut instead of an answer".into()),
            Fault::CutAfter(time) => {
                tokio::spawn(async move {
                    // The connection may have ended before.
                    _ = timeout(time, cut.cancelled()).await;
                    cut.cancel();
                });
            }
            _ => {}
        }
        self.update(number, |write| write.answered = Some((self.clock)()));
        Ok(answer.map(|body| body.map_err(Error::from).boxed_unsync()))
    }

    /// Records a write, and returns its number.
    fn note(&self, parts: &Parts, received: Duration) -> Option<usize> {
        if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return None;
        }
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.push(Write {
            path: parts.uri.path().to_owned(),
            received,
            passed_on: None,
            answered: None,
        });
        Some(writes.len() - 1)
    }

    fn update(&self, number: Option<usize>, change: impl FnOnce(&mut Write)) {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(write) = number.and_then(|number| writes.get_mut(number)) {
            change(write);
        }
    }
}

fn empty() -> UnsyncBoxBody<Bytes, Error> {
    let body = Full::<Bytes>::default();
    body.map_err(|never: Infallible| match never {})
        .boxed_unsync()
}
