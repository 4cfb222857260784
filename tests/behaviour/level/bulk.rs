//! Bulk children: a primary object with 0 to n children of one kind.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt as _, api::DeleteParams};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use windlass::{Context, Desired, Failure, Outcome, Owned};

use super::rig::{NAMED, Rig, builder, create, patch, secret, watch as watch_of};
use crate::{
    cluster::Cluster,
    kinds::{config, value},
    watched::{Watched, quick},
};

/// The program of a user: a config map `a` with the value 3 has the secrets `a-0`, `a-1` and `a-2`.
async fn scale(
    cx: &Context<ConfigMap>,
    secrets: &Owned<ConfigMap, Secret>,
) -> Result<Outcome, Failure> {
    let count = value(cx.object()).parse::<u32>().unwrap_or(0);
    for number in 0..count {
        let secret = Desired::json(json!({ "stringData": { "number": number.to_string() } }));
        let name = format!("{}-{number}", cx.key().name());
        secrets.apply(cx, secret.named(name)).await?;
    }
    secrets.prune(cx).await?;
    Ok(Outcome::done())
}

/// The config maps of the test, and the secrets that the server has.
struct World {
    cluster: Cluster,
    configs: Api<ConfigMap>,
    secrets: Api<Secret>,
    seen: Watched<Secret>,
    /// The newest value of the annotation [`NAMED`] that a call has finished with, by config map.
    finished: watch::Sender<BTreeMap<String, String>>,
    rounds: u32,
}

// === impl World ===

impl World {
    fn new(cluster: Cluster) -> Self {
        let secrets = cluster.api_aside::<Secret>();
        Self {
            configs: cluster.api_aside(),
            seen: Watched::start(quick(secrets.clone())),
            secrets,
            cluster,
            finished: watch::Sender::default(),
            rounds: 0,
        }
    }

    async fn start(&self) -> Rig {
        let mut builder = builder::<ConfigMap>(&self.cluster).await;
        let secrets = builder.owns(watch_of::<Secret>(&self.cluster).await);
        let finished = self.finished.clone();
        let reconciler = move |cx: Context<ConfigMap>| {
            let (secrets, finished) = (secrets.clone(), finished.clone());
            async move {
                let outcome = scale(&cx, &secrets).await?;
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

    async fn set(&self, name: &str, count: u32) {
        patch(
            &self.configs,
            name,
            json!({ "data": { "value": count.to_string() } }),
        )
        .await;
    }

    /// The children that the server has as they are desired, by name, with their uids.
    fn children(&self) -> BTreeMap<String, String> {
        let good = |secret: &Secret| {
            let name = secret.name_any();
            let (owner, number) = name.rsplit_once('-')?;
            let [reference] = secret.owner_references() else {
                return None;
            };
            let data = secret.data.as_ref()?.get("number")?;
            let is_good = reference.name == owner && data.0 == number.as_bytes();
            is_good.then(|| (name.clone(), secret.uid().expect("stored")))
        };
        let stored = self.seen.informer.store().list();
        stored.iter().filter_map(|secret| good(secret)).collect()
    }

    /// Waits until the server has these children as they are desired, and no other secrets than
    /// those of other writers. Returns the uids of the children by name.
    async fn until(&mut self, children: &[&str]) -> BTreeMap<String, String> {
        let foreign = ["a-9", "foreign"];
        let names: BTreeSet<_> = children.iter().copied().collect();
        let all: BTreeSet<_> = foreign.into_iter().chain(names.iter().copied()).collect();
        loop {
            let (good, stored) = (self.children(), self.seen.informer.store().keys());
            let stored: BTreeSet<_> = stored
                .iter()
                .map(windlass::informer::ObjectKey::name)
                .collect();
            if good.keys().map(String::as_str).eq(names.iter().copied()) && stored == all {
                return good;
            }
            self.seen.next().await;
        }
    }

    /// Waits until a call for each config map has finished that began after now.
    async fn one_round(&mut self) {
        self.rounds += 1;
        let round = self.rounds.to_string();
        for name in ["a", "b"] {
            let annotations = json!({ "metadata": { "annotations": { NAMED: round } } });
            patch(&self.configs, name, annotations).await;
        }
        let mut finished = self.finished.subscribe();
        let are_finished = |finished: &BTreeMap<String, String>| {
            ["a", "b"]
                .iter()
                .all(|name| finished.get(*name) == Some(&round))
        };
        finished.wait_for(are_finished).await.expect("it is kept");
    }

    /// Further calls send no write and leave the secrets as they are. The first calls after a start
    /// may apply each child once.
    async fn is_steady(&mut self) {
        self.one_round().await;
        let before = (self.cluster.connection().writes(), self.versions().await);
        for _ in 0..3 {
            self.one_round().await;
        }
        let after = (self.cluster.connection().writes(), self.versions().await);
        assert_eq!(before, after, "a write in the steady state");
    }

    async fn versions(&self) -> BTreeMap<String, Option<String>> {
        let secrets = self.secrets.list(&kube::api::ListParams::default()).await;
        let secrets = secrets.expect("a list").into_iter();
        secrets
            .map(|it| (it.name_any(), it.resource_version()))
            .collect()
    }
}

on_both_servers! {
    /// Rows: BO-39
    async fn an_object_has_as_many_children_of_a_kind_as_its_spec_says(cluster: Cluster) {
        let mut world = World::new(cluster);
        // Secrets of other writers, one of them with the name of a child.
        let foreign = create(&world.secrets, secret("foreign")).await;
        let like_a_child = create(&world.secrets, secret("a-9")).await;
        create(&world.configs, config("a", "2")).await;
        create(&world.configs, config("b", "1")).await;
        let rig = world.start().await;
        let two = world.until(&["a-0", "a-1", "b-0"]).await;
        world.is_steady().await;

        // Each number of children: those that stay are the same objects.
        world.set("a", 4).await;
        let four = world.until(&["a-0", "a-1", "a-2", "a-3", "b-0"]).await;
        assert!(two.iter().all(|child| four.get_key_value(child.0) == Some(child)));
        world.is_steady().await;
        world.set("a", 1).await;
        let one = world.until(&["a-0", "b-0"]).await;
        assert!(one.iter().all(|child| four.get_key_value(child.0) == Some(child)));
        world.is_steady().await;
        world.set("a", 0).await;
        let none = world.until(&["b-0"]).await;
        assert_eq!(none["b-0"], two["b-0"], "the children of another object stay");
        world.is_steady().await;
        world.set("a", 3).await;
        let three = world.until(&["a-0", "a-1", "a-2", "b-0"]).await;
        assert_ne!(three["a-0"], two["a-0"]);

        // One of the children is deleted, or changed, by another writer.
        world.secrets.delete("a-1", &DeleteParams::default()).await.expect("there");
        while world.until(&["a-0", "a-1", "a-2", "b-0"]).await["a-1"] == three["a-1"] {
            world.seen.next().await;
        }
        let version_of_a_2 = |world: &World| {
            let stored = world.seen.informer.store().list();
            let stored = stored.iter().find(|secret| secret.name_any() == "a-2");
            stored.and_then(|secret| secret.resource_version())
        };
        let before = version_of_a_2(&world);
        patch(&world.secrets, "a-2", json!({ "stringData": { "number": "7" } })).await;
        while version_of_a_2(&world) == before || !world.children().contains_key("a-2") {
            world.seen.next().await;
        }
        let repaired = world.until(&["a-0", "a-1", "a-2", "b-0"]).await;
        for same in ["a-0", "a-2", "b-0"] {
            assert_eq!(repaired[same], three[same], "{same}");
        }
        world.is_steady().await;

        // Changes while no controller runs: it knows its children after a restart.
        rig.stop().await;
        world.set("a", 1).await;
        world.set("b", 3).await;
        world.secrets.delete("a-0", &DeleteParams::default()).await.expect("there");
        patch(&world.secrets, "b-0", json!({ "stringData": { "number": "7" } })).await;
        let rig = world.start().await;
        let restarted = world.until(&["a-0", "b-0", "b-1", "b-2"]).await;
        assert_eq!(restarted["b-0"], three["b-0"]);
        assert_ne!(restarted["a-0"], three["a-0"]);
        world.is_steady().await;

        // Both go to 0, and the secrets of other writers were never touched.
        world.set("a", 0).await;
        world.set("b", 0).await;
        world.until(&[]).await;
        world.is_steady().await;
        let left = world.versions().await;
        for foreign in [foreign, like_a_child] {
            assert_eq!(left[&foreign.name_any()], foreign.resource_version());
        }
        assert_eq!(left.len(), 2);
        rig.stop().await;
        world.seen.stop().await;
    }
}
