//! Custom resource definitions: established, served in versions, changed, deleted.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

mod support;

use support::{request, watch, widget_definition};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/ex.io/v1/namespaces/default/widgets";

fn widget(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "ex.io/v1", "kind": "Widget",
        "metadata": { "name": name }, "spec": spec,
    })
}

async fn post(server: &ApiServer, collection: &str, body: &Value) -> Value {
    let (code, answer) = request(server, Method::POST, collection, Some(body)).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

async fn refused(server: &ApiServer, method: Method, path: &str, body: &Value) -> (u16, String) {
    let (code, answer) = request(server, method, path, Some(body)).await;
    (
        code.as_u16(),
        answer["message"].as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_established_in_two_further_events() {
    let server = ApiServer::new();
    let from = server.resource_version();
    let path = format!("{DEFINITIONS}?watch=1&resourceVersion={from}");
    let mut events = watch(&server, &path, "application/json").await;
    let created = post(&server, DEFINITIONS, &widget_definition()).await;
    assert_eq!(created["spec"]["names"]["singular"], "widget");
    assert_eq!(created["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(created["spec"]["conversion"]["strategy"], "None");
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));

    let mut conditions = Vec::new();
    for _ in 0..3 {
        let event = events.next().await.expect("an event");
        let found = event["object"]["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let found: Vec<_> = found
            .iter()
            .map(|condition| format!("{}={}", condition["type"], condition["status"]))
            .collect();
        conditions.push(format!("{} {}", event["type"], found.join(" ")).replace('"', ""));
    }
    assert_eq!(
        conditions,
        [
            "ADDED ",
            "MODIFIED NamesAccepted=True Established=False",
            "MODIFIED NamesAccepted=True Established=True",
        ]
    );
    let (code, list) = request(&server, Method::GET, "/apis/ex.io/v1", None).await;
    assert_eq!(
        (code.as_u16(), &list["resources"][0]["name"]),
        (200, &json!("widgets"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_definition_is_rejected() {
    let server = ApiServer::new();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut definition = widget_definition();
        change(&mut definition);
        definition
    };
    for (definition, part) in [
        (
            changed(&|d| d["metadata"]["name"] = "gadgets.ex.io".into()),
            r#"metadata.name: Invalid value: "gadgets.ex.io": must be spec.names.plural+"."+spec.group"#,
        ),
        (
            changed(&|d| d["spec"]["scope"] = "Galaxy".into()),
            r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#,
        ),
        (
            changed(&|d| d["spec"]["versions"][0]["schema"] = Value::Null),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            changed(&|d| d["spec"]["versions"][0]["storage"] = false.into()),
            "must have exactly one version marked as storage version",
        ),
        (
            changed(&|d| {
                d["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = "thing".into();
            }),
            "spec.validation.openAPIV3Schema.type",
        ),
    ] {
        let (code, message) = refused(&server, Method::POST, DEFINITIONS, &definition).await;
        assert_eq!(code, 422);
        assert!(message.contains(part), "{message}\nlacks\n{part}");
    }
}

#[tokio::test(start_paused = true)]
async fn versions_differ_only_in_api_version() {
    let server = ApiServer::new();
    let mut definition = widget_definition();
    let mut beta = definition["spec"]["versions"][0].clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    beta["deprecated"] = true.into();
    let versions = definition["spec"]["versions"]
        .as_array_mut()
        .expect("a list");
    versions.push(beta);
    post(&server, DEFINITIONS, &definition).await;

    let beta = "/apis/ex.io/v1beta1/namespaces/default/widgets";
    let mut body = widget("w", &json!({ "size": 1, "color": "red" }));
    let (code, message) = refused(&server, Method::POST, beta, &body).await;
    assert_eq!(code, 400);
    assert_eq!(
        message,
        "the API version in the data (ex.io/v1) does not match the expected API version \
         (ex.io/v1beta1)"
    );
    body["apiVersion"] = "ex.io/v1beta1".into();
    let old = post(&server, beta, &body).await;
    assert_eq!(old["apiVersion"], "ex.io/v1beta1");
    let (_, new) = request(&server, Method::GET, &format!("{WIDGETS}/w"), None).await;
    assert_eq!(new["apiVersion"], "ex.io/v1");
    assert_eq!(
        (&new["spec"], &new["metadata"]),
        (&old["spec"], &old["metadata"])
    );

    let (_, groups) = request(&server, Method::GET, "/apis/ex.io", None).await;
    assert_eq!(groups["preferredVersion"]["version"], "v1");
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_schema_has_lost_are_pruned_on_read() {
    let server = ApiServer::new();
    post(&server, DEFINITIONS, &widget_definition()).await;
    post(
        &server,
        WIDGETS,
        &widget("w", &json!({ "size": 1, "color": "red" })),
    )
    .await;
    let (_, mut definition) = request(
        &server,
        Method::GET,
        &format!("{DEFINITIONS}/widgets.ex.io"),
        None,
    )
    .await;
    let properties = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        ["spec"]["properties"];
    *properties = json!({
        "size": { "type": "integer" },
        "shape": { "type": "string", "default": "round" },
    });
    definition["spec"]["versions"][0]["selectableFields"] = json!([]);
    let path = format!("{DEFINITIONS}/widgets.ex.io");
    let (code, answer) = request(&server, Method::PUT, &path, Some(&definition)).await;
    assert_eq!(code, 200, "{answer}");

    let (_, read) = request(&server, Method::GET, &format!("{WIDGETS}/w"), None).await;
    assert_eq!(read["spec"], json!({ "size": 1, "shape": "round" }));
    let (_, list) = request(&server, Method::GET, WIDGETS, None).await;
    assert_eq!(list["items"][0]["spec"], read["spec"]);

    definition["spec"]["scope"] = "Cluster".into();
    definition["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"].clone();
    let (code, message) = refused(&server, Method::PUT, &path, &definition).await;
    assert_eq!(code, 422);
    assert!(
        message.ends_with("spec.scope: Invalid value: \"Cluster\": field is immutable"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_waits_for_the_finalizers_of_its_objects() {
    let server = ApiServer::new();
    post(&server, DEFINITIONS, &widget_definition()).await;
    let mut body = widget("w", &json!({ "size": 1 }));
    body["metadata"]["finalizers"] = json!(["ex.io/clean"]);
    post(&server, WIDGETS, &body).await;
    post(&server, WIDGETS, &widget("x", &json!({ "size": 1 }))).await;

    let path = format!("{DEFINITIONS}/widgets.ex.io");
    let (code, dying) = request(&server, Method::DELETE, &path, None).await;
    assert_eq!(
        (code.as_u16(), dying["kind"].as_str()),
        (200, Some("CustomResourceDefinition"))
    );
    let (code, message) = refused(
        &server,
        Method::POST,
        WIDGETS,
        &widget("y", &json!({ "size": 1 })),
    )
    .await;
    assert_eq!(code, 403, "{message}");
    assert!(
        message.ends_with("create not allowed while custom resource definition is terminating")
    );
    assert_eq!(
        request(&server, Method::GET, &format!("{WIDGETS}/x"), None)
            .await
            .0,
        404
    );

    let free = json!({ "metadata": { "finalizers": null } });
    request(&server, Method::PATCH, &format!("{WIDGETS}/w"), Some(&free)).await;
    assert_eq!(request(&server, Method::GET, &path, None).await.0, 404);
    assert_eq!(
        request(&server, Method::GET, "/apis/ex.io/v1", None)
            .await
            .0,
        404
    );

    post(&server, DEFINITIONS, &widget_definition()).await;
    post(&server, WIDGETS, &widget("w", &json!({ "size": 1 }))).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_dropped_reported_or_rejected() {
    let server = ApiServer::new();
    post(&server, DEFINITIONS, &widget_definition()).await;
    let body = widget("w", &json!({ "size": 1, "weight": 2 }));
    let path = format!("{WIDGETS}?fieldValidation=Strict");
    let (code, message) = refused(&server, Method::POST, &path, &body).await;
    assert_eq!(code, 400);
    assert!(
        message.ends_with("strict decoding error: unknown field \"spec.weight\""),
        "{message}"
    );
    let created = post(&server, &format!("{WIDGETS}?fieldValidation=Ignore"), &body).await;
    assert_eq!(created["spec"].get("weight"), None);
}

#[tokio::test(start_paused = true)]
async fn without_a_status_subresource_the_status_is_normal_content() {
    let server = ApiServer::new();
    let mut definition = widget_definition();
    definition["spec"]["versions"][0]["subresources"] = Value::Null;
    post(&server, DEFINITIONS, &definition).await;
    let mut body = widget("w", &json!({ "size": 1 }));
    body["status"] = json!({ "ready": false });
    assert_eq!(
        post(&server, WIDGETS, &body).await["status"]["ready"],
        false
    );

    let status = json!({ "status": { "ready": true } });
    let path = format!("{WIDGETS}/w");
    let (_, changed) = request(&server, Method::PATCH, &path, Some(&status)).await;
    assert_eq!(changed["metadata"]["generation"], 2);
    let path = format!("{path}/status");
    assert_eq!(
        request(&server, Method::PATCH, &path, Some(&status))
            .await
            .0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_named_like_a_built_in_resource_does_not_change_it() {
    let server = ApiServer::new();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let named = |name: &str| json!({ "metadata": { "name": name } });
    post(&server, leases, &named("a")).await;
    let events = format!(
        "{leases}?watch=1&resourceVersion={}",
        server.resource_version()
    );
    let mut events = watch(&server, &events, "application/json").await;
    for (plural, kind) in [("leases", "Lease"), ("others", "Other")] {
        let mut definition = widget_definition();
        definition["metadata"] = json!({
            "name": format!("{plural}.coordination.k8s.io"),
            "annotations": { "api-approved.kubernetes.io": "unapproved, for a test" },
        });
        definition["spec"]["group"] = "coordination.k8s.io".into();
        definition["spec"]["names"] = json!({ "plural": plural, "kind": kind });
        let created = post(&server, DEFINITIONS, &definition).await;
        let path = format!("{DEFINITIONS}/{plural}.coordination.k8s.io");
        let (_, stored) = request(&server, Method::GET, &path, None).await;
        let conditions = stored["status"]["conditions"]
            .as_array()
            .expect("conditions");
        for name in ["NamesAccepted", "Established"] {
            let condition = conditions
                .iter()
                .find(|condition| condition["type"] == name);
            assert_eq!(
                condition.map(|condition| &condition["status"]),
                Some(&json!("True"))
            );
        }
        // The built-in kinds have this version of the group for themselves.
        let other = "/apis/coordination.k8s.io/v1/namespaces/default/others";
        let (code, _) = request(&server, Method::GET, other, None).await;
        assert_eq!(code, 404, "{created}");
        request(&server, Method::DELETE, &path, None).await;
        let (code, _) = request(&server, Method::GET, &path, None).await;
        assert_eq!(
            code, 404,
            "it is removed immediately, because it has no objects"
        );
    }
    let (code, _) = request(&server, Method::GET, &format!("{leases}/a"), None).await;
    assert_eq!(code, 200, "the leases are still there");
    post(&server, leases, &named("b")).await;
    assert_eq!(events.next_line().await, "ADDED b", "the watch continues");
}
