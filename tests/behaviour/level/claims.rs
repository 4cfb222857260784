//! Children by a selector: adopted, released, and left alone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, CustomResource, CustomResourceExt as _, Resource, ResourceExt as _, api::DeleteParams,
    core::Selector,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use windlass::{
    Context, Desired, Failure, ObjectKey, Outcome, Owned,
    level::{ChildSelector, GeneratedSelector},
};

use super::rig::{NAMED, Rig, builder, create, patch, watch as watch_of};
use crate::{
    cluster::Cluster,
    kinds::{config, labelled},
    watched::{Watched, quick},
};

/// The custom resource of a user: as many config maps as its `size`, of those with the labels
/// `members`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Pool",
    namespaced,
    status = "PoolStatus"
)]
pub(crate) struct PoolSpec {
    pub(super) members: BTreeMap<String, String>,
    pub(super) size: usize,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct PoolStatus {
    members: usize,
}

/// The selector of a pool.
pub(super) fn of_spec(pool: &Pool) -> Selector {
    pool.spec.members.clone().into_iter().collect()
}

/// The program of the user: deletes the members that are too many, and creates the missing ones.
async fn fill(cx: &Context<Pool>, members: &Owned<Pool, ConfigMap>) -> Result<Outcome, Failure> {
    let claimed = members.claim(cx).await?;
    let PoolSpec {
        members: labels,
        size,
    } = &cx.object().spec;
    for extra in claimed.iter().skip(*size) {
        members.delete(cx, extra).await?;
    }
    // A member that has left the pool keeps its name.
    let namespace = cx.key().namespace().unwrap_or_default();
    let is_free = |name: &String| {
        let key = ObjectKey::new(name.as_str()).within(namespace);
        members.informers().get_lazy(&key).is_none()
    };
    let names = (0..u32::MAX).map(|number| format!("{}-{number}", cx.key().name()));
    let missing = size.saturating_sub(claimed.len());
    for name in names.filter(is_free).take(missing) {
        let member = Desired::json(json!({ "metadata": { "labels": labels } }));
        members.apply(cx, member.named(name)).await?;
    }
    cx.write_status(PoolStatus { members: *size }).await?;
    Ok(Outcome::done())
}

/// The pools of the test, and the config maps that the server has.
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) pools: Api<Pool>,
    pub(super) configs: Api<ConfigMap>,
    seen: Watched<ConfigMap>,
    /// The newest value of the annotation [`NAMED`] that a call has finished with, by pool.
    finished: watch::Sender<BTreeMap<String, String>>,
    rounds: u32,
}

// === impl World ===

impl World {
    pub(super) async fn new(cluster: Cluster) -> Self {
        cluster.install(&Pool::crd()).await;
        let configs = cluster.api_aside::<ConfigMap>();
        Self {
            pools: cluster.api_aside(),
            seen: Watched::start(quick(configs.clone())),
            configs,
            cluster,
            finished: watch::Sender::default(),
            rounds: 0,
        }
    }

    async fn start(&self, selector: impl ChildSelector<Pool>) -> Rig {
        let mut builder = builder::<Pool>(&self.cluster).await;
        let members = builder.claims(watch_of::<ConfigMap>(&self.cluster).await, selector);
        let finished = self.finished.clone();
        let reconciler = move |cx: Context<Pool>| {
            let (members, finished) = (members.clone(), finished.clone());
            async move {
                let outcome = fill(&cx, &members).await?;
                if let Some(round) = cx.object().annotations().get(NAMED) {
                    finished.send_modify(|finished| {
                        finished.insert(cx.key().name().to_owned(), round.clone());
                    });
                }
                Ok::<_, Failure>(outcome)
            }
        };
        let (_, no_calls) = mpsc::channel(1);
        Rig::start(builder.build(reconciler).expect("good settings"), no_calls)
    }

    /// The uids of the config maps that `pool` controls, by name.
    fn members(&self, pool: &Pool) -> BTreeMap<String, String> {
        let stored = self.seen.informer.store().list().into_iter();
        let members = stored.filter(|config| controllers(&**config) == [uid(pool)]);
        members
            .map(|config| (config.name_any(), uid(&*config)))
            .collect()
    }

    /// Waits until `pool` controls these config maps and no others.
    async fn until(&mut self, pool: &Pool, names: &[&str]) -> BTreeMap<String, String> {
        loop {
            let members = self.members(pool);
            if members.keys().map(String::as_str).eq(names.iter().copied()) {
                return members;
            }
            self.seen.next().await;
        }
    }

    async fn set(&self, pool: &Pool, spec: Value) {
        patch(&self.pools, &pool.name_any(), json!({ "spec": spec })).await;
    }

    pub(super) async fn relabel(&self, name: &str, labels: Value) {
        patch(
            &self.configs,
            name,
            json!({ "metadata": { "labels": labels } }),
        )
        .await;
    }

    pub(super) async fn get(&self, name: &str) -> ConfigMap {
        self.configs.get(name).await.expect("there")
    }

    /// Waits until a call for each pool has finished that began after now.
    async fn one_round(&mut self, pools: &[&Pool]) {
        self.rounds += 1;
        let round = self.rounds.to_string();
        for pool in pools {
            let annotations = json!({ "metadata": { "annotations": { NAMED: round } } });
            patch(&self.pools, &pool.name_any(), annotations).await;
        }
        let mut finished = self.finished.subscribe();
        let are_finished = |finished: &BTreeMap<String, String>| {
            let is_finished = |pool: &&Pool| finished.get(&pool.name_any()) == Some(&round);
            pools.iter().all(is_finished)
        };
        finished.wait_for(are_finished).await.expect("it is kept");
    }

    /// Further calls send no write.
    async fn is_steady(&mut self, pools: &[&Pool]) {
        self.one_round(pools).await;
        let before = self.cluster.connection().writes();
        for _ in 0..3 {
            self.one_round(pools).await;
        }
        assert_eq!(
            self.cluster.connection().writes(),
            before,
            "a write in the steady state"
        );
    }

    /// Deletes the pool as with `--cascade=orphan`, and creates one with the same name.
    async fn succeed(&self, pool: &Pool) -> Pool {
        for name in self.members(pool).keys() {
            let owners = json!({ "metadata": { "ownerReferences": [] } });
            patch(&self.configs, name, owners).await;
        }
        self.pools
            .delete(&pool.name_any(), &DeleteParams::default())
            .await
            .expect("there");
        create(&self.pools, Pool::new(&pool.name_any(), pool.spec.clone())).await
    }
}

pub(super) fn uid(object: &impl Resource) -> String {
    object.meta().uid.clone().expect("stored")
}

/// The uids of the owners that are controllers.
pub(super) fn controllers(object: &impl Resource) -> Vec<String> {
    let owners = object.meta().owner_references.iter().flatten();
    let controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.map(|owner| owner.uid.clone()).collect()
}

pub(super) fn web(name: &str) -> ConfigMap {
    labelled(config(name, "1"), "app", "web")
}

pub(super) fn pool(name: &str, size: usize) -> Pool {
    let members = [("app".to_owned(), "web".to_owned())].into();
    Pool::new(name, PoolSpec { members, size })
}

pub(super) fn owned_by(mut object: ConfigMap, owner: &ConfigMap) -> ConfigMap {
    let owner = owner.controller_owner_ref(&()).expect("a name and a uid");
    object.metadata.owner_references = Some(vec![owner]);
    object
}

on_both_servers! {
    async fn a_resource_with_claimed_children_has_one_handle(cluster: Cluster) {
        for is_owned in [true, false] {
            let mut builder = builder::<Pool>(&cluster).await;
            builder.claims(watch_of::<ConfigMap>(&cluster).await, GeneratedSelector);
            let again = watch_of::<ConfigMap>(&cluster).await;
            if is_owned {
                builder.owns(again);
            } else {
                builder.claims(again, GeneratedSelector);
            }
            let built = builder.build(|_: Context<Pool>| async { Ok::<_, Failure>(Outcome::done()) });
            let refused = built.expect_err("two handles").to_string();
            assert!(refused.contains("the children of the resource configmaps are claimed"), "{refused}");
            assert!(refused.ends_with("use one handle for the resource"), "{refused}");
        }
    }

    /// Rows: BO-42
    async fn a_selector_adopts_objects_without_a_controller_and_releases_children_that_it_does_not_match(cluster: Cluster) {
        let mut world = World::new(cluster).await;
        let stray = create(&world.configs, web("stray")).await;
        let db = create(&world.configs, labelled(config("db", "1"), "app", "db")).await;
        let other = create(&world.configs, config("other", "1")).await;
        let theirs = create(&world.configs, owned_by(web("a-theirs"), &other)).await;
        let mut leaving = web("leaving");
        leaving.metadata.finalizers = Some(vec!["test.windlass.dev/held".to_owned()]);
        create(&world.configs, leaving).await;
        world.configs.delete("leaving", &DeleteParams::default()).await.expect("there");
        let leaving = world.get("leaving").await;
        let a = create(&world.pools, pool("a", 3)).await;
        // The pool owns it, and another object is its controller.
        let mut shared = owned_by(web("shared"), &other);
        shared.owner_references_mut().push(a.owner_ref(&()).expect("a name and a uid"));
        let shared = create(&world.configs, shared).await;
        let rig = world.start(of_spec).await;

        // An object that was there, and two new ones.
        let members = world.until(&a, &["a-0", "a-1", "stray"]).await;
        assert_eq!(members["stray"], uid(&stray));
        let adopted = world.get("stray").await;
        assert_eq!((adopted.data, adopted.metadata.labels), (stray.data, stray.metadata.labels));
        world.is_steady(&[&a]).await;

        // A member that another writer relabels leaves, with nothing that names the pool.
        world.relabel("a-0", json!({ "app": "debug" })).await;
        let after = world.until(&a, &["a-1", "a-2", "stray"]).await;
        assert_eq!((&after["a-1"], &after["stray"]), (&members["a-1"], &members["stray"]));
        let released = world.get("a-0").await;
        assert_eq!(uid(&released), members["a-0"]);
        assert!(released.owner_references().is_empty() && released.annotations().is_empty());
        assert_eq!(*released.labels(), [("app".to_owned(), "debug".to_owned())].into());
        world.is_steady(&[&a]).await;
        for same in [db, theirs, leaving, shared] {
            let now = world.get(&same.name_any()).await;
            assert_eq!(now.resource_version(), same.resource_version(), "{}", now.name_any());
        }

        // An object that begins to match, and one whose controller is removed, wake the pool. It has
        // one too many then.
        world.relabel("db", json!({ "app": "web" })).await;
        world.until(&a, &["a-1", "a-2", "db"]).await;
        patch(&world.configs, "a-theirs", json!({ "metadata": { "ownerReferences": [] } })).await;
        world.until(&a, &["a-1", "a-2", "a-theirs"]).await;
        create(&world.configs, web("a-00")).await;
        world.until(&a, &["a-00", "a-1", "a-2"]).await;

        // Another selector: all leave, and all are new.
        world.set(&a, json!({ "members": { "app": "blue" } })).await;
        world.until(&a, &["a-3", "a-4", "a-5"]).await;
        assert!(controllers(&world.get("a-1").await).is_empty());
        world.is_steady(&[&a]).await;

        // A pool with its name adopts what the deleted one has left.
        rig.stop().await;
        let a = world.pools.get("a").await.expect("there");
        let left = world.members(&a);
        let a = world.succeed(&a).await;
        let rig = world.start(of_spec).await;
        assert_eq!(world.until(&a, &["a-3", "a-4", "a-5"]).await, left);
        world.is_steady(&[&a]).await;
        rig.stop().await;
        patch(&world.configs, "leaving", json!({ "metadata": { "finalizers": [] } })).await;
    }

    /// Rows: BO-42
    async fn with_a_generated_selector_two_objects_with_one_name_share_no_children(cluster: Cluster) {
        let mut world = World::new(cluster).await;
        let stray = create(&world.configs, web("stray")).await;
        let a = create(&world.pools, pool("a", 2)).await;
        let rig = world.start(GeneratedSelector).await;
        let members = world.until(&a, &["a-0", "a-1"]).await;
        for name in members.keys() {
            assert_eq!(world.get(name).await.labels()["windlass.dev/parent-uid"], uid(&a));
        }
        world.is_steady(&[&a]).await;
        // It adopts by the label: one of three members is too many.
        create(&world.configs, labelled(config("a-00", "1"), "windlass.dev/parent-uid", &uid(&a))).await;
        world.until(&a, &["a-0", "a-00"]).await;
        world.relabel("a-0", json!({ "windlass.dev/parent-uid": null })).await;
        world.until(&a, &["a-00", "a-1"]).await;
        assert!(world.get("a-0").await.owner_references().is_empty(), "released");
        world.is_steady(&[&a]).await;

        rig.stop().await;
        let left = world.members(&a);
        let successor = world.succeed(&a).await;
        let left: BTreeMap<_, _> = {
            let mut versions = BTreeMap::new();
            for name in left.keys() {
                versions.insert(name, world.get(name).await.resource_version());
            }
            versions
        };
        let rig = world.start(GeneratedSelector).await;
        world.until(&successor, &["a-2", "a-3"]).await;
        world.is_steady(&[&successor]).await;
        for (name, version) in left {
            assert_eq!(world.get(name).await.resource_version(), version, "{name}");
        }
        let same = world.get("stray").await;
        assert_eq!(same.resource_version(), stray.resource_version());
        rig.stop().await;
    }

    async fn of_two_selectors_that_match_an_object_the_first_one_keeps_it(cluster: Cluster) {
        let mut world = World::new(cluster).await;
        let free = create(&world.configs, web("free")).await;
        let a = create(&world.pools, pool("a", 1)).await;
        let b = create(&world.pools, pool("b", 1)).await;
        let rig = world.start(of_spec).await;
        let (winner, other) = loop {
            if world.members(&a).contains_key("free") {
                break (&a, (&b, "b-0"));
            }
            if world.members(&b).contains_key("free") {
                break (&b, (&a, "a-0"));
            }
            world.seen.next().await;
        };
        world.until(other.0, &[other.1]).await;
        world.is_steady(&[&a, &b]).await;
        assert_eq!(world.until(winner, &["free"]).await["free"], uid(&free));
        world.until(other.0, &[other.1]).await;

        // The winner wants no members: it deletes this one, and does not take the other's.
        world.set(winner, json!({ "size": 0 })).await;
        world.until(winner, &[]).await;
        world.is_steady(&[&a, &b]).await;
        world.until(other.0, &[other.1]).await;
        rig.stop().await;
    }
}
