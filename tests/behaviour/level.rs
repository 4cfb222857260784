//! `Controller<K>`: owned, related and referred objects, finalizers, and watches.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, CustomResourceExt as _, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject},
};
use serde_json::json;
use tokio::sync::{Mutex, Semaphore, mpsc};
use windlass::{
    Context, Controller, Desired, Failure, ObjectKey, ObjectReconciler, Outcome, Owners, Watch,
    level::Reasons, store::Index,
};

use self::rig::{
    NAMED, Rig, annotated, build, builder, children_of, create, owned_by, patch, say, secret, watch,
};
use crate::{
    cluster::await_condition,
    kinds::{Gadget, GadgetSpec, GadgetStatus, config, labelled},
    queue::until_waiting,
    watched::quick,
};

pub(crate) mod bulk;
pub(crate) mod children;
pub(crate) mod claim_calls;
pub(crate) mod claims;
pub(crate) mod context;
pub(crate) mod dependent_clean_up;
pub(crate) mod dependent_secrets;
pub(crate) mod dependents;
pub(crate) mod finalizer;
pub(crate) mod memo;
pub(crate) mod missing;
pub(crate) mod overrides;
pub(crate) mod paused;
pub(crate) mod rig;
pub(crate) mod rolling;
pub(crate) mod selecting;
pub(crate) mod visible;

on_both_servers! {
    /// The finalizer is set before the first call, and the object disappears after its clean-up.
    ///
    /// Rows: BO-15
    async fn an_object_is_kept_until_its_clean_up_has_finished(cluster: Cluster) {
        struct Kept {
            sender: mpsc::Sender<String>,
            answers: Mutex<Vec<Outcome>>,
        }

        impl ObjectReconciler<Gadget> for Kept {
            type Error = Failure;

            async fn reconcile(&self, cx: Context<Gadget>) -> Result<Outcome, Failure> {
                say(&self.sender, format!("reconcile {}", cx.object().finalizers().join(" "))).await;
                cx.write_status(GadgetStatus { ready: true }).await?;
                Ok(Outcome::done())
            }

            async fn cleanup(&self, cx: Context<Gadget>) -> Result<Outcome, Failure> {
                say(&self.sender, format!("clean up {}", cx.object().finalizers().join(" "))).await;
                let answer = self.answers.lock().await.pop();
                Ok(answer.unwrap_or_default())
            }
        }

        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let (sender, receiver) = mpsc::channel(64);
        let answers = vec![Outcome::requeue_after(Duration::from_millis(50)), Outcome::unfinished()];
        let kept = Kept { sender, answers: Mutex::new(answers) };
        let builder = builder::<Gadget>(&cluster).await.finalizer("test.windlass.dev/level");
        let mut rig = Rig::start(builder.build(kept).expect("good settings"), receiver);

        create(&gadgets, Gadget::new("a", GadgetSpec { size: 1 })).await;
        assert_eq!(rig.next().await, "reconcile test.windlass.dev/level");
        let ready = |gadget: Option<&Gadget>| {
            gadget.and_then(|it| it.status.as_ref()).is_some_and(|status| status.ready)
        };
        await_condition(gadgets.clone(), "a", ready).await.expect("a status");
        gadgets.delete("a", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "clean up test.windlass.dev/level");
        // It has not finished, and the next event continues it.
        let object = gadgets.get("a").await.expect("kept by its finalizer");
        assert_eq!(object.finalizers(), ["test.windlass.dev/level"]);
        patch(&gadgets, "a", json!({ "metadata": { "labels": { "go": "on" } } })).await;
        assert_eq!(rig.next().await, "clean up test.windlass.dev/level");
        // Requeued, and then finished.
        assert_eq!(rig.next().await, "clean up test.windlass.dev/level");
        let gone = |gadget: Option<&Gadget>| gadget.is_none();
        await_condition(gadgets, "a", gone).await.expect("deleted");
        rig.stop().await;
    }

    /// Rows: BO-16
    async fn a_finalizer_is_added_only_if_it_is_needed_and_removed_when_it_is_not(cluster: Cluster) {
        struct Sometimes(mpsc::Sender<String>);

        impl ObjectReconciler<Gadget> for Sometimes {
            type Error = Failure;

            async fn reconcile(&self, cx: Context<Gadget>) -> Result<Outcome, Failure> {
                let gadget = cx.object();
                say(&self.0, format!("{} reconcile", gadget.spec.size)).await;
                Ok(Outcome::done())
            }

            async fn cleanup(&self, cx: Context<Gadget>) -> Result<Outcome, Failure> {
                say(&self.0, format!("{} clean up", cx.object().spec.size)).await;
                Ok(Outcome::done())
            }

            fn needs_finalizer(&self, gadget: &Gadget) -> bool {
                gadget.spec.size > 1
            }
        }

        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let (sender, receiver) = mpsc::channel(64);
        let builder = builder::<Gadget>(&cluster).await.finalizer("test.windlass.dev/level");
        let mut rig = Rig::start(builder.build(Sometimes(sender)).expect("good settings"), receiver);
        let finalizers = async |name| gadgets.get(name).await.expect("there").finalizers().to_vec();

        create(&gadgets, Gadget::new("a", GadgetSpec { size: 1 })).await;
        assert_eq!(rig.next().await, "1 reconcile");
        assert!(finalizers("a").await.is_empty());
        patch(&gadgets, "a", json!({ "spec": { "size": 2 } })).await;
        assert_eq!(rig.next().await, "2 reconcile");
        assert_eq!(finalizers("a").await, ["test.windlass.dev/level"]);
        patch(&gadgets, "a", json!({ "spec": { "size": 1 } })).await;
        assert_eq!(rig.next().await, "1 reconcile");
        assert!(finalizers("a").await.is_empty());
        patch(&gadgets, "a", json!({ "spec": { "size": 3 } })).await;
        assert_eq!(rig.next().await, "3 reconcile");
        gadgets.delete("a", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "3 clean up");
        let gone = |gadget: Option<&Gadget>| gadget.is_none();
        await_condition(gadgets, "a", gone).await.expect("deleted");
        rig.stop().await;
    }

    /// Rows: BO-06, BO-07, BO-12, BO-13
    async fn own_writes_are_read_at_once_and_cause_no_call_and_those_of_others_do(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await.concurrency(NonZeroUsize::MIN);
        let children = builder.owns(watch::<Secret>(&cluster).await);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                if cx.key().name() == "kube-root-ca.crt" {
                    return Ok(Outcome::done());
                }
                let before = children.of(&cx).len();
                let value = cx.object().data.as_ref().and_then(|data| data.get("value")).cloned();
                let desired = Desired::json(json!({ "stringData": { "value": value } }));
                let applied = children.apply(&cx, desired).await?;
                // The response, although the watch may not have shown it.
                let read = children.get(&cx, cx.key().name()).expect("just applied");
                assert_eq!(read.resource_version(), applied.resource_version());
                assert!(!cx.is_stale());
                say(&sender, format!("{} {before} {}", cx.key().name(), children.of(&cx).len())).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "a 0 1");
        create(&configs, config("b", "1")).await;
        assert_eq!(rig.next().await, "b 0 1", "no call for the own create of a");
        patch(&configs, "a", json!({ "data": { "value": "2" } })).await;
        assert_eq!(rig.next().await, "a 1 1");
        create(&configs, config("c", "1")).await;
        assert_eq!(rig.next().await, "c 0 1", "no call for the own change of a");

        let value = |wanted: &'static [u8]| move |secret: Option<&Secret>| {
            let data = secret.and_then(|it| it.data.as_ref());
            data.and_then(|data| data.get("value")).is_some_and(|it| it.0 == wanted)
        };
        // A field of the desired state, which is reverted, and another field, which is left.
        patch(&secrets, "a", json!({ "stringData": { "value": "3" } })).await;
        assert_eq!(rig.next().await, "a 1 1");
        await_condition(secrets.clone(), "a", value(b"2")).await.expect("reverted");
        patch(&secrets, "a", json!({ "stringData": { "other": "4" } })).await;
        assert_eq!(rig.next().await, "a 1 1");
        let secret = secrets.get("a").await.expect("there");
        assert!(secret.data.is_some_and(|data| data.contains_key("other")));
        secrets.delete("a", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "a 0 1", "a deleted child is created again");
        rig.quiet(&configs).await;
    }

    /// Rows: BO-14
    async fn children_that_a_call_has_not_applied_are_pruned(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let children = builder.owns(watch::<Secret>(&cluster).await);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                if cx.key().name() == "kube-root-ca.crt" {
                    return Ok(Outcome::done());
                }
                let names = cx.object().data.as_ref().and_then(|data| data.get("value")).cloned();
                for name in names.unwrap_or_default().split_whitespace() {
                    let desired = Desired::json(json!({ "stringData": { "key": "value" } }));
                    children.apply(&cx, desired.named(name)).await?;
                }
                let pruned = children.prune(&cx).await?;
                say(&sender, format!("{} pruned {pruned}", cx.key().name())).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&secrets, secret("foreign")).await;
        create(&configs, config("a", "one two three")).await;
        assert_eq!(rig.next().await, "a pruned 0");
        patch(&configs, "a", json!({ "data": { "value": "two" } })).await;
        assert_eq!(rig.next().await, "a pruned 2");
        let left = secrets.list(&kube::api::ListParams::default()).await.expect("a list");
        let mut names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        names.sort();
        assert_eq!(names, ["foreign", "two"]);
        rig.stop().await;
    }

    /// Rows: KR-04, KR-15, BO-08
    async fn a_change_of_an_owned_child_reconciles_its_owner_which_finds_it_by_an_index(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let children = builder.owns(watch::<Secret>(&cluster).await);
        let (sender, receiver) = mpsc::channel(64);
        let mut rig = Rig::start(build(builder, sender, move |cx| children_of(cx, &children)), receiver);
        let owner = create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "a:");
        // Without an owner, and of another kind with the same name.
        create(&secrets, secret("free")).await;
        let other = create(&secrets, secret("a")).await;
        create(&secrets, owned_by(secret("theirs"), &other)).await;
        create(&secrets, owned_by(secret("ours"), &owner)).await;
        assert_eq!(rig.next().await, "a: ours");
        patch(&secrets, "ours", json!({ "stringData": { "key": "2" } })).await;
        assert_eq!(rig.next().await, "a: ours");
        secrets.delete("ours", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "a:");
        rig.quiet(&configs).await;
    }

    /// Rows: KR-05, KR-17, BO-09
    async fn a_mapper_returns_none_one_or_many_keys_for_the_old_and_the_new_state(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let named = |secret: &Secret| {
            let names = secret.annotations().get(NAMED).cloned().unwrap_or_default();
            let namespace = secret.namespace().unwrap_or_default();
            let key = |name: &str| ObjectKey::new(name).within(namespace.as_str());
            names.split(' ').filter(|name| !name.is_empty()).map(key).collect::<Vec<_>>()
        };
        builder.watches(watch::<Secret>(&cluster).await, named);
        let (sender, receiver) = mpsc::channel(64);
        let mut rig = Rig::start(build(builder, sender, |cx| cx.key().name().to_owned()), receiver);
        for name in ["a", "b", "c"] {
            create(&configs, config(name, "1")).await;
        }
        assert_eq!(rig.several(3).await, ["a", "b", "c"]);
        create(&secrets, secret("none")).await;
        create(&secrets, annotated(secret("one"), "a")).await;
        assert_eq!(rig.next().await, "a");
        create(&secrets, annotated(secret("many"), "a b nothing")).await;
        assert_eq!(rig.several(2).await, ["a", "b"]);
        patch(&secrets, "one", json!({ "metadata": { "annotations": { NAMED: "c" } } })).await;
        assert_eq!(rig.several(2).await, ["a", "c"], "the old and the new one");
        secrets.delete("one", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "c");
        rig.quiet(&configs).await;
    }

    /// Rows: KR-05, KR-18, BO-08, BO-09, BO-37
    async fn an_object_is_reconciled_when_what_it_refers_to_changes_or_when_it_refers_to_another(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let reference = |config: &ConfigMap| {
            let (namespace, name) = config.annotations().get(NAMED)?.split_once('/')?;
            Some(ObjectKey::new(name).within(namespace))
        };
        let referred = builder.refers_to(watch::<Secret>(&cluster).await, reference);
        let (sender, receiver) = mpsc::channel(64);
        let mut rig = Rig::start(build(builder, sender, move |cx| {
            let found = referred.one(cx).map(|it| it.name_any()).unwrap_or_default();
            format!("{}: {found}", cx.key().name())
        }), receiver);
        let path = |name: &str| format!("{}/{name}", cluster.namespace());
        create(&configs, annotated(config("a", "1"), &path("s"))).await;
        assert_eq!(rig.next().await, "a: ");
        create(&configs, annotated(config("b", "1"), &path("t"))).await;
        assert_eq!(rig.next().await, "b: ");
        create(&secrets, secret("s")).await;
        assert_eq!(rig.next().await, "a: s");
        patch(&secrets, "s", json!({ "stringData": { "key": "2" } })).await;
        assert_eq!(rig.next().await, "a: s");
        patch(&configs, "a", json!({ "metadata": { "annotations": { NAMED: path("t") } } })).await;
        assert_eq!(rig.next().await, "a: ");
        secrets.delete("s", &DeleteParams::default()).await.expect("there");
        let created = create(&secrets, secret("t")).await;
        assert_eq!(rig.several(2).await, ["a: t", "b: t"]);
        let referred = secrets.get("t").await.expect("there");
        assert_eq!(referred, created, "what is referred to is only read");
        rig.quiet(&configs).await;
    }

    /// Rows: KR-10, KR-16, KR-19
    async fn all_kinds_can_be_known_only_at_run_time(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let client = cluster.client().await;
        let dynamic = |resource: ApiResource| {
            let api = Api::<DynamicObject>::namespaced_with(client.clone(), cluster.namespace(), &resource);
            Watch::from((api, resource))
        };
        let kind = ApiResource::erase::<ConfigMap>(&());
        let mut builder = Controller::<DynamicObject>::builder(client.clone(), dynamic(kind.clone()).settings(quick));
        let children = builder.owns(dynamic(ApiResource::erase::<Secret>(&())).settings(quick));
        let owners = Owners::of::<DynamicObject>(&kind);
        builder.watches(dynamic(ApiResource::erase::<Secret>(&())).labels("also=watched").settings(quick), owners);
        let (sender, receiver) = mpsc::channel(64);
        let mut rig = Rig::start(build(builder, sender, move |cx| children_of(cx, &children)), receiver);
        let owner = create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "a:");
        create(&secrets, owned_by(secret("ours"), &owner)).await;
        assert_eq!(rig.next().await, "a: ours");
        secrets.delete("ours", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "a:");
        rig.quiet(&configs).await;
    }

    /// Rows: KR-09, KR-14
    async fn selectors_bound_what_is_listed_and_the_stores_can_be_read_before_the_start(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        create(&configs, labelled(config("in", "1"), "app", "web")).await;
        create(&configs, config("out", "1")).await;
        let selected = watch::<ConfigMap>(&cluster).await.labels("app=web");
        let by_value = Index::new(|config: &ConfigMap| config.data.as_ref()?.get("value").cloned());
        let builder = Controller::builder(cluster.client().await, selected.index(&by_value));
        let (sender, receiver) = mpsc::channel(64);
        let controller = build(builder, sender, |cx| cx.key().name().to_owned());
        let informers = controller.informers().clone();
        assert!(informers.is_empty() && !informers.has_synced());
        let mut rig = Rig::start(controller, receiver);
        assert_eq!(rig.next().await, "in");
        let names: Vec<_> = informers.list().iter().map(|it| it.name_any()).collect();
        assert_eq!(names, ["in"]);
        assert_eq!(informers.by(&by_value, "1").expect("a declared index").len(), 1);
        rig.stop().await;

        let invalid = watch::<ConfigMap>(&cluster).await.labels(" ");
        let builder = Controller::builder(cluster.client().await, invalid);
        let built = builder.build(|_: Context<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) });
        let error = built.expect_err("an empty selector");
        assert!(std::error::Error::source(&error).is_some_and(|it| it.to_string().contains("selector")));
    }

    /// Rows: BO-43, KR-09
    async fn namespaces_are_added_and_removed_while_the_controller_runs(cluster: Cluster) {
        let other = format!("{}-more", cluster.namespace());
        crate::cluster::create_namespace(cluster.aside(), &other).await;
        let (here, there) = (cluster.api_aside::<ConfigMap>(), Api::<ConfigMap>::namespaced(cluster.aside(), &other));
        create(&there, config("b", "1")).await;
        let builder = builder::<ConfigMap>(&cluster).await;
        let (sender, receiver) = mpsc::channel(64);
        let controller = build(builder, sender, |cx| cx.key().name().to_owned());
        let informers = controller.informers().clone();
        let mut rig = Rig::start(controller, receiver);
        create(&here, config("a", "1")).await;
        assert_eq!(rig.next().await, "a");
        let added = Watch::from(Api::<ConfigMap>::namespaced(cluster.client().await, &other));
        let added = informers.add(added.settings(quick)).expect("a running controller");
        assert_eq!(rig.next().await, "b");
        assert_eq!(informers.list().iter().filter(|it| it.name_any() != "kube-root-ca.crt").count(), 2);
        assert!(informers.remove(&added) && !informers.remove(&added));
        patch(&there, "b", json!({ "data": { "value": "2" } })).await;
        rig.quiet(&here).await;
    }

    /// Rows: BO-23
    async fn an_object_is_reconciled_at_least_once_in_the_longest_interval_which_can_be_off(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let line = |cx: &Context<ConfigMap>| {
            let interval = if cx.reasons().contains(Reasons::INTERVAL) { " interval" } else { "" };
            format!("{}{interval}", cx.key().name())
        };
        let often = builder::<ConfigMap>(&cluster).await.longest_interval(Duration::from_millis(200));
        let (sender, receiver) = mpsc::channel(64);
        let mut often = Rig::start(build(often, sender, line), receiver);
        let off = builder::<ConfigMap>(&cluster).await.name("off").longest_interval(None);
        let (sender, receiver) = mpsc::channel(64);
        let mut off = Rig::start(build(off, sender, line), receiver);
        create(&configs, config("a", "1")).await;
        assert_eq!(often.next().await, "a");
        for _ in 0..3 {
            assert_eq!(often.next().await, "a interval");
        }
        often.stop().await;
        assert_eq!(off.next().await, "a");
        off.quiet(&configs).await;
    }

    /// Rows: BO-04
    async fn events_during_a_call_cause_one_further_call_with_the_newest_object(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let gate = Arc::new(Semaphore::new(0));
        let (sender, receiver) = mpsc::channel(64);
        let builder = builder::<ConfigMap>(&cluster).await.concurrency(NonZeroUsize::MIN);
        let reconciler = {
            let gate = Arc::clone(&gate);
            move |cx: Context<ConfigMap>| {
                let (gate, sender) = (Arc::clone(&gate), sender.clone());
                async move {
                    if cx.key().name() == "kube-root-ca.crt" {
                        return Ok(Outcome::done());
                    }
                    let value = cx.object().data.as_ref().and_then(|data| data.get("value")).cloned();
                    say(&sender, format!("{} {}", cx.key().name(), value.unwrap_or_default())).await;
                    gate.acquire().await.expect("open").forget();
                    Ok::<_, Failure>(Outcome::done())
                }
            }
        };
        let controller = builder.build(reconciler).expect("good settings");
        let engine = controller.engine().clone();
        let mut rig = Rig::start(controller, receiver);
        create(&configs, config("a", "0")).await;
        assert_eq!(rig.next().await, "a 0");
        for value in 1..=9 {
            patch(&configs, "a", json!({ "data": { "value": value.to_string() } })).await;
        }
        create(&configs, config("z", "0")).await;
        // The object in progress does not wait, and its events precede that of the other one.
        until_waiting(|| engine.prometheus_collectors(), 1).await;
        gate.add_permits(100);
        assert_eq!(rig.several(2).await, ["a 9", "z 0"]);
        rig.quiet(&configs).await;
    }
}
