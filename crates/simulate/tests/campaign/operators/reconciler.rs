//! Opinionated reconcilers: one with a single child, and one like the example `quickstart`.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use windlass_controller::{Action, Failure, OpinionatedReconciler, Outcome, Request};
use windlass_simulate::Process;

use super::{
    Bug, Ended, controller, finalizers,
    publish::{Children, Publish, page},
};
use crate::site::{NAMESPACE, Site};

/// Writes a host name, a config map and a status for each site.
pub(crate) async fn opinionated_reconciler(process: Process, bug: Option<Bug>) -> Ended {
    let (controller, sites) = controller(&process)?;
    let publish = Publish::new(&process, process.client(), bug);
    if bug == Some(Bug::LeavesATask) {
        tokio::spawn(std::future::pending::<()>());
    }
    if matches!(
        bug,
        Some(Bug::FinalizerRemovedTooEarly | Bug::CreatesChildTwice)
    ) {
        let publish = Flawed {
            publish,
            created: Mutex::default(),
        };
        let flawed = std::sync::Arc::new(publish);
        let flawed = move |request: Request<Site>| {
            let flawed = std::sync::Arc::clone(&flawed);
            async move { flawed.reconcile(&request).await }
        };
        controller.add_reconciler(&sites, process.handler("publish", flawed))?;
    } else {
        let publish = process.handler("publish", publish);
        let publish = OpinionatedReconciler::new(finalizers(&process, "publisher"), publish);
        controller.add_reconciler(&sites, publish)?;
    }
    Ok(controller.run(process.stop()).await?)
}

/// Writes a page, servers and an address for each site, like the example `quickstart`.
pub(crate) async fn quickstart(process: Process) -> Ended {
    let (controller, sites) = controller(&process)?;
    let publish = Publish {
        children: Children::PageServersAndAddress,
        ..Publish::new(&process, process.client(), None)
    };
    let publish = process.handler("publish", publish);
    let publish = OpinionatedReconciler::new(finalizers(&process, "publisher"), publish);
    controller.add_reconciler(&sites, publish)?;
    Ok(controller.run(process.stop()).await?)
}

/// A reconciler with its own, wrong handling of its finalizer and its child.
struct Flawed {
    publish: Publish,
    created: Mutex<Vec<String>>,
}

// === impl Flawed ===

impl Flawed {
    async fn reconcile(&self, request: &Request<Site>) -> Result<Outcome, Failure> {
        let site = request.object();
        if request.action() == Action::Deleted {
            return Ok(Outcome::done());
        }
        if self.publish.bug == Some(Bug::CreatesChildTwice) {
            self.create_child(site).await?;
            return Ok(Outcome::done());
        }
        let terminating = site.metadata.deletion_timestamp.is_some();
        let held = !site.finalizers().is_empty();
        if !terminating && !held {
            self.set_finalizers(site, &["simulate.windlass.dev/flawed"])
                .await?;
        }
        if !terminating {
            self.publish.publish(site).await?;
        } else if held {
            self.set_finalizers(site, &[]).await?;
            self.publish.clean_up(site).await?;
        }
        Ok(Outcome::done())
    }

    async fn set_finalizers(&self, site: &Site, finalizers: &[&str]) -> Result<(), Failure> {
        let sites: Api<Site> = Api::namespaced(self.publish.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
        sites
            .patch(&site.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn create_child(&self, site: &Site) -> Result<(), Failure> {
        let uid = site.uid().unwrap_or_default();
        if self.created.lock().contains(&uid) {
            return Ok(());
        }
        let mut child = page(site);
        child.metadata.name = None;
        child.metadata.generate_name = Some(format!("{}-", site.name_any()));
        let configs: Api<ConfigMap> = Api::namespaced(self.publish.client.clone(), NAMESPACE);
        configs.create(&PostParams::default(), &child).await?;
        self.created.lock().push(uid);
        Ok(())
    }
}
