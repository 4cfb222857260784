//! Definitions: validated, discovered, served in versions, deleted with their objects.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::discovery::{Discovery, Scope};
use kube::{Api, Client};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::{
    TestResult,
    support::{client, refusal, register, widget, widget_definition, widget_resource, widgets},
};

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
        message.contains(
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
async fn the_objects_of_a_kind_are_deleted_with_its_definition() -> TestResult {
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
    assert!(left.items.is_empty(), "deleted objects do not reappear");
    Ok(())
}

async fn get(client: &Client, path: &str) -> kube::Result<Value> {
    let request = http::Request::get(path).body(Vec::new());
    client.request(request.expect("it is a request")).await
}
