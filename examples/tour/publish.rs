//! The reconciler: makes the cluster and the name service match the spec of a website.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            ConfigMap, ConfigMapVolumeSource, Container, PodSpec, PodTemplateSpec, Service,
            ServicePort, ServiceSpec, Volume, VolumeMount,
        },
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
use windlass::{Action, Failure, Outcome, Reconciler, Request};

use crate::{
    names::NameService,
    printer::{Actor, Printer},
    website::{Website, WebsiteStatus},
};

/// Publishes a website: the page in a `ConfigMap`, the servers in a `Deployment`, the address in
/// a `Service`, and the host name in an external name service.
pub(crate) struct Publish<N> {
    pub(crate) client: Client,
    pub(crate) names: N,
    pub(crate) printer: Arc<Printer>,
}

impl<N: NameService> Reconciler<Website> for Publish<N> {
    type Error = Failure;

    async fn reconcile(&self, request: Request<Website>) -> Result<Outcome, Failure> {
        match request.action() {
            // The finalizer keeps the website until this call has succeeded.
            Action::Deleted => self.clean_up(request.object()).await?,
            _ => self.publish(request.object()).await?,
        }
        Ok(Outcome::done())
    }
}

impl<N: NameService> Publish<N> {
    async fn publish(&self, site: &Website) -> Result<(), Failure> {
        self.ensure(site, page(site)).await?;
        self.ensure(site, servers(site)).await?;
        self.ensure(site, address(site)).await?;
        self.names.publish(uid(site), &site.spec.host).await?;

        let status = WebsiteStatus {
            phase: "Published".to_owned(),
            url: format!("http://{}", site.spec.host),
            observed_generation: site.metadata.generation,
        };
        if site.status.as_ref() != Some(&status) {
            let patch = Patch::Merge(json!({ "status": status }));
            self.sites(site)
                .patch_status(&site.name_any(), &PatchParams::default(), &patch)
                .await?;
            self.print(site, format!("is published at {}", status.url));
        }
        Ok(())
    }

    async fn clean_up(&self, site: &Website) -> Result<(), Failure> {
        if self.names.withdraw(uid(site)).await? {
            self.print(site, format!("withdraws the host name {}", site.spec.host));
        }
        // Not required: the garbage collector would delete these owned objects later.
        self.remove::<Service>(site).await?;
        self.remove::<Deployment>(site).await?;
        self.remove::<ConfigMap>(site).await?;
        Ok(())
    }

    /// Creates `wanted`, or patches the existing object if it differs.
    async fn ensure<K>(&self, site: &Website, wanted: K) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let api = Api::<K>::namespaced(self.client.clone(), &namespace(site));
        let name = wanted.name_any();
        let fields = serde_json::to_value(&wanted)?;
        match api.get_opt(&name).await? {
            None => {
                api.create(&PostParams::default(), &wanted).await?;
                self.print(site, format!("creates its {}", K::kind(&())));
            }
            Some(existing) if !contains(&serde_json::to_value(&existing)?, &fields) => {
                let patch = Patch::Merge(&fields);
                api.patch(&name, &PatchParams::default(), &patch).await?;
                self.print(site, format!("changes its {}", K::kind(&())));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Deletes the child of `site` of this kind, if there is one.
    async fn remove<K>(&self, site: &Website) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api = Api::<K>::namespaced(self.client.clone(), &namespace(site));
        let Some(child) = api.get_opt(&site.name_any()).await? else {
            return Ok(());
        };
        // This call may be a late retry: a website that was created under the same name since has
        // children of the same names.
        if !(child.owner_references().iter()).any(|owner| owner.uid == uid(site)) {
            return Ok(());
        }
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: child.uid(),
            resource_version: child.resource_version(),
        });
        match api.delete(&site.name_any(), &params).await {
            Ok(_) => self.print(site, format!("removes its {}", K::kind(&()))),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn sites(&self, site: &Website) -> Api<Website> {
        Api::namespaced(self.client.clone(), &namespace(site))
    }

    fn print(&self, site: &Website, what: impl AsRef<str>) {
        let line = format!("{:<5} {}", site.name_any(), what.as_ref());
        self.printer.print(Actor::Reconciler, line);
    }
}

/// Whether `existing` has every field of `wanted` with the same value. Other fields, which the
/// server adds, are ignored.
fn contains(existing: &Value, wanted: &Value) -> bool {
    match (existing, wanted) {
        (Value::Object(existing), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let field = existing.get(key);
            field.is_some_and(|field| contains(field, wanted))
        }),
        (Value::Array(existing), Value::Array(wanted)) => {
            let mut pairs = existing.iter().zip(wanted);
            existing.len() == wanted.len() && pairs.all(|(a, b)| contains(a, b))
        }
        _ => existing == wanted,
    }
}

fn page(site: &Website) -> ConfigMap {
    ConfigMap {
        metadata: child(site),
        data: Some([("index.html".to_owned(), site.spec.page.clone())].into()),
        ..ConfigMap::default()
    }
}

fn servers(site: &Website) -> Deployment {
    let page = Volume {
        name: "page".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: site.name_any(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let server = Container {
        name: "server".to_owned(),
        image: Some("nginx:1.29-alpine".to_owned()),
        volume_mounts: Some(vec![VolumeMount {
            name: page.name.clone(),
            mount_path: "/usr/share/nginx/html".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    };
    Deployment {
        metadata: child(site),
        spec: Some(DeploymentSpec {
            replicas: Some(site.spec.replicas),
            selector: LabelSelector {
                match_labels: Some(labels(site)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels(site)),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![server],
                    volumes: Some(vec![page]),
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn address(site: &Website) -> Service {
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

fn child(site: &Website) -> ObjectMeta {
    ObjectMeta {
        name: Some(site.name_any()),
        namespace: site.namespace(),
        labels: Some(labels(site)),
        owner_references: Some(site.controller_owner_ref(&()).into_iter().collect()),
        ..ObjectMeta::default()
    }
}

fn labels(site: &Website) -> BTreeMap<String, String> {
    [("website".to_owned(), site.name_any())].into()
}

fn uid(site: &Website) -> &str {
    site.metadata.uid.as_deref().unwrap_or_default()
}

fn namespace(site: &Website) -> String {
    site.namespace().unwrap_or_default()
}
