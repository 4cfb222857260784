//! The tracer that spans are made with, and how one trace goes on over retries.
//!
//! Spans here are those of `tracing`. What turns them into spans of OpenTelemetry is
//! [`opentelemetry_layer`], which makes each with the tracer that is set at that time.

use std::sync::Arc;

use opentelemetry::{
    Context,
    global::{self, BoxedSpan, BoxedTracer},
    trace::{SpanBuilder, SpanContext, TraceContextExt as _, Tracer},
};
use parking_lot::RwLock;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::registry::LookupSpan;

/// The tracer that was set.
static SET: RwLock<Option<Arc<BoxedTracer>>> = RwLock::new(None);

/// The name of the global provider's tracer that is used while none is set.
///
/// Source: grafana-app-sdk, `k8s.SetTracer`.
const NAME: &str = "k8s";

/// The tracer of all spans of Windlass: the one that is set when a span begins, or, while none
/// is, the global provider's tracer named `k8s`.
#[derive(Clone, Copy, Debug)]
pub struct PackageTracer(());

/// Where a trace goes on from: a span that may be over by then. Nothing, where tracing is off.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceParent {
    context: Option<Arc<SpanContext>>,
}

/// Makes all spans of Windlass with `tracer` from now on.
///
/// Spans reach it through [`opentelemetry_layer`].
pub fn set_tracer<T>(tracer: T)
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    let tracer = BoxedTracer::new(Box::new(tracer));
    *SET.write() = Some(Arc::new(tracer));
}

/// The tracer of all spans of Windlass, for spans of your own beside them.
#[must_use]
pub fn get_tracer() -> PackageTracer {
    PackageTracer(())
}

/// Makes spans of OpenTelemetry of those of `tracing`, with the tracer that is set when each
/// begins.
///
/// # Contract
///
/// *Guaranteed.* What happens to an object is one trace: from the span in which an informer tells
/// of an event, over the calls of its handlers, to the retries of those that failed. What user
/// code opens meanwhile is within it. A call that was requeued on request begins a trace of its
/// own, with a link to the one that it came from: a requeue may come back for ever, and no trace
/// should.
///
/// *Required.* A filter, where not every span of the process is to be seen: it takes any.
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
#[must_use = "a layer sees nothing until a subscriber has it"]
pub fn opentelemetry_layer<S>() -> OpenTelemetryLayer<S, PackageTracer>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    OpenTelemetryLayer::new(get_tracer())
        // Where in our source a span begins, and on which thread, says nothing of an object.
        .with_location(false)
        .with_threads(false)
        // A watch is idle nearly all of its life, and that is well.
        .with_tracked_inactivity(false)
}

// === impl PackageTracer ===

impl Tracer for PackageTracer {
    type Span = BoxedSpan;

    fn build_with_context(&self, builder: SpanBuilder, parent: &Context) -> Self::Span {
        // Not under the lock: a sampler is the user's code.
        let set = SET.read().clone();
        match set {
            Some(tracer) => tracer.build_with_context(builder, parent),
            None => global::tracer(NAME).build_with_context(builder, parent),
        }
    }
}

// === impl TraceParent ===

impl TraceParent {
    /// Goes on from `span`, also when it is over.
    pub(crate) fn of(span: &Span) -> Self {
        if span.is_disabled() {
            return Self::default();
        }
        let context = span.context();
        let context = context.span().span_context().clone();
        Self {
            context: context.is_valid().then(|| Arc::new(context)),
        }
    }

    /// Makes `span`, which has just been made, go on in the same trace.
    pub(crate) fn set_as_parent_of(&self, span: &Span) {
        if let Some(context) = &self.context {
            let parent = Context::new().with_remote_span_context(SpanContext::clone(context));
            // Refused where no layer sees the span, and then there is no trace to go on with.
            _ = span.set_parent(parent);
        }
    }

    /// Makes `span` name the trace that it came from, and be in its own.
    pub(crate) fn link_from(&self, span: &Span) {
        if let Some(context) = &self.context {
            span.add_link(SpanContext::clone(context));
        }
    }
}
