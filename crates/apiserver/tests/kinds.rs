//! Tests of the types, defaults and validation of built-in kinds. `tests/behaviour/api/kinds.rs`
//! compares them with a real kube-apiserver.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

mod support;

use support::request;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn deployment(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
            },
        },
    })
}

#[track_caller]
fn has(object: &Value, expected: &[(&str, Value)]) {
    for (pointer, value) in expected {
        assert_eq!(
            object.pointer(pointer),
            Some(value),
            "{pointer} of {object}"
        );
    }
}

#[tokio::test]
async fn a_deployment_has_the_defaults_of_its_type() {
    let server = ApiServer::new();
    let (code, object) =
        request(&server, Method::POST, DEPLOYMENTS, Some(&deployment("web"))).await;
    assert_eq!(code, 201, "{object}");
    has(
        &object,
        &[
            ("/spec/replicas", json!(1)),
            ("/spec/revisionHistoryLimit", json!(10)),
            ("/spec/strategy/type", json!("RollingUpdate")),
            ("/spec/strategy/rollingUpdate/maxSurge", json!("25%")),
            ("/spec/template/spec/restartPolicy", json!("Always")),
            ("/spec/template/spec/securityContext", json!({})),
            (
                "/spec/template/spec/containers/0/imagePullPolicy",
                json!("Always"),
            ),
            ("/spec/template/spec/containers/0/resources", json!({})),
            ("/status", json!({})),
        ],
    );
    let (code, again) = request(
        &server,
        Method::PUT,
        &format!("{DEPLOYMENTS}/web"),
        Some(&deployment("web")),
    )
    .await;
    assert_eq!(code, 200, "{again}");
    assert_eq!(
        again["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"],
        "defaults that are left out change nothing"
    );
}

#[tokio::test]
async fn wrong_types_are_rejected_and_unknown_fields_follow_field_validation() {
    let server = ApiServer::new();
    let mut wrong = deployment("wrong");
    wrong["spec"]["replicas"] = "3".into();
    let (code, answer) = request(&server, Method::POST, DEPLOYMENTS, Some(&wrong)).await;
    assert_eq!(code, 400);
    assert_eq!(
        answer["message"],
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal \
         string into Go struct field DeploymentSpec.spec.replicas of type int32"
    );

    let mut unknown = deployment("unknown");
    unknown["spec"]["template"]["spec"]["containers"][0]["colour"] = "red".into();
    let strict = format!("{DEPLOYMENTS}?fieldValidation=Strict");
    let (code, answer) = request(&server, Method::POST, &strict, Some(&unknown)).await;
    assert_eq!(code, 400);
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        message.ends_with(
            "strict decoding error: unknown field \"spec.template.spec.containers[0].colour\""
        ),
        "{message}"
    );
    let (code, object) = request(&server, Method::POST, DEPLOYMENTS, Some(&unknown)).await;
    assert_eq!(code, 201);
    assert!(!object.to_string().contains("colour"), "{object}");
}

#[tokio::test]
async fn a_selector_must_match_its_template_and_is_immutable() {
    let server = ApiServer::new();
    let mut wrong = deployment("wrong");
    wrong["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    let (code, answer) = request(&server, Method::POST, DEPLOYMENTS, Some(&wrong)).await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "Deployment.apps \"wrong\" is invalid: spec.template.metadata.labels: Invalid value: \
         {\"app\":\"web\"}: `selector` does not match template `labels`"
    );
    let (_, mut object) =
        request(&server, Method::POST, DEPLOYMENTS, Some(&deployment("web"))).await;
    object["spec"]["selector"]["matchLabels"] = json!({ "tier": "web" });
    object["spec"]["template"]["metadata"]["labels"]["tier"] = "web".into();
    let path = format!("{DEPLOYMENTS}/web");
    let (code, answer) = request(&server, Method::PUT, &path, Some(&object)).await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: \
         {\"matchLabels\":{\"tier\":\"web\"}}: field is immutable"
    );
}

#[tokio::test]
async fn services_have_unique_addresses_and_node_ports() {
    let server = ApiServer::new();
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..50 {
        let service = json!({
            "metadata": { "name": format!("s{number}") },
            "spec": { "type": "NodePort", "ports": [{ "port": 80 }] },
        });
        let (code, object) = request(&server, Method::POST, SERVICES, Some(&service)).await;
        assert_eq!(code, 201, "{object}");
        let spec = &object["spec"];
        assert_eq!(spec["clusterIPs"], json!([spec["clusterIP"]]));
        assert!(seen.insert(spec["clusterIP"].to_string()), "{object}");
        assert!(
            seen.insert(spec["ports"][0]["nodePort"].to_string()),
            "{object}"
        );
        // An update may leave them out.
        let path = format!("{SERVICES}/s{number}");
        let (code, same) = request(&server, Method::PUT, &path, Some(&service)).await;
        assert_eq!(code, 200, "{same}");
        assert_eq!(same["spec"], object["spec"]);
    }
    let taken = json!({
        "metadata": { "name": "taken" },
        "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": 31_000 }] },
    });
    let mut other = taken.clone();
    other["metadata"]["name"] = "other".into();
    let (first, _) = request(&server, Method::POST, SERVICES, Some(&taken)).await;
    let (second, answer) = request(&server, Method::POST, SERVICES, Some(&other)).await;
    if first == 201 {
        assert_eq!(second, 422, "{answer}");
        assert_eq!(
            answer["details"]["causes"][0]["message"],
            "Invalid value: 31000: provided port is already allocated"
        );
    }
}

#[tokio::test]
async fn openapi_documents_list_the_fields_of_built_in_kinds() {
    let server = ApiServer::new();
    let (_, document) = request(&server, Method::GET, "/openapi/v3/apis/apps/v1", None).await;
    let schemas = &document["components"]["schemas"];
    has(
        schemas,
        &[
            (
                "/io.k8s.api.apps.v1.DeploymentSpec/properties/replicas/type",
                json!("integer"),
            ),
            (
                "/io.k8s.api.apps.v1.DeploymentSpec/properties/replicas/format",
                json!("int32"),
            ),
            (
                "/io.k8s.api.apps.v1.DeploymentSpec/required",
                json!(["selector", "template"]),
            ),
            (
                "/io.k8s.api.core.v1.Container/properties/imagePullPolicy/enum",
                json!(["Always", "IfNotPresent", "Never"]),
            ),
        ],
    );
    // Each schema that is referred to is there.
    let text = schemas.to_string();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap_or_default();
        assert!(schemas.get(name).is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_scale_changes_only_the_replicas() {
    let server = ApiServer::new();
    request(&server, Method::POST, DEPLOYMENTS, Some(&deployment("web"))).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let (code, mut scale) = request(&server, Method::GET, &path, None).await;
    assert_eq!(code, 200, "{scale}");
    has(
        &scale,
        &[
            ("/apiVersion", json!("autoscaling/v1")),
            ("/kind", json!("Scale")),
            ("/spec/replicas", json!(1)),
            ("/status/selector", json!("app=web")),
        ],
    );
    scale["spec"]["replicas"] = 3.into();
    let (code, changed) = request(&server, Method::PUT, &path, Some(&scale)).await;
    assert_eq!(
        (code.as_u16(), &changed["spec"]["replicas"]),
        (200, &json!(3))
    );
    let (code, _) = request(&server, Method::PUT, &path, Some(&scale)).await;
    assert_eq!(code, 409, "the version is that of the object before");
    let less = json!({ "spec": { "replicas": -1 } });
    let (code, answer) = request(&server, Method::PATCH, &path, Some(&less)).await;
    assert_eq!(code, 422, "{answer}");
    let object = format!("{DEPLOYMENTS}/web");
    let (_, object) = request(&server, Method::GET, &object, None).await;
    has(
        &object,
        &[
            ("/spec/replicas", json!(3)),
            ("/metadata/generation", json!(2)),
            // As on the real server, it has no time, so that it is the first one.
            ("/metadata/managedFields/0/subresource", json!("scale")),
        ],
    );
}

/// The port on which nodes say whether they serve a service is one of the ports of the nodes.
#[tokio::test]
async fn a_health_check_port_is_not_allocated_twice() {
    let server = ApiServer::new();
    let ports = json!([{ "port": 80 }]);
    let local = json!({
        "metadata": { "name": "local" },
        "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports },
    });
    let (code, local) = request(&server, Method::POST, SERVICES, Some(&local)).await;
    assert_eq!(code, 201, "{local}");
    let port = &local["spec"]["healthCheckNodePort"];
    assert!(port.as_u64().is_some_and(|port| port != 0), "{local}");
    let second = json!({
        "metadata": { "name": "second" },
        "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": port }] },
    });
    let (code, refused) = request(&server, Method::POST, SERVICES, Some(&second)).await;
    assert_eq!(code, 422, "{refused}");
    let why = refused["message"].as_str().expect("a message");
    assert!(why.ends_with("provided port is already allocated"), "{why}");
}

/// A service releases the values that its new type does not need.
#[tokio::test]
async fn a_service_that_loses_its_address_releases_it() {
    let server = ApiServer::new();
    let service = json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 80 }] } });
    let (_, mut service) = request(&server, Method::POST, SERVICES, Some(&service)).await;
    service["spec"]["type"] = "ExternalName".into();
    service["spec"]["externalName"] = "a.b".into();
    let path = format!("{SERVICES}/a");
    let (code, changed) = request(&server, Method::PUT, &path, Some(&service)).await;
    assert_eq!(code, 200, "{changed}");
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert_eq!(changed["spec"].get(field), None, "{changed}");
    }
}
