//! Webhooks that a real API server calls.

use std::time::Duration;

use base64::Engine as _;
use http_body_util::BodyExt as _;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass::{Operator, crds::install_crds};

use super::{
    MUTATE, VALIDATE,
    program::{v1, v1beta1},
    rig::{Certificate, Rig, converted_at, post},
};
use crate::cluster::{self, Cluster};

/// The embedded server calls no webhooks.
pub(super) fn trial() -> Trial {
    let name = "the_api_server_calls_the_webhooks_of_an_operator";
    let body = the_api_server_calls_the_webhooks_of_an_operator;
    let [_, real] = cluster::trials(module_path!(), name, body);
    real
}

/// The websites of a test, whose API server calls webhooks.
struct Websites {
    client: Client,
    namespace: String,
    new: Api<v1::Website>,
    old: Api<v1beta1::Website>,
}

/// The response of the API server to a create.
struct Created {
    status: u16,
    body: Value,
    message: String,
    warnings: Vec<String>,
}

/// Rows: BO-64, BO-65
async fn the_api_server_calls_the_webhooks_of_an_operator(cluster: Cluster) {
    let (rig, first) = Rig::start(&cluster, Operator::builder()).await;
    let websites = Websites::of(&cluster);
    register(&cluster, &rig, "first", &first).await;
    websites.until_denied_by("first").await;
    websites.are_defaulted_and_converted().await;
    websites.are_checked_with_their_old_object().await;
    websites.are_refused_without_a_decision().await;

    // The API server trusts only the new certificate, which the operator loads while it runs.
    let second = rig.tls.renew();
    register(&cluster, &rig, "second", &second).await;
    websites.until_denied_by("second").await;
    websites
        .new
        .get("b")
        .await
        .expect("converted with the new certificate");

    websites
        .new
        .delete("b", &DeleteParams::default())
        .await
        .expect("allowed");
    rig.stop().await;
    let failed = websites
        .create("v1", "c", json!({ "title": "c" }), "")
        .await;
    assert_eq!(
        failed.status, 500,
        "the webhooks end with their operator: {}",
        failed.body
    );
    unregister(&websites.client).await;
}

// === impl Websites ===

impl Websites {
    fn of(cluster: &Cluster) -> Self {
        Self {
            client: cluster.aside(),
            namespace: cluster.namespace().to_owned(),
            new: cluster.api_aside(),
            old: cluster.api_aside(),
        }
    }

    /// Waits until the webhook of this name denies a create: the API server reads its configuration a
    /// moment later.
    async fn until_denied_by(&self, name: &str) {
        let text = format!(
            "admission webhook \"{name}.hooks.windlass.dev\" denied the request: spec.title is empty"
        );
        loop {
            let created = self
                .create("v1", "a", json!({ "title": "" }), "?dryRun=All")
                .await;
            if created.status == 422 && created.message == text {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn are_defaulted_and_converted(&self) {
        let dry = self
            .create("v1", "a", json!({ "title": "dry" }), "?dryRun=All")
            .await;
        assert!(
            dry.warnings.iter().any(|it| it.contains("dry run: true")),
            "{:?}",
            dry.warnings
        );

        // The theme passes the stored version, which has no field for it.
        let spec = json!({ "title": "a", "theme": "dark" });
        let created = self.create("v1", "a", spec, "").await;
        assert_eq!(created.status, 201, "{}", created.body);
        let spec = json!({ "title": "a", "replicas": 1, "theme": "dark" });
        assert_eq!(created.body["spec"], spec);
        let warning = "the theme dark is deprecated";
        assert!(
            created.warnings.iter().any(|it| it.contains(warning)),
            "{:?}",
            created.warnings
        );
        assert_eq!(self.old.get("a").await.expect("stored").spec.size, Some(1));
        let new = self.new.get("a").await.expect("stored");
        assert_eq!(new.spec.theme.as_deref(), Some("dark"));

        // The webhooks get v1, which the configuration names, also of a write of v1beta1.
        let created = self
            .create("v1beta1", "b", json!({ "title": "b" }), "")
            .await;
        assert_eq!(
            (created.status, &created.body["spec"]["size"]),
            (201, &json!(1)),
            "{}",
            created.body
        );
        let listed = self.new.list(&ListParams::default()).await;
        assert_eq!(listed.expect("a list").items.len(), 2);
    }

    async fn are_checked_with_their_old_object(&self) {
        let patch = async |patch: Value| {
            self.new
                .patch("a", &PatchParams::default(), &Patch::Merge(patch))
                .await
        };
        let changed = patch(json!({ "spec": { "title": "other" } })).await;
        let denied = changed.expect_err("it cannot be changed").to_string();
        assert!(denied.contains("spec.title cannot be changed"), "{denied}");
        for (protected, refused) in [(json!(""), true), (Value::Null, false)] {
            let protected = json!({ "hooks.windlass.dev/protected": protected });
            patch(json!({ "metadata": { "annotations": protected } }))
                .await
                .expect("allowed");
            let deleted = self.new.delete("a", &DeleteParams::default()).await;
            assert_eq!(deleted.is_err(), refused, "{deleted:?}");
        }
    }

    /// `failurePolicy: Fail` refuses the write and shows the reason.
    async fn are_refused_without_a_decision(&self) {
        let failed = self
            .create("v1", "c", json!({ "title": "panic" }), "")
            .await;
        assert!(
            failed.status == 500 && failed.message.contains("panicked"),
            "{}",
            failed.body
        );
        let failed = self
            .create("v1beta1", "c", json!({ "title": "c", "size": -1 }), "")
            .await;
        let parts = ["spec.size is negative", "/c "];
        assert!(
            parts.iter().all(|it| failed.message.contains(it)),
            "{}",
            failed.body
        );
    }

    /// Creates a website. kube's `Api` does not return warnings.
    async fn create(&self, version: &str, name: &str, spec: Value, query: &str) -> Created {
        let namespace = &self.namespace;
        let path =
            format!("/apis/hooks.windlass.dev/{version}/namespaces/{namespace}/websites{query}");
        let body = json!({
            "apiVersion": format!("hooks.windlass.dev/{version}"),
            "kind": "Website",
            "metadata": { "name": name },
            "spec": spec,
        });
        let response = self
            .client
            .send(post(&path, body.to_string()))
            .await
            .expect("a response");
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|it| it.to_str().expect("text").to_owned());
        let warnings = warnings.collect();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body");
        let body: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
        Created {
            status,
            message: body["message"].as_str().unwrap_or_default().to_owned(),
            warnings,
            body,
        }
    }
}

/// Sets the conversion webhook, and registers the others for this test's namespace.
async fn register(cluster: &Cluster, rig: &Rig, name: &str, certificate: &Certificate) {
    let definition = converted_at(rig.address, certificate);
    let installed = install_crds(&cluster.aside(), [definition], Duration::from_secs(30)).await;
    installed.expect("it is valid");
    let authority = base64::engine::general_purpose::STANDARD.encode(&certificate.pem);
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
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let defaults = webhook("default", MUTATE, &["CREATE", "UPDATE"]);
    let defaults = registration("MutatingWebhookConfiguration", defaults);
    mutating
        .patch("hooks.windlass.dev", &apply, &Patch::Apply(defaults))
        .await
        .expect("it is valid");
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let checks = webhook(name, VALIDATE, &["CREATE", "UPDATE", "DELETE"]);
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
