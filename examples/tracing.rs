//! OpenTelemetry traces of the events of one object: `cargo run --example tracing`.
//!
//! It starts an API server in this process and runs a controller whose reconciler fails once.
//! Then it prints the traces: the event of the watch, the calls of the handlers, and the retry.
//!
//! ```text
//! cargo run --example tracing                                    # prints the traces
//! cargo run --example tracing -- --otlp http://127.0.0.1:4317    # also sends them to a collector
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

/// The timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(30);

/// OpenTelemetry traces of the events of one object.
#[derive(Debug, Parser)]
struct Arguments {
    /// Send the traces to this collector over OTLP with gRPC. Defaults to the variable
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`; without both, nothing is sent.
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
    let variable = || std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok();
    let otlp = arguments.otlp.or_else(variable);
    let spans = InMemorySpanExporter::default();
    let mut provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("tracing").build())
        .with_simple_exporter(spans.clone());
    if let Some(address) = &otlp {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(address)
            .with_timeout(TIMEOUT)
            .build()?;
        provider = provider.with_batch_exporter(exporter);
    }
    let provider = provider.build();

    // An operator needs these three statements.
    set_tracer(provider.tracer("shop-operator"));
    let ours = Targets::new()
        .with_target("windlass", LevelFilter::INFO)
        .with_target(module_path!(), LevelFilter::INFO);
    tracing_subscriber::registry()
        .with(opentelemetry_layer().with_filter(ours))
        .init();

    tokio::time::timeout(TIMEOUT, run_scenario())
        .await
        .map_err(|_| {
            format!("timed out after {TIMEOUT:?} waiting for the calls of the handlers")
        })??;

    print(spans.get_finished_spans()?);
    if let Some(address) = otlp {
        // Both calls block, and the exporter needs this runtime meanwhile.
        tokio::task::spawn_blocking(move || provider.force_flush().and(provider.shutdown()))
            .await?
            .map_err(|error| format!("cannot send to {address}: {error}"))?;
        println!("\nsent to {address}");
    }
    Ok(())
}

/// Creates an object, whose reconciler fails once and is retried, and then deletes it.
async fn run_scenario() -> Result<(), Error> {
    let server = ApiServer::new();
    let shops: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let informer = Informer::new(shops.clone());
    let controller = InformerController::builder()
        .retry_policy(ExponentialBackoff::new(Duration::from_millis(100), 5))
        .on_error(|_| {})
        .build()?;
    let shops_kind = controller.kind("shops")?;
    controller.add_informer(&shops_kind, &informer)?;
    let watcher =
        SimpleWatcher::new().on_add(|_: Arc<ConfigMap>| async { Ok::<_, Infallible>(()) });
    controller.add_watcher(&shops_kind, watcher)?;

    let (done, mut succeeded) = mpsc::channel(1);
    let failed = Arc::new(AtomicBool::new(false));
    controller.add_reconciler(&shops_kind, move |request: Request<ConfigMap>| {
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
                // Spans of user code become part of the trace.
                order.instrument(tracing::info_span!("order-goods")).await?;
            }
            _ = done.send(()).await;
            Ok::<_, io::Error>(Outcome::done())
        }
    })?;

    let stop = CancellationToken::new();
    let scenario = async {
        informer.synced().await?;
        let web = ConfigMap {
            metadata: ObjectMeta {
                name: Some("web".to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        shops.create(&PostParams::default(), &web).await?;
        succeeded.recv().await;
        shops.delete("web", &DeleteParams::default()).await?;
        succeeded.recv().await;
        stop.cancel();
        Ok(())
    };
    let (ended, done) = tokio::join!(controller.run(stop.clone()), scenario);
    ended?;
    done
}

/// Prints each trace as a tree, the oldest first.
fn print(mut spans: Vec<SpanData>) {
    spans.sort_by_key(|span| span.start_time);
    for root in &spans {
        if root.parent_span_id == SpanId::INVALID {
            println!("trace {}", root.span_context.trace_id());
            print_span(&spans, root, root, 1);
        }
    }
}

/// Prints `span` and its children, indented by `depth`.
fn print_span(spans: &[SpanData], root: &SpanData, span: &SpanData, depth: usize) {
    let after = span.start_time.duration_since(root.start_time);
    let shown = ["resource", "kind", "object", "attempt", "outcome"];
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
            print_span(spans, root, child, depth + 1);
        }
    }
}
