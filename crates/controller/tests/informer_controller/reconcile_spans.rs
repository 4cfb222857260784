//! The span of each reconcile, and the level at which conflicts are logged.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use ::tracing::{
    Dispatch, Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::{NoSubscriber, set_default},
};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};
use windlass_controller::{ErrorReport, Failure, InformerController, Outcome, Request};

use crate::support::{Refused, Rig, config, pass, secs};

/// The fields of a span or an event.
#[derive(Clone, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// A span that was closed, with the fields of the spans around it.
struct ClosedSpan {
    name: &'static str,
    fields: Fields,
    duration: Duration,
}

/// A log line.
struct Line {
    level: Level,
    fields: Fields,
}

/// Records the closed spans and the log lines of a thread, on paused time.
#[derive(Clone, Default)]
struct Recorder {
    spans: Arc<Mutex<Vec<ClosedSpan>>>,
    lines: Arc<Mutex<Vec<Line>>>,
}

/// When a span began, in paused time.
struct Began(Instant);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, spans: Context<'_, S>) {
        let span = spans.span(id).expect("it is new");
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut extensions = span.extensions_mut();
        extensions.insert(fields);
        extensions.insert(Began(Instant::now()));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, spans: Context<'_, S>) {
        let span = spans.span(id).expect("it is open");
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        self.lines.lock().push(Line { level, fields });
    }

    fn on_close(&self, id: Id, spans: Context<'_, S>) {
        let span = spans.span(&id).expect("it is there until it is closed");
        let mut fields = Fields::default();
        for around in span.scope().from_root() {
            if let Some(own) = around.extensions().get::<Fields>() {
                fields.0.extend(own.0.clone());
            }
        }
        let extensions = span.extensions();
        let Began(began) = extensions.get::<Began>().expect("it began");
        self.spans.lock().push(ClosedSpan {
            name: span.name(),
            fields,
            duration: began.elapsed(),
        });
    }
}

impl Recorder {
    /// The reconciles that ended, in order: controller, object, attempt, outcome and seconds.
    fn reconciles(&self) -> Vec<String> {
        let spans = self.spans.lock();
        let reconciles = spans.iter().filter(|span| span.name == "reconciler");
        reconciles
            .map(|span| {
                let field = |name| span.fields.0.get(name).map_or("none", String::as_str);
                format!(
                    "{} {} {} {} {}s",
                    field("controller"),
                    field("object"),
                    field("attempt"),
                    field("outcome"),
                    span.duration.as_secs()
                )
            })
            .collect()
    }

    /// The lines about an object, with their levels.
    fn about(&self, object: &str) -> Vec<String> {
        let lines = self.lines.lock();
        let its = lines.iter().filter(|line| {
            let shown = line.fields.0.get("object");
            shown.is_some_and(|shown| shown == object)
        });
        its.map(|line| format!("{} {}", line.level, line.fields.0["message"]))
            .collect()
    }
}

/// Each call of a reconciler has one span. It lasts as long as the call, and with the span around it
/// names the controller, the object and the outcome. A conflict is no error: it is logged at `INFO`.
///
/// Rows: BO-30
#[tokio::test(start_paused = true)]
async fn each_reconcile_has_one_span_and_a_conflict_is_logged_at_info() {
    // With only one subscriber, `tracing` caches the interest of the thread that reaches a span
    // first. In another test, this thread can have no subscriber.
    static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&ANOTHER);
    let recorder = Recorder::default();
    let _guard = set_default(Registry::default().with(recorder.clone()));
    let rig = Rig::new(
        InformerController::builder()
            .name("shop")
            .retry_policy(|_: &ErrorReport<'_>| Some(secs(60))),
    );
    let calls = Mutex::new(BTreeMap::<String, u32>::new());
    rig.reconcile(move |request: Request<ConfigMap>| {
        let name = request.key().name().to_owned();
        let call = {
            let mut calls = calls.lock();
            let call = calls.entry(name.clone()).or_default();
            *call += 1;
            *call
        };
        async move {
            let (seconds, ended) = match (&*name, call) {
                ("raced", 1) => (10, Err(Failure::from(Refused("taken")).conflict())),
                ("broken", 1) => (20, Err(Failure::from(Refused("no")))),
                ("again", 1) => (30, Ok(Outcome::requeue_after(secs(60)))),
                _ => (5, Ok(Outcome::done())),
            };
            tokio::time::sleep(secs(seconds)).await;
            ended
        }
    });
    let running = rig.start_empty().await;
    for name in ["raced", "broken", "again"] {
        running.apply(config(name, 1)).await;
    }
    pass(200).await;
    running.stop().await.expect("it stops");

    assert_eq!(
        recorder.reconciles(),
        [
            "shop shop/raced 0 failed 10s",
            "shop shop/broken 0 failed 20s",
            "shop shop/again 0 requeued 30s",
            "shop shop/raced 0 done 5s",
            "shop shop/broken 1 done 5s",
            "shop shop/again 0 done 5s",
        ]
    );
    let conflict = ["INFO another writer was faster, retrying"];
    assert_eq!(recorder.about("shop/raced"), conflict);
    let error = ["ERROR call failed, retrying"];
    assert_eq!(recorder.about("shop/broken"), error);
    assert_eq!(recorder.about("shop/again"), [""; 0]);
}
