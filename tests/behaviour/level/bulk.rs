//! Any number of children of one kind for each object.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{Context, Desired, Failure, Outcome};

use super::rig::{Rig, builder, create, patch, say, watch};
use crate::kinds::{config, value};

/// The children of the config map with this name, as `name color`.
async fn shown(secrets: &Api<Secret>, parent: &str) -> Vec<String> {
    let list = secrets.list(&ListParams::default()).await.expect("a list");
    let owned = list.iter().filter(|it| {
        let mut owners = it.owner_references().iter();
        owners.any(|it| it.kind == "ConfigMap" && it.name == parent)
    });
    let mut shown: Vec<_> = owned
        .map(|it| format!("{} {}", it.name_any(), it.annotations()["color"]))
        .collect();
    shown.sort();
    shown
}

on_both_servers! {
    /// The call of an object computes how many children of a kind it has, and what they contain.
    /// Those of other objects of the same kind stay as they are.
    ///
    /// Rows: BO-39
    async fn an_object_has_any_number_of_children_of_one_kind(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let children = builder.owns(watch::<Secret>(&cluster).await);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                let name = cx.key().name();
                let value = value(cx.object());
                let Some((count, color)) = value.split_once(' ') else {
                    return Ok(Outcome::done());
                };
                for number in 0..count.parse().expect("a number") {
                    let bulb = json!({ "metadata": { "annotations": { "color": color } } });
                    let bulb = Desired::json(bulb).named(format!("{name}-{number}"));
                    children.apply(&cx, bulb).await?;
                }
                children.prune(&cx).await?;
                say(&sender, name.to_owned()).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&configs, config("other", "2 blue")).await;
        assert_eq!(rig.next().await, "other");
        create(&configs, config("a", "0 red")).await;
        assert_eq!(rig.next().await, "a");
        assert!(shown(&secrets, "a").await.is_empty());
        for (value, expected) in [
            ("3 red", vec!["a-0 red", "a-1 red", "a-2 red"]),
            ("4 green", vec!["a-0 green", "a-1 green", "a-2 green", "a-3 green"]),
            ("1 green", vec!["a-0 green"]),
            ("2 red", vec!["a-0 red", "a-1 red"]),
        ] {
            patch(&configs, "a", json!({ "data": { "value": value } })).await;
            assert_eq!(rig.next().await, "a");
            assert_eq!(shown(&secrets, "a").await, expected, "{value}");
        }
        // Each of them is watched.
        secrets.delete("a-1", &DeleteParams::default()).await.expect("there");
        assert_eq!(rig.next().await, "a");
        assert_eq!(shown(&secrets, "a").await, ["a-0 red", "a-1 red"]);
        patch(&configs, "a", json!({ "data": { "value": "0 red" } })).await;
        assert_eq!(rig.next().await, "a");
        assert!(shown(&secrets, "a").await.is_empty());
        assert_eq!(shown(&secrets, "other").await, ["other-0 blue", "other-1 blue"]);
        rig.stop().await;
    }
}
