//! A server for each `Greeter`: a Pod, which is replaced when it changes, and a Service.
//!
//! The program is that of a user of roperator 0.3: two functions, one for the children and one for
//! errors. Only its imports are changed.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Pod, Service},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use windlass::roperator::prelude::{
    ChildConfig, Error, K8sType, OperatorConfig, SyncRequest, SyncResponse, k8s_types,
};
use windlass::roperator::serde_json::{Value, json};

use crate::cluster::{Cluster, until};

// --- the program ---

const OPERATOR_NAME: &str = "greeter-operator";

static PARENT_TYPE: &K8sType = &K8sType {
    api_version: "example.com/v1",
    kind: "Greeter",
    plural_kind: "greeters",
};

#[derive(Deserialize, Clone, Debug, PartialEq)]
struct Greeter {
    metadata: Metadata,
    spec: GreeterSpec,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
struct Metadata {
    namespace: String,
    name: String,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
struct GreeterSpec {
    greeting: String,
    service_name: String,
}

fn operator_config() -> OperatorConfig {
    OperatorConfig::new(OPERATOR_NAME, PARENT_TYPE)
        .with_child(k8s_types::core::v1::Pod, ChildConfig::recreate())
        .with_child(k8s_types::core::v1::Service, ChildConfig::replace())
}

fn handle_sync(request: &SyncRequest) -> Result<SyncResponse, Error> {
    let status = json!({
        "message": get_current_status_message(request),
        "phase": "Running",
    });
    let children = get_desired_children(request)?;
    Ok(SyncResponse {
        status,
        children,
        resync: None,
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature of an error handler of roperator"
)]
fn handle_error(_request: &SyncRequest, err: Error) -> (Value, Option<Duration>) {
    let status = json!({
        "message": err.to_string(),
        "phase": "Error",
    });
    (status, None)
}

fn get_current_status_message(request: &SyncRequest) -> String {
    let pod = request.children().of_type(("v1", "Pod")).first();
    pod.and_then(|p| p.pointer("/status/message").and_then(Value::as_str))
        .unwrap_or("the Pod does not run yet")
        .to_owned()
}

fn get_desired_children(request: &SyncRequest) -> Result<Vec<Value>, Error> {
    let greeter: Greeter = request.deserialize_parent()?;
    let (name, namespace) = (greeter.metadata.name, greeter.metadata.namespace);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": { "app.kubernetes.io/name": name },
        },
        "spec": {
            "containers": [{
                "name": "server",
                "image": "greeter:1",
                "env": [{ "name": "GREETING", "value": greeter.spec.greeting }],
                "resources": { "requests": { "cpu": "100m", "memory": "50Mi" } },
            }],
        },
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": namespace, "name": greeter.spec.service_name },
        "spec": {
            "type": "ClusterIP",
            "selector": { "app.kubernetes.io/name": name },
            "ports": [{ "port": 80, "targetPort": 3000 }],
        },
    });
    Ok(vec![pod, service])
}

// --- the test ---

/// The definition of a kind whose content has no schema.
pub(crate) fn definition(of: &K8sType, scope: &str) -> CustomResourceDefinition {
    let (group, version) = of.api_version.split_once('/').expect("a group");
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "metadata": { "name": format!("{}.{group}", of.plural_kind) },
        "spec": {
            "group": group, "scope": scope,
            "names": { "kind": of.kind, "plural": of.plural_kind },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": any },
            }],
        },
    });
    serde_json::from_value(definition).expect("a definition")
}

/// The kind, at run time.
pub(crate) fn types(of: &K8sType) -> ApiResource {
    let (group, version) = of.api_version.split_once('/').expect("a group");
    let gvk = kube::core::GroupVersionKind::gvk(group, version, of.kind);
    ApiResource::from_gvk_with_plural(&gvk, of.plural_kind)
}

/// Rows: RO-01, RO-02, RO-03, RO-06, RO-08, RO-09, RO-19, RO-23, RO-36, RO-38
#[tokio::test(start_paused = true)]
#[expect(
    clippy::too_many_lines,
    reason = "one object, from its creation to its deletion"
)]
async fn a_greeter_has_a_pod_and_a_service() {
    let cluster = Cluster::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = definition(PARENT_TYPE, "Namespaced");
    let installed = definitions
        .create(&PostParams::default(), &definition)
        .await;
    installed.expect("a new kind");
    let greeters: Api<DynamicObject> =
        Api::namespaced_with(cluster.client(), "shop", &types(PARENT_TYPE));
    let (pods, services) = (cluster.api::<Pod>("shop"), cluster.api::<Service>("shop"));

    let controller = operator_config().controller(cluster.client(), (handle_sync, handle_error));
    let controller = controller.expect("a valid name");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    let status = async |field: &str, expected: Value| {
        let greeters = greeters.clone();
        until(async move || {
            let found = greeters.get("hello").await.expect("it exists");
            found.data["status"][field] == expected
        })
        .await;
    };

    let greeter = DynamicObject::new("hello", &types(PARENT_TYPE))
        .data(json!({ "spec": { "greeting": "hello", "serviceName": "hello" } }));
    let created = greeters.create(&PostParams::default(), &greeter).await;
    let uid = created.expect("a new object").metadata.uid.expect("a uid");
    status("message", "the Pod does not run yet".into()).await;
    status("observedGeneration", 1.into()).await;
    let finalizers = greeters
        .get("hello")
        .await
        .expect("it exists")
        .metadata
        .finalizers;
    assert_eq!(finalizers.as_deref(), Some(&[OPERATOR_NAME.to_owned()][..]));
    let service = services
        .get("hello")
        .await
        .expect("a service of the same name");
    let labels = service.metadata.labels.expect("labels");
    assert_eq!(labels["app.kubernetes.io/instance"], uid);
    assert_eq!(labels["app.kubernetes.io/managed-by"], OPERATOR_NAME);

    // The status follows from the existing children.
    let message = Patch::Merge(json!({ "status": { "message": "it runs" } }));
    let params = PatchParams::default();
    let patched = pods.patch_status("hello", &params, &message).await;
    let pod = patched.expect("a pod that exists").metadata.uid;
    status("message", "it runs".into()).await;

    // A changed Pod is replaced, and an invalid parent changes no child.
    let greeting = |greeting: Value| Patch::Merge(json!({ "spec": { "greeting": greeting } }));
    let patched = greeters.patch("hello", &params, &greeting(7.into())).await;
    patched.expect("an object that exists");
    status("phase", "Error".into()).await;
    status("observedGeneration", 1.into()).await;
    let same = pods.get("hello").await.expect("the children stay");
    assert_eq!(same.metadata.uid, pod);
    assert!(same.metadata.deletion_timestamp.is_none());
    services.get("hello").await.expect("the children stay");
    let patched = greeters
        .patch("hello", &params, &greeting("good day".into()))
        .await;
    patched.expect("an object that exists");
    until(async || match pods.get("hello").await {
        Ok(it) if it.metadata.deletion_timestamp.is_some() => {
            // The kubelet ends it.
            let now = DeleteParams::default().grace_period(0);
            _ = pods.delete("hello", &now).await;
            false
        }
        Ok(it) => it.metadata.uid != pod,
        Err(_) => false,
    })
    .await;
    status("phase", "Running".into()).await;

    let deleted = greeters.delete("hello", &DeleteParams::default()).await;
    deleted.expect("an object that exists");
    until(async || {
        greeters
            .get_opt("hello")
            .await
            .expect("an answer")
            .is_none()
    })
    .await;
    stop.cancel();
    running.await.expect("no panic").expect("no error");
}
