//! The OpenTelemetry spans of the events of an object.

use std::{
    io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use opentelemetry::{
    SpanId, Value, global,
    trace::{Span as _, Status, Tracer as _, TracerProvider as _},
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;
use windlass::{
    Action, Informer, InformerController, ListWatch, Outcome, Request,
    controller::{Coalescing, ErrorReport},
    source::Scripted,
    tracing::{get_tracer, opentelemetry_layer, set_tracer},
};
use windlass_apiserver::ApiServer;

/// The delay of a retry.
const DELAY: Duration = Duration::from_secs(90);

/// The tracers of this process, before and after `set_tracer`.
struct Tracers {
    /// The exported spans of the global provider.
    global: InMemorySpanExporter,
    /// The exported spans of the tracer that was set.
    set: InMemorySpanExporter,
}

static TRACERS: LazyLock<Tracers> = LazyLock::new(|| {
    let (global, of_global) = exporter();
    let (set, of_set) = exporter();
    global::set_tracer_provider(of_global);
    get_tracer().start("before").end();
    set_tracer(of_set.tracer("shop-operator"));
    get_tracer().start("after").end();
    Tracers { global, set }
});

fn exporter() -> (InMemorySpanExporter, SdkTracerProvider) {
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone());
    (spans, provider.build())
}

/// Rows: GA-13
#[test]
fn without_set_tracer_spans_use_the_global_tracer_named_k8s() {
    let spans = TRACERS.global.get_finished_spans().expect("in memory");
    assert_eq!(spans.len(), 1, "{spans:#?}");
    assert_eq!(spans[0].name, "before");
    assert_eq!(spans[0].instrumentation_scope.name(), "k8s");
}

/// Rows: GA-12, GA-13
#[tokio::test(start_paused = true)]
async fn all_spans_use_the_tracer_that_was_set() {
    let (seen, _) = live("tracer", |_| Ok(Outcome::done())).await;
    let spans = TRACERS.set.get_finished_spans().expect("in memory");
    assert!(spans.iter().any(|span| span.name == "after"), "{spans:#?}");
    let ours = seen.0.iter().chain(spans.iter().filter(|span| {
        // Other spans of this package.
        span.name.starts_with("informer") || span.name.starts_with("controller")
    }));
    for span in ours {
        assert_eq!(span.instrumentation_scope.name(), "shop-operator");
    }
    // No span bypassed the tracer that was set.
    let spans = TRACERS.global.get_finished_spans().expect("in memory");
    assert_eq!(spans.len(), 1, "{spans:#?}");
}

/// Rows: GA-114
#[tokio::test(start_paused = true)]
async fn one_trace_leads_from_the_watch_event_to_the_retry() {
    let calls = AtomicU32::new(0);
    let (seen, uid) = live("fails-once", move |request| {
        if request.action() == Action::Created && calls.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err("not yet");
        }
        Ok(Outcome::done())
    })
    .await;

    let delivered = seen.one("informer-event-add");
    assert_eq!(delivered.parent_span_id, SpanId::INVALID);
    check(delivered, "resource", "configmaps");
    check(delivered, "object", "default/fails-once");
    check(delivered, "uid", &uid);
    let version = field(delivered, "resource_version").expect("the field exists");

    let event = seen.one("controller-event-add");
    child(event, delivered);
    check(event, "kind", "configs");
    check(event, "object", "default/fails-once");
    check(event, "uid", &uid);
    assert_eq!(field(event, "resource_version"), Some(version));

    let first = seen.child_of(event, "reconciler");
    check(first, "action", "CREATE");
    check(first, "attempt", "0");
    check(first, "outcome", "failed");
    assert!(matches!(first.status, Status::Error { .. }), "{first:#?}");

    let retry = seen.one("controller-retry");
    child(retry, event);
    check(retry, "kind", "configs");
    check(retry, "object", "default/fails-once");
    check(retry, "uid", &uid);
    check(retry, "action", "CREATE");
    check(retry, "attempt", "1");

    let second = seen.child_of(retry, "reconciler");
    check(second, "attempt", "1");
    check(second, "outcome", "done");
    assert_eq!(second.status, Status::Unset);

    // Each event is a separate trace. Its spans end before the next event is delivered.
    for what in ["update", "delete"] {
        let delivered = seen.one(&format!("informer-event-{what}"));
        child(seen.one(&format!("controller-event-{what}")), delivered);
        let other = delivered.span_context.trace_id();
        assert_ne!(other, event.span_context.trace_id());
    }
}

/// Rows: GA-114
#[tokio::test(start_paused = true)]
async fn each_list_and_each_watch_has_a_span() {
    let (_seen, _) = live("requests", |_| Ok(Outcome::done())).await;
    let spans = TRACERS.set.get_finished_spans().expect("in memory");
    let list = (spans.iter()).find(|span| span.name == "informer-list");
    let list = list.expect("a list");
    check(list, "resource", "configmaps");
    check(list, "verb", "list");
    check(list, "outcome", "ended");
    let watch = (spans.iter()).find(|span| span.name == "informer-watch");
    let watch = watch.expect("a watch");
    check(watch, "resource", "configmaps");
    check(watch, "verb", "watch");
    // The span of the informer is not part of these traces, because it lives too long.
    for span in [list, watch] {
        assert_eq!(span.parent_span_id, SpanId::INVALID, "{span:#?}");
    }
}

/// Rows: GA-99, GA-114
#[tokio::test(start_paused = true)]
async fn a_requested_call_begins_a_trace_linked_to_its_origin() {
    let calls = AtomicU32::new(0);
    let (seen, _) = live("requeues", move |request| {
        let first =
            request.action() == Action::Created && calls.fetch_add(1, Ordering::Relaxed) == 0;
        Ok(if first {
            Outcome::requeue_after(DELAY)
        } else {
            Outcome::done()
        })
    })
    .await;

    let event = seen.one("controller-event-add");
    check(seen.child_of(event, "reconciler"), "outcome", "requeued");
    let retry = seen.one("controller-retry");
    assert_eq!(retry.parent_span_id, SpanId::INVALID);
    assert_ne!(retry.span_context.trace_id(), event.span_context.trace_id());
    let links: Vec<_> = retry.links.iter().collect();
    assert_eq!(links.len(), 1, "{retry:#?}");
    assert_eq!(links[0].span_context, event.span_context);
}

/// Rows: GA-114
#[tokio::test(start_paused = true)]
async fn all_retries_of_a_call_are_sibling_spans() {
    let (seen, _) = live("fails", |request| match request.action() {
        Action::Created => Err("not yet"),
        _ => Ok(Outcome::done()),
    })
    .await;
    let event = seen.one("controller-event-add");
    let retries = seen.0.iter().filter(|span| span.name == "controller-retry");
    let attempts: Vec<_> = retries
        .map(|retry| {
            child(retry, event);
            field(retry, "attempt").expect("the field exists")
        })
        .collect();
    assert_eq!(attempts, ["1", "2"]);
}

/// Rows: GA-114
#[tokio::test(start_paused = true)]
async fn a_coalesced_event_has_the_outcome_coalesced() {
    let _listening = listen();
    let (script, source) = Scripted::new();
    let controller = InformerController::builder()
        .coalescing(Coalescing::Always)
        .build()
        .expect("valid settings");
    let configs = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs, &Informer::new(source))
        .expect("the first informer");
    // Each call waits for a permit.
    let leave = Arc::new(Semaphore::new(0));
    let reconciler = {
        let leave = Arc::clone(&leave);
        move |_: Request<ConfigMap>| {
            let leave = Arc::clone(&leave);
            async move {
                leave.acquire().await.expect("open").forget();
                Ok::<_, io::Error>(Outcome::done())
            }
        }
    };
    controller
        .add_reconciler(&configs, reconciler)
        .expect("a reconciler");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });

    script.list([]).await.expect("it runs");
    for version in ["1", "2", "3"] {
        let mut object = config("busy");
        object.metadata.resource_version = Some(version.to_owned());
        script.apply(object).await.expect("it runs");
        // On paused time this waits until all other tasks are idle.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    leave.add_permits(2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.cancel();
    running.await.expect("no panic").expect("no error");

    let seen = Seen::of("busy");
    let updates = (seen.0.iter()).filter(|span| span.name == "informer-event-update");
    let outcomes: Vec<_> = updates
        .map(|delivered| {
            (
                field(delivered, "resource_version"),
                field(delivered, "outcome"),
            )
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        outcomes,
        [(text("2"), None), (text("3"), text("coalesced"))],
        "{:#?}",
        seen.0
    );
    let event = seen.one("controller-event-update");
    check(event, "resource_version", "3");
}

/// Rows: GA-114
#[tokio::test(start_paused = true)]
async fn no_span_contains_values_of_an_object() {
    let (seen, _) = live("secretive", |_| Err("a word from inside")).await;
    let shown = format!("{:#?}", seen.0);
    assert!(shown.contains("controller-retry"), "{shown}");
    for secret in ["hunter2", "hunter3", "a word from inside"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// The spans of all traces of one object.
struct Seen(Vec<SpanData>);

impl Seen {
    fn of(name: &str) -> Self {
        let object = format!("default/{name}");
        let spans = TRACERS.set.get_finished_spans().expect("in memory");
        let theirs = |span: &&SpanData| field(span, "object").as_deref() == Some(&*object);
        let traces: Vec<_> = (spans.iter())
            .filter(theirs)
            .map(|span| span.span_context.trace_id())
            .collect();
        let mut seen = spans;
        seen.retain(|span| traces.contains(&span.span_context.trace_id()));
        Self(seen)
    }

    fn one(&self, name: &str) -> &SpanData {
        let found: Vec<_> = self.0.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name} in {:#?}", self.0);
        found[0]
    }

    fn child_of(&self, parent: &SpanData, name: &str) -> &SpanData {
        let found = self
            .0
            .iter()
            .find(|span| span.name == name && span.parent_span_id == parent.span_context.span_id());
        let found = found.unwrap_or_else(|| panic!("no {name} in {:#?}", self.0));
        child(found, parent);
        found
    }
}

/// Creates, changes and deletes an object; its first call is retried or requeued. Returns its spans,
/// and its uid.
async fn live<R>(name: &'static str, reconcile: R) -> (Seen, String)
where
    R: Fn(&Request<ConfigMap>) -> Result<Outcome, &'static str> + Send + Sync + 'static,
{
    let _listening = listen();
    let server = ApiServer::new();
    let api: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let source = ListWatch::new(api.clone()).streamed_lists(false);
    let informer = Informer::new(source);
    let controller = InformerController::builder()
        .retry_policy(|failed: &ErrorReport<'_>| (failed.attempt < 2).then_some(DELAY))
        .on_error(|_| {})
        .build()
        .expect("valid settings");
    let configs = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs, &informer)
        .expect("the first informer");
    let (called, mut calls) = mpsc::channel(16);
    let called = Arc::new(called);
    let reconciler = move |request: Request<ConfigMap>| {
        let outcome = reconcile(&request);
        let called = Arc::clone(&called);
        async move {
            if outcome.as_ref().is_ok_and(|it| it.delay().is_none()) || request.attempt() == 2 {
                called.send(Instant::now()).await.expect("a test listens");
            }
            outcome.map_err(io::Error::other)
        }
    };
    controller
        .add_reconciler(&configs, reconciler)
        .expect("a reconciler");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    informer.synced().await.expect("it runs");

    let created = api.create(&PostParams::default(), &config(name)).await;
    let created = created.expect("it is new");
    calls.recv().await.expect("it is reconciled");
    let change = Patch::Merge(json!({ "data": { "password": "hunter3" } }));
    api.patch(name, &PatchParams::default(), &change)
        .await
        .expect("the object exists");
    calls.recv().await.expect("it is reconciled");
    api.delete(name, &DeleteParams::default())
        .await
        .expect("the object exists");
    calls.recv().await.expect("it is reconciled");

    stop.cancel();
    running.await.expect("no panic").expect("no error");
    (Seen::of(name), created.uid().expect("it has one"))
}

fn config(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("password".to_owned(), "hunter2".to_owned())].into()),
        ..ConfigMap::default()
    }
}

/// Exports the spans of this thread.
fn listen() -> DefaultGuard {
    LazyLock::force(&TRACERS);
    let subscriber = tracing_subscriber::registry().with(opentelemetry_layer());
    tracing::subscriber::set_default(subscriber)
}

#[track_caller]
fn child(span: &SpanData, of: &SpanData) {
    assert_eq!(
        (span.span_context.trace_id(), span.parent_span_id),
        (of.span_context.trace_id(), of.span_context.span_id()),
        "{} is not a child of {}",
        span.name,
        of.name
    );
}

#[track_caller]
fn check(span: &SpanData, name: &str, value: &str) {
    assert_eq!(
        field(span, name).as_deref(),
        Some(value),
        "{name} of {span:#?}"
    );
}

fn field(span: &SpanData, name: &str) -> Option<String> {
    let mut fields = span.attributes.iter();
    let field = fields.find(|field| field.key.as_str() == name)?;
    Some(match &field.value {
        Value::String(text) => text.to_string(),
        value => value.to_string(),
    })
}
