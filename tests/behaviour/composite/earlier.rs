//! Children that an earlier program has written without server-side apply.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    CustomResourceExt as _, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass::composite::ChildConfig;

use super::rig::{BLOG, Composite, Rig, composite, until};
use crate::cluster::Cluster;

/// The field manager of the earlier program.
const EARLIER: &str = "earlier-operator";

/// Creates the parent `blog`, and its child as the earlier program did, with another writer beside it.
async fn write_earlier(cluster: &Cluster) {
    cluster.install(&Composite::crd()).await;
    let parents = cluster.api_aside::<Composite>();
    let maps = cluster.api_aside::<ConfigMap>();
    let parent = composite(BLOG, Some("2"));
    let parent = parents.create(&PostParams::default(), &parent).await;
    let owner = json!({
        "apiVersion": "test.windlass.dev/v1", "kind": "Composite", "controller": true,
        "name": BLOG, "uid": parent.expect("a new object").uid(),
    });
    let manager = format!("composites-{}", cluster.namespace());
    let created = json!({
        "metadata": {
            "name": BLOG, "ownerReferences": [owner],
            "labels": { "app.kubernetes.io/managed-by": manager, "earlier": "yes" },
        },
        "data": { "value": "1", "dropped": "x" },
    });
    let created: ConfigMap = serde_json::from_value(created).expect("a config map");
    let params = PostParams {
        field_manager: Some(EARLIER.to_owned()),
        ..PostParams::default()
    };
    let mut map = maps.create(&params, &created).await.expect("a new object");
    let data = map.data.get_or_insert_default();
    data.insert("dropped-too".to_owned(), "y".to_owned());
    maps.replace(BLOG, &params, &map).await.expect("replaced");
    let theirs = Patch::Merge(json!({ "data": { "theirs": "z" } }));
    let another = PatchParams {
        field_manager: Some("another".to_owned()),
        ..PatchParams::default()
    };
    maps.patch(BLOG, &another, &theirs).await.expect("patched");
}

on_both_servers! {
    /// `docs/from-roperator.md`.
    async fn the_fields_of_an_earlier_program_are_taken_over(cluster: Cluster) {
        write_earlier(&cluster).await;
        // Without the name of its manager, its fields stay.
        let rig = Rig::start(&cluster).await;
        until("an apply", async || rig.data(BLOG).await.as_deref() == Some("2")).await;
        let map = rig.maps.get(BLOG).await.expect("it exists");
        assert_eq!(map.data.expect("data").len(), 4);
        rig.stop().await;

        let config = ChildConfig::apply().migrate_from("never-there").migrate_from(EARLIER);
        let rig = Rig::with(&cluster, config, |it| it).await;
        until("the take-over", async || {
            let map = rig.maps.get(BLOG).await.expect("it exists");
            !map.data.expect("data").contains_key("dropped")
        })
        .await;
        let map = rig.maps.get(BLOG).await.expect("it exists");
        let data = json!({ "value": "2", "theirs": "z" });
        assert_eq!(serde_json::to_value(&map.data).expect("JSON"), data);
        assert!(!map.labels().contains_key("earlier"), "{:?}", map.labels());
        let managers = map.managed_fields().iter();
        let managers: Vec<_> = managers.filter_map(|it| it.manager.as_deref()).collect();
        let ours = format!("composites-{}", cluster.namespace());
        assert_eq!(managers.len(), 2, "{managers:?}");
        assert!(managers.contains(&"another") && managers.contains(&&*ours), "{managers:?}");

        // It is an own field now: removed like every other.
        rig.change(None).await;
        until("the deletion", async || rig.data(BLOG).await.is_none()).await;
        rig.stop().await;
    }
}
