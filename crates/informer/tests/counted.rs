//! Bounds on allocations, bytes, requests and wake-ups of an informer. They do not depend on the
//! speed of the machine.
//!
//! Beside each bound is what was counted when it was written. The bound is that and 5: a change
//! that passes one has to say why.

use std::{
    alloc::System,
    collections::VecDeque,
    convert::Infallible,
    future::{Future as _, poll_fn},
    num::NonZeroUsize,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, client::Body};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::{HealthState, Informer, ListWatch, Scripted, StoredForm, Subscription};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What a decoded object consists of: name, namespace, uid and version; a map of two labels; a
/// map of one value; its `Arc`. There is nothing else.
const DECODED: usize = 12;

/// The object for subscribers, and for the store its JSON and the `Arc` around it.
#[test]
fn a_watch_event_costs_the_object_once_and_its_json() {
    let allocated = per_hundred_events(|maps| maps);
    // Two of the others are those of the chunk that it came in; counted: 1701.
    assert!(
        allocated <= 100 * (DECODED + 2 + 3) + 6,
        "{allocated} allocations of 100 events"
    );
}

/// An object without a generation has a hash of its content, with an `Arc` around it.
#[test]
fn a_watch_event_of_an_object_that_stays_decoded_allocates_little_more_than_the_object() {
    let allocated = per_hundred_events(ListWatch::decoded);
    // Two of the others are those of the chunk that it came in; counted: 1700.
    assert!(
        allocated <= 100 * (DECODED + 5) + 6,
        "{allocated} allocations of 100 events"
    );
}

/// The two allocations of the chunk that it came in, of which its JSON is a part, or the JSON and the
/// `Arc` around it. Its identity is read from the JSON.
#[test]
fn a_watch_event_of_a_raw_object_decodes_nothing() {
    let allocated = per_hundred_events(ListWatch::raw);
    // Counted: 201.
    assert!(
        allocated <= 100 * 2 + 6,
        "{allocated} allocations of 100 events"
    );
}

/// Nothing reads the object, so it does not stay decoded after all subscribers received it.
///
/// Rows: BO-45
#[test]
fn a_store_costs_the_json_of_its_objects_and_an_entry_for_each() {
    let kept = kept_per_object(|maps| maps);
    let json = pruned().len();
    println!("{kept} bytes an object, of which {json} are JSON");
    // Counted: 235.
    assert!(kept <= json + 240, "{kept} bytes, of which {json} are JSON");
}

#[test]
fn a_store_of_raw_objects_costs_their_json_and_an_entry_for_each() {
    let kept = kept_per_object(ListWatch::raw);
    let json = pruned().len();
    println!("{kept} bytes an object, of which {json} are JSON");
    // Counted: 235.
    assert!(kept <= json + 240, "{kept} bytes, of which {json} are JSON");
}

#[test]
fn a_store_of_decoded_objects_costs_the_objects_and_an_entry_for_each() {
    let kept = kept_per_object(ListWatch::decoded);
    let decoded = decoded_bytes();
    println!("{kept} bytes an object, of which {decoded} are the object");
    // Of them, 32 bytes are the hash of an object without a generation. Counted: 175.
    assert!(
        kept <= decoded + 180,
        "{kept} bytes, of which {decoded} are the object"
    );
}

/// A server that shows a dashboard subscribes for each of its clients, also in a replica whose informer
/// does not run, and for a kind without changes.
#[test]
fn subscriptions_that_were_dropped_keep_no_memory() {
    let _alone = alone();
    let runtime = runtime();
    for runs in [false, true] {
        let (script, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::new(source);
        let stop = CancellationToken::new();
        let running = runs.then(|| runtime.spawn(informer.run(stop.clone())));
        if runs {
            runtime.block_on(async {
                script.list([]).await.expect("it runs");
                informer.synced().await.expect("it runs");
            });
        }
        let subscribe = || {
            let mut events = informer.subscribe();
            if runs {
                runtime.block_on(events.next());
            }
        };
        subscribe();
        let region = Region::new(COUNTED);
        for _ in 0..1000 {
            subscribe();
        }
        let change = region.change();
        let kept = change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated);
        assert!(kept < 10_000, "{kept} bytes, runs: {runs}");
        drop(running);
    }
}

/// A relist is its pages and a watch, and each object costs its identity.
#[test]
fn a_relist_of_unchanged_objects_reads_only_identities() {
    let _alone = alone();
    let mut answers = pages(PAGES);
    answers.push(vec![gone()]);
    answers.extend(pages(PAGES));
    answers.push(Vec::new());
    let server = Server::new(answers);
    runtime().block_on(async {
        let mut running = Running::start(server.maps().streamed_lists(false));
        running.events(PAGES * PAGE).await;
        let region = Region::new(COUNTED);
        server.asked(2 * PAGES + 2).await;
        running.watching().await;
        let change = region.change();
        let each = (change.allocations + change.reallocations) / (PAGES * PAGE);
        assert_eq!(each, 0, "less than one of each object");
        // An hour of paused time would be enough for any further request.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(
            *server.asked.borrow(),
            2 * PAGES + 2,
            "pages and a watch, twice"
        );
    });
}

#[test]
fn an_idle_informer_does_not_wake_up() {
    let _alone = alone();
    let server = Server::new(vec![vec![list(3)], vec![]]);
    runtime().block_on(async {
        let day = Duration::from_secs(24 * 60 * 60);
        let source = server.maps().streamed_lists(false).silence(2 * day);
        let running = Running::start(source);
        running.watching().await;
        // On paused time: whatever the beginning left to do is done.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = running.polled.load(Ordering::Relaxed);
        tokio::time::sleep(day).await;
        assert_eq!(running.polled.load(Ordering::Relaxed), before);
    });
}

/// Allocations of a hundred updates of one object, from the bytes to a subscriber.
fn per_hundred_events<O: StoredForm<ConfigMap>>(
    form: impl Fn(ListWatch<ConfigMap>) -> ListWatch<ConfigMap, O>,
) -> usize {
    const EVENTS: usize = 1000;
    let _alone = alone();
    // The informer runs ahead of the subscriber, so there is no moment at which this number of
    // have come and no others: what is made once is made for few and for many.
    let allocations = |events: usize| {
        let updates = (0..events).map(|number| {
            let object = object("web", 100 + number);
            Bytes::from(format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"))
        });
        let server = Server::new(vec![vec![list(1)], updates.collect()]);
        runtime().block_on(async {
            let region = Region::new(COUNTED);
            let mut running = Running::start(form(server.maps().streamed_lists(false)));
            running.events(2 + events).await;
            let change = region.change();
            change.allocations + change.reallocations
        })
    };
    let few = allocations(EVENTS);
    let each = (allocations(2 * EVENTS) - few) * 100 / EVENTS;
    println!("{each} allocations of 100 events");
    each
}

/// Live bytes of a store of many objects, for each.
fn kept_per_object<O: StoredForm<ConfigMap>>(
    form: impl Fn(ListWatch<ConfigMap>) -> ListWatch<ConfigMap, O>,
) -> usize {
    let _alone = alone();
    let count = 5000;
    let server = Server::new(vec![vec![list(count)], vec![]]);
    runtime().block_on(async {
        let before = Region::new(COUNTED);
        let mut running = Running::start(form(server.maps().streamed_lists(false)));
        running.events(count + 1).await;
        running.watching().await;
        let change = before.change();
        // The list was there before, and has been dropped.
        let live = change.bytes_allocated + list(count).len() - change.bytes_deallocated;
        live / count
    })
}

/// Live bytes of one decoded object, in its `Arc`.
fn decoded_bytes() -> usize {
    let _alone = alone();
    let json = pruned();
    let region = Region::new(COUNTED);
    let object: Arc<ConfigMap> = Arc::new(serde_json::from_str(&json).expect("a config map"));
    let change = region.change();
    drop(object);
    change.bytes_allocated - change.bytes_deallocated
}

/// One at a time: the counts are those of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

fn object(name: &str, version: usize) -> String {
    let managed = r#""managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:value":{}}}}]"#;
    pruned()
        .replace("NAME", name)
        .replace("VERSION", &format!("{version:07}"))
        .replace(r#""annotations":null"#, managed)
}

fn pruned() -> String {
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"NAME","namespace":"shop","uid":"4f1d2c3b-0000-4000-8000-000000000001","resourceVersion":"VERSION","creationTimestamp":"2026-11-20T08:00:00Z","labels":{{"app":"web","tier":"front"}},"annotations":null}},"data":{{"value":"{}"}}}}"#,
        "x".repeat(400)
    )
}

/// A list that takes no more memory than it is long.
fn list(count: usize) -> Bytes {
    let items: Vec<String> = (0..count)
        .map(|number| object(&name(count, number), 1))
        .collect();
    let items = items.join(",");
    let list = format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"10"}},"items":[{items}]}}"#
    );
    Bytes::from(list.into_boxed_str().into_boxed_bytes())
}

fn name(count: usize, number: usize) -> String {
    if count == 1 {
        "web".to_owned()
    } else {
        format!("web-{number:06}")
    }
}

/// How many objects a page has.
const PAGE: usize = 50;

/// How many pages a list has.
const PAGES: usize = 10;

/// A list with this number of pages.
fn pages(pages: usize) -> Vec<Vec<Bytes>> {
    let page = |number: usize| {
        let names = (0..PAGE).map(|at| name(2, number * PAGE + at));
        let items: Vec<String> = names.map(|name| object(&name, 1)).collect();
        let token = if number + 1 == pages { "" } else { "more" };
        let items = items.join(",");
        vec![Bytes::from(format!(
            r#"{{"metadata":{{"resourceVersion":"10","continue":"{token}"}},"items":[{items}]}}"#
        ))]
    };
    (0..pages).map(page).collect()
}

fn gone() -> Bytes {
    Bytes::from_static(
        b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"}}\n",
    )
}

/// Answers each request with the next bodies, and after them with one that says nothing.
#[derive(Clone)]
struct Server {
    answers: Arc<Mutex<VecDeque<Vec<Bytes>>>>,
    asked: Arc<watch::Sender<usize>>,
}

impl Server {
    fn new(answers: Vec<Vec<Bytes>>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into())),
            asked: Arc::new(watch::Sender::new(0)),
        }
    }

    fn maps(&self) -> ListWatch<ConfigMap> {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch="));
            let chunks = server
                .answers
                .lock()
                .expect("no thread panics while it holds the lock")
                .pop_front();
            server.asked.send_modify(|asked| *asked += 1);
            let chunks = stream::iter(chunks.unwrap_or_default())
                .map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
            // A list ends; a watch continues.
            let body = if watches {
                chunks.chain(stream::pending()).boxed()
            } else {
                chunks.boxed()
            };
            async { Ok::<_, Infallible>(Response::new(StreamBody::new(body))) }
        });
        ListWatch::new(Api::all(Client::new(service, "default"))).seed(7)
    }

    async fn asked(&self, count: usize) {
        let mut asked = self.asked.subscribe();
        let enough = asked.wait_for(|asked| *asked >= count);
        enough.await.expect("the server lives");
    }
}

struct Running<O: StoredForm<ConfigMap>> {
    informer: Informer<O>,
    events: Subscription<O>,
    polled: Arc<AtomicUsize>,
    _run: AbortOnDropHandle<()>,
}

impl<O: StoredForm<ConfigMap>> Running<O> {
    fn start(source: ListWatch<ConfigMap, O>) -> Self {
        let many = NonZeroUsize::new(4096).expect("not zero");
        let informer = Informer::builder(source)
            .buffer(many)
            .on_error(|_| {})
            .build();
        let events = informer.subscribe();
        let polled = Arc::new(AtomicUsize::new(0));
        let run = tokio::spawn({
            let (informer, polled) = (informer.clone(), Arc::clone(&polled));
            async move {
                let mut run = pin!(informer.run(CancellationToken::new()));
                let run = poll_fn(|context| {
                    polled.fetch_add(1, Ordering::Relaxed);
                    run.as_mut().poll(context)
                });
                _ = run.await;
            }
        });
        Self {
            informer,
            events,
            polled,
            _run: AbortOnDropHandle::new(run),
        }
    }

    async fn events(&mut self, count: usize) {
        for _ in 0..count {
            self.events.next().await.expect("the informer runs");
        }
    }

    async fn watching(&self) {
        let watching = |state: &_| matches!(state, HealthState::Watching);
        self.informer.until(watching).await;
    }
}
