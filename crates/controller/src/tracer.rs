//! The tracer of all spans, and the links that keep retries in the same trace.
//!
//! Windlass creates spans with `tracing`. [`opentelemetry_layer`] converts them to OpenTelemetry
//! spans, with the tracer that is set at that time.

use std::sync::Arc;

use opentelemetry::{
    Context,
    global::{self, BoxedSpan, BoxedTracer},
    trace::{SpanBuilder, SpanContext, TraceContextExt as _, Tracer},
};
use parking_lot::RwLock;
use tracing::Subscriber;
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::registry::LookupSpan;
use windlass_informer::GuardedSpan;

/// The configured tracer.
static SET: RwLock<Option<Arc<BoxedTracer>>> = RwLock::new(None);

/// The name of the global provider's tracer that is used if none is set.
///
/// Source: grafana-app-sdk, `k8s.SetTracer`.
const NAME: &str = "k8s";

/// The tracer of all spans of Windlass: the one that is set when a span begins or, if none is set,
/// the global provider's tracer named `k8s`.
#[derive(Clone, Copy, Debug)]
pub struct PackageTracer(());

/// The parent of later spans: a span that may have ended. Empty if tracing is off.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceParent {
    context: Option<Arc<SpanContext>>,
}

/// Sets the tracer of all spans of Windlass from now on.
///
/// Add [`opentelemetry_layer`] to your subscriber, so that spans reach the tracer.
pub fn set_tracer<T>(tracer: T)
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    let tracer = BoxedTracer::new(Box::new(tracer));
    *SET.write() = Some(Arc::new(tracer));
}

/// Returns the tracer of all spans of Windlass, for spans of your own.
#[must_use]
pub fn get_tracer() -> PackageTracer {
    PackageTracer(())
}

/// Returns a layer that converts `tracing` spans to OpenTelemetry spans, with the tracer that is
/// set when each begins.
///
/// # Contract
///
/// *Guaranteed.* All processing of an event is one trace: the informer's span, the calls of the
/// handlers, and the retries of failed calls. Spans of user code are children of these. A requeue
/// begins a separate trace with a link to the call that requested it, because requeues can continue
/// forever and traces should not.
///
/// *Required.* A filter, unless you want all spans of the process: the layer accepts all.
///
/// # Example
///
/// ```
/// use opentelemetry::trace::TracerProvider as _;
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
/// use tracing_subscriber::layer::SubscriberExt as _;
/// use windlass_controller::{opentelemetry_layer, set_tracer};
///
/// let spans = InMemorySpanExporter::default();
/// let provider = SdkTracerProvider::builder()
///     .with_simple_exporter(spans.clone())
///     .build();
/// set_tracer(provider.tracer("shop-operator"));
///
/// let subscriber = tracing_subscriber::registry().with(opentelemetry_layer());
/// tracing::subscriber::with_default(subscriber, || {
///     tracing::info_span!("open").in_scope(|| ());
/// });
/// let seen = spans.get_finished_spans()?;
/// assert_eq!(seen[0].name, "open");
/// assert_eq!(seen[0].instrumentation_scope.name(), "shop-operator");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a layer has no effect until it is added to a subscriber"]
pub fn opentelemetry_layer<S>() -> OpenTelemetryLayer<S, PackageTracer>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    OpenTelemetryLayer::new(get_tracer())
        // The position in our source and the thread do not describe the object.
        .with_location(false)
        .with_threads(false)
        // Idle time is not useful: a watch is nearly always idle.
        .with_tracked_inactivity(false)
}

// === impl PackageTracer ===

impl Tracer for PackageTracer {
    type Span = BoxedSpan;

    fn build_with_context(&self, builder: SpanBuilder, parent: &Context) -> Self::Span {
        // Without the lock: a sampler is user code.
        let set = SET.read().clone();
        match set {
            Some(tracer) => tracer.build_with_context(builder, parent),
            None => global::tracer(NAME).build_with_context(builder, parent),
        }
    }
}

// === impl TraceParent ===

impl TraceParent {
    /// Creates a parent from `span`, which may have ended.
    pub(crate) fn of(span: &GuardedSpan) -> Self {
        if span.as_span().is_disabled() {
            return Self::default();
        }
        let context = span.with(|span| span.context().span().span_context().clone());
        Self {
            context: context.filter(SpanContext::is_valid).map(Arc::new),
        }
    }

    /// Sets this as the parent of `span`, which was just created.
    pub(crate) fn set_as_parent_of(&self, span: &GuardedSpan) {
        if let Some(context) = &self.context {
            let parent = Context::new().with_remote_span_context(SpanContext::clone(context));
            // Fails if no layer sees the span. Then there is no trace to continue.
            span.with(|span| _ = span.set_parent(parent));
        }
    }

    /// Adds a link to this from `span`, which is in another trace.
    pub(crate) fn link_from(&self, span: &GuardedSpan) {
        if let Some(context) = &self.context {
            span.with(|span| span.add_link(SpanContext::clone(context)));
        }
    }
}
