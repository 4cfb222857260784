//! Composite controllers: what is written for the response of a handler, and what is left alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
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
};

use crate::{cluster::Cluster, kinds::loose_gizmo, watched::quick};

/// A parent: `data` is that of its config map, or there is none.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Composite",
    namespaced,
    status = "CompositeStatus"
)]
struct CompositeSpec {
    data: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CompositeStatus {
    /// The names of the existing children.
    children: Option<Vec<String>>,
    note: Option<String>,
    error: Option<String>,
    observed_generation: Option<i64>,
}

/// A handler whose answers the test decides. It records its requests.
#[derive(Clone)]
struct Scripted {
    requests: Arc<Mutex<Vec<SyncRequest<Composite>>>>,
    sync: Arc<Mutex<Answer>>,
    finalize: Arc<Mutex<FinalizeResponse>>,
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
struct Rig {
    handler: Scripted,
    parents: Api<Composite>,
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), RunError>>,
}

const BLOG: &str = "blog";

impl Scripted {
    fn new() -> Self {
        Self {
            requests: Arc::default(),
            sync: Arc::new(Mutex::new(Arc::new(desired))),
            finalize: Arc::new(Mutex::new(FinalizeResponse::finished())),
        }
    }

    fn script(
        &self,
        sync: impl Fn(&SyncRequest<Composite>) -> Result<SyncResponse, Failure> + Send + Sync + 'static,
    ) {
        *self.sync.lock() = Arc::new(sync);
    }

    fn calls(&self, is_finalizing: bool) -> Vec<SyncRequest<Composite>> {
        let requests = self.requests.lock();
        let of = requests
            .iter()
            .filter(|it| it.is_finalizing() == is_finalizing);
        of.cloned().collect()
    }
}

/// The names of the children in a request, with their kinds.
fn names(request: &SyncRequest<Composite>) -> Vec<String> {
    let names = request.children().iter();
    let kind = |it: &kube::api::DynamicObject| it.types.as_ref().map(|it| it.kind.clone());
    names
        .map(|it| format!("{} {}", kind(it).unwrap_or_default(), it.name_any()))
        .collect()
}

fn child(kind: &str, name: &str, data: &str) -> Value {
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
fn desired(request: &SyncRequest<Composite>) -> Result<SyncResponse, Failure> {
    let mut response = SyncResponse::new(json!({ "children": names(request) }));
    if let Some(data) = &request.parent().spec.data {
        response.add_child(child("ConfigMap", request.name(), data))?;
    }
    Ok(response)
}

fn composite(name: &str, data: Option<&str>) -> Composite {
    let data = data.map(str::to_owned);
    Composite::new(name, CompositeSpec { data })
}

impl Rig {
    async fn start(cluster: &Cluster) -> Self {
        Self::with(cluster, |builder| builder).await
    }

    async fn with(
        cluster: &Cluster,
        configure: impl FnOnce(CompositeBuilder<Composite>) -> CompositeBuilder<Composite>,
    ) -> Self {
        cluster.install(&Composite::crd()).await;
        let handler = Scripted::new();
        let parents = Watch::from(cluster.api::<Composite>().await).settings(quick);
        let name = format!("composites-{}", cluster.namespace());
        let builder = CompositeController::builder(cluster.client().await, name, parents)
            .child::<ConfigMap>(ChildConfig::apply())
            .child::<Secret>(ChildConfig::apply());
        let controller = configure(builder).build(handler.clone());
        let controller = controller.expect("good settings");
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        Self {
            handler,
            parents: cluster.api_aside(),
            maps: cluster.api_aside(),
            secrets: cluster.api_aside(),
            stop,
            task: AbortOnDropHandle::new(task),
        }
    }

    async fn create(&self, name: &str, data: Option<&str>) -> Composite {
        let parent = composite(name, data);
        let created = self.parents.create(&PostParams::default(), &parent).await;
        created.expect("a new object")
    }

    async fn change(&self, data: Option<&str>) {
        let patch = Patch::Merge(json!({ "spec": { "data": data } }));
        let patched = self
            .parents
            .patch(BLOG, &PatchParams::default(), &patch)
            .await;
        patched.expect("an object that exists");
    }

    async fn status(&self) -> Value {
        let found = self.parents.get(BLOG).await.expect("it exists");
        serde_json::to_value(found.status).expect("JSON")
    }

    /// Waits until fields of the status have these values.
    async fn has_status(&self, expected: Value) {
        until("the status", async || {
            let status = self.status().await;
            let fields = expected.as_object().expect("a map");
            fields
                .iter()
                .all(|(key, value)| status.get(key).unwrap_or(&Value::Null) == value)
        })
        .await;
    }

    async fn data(&self, name: &str) -> Option<String> {
        let found = self.maps.get_opt(name).await.expect("an answer")?;
        found.data?.get("value").cloned()
    }

    async fn is_deleted(&self, name: &str) {
        let parents = &self.parents;
        until("the deletion", async || {
            parents.get_opt(name).await.expect("an answer").is_none()
        })
        .await;
    }

    async fn stop(self) {
        self.stop.cancel();
        let ended = self.task.await.expect("no panic");
        ended.expect("a graceful shutdown");
    }
}

async fn until(what: &str, is: impl AsyncFn() -> bool) {
    for _ in 0..6_000 {
        if is().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} does not happen within a minute");
}

on_both_servers! {
    /// Rows: RO-03, RO-06, RO-07, RO-08, RO-09, RO-10, RO-15, RO-28, RO-37
    async fn children_and_status_follow_from_the_parent_and_its_children(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let parent = rig.create(BLOG, Some("1")).await;
        // The status has the child, so that `sync` was called again after the child was created.
        rig.has_status(json!({ "children": ["ConfigMap blog"], "observedGeneration": 1 })).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"));
        let calls = rig.handler.calls(false);
        assert_eq!(calls[0].name(), BLOG);
        assert_eq!(calls[0].namespace(), Some(cluster.namespace()));
        assert_eq!(Some(calls[0].uid()), parent.uid().as_deref());
        assert_eq!(calls[0].generation(), 1);
        assert!(calls[0].children().is_empty());

        rig.change(Some("2")).await;
        rig.has_status(json!({ "observedGeneration": 2 })).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("2"));
        let last = rig.handler.calls(false).pop().expect("a call");
        assert_eq!(last.parent().spec.data.as_deref(), Some("2"));

        // A foreign key of the status stays, and a key that the response does not have is removed.
        let foreign = Patch::Merge(json!({ "status": { "error": "by hand" } }));
        let patched = rig.parents.patch_status(BLOG, &PatchParams::default(), &foreign).await;
        patched.expect("the status");
        rig.handler.script(|request| {
            let mut response = SyncResponse::new(json!({ "note": "other keys" }));
            response.add_child(child("ConfigMap", "other", "3"))?;
            if request.parent().spec.data.is_none() {
                return Ok(SyncResponse::without_status());
            }
            Ok(response)
        });
        rig.change(Some("3")).await;
        let expected = json!({
            "note": "other keys", "error": "by hand", "children": null, "observedGeneration": 3,
        });
        rig.has_status(expected).await;
        assert_eq!(rig.data("other").await.as_deref(), Some("3"));
        assert_eq!(rig.data(BLOG).await, None, "it was deleted before the status was written");

        rig.change(None).await;
        until("the deletion", async || rig.data("other").await.is_none()).await;
        rig.stop().await;
    }

    /// Rows: RO-04, RO-33, RO-38
    async fn a_request_has_the_children_of_this_parent_and_no_others(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let both = |request: &SyncRequest<Composite>| {
            let mut response = SyncResponse::new(json!({ "children": names(request) }));
            response.add_child(child("ConfigMap", request.name(), "a"))?;
            response.add_child(child("Secret", request.name(), "b"))?;
            Ok::<_, Failure>(response)
        };
        rig.handler.script(both);
        rig.create("other", None).await;
        let parent = rig.create(BLOG, None).await;
        rig.has_status(json!({ "children": ["ConfigMap blog", "Secret blog"] })).await;
        let last = |name: &str| {
            let calls = rig.handler.calls(false).into_iter().rev();
            calls.into_iter().find(|it| it.name() == name).expect("a call")
        };
        let children = last(BLOG).children().clone();
        let maps = children.of::<ConfigMap>();
        assert_eq!((maps.count(), children.of::<Secret>().count(), children.count()), (1, 1, 2));
        assert!(maps.exists(BLOG) && !maps.exists("other"));
        let map = maps.get(BLOG).expect("it exists").expect("it decodes");
        let first = maps.first().expect("it exists").expect("it decodes");
        assert_eq!(map, first);
        assert_eq!(map.data.expect("data")["value"], "a");
        assert_eq!(maps.iter().count(), 1);
        assert_eq!(children.of_type("v1", "Secret").iter().next(), children.of_type("v1", "Secret").first());
        assert!(children.of::<k8s_openapi::api::core::v1::Pod>().is_empty());
        assert!(children.of::<Secret>().raw().get("missing").is_none());

        // A child that is being deleted is in the request.
        let finalizer = Patch::Merge(json!({ "metadata": { "finalizers": ["test.windlass.dev/keep"] } }));
        let params = PatchParams::default();
        rig.maps.patch(BLOG, &params, &finalizer).await.expect("patched");
        rig.maps.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        until("a call with the marked child", async || {
            let children = last(BLOG).children().clone();
            let map = children.of::<ConfigMap>().get(BLOG);
            map.is_some_and(|it| it.expect("it decodes").metadata.deletion_timestamp.is_some())
        })
        .await;

        // Its parent is replaced by one of the same name, whose child it is not.
        rig.parents.delete(BLOG, &DeleteParams::default()).await.expect("deleted");
        rig.is_deleted(BLOG).await;
        rig.handler.script(|request| {
            Ok(SyncResponse::new(json!({ "children": names(request), "note": "second" })))
        });
        let second = rig.create(BLOG, None).await;
        assert_ne!(second.uid(), parent.uid());
        rig.has_status(json!({ "note": "second", "children": [] })).await;
        let kept = rig.maps.get(BLOG).await.expect("it is kept by its finalizer");
        let owner = &kept.owner_references()[0];
        assert_eq!(Some(&owner.uid), parent.uid().as_ref());
        rig.secrets.get(BLOG).await.expect("nothing is pruned of another parent");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        rig.maps.patch(BLOG, &params, &free).await.expect("freed");
        rig.stop().await;
    }

    /// Rows: RO-26, RO-27, RO-41
    async fn a_child_keeps_its_labels_and_the_fields_of_others_and_comes_back(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let list = Arc::new(Mutex::new(json!(["a", "b"])));
        let finalizers = Arc::clone(&list);
        rig.handler.script(move |request| {
            let mut response = SyncResponse::new(json!({ "children": names(request) }));
            let mut map = child("ConfigMap", "web", "a");
            let all = finalizers.lock().clone();
            let all = all.as_array().into_iter().flatten().filter_map(Value::as_str);
            let all: Vec<_> = all.map(|it| format!("test.windlass.dev/{it}")).collect();
            map["metadata"]["finalizers"] = all.into();
            response.add_child(map)?;
            Ok(response)
        });
        let parent = rig.create(BLOG, None).await;
        rig.has_status(json!({ "children": ["ConfigMap web"], "observedGeneration": 1 })).await;
        let created = rig.maps.get("web").await.expect("it exists");
        let params = PatchParams { field_manager: Some("another".into()), ..PatchParams::default() };

        // Without its labels it is not selected. They come back, on the same object.
        let unlabelled = Patch::Merge(json!({ "metadata": { "labels": null } }));
        rig.maps.patch("web", &params, &unlabelled).await.expect("patched");
        until("the labels", async || {
            let map = rig.maps.get("web").await.expect("it exists");
            map.labels().get("windlass.dev/parent-uid") == parent.uid().as_ref()
        })
        .await;
        let restored = rig.maps.get("web").await.expect("it exists");
        assert_eq!(restored.uid(), created.uid());
        let manager = format!("composites-{}", cluster.namespace());
        assert_eq!(restored.labels()["app.kubernetes.io/managed-by"], manager);
        assert_eq!(Some(&restored.owner_references()[0].uid), parent.uid().as_ref());

        // Fields and items of others stay, and an emptied list becomes empty.
        let theirs = Patch::Merge(json!({ "data": { "theirs": "x" } }));
        rig.maps.patch("web", &params, &theirs).await.expect("patched");
        let apply = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "web", "finalizers": ["test.windlass.dev/theirs"] },
        });
        let apply = Patch::Apply(apply);
        rig.maps.patch("web", &params, &apply).await.expect("applied");
        *list.lock() = json!([]);
        rig.change(Some("again")).await;
        rig.has_status(json!({ "observedGeneration": 2 })).await;
        let map = rig.maps.get("web").await.expect("it exists");
        assert_eq!(map.finalizers(), ["test.windlass.dev/theirs"]);
        assert_eq!(map.data.expect("data")["theirs"], "x");

        // A child that is being deleted is left alone, and created again after that.
        rig.maps.delete("web", &DeleteParams::default()).await.expect("marked");
        rig.change(Some("third")).await;
        rig.has_status(json!({ "observedGeneration": 3 })).await;
        let marked = rig.maps.get("web").await.expect("it is kept");
        assert!(marked.metadata.deletion_timestamp.is_some());
        assert_eq!(marked.uid(), created.uid());
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        rig.maps.patch("web", &PatchParams::default(), &free).await.expect("freed");
        until("a new child", async || {
            let map = rig.maps.get_opt("web").await.expect("an answer");
            map.is_some_and(|it| it.uid() != created.uid())
        })
        .await;
        rig.stop().await;
    }

    /// Rows: RO-12, RO-13, RO-30, RO-32, RO-36
    async fn an_error_or_a_panic_changes_no_child(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        rig.create(BLOG, Some("1")).await;
        rig.has_status(json!({ "children": ["ConfigMap blog"], "observedGeneration": 1 })).await;
        let before = rig.parents.get(BLOG).await.expect("it exists");

        // Without an error status nothing is written.
        let failed = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&failed);
        rig.handler.script(move |request| {
            if request.name() != BLOG {
                return desired(request);
            }
            count.fetch_add(1, Ordering::Relaxed);
            Err("silent".into())
        });
        rig.change(Some("2")).await;
        until("three calls", async || failed.load(Ordering::Relaxed) >= 3).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"));
        let after = rig.parents.get(BLOG).await.expect("it exists");
        assert_eq!(
            serde_json::to_value(&after.status).expect("JSON"),
            serde_json::to_value(&before.status).expect("JSON"),
        );
        let map = rig.maps.get(BLOG).await.expect("it exists");
        assert!(map.metadata.deletion_timestamp.is_none());
        // Other parents are not disturbed.
        rig.create("other", Some("x")).await;
        until("the other child", async || rig.data("other").await.is_some()).await;

        // An error, or a panic, is shown in the status.
        rig.handler.script(|_| Err("the template is wrong".into()));
        rig.has_status(json!({
            "error": "the handler failed: the template is wrong", "observedGeneration": 1,
        }))
        .await;
        rig.handler.script(|_| panic!("on purpose"));
        rig.has_status(json!({ "error": "the handler panicked: on purpose" })).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"));
        rig.handler.script(desired);
        rig.has_status(json!({ "error": null, "observedGeneration": 2 })).await;
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("2"));
        rig.stop().await;
    }

    /// Rows: RO-16, RO-17, RO-19, RO-20, RO-21
    async fn a_parent_is_kept_until_its_clean_up_has_finished(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        rig.create(BLOG, Some("1")).await;
        rig.has_status(json!({ "children": ["ConfigMap blog"] })).await;
        let name = format!("composites-{}", cluster.namespace());
        let first = &rig.handler.calls(false)[0];
        assert_eq!(first.parent().finalizers(), std::slice::from_ref(&name), "before the first call");

        let syncs = rig.handler.calls(false).len();
        let unfinished = FinalizeResponse::retry_after(Duration::from_millis(200))
            .status(json!({ "note": "the disk is detached" }));
        *rig.handler.finalize.lock() = unfinished;
        rig.parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        rig.has_status(json!({ "note": "the disk is detached" })).await;
        until("repeated calls", async || rig.handler.calls(true).len() >= 3).await;
        assert_eq!(rig.handler.calls(false).len(), syncs, "`sync` is not called any more");
        let kept = rig.parents.get(BLOG).await.expect("it is kept");
        assert_eq!(kept.finalizers(), [name]);
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"), "its children stay");

        // A change of a child causes a call before the delay.
        *rig.handler.finalize.lock() = FinalizeResponse::retry_after(Duration::from_secs(3600));
        let calls = rig.handler.calls(true).len();
        until("a call", async || rig.handler.calls(true).len() > calls).await;
        *rig.handler.finalize.lock() = FinalizeResponse::finished();
        let changed = Patch::Merge(json!({ "data": { "other": "x" } }));
        rig.maps.patch(BLOG, &PatchParams::default(), &changed).await.expect("patched");
        rig.is_deleted(BLOG).await;
        rig.stop().await;
    }

    /// Rows: RO-17, RO-22
    async fn a_parent_that_is_deleted_while_no_controller_runs_gets_its_clean_up(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        rig.create(BLOG, Some("1")).await;
        rig.has_status(json!({ "children": ["ConfigMap blog"] })).await;
        rig.stop().await;
        let parents = cluster.api_aside::<Composite>();
        parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        parents.get(BLOG).await.expect("it is kept");

        let rig = Rig::start(&cluster).await;
        rig.is_deleted(BLOG).await;
        assert!(rig.handler.calls(false).is_empty());
        let calls = rig.handler.calls(true);
        let children = json!(calls[0].parent().status.as_ref().expect("a status").children);
        assert_eq!((calls.len(), children), (1, json!(["ConfigMap blog"])));
        rig.stop().await;

        // A function is a handler. Its clean-up finishes at once and leaves the status as it is.
        let watch = Watch::from(cluster.api::<Composite>().await).settings(quick);
        let name = format!("functions-{}", cluster.namespace());
        let controller = CompositeController::builder(cluster.client().await, name, watch)
            .child::<ConfigMap>(ChildConfig::apply())
            .build(desired)
            .expect("good settings");
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        let mut held = composite("held", None);
        held.metadata.finalizers = Some(vec!["test.windlass.dev/other".to_owned()]);
        parents.create(&PostParams::default(), &held).await.expect("a new object");
        let get = async || parents.get("held").await.expect("it is held");
        until("the status", async || get().await.status.is_some()).await;
        let before = serde_json::to_value(get().await.status).expect("JSON");
        parents.delete("held", &DeleteParams::default()).await.expect("marked");
        until("the release", async || get().await.finalizers().len() == 1).await;
        assert_eq!(serde_json::to_value(get().await.status).expect("JSON"), before);
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        parents.patch("held", &PatchParams::default(), &free).await.expect("freed");
        stop.cancel();
        running.await.expect("no panic").expect("no error");
    }

    /// Rows: RO-18
    async fn a_parent_that_disappears_is_cleaned_up_once_and_nothing_is_written(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let parent = rig.create(BLOG, Some("1")).await;
        rig.has_status(json!({ "children": ["ConfigMap blog"] })).await;
        let wanted = FinalizeResponse::finished()
            .status(json!({ "note": "never written" }))
            .children(vec![child("ConfigMap", "orphan", "x")]);
        *rig.handler.finalize.lock() = wanted;
        let calls = rig.handler.calls(true).len();
        // The informer sees neither the mark nor the deletion, and lists again.
        let connection = cluster.connection();
        connection.hold();
        connection.cut();
        rig.parents
            .delete(BLOG, &DeleteParams::default())
            .await
            .expect("marked");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        rig.parents
            .patch(BLOG, &PatchParams::default(), &free)
            .await
            .expect("freed");
        cluster.forget_history().await;
        connection.release();
        until("the clean-up", async || rig.handler.calls(true).len() > calls).await;
        let call = rig.handler.calls(true).pop().expect("a call");
        assert_eq!(Some(call.uid()), parent.uid().as_deref());
        assert_eq!(call.parent().spec.data.as_deref(), Some("1"));
        // A call for another parent comes after it.
        rig.create("last", Some("2")).await;
        until("the last child", async || rig.data("last").await.is_some()).await;
        assert_eq!(rig.handler.calls(true).len(), calls + 1, "once");
        assert_eq!(rig.data("orphan").await, None);
        assert_eq!(rig.data(BLOG).await.as_deref(), Some("1"), "for the garbage collector");
        rig.stop().await;
    }

    /// Rows: RO-40
    async fn the_children_of_a_foreground_deletion_are_left_to_the_garbage_collector(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        for (name, policy) in [
            ("foreground", PropagationPolicy::Foreground),
            ("orphan", PropagationPolicy::Orphan),
        ] {
            rig.create(name, Some("1")).await;
            until("the child", async || rig.data(name).await.is_some()).await;
            let calls = rig.handler.calls(true).len();
            let wanted = FinalizeResponse::retry_after(Duration::from_millis(50))
                .status(json!({ "note": name }))
                .children(vec![child("ConfigMap", "new", "x")]);
            *rig.handler.finalize.lock() = wanted;
            let delete = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
            rig.parents.delete(name, &delete).await.expect("marked");
            until("calls", async || rig.handler.calls(true).len() >= calls + 3).await;
            let kept = rig.parents.get(name).await.expect("it is kept");
            assert_eq!(kept.status.and_then(|it| it.note).as_deref(), Some(name));
            *rig.handler.finalize.lock() = FinalizeResponse::finished();
            until("the release", async || {
                let found = rig.parents.get_opt(name).await.expect("an answer");
                found.is_none_or(|it| it.finalizers().iter().all(|it| !it.starts_with("composites")))
            })
            .await;
            assert_eq!(rig.data("new").await, None, "nothing is created");
            assert_eq!(rig.data(name).await.as_deref(), Some("1"), "nothing is pruned");
            let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            _ = rig.parents.patch(name, &PatchParams::default(), &free).await;
        }
        rig.stop().await;
    }

    /// Rows: BO-40
    async fn a_clean_up_in_steps_deletes_the_children_that_a_step_does_not_have(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        rig.handler.script(|request| {
            let mut response = SyncResponse::new(json!({ "children": names(request) }));
            response.add_child(child("ConfigMap", "first", "a"))?;
            response.add_child(child("ConfigMap", "second", "b"))?;
            Ok(response)
        });
        rig.create(BLOG, None).await;
        rig.has_status(json!({ "children": ["ConfigMap first", "ConfigMap second"] })).await;
        let hour = Duration::from_secs(3600);
        *rig.handler.finalize.lock() = FinalizeResponse::retry_after(hour)
            .children(vec![child("ConfigMap", "first", "changed")]);
        rig.parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        until("the first step", async || rig.data("second").await.is_none()).await;
        until("the change", async || rig.data("first").await.as_deref() == Some("changed")).await;
        rig.parents.get(BLOG).await.expect("it is kept");
        *rig.handler.finalize.lock() = FinalizeResponse::finished().children(Vec::new());
        // Any change of a child continues the clean-up.
        let changed = Patch::Merge(json!({ "data": { "other": "x" } }));
        rig.maps.patch("first", &PatchParams::default(), &changed).await.expect("patched");
        rig.is_deleted(BLOG).await;
        assert_eq!(rig.data("first").await, None);
        rig.stop().await;
    }

    /// Rows: RO-31, RO-39
    async fn an_invalid_response_writes_nothing(cluster: Cluster) {
        let rig = Rig::start(&cluster).await;
        let invalid = Arc::new(Mutex::new(Value::Null));
        let second = Arc::clone(&invalid);
        rig.handler.script(move |_| {
            let mut response = SyncResponse::new(json!({ "note": "written" }));
            response.add_child(child("ConfigMap", "valid", "a"))?;
            response.add_child(second.lock().clone())?;
            Ok(response)
        });
        let cluster_scoped = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" } });
        let mut elsewhere = child("ConfigMap", "web", "a");
        elsewhere["metadata"]["namespace"] = "default".into();
        let mut generated = child("ConfigMap", "web", "a");
        generated["metadata"] = json!({ "generateName": "web-" });
        let unnamed = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
        rig.create(BLOG, None).await;
        for bad in [
            cluster_scoped, elsewhere, generated, unnamed, json!({}), json!("text"),
            child("ConfigMap", "valid", "b"),
        ] {
            *invalid.lock() = bad.clone();
            let calls = rig.handler.calls(false).len();
            rig.change(Some(&bad.to_string())).await;
            until("calls", async || rig.handler.calls(false).len() >= calls + 2).await;
            assert_eq!(rig.data("valid").await, None, "{bad}");
            assert_eq!(rig.status().await, Value::Null, "{bad}");
        }
        // An object that was not created for the parent is neither changed nor deleted.
        let theirs = json!({ "metadata": { "name": "theirs" }, "data": { "value": "theirs" } });
        let theirs = serde_json::from_value(theirs).expect("a config map");
        rig.maps.create(&PostParams::default(), &theirs).await.expect("a new object");
        *invalid.lock() = child("ConfigMap", "theirs", "ours");
        rig.has_status(json!({ "note": "written", "observedGeneration": null })).await;
        assert_eq!(rig.data("valid").await.as_deref(), Some("a"), "the others proceed");
        assert_eq!(rig.data("theirs").await.as_deref(), Some("theirs"));
        rig.stop().await;
    }

    /// Rows: RO-42
    async fn children_elsewhere_are_deleted_before_their_parent(cluster: Cluster) {
        let other = format!("{}-other", cluster.namespace());
        crate::cluster::create_namespace(cluster.aside(), &other).await;
        let elsewhere = ChildConfig::apply().elsewhere();
        cluster.install(&Composite::crd()).await;
        let handler = Scripted::new();
        let namespace = other.clone();
        handler.script(move |request| {
            let mut response = SyncResponse::new(json!({ "children": names(request) }));
            let mut map = child("ConfigMap", "far", "a");
            map["metadata"]["namespace"] = namespace.clone().into();
            response.add_child(map)?;
            Ok(response)
        });
        let watch = Watch::from(cluster.api::<Composite>().await).settings(quick);
        let name = format!("composites-{}", cluster.namespace());
        let controller = CompositeController::builder(cluster.client().await, name, watch)
            .child::<ConfigMap>(elsewhere)
            .build(handler.clone())
            .expect("good settings");
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        let parents = cluster.api_aside::<Composite>();
        parents.create(&PostParams::default(), &composite(BLOG, None)).await.expect("a new object");
        let maps: Api<ConfigMap> = Api::namespaced(cluster.aside(), &other);
        until("the child", async || maps.get_opt("far").await.expect("an answer").is_some()).await;
        let far = maps.get("far").await.expect("it exists");
        assert!(far.owner_references().is_empty());
        until("the status", async || {
            let parent = parents.get(BLOG).await.expect("it exists");
            let children = parent.status.and_then(|it| it.children);
            children.is_some_and(|it| it == ["ConfigMap far"])
        })
        .await;

        // The child is kept by a finalizer, and keeps its parent.
        let finalizer = Patch::Merge(json!({ "metadata": { "finalizers": ["test.windlass.dev/keep"] } }));
        let params = PatchParams::default();
        maps.patch("far", &params, &finalizer).await.expect("patched");
        parents.delete(BLOG, &DeleteParams::default()).await.expect("marked");
        until("the mark", async || {
            let far = maps.get("far").await.expect("it is kept");
            far.metadata.deletion_timestamp.is_some()
        })
        .await;
        // Real time: a parent that does not wait for its child would be deleted in it.
        tokio::time::sleep(Duration::from_millis(300)).await;
        parents.get(BLOG).await.expect("it waits for its child");
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        maps.patch("far", &params, &free).await.expect("freed");
        until("the deletion", async || parents.get_opt(BLOG).await.expect("an answer").is_none()).await;
        stop.cancel();
        running.await.expect("no panic").expect("no error");
    }

    /// The schema of a gadget's status declares no `observedGeneration`.
    async fn a_status_without_an_observed_generation_is_written_without_it(cluster: Cluster) {
        use crate::kinds::{Gadget, GadgetSpec};

        cluster.install(&Gadget::crd()).await;
        let parents = Watch::from(cluster.api::<Gadget>().await).settings(quick);
        let name = format!("composites-{}", cluster.namespace());
        let controller = CompositeController::builder(cluster.client().await, name, parents)
            .child::<ConfigMap>(ChildConfig::apply())
            .build(|_: &SyncRequest<Gadget>| {
                Ok::<_, Failure>(SyncResponse::new(json!({ "ready": true })))
            })
            .expect("good settings");
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        let gadgets = cluster.api_aside::<Gadget>();
        let gadget = Gadget::new(BLOG, GadgetSpec { size: 1 });
        gadgets.create(&PostParams::default(), &gadget).await.expect("a new object");
        until("the status", async || {
            let gadget = gadgets.get(BLOG).await.expect("it exists");
            gadget.status.is_some_and(|it| it.ready)
        })
        .await;
        stop.cancel();
        running.await.expect("no panic").expect("no error");
    }

    /// Rows: RO-44
    async fn a_status_without_the_subresource_is_an_error_that_names_it(cluster: Cluster) {
        use kube::api::{ApiResource, DynamicObject};
        use crate::kinds::Gizmo;

        cluster.install(&loose_gizmo()).await;
        let types = ApiResource::erase::<Gizmo>(&());
        let api = Api::<DynamicObject>::namespaced_with(cluster.client().await, cluster.namespace(), &types);
        let parents = Watch::from((api.clone(), types.clone())).settings(quick);
        let reports: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&reports);
        let name = format!("composites-{}", cluster.namespace());
        let client = cluster.client().await;
        let controller = CompositeController::builder_of_kind(client, name, parents, types.clone())
            .child::<ConfigMap>(ChildConfig::apply())
            .with_controller(move |builder| {
                builder.on_error(move |report| log.lock().push(report.to_string()))
            })
            .build(|_: &SyncRequest| Ok::<_, Failure>(SyncResponse::new(json!({ "ready": true }))))
            .expect("good settings");
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        let gizmo = DynamicObject::new(BLOG, &types).data(json!({ "spec": { "size": 1 } }));
        api.create(&PostParams::default(), &gizmo).await.expect("a new object");
        until("a report", async || !reports.lock().is_empty()).await;
        let report = reports.lock()[0].clone();
        assert!(report.contains("the kind has no status subresource"), "{report}");
        assert!(report.contains("gizmos.test.windlass.dev"), "{report}");
        assert!(api.get(BLOG).await.expect("it exists").data.get("status").is_none());
        stop.cancel();
        running.await.expect("no panic").expect("no error");
    }

    /// Rows: RO-02, RO-05, RO-45
    async fn blocking_calls_for_one_parent_never_overlap(cluster: Cluster) {
        let limit = Duration::from_millis(100);
        let rig = Rig::with(&cluster, |it| it.with_controller(move |it| it.timeout(limit))).await;
        rig.create("other", None).await;
        rig.create(BLOG, Some("1")).await;
        until("the child", async || rig.data(BLOG).await.is_some()).await;

        let (running, overlaps) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (block, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler = {
            let (running, overlaps, seen) =
                (Arc::clone(&running), Arc::clone(&overlaps), Arc::clone(&seen));
            move |request: &SyncRequest<Composite>| {
                if request.name() != BLOG {
                    return desired(request);
                }
                overlaps.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let data = || {
                    let map = request.children().of::<ConfigMap>().get(BLOG);
                    let map = map.and_then(Result::ok).and_then(|it| it.data);
                    map.and_then(|it| it.get("value").cloned())
                };
                let before = data();
                _ = blocked.lock().recv_timeout(Duration::from_secs(20));
                seen.lock().push((before, data()));
                running.fetch_sub(1, Ordering::SeqCst);
                desired(request)
            }
        };
        rig.handler.script(handler);
        rig.change(Some("2")).await;
        until("a blocked call", async || running.load(Ordering::SeqCst) == 1).await;
        // Another parent proceeds, and the cache changes during the call.
        let patch = Patch::Merge(json!({ "spec": { "data": "x" } }));
        let patched = rig.parents.patch("other", &PatchParams::default(), &patch).await;
        patched.expect("an object that exists");
        until("the other child", async || rig.data("other").await.is_some()).await;
        let changed = Patch::Merge(json!({ "data": { "value": "by hand" } }));
        rig.maps.patch(BLOG, &PatchParams::default(), &changed).await.expect("patched");
        // Several time-outs pass.
        until("time-outs", async || {
            let status = rig.status().await;
            status["error"].as_str().is_some_and(|it| it.contains("timed out"))
        })
        .await;
        tokio::time::sleep(limit * 5).await;
        assert_eq!(running.load(Ordering::SeqCst), 1, "the next call waits");
        drop(block);
        until("the second state", async || rig.data(BLOG).await.as_deref() == Some("2")).await;
        assert_eq!(overlaps.load(Ordering::SeqCst), 1);
        let first = seen.lock()[0].clone();
        assert_eq!(first, (Some("1".to_owned()), Some("1".to_owned())), "a request does not change");
        rig.stop().await;
    }
}
