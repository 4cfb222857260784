//! Composite controllers in virtual time: delays, crashes, and steady states.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, CustomResource, CustomResourceExt as _};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_composite::{
    AsyncCompositeHandler, ChildConfig, CompositeController, CompositeHandler, FinalizeResponse,
    SyncRequest, SyncResponse,
};
use windlass_controller::{Failure, Runnable as _, Watch};
use windlass_simulate::kit::{self, Kit, Verb};

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "composite.windlass.dev",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus"
)]
struct SiteSpec {
    theme: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SiteStatus {
    children: Option<i64>,
    observed_generation: Option<i64>,
}

type Answer = dyn Fn(&SyncRequest<Site>) -> Result<SyncResponse, Failure> + Send + Sync;

/// A handler whose answers the test decides, with the times of its calls.
#[derive(Clone)]
struct Scripted {
    sync: Arc<Answer>,
    finalize: Arc<Mutex<Vec<Result<FinalizeResponse, &'static str>>>>,
    syncs: Arc<Mutex<Vec<Instant>>>,
    finalizes: Arc<Mutex<Vec<Instant>>>,
}

impl Scripted {
    fn new(
        sync: impl Fn(&SyncRequest<Site>) -> Result<SyncResponse, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self {
            sync: Arc::new(sync),
            finalize: Arc::default(),
            syncs: Arc::default(),
            finalizes: Arc::default(),
        }
    }

    /// Starts a controller of this handler.
    fn start(&self, kit: &Kit) -> kit::KitOperator {
        let handler = self.clone();
        kit.start(move |client, stop| run(client, handler.clone(), stop))
    }
}

impl CompositeHandler<Site> for Scripted {
    fn sync(&self, request: &SyncRequest<Site>) -> Result<SyncResponse, Failure> {
        self.syncs.lock().push(Instant::now());
        (self.sync)(request)
    }

    fn finalize(&self, _: &SyncRequest<Site>) -> Result<FinalizeResponse, Failure> {
        self.finalizes.lock().push(Instant::now());
        let mut answers = self.finalize.lock();
        if answers.is_empty() {
            return Ok(FinalizeResponse::finished());
        }
        Ok(answers.remove(0)?)
    }
}

async fn run(client: Client, handler: Scripted, stop: CancellationToken) -> Result<(), String> {
    let controller = CompositeController::builder(client, "sites", Watch::all())
        .child::<ConfigMap>(ChildConfig::apply())
        // It is spread: it can end at any time.
        .with_controller(|it| it.longest_interval(None))
        .build(handler)
        .expect("good settings");
    let ended = controller.run(stop).await;
    ended.map_err(|error| error.to_string())
}

/// A config map with the theme, and the number of children in the status.
fn desired(request: &SyncRequest<Site>) -> Result<SyncResponse, Failure> {
    let mut response = SyncResponse::new(json!({ "children": request.children().count() }));
    response.add_child(child(request.name(), &request.parent().spec.theme))?;
    Ok(response)
}

fn child(name: &str, theme: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name }, "data": { "theme": theme },
    })
}

fn site(name: &str, theme: &str) -> Site {
    let theme = theme.to_owned();
    Site::new(name, SiteSpec { theme })
}

fn seconds(times: &[Instant]) -> Vec<u64> {
    let pairs = times.windows(2);
    pairs.map(|pair| (pair[1] - pair[0]).as_secs()).collect()
}

/// Rows: RO-11, RO-37
#[test]
fn without_a_change_nothing_is_called_and_nothing_is_written() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        let operator = handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        // It was called again after the child was created.
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "children": 1, "observedGeneration": 1 } }))
            .await;
        let (since, calls) = (kit.mark(), handler.syncs.lock().len());
        kit.advance(Duration::from_secs(3600)).await;
        assert_eq!(kit.writes(since), []);
        assert_eq!(handler.syncs.lock().len(), calls);

        // A status that another writer changes is no reason for a call, and a child is.
        kit.set_status::<Site>("blog", json!({ "children": 7 }))
            .await;
        kit.quiet().await;
        assert_eq!(handler.syncs.lock().len(), calls);
        kit.edit::<ConfigMap>("blog", |it| {
            let data = it.data.get_or_insert_default();
            data.insert("theme".to_owned(), "light".to_owned());
        })
        .await;
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "children": 1 } }))
            .await;

        // After a restart each object is applied once, which changes nothing.
        kit.quiet().await;
        let map = kit.get::<ConfigMap>("blog").await.expect("it exists");
        operator.restart();
        kit.quiet().await;
        let after = kit.get::<ConfigMap>("blog").await.expect("it exists");
        assert_eq!(
            after.metadata.resource_version,
            map.metadata.resource_version
        );
    });
}

/// Rows: RO-14
#[test]
fn after_a_crash_before_the_writes_sync_is_called_with_the_same_state() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let states = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&states);
        let handler = Scripted::new(move |request| {
            let version = request.parent().metadata.resource_version.clone();
            log.lock().push((version, request.children().count()));
            desired(request)
        });
        let operator = handler.start(&kit);
        let hold = kit.hold(Verb::Patch, "configmaps");
        kit.create(&site("blog", "dark")).await;
        while handler.syncs.lock().is_empty() {
            kit.advance(Duration::from_millis(10)).await;
        }
        operator.crash();
        drop(hold);
        operator.restart();
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
        let states = states.lock().clone();
        assert_eq!(states[0], states[1]);
        assert_eq!(states[0].1, 0);
    });
}

/// Rows: RO-21, RO-24
#[test]
fn a_clean_up_is_repeated_after_its_delay_and_a_failed_one_with_a_backoff() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        *handler.finalize.lock() = vec![
            Ok(FinalizeResponse::unfinished()),
            Ok(FinalizeResponse::unfinished()),
            Ok(FinalizeResponse::retry_after(Duration::from_secs(60))),
            Err("the registry is down"),
            Err("the registry is down"),
            Err("the registry is down"),
        ];
        handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        kit.delete::<Site>("blog").await;
        kit.advance(Duration::from_secs(120)).await;
        kit.expect_gone::<Site>("blog").await;
        let times = handler.finalizes.lock().clone();
        assert_eq!(times.len(), 7, "{times:?}");
        assert_eq!(seconds(&times)[..3], [3, 3, 60], "not counted twice");
        for (at, most) in [(3, 150), (4, 225), (5, 338)] {
            let delay = times[at + 1] - times[at];
            // With the latencies of the kit.
            let most = Duration::from_millis(most + 20);
            assert!(!delay.is_zero() && delay <= most, "{at}: {delay:?}");
        }
    });
}

/// Rows: RO-29
#[test]
fn a_resync_is_superseded_by_an_earlier_call() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(|request| {
            let mut response = desired(request)?;
            response.resync_after(Duration::from_secs(600));
            Ok(response)
        });
        handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.advance(Duration::from_secs(60)).await;
        let calls = handler.syncs.lock().len();
        kit.advance(Duration::from_secs(400)).await;
        assert_eq!(handler.syncs.lock().len(), calls, "not yet");
        kit.edit::<Site>("blog", |it| it.spec.theme = "light".to_owned())
            .await;
        kit.advance(Duration::from_secs(500)).await;
        let times = handler.syncs.lock().clone();
        let last = times.last().expect("a call");
        assert!(
            last.elapsed() > Duration::from_secs(490),
            "the first delay was dropped"
        );
        kit.advance(Duration::from_secs(150)).await;
        let later = handler.syncs.lock().clone();
        assert_eq!(later.len(), times.len() + 1, "although nothing has changed");
        assert_eq!((later[times.len()] - *last).as_secs(), 600);
    });
}

/// Rows: RO-13, RO-32
#[test]
fn a_failing_parent_is_repeated_with_a_backoff_and_disturbs_no_other() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let failed = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&failed);
        let handler = Scripted::new(move |request| {
            if request.name() == "bad" {
                log.lock().push(Instant::now());
                return Err("always".into());
            }
            desired(request)
        });
        handler.start(&kit);
        kit.create(&site("bad", "dark")).await;
        kit.create(&site("blog", "dark")).await;
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
        kit.advance(Duration::from_secs(60)).await;
        let since = kit.mark();
        kit.advance(Duration::from_secs(3600)).await;
        let gaps = seconds(&failed.lock().clone());
        assert!((10..60).contains(&gaps.len()), "{gaps:?}");
        assert!(
            gaps.iter().all(|gap| *gap <= 900),
            "600 s, plus a half: {gaps:?}"
        );
        assert_eq!(kit.writes(since), []);
    });
}

/// Asks another system, without a thread.
struct Asks(Arc<AtomicU32>);

impl AsyncCompositeHandler<Site> for Asks {
    async fn sync(&self, request: SyncRequest<Site>) -> Result<SyncResponse, Failure> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.0.fetch_add(1, Ordering::Relaxed);
        desired(&request)
    }
}

#[test]
fn an_asynchronous_handler_is_awaited() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let calls = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&calls);
        kit.start(move |client: Client, stop| {
            let count = Arc::clone(&count);
            async move {
                let controller = CompositeController::builder(client, "sites", Watch::all())
                    .child::<ConfigMap>(ChildConfig::apply())
                    .build_async(Asks(count))
                    .expect("good settings");
                assert_eq!(controller.name(), "sites");
                assert!(!controller.prometheus_collectors().is_empty());
                controller.run(stop).await
            }
        });
        kit.create(&site("blog", "dark")).await;
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "children": 1 } }))
            .await;
        assert!(calls.load(Ordering::Relaxed) >= 2);
        kit.delete::<Site>("blog").await;
        kit.expect_gone::<Site>("blog").await;
    });
}
