//! Spans that no subscriber enables are not created.
//!
//! One test, in a process of its own: `tracing` remembers whether there ever was a subscriber.

use std::{collections::BTreeSet, fmt, mem, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use log::{LevelFilter, Log, Record};
use parking_lot::Mutex;
use tokio::{runtime, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{
    Metadata, Subscriber, info_span,
    span::{Attributes, Id},
    subscriber::with_default,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
};
use windlass_controller::{InformerController, Outcome, Request, SimpleWatcher};
use windlass_informer::{Informer, ObjectKey, Scripted};

/// The names of spans.
type Names = BTreeSet<String>;

/// Counts the spans that `tracing` creates for `log`. Without a subscriber and with its feature
/// `log`, which kube enables, `tracing` creates a span to log when it is entered, left and closed.
struct Unasked(Mutex<Names>);

/// The spans that a subscriber has seen. Clones are the same.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Names>>);

static UNASKED: Unasked = Unasked(Mutex::new(Names::new()));

// === impl Unasked ===

impl Unasked {
    /// The calls since the last query.
    fn take(&self) -> Names {
        mem::take(&mut *self.0.lock())
    }
}

impl Log for Unasked {
    fn enabled(&self, about: &log::Metadata<'_>) -> bool {
        about.target().starts_with("tracing::span")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // `name;`, `-> name;`, `<- name;`, `-- name;`
            let line = record.args().to_string();
            let name = line.trim_start_matches(['-', '<', '>', ' ']);
            self.0.lock().insert(name.trim_end_matches(';').to_owned());
        }
    }

    fn flush(&self) {}
}

// === impl Seen ===

impl<S: Subscriber> Layer<S> for Seen {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.0.lock().insert(span.metadata().name().to_owned());
    }
}

#[test]
fn events_and_calls_have_no_spans_without_a_subscriber() {
    log::set_logger(&UNASKED).expect("the only one");
    log::set_max_level(LevelFilter::Trace);
    info_span!("own").in_scope(|| ());
    assert_eq!(UNASKED.take(), names(["own"]), "`tracing` tells `log`");

    assert_eq!(run_once(), [None; 5]);
    // It is created once for each informer.
    assert_eq!(UNASKED.take(), names(["informer"]));

    let seen = Seen::default();
    let subscriber = tracing_subscriber::registry().with(seen.clone());
    assert_eq!(
        with_default(subscriber, run_once),
        [
            None,
            Some("informer-event-add"),
            Some("informer-event-add"),
            Some("informer-event-update"),
            Some("informer-event-delete"),
        ]
    );
    assert_eq!(
        *seen.0.lock(),
        names([
            "informer",
            "informer-event-add",
            "informer-event-delete",
            "informer-event-resync",
            "informer-event-update",
            "controller-event-add",
            "controller-event-delete",
            "controller-event-resync",
            "controller-event-update",
            "controller-retry",
            "mapper",
            "reconciler",
            "watcher",
        ])
    );
}

/// Everything with a span happens, with a retry and a mapper.
fn run_once() -> Vec<Option<&'static str>> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (script, source) = Scripted::new();
        let informer = Informer::new(source);
        let mut events = informer.subscribe();
        let controller = InformerController::builder().on_error(|_| {}).build();
        let controller = controller.expect("good settings");
        let configs = controller.kind("configs").expect("a new kind");
        let added = controller.add_informer(&configs, &informer);
        added.expect("the first informer");
        let watcher = SimpleWatcher::<ConfigMap>::new();
        controller.add_watcher(&configs, watcher).expect("added");
        let reconciler = |request: Request<ConfigMap>| async move {
            match request.attempt() {
                0 => Err(fmt::Error),
                _ => Ok(Outcome::done()),
            }
        };
        let added = controller.add_reconciler(&configs, reconciler);
        added.expect("added");
        let mapper = |_: &ConfigMap| Some(ObjectKey::new("a"));
        let added = controller.add_mapper(&configs, &configs, mapper);
        added.expect("added");

        let stop = CancellationToken::new();
        let running = {
            let stop = stop.clone();
            tokio::spawn(async move { controller.run(stop).await })
        };
        script.list([]).await.expect("it runs");
        for (name, version) in [("a", 1), ("b", 2), ("a", 3)] {
            let object = config(name, version);
            script.apply(object).await.expect("it runs");
            sleep(Duration::from_secs(60)).await;
        }
        script.delete(config("a", 4)).await.expect("it runs");
        sleep(Duration::from_secs(60)).await;
        stop.cancel();
        running.await.expect("no panic").expect("it stops");

        let mut spans = Vec::new();
        while let Some(envelope) = events.next_envelope().await {
            spans.push(envelope.span.as_span().metadata().map(Metadata::name));
        }
        spans
    })
}

fn config(name: &str, version: u32) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.uid = Some(format!("uid-{name}"));
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn names<const N: usize>(names: [&str; N]) -> Names {
    names.map(str::to_owned).into()
}
