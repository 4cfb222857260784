//! The work for a site: publishes its host name outside of the cluster, and writes its children and its status.

use std::{collections::BTreeMap, fmt::Debug};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{ConfigMap, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass_controller::{Action, Failure, Outcome, Reconciler, Request};
use windlass_simulate::{External, Process};

use super::Bug;
use crate::site::Site;

/// Publishes sites.
#[derive(Clone)]
pub(crate) struct Publish {
    pub(crate) client: Client,
    pub(crate) external: External,
    pub(crate) children: Children,
    pub(crate) bug: Option<Bug>,
}

/// The children of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Children {
    Page,
    PageServersAndAddress,
}

// === impl Publish ===

impl Publish {
    pub(crate) fn new(process: &Process, client: Client, bug: Option<Bug>) -> Self {
        Self {
            client,
            external: process.external(),
            children: Children::Page,
            bug,
        }
    }

    pub(crate) async fn publish(&self, site: &Site) -> Result<(), Failure> {
        let host = format!("dns {}", site.spec.host);
        self.external
            .put(&host, site.uid().unwrap_or_default())
            .await?;
        self.ensure(site, page(site)).await?;
        if self.children == Children::PageServersAndAddress {
            self.ensure(site, servers(site)).await?;
            self.ensure(site, address(site)).await?;
        }
        let mut status = json!({ "status": {
            "observedGeneration": site.meta().generation.unwrap_or_default(),
            "published": site.spec.host,
        } });
        let namespace = site.namespace().unwrap_or_default();
        let sites: Api<Site> = Api::namespaced(self.client.clone(), &namespace);
        let params = PatchParams::default();
        if self.bug == Some(Bug::WritesStaleSpec) {
            let spec = json!({ "spec": site.spec });
            sites
                .patch(&site.name_any(), &params, &Patch::Merge(spec))
                .await?;
        }
        if self.bug == Some(Bug::WritesEachTime) {
            let version = site.resource_version();
            status["status"]["published"] = json!(format!("by version {version:?}"));
        }
        sites
            .patch_status(&site.name_any(), &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    pub(crate) async fn clean_up(&self, site: &Site) -> Result<(), Failure> {
        let host = format!("dns {}", site.spec.host);
        // A failed clean-up can be retried after a new object has published the same host name.
        let owner = self.external.get(&host).await;
        let is_own = owner.is_some() && owner == site.uid();
        let removed = is_own && self.external.remove(&host).await?;
        if !removed && self.bug == Some(Bug::CleanUpIsNotIdempotent) {
            return Err(Failure::new("there is no such host name"));
        }
        Ok(())
    }

    /// Deletes the page of a site, which has no owner reference and so is not garbage-collected.
    pub(crate) async fn delete_page(&self, site: &Site) -> Result<(), Failure> {
        let namespace = site.namespace().unwrap_or_default();
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        let name = site.name_any();
        let mut params = DeleteParams::default();
        if self.bug != Some(Bug::DeletesByName) {
            let Some(page) = configs.get_opt(&name).await? else {
                return Ok(());
            };
            let owner = page.annotations().get("site");
            if owner != site.uid().as_ref() {
                return Ok(());
            }
            params = params.preconditions(Preconditions {
                uid: page.uid(),
                resource_version: page.resource_version(),
            });
        }
        match configs.delete(&name, &params).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    /// Creates `wanted`, or patches the existing object if it differs.
    pub(crate) async fn ensure<K>(&self, site: &Site, wanted: K) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let namespace = site.namespace().unwrap_or_default();
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let name = wanted.name_any();
        let Some(there) = api.get_opt(&name).await? else {
            api.create(&PostParams::default(), &wanted).await?;
            return Ok(());
        };
        let (wish, there) = (
            serde_json::to_value(&wanted)?,
            serde_json::to_value(&there)?,
        );
        if !holds(&there, &wish) {
            let params = PatchParams::default();
            api.patch(&name, &params, &Patch::Merge(&wish)).await?;
        }
        Ok(())
    }
}

impl Reconciler<Site> for Publish {
    type Error = Failure;

    async fn reconcile(&self, request: Request<Site>) -> Result<Outcome, Failure> {
        let site = request.object();
        let done = match request.action() {
            Action::Deleted => self.clean_up(site).await,
            _ => self.publish(site).await,
        };
        if self.bug != Some(Bug::IgnoresErrors) {
            done?;
        }
        Ok(Outcome::done())
    }
}

/// Whether `there` has all fields of `wish` with equal values.
fn holds(there: &Value, wish: &Value) -> bool {
    match (there, wish) {
        (Value::Object(there), Value::Object(wish)) => wish
            .iter()
            .all(|(key, wish)| there.get(key).is_some_and(|there| holds(there, wish))),
        (Value::Array(there), Value::Array(wish)) => {
            there.len() == wish.len() && there.iter().zip(wish).all(|(a, b)| holds(a, b))
        }
        _ => there == wish,
    }
}

pub(crate) fn page(site: &Site) -> ConfigMap {
    ConfigMap {
        metadata: child(site),
        data: Some([("page".to_owned(), site.spec.page.clone())].into()),
        ..ConfigMap::default()
    }
}

fn servers(site: &Site) -> Deployment {
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(site)),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: serde_json::from_value(json!([{ "name": "web", "image": "web:1" }]))
                .expect("a container"),
            ..PodSpec::default()
        }),
    };
    Deployment {
        metadata: child(site),
        spec: Some(DeploymentSpec {
            selector: LabelSelector {
                match_labels: Some(labels(site)),
                ..LabelSelector::default()
            },
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn address(site: &Site) -> Service {
    Service {
        metadata: child(site),
        spec: Some(ServiceSpec {
            selector: Some(labels(site)),
            ports: Some(vec![ServicePort {
                port: 80,
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn child(site: &Site) -> ObjectMeta {
    ObjectMeta {
        name: Some(site.name_any()),
        namespace: site.namespace(),
        owner_references: Some(site.controller_owner_ref(&()).into_iter().collect()),
        ..ObjectMeta::default()
    }
}

fn labels(site: &Site) -> BTreeMap<String, String> {
    [("site".to_owned(), site.name_any())].into()
}
