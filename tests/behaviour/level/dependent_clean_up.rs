//! Dependents of config maps: what a clean-up deletes, and what a prune leaves.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{
    Context, Desired, Failure, ObjectReconciler, Outcome, Owned,
    level::{Dependents, UpdateStrategy},
};

use super::{
    dependents::names_of,
    rig::{Rig, builder, create, patch, say, watch},
};
use crate::{
    cluster::{Cluster, await_condition, create_namespace},
    kinds::{config, value},
};

/// Writes as many parts as the value of a config map says, each after the one before it, in the
/// namespace that the value names.
struct Parts {
    secrets: Owned<ConfigMap, Secret>,
    calls: mpsc::Sender<String>,
}

// === impl Parts ===

impl Parts {
    fn plan(&self, config: &ConfigMap) -> Dependents<ConfigMap> {
        let mut words = value(config).split(' ');
        let count: usize = words.next().and_then(|it| it.parse().ok()).unwrap_or(0);
        let (namespace, mut plan, mut before) = (words.next(), Dependents::new(), None);
        for index in 0..count {
            let part = json!({ "metadata": { "namespace": namespace.unwrap_or("default") } });
            let part = match namespace {
                Some("invalid") if index == 1 => Desired::json(json!({ "kind": "Pod" })),
                None | Some("invalid" | "unpruned") => Desired::json(json!({})),
                Some(_) => Desired::json(part).untracked_owner(),
            };
            let part = self.secrets.dependent(part.named(format!("part-{index}")));
            before = Some(plan.add(part.after(before)));
        }
        plan
    }
}

impl ObjectReconciler<ConfigMap> for Parts {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
        if cx.key().name() == "a" {
            let is_applied = self.plan(cx.object()).apply(&cx).await.is_ok();
            let is_unpruned = value(cx.object()).ends_with("unpruned");
            let pruned = if is_unpruned {
                0
            } else {
                self.secrets.prune(&cx).await?
            };
            say(
                &self.calls,
                format!("applied {is_applied}, pruned {pruned}"),
            )
            .await;
        }
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
        let outcome = self.plan(cx.object()).delete(&cx).await?;
        let pruned = self.secrets.prune(&cx).await?;
        say(&self.calls, format!("clean up, pruned {pruned}")).await;
        Ok(outcome)
    }
}

async fn start(cluster: &Cluster) -> Rig {
    let (calls, receiver) = mpsc::channel(64);
    let mut builder = builder::<ConfigMap>(cluster).await;
    let secrets = builder.owns(watch::<Secret>(cluster).await);
    let builder = builder.finalizer("test.windlass.dev/parts");
    let controller = builder.build(Parts { secrets, calls });
    Rig::start(controller.expect("good settings"), receiver)
}

/// The next call that starts with `start`.
async fn next(rig: &mut Rig, start: &str) -> String {
    loop {
        let call = rig.next().await;
        if call.starts_with(start) {
            return call;
        }
    }
}

fn set(value: &str) -> Value {
    json!({ "data": { "value": value } })
}

fn held(finalizers: &[&str]) -> Value {
    json!({ "metadata": { "finalizers": finalizers } })
}

on_both_servers! {
    /// Rows: BO-38
    async fn a_prune_leaves_dependents_after_a_failed_check_and_in_a_clean_up(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let mut rig = start(&cluster).await;
        create(&configs, config("a", "4")).await;
        while rig.next().await != "applied true, pruned 0" {}
        assert_eq!(names_of(&secrets).await, ["part-0", "part-1", "part-2", "part-3"]);
        patch(&configs, "a", set("3 invalid")).await;
        assert_eq!(next(&mut rig, "applied false").await, "applied false, pruned 1");
        assert_eq!(names_of(&secrets).await, ["part-0", "part-1", "part-2"]);

        patch(&secrets, "part-1", held(&["test.windlass.dev/held"])).await;
        patch(&configs, "a", set("2 unpruned")).await;
        next(&mut rig, "applied true").await;
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        // What the plan does not have any more is pruned, and the others are deleted in their order.
        assert_eq!(next(&mut rig, "clean up").await, "clean up, pruned 1");
        assert_eq!(names_of(&secrets).await, ["part-0", "part-1"]);
        patch(&secrets, "part-1", held(&[])).await;
        let gone = |config: Option<&ConfigMap>| config.is_none();
        await_condition(configs, "a", gone).await.expect("deleted");
        assert!(names_of(&secrets).await.is_empty());
        rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_prune_leaves_the_children_of_an_object_that_is_deleted_without_them(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let mut rig = start(&cluster).await;
        let mut orphaning = config("a", "2 unpruned");
        orphaning.metadata.finalizers = Some(vec!["orphan".to_owned()]);
        create(&configs, orphaning).await;
        while rig.next().await != "applied true, pruned 0" {}
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        assert_eq!(next(&mut rig, "clean up").await, "clean up, pruned 0");
        assert_eq!(names_of(&secrets).await, ["part-0", "part-1"]);
        rig.stop().await;
    }

    /// The garbage collector has removed the owner references and its finalizer when the clean-up
    /// begins.
    ///
    /// Rows: BO-38
    async fn a_clean_up_leaves_the_children_that_the_garbage_collector_has_orphaned(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let mut rig = start(&cluster).await;
        create(&configs, config("a", "2")).await;
        next(&mut rig, "applied true").await;
        rig.stop().await;
        let orphaned = json!({ "metadata": { "ownerReferences": null } });
        for name in ["part-0", "part-1"] {
            patch(&secrets, name, orphaned.clone()).await;
        }
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        let rig = start(&cluster).await;
        let gone = |config: Option<&ConfigMap>| config.is_none();
        await_condition(configs, "a", gone).await.expect("deleted");
        assert_eq!(names_of(&secrets).await, ["part-0", "part-1"]);
        rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_clean_up_deletes_a_child_elsewhere_that_neither_the_store_nor_the_memory_has(cluster: Cluster) {
        let other = format!("{}-more", cluster.namespace());
        create_namespace(cluster.aside(), &other).await;
        let configs = cluster.api_aside::<ConfigMap>();
        // The watch does not show it.
        let there = Api::<Secret>::namespaced(cluster.aside(), &other);
        let mut rig = start(&cluster).await;
        create(&configs, config("a", &format!("2 {other}"))).await;
        next(&mut rig, "applied true").await;
        assert_eq!(names_of(&there).await, ["part-0", "part-1"]);
        rig.stop().await;
        patch(&there, "part-1", held(&["test.windlass.dev/held"])).await;
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        let mut rig = start(&cluster).await;
        next(&mut rig, "clean up").await;
        assert_eq!(names_of(&there).await, ["part-0", "part-1"]);
        patch(&there, "part-1", held(&[])).await;
        let gone = |config: Option<&ConfigMap>| config.is_none();
        await_condition(configs, "a", gone).await.expect("deleted");
        assert!(names_of(&there).await.is_empty());
        rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_child_that_is_kept_is_not_replaced(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let owned = builder.owns(watch::<Secret>(&cluster).await);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (owned, sender) = (owned.clone(), sender.clone());
            async move {
                if cx.key().name() == "a" {
                    let desired = json!({ "stringData": { "value": value(cx.object()) } });
                    let desired = Desired::json(desired).strategy(UpdateStrategy::Recreate);
                    let applied = owned.apply(&cx, desired).await;
                    let line = applied.as_ref().err().map(ToString::to_string);
                    say(&sender, line.unwrap_or_else(|| "applied".to_owned())).await;
                    applied?;
                }
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "applied");
        let created = secrets.get("a").await.expect("applied").metadata.uid;
        let keep = |value: Option<&str>| json!({ "metadata": { "annotations": { "windlass.dev/keep": value } } });
        patch(&secrets, "a", keep(Some("true"))).await;
        patch(&configs, "a", set("2")).await;
        // A call that has not seen the annotation yet meets a conflict.
        while !rig.next().await.contains("remove the annotation `windlass.dev/keep`") {}
        assert_eq!(secrets.get("a").await.expect("kept").metadata.uid, created);

        patch(&secrets, "a", keep(None)).await;
        let is_replaced = move |it: Option<&Secret>| it.is_some_and(|it| it.metadata.uid != created);
        await_condition(secrets.clone(), "a", is_replaced).await.expect("replaced");
        assert_eq!(secrets.list(&ListParams::default()).await.expect("a list").items.len(), 1);
        rig.stop().await;
    }
}
