//! The life of an object as a trace: `cargo run --example tracing`.
//!
//! It starts an API server in this process, runs a controller that fails once, and shows what
//! happened as OpenTelemetry has it: from the event that the watch brought, over the calls of
//! the handlers, to the retry.
//!
//! ```text
//! cargo run --example tracing                                    # prints the traces
//! cargo run --example tracing -- --otlp http://127.0.0.1:4317    # sends them, too
//! ```

use std::{
    convert::Infallible,
    io,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use opentelemetry::{
    SpanId,
    trace::{Status, TracerProvider as _},
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};
use windlass::{
    Action, ExponentialBackoff, Informer, InformerController, Outcome, Request, SimpleWatcher,
    tracing::{opentelemetry_layer, set_tracer},
};
use windlass_apiserver::ApiServer;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The longest that any step may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The life of an object as a trace.
#[derive(Debug, Parser)]
struct Arguments {
    /// Send the traces to this collector, over OTLP with gRPC; `OTEL_EXPORTER_OTLP_ENDPOINT`
    /// says the same.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tracing: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let named = || std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok();
    let otlp = arguments.otlp.or_else(named);
    let spans = InMemorySpanExporter::default();
    let mut provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("tracing").build())
        .with_simple_exporter(spans.clone());
    if let Some(address) = &otlp {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(address)
            .with_timeout(PATIENCE)
            .build()?;
        provider = provider.with_batch_exporter(exporter);
    }
    let provider = provider.build();

    // These three lines are what an operator needs.
    set_tracer(provider.tracer("shop-operator"));
    let ours = Targets::new()
        .with_target("windlass", LevelFilter::INFO)
        .with_target(module_path!(), LevelFilter::INFO);
    tracing_subscriber::registry()
        .with(opentelemetry_layer().with_filter(ours))
        .init();

    tokio::time::timeout(PATIENCE, live())
        .await
        .map_err(|_| format!("not over after {PATIENCE:?}"))??;

    print(spans.get_finished_spans()?);
    if let Some(address) = otlp {
        // Both wait for the exporter, which needs this runtime.
        tokio::task::spawn_blocking(move || provider.force_flush().and(provider.shutdown()))
            .await?
            .map_err(|error| format!("cannot send to {address}: {error}"))?;
        println!("\nsent to {address}");
    }
    Ok(())
}

/// An object is created, a reconciler fails and is called again, and the object is deleted.
async fn live() -> Result<(), Error> {
    let server = ApiServer::new();
    let shops: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let informer = Informer::new(shops.clone());
    let controller = InformerController::builder()
        .retry_policy(ExponentialBackoff::new(Duration::from_millis(100), 5))
        .on_error(|_| {})
        .build()?;
    controller.add_informer("shops", &informer)?;
    let looks = SimpleWatcher::new().on_add(|_: Arc<ConfigMap>| async { Ok::<_, Infallible>(()) });
    controller.add_watcher("shops", looks)?;

    let (done, mut over) = mpsc::channel(1);
    let failed = Arc::new(AtomicBool::new(false));
    controller.add_reconciler("shops", move |request: Request<ConfigMap>| {
        let (done, failed) = (done.clone(), Arc::clone(&failed));
        async move {
            if request.action() != Action::Deleted {
                let order = async {
                    if failed.swap(true, Ordering::Relaxed) {
                        Ok(())
                    } else {
                        Err(io::Error::other("the supplier does not answer"))
                    }
                };
                // Whatever user code opens is a part of the trace.
                order.instrument(tracing::info_span!("order-goods")).await?;
            }
            _ = done.send(()).await;
            Ok::<_, io::Error>(Outcome::done())
        }
    })?;

    let stop = CancellationToken::new();
    let story = async {
        informer.synced().await?;
        let web = ConfigMap {
            metadata: ObjectMeta {
                name: Some("web".to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        shops.create(&PostParams::default(), &web).await?;
        over.recv().await;
        shops.delete("web", &DeleteParams::default()).await?;
        over.recv().await;
        stop.cancel();
        Ok(())
    };
    let (ended, told) = tokio::join!(controller.run(stop.clone()), story);
    ended?;
    told
}

/// Prints each trace as a tree, the oldest first.
fn print(mut spans: Vec<SpanData>) {
    spans.sort_by_key(|span| span.start_time);
    for root in &spans {
        if root.parent_span_id == SpanId::INVALID {
            println!("trace {}", root.span_context.trace_id());
            branch(&spans, root, root, 1);
        }
    }
}

fn branch(spans: &[SpanData], root: &SpanData, span: &SpanData, depth: usize) {
    let after = span.start_time.duration_since(root.start_time);
    let shown = ["kind", "object", "attempt", "outcome"];
    let fields = (span.attributes.iter())
        .filter(|field| shown.contains(&field.key.as_str()))
        .map(|field| format!(" {}={}", field.key, field.value));
    println!(
        "{:>8.1?}  {:indent$}{}{}{}",
        after.unwrap_or_default(),
        "",
        span.name,
        fields.collect::<String>(),
        match span.status {
            Status::Error { .. } => "  ERROR",
            _ => "",
        },
        indent = 2 * depth,
    );
    for child in spans {
        let (ours, theirs) = (&span.span_context, &child.span_context);
        if child.parent_span_id == ours.span_id() && theirs.trace_id() == ours.trace_id() {
            branch(spans, root, child, depth + 1);
        }
    }
}
