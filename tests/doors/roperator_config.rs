//! The configuration of an operator that replaces one of roperator: its namespace, its labels, and
//! the children that the other has written.

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use tokio_util::sync::CancellationToken;
use windlass::roperator::{
    prelude::{ChildConfig, Error, K8sType, OperatorConfig, SyncRequest, SyncResponse, k8s_types},
    serde_json::{from_value, json},
};

use crate::{
    cluster::{Cluster, until},
    roperator_greeter::{definition, types},
};

const OPERATOR_NAME: &str = "greeter-operator";

static PARENT_TYPE: &K8sType = &K8sType {
    api_version: "example.com/v1",
    kind: "Greeter",
    plural_kind: "greeters",
};

fn greet(request: &SyncRequest) -> Result<SyncResponse, Error> {
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "greeting", "namespace": request.parent.namespace() },
        "data": { "greeting": "hello" },
    });
    let mut response = SyncResponse::new(json!({ "greeted": true }));
    response.add_child(child)?;
    Ok(response)
}

/// Installs the kind, and creates a parent in each namespace.
async fn create_parents(cluster: &Cluster) -> Vec<DynamicObject> {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = definition(PARENT_TYPE, "Namespaced");
    let installed = definitions
        .create(&PostParams::default(), &definition)
        .await;
    installed.expect("a new kind");
    let mut parents = Vec::new();
    for namespace in ["default", "shop"] {
        let greeters: Api<DynamicObject> =
            Api::namespaced_with(cluster.client(), namespace, &types(PARENT_TYPE));
        let spec = json!({ "spec": { "name": "you" } });
        let greeter = DynamicObject::new("hello", &types(PARENT_TYPE)).data(spec);
        let created = greeters.create(&PostParams::default(), &greeter).await;
        parents.push(created.expect("a new object"));
    }
    parents
}

/// Writes the status of the parent in `shop`, as roperator does.
async fn write_earlier_status(cluster: &Cluster) -> Api<DynamicObject> {
    let greeters: Api<DynamicObject> =
        Api::namespaced_with(cluster.client(), "shop", &types(PARENT_TYPE));
    let patch = Patch::Merge(json!({ "status": { "greeted": false, "dropped": "x" } }));
    let params = PatchParams {
        field_manager: Some(OPERATOR_NAME.to_owned()),
        ..PatchParams::default()
    };
    let written = greeters.patch_status("hello", &params, &patch).await;
    written.expect("the status");
    greeters
}

/// Rows: RO-25
#[tokio::test(start_paused = true)]
async fn an_operator_has_its_namespace_and_labels_and_takes_over_the_children_of_roperator() {
    let cluster = Cluster::start().await;
    let parents = create_parents(&cluster).await;
    // An object of another namespace that would be a child, if the operator watched that namespace.
    let uid = parents[1].uid().expect("a uid");
    let stray = json!({
        "metadata": {
            "name": "stray",
            "labels": { "app.kubernetes.io/managed-by": OPERATOR_NAME },
            "ownerReferences": [{
                "apiVersion": "example.com/v1", "kind": "Greeter", "controller": true,
                "name": "hello", "uid": uid,
            }],
        },
    });
    let stray: ConfigMap = cluster.create("default", stray).await;
    // As roperator has written it: by POST, with its user agent as the field manager.
    let maps = cluster.api::<ConfigMap>("shop");
    let earlier = json!({
        "metadata": {
            "name": "greeting",
            "labels": { "example.com/parent": uid, "example.com/operator": OPERATOR_NAME },
            "ownerReferences": [{
                "apiVersion": "example.com/v1", "kind": "Greeter", "controller": true,
                "name": "hello", "uid": uid,
            }],
        },
        "data": { "greeting": "good day", "dropped": "x" },
    });
    let earlier: ConfigMap = from_value(earlier).expect("a config map");
    // Another one, which no response has any more.
    let mut obsolete = earlier.clone();
    obsolete.metadata.name = Some("obsolete".to_owned());
    let by_roperator = PostParams {
        field_manager: Some(OPERATOR_NAME.to_owned()),
        ..PostParams::default()
    };
    let created = maps.create(&by_roperator, &obsolete).await;
    created.expect("a new object");
    let earlier = maps
        .create(&by_roperator, &earlier)
        .await
        .expect("a new object");

    let greeters = write_earlier_status(&cluster).await;

    let mut config = OperatorConfig::new(OPERATOR_NAME, PARENT_TYPE)
        .with_child(k8s_types::core::v1::ConfigMap, ChildConfig::replace())
        .within_namespace("shop");
    "example.com/parent".clone_into(&mut config.tracking_label_name);
    "example.com/operator".clone_into(&mut config.ownership_label_name);
    let controller = config.controller(cluster.client(), greet);
    let controller = controller.expect("a valid name");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    let get = async || maps.get("greeting").await.expect("it exists");
    until(async || get().await.data.is_some_and(|it| it.len() == 1)).await;
    let child = get().await;
    assert_eq!(child.uid(), earlier.uid(), "the same object");
    assert_eq!(child.data.as_ref().expect("data")["greeting"], "hello");
    assert_eq!(child.labels()["example.com/parent"], uid);
    assert_eq!(child.labels()["example.com/operator"], OPERATOR_NAME);
    let managers: Vec<_> = child.managed_fields().iter().collect();
    assert_eq!(managers.len(), 1, "{managers:?}");

    until(async || {
        let greeter = greeters.get("hello").await.expect("it exists");
        let status = &greeter.data["status"];
        status["greeted"] == true && status.get("dropped").is_none()
    })
    .await;
    until(async || maps.get_opt("obsolete").await.expect("an answer").is_none()).await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let elsewhere = cluster
        .api::<ConfigMap>("default")
        .get_opt("greeting")
        .await;
    assert!(elsewhere.expect("an answer").is_none(), "another namespace");
    let left = cluster.api::<ConfigMap>("default").get("stray").await;
    assert_eq!(left.expect("it is no child").uid(), stray.uid());
    stop.cancel();
    running.await.expect("no panic").expect("no error");
}
