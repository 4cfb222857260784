//! Servers on which a watch of kube-runtime loops, grows or logs objects.

#![allow(
    clippy::needless_pass_by_value,
    reason = "the responses of a server are built from values"
)]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt::Debug,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource, client::Body};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use windlass_runtime::{
    controller::{Action, Controller, Error},
    reflector::ObjectRef,
    watcher,
};

/// The longest wait for a condition. Time is paused.
const LIMIT: Duration = Duration::from_secs(3600);

/// The body of a response.
type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// The query parameters of a request.
type Query = BTreeMap<String, String>;

fn whole(body: &Value) -> Answer {
    Full::from(body.to_string()).boxed_unsync()
}

/// A list of objects. Its items have no kind, as those of an API server.
fn list(version: &str, items: &Value) -> Response<Answer> {
    Response::new(whole(&json!({
        "kind": "SecretList", "apiVersion": "v1",
        "metadata": { "resourceVersion": version }, "items": items,
    })))
}

fn status(code: u16, reason: &str) -> Response<Answer> {
    let body = whole(&json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": reason,
    }));
    let response = Response::builder().status(code).body(body);
    response.expect("a response")
}

/// A watch with these events, and then the end, or silence.
fn watch(events: Vec<Value>, ends: bool) -> Response<Answer> {
    let lines = events.into_iter().map(|event| format!("{event}\n").into());
    let end = if ends {
        stream::empty().boxed()
    } else {
        stream::pending().boxed()
    };
    frames(stream::iter(lines).chain(end))
}

fn frames(chunks: impl futures::Stream<Item = Bytes> + Send + 'static) -> Response<Answer> {
    let frames = chunks.map(|chunk| Ok(Frame::data(chunk)));
    Response::new(StreamBody::new(frames).boxed_unsync())
}

/// A client of a server that answers requests without a stream of the first list.
fn client(answer: impl Fn(&Query) -> Response<Answer> + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let query: Query = query
            .split('&')
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let response = if query.contains_key("sendInitialEvents") {
            status(422, "Invalid")
        } else {
            answer(&query)
        };
        std::future::ready(Ok::<_, Infallible>(response))
    });
    Client::new(service, "default")
}

/// The names of the reconciled objects, and the messages of the errors.
fn run<K>(client: Client) -> stream::BoxStream<'static, Result<String, String>>
where
    K: Clone + Resource<DynamicType = ()> + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let items = Controller::new(Api::<K>::all(client), watcher::Config::default()).run(
        |_, _| std::future::ready(Ok::<_, Infallible>(Action::await_change())),
        |_, _, _| Action::await_change(),
        Arc::new(()),
    );
    let shown = |item: Result<(ObjectRef<K>, Action), Error<Infallible, watcher::Error>>| match item
    {
        Ok((target, _)) => Ok(target.name),
        Err(error) => Err(format!("{error}: {error:?}")),
    };
    items.map(shown).boxed()
}

fn secret(name: &str, version: &str) -> Value {
    json!({ "metadata": {
        "name": name, "namespace": "default", "uid": name, "resourceVersion": version,
    }})
}

/// kube-runtime requests such a watch again at once, without an end.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_requested_after_a_backoff() {
    let watches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&watches);
    let client = client(move |query| {
        if query.contains_key("watch") {
            counted.fetch_add(1, Ordering::SeqCst);
            watch(Vec::new(), true)
        } else {
            list("7", &json!([secret("a", "5")]))
        }
    });
    let mut items = run::<Secret>(client);
    let first = timeout(LIMIT, items.next()).await.expect("in time");
    assert_eq!(first, Some(Ok("a".into())));
    let polled = tokio::spawn(items.for_each(|_| std::future::ready(())));
    sleep(Duration::from_secs(600)).await;
    let watches = watches.load(Ordering::SeqCst);
    assert!(
        (10..=60).contains(&watches),
        "{watches} watches in 10 minutes"
    );
    polled.abort();
}

/// kube-runtime requests the same version again and again.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_as_expired_lists_again() {
    let (lists, watches) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (requests, opened) = (Arc::clone(&lists), Arc::clone(&watches));
    let client = client(move |query| match query.get("watch") {
        None if requests.fetch_add(1, Ordering::SeqCst) == 0 => {
            list("7", &json!([secret("a", "5")]))
        }
        None => list("9", &json!([secret("a", "5"), secret("b", "8")])),
        Some(_) => {
            opened.fetch_add(1, Ordering::SeqCst);
            match query.get("resourceVersion").map(String::as_str) {
                Some("9") => watch(Vec::new(), false),
                _ => status(410, "Expired"),
            }
        }
    });
    let mut items = run::<Secret>(client);
    let mut names = Vec::new();
    while names.len() < 2 {
        let item = timeout(LIMIT, items.next()).await.expect("in time");
        names.extend(item.expect("it continues"));
    }
    assert_eq!(names, ["a", "b"]);
    assert_eq!(
        (lists.load(Ordering::SeqCst), watches.load(Ordering::SeqCst)),
        (2, 2)
    );
}

/// kube-runtime reads on until the memory is full.
#[tokio::test(start_paused = true)]
async fn a_line_without_an_end_is_an_error() {
    /// More than any line can have.
    const MOST: usize = 1 << 30;

    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let client = client(move |query| {
        if !query.contains_key("watch") {
            return list("7", &json!([]));
        }
        let counted = Arc::clone(&counted);
        let chunk = Bytes::from(vec![b' '; 1 << 20]);
        let begin =
            stream::once(async { Bytes::from_static(br#"{"type":"ADDED","object":{"x":""#) });
        let rest = stream::repeat_with(move || {
            counted.fetch_add(chunk.len(), Ordering::SeqCst);
            chunk.clone()
        });
        frames(begin.chain(rest.take(MOST >> 20)).chain(stream::pending()))
    });
    let mut items = run::<Secret>(client);
    let item = timeout(LIMIT, items.next()).await.expect("in time");
    let error = item.expect("it continues").expect_err("no object");
    assert!(error.contains("longer than"), "{error}");
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent < MOST / 4, "{sent} bytes");
}

/// A writer of logs to memory.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// kube-runtime logs the whole object at `WARN`.
#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_not_logged() {
    const PASSWORD: &str = "aHVudGVyMg==";

    let logs = Logs::default();
    let written = logs.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || written.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut bad = secret("bad", "6");
    bad["data"] = json!({ "password": [PASSWORD] });
    let event = json!({ "type": "MODIFIED", "object": {
        "kind": "Secret", "apiVersion": "v1", "metadata": secret("bad", "8")["metadata"],
        "data": { "password": [PASSWORD] },
    }});
    let good = json!({ "type": "ADDED", "object": {
        "kind": "Secret", "apiVersion": "v1", "metadata": secret("b", "9")["metadata"],
    }});
    let client = client(move |query| {
        if query.contains_key("watch") {
            watch(vec![event.clone(), good.clone()], false)
        } else {
            list("7", &json!([bad.clone(), secret("a", "5")]))
        }
    });
    let mut items = run::<Secret>(client);
    let mut names = Vec::new();
    while names.len() < 2 {
        let item = timeout(LIMIT, items.next()).await.expect("in time");
        names.extend(item.expect("it continues"));
    }
    assert_eq!(names, ["a", "b"]);
    let logs = String::from_utf8_lossy(&logs.0.lock()).into_owned();
    assert!(logs.contains("bad"), "the object is named: {logs}");
    assert!(!logs.contains(PASSWORD), "{logs}");
}
