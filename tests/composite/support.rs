//! Sites with a config map each, and a handler whose answers the test decides.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, CustomResource};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass::{
    Failure, Watch,
    composite::{
        ChildConfig, CompositeController, CompositeHandler, FinalizeResponse, SyncRequest,
        SyncResponse,
    },
    kit::{Kit, KitOperator},
};

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "composite.windlass.dev",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus"
)]
pub(crate) struct SiteSpec {
    pub(crate) theme: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteStatus {
    pub(crate) children: Option<i64>,
    pub(crate) observed_generation: Option<i64>,
}

type Answer = dyn Fn(&SyncRequest<Site>) -> Result<SyncResponse, Failure> + Send + Sync;

/// A handler whose answers the test decides, with the times of its calls.
#[derive(Clone)]
pub(crate) struct Scripted {
    sync: Arc<Answer>,
    pub(crate) finalize: Arc<Mutex<Vec<Result<FinalizeResponse, &'static str>>>>,
    pub(crate) syncs: Arc<Mutex<Vec<Instant>>>,
    pub(crate) finalizes: Arc<Mutex<Vec<Instant>>>,
}

impl Scripted {
    pub(crate) fn new(
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
    pub(crate) fn start(&self, kit: &Kit) -> KitOperator {
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

pub(crate) async fn run(
    client: Client,
    handler: Scripted,
    stop: CancellationToken,
) -> Result<(), String> {
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
pub(crate) fn desired(request: &SyncRequest<Site>) -> Result<SyncResponse, Failure> {
    let mut response = SyncResponse::new(json!({ "children": request.children().count() }));
    response.add_child(child(request.name(), &request.parent().spec.theme))?;
    Ok(response)
}

pub(crate) fn child(name: &str, theme: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name }, "data": { "theme": theme },
    })
}

pub(crate) fn site(name: &str, theme: &str) -> Site {
    let theme = theme.to_owned();
    Site::new(name, SiteSpec { theme })
}

pub(crate) fn seconds(times: &[Instant]) -> Vec<u64> {
    let pairs = times.windows(2);
    pairs.map(|pair| (pair[1] - pair[0]).as_secs()).collect()
}
