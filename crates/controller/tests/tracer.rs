//! The traces of an event, its retries and its requeues, with a tracer that was set.
#![cfg(feature = "opentelemetry")]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tokio_util::sync::CancellationToken;
use tracing::subscriber::{NoSubscriber, set_default};
use tracing_subscriber::layer::SubscriberExt as _;
use windlass_controller::{
    ExponentialBackoff, Failure, InformerController, Outcome, Request, opentelemetry_layer,
    set_tracer,
};
use windlass_informer::{Informer, Scripted};

/// A retry is in the trace of its event. A requeue begins a trace with a link to the call that
/// requested it.
#[tokio::test(start_paused = true)]
async fn a_retry_continues_the_trace_of_its_event_and_a_requeue_is_linked_to_it() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    set_tracer(provider.tracer("shop-operator"));
    // With one subscriber alone, `tracing` keeps for each span what it answered first.
    let _another = tracing::Dispatch::new(NoSubscriber::new());
    let _guard = set_default(tracing_subscriber::registry().with(opentelemetry_layer()));

    let policy = ExponentialBackoff::new(Duration::from_secs(10), 3);
    let controller = InformerController::builder()
        .retry_policy(policy)
        .on_error(|_| {})
        .build()
        .expect("good settings");
    let (script, source) = Scripted::new();
    let configs = controller.kind("configs").expect("a new kind");
    let added = controller.add_informer(&configs, &Informer::new(source));
    added.expect("the first informer");
    let calls = AtomicU32::new(0);
    let handler = move |_: Request<ConfigMap>| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        async move {
            match call {
                0 => Err(Failure::new("not yet")),
                1 => Ok(Outcome::requeue_after(Duration::from_secs(100))),
                _ => Ok(Outcome::done()),
            }
        }
    };
    let added = controller.add_reconciler(&configs, handler);
    added.expect("a reconciler");
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    let mut object = ConfigMap::default();
    object.metadata.name = Some("web".to_owned());
    object.metadata.uid = Some("u".to_owned());
    script.list([object]).await.expect("it runs");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    stop.cancel();
    run.await.expect("no panic").expect("it stops");

    let spans = exporter.get_finished_spans().expect("in memory");
    let all = |name: &str| -> Vec<&SpanData> {
        let its = spans.iter().filter(|span| span.name == name);
        its.collect()
    };
    let delivered = all("informer-event-add");
    let event = all("controller-event-add");
    let (&[delivered], &[event]) = (&*delivered, &*event) else {
        panic!("{spans:#?}");
    };
    assert_eq!(delivered.instrumentation_scope.name(), "shop-operator");
    assert_eq!(event.parent_span_id, delivered.span_context.span_id());
    let mut repeated = all("controller-retry");
    repeated.sort_by_key(|span| span.start_time);
    let [retry, requeue] = *repeated else {
        panic!("{spans:#?}");
    };
    let trace = event.span_context.trace_id();
    assert_eq!(retry.span_context.trace_id(), trace);
    assert_eq!(retry.parent_span_id, event.span_context.span_id());
    assert!(retry.links.links.is_empty(), "{retry:#?}");
    assert_ne!(requeue.span_context.trace_id(), trace);
    assert_eq!(requeue.links.links.len(), 1, "{requeue:#?}");
    assert_eq!(requeue.links.links[0].span_context.trace_id(), trace);
}
