//! Kinds that the API server does not serve, or does not allow to list.

use std::{error::Error as _, time::Duration};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject},
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass::{
    Controller, Informer, ObjectKey, Owners, Watch,
    level::{MissingKind, Related},
    source::Scripted,
};

use super::rig::{Rig, build, builder, create, patch, watch};
use crate::{
    cluster::{Cluster, await_condition},
    kinds::config,
    watched::quick,
};

/// A kind that only the test of this cluster has.
fn later(cluster: &Cluster) -> ApiResource {
    let group = format!("{}.windlass.dev", cluster.namespace());
    ApiResource {
        api_version: format!("{group}/v1"),
        group,
        version: "v1".into(),
        kind: "Later".into(),
        plural: "laters".into(),
    }
}

fn definition(resource: &ApiResource) -> CustomResourceDefinition {
    let definition = json!({
        "metadata": { "name": format!("{}.{}", resource.plural, resource.group) },
        "spec": {
            "group": resource.group, "scope": "Namespaced",
            "names": { "kind": resource.kind, "plural": resource.plural, "singular": "later" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    serde_json::from_value(definition).expect("a definition")
}

async fn laters(cluster: &Cluster) -> Watch<DynamicObject> {
    let (client, resource) = (cluster.client().await, later(cluster));
    let api = Api::namespaced_with(client, cluster.namespace(), &resource);
    Watch::from((api, resource)).settings(quick)
}

/// Creates an object of the kind.
async fn create_later(cluster: &Cluster, name: &str) {
    let resource = later(cluster);
    let api = Api::namespaced_with(cluster.aside(), cluster.namespace(), &resource);
    create(&api, DynamicObject::new(name, &resource)).await;
}

on_both_servers! {
    /// No call begins while a store of the controller is incomplete.
    ///
    /// Rows: BO-35
    async fn a_missing_kind_fails_with_its_name_or_is_waited_for(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        create(&configs, config("a", "1")).await;
        for (then, fails) in [
            (MissingKind::Fail { after: Duration::from_secs(5) }, true),
            (MissingKind::Wait, false),
        ] {
            let mut builder = builder::<ConfigMap>(&cluster).await;
            let owners = Owners::of::<ConfigMap>(&());
            builder.watches(laters(&cluster).await, owners);
            let (sender, mut receiver) = mpsc::channel(64);
            let controller = build(builder.missing_kind(then), sender, |cx| cx.key().name().to_owned());
            let run = controller.run(CancellationToken::new());
            let ended = tokio::time::timeout(Duration::from_secs(if fails { 60 } else { 2 }), run).await;
            assert_eq!(ended.is_ok(), fails, "{then:?}");
            if let Ok(ended) = ended {
                let error = ended.expect_err("it fails").to_string();
                assert!(error.contains("laters.") && error.contains("does not serve this kind"), "{error}");
            }
            assert!(receiver.try_recv().is_err(), "no call before all stores are complete");
        }
    }

    /// Rows: BO-35
    async fn a_missing_permission_fails_with_the_kind_and_the_verbs(cluster: Cluster) {
        let api = Api::<ConfigMap>::namespaced(cluster.powerless().await, cluster.namespace());
        let builder = Controller::builder(cluster.powerless().await, Watch::from(api).settings(quick));
        let builder = builder.missing_kind(MissingKind::Fail { after: Duration::from_secs(5) });
        let (sender, _receiver) = mpsc::channel(64);
        let controller = build(builder, sender, |cx| cx.key().name().to_owned());
        let error = controller.run(CancellationToken::new()).await.expect_err("forbidden");
        assert!(error.source().is_none(), "the message is complete");
        let error = error.to_string();
        for part in ["configmaps", "forbidden", "must grant `list` and `watch`"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    /// The controller follows the creation, the deletion and the second creation of the definition.
    ///
    /// Rows: BO-35, BO-43
    async fn an_optional_kind_is_absent_until_it_is_served_and_is_followed_afterwards(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let mut builder = builder::<ConfigMap>(&cluster).await.missing_kind(MissingKind::Optional);
        let namespace = cluster.namespace().to_owned();
        let mapper = move |later: &DynamicObject| {
            Some(ObjectKey::new(later.name_any()).within(namespace.as_str()))
        };
        let related: Related<ConfigMap, DynamicObject> = builder.watches(laters(&cluster).await, mapper);
        let informers = related.informers().clone();
        let (sender, receiver) = mpsc::channel(64);
        let controller = build(builder, sender, move |cx| {
            let (absent, later) = (related.informers().is_absent(), related.get(cx, cx.key()));
            format!("{} absent={absent} later={}", cx.key().name(), later.is_some())
        });
        let mut rig = Rig::start(controller, receiver);
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "a absent=true later=false");
        cluster.install(&definition(&later(&cluster))).await;
        // Its first list reconciles all objects.
        assert_eq!(rig.next().await, "a absent=false later=false");

        let resource = later(&cluster);
        let crds = Api::<CustomResourceDefinition>::all(cluster.aside());
        for round in 0..2 {
            cluster.install(&definition(&resource)).await;
            while informers.is_absent() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            create_later(&cluster, "a").await;
            let mut line = String::new();
            while line != "a absent=false later=true" {
                line = rig.next().await;
            }
            let name = format!("{}.{}", resource.plural, resource.group);
            crds.delete(&name, &DeleteParams::default()).await.expect("there");
            while !line.ends_with("later=false") {
                line = rig.next().await;
            }
            let gone = |crd: Option<&CustomResourceDefinition>| crd.is_none();
            await_condition(crds.clone(), &name, gone).await.expect("deleted");
            while !informers.is_absent() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            // A call that saw that the kind is absent is repeated with it, although no object comes.
            patch(&configs, "a", json!({ "data": { "value": format!("absent {round}") } })).await;
            assert_eq!(rig.next().await, "a absent=true later=false");
            cluster.install(&definition(&resource)).await;
            assert_eq!(rig.next().await, "a absent=false later=false");
        }
        rig.stop().await;
    }

    /// Rows: BO-35, BO-43
    async fn a_watch_of_an_optional_kind_that_is_added_later_stops_no_calls(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let mut builder = builder::<ConfigMap>(&cluster).await.missing_kind(MissingKind::Optional);
        let related: Related<ConfigMap, Secret> = builder.watches(watch(&cluster).await, |_: &Secret| None);
        let informers = related.informers().clone();
        let (sender, receiver) = mpsc::channel(64);
        let controller = build(builder, sender, move |cx| {
            format!("{} absent={}", cx.key().name(), related.informers().is_absent())
        });
        let mut rig = Rig::start(controller, receiver);
        create(&configs, config("a", "1")).await;
        while rig.next().await != "a absent=false" {}
        // It has no list yet.
        let (script, source) = Scripted::<Secret>::new();
        informers.add(Watch::from(Informer::new(source))).expect("it runs");
        patch(&configs, "a", json!({ "data": { "value": "2" } })).await;
        while rig.next().await != "a absent=true" {}
        script.list([]).await.expect("it runs");
        assert_eq!(rig.next().await, "a absent=false");
        rig.stop().await;
    }
}
