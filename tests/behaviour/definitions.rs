//! Definitions of custom resources: joined versions, and the comparison with the cluster.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, ServiceReference, WebhookClientConfig,
    },
};
use kube::{
    Api, CustomResource, CustomResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass::crds::{
    CheckError, InstallError, check_crds, install_crds, join_versions, replace_crds,
};

use crate::cluster::Cluster;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The Rust type of the program.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "check.windlass.dev",
    version = "v2",
    kind = "Shop",
    namespaced
)]
struct ShopSpec {
    title: String,
    #[serde(default)]
    ports: Vec<Port>,
    #[serde(default)]
    teams: BTreeMap<String, Team>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Port {
    number: u16,
    name: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Team {
    mail: Option<String>,
}

/// A kind of which another tool has installed more.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "check.windlass.dev",
    version = "v1",
    kind = "Crate",
    namespaced
)]
struct CrateSpec {
    weight: i32,
}

/// The first version.
mod v1 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
    #[kube(
        group = "check.windlass.dev",
        version = "v1",
        kind = "Shop",
        namespaced
    )]
    pub(super) struct ShopSpec {
        pub(super) title: String,
    }

    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
    #[kube(group = "check.windlass.dev", version = "v1", kind = "Toy", namespaced)]
    pub(super) struct ToySpec {
        pub(super) size: i32,
    }
}

/// A later version of one of the kinds.
mod v2 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
    #[kube(group = "check.windlass.dev", version = "v2", kind = "Toy", namespaced)]
    pub(super) struct ToySpec {
        pub(super) length: i32,
    }
}

/// The definition of the program, in which `change` changes the versions.
fn definition(change: impl FnOnce(&mut Value)) -> CustomResourceDefinition {
    let mut definition = serde_json::to_value(Shop::crd()).expect("a value");
    change(&mut definition["spec"]["versions"]);
    serde_json::from_value(definition).expect("a definition")
}

/// The schema of the spec of a version.
fn spec(version: &mut Value) -> &mut Value {
    &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
}

fn remove(object: &mut Value, field: &str) {
    object.as_object_mut().expect("an object").remove(field);
}

/// What the check finds, as text.
async fn check(cluster: &Cluster) -> String {
    match check_crds(&cluster.aside(), [Shop::crd()]).await {
        Ok(()) => "good".to_owned(),
        Err(CheckError::NotInstalled { .. }) => "not installed".to_owned(),
        Err(CheckError::NotServed {
            version, served, ..
        }) => {
            format!("{version}: serves {}", served.join(" "))
        }
        Err(CheckError::MissingFields {
            version, fields, ..
        }) => {
            format!("{version}: lacks {}", fields.join(" "))
        }
        Err(other) => panic!("{other}"),
    }
}

on_both_servers! {
    /// The definitions of controller-gen have no version of Windlass.
    async fn a_definition_of_another_tool_keeps_its_fields_and_versions(cluster: Cluster) {
        let client = cluster.aside();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut theirs = serde_json::to_value(Crate::crd()).expect("a value");
        let versions = &mut theirs["spec"]["versions"];
        spec(&mut versions[0])["color"] = json!({ "type": "string" });
        let mut alpha = versions[0].clone();
        (alpha["name"], alpha["storage"]) = ("v1alpha1".into(), false.into());
        versions.as_array_mut().expect("a list").push(alpha);
        let theirs: CustomResourceDefinition = serde_json::from_value(theirs).expect("a definition");
        let has_color = async || {
            let found = definitions.get(Crate::crd_name()).await.expect("there");
            serde_json::to_string(&found.spec).expect("JSON").contains("color")
        };
        definitions.create(&PostParams::default(), &theirs).await.expect("new");
        let refused = install_crds(&client, [Crate::crd()], TIMEOUT).await;
        match refused.expect_err("it lacks a field") {
            InstallError::Lossy { lost, .. } => assert_eq!(lost, ["spec.color of v1", "v1alpha1"]),
            other => panic!("{other:?}"),
        }
        assert!(has_color().await);
        replace_crds(&client, [Crate::crd()], TIMEOUT).await.expect("replaced");
        assert!(!has_color().await);
        // It is ours from now on.
        install_crds(&client, [theirs], TIMEOUT).await.expect("installed");
        install_crds(&client, [Crate::crd()], TIMEOUT).await.expect("installed");
        assert!(!has_color().await);
        definitions.delete(Crate::crd_name(), &DeleteParams::default()).await.expect("there");
    }

    /// Rows: BO-65
    #[expect(clippy::too_many_lines, reason = "one definition after the other")]
    async fn a_definition_that_loses_fields_of_the_type_is_found_at_the_start(cluster: Cluster) {
        let client = cluster.aside();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = Shop::crd_name();
        assert_eq!(check(&cluster).await, "not installed");
        let install = async |definition| {
            install_crds(&client, [definition], TIMEOUT).await.expect("installed");
            check(&cluster).await
        };
        assert_eq!(install(Shop::crd()).await, "good");

        // An older definition: the API server takes the object and removes what it does not know.
        let older = definition(|versions| {
            let spec = spec(&mut versions[0]);
            remove(&mut spec["ports"]["items"]["properties"], "name");
            remove(&mut spec["teams"]["additionalProperties"]["properties"], "mail");
        });
        assert_eq!(install(older).await, "v2: lacks spec.ports[*].name spec.teams[*].mail");
        let shop: Shop = serde_json::from_value(json!({
            "apiVersion": "check.windlass.dev/v2",
            "kind": "Shop",
            "metadata": { "name": "a" },
            "spec": {
                "title": "a",
                "ports": [{ "number": 80, "name": "http" }],
                "teams": { "web": { "mail": "a@b" } },
            },
        }))
        .expect("a shop");
        let shops: Api<Shop> = cluster.api_aside();
        // The new schema is in use a moment later.
        loop {
            let stored = shops.create(&PostParams::default(), &shop).await.expect("it is accepted");
            shops.delete("a", &DeleteParams::default()).await.expect("it is there");
            if stored.spec.ports[0].name.is_none() && stored.spec.teams["web"].mail.is_none() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        let loose = definition(|versions| {
            let spec = spec(&mut versions[0]);
            *spec = json!({
                "title": spec["title"],
                "ports": { "type": "array", "items": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                } },
                "teams": spec["teams"],
                "newer": { "type": "string" },
            });
        });
        assert_eq!(install(loose).await, "good");

        // Without a webhook, the stored version has to have the fields too.
        let two = || definition(|versions| {
            let mut older = versions[0].clone();
            older["name"] = "v1".into();
            remove(spec(&mut older), "teams");
            versions[0]["storage"] = false.into();
            versions.as_array_mut().expect("a list").push(older);
        });
        assert_eq!(install(two()).await, "v1: lacks spec.teams");
        loop {
            shops.create(&PostParams::default(), &shop).await.expect("it is accepted");
            let stored = shops.get("a").await.expect("it is stored");
            shops.delete("a", &DeleteParams::default()).await.expect("it is there");
            if stored.spec.teams.is_empty() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        let service = ServiceReference {
            name: "hooks".to_owned(),
            namespace: "default".to_owned(),
            ..ServiceReference::default()
        };
        let webhook = WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() };
        let converted = join_versions([Shop::crd(), v1::Shop::crd()], "v1", webhook);
        let converted = converted.expect("versions of one kind");
        let unconverted = check_crds(&cluster.aside(), [converted.clone()]).await;
        let unconverted = unconverted.expect_err("the cluster calls no webhook");
        assert!(matches!(unconverted, CheckError::NotConverted { .. }), "{unconverted}");
        assert_eq!(install(converted).await, "good");

        // The version of the program is not served.
        let mut other = serde_json::to_value(v1::Shop::crd()).expect("a value");
        other["spec"]["versions"].as_array_mut().expect("a list").push({
            let mut version = serde_json::to_value(Shop::crd()).expect("a value")["spec"]["versions"][0].take();
            (version["served"], version["storage"]) = (false.into(), false.into());
            version
        });
        let other = serde_json::from_value(other).expect("a definition");
        assert_eq!(install(other).await, "v2: serves v1");
        definitions.delete(name, &DeleteParams::default()).await.expect("it is there");
    }

    /// Rows: BO-65
    async fn versions_are_joined_and_keep_the_authority_that_another_manager_has_written(cluster: Cluster) {
        let client = cluster.aside();
        let join = |stored| {
            let service = ServiceReference {
                name: "hooks".to_owned(),
                namespace: "default".to_owned(),
                path: Some("/convert".to_owned()),
                port: None,
            };
            let webhook = WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() };
            join_versions([v1::Toy::crd(), v2::Toy::crd()], stored, webhook)
        };
        join("v3").expect_err("there is no such version");
        let definition = join("v1").expect("versions of one kind");
        install_crds(&client, [definition.clone()], TIMEOUT).await.expect("installed");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = v1::Toy::crd_name();
        let authority = rcgen::generate_simple_self_signed(vec!["hooks.default.svc".to_owned()]);
        let authority = authority.expect("a certificate").cert.pem();
        let authority = ByteString(authority.into_bytes());
        let injected = json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": authority } } } } });
        let manager = PatchParams { field_manager: Some("cainjector".to_owned()), ..PatchParams::default() };
        definitions.patch(name, &manager, &Patch::Merge(injected)).await.expect("it is valid");
        install_crds(&client, [definition], TIMEOUT).await.expect("installed again");

        let installed = definitions.get(name).await.expect("installed");
        let versions = installed.spec.versions.iter().map(|it| (&*it.name, it.served, it.storage));
        assert_eq!(versions.collect::<Vec<_>>(), [("v1", true, true), ("v2", true, false)]);
        let conversion = installed.spec.conversion.expect("it is set");
        assert_eq!(conversion.strategy, "Webhook");
        let webhook = conversion.webhook.expect("a webhook");
        assert_eq!(webhook.conversion_review_versions, ["v1"]);
        let config = webhook.client_config.expect("a service");
        assert_eq!(config.service.expect("a service").path.as_deref(), Some("/convert"));
        assert_eq!(config.ca_bundle, Some(authority));
        check_crds(&client, [v1::Toy::crd(), v2::Toy::crd()]).await.expect("both are served");
        definitions.delete(name, &DeleteParams::default()).await.expect("it is there");
    }
}
