//! What a response to a request for the lease may bring into the log: no content, and no long text.

use std::{
    fmt::{self, Write as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use windlass_apiserver::ApiServer;

use crate::{
    replica::{Replica, RunCount, secs, until},
    server::{builder, leases, set},
};

const CANARY: &str = "hunter2-canary";

/// Everything that is logged, at every level, including spans.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

/// The response that replaces those to the requests of one method.
struct Replaced {
    method: Method,
    status: u16,
    body: String,
    /// Whether the responses are replaced from the start, or only after this replica leads.
    from_the_start: bool,
}

#[tokio::test(start_paused = true)]
async fn responses_to_lease_requests_are_logged_without_their_bodies() {
    let page = format!("<html>\n<p>{}</p>\n", CANARY.repeat(10_000));
    let mut responses: Vec<(u16, String)> = Vec::new();
    for status in [
        301, 400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504,
    ] {
        responses.extend([(status, refusal(status)), (status, page.clone())]);
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "holderIdentity": [CANARY] },
    });
    for body in [
        page,
        lease.to_string(),
        format!("\"{CANARY}"),
        String::new(),
    ] {
        responses.push((200, body));
    }
    for method in [Method::GET, Method::POST, Method::PUT] {
        for (status, body) in &responses {
            for from_the_start in [true, false] {
                check(Replaced {
                    method: method.clone(),
                    status: *status,
                    body: body.clone(),
                    from_the_start,
                })
                .await;
            }
        }
    }
}

/// A response without an end would fill the memory, and its text would be logged.
#[tokio::test(start_paused = true)]
async fn a_response_longer_than_any_lease_is_an_error_of_bounded_length() {
    let body = format!("{{\"metadata\":{{\"name\":\"{}", CANARY.repeat(400_000));
    let log = check(Replaced {
        method: Method::GET,
        status: 200,
        body,
        from_the_start: true,
    })
    .await;
    assert!(log.contains("length limit exceeded"), "{log}");
}

/// Another client writes the name of the holder.
#[tokio::test(start_paused = true)]
async fn a_holder_is_logged_and_shown_as_one_short_line() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (server, count) = (ApiServer::new(), RunCount::default());
    let election = builder(server.client(), "us").build();
    let replica = Replica::start(election.expect("valid settings"), count.lingers(secs(0)));
    replica.leads().await;
    let holder = format!("them\nWARN forged line {}{CANARY}", "x".repeat(2000));
    set(&leases(&server), &holder).await;
    let lost = replica.end().await.expect_err("the lease was taken");
    let election = builder(server.client(), "next").build();
    let next = Replica::start(election.expect("valid settings"), count.lingers(secs(0)));
    until("it has read the lease", || next.election.holder().is_some()).await;
    let shown = next.election.holder().expect("a holder");
    next.stop().await.expect("no error");
    let mut texts = vec![shown, log.text()];
    let mut error: Option<&dyn std::error::Error> = Some(&lost);
    while let Some(next) = error {
        texts.push(next.to_string());
        error = next.source();
    }
    for text in texts {
        assert!(!text.contains(CANARY), "{text}");
        assert!(!text.contains("\nWARN"), "{text}");
    }
}

/// Runs a replica for a minute, in which the responses to some requests are replaced, and stops it.
/// Returns the log, which must contain no canary.
async fn check(replaced: Replaced) -> String {
    let Replaced {
        method,
        status,
        body,
        from_the_start,
    } = replaced;
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (server, count) = (ApiServer::new(), RunCount::default());
    let is_replaced = Arc::new(AtomicBool::new(from_the_start));
    let (service, switch) = (server.service(), Arc::clone(&is_replaced));
    let what = format!("{method} {status} {from_the_start}");
    let service = tower::service_fn(move |request: Request<Body>| {
        let other = (switch.load(Ordering::SeqCst) && *request.method() == method)
            .then(|| Full::<Bytes>::from(body.clone()));
        let answer = service.clone().oneshot(request);
        async move {
            let Some(body) = other else {
                return answer.await.map(|answer| answer.map(Either::Right));
            };
            let mut response = Response::new(Either::Left(body));
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            Ok(response)
        }
    });
    let election = builder(Client::new(service, "default"), "us").build();
    let replica = Replica::start(election.expect("valid settings"), count.lingers(secs(0)));
    if !from_the_start {
        replica.leads().await;
        is_replaced.store(true, Ordering::SeqCst);
    }
    sleep(secs(60)).await;
    // With other responses it may have lost the lease, which is an error.
    let ended = timeout(secs(60), replica.stop()).await.expect("it ends");
    let logged = format!("{}\n{ended:?}", log.text());
    assert!(!logged.contains(CANARY), "{what}: {logged}");
    let longest = logged.lines().map(str::len).max();
    assert!(longest < Some(2500), "{what}: {longest:?}: {logged}");
    logged
}

/// A `Status` as the API server sends it. With 422 and 5xx the message may quote an object; with
/// other codes only the details do, or the message behind its first part.
fn refusal(code: u16) -> String {
    let message = if code == 422 || code >= 500 {
        format!("spec.holderIdentity: Invalid value: \"{CANARY}\"")
    } else {
        format!(
            "leases \"web\" is forbidden: {}{CANARY}",
            "why not? ".repeat(50)
        )
    };
    let cause = json!({ "field": "spec", "reason": "FieldValueInvalid", "message": CANARY });
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Other", "message": message,
        "details": { "name": CANARY, "causes": [cause] },
    })
    .to_string()
}

// === impl Log ===

impl Log {
    fn text(&self) -> String {
        self.0.lock().expect("no panic").clone()
    }

    fn line(&self, what: &str, fields: impl FnOnce(&mut dyn Visit)) {
        struct Line<'a>(&'a mut String);

        impl Visit for Line<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                _ = write!(self.0, " {field}={value:?}");
            }
        }

        let mut log = self.0.lock().expect("no panic");
        log.push_str(what);
        fields(&mut Line(&mut log));
        log.push('\n');
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.line(span.metadata().name(), |line| span.record(line));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        self.line("record", |line| values.record(line));
    }

    fn event(&self, event: &Event<'_>) {
        let level = event.metadata().level().to_string();
        self.line(&level, |line| event.record(line));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
