//! The reconciler: brings the cluster and the name service to the state that a website asks for.

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
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
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

/// A website becomes a page in a `ConfigMap`, servers in a `Deployment`, an address in a
/// `Service`, and a host name outside of the cluster.
#[derive(Clone)]
pub(crate) struct Publish {
    pub(crate) client: Client,
    pub(crate) names: Arc<NameService>,
    pub(crate) printer: Arc<Printer>,
}

impl Reconciler<Website> for Publish {
    type Error = Failure;

    async fn reconcile(&self, request: Request<Website>) -> Result<Outcome, Failure> {
        match request.action() {
            // The finalizer still holds it until this call has succeeded.
            Action::Deleted => self.clean_up(request.object()).await?,
            _ => self.publish(request.object()).await?,
        }
        Ok(Outcome::done())
    }
}

impl Publish {
    async fn publish(&self, site: &Website) -> Result<(), Failure> {
        self.ensure(site, page(site)).await?;
        self.ensure(site, servers(site)).await?;
        self.ensure(site, address(site)).await?;
        self.names.publish(&site.spec.host)?;

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
        if self.names.withdraw(&site.spec.host) {
            self.print(site, format!("gives back the host name {}", site.spec.host));
        }
        // The garbage collector would delete them too, later: owner references are set.
        self.remove::<Service>(site).await?;
        self.remove::<Deployment>(site).await?;
        self.remove::<ConfigMap>(site).await?;
        Ok(())
    }

    /// Creates `wanted`, or changes what is there where it differs.
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
        let wish = serde_json::to_value(&wanted)?;
        match api.get_opt(&name).await? {
            None => {
                api.create(&PostParams::default(), &wanted).await?;
                self.print(site, format!("creates its {}", K::kind(&())));
            }
            Some(there) if !holds(&serde_json::to_value(&there)?, &wish) => {
                let patch = Patch::Merge(&wish);
                api.patch(&name, &PatchParams::default(), &patch).await?;
                self.print(site, format!("changes its {}", K::kind(&())));
            }
            Some(_) => {}
        }
        Ok(())
    }

    async fn remove<K>(&self, site: &Website) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api = Api::<K>::namespaced(self.client.clone(), &namespace(site));
        match api.delete(&site.name_any(), &DeleteParams::default()).await {
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

/// Whether `there` has everything that `wish` names. What the server adds is left alone.
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

fn namespace(site: &Website) -> String {
    site.namespace().unwrap_or_default()
}
