//! The status of kinds without `observedGeneration`, and without the subresource.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, CustomResourceExt as _,
    api::{ApiResource, DynamicObject, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use windlass::{
    Failure, Watch,
    composite::{ChildConfig, CompositeController, SyncRequest, SyncResponse},
};

use super::rig::{BLOG, Running, until};
use crate::{
    kinds::{Gadget, GadgetSpec, Gizmo, loose_gizmo},
    watched::quick,
};

on_both_servers! {
    /// The schema of a gadget's status declares no `observedGeneration`.
    async fn a_status_without_an_observed_generation_is_written_without_it(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let parents = Watch::from(cluster.api::<Gadget>().await).settings(quick);
        let name = format!("composites-{}", cluster.namespace());
        let controller = CompositeController::builder(cluster.client().await, name, parents)
            .child::<ConfigMap>(ChildConfig::apply())
            .build(|_: &SyncRequest<Gadget>| {
                Ok::<_, Failure>(SyncResponse::new(json!({ "ready": true })))
            })
            .expect("good settings");
        let running = Running::start(controller);
        let gadgets = cluster.api_aside::<Gadget>();
        let gadget = Gadget::new(BLOG, GadgetSpec { size: 1 });
        gadgets.create(&PostParams::default(), &gadget).await.expect("a new object");
        until("the status", async || {
            let gadget = gadgets.get(BLOG).await.expect("it exists");
            gadget.status.is_some_and(|it| it.ready)
        })
        .await;
        running.stop().await;
    }

    /// Rows: RO-44
    async fn a_status_without_the_subresource_is_an_error_that_names_it(cluster: Cluster) {
        cluster.install(&loose_gizmo()).await;
        let types = ApiResource::erase::<Gizmo>(&());
        let api = Api::<DynamicObject>::namespaced_with(cluster.client().await, cluster.namespace(), &types);
        let parents = Watch::from((api.clone(), types.clone())).settings(quick);
        let reports: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&reports);
        let name = format!("composites-{}", cluster.namespace());
        let client = cluster.client().await;
        let controller = CompositeController::builder(client, name, parents)
            .child::<ConfigMap>(ChildConfig::apply())
            .with_controller(move |builder| {
                builder.on_error(move |report| log.lock().push(report.to_string()))
            })
            .build(|_: &SyncRequest| Ok::<_, Failure>(SyncResponse::new(json!({ "ready": true }))))
            .expect("good settings");
        let running = Running::start(controller);
        let gizmo = DynamicObject::new(BLOG, &types).data(json!({ "spec": { "size": 1 } }));
        api.create(&PostParams::default(), &gizmo).await.expect("a new object");
        until("a report", async || !reports.lock().is_empty()).await;
        let report = reports.lock()[0].clone();
        assert!(report.contains("the kind has no status subresource"), "{report}");
        assert!(report.contains("gizmos.test.windlass.dev"), "{report}");
        assert!(api.get(BLOG).await.expect("it exists").data.get("status").is_none());
        running.stop().await;
    }
}
