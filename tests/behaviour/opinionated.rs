//! Watchers and reconcilers with finalizers: what no downtime and no crash makes them miss.

use std::{future::Future, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{
    DefaultFinalizerSupplier, DeleteOrder, FinalizerName, FinalizerPatch, Finalizers, Informer,
    InformerController, Leaving, ObjectKey, OpinionatedWatcher, PatchClient, SimpleWatcher,
};

use crate::{
    cluster::Cluster,
    kinds::{Gadget, GadgetSpec, config, labelled},
    watched::quick,
};

mod operator;

use self::operator::{Crashing, Log, Running, source};

const OWN: &str = "test.windlass.dev/own";
const GUARD: &str = "test.windlass.dev/own.in-progress";
const THEIRS: &str = "test.windlass.dev/theirs";

on_both_servers! {
    /// Rows: GA-74, GA-76, GA-79, GA-80, GA-82
    async fn a_watcher_has_the_finalizer_from_the_add_to_the_delete(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let watcher = log.opinionated_watcher(cluster.aside(), OWN);
        let running = Running::watch(source(&cluster).await, watcher);
        create(&configs, &config("a", "1")).await;
        has(&configs, "a", &[OWN]).await;
        assert_eq!(log.said(), ["add a=1"]);
        merge(&configs, "a", json!({ "data": { "value": "2" } })).await;
        log.until("update a=2").await;
        log.fail(2);
        delete(&configs, "a").await;
        gone(&configs, "a").await;
        // To be sure that whatever was to be told has been.
        create(&configs, &config("z", "1")).await;
        has(&configs, "z", &[OWN]).await;
        let deletes = ["delete a=2"; 3];
        assert_eq!(log.said(), [&["add a=1", "update a=2"], &deletes[..], &["add z=1"]].concat());
        running.stop().await;
    }

    /// Rows: GA-68, GA-90
    async fn a_reconciler_has_the_finalizer_from_the_create_to_the_delete(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let reconciler = log.opinionated_reconciler(cluster.aside(), OWN);
        let running = Running::reconcile(source(&cluster).await, reconciler);
        create(&configs, &config("a", "1")).await;
        has(&configs, "a", &[OWN]).await;
        merge(&configs, "a", json!({ "data": { "value": "2" } })).await;
        log.until("updated a=2").await;
        log.fail(2);
        delete(&configs, "a").await;
        gone(&configs, "a").await;
        create(&configs, &config("z", "1")).await;
        has(&configs, "z", &[OWN]).await;
        let deletes = ["deleted a=2"; 3];
        assert_eq!(
            log.said(),
            [&["created a=1", "updated a=2"], &deletes[..], &["created z=1"]].concat()
        );
        running.stop().await;
    }

    /// Rows: GA-69
    async fn the_order_of_the_page_deletes_after_the_finalizer_has_gone(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let reconciler = log
            .opinionated_reconciler(cluster.aside(), OWN)
            .delete_order(DeleteOrder::AfterRemoval);
        let running = Running::reconcile(source(&cluster).await, reconciler);
        create(&configs, &config("a", "1")).await;
        has(&configs, "a", &[OWN]).await;
        log.fail(1);
        delete(&configs, "a").await;
        // It is gone though the call has failed; the call is made again.
        gone(&configs, "a").await;
        log.until("deleted a=1").await;
        create(&configs, &config("z", "1")).await;
        has(&configs, "z", &[OWN]).await;
        log.until_times(2, "deleted a=1").await;
        running.stop().await;
    }

    /// Rows: GA-75, GA-77, GA-78
    async fn a_watcher_that_was_down_is_told_of_the_delete(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let start = || async {
            let watcher = log.opinionated_watcher(cluster.aside(), OWN);
            Running::watch(source(&cluster).await, watcher)
        };
        down(&configs, &log, start, ["sync b=1", "delete a=1"]).await;
    }

    /// Rows: GA-67, GA-71
    async fn a_reconciler_that_was_down_is_told_of_the_delete(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let start = || async {
            let reconciler = log.opinionated_reconciler(cluster.aside(), OWN);
            Running::reconcile(source(&cluster).await, reconciler)
        };
        down(&configs, &log, start, ["resynced b=1", "deleted a=1"]).await;
    }

    /// Rows: GA-75
    async fn a_watcher_that_crashes_between_two_writes_misses_nothing(cluster: Cluster) {
        for write in 1..=3 {
            let log = Log::new();
            let start = |client: Crashing| {
                let log = log.clone();
                let cluster = &cluster;
                async move {
                    let watcher = log.opinionated_watcher(client, OWN);
                    Running::watch(source(cluster).await, watcher)
                }
            };
            crash(&cluster, write, &log, start, ["add", "delete"]).await;
        }
    }

    /// Rows: GA-71
    async fn a_reconciler_that_crashes_between_two_writes_misses_nothing(cluster: Cluster) {
        for write in 1..=3 {
            let log = Log::new();
            let start = |client: Crashing| {
                let log = log.clone();
                let cluster = &cluster;
                async move {
                    let reconciler = log.opinionated_reconciler(client, OWN);
                    Running::reconcile(source(cluster).await, reconciler)
                }
            };
            crash(&cluster, write, &log, start, ["created", "deleted"]).await;
        }
    }

    async fn two_operators_on_one_kind_each_clean_up_once(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let (one, two) = (Log::of("one "), Log::of("two "));
        let watcher = one.opinionated_watcher(cluster.aside(), OWN);
        let first = Running::watch(source(&cluster).await, watcher);
        let reconciler = two.opinionated_reconciler(cluster.aside(), THEIRS);
        let second = Running::reconcile(source(&cluster).await, reconciler);
        let names = ["a", "b", "c", "d", "e"];
        for name in names {
            create(&configs, &config(name, "1")).await;
        }
        for name in names {
            let both = |object: Option<&ConfigMap>| {
                object.is_some_and(|object| {
                    let has = |it: &str| object.finalizers().iter().any(|own| own == it);
                    object.finalizers().len() == 2 && has(OWN) && has(THEIRS)
                })
            };
            wait(&configs, name, both).await;
            delete(&configs, name).await;
        }
        for name in names {
            gone(&configs, name).await;
            assert_eq!(one.count(&format!("one delete {name}=1")), 1);
            assert_eq!(two.count(&format!("two deleted {name}=1")), 1);
        }
        first.stop().await;
        second.stop().await;
    }

    async fn a_recreated_object_inherits_no_calls(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let watcher = log.opinionated_watcher(cluster.aside(), OWN);
        let running = Running::watch(source(&cluster).await, watcher);
        log.fail(3);
        create(&configs, &config("a", "1")).await;
        log.until("add a=1").await;
        // By force: nobody is asked.
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        delete(&configs, "a").await;
        merge_if_there(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        gone(&configs, "a").await;
        log.fail(0);
        create(&configs, &config("a", "2")).await;
        has(&configs, "a", &[OWN]).await;
        let before = log.count("add a=1");
        merge(&configs, "a", json!({ "data": { "value": "3" } })).await;
        log.until("update a=3").await;
        assert_eq!((log.count("add a=1"), log.count("add a=2")), (before, 1));
        running.stop().await;
    }

    async fn who_loses_a_race_looks_again_and_keeps_what_others_wrote(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let racing = Racing { client: cluster.aside() };
        let watcher = log.opinionated_watcher(racing, OWN);
        let running = Running::watch(source(&cluster).await, watcher);
        create(&configs, &config("a", "1")).await;
        let theirs: Vec<_> = (1..=2).map(|n| format!("{THEIRS}-{n}")).collect();
        has(&configs, "a", &[&theirs[0], OWN, &theirs[1]]).await;
        assert_eq!(log.count("add a=1"), 1);
        delete(&configs, "a").await;
        has(&configs, "a", &[&theirs[0], &theirs[1]]).await;
        assert_eq!(log.count("delete a=1"), 1);
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        gone(&configs, "a").await;
        running.stop().await;
    }

    async fn what_leaves_the_selector_can_be_deleted(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        for (leaving, calls) in [
            (Leaving::Release, &["add"][..]),
            (Leaving::CleanUp, &["add", "delete"]),
        ] {
            let log = Log::new();
            let watcher = log.opinionated_watcher(cluster.aside(), OWN).on_leave(leaving);
            let source = source(&cluster).await.labels("app=web").expect("a selector");
            let running = Running::watch(source, watcher);
            create(&configs, &labelled(config("a", "1"), "app", "web")).await;
            has(&configs, "a", &[OWN]).await;
            merge(&configs, "a", json!({ "metadata": { "labels": { "app": "db" } } })).await;
            has(&configs, "a", &[]).await;
            let calls: Vec<_> = calls.iter().map(|call| format!("{call} a=1")).collect();
            assert_eq!(log.said(), calls, "{leaving:?}");
            delete(&configs, "a").await;
            gone(&configs, "a").await;
            running.stop().await;
        }
    }

    async fn a_dying_object_gets_no_finalizer(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let mut object = config("a", "1");
        object.finalizers_mut().push(THEIRS.to_owned());
        create(&configs, &object).await;
        delete(&configs, "a").await;
        let reconciler = log.opinionated_reconciler(cluster.aside(), OWN);
        let running = Running::reconcile(source(&cluster).await, reconciler);
        create(&configs, &config("z", "1")).await;
        has(&configs, "z", &[OWN]).await;
        assert_eq!(configs.get("a").await.expect("there").finalizers(), [THEIRS]);
        assert_eq!(log.said(), ["created z=1"]);
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        log.until("deleted a=1").await;
        running.stop().await;
    }

    async fn a_former_name_is_replaced_and_is_held_meanwhile(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let mut object = config("a", "1");
        object.finalizers_mut().extend([OWN.to_owned(), THEIRS.to_owned()]);
        create(&configs, &object).await;
        let name = |name| FinalizerName::new(name).expect("a name");
        let today = "test.windlass.dev/today";
        let finalizers = Finalizers::new(cluster.aside(), name(today)).expect("a finalizer");
        let watcher = OpinionatedWatcher::new(finalizers.formerly(name(OWN)), log.watcher());
        let running = Running::watch(source(&cluster).await, watcher);
        has(&configs, "a", &[today, THEIRS]).await;
        delete(&configs, "a").await;
        has(&configs, "a", &[THEIRS]).await;
        assert_eq!(log.said(), ["delete a=1"], "it had been added under the former name");
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        running.stop().await;
    }

    /// Rows: GA-11, GA-79, GA-81, GA-84
    async fn a_kind_of_a_definition_takes_the_default_finalizer(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let (tell, mut told) = mpsc::channel(16);
        let tell_update = tell.clone();
        let watcher = SimpleWatcher::new()
            .on_add(move |gadget: Arc<Gadget>| {
                let tell = tell.clone();
                async move { tell.send(format!("add {}", gadget.spec.size)).await }
            })
            .on_update(move |old: Arc<Gadget>, new: Arc<Gadget>| {
                let tell = tell_update.clone();
                let line = format!("update {} {}", old.spec.size, new.spec.size);
                async move { tell.send(line).await }
            });
        let finalizers = Finalizers::new(cluster.aside(), DefaultFinalizerSupplier);
        let finalizers = finalizers.expect("a finalizer");
        assert_eq!(finalizers.name().as_str(), "operator.v1.Gadget.test.windlass.dev");
        let informer = Informer::new(quick(cluster.api::<Gadget>().await));
        let controller = InformerController::new();
        let opinionated = OpinionatedWatcher::new(finalizers, watcher);
        controller.add_watcher("gadgets", opinionated).expect("added");
        controller.add_informer("gadgets", &informer).expect("added");
        let stop = tokio_util::sync::CancellationToken::new();
        let running = tokio::spawn({
            let (controller, stop) = (controller.clone(), stop.clone());
            async move { controller.run(stop).await }
        });
        let gadget = Gadget::new("a", GadgetSpec { size: 1 });
        gadgets.create(&PostParams::default(), &gadget).await.expect("new");
        let held = |gadget: Option<&Gadget>| {
            gadget.is_some_and(|it| it.finalizers() == ["operator.v1.Gadget.test.windlass.dev"])
        };
        await_condition(gadgets.clone(), "a", held).await.expect("held");
        // The status and labels are no news; the spec is.
        let (merge, params) = (|patch: Value| Patch::Merge(patch), PatchParams::default());
        let ready = merge(json!({ "status": { "ready": true } }));
        gadgets.patch_status("a", &params, &ready).await.expect("there");
        let label = merge(json!({ "metadata": { "labels": { "a": "b" } } }));
        gadgets.patch("a", &params, &label).await.expect("there");
        let size = merge(json!({ "spec": { "size": 2 } }));
        gadgets.patch("a", &params, &size).await.expect("there");
        assert_eq!(told.recv().await.as_deref(), Some("add 1"));
        assert_eq!(told.recv().await.as_deref(), Some("update 1 2"));
        gadgets.delete("a", &DeleteParams::default()).await.expect("there");
        let gone = |gadget: Option<&Gadget>| gadget.is_none();
        await_condition(gadgets, "a", gone).await.expect("gone");
        stop.cancel();
        running.await.expect("no panic").expect("it stops");
    }

    /// What a patch client does by default where it cannot get: it patches nothing.
    async fn a_patch_that_changes_nothing_says_how_the_object_is(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        create(&configs, &config("a", "1")).await;
        let before = configs.get("a").await.expect("there");
        let key = ObjectKey::new("a").within(cluster.namespace());
        let client = cluster.aside();
        let answer = PatchClient::<ConfigMap>::patch(&client, &key, &FinalizerPatch::empty()).await;
        assert_eq!(answer.expect("there").resource_version(), before.resource_version());
        // An `Api` of all namespaces finds the object in its own.
        let all: Api<ConfigMap> = Api::all(cluster.aside());
        for answer in [
            PatchClient::get(&all, &key).await,
            PatchClient::get(&configs, &key).await,
            PatchClient::<ConfigMap>::get(&client, &key).await,
        ] {
            assert_eq!(answer.expect("there").uid(), before.uid());
        }
    }
}

/// Somebody else who is faster, each time that something is added.
struct Racing {
    client: Client,
}

impl PatchClient<ConfigMap> for Racing {
    async fn patch(
        &self,
        key: &ObjectKey,
        patch: &FinalizerPatch,
    ) -> Result<ConfigMap, kube::Error> {
        let namespace = key.namespace().expect("a namespace");
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let object = configs.get(key.name()).await?;
        let mut finalizers = object.finalizers().to_vec();
        let theirs = finalizers
            .iter()
            .filter(|it| it.starts_with(THEIRS))
            .count();
        // Once before the guard, and once before the finalizer.
        let held = finalizers.iter().any(|it| it == GUARD);
        if theirs == usize::from(held) && theirs < 2 {
            finalizers.push(format!("{THEIRS}-{}", theirs + 1));
            let race = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
            let params = PatchParams::default();
            configs.patch(key.name(), &params, &race).await?;
        }
        PatchClient::patch(&self.client, key, patch).await
    }
}

/// Two objects, one of which is deleted while the operator is down; `told` is what it is told
/// of the one that stayed and of the other when it is up again.
async fn down<F>(configs: &Api<ConfigMap>, log: &Log, start: impl Fn() -> F, told: [&str; 2])
where
    F: Future<Output = Running>,
{
    let running = start().await;
    for name in ["a", "b"] {
        create(configs, &config(name, "1")).await;
    }
    for name in ["a", "b"] {
        has(configs, name, &[OWN]).await;
    }
    running.stop().await;
    delete(configs, "a").await;
    has(configs, "a", &[OWN]).await;
    let running = start().await;
    gone(configs, "a").await;
    for line in told {
        log.until(line).await;
        assert_eq!(log.count(line), 1, "{line}");
    }
    running.stop().await;
}

/// The life of an object under an operator that crashes after a write; `calls` are what its
/// beginning and its end are called.
async fn crash<F>(
    cluster: &Cluster,
    write: u32,
    log: &Log,
    start: impl Fn(Crashing) -> F,
    calls: [&str; 2],
) where
    F: Future<Output = Running>,
{
    let configs = cluster.api_aside::<ConfigMap>();
    let name = &format!("crash-{write}");
    let client = Crashing::after(cluster.aside(), write);
    let crashed = client.crashed.clone();
    let mut running = start(client).await;
    create(&configs, &config(name, "1")).await;
    if write == 3 {
        has(&configs, name, &[OWN]).await;
        delete(&configs, name).await;
    }
    crashed.notified().await;
    running.crash().await;
    if write == 1 {
        // Between its guard and its end, and nobody there.
        has(&configs, name, &[GUARD]).await;
    }
    running = start(Crashing::after(cluster.aside(), 0)).await;
    if write < 3 {
        has(&configs, name, &[OWN]).await;
        delete(&configs, name).await;
    }
    gone(&configs, name).await;
    running.stop().await;
    for call in calls {
        let line = format!("{call} {name}=1");
        assert_eq!(
            log.count(&line),
            1,
            "{line} in {:?} after {write}",
            log.said()
        );
    }
}

async fn create(configs: &Api<ConfigMap>, object: &ConfigMap) {
    let created = configs.create(&PostParams::default(), object).await;
    created.expect("a new object");
}

async fn merge(configs: &Api<ConfigMap>, name: &str, patch: Value) {
    let patched = configs
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("an object");
}

async fn merge_if_there(configs: &Api<ConfigMap>, name: &str, patch: Value) {
    _ = configs
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
}

async fn delete(configs: &Api<ConfigMap>, name: &str) {
    let deleted = configs.delete(name, &DeleteParams::default()).await;
    deleted.expect("an object");
}

/// Waits until the object has these finalizers.
async fn has(configs: &Api<ConfigMap>, name: &str, finalizers: &[&str]) {
    let has =
        |object: Option<&ConfigMap>| object.is_some_and(|object| object.finalizers() == finalizers);
    wait(configs, name, has).await;
}

async fn gone(configs: &Api<ConfigMap>, name: &str) {
    wait(configs, name, |object: Option<&ConfigMap>| object.is_none()).await;
}

async fn wait(configs: &Api<ConfigMap>, name: &str, is: impl Fn(Option<&ConfigMap>) -> bool) {
    let waited = await_condition(configs.clone(), name, is).await;
    waited.expect("a server that answers");
}
