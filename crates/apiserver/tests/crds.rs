//! Custom resources, through kube's client: registered, pruned, defaulted, validated, shown.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::discovery::{Discovery, Scope};
use kube::{Api, Client};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

mod support;

use support::{client, refusal, register, widget, widget_definition, widget_resource, widgets};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Rows of docs/apiserver.md: 106.
#[tokio::test(start_paused = true)]
async fn a_definition_is_accepted_and_established() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, widget_definition()).await?;

    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let definition = definitions.get("widgets.ex.io").await?;
    let names = &definition.spec.names;
    assert_eq!(names.singular.as_deref(), Some("widget"));
    assert_eq!(names.list_kind.as_deref(), Some("WidgetList"));
    let status = definition.status.ok_or("there is a status")?;
    let conditions: Vec<_> = status
        .conditions
        .iter()
        .flatten()
        .map(|c| {
            (
                &*c.type_,
                &*c.status,
                c.reason.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        conditions,
        [
            ("NamesAccepted", "True", "NoConflicts"),
            ("Established", "True", "InitialNamesAccepted"),
        ]
    );
    assert_eq!(status.stored_versions, Some(vec!["v1".to_owned()]));
    assert_eq!(
        status.accepted_names.map(|names| names.kind).as_deref(),
        Some("Widget")
    );
    Ok(())
}

/// Rows of docs/apiserver.md: 108.
#[tokio::test(start_paused = true)]
async fn a_definition_whose_schema_is_not_structural_is_refused() {
    let server = ApiServer::new();
    let client = client(&server);
    let mut definition = widget_definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "properties": {
            "spec": { "properties": { "size": { "type": "integer", "default": "x" } } },
        },
    });
    let (code, reason, message) = refusal(register(&client, definition).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(
        message.ends_with(
            "openAPIV3Schema.properties[spec].type: Required value: must not be empty for \
             specified object fields"
        ),
        "{message}"
    );
    assert!(
        message.starts_with("CustomResourceDefinition.apiextensions.k8s.io \"widgets.ex.io\""),
        "{message}"
    );
}

/// Rows of docs/apiserver.md: 8, 108.
#[tokio::test(start_paused = true)]
async fn an_object_that_breaks_its_schema_is_told_why() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, gadget_definition()).await?;
    for (spec, told) in [
        (json!({}), "spec.replicas: Required value"),
        (
            json!({ "replicas": "3" }),
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#,
        ),
        (
            json!({ "replicas": 0 }),
            "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1",
        ),
        (
            json!({ "replicas": 1, "mode": "b" }),
            r#"spec.mode: Unsupported value: "b": supported values: "a", "c""#,
        ),
        (
            json!({ "replicas": 1, "host": "No!" }),
            "spec.host: Invalid value: \"No!\": spec.host in body should match '^[a-z.]+$'",
        ),
        (
            json!({ "replicas": 1, "since": "now" }),
            r#"spec.since: Invalid value: "now": spec.since in body must be of type date-time: "now""#,
        ),
        (
            json!({ "replicas": 1, "ports": [{ "name": "a" }, { "name": "b" }, { "name": "c" }] }),
            "spec.ports: Too many: 3: must have at most 2 items",
        ),
        (
            json!({ "replicas": 1, "ports": [{ "name": "a" }, { "name": "a" }] }),
            r#"spec.ports[1]: Duplicate value: {"name":"a"}"#,
        ),
    ] {
        let (code, reason, message) = refusal(
            gadgets(&client)
                .create(&PostParams::default(), &gadget("g", &spec))
                .await,
        );
        assert_eq!((code, reason.as_str()), (422, "Invalid"), "{spec}");
        assert_eq!(
            message,
            format!("Gadget.ex.io \"g\" is invalid: {told}"),
            "{spec}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_a_cause_with_its_field() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, gadget_definition()).await?;
    let spec = json!({ "mode": "b", "host": 3 });
    let refused = gadgets(&client)
        .create(&PostParams::default(), &gadget("g", &spec))
        .await;
    let Err(kube::Error::Api(status)) = refused else {
        return Err("it is refused".into());
    };
    let details = status.details.as_ref().ok_or("there are details")?;
    assert_eq!(
        (details.kind.as_str(), details.group.as_str()),
        ("Gadget", "ex.io")
    );
    let mut causes: Vec<_> = details
        .causes
        .iter()
        .map(|cause| (&*cause.field, &*cause.reason))
        .collect();
    causes.sort_unstable();
    assert_eq!(
        causes,
        [
            ("spec.host", "FieldValueTypeInvalid"),
            ("spec.mode", "FieldValueNotSupported"),
            ("spec.replicas", "FieldValueRequired"),
        ]
    );
    Ok(())
}

/// Rows of docs/apiserver.md: 82, 111.
#[tokio::test(start_paused = true)]
async fn unknown_fields_are_dropped_or_refused_and_missing_ones_filled_in() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, gadget_definition()).await?;
    let spec = json!({
        "replicas": 1, "colour": "red", "mode": null,
        "ports": [{ "name": "a", "speed": 3 }], "free": { "any": { "thing": 1 } },
    });
    let strictly = create_strictly(&client, &gadgets(&client), &gadget("g", &spec)).await;
    let (code, reason, message) = refusal(strictly);
    assert_eq!((code, reason.as_str()), (400, "BadRequest"));
    assert_eq!(
        message,
        "Gadget in version \"v1\" cannot be handled as a Gadget: strict decoding error: unknown \
         field \"spec.colour\", unknown field \"spec.ports[0].speed\""
    );

    let created = gadgets(&client)
        .create(&PostParams::default(), &gadget("g", &spec))
        .await?;
    let kept = json!({
        "replicas": 1, "mode": "a", "limits": { "cpu": "1" },
        "ports": [{ "name": "a" }], "free": { "any": { "thing": 1 } },
    });
    assert_eq!(created.data["spec"], kept);
    assert_eq!(gadgets(&client).get("g").await?.data["spec"], kept);

    let patch = json!({ "spec": { "limits": {}, "colour": "blue" } });
    let patched = gadgets(&client)
        .patch("g", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    assert_eq!(patched.data["spec"], kept);
    Ok(())
}

/// Rows of docs/apiserver.md: 76, 116.
#[tokio::test(start_paused = true)]
async fn a_status_is_validated_by_itself_and_only_where_there_is_one() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, widget_definition()).await?;
    register(&client, gadget_definition()).await?;
    let created = widgets(&client)
        .create(&PostParams::default(), &widget("w", &json!({ "size": 1 })))
        .await?;

    let wrong = json!({ "status": { "ready": "yes" } });
    let (code, _, message) = refusal(
        widgets(&client)
            .patch_status("w", &PatchParams::default(), &Patch::Merge(&wrong))
            .await,
    );
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "Widget.ex.io \"w\" is invalid: status.ready: Invalid value: \"string\": ready in body \
         must be of type boolean: \"string\""
    );

    let right = json!({ "status": { "ready": true, "mood": "fine" } });
    let ready = widgets(&client)
        .patch_status("w", &PatchParams::default(), &Patch::Merge(&right))
        .await?;
    assert_eq!(ready.data["status"], json!({ "ready": true }));
    assert_eq!(ready.metadata.generation, created.metadata.generation);

    let spec = json!({ "replicas": 1 });
    gadgets(&client)
        .create(&PostParams::default(), &gadget("g", &spec))
        .await?;
    let (code, ..) = refusal(
        gadgets(&client)
            .patch_status("g", &PatchParams::default(), &Patch::Merge(&right))
            .await,
    );
    assert_eq!(code, 404, "a gadget's status has no URL of its own");
    Ok(())
}

/// Rows of docs/apiserver.md: 53, 54.
#[tokio::test(start_paused = true)]
async fn a_table_has_the_columns_of_the_definition() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, gadget_definition()).await?;
    register(&client, widget_definition()).await?;
    let spec = json!({ "replicas": 3, "ports": [{ "name": "http" }, { "name": "admin" }] });
    let created = gadgets(&client)
        .create(&PostParams::default(), &gadget("g", &spec))
        .await?;

    let table = table(&client, "/apis/ex.io/v1/namespaces/default/gadgets").await?;
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(
        names(&table),
        ["Name", "Replicas", "Admin", "Missing", "Age"]
    );
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    let cells = table["rows"][0]["cells"]
        .as_array()
        .ok_or("there are cells")?;
    assert_eq!(
        cells[..4],
        [json!("g"), json!(3), json!("admin"), Value::Null]
    );
    assert!(
        cells[4].as_str().is_some_and(|age| age.ends_with('s')),
        "{}",
        cells[4]
    );
    let object = &table["rows"][0]["object"];
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(
        object["metadata"]["uid"].as_str(),
        created.metadata.uid.as_deref()
    );

    let one = self::table(
        &client,
        "/apis/ex.io/v1/namespaces/default/gadgets/g?includeObject=Object",
    )
    .await?;
    assert_eq!(one["rows"][0]["object"]["spec"]["replicas"], 3);

    let plain = self::table(&client, "/apis/ex.io/v1/namespaces/default/widgets").await?;
    assert_eq!(names(&plain), ["Name", "Age"]);
    assert_eq!(plain["rows"], json!([]));
    Ok(())
}

/// Rows of docs/apiserver.md: 117, 118, 122.
#[tokio::test(start_paused = true)]
async fn a_definition_is_found_by_discovery() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, widget_definition()).await?;

    for aggregated in [false, true] {
        let discovery = Discovery::new(client.clone());
        let discovery = if aggregated {
            discovery.run_aggregated().await?
        } else {
            discovery.run().await?
        };
        let group = discovery.get("ex.io").ok_or("the group is served")?;
        let (resource, capabilities) = group
            .recommended_kind("Widget")
            .ok_or("the kind is served")?;
        assert_eq!(
            (&*resource.plural, &*resource.api_version),
            ("widgets", "ex.io/v1")
        );
        assert_eq!(capabilities.scope, Scope::Namespaced);
        assert!(capabilities.supports_operation("deletecollection"));
        let status = capabilities
            .subresources
            .iter()
            .find(|(sub, _)| sub.plural.ends_with("status"));
        assert!(status.is_some(), "aggregated: {aggregated}");
    }

    let list = client.list_api_group_resources("ex.io/v1").await?;
    let entry = list.resources.first().ok_or("there is a resource")?;
    assert_eq!(entry.short_names, Some(vec!["wd".to_owned()]));

    let index = get(&client, "/openapi/v3").await?;
    let url = index["paths"]["apis/ex.io/v1"]["serverRelativeURL"].as_str();
    let document = get(&client, url.ok_or("the group has a document")?).await?;
    let patch = &document["paths"]["/apis/ex.io/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Widget");
    let schema = &document["components"]["schemas"]["io.ex.v1.Widget"];
    assert_eq!(
        schema["properties"]["spec"]["properties"]["size"]["type"],
        "integer"
    );
    Ok(())
}

/// Rows of docs/apiserver.md: 113.
#[tokio::test(start_paused = true)]
async fn an_object_is_the_same_in_every_version_but_for_its_api_version() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    let mut definition = widget_definition();
    let mut beta = definition["spec"]["versions"][0].clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    definition["spec"]["versions"] = json!([definition["spec"]["versions"][0], beta]);
    register(&client, definition).await?;

    let beta = ApiResource {
        version: "v1beta1".to_owned(),
        api_version: "ex.io/v1beta1".to_owned(),
        ..widget_resource()
    };
    let betas: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &beta);
    let object = DynamicObject::new("w", &beta).data(json!({ "spec": { "size": 2 } }));
    let created = betas.create(&PostParams::default(), &object).await?;
    let stable = widgets(&client).get("w").await?;
    assert_eq!(
        stable.types.as_ref().map(|types| &*types.api_version),
        Some("ex.io/v1")
    );
    assert_eq!(stable.metadata, created.metadata);
    assert_eq!(stable.data, created.data);
    Ok(())
}

/// Rows of docs/apiserver.md: 107, 114.
#[tokio::test(start_paused = true)]
async fn the_objects_of_a_kind_go_with_its_definition() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, widget_definition()).await?;
    let spec = json!({ "size": 1 });
    widgets(&client)
        .create(&PostParams::default(), &widget("w", &spec))
        .await?;

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .delete("widgets.ex.io", &DeleteParams::default())
        .await?;
    let (code, ..) = refusal(widgets(&client).list(&ListParams::default()).await);
    assert_eq!(code, 404);

    register(&client, widget_definition()).await?;
    let left = widgets(&client).list(&ListParams::default()).await?;
    assert!(left.items.is_empty(), "what is gone does not come back");
    Ok(())
}

/// Creates `object` as kubectl does: an unknown field is a mistake.
async fn create_strictly(
    client: &Client,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
) -> kube::Result<DynamicObject> {
    let path = format!("{}?fieldValidation=Strict", api.resource_url());
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = http::Request::post(path)
        .header("Content-Type", "application/json")
        .body(body);
    client.request(request.expect("it is a request")).await
}

/// A kind without a status of its own, with a bit of everything else.
fn gadget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.ex.io" },
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": { "plural": "gadgets", "kind": "Gadget" },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    { "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas" },
                    { "name": "Admin", "type": "string", "priority": 1,
                      "jsonPath": ".spec.ports[?(@.name==\"admin\")].name" },
                    { "name": "Missing", "type": "string", "jsonPath": ".status.phase" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": gadget_spec() },
                } },
            }],
        },
    })
}

/// The schema of a gadget's spec.
fn gadget_spec() -> Value {
    json!({
        "type": "object",
        "required": ["replicas"],
        "properties": {
            "replicas": { "type": "integer", "minimum": 1 },
            "mode": { "type": "string", "enum": ["a", "c"], "default": "a" },
            "host": { "type": "string", "pattern": "^[a-z.]+$" },
            "since": { "type": "string", "format": "date-time" },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "limits": {
                "type": "object",
                "default": {},
                "properties": {
                    "cpu": { "x-kubernetes-int-or-string": true, "default": "1" },
                },
            },
            "ports": {
                "type": "array",
                "maxItems": 2,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": { "name": { "type": "string" } },
                },
            },
        },
    })
}

fn gadget_resource() -> ApiResource {
    ApiResource {
        kind: "Gadget".to_owned(),
        plural: "gadgets".to_owned(),
        ..widget_resource()
    }
}

fn gadgets(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &gadget_resource())
}

fn gadget(name: &str, spec: &Value) -> DynamicObject {
    DynamicObject::new(name, &gadget_resource()).data(json!({ "spec": spec }))
}

/// What kubectl gets from `path` to print.
async fn table(client: &Client, path: &str) -> kube::Result<Value> {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = http::Request::get(path)
        .header("Accept", accept)
        .body(Vec::new());
    client.request(request.expect("it is a request")).await
}

async fn get(client: &Client, path: &str) -> kube::Result<Value> {
    let request = http::Request::get(path).body(Vec::new());
    client.request(request.expect("it is a request")).await
}

/// What the columns of `table` are called.
fn names(table: &Value) -> Vec<&str> {
    let definitions = table["columnDefinitions"].as_array().into_iter().flatten();
    definitions
        .filter_map(|definition| definition["name"].as_str())
        .collect()
}
