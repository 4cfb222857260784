//! An opinionated reconciler: a host name outside of the cluster, a config map, and a status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_controller::{Action, Failure, OpinionatedReconciler, Outcome, Reconciler, Request};
use windlass_simulate::{External, Process};

use super::{Ended, finalizers, sites};
use crate::site::Site;

/// The deliberate bugs of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Correct,
}

struct Publish {
    client: Client,
    external: External,
    variant: Variant,
}

pub(crate) async fn opinionated_reconciler(process: Process, variant: Variant) -> Ended {
    let controller = sites(&process)?;
    let publish = Publish {
        client: process.client(),
        external: process.external(),
        variant,
    };
    let publish = process.handler("publish", publish);
    let publish = OpinionatedReconciler::new(finalizers(&process), publish);
    controller.add_reconciler("sites", publish)?;
    Ok(controller.run(process.stop()).await?)
}

// === impl Publish ===

impl Publish {
    async fn publish(&self, site: &Site) -> Result<(), Failure> {
        let name = site.name_any();
        let namespace = site.namespace().unwrap_or_default();
        self.external
            .put(&format!("dns {}", site.spec.host), name.clone())
            .await?;
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        let page: BTreeMap<_, _> = [("page".to_owned(), site.spec.page.clone())].into();
        match configs.get_opt(&name).await? {
            None => {
                let config = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        owner_references: Some(site.controller_owner_ref(&()).into_iter().collect()),
                        ..ObjectMeta::default()
                    },
                    data: Some(page),
                    ..ConfigMap::default()
                };
                configs.create(&PostParams::default(), &config).await?;
            }
            Some(there) if there.owner_references().iter().any(|it| Some(&it.uid) != site.meta().uid.as_ref()) => {
                return Err(Failure::new("the config map of a predecessor is still there"));
            }
            Some(there) if there.data.as_ref() != Some(&page) => {
                let patch = json!({ "data": page });
                let params = PatchParams::default();
                configs.patch(&name, &params, &Patch::Merge(patch)).await?;
            }
            Some(_) => {}
        }
        let status = json!({ "status": {
            "observedGeneration": site.meta().generation.unwrap_or_default(),
            "published": site.spec.host,
        } });
        let sites: Api<Site> = Api::namespaced(self.client.clone(), &namespace);
        let patch = Patch::Merge(status);
        sites.patch_status(&name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn clean_up(&self, site: &Site) -> Result<(), Failure> {
        self.external.remove(&format!("dns {}", site.spec.host)).await?;
        Ok(())
    }
}

impl Reconciler<Site> for Publish {
    type Error = Failure;

    async fn reconcile(&self, request: Request<Site>) -> Result<Outcome, Failure> {
        let site = request.object();
        assert_eq!(self.variant, Variant::Correct);
        match request.action() {
            Action::Deleted => self.clean_up(site).await?,
            _ => self.publish(site).await?,
        }
        Ok(Outcome::done())
    }
}
