//! The strategies of the kinds of children of one operator.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{
    kit::{self, Kit},
    roperator::{
        prelude::{
            ChildConfig, Error, K8sType, OperatorConfig, SyncRequest, SyncResponse, k8s_types,
        },
        serde_json::json,
    },
};

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Deal",
    namespaced,
    status = "DealStatus"
)]
struct DealSpec {
    price: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DealStatus {
    price: String,
    observed_generation: Option<i64>,
}

static PARENT_TYPE: &K8sType = &K8sType {
    api_version: "example.com/v1",
    kind: "Deal",
    plural_kind: "deals",
};

/// A child of each strategy, with the price as an annotation.
fn sync(request: &SyncRequest) -> Result<SyncResponse, Error> {
    let price = request.parent.pointer("/spec/price");
    let mut response = SyncResponse::new(json!({ "price": price }));
    for kind in ["ConfigMap", "Secret", "Service"] {
        let mut child = json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {
                "name": request.parent.name(),
                "namespace": request.parent.namespace(),
                "annotations": { "example.com/price": price },
            },
        });
        if kind == "Service" {
            child["spec"] = json!({ "ports": [{ "port": 80 }] });
        }
        response.add_child(child)?;
    }
    Ok(response)
}

/// The uid and the price of a child.
async fn child<K>(kit: &Kit) -> (Option<String>, String)
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + 'static,
{
    let child = kit.get::<K>("boat").await.expect("it exists");
    let price = child.annotations()["example.com/price"].clone();
    (child.uid(), price)
}

/// Rows: RO-09, RO-25
#[test]
fn each_kind_of_children_has_a_strategy_of_its_own() {
    kit::run(async |kit: Kit| {
        kit.install(&Deal::crd()).await;
        kit.start(|client, stop| async move {
            let config = OperatorConfig::new("deal-operator", PARENT_TYPE)
                .with_child(k8s_types::core::v1::ConfigMap, ChildConfig::replace())
                .with_child(k8s_types::core::v1::Secret, ChildConfig::on_delete())
                .with_child(k8s_types::core::v1::Service, ChildConfig::recreate());
            let controller = config.controller(client, sync).expect("a valid name");
            controller.run(stop).await
        });
        let price = "one".to_owned();
        kit.create(&Deal::new("boat", DealSpec { price })).await;
        let status = |price: &str| json!({ "status": { "price": price } });
        kit.expect::<Deal>("boat").matches(status("one")).await;
        kit.quiet().await;
        let (map, secret) = (child::<ConfigMap>(&kit).await, child::<Secret>(&kit).await);
        let service = child::<Service>(&kit).await;
        for (_, price) in [&map, &secret, &service] {
            assert_eq!(price, "one");
        }

        kit.edit::<Deal>("boat", |it| "two".clone_into(&mut it.spec.price))
            .await;
        kit.expect::<Deal>("boat").matches(status("two")).await;
        kit.quiet().await;
        assert_eq!(child::<ConfigMap>(&kit).await, (map.0, "two".to_owned()));
        assert_eq!(child::<Secret>(&kit).await, secret, "it stays as it is");
        let replaced = child::<Service>(&kit).await;
        assert_ne!(replaced.0, service.0, "another object");
        assert_eq!(replaced.1, "two");

        kit.delete::<Secret>("boat").await;
        kit.quiet().await;
        let replaced = child::<Secret>(&kit).await;
        assert_ne!(replaced.0, secret.0);
        assert_eq!(replaced.1, "two");
    });
}
