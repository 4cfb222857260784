//! The memory that one large line of a watch takes, and the longest line with default settings.

use std::{alloc::System, convert::Infallible, pin::pin, time::Duration};

use bytes::Bytes;
use cap::Cap;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, client::Body};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::{Event, Informer, ListWatch, Problem};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

const MIB: usize = 1 << 20;

/// The timeout of each step.
const LIMIT: Duration = Duration::from_secs(60);

/// The chunks in which a line arrives.
const CHUNK: usize = 16 * 1024;

/// An empty list that is streamed.
const LISTED: &str = concat!(
    r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#,
    r#""resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    "\n"
);

/// The object of the line, and the growing buffer in which the line is completed: nothing else has
/// its size at the same time. etcd stores objects of 1.5 MiB by default.
#[tokio::test]
async fn a_large_line_is_kept_once_and_one_that_etcd_cannot_store_is_refused() {
    for size in [2 * MIB, 15 * MIB] {
        let (lines, mut events, _problems, run) = informer();
        lines.send(LISTED.to_owned()).await.expect("a watch");
        next(&mut events).await;
        // The text of the line is dropped when all of it was sent.
        let line = line(size);
        let length = line.len();
        let before = MEMORY.allocated() - length;
        lines.send(line).await.expect("a watch");
        let Event::Added(object) = next(&mut events).await else {
            panic!("another event");
        };
        assert_eq!(object.data.as_ref().expect("data")["value"].len(), size);
        let peak = MEMORY.max_allocated() - before;
        println!("a line of {length} bytes: at most {peak} bytes");
        // The chunks of the test, the buffer in which the line is completed, and the decoded value.
        assert!(
            peak <= 3 * length + MIB,
            "{peak} bytes for a line of {length}"
        );
        drop(object);
        drop(run);
    }
    // In the same test, because the peak is that of the whole process.
    refuses_what_etcd_cannot_store().await;
}

async fn refuses_what_etcd_cannot_store() {
    let (lines, mut events, mut problems, _run) = informer();
    lines.send(LISTED.to_owned()).await.expect("a watch");
    next(&mut events).await;
    lines.send(line(17 * MIB)).await.expect("a watch");
    let problem = timeout(LIMIT, problems.recv()).await.expect("in time");
    let problem = problem.expect("a problem");
    assert!(problem.contains("max_bytes"), "{problem}");
}

type Running = AbortOnDropHandle<()>;

/// An informer, the lines that its watch receives, its events and its problems.
fn informer() -> (
    mpsc::Sender<String>,
    mpsc::Receiver<Event<ConfigMap>>,
    mpsc::Receiver<String>,
    Running,
) {
    let (sender, receiver) = mpsc::channel::<String>(4);
    let receiver = std::sync::Mutex::new(Some(receiver));
    let service = tower::service_fn(move |_: Request<Body>| {
        let lines = receiver.lock().expect("no panic").take();
        let lines = stream::unfold(lines, |lines| async {
            let mut lines = lines?;
            let line = lines.recv().await?;
            let chunks = line.as_bytes().chunks(CHUNK);
            let chunks: Vec<_> = chunks.map(Bytes::copy_from_slice).collect();
            drop(line);
            Some((stream::iter(chunks), Some(lines)))
        });
        let chunks = lines.flatten().chain(stream::pending());
        let frames = chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
        let body = StreamBody::new(frames.boxed());
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    let source = ListWatch::new(Api::<ConfigMap>::all(Client::new(service, "default"))).seed(7);
    let (problems, problem) = mpsc::channel(64);
    let informer = Informer::builder(source)
        .on_error(move |it: &Problem<'_>| _ = problems.try_send(text(it)))
        .build();
    let mut subscription = informer.subscribe();
    let (events, event) = mpsc::channel(1);
    let run = tokio::spawn(async move {
        let follow = async {
            while let Some(next) = subscription.next().await {
                _ = events.send(next).await;
            }
        };
        let run = pin!(informer.run(CancellationToken::new()));
        _ = futures::join!(run, follow);
    });
    (sender, event, problem, AbortOnDropHandle::new(run))
}

/// The problem with its causes.
fn text(problem: &Problem<'_>) -> String {
    match problem {
        Problem::Watch { error, .. } => windlass_informer::ErrorChain::new(*error).to_string(),
        _ => String::new(),
    }
}

async fn next(events: &mut mpsc::Receiver<Event<ConfigMap>>) -> Event<ConfigMap> {
    let next = timeout(LIMIT, events.recv()).await.expect("in time");
    next.expect("the informer runs")
}

/// A watch event with a value of this size.
fn line(size: usize) -> String {
    let value = "x".repeat(size);
    format!(
        r#"{{"type":"ADDED","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"web","namespace":"shop","uid":"u","resourceVersion":"8"}},"data":{{"value":"{value}"}}}}}}
"#
    )
}
