//! Validation, pruning and defaults of objects by the schema of their kind.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use windlass_apiserver::ApiServer;

use crate::{
    TestResult,
    gadget::{gadget, gadget_definition, gadgets},
    support::{client, refusal, register, widget, widget_definition, widgets},
};

/// Rows of docs/apiserver.md: 8, 108.
#[tokio::test(start_paused = true)]
async fn an_object_that_violates_its_schema_gets_an_error_with_the_reason() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, gadget_definition()).await?;
    for (spec, expected) in [
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
            format!("Gadget.ex.io \"g\" is invalid: {expected}"),
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
async fn unknown_fields_are_dropped_or_rejected_and_defaults_filled_in() -> TestResult {
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
async fn a_status_is_validated_separately_if_it_is_a_subresource() -> TestResult {
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
