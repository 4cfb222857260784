//! The common parts of the operators of `docs/choosing.md`: the kind `Website`, its Deployment, and a
//! DNS provider.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, CustomResource, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::ObjectKey;

/// A website: servers in the cluster, and a DNS record outside of it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "models.windlass.dev",
    version = "v1",
    kind = "Website",
    namespaced
)]
pub(crate) struct WebsiteSpec {
    pub(crate) address: String,
    pub(crate) replicas: i32,
}

/// A DNS provider: an address for each host. Clones are the same provider.
#[derive(Clone, Default)]
pub(crate) struct Dns(Arc<Mutex<DnsState>>);

#[derive(Default)]
struct DnsState {
    records: BTreeMap<String, String>,
    fails_next: bool,
}

/// A request to the DNS provider failed.
#[derive(Debug, thiserror::Error)]
#[error("the DNS provider does not answer")]
pub(crate) struct DnsError;

/// A website could not be published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Dns(#[from] DnsError),
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

// === impl Dns ===

impl Dns {
    /// Creates or changes the record of a host.
    #[expect(
        clippy::unused_async,
        reason = "a real provider is asked over a network"
    )]
    pub(crate) async fn set(&self, host: &str, address: &str) -> Result<(), DnsError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.fails_next) {
            return Err(DnsError);
        }
        state.records.insert(host.to_owned(), address.to_owned());
        Ok(())
    }

    /// Removes the record of a host, if there is one.
    #[expect(
        clippy::unused_async,
        reason = "a real provider is asked over a network"
    )]
    pub(crate) async fn remove(&self, host: &str) -> Result<(), DnsError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.fails_next) {
            return Err(DnsError);
        }
        state.records.remove(host);
        Ok(())
    }

    /// The records: hosts and addresses.
    pub(crate) fn records(&self) -> BTreeMap<String, String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.records.clone()
    }

    /// Lets the next request fail.
    pub(crate) fn fail_next(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.fails_next = true;
    }
}

/// The host name of a website.
pub(crate) fn host(site: &ObjectKey) -> String {
    let namespace = site.namespace().unwrap_or_default();
    format!("{}.{namespace}.example", site.name())
}

/// The servers of a website, without name and owner.
pub(crate) fn deployment(site: &Website) -> Value {
    let labels = json!({ "website": site.name_any() });
    json!({ "spec": {
        "replicas": site.spec.replicas,
        "selector": { "matchLabels": labels },
        "template": {
            "metadata": { "labels": labels },
            "spec": { "containers": [{ "name": "server", "image": "nginx:1" }] },
        },
    } })
}

/// Applies the Deployment of a website. Kubernetes deletes it with its owner, the website.
pub(crate) async fn apply_deployment(client: Client, site: &Website) -> Result<(), Error> {
    let (name, namespace) = (site.name_any(), site.namespace().unwrap_or_default());
    let mut deployment = deployment(site);
    deployment["apiVersion"] = json!("apps/v1");
    deployment["kind"] = json!("Deployment");
    let owner = site.controller_owner_ref(&());
    deployment["metadata"] = json!({ "name": name, "ownerReferences": [owner] });
    let api = Api::<Deployment>::namespaced(client, &namespace);
    let params = PatchParams::apply("websites").force();
    api.patch(&name, &params, &Patch::Apply(deployment)).await?;
    Ok(())
}
