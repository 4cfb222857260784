//! The program of a user: an operator for websites of two versions, with a webhook server.

use std::{collections::BTreeMap, net::TcpListener, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use kube::{Client, CustomResource, CustomResourceExt as _, api::ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{
    crds::join_versions,
    operator::OperatorBuilder,
    prelude::*,
    webhook::{AdmissionError, AdmissionRequest, Conversion, Denied, Operation, WebhookServer},
};

pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The version that the operator uses.
pub(super) mod v1 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
    #[kube(
        group = "hooks.windlass.dev",
        version = "v1",
        kind = "Website",
        namespaced
    )]
    pub(in super::super) struct WebsiteSpec {
        pub(in super::super) title: String,
        pub(in super::super) replicas: Option<i32>,
        pub(in super::super) theme: Option<String>,
    }
}

/// The first version, which is stored.
pub(super) mod v1beta1 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
    #[kube(
        group = "hooks.windlass.dev",
        version = "v1beta1",
        kind = "Website",
        namespaced
    )]
    pub(in super::super) struct WebsiteSpec {
        pub(in super::super) title: String,
        pub(in super::super) size: Option<i32>,
    }
}

/// Keeps the theme, for which the first version has no field.
const THEME: &str = "hooks.windlass.dev/theme";

impl TryFrom<v1beta1::Website> for v1::Website {
    type Error = String;

    fn try_from(mut old: v1beta1::Website) -> Result<Self, String> {
        let annotations = old.metadata.annotations.get_or_insert_default();
        let theme = annotations.remove(THEME);
        let replicas = old.spec.size;
        if replicas.is_some_and(|it| it < 0) {
            return Err("spec.size is negative".to_owned());
        }
        let title = old.spec.title;
        Ok(Self {
            metadata: old.metadata,
            spec: v1::WebsiteSpec {
                title,
                replicas,
                theme,
            },
        })
    }
}

impl From<v1::Website> for v1beta1::Website {
    fn from(mut hub: v1::Website) -> Self {
        if let Some(theme) = hub.spec.theme {
            let annotations = hub.metadata.annotations.get_or_insert_default();
            annotations.insert(THEME.to_owned(), theme);
        }
        Self {
            // Ignored: a conversion cannot change it.
            metadata: ObjectMeta {
                generation: None,
                ..hub.metadata
            },
            spec: v1beta1::WebsiteSpec {
                title: hub.spec.title,
                size: hub.spec.replicas,
            },
        }
    }
}

/// Both versions in one definition, which a webhook converts; the first one is stored.
pub(super) fn definition(webhook: WebhookClientConfig) -> Result<CustomResourceDefinition, Error> {
    let versions = [v1::Website::crd(), v1beta1::Website::crd()];
    Ok(join_versions(versions, "v1beta1", webhook)?)
}

pub(super) fn website_operator(
    builder: OperatorBuilder,
    client: Client,
    listener: TcpListener,
    tls: &Path,
) -> Result<Operator, Error> {
    let conversion = Conversion::<v1::Website>::new().version::<v1beta1::Website>();
    let webhooks = WebhookServer::new(listener, tls.join("tls.crt"), tls.join("tls.key"))
        .validate("/validate-website", check)?
        .mutate("/mutate-website", |mut site: v1::Website, _| async {
            site.spec.replicas.get_or_insert(1);
            Ok::<_, Denied>(site)
        })?
        .convert("/convert-website", conversion)?;
    let operator = builder.webhook_server(webhooks).build();
    let watch = Watch::namespaced(client.default_namespace());
    let websites = Controller::<v1::Website>::builder(client, watch);
    let websites = websites.name("websites").build(|_| async {
        // It reads objects of the stored version, through the webhook.
        Ok::<_, Failure>(Outcome::done())
    })?;
    operator.add_controller(websites)?;
    Ok(operator)
}

async fn check(request: AdmissionRequest<v1::Website>) -> Result<Vec<String>, AdmissionError> {
    match (request.object, request.old_object) {
        (None, Some(old)) if request.operation == Operation::Delete => {
            let annotations = old.metadata.annotations.unwrap_or_else(BTreeMap::new);
            if annotations.contains_key("hooks.windlass.dev/protected") {
                return Err(Denied::new("the website is protected").into());
            }
        }
        (Some(site), _) if site.spec.title.is_empty() => {
            let denied = Denied::new("spec.title is empty").code(422);
            return Err(denied.warnings("a title has one word at least").into());
        }
        (Some(site), _) if site.spec.title == "panic" => panic!("test panic"),
        (Some(site), _) if site.spec.title == "hang" => std::future::pending().await,
        (Some(site), _) if site.spec.title == "dry" => {
            return Ok(vec![format!("dry run: {}", request.dry_run)]);
        }
        (Some(site), Some(old)) if site.spec.title != old.spec.title => {
            return Err(Denied::new("spec.title cannot be changed").into());
        }
        (Some(site), _) if site.spec.theme.as_deref() == Some("dark") => {
            return Ok(vec!["the theme dark is deprecated".to_owned()]);
        }
        _ => {}
    }
    Ok(Vec::new())
}
