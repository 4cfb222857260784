//! A running composite controller, whose handler the test scripts.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Failure, Watch,
    composite::{
        ChildConfig, CompositeBuilder, CompositeController, CompositeHandler, FinalizeResponse,
        SyncRequest, SyncResponse,
    },
    controller::RunError,
    level::Watchable,
};

use crate::{cluster::Cluster, watched::quick};

/// A parent: `data` is that of its config map, or there is none.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Composite",
    namespaced,
    status = "CompositeStatus"
)]
pub(super) struct CompositeSpec {
    pub(super) data: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CompositeStatus {
    /// The names of the existing children.
    pub(super) children: Option<Vec<String>>,
    pub(super) note: Option<String>,
    pub(super) error: Option<String>,
    pub(super) observed_generation: Option<i64>,
}

/// A handler whose answers the test decides. It records its requests.
#[derive(Clone)]
pub(super) struct Scripted {
    requests: Arc<Mutex<Vec<SyncRequest<Composite>>>>,
    sync: Arc<Mutex<Answer>>,
    pub(super) finalize: Arc<Mutex<FinalizeResponse>>,
}

type Answer = Arc<dyn Fn(&SyncRequest<Composite>) -> Result<SyncResponse, Failure> + Send + Sync>;

impl CompositeHandler<Composite> for Scripted {
    fn sync(&self, request: &SyncRequest<Composite>) -> Result<SyncResponse, Failure> {
        self.requests.lock().push(request.clone());
        // Without the lock: it may block.
        let sync = Arc::clone(&self.sync.lock());
        sync(request)
    }

    fn finalize(&self, request: &SyncRequest<Composite>) -> Result<FinalizeResponse, Failure> {
        self.requests.lock().push(request.clone());
        Ok(self.finalize.lock().clone())
    }

    fn error_status(
        &self,
        _: &SyncRequest<Composite>,
        error: &windlass::controller::HandlerError,
    ) -> Option<Value> {
        let shown = windlass::informer::ErrorChain::new(error).to_string();
        (!shown.contains("silent")).then(|| json!({ "error": shown }))
    }
}

/// A running controller of composites.
pub(super) struct Rig {
    pub(super) handler: Scripted,
    pub(super) parents: Api<Composite>,
    pub(super) maps: Api<ConfigMap>,
    pub(super) secrets: Api<Secret>,
    running: Running,
}

/// A controller that runs.
pub(super) struct Running {
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), RunError>>,
}

pub(super) const BLOG: &str = "blog";

impl Scripted {
    pub(super) fn new() -> Self {
        Self {
            requests: Arc::default(),
            sync: Arc::new(Mutex::new(Arc::new(desired))),
            finalize: Arc::new(Mutex::new(FinalizeResponse::finished())),
        }
    }

    pub(super) fn script(
        &self,
        sync: impl Fn(&SyncRequest<Composite>) -> Result<SyncResponse, Failure> + Send + Sync + 'static,
    ) {
        *self.sync.lock() = Arc::new(sync);
    }

    pub(super) fn calls(&self, is_finalizing: bool) -> Vec<SyncRequest<Composite>> {
        let requests = self.requests.lock();
        let of = requests
            .iter()
            .filter(|it| it.is_finalizing() == is_finalizing);
        of.cloned().collect()
    }
}

/// The names of the children in a request, with their kinds.
pub(super) fn names(request: &SyncRequest<Composite>) -> Vec<String> {
    let names = request.children().iter();
    let kind = |it: &kube::api::DynamicObject| it.types.as_ref().map(|it| it.kind.clone());
    names
        .map(|it| format!("{} {}", kind(it).unwrap_or_default(), it.name_any()))
        .collect()
}

pub(super) fn child(kind: &str, name: &str, data: &str) -> Value {
    let data = match kind {
        "Secret" => json!({ "stringData": { "value": data } }),
        _ => json!({ "data": { "value": data } }),
    };
    let mut child = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
    for (key, value) in data.as_object().expect("a map") {
        child[key] = value.clone();
    }
    child
}

/// A config map with the data of the parent, and the names of the children in the status.
pub(super) fn desired(request: &SyncRequest<Composite>) -> Result<SyncResponse, Failure> {
    let mut response = SyncResponse::new(json!({ "children": names(request) }));
    if let Some(data) = &request.parent().spec.data {
        response.add_child(child("ConfigMap", request.name(), data))?;
    }
    Ok(response)
}

pub(super) fn composite(name: &str, data: Option<&str>) -> Composite {
    let data = data.map(str::to_owned);
    Composite::new(name, CompositeSpec { data })
}

impl Rig {
    pub(super) async fn start(cluster: &Cluster) -> Self {
        Self::with(cluster, ChildConfig::apply(), |builder| builder).await
    }

    pub(super) async fn with(
        cluster: &Cluster,
        of_maps: ChildConfig,
        configure: impl FnOnce(CompositeBuilder<Composite>) -> CompositeBuilder<Composite>,
    ) -> Self {
        cluster.install(&Composite::crd()).await;
        let handler = Scripted::new();
        let parents = Watch::from(cluster.api::<Composite>().await).settings(quick);
        let name = format!("composites-{}", cluster.namespace());
        let builder = CompositeController::builder(cluster.client().await, name, parents)
            .child::<ConfigMap>(of_maps)
            .child::<Secret>(ChildConfig::apply());
        let controller = configure(builder).build(handler.clone());
        let controller = controller.expect("good settings");
        Self {
            handler,
            parents: cluster.api_aside(),
            maps: cluster.api_aside(),
            secrets: cluster.api_aside(),
            running: Running::start(controller),
        }
    }

    pub(super) async fn create(&self, name: &str, data: Option<&str>) -> Composite {
        let parent = composite(name, data);
        let created = self.parents.create(&PostParams::default(), &parent).await;
        created.expect("a new object")
    }

    pub(super) async fn change(&self, data: Option<&str>) {
        let patch = Patch::Merge(json!({ "spec": { "data": data } }));
        let patched = self
            .parents
            .patch(BLOG, &PatchParams::default(), &patch)
            .await;
        patched.expect("an object that exists");
    }

    pub(super) async fn status(&self) -> Value {
        let found = self.parents.get(BLOG).await.expect("it exists");
        serde_json::to_value(found.status).expect("JSON")
    }

    /// Waits until fields of the status have these values.
    pub(super) async fn has_status(&self, expected: Value) {
        until("the status", async || {
            let status = self.status().await;
            let fields = expected.as_object().expect("a map");
            fields
                .iter()
                .all(|(key, value)| status.get(key).unwrap_or(&Value::Null) == value)
        })
        .await;
    }

    pub(super) async fn data(&self, name: &str) -> Option<String> {
        let found = self.maps.get_opt(name).await.expect("an answer")?;
        found.data?.get("value").cloned()
    }

    pub(super) async fn is_deleted(&self, name: &str) {
        let parents = &self.parents;
        until("the deletion", async || {
            parents.get_opt(name).await.expect("an answer").is_none()
        })
        .await;
    }

    pub(super) async fn stop(self) {
        self.running.stop().await;
    }
}

impl Running {
    pub(super) fn start<P: Watchable>(controller: CompositeController<P>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        let task = AbortOnDropHandle::new(task);
        Self { stop, task }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        let ended = self.task.await.expect("no panic");
        ended.expect("a graceful shutdown");
    }
}

/// Asks again every 10 ms, because the server has no event for each condition.
pub(super) async fn until(what: &str, is: impl AsyncFn() -> bool) {
    for _ in 0..6_000 {
        if is().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} does not happen within a minute");
}
