//! Calls that claim children: stale stores, parents that end or are paused, and invalid selectors.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Resource as _, ResourceExt as _, api::DeleteParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{
    Context, Desired, Failure, Informer, ObjectReconciler, Outcome, Owned, Watch, level::Mode,
    source::Scripted,
};

use super::{
    claims::{Pool, PoolSpec, World, controllers, of_spec, owned_by, pool, uid, web},
    rig::{NAMED, Rig, annotated, create, patch, say, watch as watch_of},
};
use crate::{
    cluster::Cluster,
    kinds::{config, labelled},
};

/// A reconciler that only claims.
struct Claimer {
    members: Owned<Pool, ConfigMap>,
    sender: mpsc::Sender<String>,
}

impl Claimer {
    /// Sends the names of the children, or the error.
    async fn claim(&self, cx: &Context<Pool>) -> Result<(), Failure> {
        let name = match cx.mode() {
            Mode::Paused => format!("paused {}", cx.key().name()),
            _ if cx.object().metadata.deletion_timestamp.is_some() => {
                format!("terminating {}", cx.key().name())
            }
            _ => cx.key().name().to_owned(),
        };
        let claimed = self.members.claim(cx).await;
        let line = match &claimed {
            Ok(children) => children.iter().fold(format!("{name}:"), |line, child| {
                format!("{line} {}", child.name_any())
            }),
            Err(failure) => format!("{name} failed: {failure}"),
        };
        say(&self.sender, line).await;
        claimed.map(drop)
    }
}

impl ObjectReconciler<Pool> for Claimer {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Pool>) -> Result<Outcome, Failure> {
        self.claim(&cx).await?;
        let Some(name) = cx.object().annotations().get(NAMED) else {
            return Ok(Outcome::done());
        };
        // `app=web` is what the selector requires.
        let labels =
            json!({ "metadata": { "labels": { "app": cx.object().spec.members["app"] } } });
        let member = if name == "bare" { json!({}) } else { labels };
        let applied = self
            .members
            .apply(&cx, Desired::json(member).named(name))
            .await;
        let line = match applied {
            Ok(applied) => format!("applied {}", applied.name_any()),
            Err(failure) => failure.to_string(),
        };
        say(&self.sender, line).await;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Pool>) -> Result<Outcome, Failure> {
        self.claim(&cx).await?;
        Ok(if cx.object().annotations().contains_key(NAMED) {
            Outcome::done()
        } else {
            Outcome::unfinished()
        })
    }
}

/// Starts a controller that only claims.
async fn claiming(cluster: &Cluster, pools: Watch<Pool>, configs: Watch<ConfigMap>) -> Rig {
    let (sender, receiver) = mpsc::channel(1024);
    let builder = windlass::Controller::builder(cluster.client().await, pools);
    let mut builder = builder
        .on_error(|_| ())
        .finalizer("test.windlass.dev/claims");
    let members = builder.claims(configs, of_spec);
    let controller = builder
        .build(Claimer { members, sender })
        .expect("good settings");
    Rig::start(controller, receiver)
}

/// Waits for a call that sends a line with `expected`, after others.
async fn wait_for(rig: &mut Rig, expected: &str) {
    while !rig.next().await.contains(expected) {}
}

/// Waits for a call that sends `expected`. None before it sends a line that begins with `never`.
async fn wait_without(rig: &mut Rig, never: &str, expected: &str) {
    loop {
        let line = rig.next().await;
        if line == expected {
            return;
        }
        assert!(!line.starts_with(never), "{line}, before {expected}");
    }
}

on_both_servers! {
    /// The store shows an older state of the children than the API server has.
    async fn a_store_that_is_behind_changes_no_child_of_another(cluster: Cluster) {
        let world = World::new(cluster).await;
        let (script, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::new(source);
        let pools = watch_of::<Pool>(&world.cluster).await;
        let mut rig = claiming(&world.cluster, pools, Watch::from(&informer)).await;
        let taken = create(&world.configs, web("taken")).await;
        let other = create(&world.configs, config("other", "1")).await;
        let owners = owned_by(web("taken"), &other).metadata.owner_references;
        patch(&world.configs, "taken", json!({ "metadata": { "ownerReferences": owners } })).await;
        script.list([taken]).await.expect("it runs");
        let a = create(&world.pools, pool("a", 0)).await;
        wait_for(&mut rig, "a failed: configmaps").await;
        let now = world.get("taken").await;
        assert_eq!(controllers(&now), [uid(&other)]);
        script.apply(now).await.expect("it runs");
        wait_for(&mut rig, "a:").await;

        // A child that no longer matches, and was deleted and created again by another writer.
        let owner = a.controller_owner_ref(&()).expect("a name and a uid");
        let mut child = config("again", "1");
        child.metadata.owner_references = Some(vec![owner]);
        let child = create(&world.configs, child).await;
        world.configs.delete("again", &DeleteParams::default()).await.expect("there");
        let again = create(&world.configs, owned_by(config("again", "2"), &other)).await;
        script.apply(child).await.expect("it runs");
        wait_for(&mut rig, "a failed: configmaps").await;
        let now = world.get("again").await;
        assert_eq!(now.resource_version(), again.resource_version());
        script.apply(again).await.expect("it runs");
        wait_for(&mut rig, "a:").await;

        // One that was deleted meanwhile is no error.
        let gone = create(&world.configs, web("gone")).await;
        world.configs.delete("gone", &DeleteParams::default()).await.expect("there");
        script.apply(gone).await.expect("it runs");
        let last = create(&world.configs, web("last")).await;
        script.apply(last).await.expect("it runs");
        wait_without(&mut rig, "a failed", "a: last").await;
        rig.stop().await;
    }

    /// The store shows an older state of the parent than the API server has.
    async fn a_parent_that_was_deleted_or_replaced_meanwhile_adopts_nothing(cluster: Cluster) {
        let world = World::new(cluster).await;
        let (script, source) = Scripted::<Pool>::new();
        let informer = Informer::new(source);
        let configs = watch_of::<ConfigMap>(&world.cluster).await;
        let mut rig = claiming(&world.cluster, Watch::from(&informer), configs).await;
        let free = create(&world.configs, web("free")).await;
        let held = |name: &str| {
            let mut held = pool(name, 0);
            held.metadata.finalizers = Some(vec!["test.windlass.dev/claims".to_owned()]);
            held
        };
        let is_same = async || {
            let now = world.get("free").await;
            assert_eq!(now.resource_version(), free.resource_version());
        };
        let old = create(&world.pools, held("a")).await;
        world.pools.delete("a", &DeleteParams::default()).await.expect("there");
        script.list([old.clone()]).await.expect("it runs");
        wait_for(&mut rig, "a failed: pools.test.windlass.dev").await;
        is_same().await;
        patch(&world.pools, "a", json!({ "metadata": { "finalizers": [] } })).await;
        wait_for(&mut rig, "was deleted or replaced meanwhile").await;
        is_same().await;
        let new = create(&world.pools, held("a")).await;
        while rig.calls.try_recv().is_ok() {}
        wait_for(&mut rig, "was deleted or replaced meanwhile").await;
        is_same().await;
        script.delete(old).await.expect("it runs");
        script.apply(new.clone()).await.expect("it runs");
        wait_for(&mut rig, "a: free").await;
        assert_eq!(controllers(&world.get("free").await), [uid(&new)]);
        rig.stop().await;
        patch(&world.pools, "a", json!({ "metadata": { "finalizers": [] } })).await;
    }

    async fn a_paused_or_terminating_parent_adopts_and_releases_nothing(cluster: Cluster) {
        let world = World::new(cluster).await;
        let (pools, configs) = (watch_of::<Pool>(&world.cluster).await, watch_of(&world.cluster).await);
        let mut rig = claiming(&world.cluster, pools, configs).await;
        create(&world.configs, web("one")).await;
        create(&world.configs, web("two")).await;
        create(&world.pools, pool("a", 0)).await;
        wait_for(&mut rig, "a: one two").await;

        let noted = |name: &str, value: Value| json!({ "metadata": { "annotations": { name: value } } });
        patch(&world.pools, "a", noted("windlass.dev/paused", "true".into())).await;
        wait_for(&mut rig, "paused a: one two").await;
        world.relabel("one", json!({ "app": "db" })).await;
        wait_for(&mut rig, "paused a: two").await;
        let free = create(&world.configs, web("free")).await;
        wait_for(&mut rig, "paused a: two").await;
        assert_eq!(world.get("free").await.resource_version(), free.resource_version());
        assert_eq!(controllers(&world.get("one").await).len(), 1, "not released");
        patch(&world.pools, "a", noted("windlass.dev/paused", Value::Null)).await;
        wait_for(&mut rig, "a: free two").await;
        assert!(controllers(&world.get("one").await).is_empty(), "released");

        // In the clean-up.
        world.pools.delete("a", &DeleteParams::default()).await.expect("there");
        wait_for(&mut rig, "terminating a: free two").await;
        world.relabel("two", json!({ "app": "db" })).await;
        wait_for(&mut rig, "terminating a: free").await;
        let late = create(&world.configs, web("late")).await;
        wait_for(&mut rig, "terminating a: free").await;
        patch(&world.pools, "a", noted(NAMED, "end".into())).await;
        wait_for(&mut rig, "terminating a: free").await;
        assert_eq!(world.get("late").await.resource_version(), late.resource_version());
        assert_eq!(controllers(&world.get("two").await).len(), 1, "not released");
        rig.stop().await;
    }

    async fn a_released_child_is_not_applied_again(cluster: Cluster) {
        let world = World::new(cluster).await;
        let (pools, configs) = (watch_of::<Pool>(&world.cluster).await, watch_of(&world.cluster).await);
        let mut rig = claiming(&world.cluster, pools, configs).await;
        create(&world.pools, annotated(pool("a", 0), "kept")).await;
        wait_for(&mut rig, "applied kept").await;
        world.relabel("kept", json!({ "app": "db" })).await;
        wait_for(&mut rig, "exists already and was not changed").await;
        let released = world.get("kept").await;
        assert!(released.owner_references().is_empty());
        // Until it matches again.
        world.relabel("kept", json!({ "app": "web" })).await;
        wait_for(&mut rig, "a: kept").await;
        wait_for(&mut rig, "applied kept").await;
        assert_eq!(controllers(&world.get("kept").await).len(), 1);
        rig.stop().await;
    }

    async fn only_an_object_with_all_labels_wakes_a_parent(cluster: Cluster) {
        let world = World::new(cluster).await;
        let (pools, configs) = (watch_of::<Pool>(&world.cluster).await, watch_of(&world.cluster).await);
        let mut rig = claiming(&world.cluster, pools, configs).await;
        let both = [("app", "web"), ("tier", "front")];
        let members = both.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        create(&world.pools, Pool::new("front", PoolSpec { members, size: 0 })).await;
        assert_eq!(rig.next().await, "front:");
        create(&world.configs, config("none", "1")).await;
        create(&world.configs, web("half")).await;
        create(&world.pools, pool("web", 0)).await;
        wait_without(&mut rig, "front", "web: half").await;
        create(&world.configs, labelled(config("other", "1"), "tier", "front")).await;
        create(&world.configs, labelled(web("whole"), "tier", "back")).await;
        wait_without(&mut rig, "front", "web: half whole").await;
        world.pools.delete("web", &DeleteParams::default()).await.expect("there");
        wait_without(&mut rig, "front", "terminating web: half whole").await;
        create(&world.configs, labelled(web("front"), "tier", "front")).await;
        wait_for(&mut rig, "front: front").await;
        patch(&world.pools, "web", json!({ "metadata": { "annotations": { NAMED: "end" } } })).await;
        rig.stop().await;
    }

    async fn an_empty_selector_and_a_child_without_its_labels_are_refused(cluster: Cluster) {
        let world = World::new(cluster).await;
        let (pools, configs) = (watch_of::<Pool>(&world.cluster).await, watch_of(&world.cluster).await);
        let mut rig = claiming(&world.cluster, pools, configs).await;
        let free = create(&world.configs, web("free")).await;
        let empty = PoolSpec { members: BTreeMap::new(), size: 0 };
        create(&world.pools, Pool::new("empty", empty)).await;
        assert_eq!(
            rig.next().await,
            format!(
                "empty failed: the selector of pools.test.windlass.dev {}/empty is invalid, and \
                 nothing was adopted or released: it is empty, and would select all objects; set \
                 `matchLabels` or `matchExpressions`",
                world.cluster.namespace(),
            ),
        );
        assert_eq!(world.get("free").await.resource_version(), free.resource_version());
        create(&world.pools, annotated(pool("a", 0), "bare")).await;
        wait_without(&mut rig, "a failed", "a: free").await;
        let refused = rig.next().await;
        assert!(refused.contains("the selector of its parent (app=web) does not match"), "{refused}");
        assert!(world.configs.get_opt("bare").await.expect("a response").is_none());
        rig.stop().await;
    }
}
