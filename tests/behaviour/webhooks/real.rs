//! Webhooks that a real API server calls.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::{
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
    client::Body,
};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass::Operator;

use super::{CONVERT, MUTATE, VALIDATE, program::v1, program::v1beta1, rig::Rig};
use crate::cluster::{self, Cluster};

/// The embedded server calls no webhooks.
pub(super) fn trial() -> Trial {
    let name = "the_api_server_calls_the_webhooks_of_an_operator";
    let body = the_api_server_calls_the_webhooks_of_an_operator;
    let [_, real] = cluster::trials(module_path!(), name, body);
    real
}

/// The response of the API server to a create.
struct Created {
    status: u16,
    body: Value,
    warnings: Vec<String>,
}

/// Rows: BO-64
async fn the_api_server_calls_the_webhooks_of_an_operator(cluster: Cluster) {
    let (rig, first) = Rig::start(&cluster, Operator::builder()).await;
    let (client, namespace) = (cluster.aside(), cluster.namespace());
    register(&cluster, &rig, &first.pem).await;
    let create = async |version: &str, name: &str, spec: Value, query: &str| {
        create(&client, namespace, version, name, &spec, query).await
    };
    // The API server reads the configuration a moment later.
    let until_denied = async || loop {
        let created = create("v1", "a", json!({ "title": "" }), "?dryRun=All").await;
        if created.status == 422 {
            break created;
        }
        sleep(Duration::from_millis(100)).await;
    };
    let denied = until_denied().await;
    let message =
        "admission webhook \"validate.hooks.windlass.dev\" denied the request: spec.title is empty";
    assert_eq!(denied.body["message"], message);
    let dry = create("v1", "a", json!({ "title": "dry" }), "?dryRun=All").await;
    assert!(
        dry.warnings.iter().any(|it| it.contains("dry run: true")),
        "{:?}",
        dry.warnings
    );

    // A default and a warning; the theme passes the stored version, which has no field for it.
    let spec = json!({ "title": "a", "theme": "dark" });
    let created = create("v1", "a", spec, "").await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(
        created.body["spec"],
        json!({ "title": "a", "replicas": 1, "theme": "dark" })
    );
    assert!(
        created
            .warnings
            .iter()
            .any(|it| it.contains("the theme dark is deprecated")),
        "{:?}",
        created.warnings
    );
    let new: Api<v1::Website> = Api::namespaced(client.clone(), namespace);
    let old: Api<v1beta1::Website> = Api::namespaced(client.clone(), namespace);
    assert_eq!(old.get("a").await.expect("stored").spec.size, Some(1));
    assert_eq!(
        new.get("a").await.expect("stored").spec.theme.as_deref(),
        Some("dark")
    );
    // The webhooks get v1, which the configuration names, also of a write of v1beta1.
    let created = create("v1beta1", "b", json!({ "title": "b" }), "").await;
    assert_eq!(
        (created.status, &created.body["spec"]["size"]),
        (201, &json!(1)),
        "{}",
        created.body
    );
    assert_eq!(
        new.list(&kube::api::ListParams::default())
            .await
            .expect("a list")
            .items
            .len(),
        2
    );

    let patch = json!({ "spec": { "title": "other" } });
    let changed = new
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await;
    let denied = changed.expect_err("it cannot be changed").to_string();
    assert!(denied.contains("spec.title cannot be changed"), "{denied}");
    for (protected, refused) in [(json!(""), true), (Value::Null, false)] {
        let patch =
            json!({ "metadata": { "annotations": { "hooks.windlass.dev/protected": protected } } });
        new.patch("a", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("allowed");
        let deleted = new.delete("a", &DeleteParams::default()).await;
        assert_eq!(deleted.is_err(), refused, "{deleted:?}");
    }
    // Without a decision, `failurePolicy: Fail` refuses the write and shows the reason.
    let failed = create("v1", "c", json!({ "title": "panic" }), "").await;
    assert_eq!(failed.status, 500, "{}", failed.body);
    assert!(
        failed.body["message"]
            .as_str()
            .is_some_and(|it| it.contains("panicked")),
        "{}",
        failed.body
    );
    // The API server converts what is stored, and refuses what cannot be converted.
    let failed = create("v1beta1", "c", json!({ "title": "c", "size": -1 }), "").await;
    let message = failed.body["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("spec.size is negative") && message.contains("/c "),
        "{}",
        failed.body
    );

    // The API server trusts only the new certificate, which the operator loads while it runs.
    let second = rig.tls.renew();
    register(&cluster, &rig, &second.pem).await;
    let denied = until_denied().await;
    assert!(
        denied.body["message"]
            .as_str()
            .is_some_and(|it| it.contains("is empty"))
    );
    new.get("b")
        .await
        .expect("converted with the new certificate");

    new.delete("b", &DeleteParams::default())
        .await
        .expect("allowed");
    rig.stop().await;
    let failed = create("v1", "c", json!({ "title": "c" }), "").await;
    assert_eq!(
        failed.status, 500,
        "the webhooks end with the operator: {}",
        failed.body
    );
    unregister(&client).await;
}

/// Sets the conversion webhook, and registers the others for this test's namespace, by server-side apply.
async fn register(cluster: &Cluster, rig: &Rig, authority: &str) {
    use base64::Engine as _;
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    let at = |path: &str| json!({ "url": format!("https://{}{path}", rig.address), "caBundle": authority });
    let webhook = |name: &str, path: &str, operations: &[&str]| {
        json!({
            "name": format!("{name}.hooks.windlass.dev"),
            "clientConfig": at(path),
            "rules": [{
                "apiGroups": ["hooks.windlass.dev"],
                "apiVersions": ["v1"],
                "resources": ["websites"],
                "operations": operations,
            }],
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": cluster.namespace() } },
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
        })
    };
    let registration = |kind: &str, webhook: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": "hooks.windlass.dev" },
            "webhooks": [webhook],
        })
    };
    let client = cluster.aside();
    let apply = PatchParams::apply("test").force();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let conversion = json!({ "spec": { "conversion": {
        "strategy": "Webhook",
        "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": at(CONVERT) },
    } } });
    let name = "websites.hooks.windlass.dev";
    crds.patch(name, &PatchParams::default(), &Patch::Merge(conversion))
        .await
        .expect("it is valid");
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let defaults = webhook("default", MUTATE, &["CREATE", "UPDATE"]);
    let defaults = registration("MutatingWebhookConfiguration", defaults);
    mutating
        .patch("hooks.windlass.dev", &apply, &Patch::Apply(defaults))
        .await
        .expect("it is valid");
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let checks = webhook("validate", VALIDATE, &["CREATE", "UPDATE", "DELETE"]);
    let checks = registration("ValidatingWebhookConfiguration", checks);
    validating
        .patch("hooks.windlass.dev", &apply, &Patch::Apply(checks))
        .await
        .expect("it is valid");
}

async fn unregister(client: &Client) {
    let params = DeleteParams::default();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    mutating
        .delete("hooks.windlass.dev", &params)
        .await
        .expect("it is there");
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    validating
        .delete("hooks.windlass.dev", &params)
        .await
        .expect("it is there");
}

/// Creates a website. kube's `Api` does not return warnings.
async fn create(
    client: &Client,
    namespace: &str,
    version: &str,
    name: &str,
    spec: &Value,
    query: &str,
) -> Created {
    let path = format!("/apis/hooks.windlass.dev/{version}/namespaces/{namespace}/websites{query}");
    let body = json!({
        "apiVersion": format!("hooks.windlass.dev/{version}"),
        "kind": "Website",
        "metadata": { "name": name },
        "spec": spec,
    });
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Body::from(body.to_string().into_bytes()))
        .expect("a request");
    let response = client.send(request).await.expect("a response");
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|it| it.to_str().expect("text").to_owned());
    let warnings = warnings.collect();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body");
    Created {
        status,
        warnings,
        body: serde_json::from_slice(&body.to_bytes()).expect("JSON"),
    }
}
