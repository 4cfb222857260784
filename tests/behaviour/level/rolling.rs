//! Children that are updated a few at a time.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{
    Context, Desired, Failure, Outcome,
    level::{Dependents, PAUSED, UpdateStrategy, has_condition},
};

use super::rig::{Rig, builder, create, patch, say, watch};
use crate::{
    cluster::Cluster,
    kinds::{config, value},
};

/// The version of the shards, how many are updated at a time, and how. The value of a config map.
struct Settings {
    version: String,
    at_most: usize,
    strategy: UpdateStrategy,
    adopts: bool,
}

/// Starts an operator that keeps three shards for each config map with a version.
async fn start(cluster: &Cluster) -> Rig {
    let (sender, receiver) = mpsc::channel(64);
    let mut builder = builder::<ConfigMap>(cluster).await;
    let deployments = builder.owns(watch::<Deployment>(cluster).await);
    let reconciler = move |cx: Context<ConfigMap>| {
        let (deployments, sender) = (deployments.clone(), sender.clone());
        async move {
            let Some(settings) = settings(cx.object()) else {
                return Ok(Outcome::done());
            };
            let shards = (0..3).map(|index| shard(index, &settings));
            let mut plan = Dependents::new();
            let shards = plan.add(
                (deployments.rolling(shards).at_most(settings.at_most))
                    .ready(has_condition("Available", "True"))
                    .failed(has_condition("Progressing", "False")),
            );
            let states = plan.apply(&cx).await?;
            let state = states.get(shards).expect("of this plan");
            let Settings {
                version, at_most, ..
            } = settings;
            let line = format!("{version}/{at_most} {state:?} | {states}");
            say(&sender, line).await;
            Ok::<_, Failure>(Outcome::done())
        }
    };
    Rig::start(builder.build(reconciler).expect("good settings"), receiver)
}

fn settings(config: &ConfigMap) -> Option<Settings> {
    let mut words = value(config).split(' ');
    let version = words.next().filter(|it| it.starts_with('v'))?.to_owned();
    let at_most = words.next()?.parse().ok()?;
    let word = words.next()?;
    let strategy = match word {
        "Recreate" => UpdateStrategy::Recreate,
        "OnDelete" => UpdateStrategy::OnDelete,
        _ => UpdateStrategy::Apply,
    };
    Some(Settings {
        version,
        at_most,
        strategy,
        adopts: word == "Adopt",
    })
}

fn shard(index: u32, settings: &Settings) -> Desired<Deployment> {
    let labels = json!({ "app": "shard" });
    let container = json!({ "name": "app", "image": settings.version });
    let template =
        json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    let spec = json!({ "selector": { "matchLabels": labels }, "template": template });
    let desired = Desired::json(json!({ "spec": spec }));
    let desired = desired.named(format!("shard-{index}"));
    let desired = desired.strategy(settings.strategy);
    if settings.adopts {
        desired.adopt()
    } else {
        desired
    }
}

/// The shards of the test, and the operator.
struct World {
    rig: Rig,
    configs: Api<ConfigMap>,
    shards: Api<Deployment>,
    strategy: &'static str,
}

// === impl World ===

impl World {
    async fn set(&self, version: &str, at_most: usize) {
        let value = format!("{version} {at_most} {}", self.strategy);
        patch(&self.configs, "a", json!({ "data": { "value": value } })).await;
    }

    /// The versions of the shards that exist.
    async fn versions(&self) -> String {
        let listed = self.shards.list(&kube::api::ListParams::default()).await;
        let version = |shard: &Deployment| {
            let template = shard.spec.as_ref().map(|it| &it.template);
            let pod = template.and_then(|it| it.spec.as_ref());
            pod.and_then(|it| it.containers[0].image.clone())
        };
        let versions = listed.expect("a list").items;
        let versions: Vec<_> = versions.iter().filter_map(version).collect();
        versions.join(" ")
    }

    /// Waits for a call with this state, after which the shards have these versions. Returns what is
    /// not ready.
    async fn reaches(&mut self, state: &str, versions: &str) -> String {
        loop {
            let line = self.rig.next().await;
            let (found, reasons) = line.split_once(" | ").expect("a state and reasons");
            if found == state && self.versions().await == versions {
                return reasons.to_owned();
            }
        }
    }

    /// Sets a condition in the status of a shard, for its generation.
    async fn set_condition(&self, index: u32, condition: &str, status: &str) {
        let name = format!("shard-{index}");
        let shard = self.shards.get(&name).await.expect("there");
        let status = json!({ "status": {
            "observedGeneration": shard.metadata.generation,
            "conditions": [{ "type": condition, "status": status }],
        } });
        let (params, status) = (PatchParams::default(), Patch::Merge(status));
        let patched = self.shards.patch_status(&name, &params, &status).await;
        patched.expect("there");
    }

    async fn set_available(&self, shards: impl IntoIterator<Item = u32>) {
        for index in shards {
            self.set_condition(index, "Available", "True").await;
        }
    }

    /// An event of a shard without a change that matters.
    async fn touch(&self, index: u32) {
        let touched = json!({ "metadata": { "annotations": { "touched": "yes" } } });
        patch(&self.shards, &format!("shard-{index}"), touched).await;
        let touched: Value = json!({ "metadata": { "annotations": { "touched": null } } });
        patch(&self.shards, &format!("shard-{index}"), touched).await;
    }
}

on_both_servers! {
    /// Rows: BO-41
    #[expect(clippy::too_many_lines, reason = "one step of an update after the other")]
    async fn children_are_updated_a_few_at_a_time_and_not_while_one_of_them_has_failed(cluster: Cluster) {
        for strategy in ["Apply", "Recreate"] {
            let mut world = World {
                rig: start(&cluster).await,
                configs: cluster.api_aside(),
                shards: cluster.api_aside(),
                strategy,
            };
            // Those that do not exist are created together.
            create(&world.configs, config("a", &format!("v1 1 {strategy}"))).await;
            world.reaches("v1/1 NotReady", "v1 v1 v1").await;
            world.set_available(0..3).await;
            world.reaches("v1/1 Ready", "v1 v1 v1").await;

            world.set("v2", 1).await;
            let reasons = world.reaches("v2/1 NotReady", "v2 v1 v1").await;
            let name = |index| format!("deployments.apps {}/shard-{index}", cluster.namespace());
            let is_not_ready = format!("{} is not ready, 2 of 3 children wait for their update", name(0));
            assert_eq!(reasons, is_not_ready);
            world.touch(1).await;
            world.reaches("v2/1 NotReady", "v2 v1 v1").await;
            // A restart does not forget which children are updated.
            world.rig.stop().await;
            world.rig = start(&cluster).await;
            world.reaches("v2/1 NotReady", "v2 v1 v1").await;

            world.set_condition(0, "Progressing", "False").await;
            let reasons = world.reaches("v2/1 Failed", "v2 v1 v1").await;
            assert_eq!(reasons, format!("{} has failed, 2 of 3 children wait for their update", name(0)));
            // Also a larger number is not updated then.
            world.set("v2", 3).await;
            world.touch(2).await;
            world.reaches("v2/3 Failed", "v2 v1 v1").await;
            world.set("v2", 1).await;
            world.reaches("v2/1 Failed", "v2 v1 v1").await;
            world.set_available([0]).await;
            world.reaches("v2/1 NotReady", "v2 v2 v1").await;

            // A new desired state continues the update.
            world.set_condition(1, "Progressing", "False").await;
            world.reaches("v2/1 Failed", "v2 v2 v1").await;
            world.set_available([2]).await;
            world.set("v3", 1).await;
            world.reaches("v3/1 NotReady", "v2 v3 v1").await;
            world.set_available([1]).await;
            world.reaches("v3/1 NotReady", "v3 v3 v1").await;
            world.set_available([0]).await;
            world.reaches("v3/1 NotReady", "v3 v3 v3").await;
            world.set_available([2]).await;
            assert_eq!(world.reaches("v3/1 Ready", "v3 v3 v3").await, "all are ready");

            // A change by another writer is no update: it is reverted at once.
            world.set("v3", 0).await;
            let container = json!({ "name": "app", "image": "theirs" });
            let pod = json!({ "spec": { "containers": [container] } });
            let change = Patch::Strategic(json!({ "spec": { "template": pod } }));
            let params = PatchParams::default();
            let patched = world.shards.patch("shard-1", &params, &change);
            patched.await.expect("there");
            world.reaches("v3/0 NotReady", "v3 v3 v3").await;
            world.set_available([1]).await;
            world.reaches("v3/0 Ready", "v3 v3 v3").await;
            // Nor is the removal of the annotation alone, from which a restart knows what is updated.
            let unmarked = json!({ "metadata": { "annotations": { "windlass.dev/applied": null } } });
            patch(&world.shards, "shard-1", unmarked).await;
            world.set_condition(1, "Available", "False").await;
            let reasons = world.reaches("v3/0 NotReady", "v3 v3 v3").await;
            assert_eq!(reasons, format!("{} is not ready", name(1)));
            world.set_available([1]).await;
            world.reaches("v3/0 Ready", "v3 v3 v3").await;

            world.set("v4", 0).await;
            let paused = world.reaches("v4/0 NotReady", "v3 v3 v3").await;
            assert_eq!(paused, format!("{} is not updated, 3 of 3 children wait for their update", name(0)));
            world.set("v4", 2).await;
            world.reaches("v4/2 NotReady", "v4 v4 v3").await;
            world.set_available([1]).await;
            world.reaches("v4/2 NotReady", "v4 v4 v4").await;

            // While the object is paused, nothing is updated or created.
            let pause = |value: &str| json!({ "metadata": { "annotations": { PAUSED: value } } });
            patch(&world.configs, "a", pause("true")).await;
            world.set("v5", 2).await;
            let paused = world.reaches("v5/2 NotReady", "v4 v4 v4").await;
            assert_eq!(paused, format!("{} is not updated, 3 of 3 children wait for their update", name(0)));
            world.shards.delete("shard-2", &DeleteParams::default()).await.expect("there");
            world.reaches("v5/2 NotReady", "v4 v4").await;
            patch(&world.configs, "a", pause("false")).await;
            world.reaches("v5/2 NotReady", "v5 v4 v5").await;
            world.rig.stop().await;
            world.configs.delete("a", &DeleteParams::default()).await.expect("there");
            for index in 0..3 {
                let name = format!("shard-{index}");
                world.shards.delete(&name, &DeleteParams::default()).await.expect("there");
            }
        }
    }

    /// Rows: BO-41
    async fn a_child_that_is_updated_on_delete_is_left_until_another_client_deletes_it(cluster: Cluster) {
        let mut world = World {
            rig: start(&cluster).await,
            configs: cluster.api_aside(),
            shards: cluster.api_aside(),
            strategy: "OnDelete",
        };
        create(&world.configs, config("a", "v1 1 OnDelete")).await;
        world.reaches("v1/1 NotReady", "v1 v1 v1").await;
        world.set_available(0..3).await;
        world.reaches("v1/1 Ready", "v1 v1 v1").await;
        world.set("v2", 1).await;
        let reasons = world.reaches("v2/1 NotReady", "v1 v1 v1").await;
        assert!(reasons.ends_with("/shard-0 is not updated, 3 of 3 children wait for their update"), "{reasons}");
        world.shards.delete("shard-1", &DeleteParams::default()).await.expect("there");
        world.reaches("v2/1 NotReady", "v1 v2 v1").await;
        world.rig.stop().await;
    }

    /// Rows: BO-41
    async fn a_child_that_is_being_deleted_counts_as_one_that_is_updated(cluster: Cluster) {
        let mut world = World {
            rig: start(&cluster).await,
            configs: cluster.api_aside(),
            shards: cluster.api_aside(),
            strategy: "Apply",
        };
        create(&world.configs, config("a", "v1 1 Apply")).await;
        world.reaches("v1/1 NotReady", "v1 v1 v1").await;
        world.set_available(0..3).await;
        world.reaches("v1/1 Ready", "v1 v1 v1").await;
        let held = |finalizers: &[&str]| json!({ "metadata": { "finalizers": finalizers } });
        patch(&world.shards, "shard-2", held(&["test.windlass.dev/held"])).await;
        world.shards.delete("shard-2", &DeleteParams::default()).await.expect("there");
        world.reaches("v1/1 NotReady", "v1 v1 v1").await;
        world.set("v2", 1).await;
        world.reaches("v2/1 NotReady", "v1 v1 v1").await;
        patch(&world.shards, "shard-2", held(&[])).await;
        world.reaches("v2/1 NotReady", "v1 v1 v2").await;
        world.set_available([2]).await;
        world.reaches("v2/1 NotReady", "v2 v1 v2").await;
        world.rig.stop().await;
    }

    /// Rows: BO-41
    async fn a_child_that_is_deleted_during_an_update_is_created_at_once(cluster: Cluster) {
        let mut world = World {
            rig: start(&cluster).await,
            configs: cluster.api_aside(),
            shards: cluster.api_aside(),
            strategy: "Apply",
        };
        create(&world.configs, config("a", "v1 1 Apply")).await;
        world.reaches("v1/1 NotReady", "v1 v1 v1").await;
        world.set_available(0..3).await;
        world.reaches("v1/1 Ready", "v1 v1 v1").await;
        world.set("v2", 1).await;
        world.reaches("v2/1 NotReady", "v2 v1 v1").await;
        // The first one is not ready, so that no other one is updated.
        world.shards.delete("shard-2", &DeleteParams::default()).await.expect("there");
        world.reaches("v2/1 NotReady", "v2 v1 v2").await;
        world.rig.stop().await;
    }

    /// Rows: BO-41
    async fn a_new_desired_state_is_given_to_the_children_that_are_not_ready_first(cluster: Cluster) {
        let mut world = World {
            rig: start(&cluster).await,
            configs: cluster.api_aside(),
            shards: cluster.api_aside(),
            strategy: "Apply",
        };
        create(&world.configs, config("a", "v1 1 Apply")).await;
        world.reaches("v1/1 NotReady", "v1 v1 v1").await;
        world.set_available(0..3).await;
        world.reaches("v1/1 Ready", "v1 v1 v1").await;
        world.set("v2", 1).await;
        world.reaches("v2/1 NotReady", "v2 v1 v1").await;
        world.set_available([0]).await;
        world.reaches("v2/1 NotReady", "v2 v2 v1").await;
        // Another one would be the second that is down.
        world.set("v3", 1).await;
        world.reaches("v3/1 NotReady", "v2 v3 v1").await;
        // Of those that are ready, none is updated before.
        world.set_condition(2, "Available", "False").await;
        world.rig.stop().await;
        world.rig = start(&cluster).await;
        world.reaches("v3/1 NotReady", "v2 v3 v1").await;
        world.set("v3", 2).await;
        world.reaches("v3/2 NotReady", "v2 v3 v3").await;
        world.set_available([1]).await;
        world.reaches("v3/2 NotReady", "v3 v3 v3").await;
        world.rig.stop().await;
    }

    /// Rows: BO-41
    async fn objects_that_are_taken_over_are_updated_a_few_at_a_time(cluster: Cluster) {
        let shards: Api<Deployment> = cluster.api_aside();
        let theirs = json!({ "app": "shard" });
        let container = json!({ "name": "app", "image": "theirs" });
        let template = json!({ "metadata": { "labels": theirs }, "spec": { "containers": [container] } });
        for index in 0..3 {
            let shard = json!({
                "metadata": { "name": format!("shard-{index}") },
                "spec": { "selector": { "matchLabels": theirs }, "template": template },
            });
            create(&shards, serde_json::from_value(shard).expect("a deployment")).await;
        }
        let configs = cluster.api_aside();
        let mut world = World { rig: start(&cluster).await, configs, shards, strategy: "Adopt" };
        world.set_available(0..3).await;
        // The store has all from the start.
        world.rig.stop().await;
        world.rig = start(&cluster).await;
        create(&world.configs, config("a", "v1 1 Adopt")).await;
        world.reaches("v1/1 NotReady", "v1 theirs theirs").await;
        world.set_available([0]).await;
        world.reaches("v1/1 NotReady", "v1 v1 theirs").await;
        world.set_available([1]).await;
        world.reaches("v1/1 NotReady", "v1 v1 v1").await;
        world.rig.stop().await;
    }
}
