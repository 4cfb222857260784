//! An `ApplyCleanup`: a host name outside of the cluster and a config map for each site.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt as _};
use windlass_controller::{ApplyCleanup, ApplyCleanupController, Failure, Outcome, Owners};
use windlass_informer::Informer;
use windlass_operator::Operator;
use windlass_simulate::Process;

use super::{Bug, Ended, publish::Publish};
use crate::site::Site;

/// The finalizer, in exactly this form.
const FINALIZER: &str = "simulate.windlass.dev/apply-cleanup";

/// A namespace beside that of the other simulations.
pub(crate) const OTHER_NAMESPACE: &str = "other";

struct Sites(Publish);

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotPublished(Failure);

// === impl Sites ===

impl Sites {
    /// Reports a call that must not be made as an external resource, which an oracle finds.
    async fn check(&self, call: &str, site: &Site) {
        let ours = site.finalizers().iter();
        let ours: Vec<_> = ours.filter(|it| it.contains("apply-cleanup")).collect();
        let is_marked = site.metadata.deletion_timestamp.is_some();
        // A clean-up may come after another client has removed the finalizer.
        let is_good = match call {
            "apply" => ours == [FINALIZER] && !is_marked,
            _ => ours.iter().all(|it| *it == FINALIZER),
        };
        if !is_good {
            let name = format!("violation: {call} of {} with {ours:?}", site.name_any());
            _ = self.0.external.put(&name, is_marked.to_string()).await;
        }
    }
}

impl ApplyCleanup for Sites {
    type Resource = Site;
    type Error = NotPublished;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, client: Client, site: &Site) -> Result<Option<Outcome>, NotPublished> {
        self.check("apply", site).await;
        let publish = Publish {
            client,
            ..self.0.clone()
        };
        publish.publish(site).await.map_err(NotPublished)?;
        Ok(None)
    }

    async fn cleanup(&self, _: Client, site: &Site) -> Result<Option<Outcome>, NotPublished> {
        self.check("cleanup", site).await;
        self.0.clean_up(site).await.map_err(NotPublished)?;
        Ok(None)
    }
}

/// Publishes sites, and corrects their config maps.
pub(crate) async fn apply_cleanup(process: Process, bug: Option<Bug>) -> Ended {
    let client = process.client();
    let pages = Informer::new(Api::<ConfigMap>::all(client.clone()));
    process.observe(&pages);
    let sites = Sites(Publish::new(&process, client.clone(), bug));
    let sites = process.handler("apply", sites);
    let controller = ApplyCleanupController::new(client.clone(), sites, Api::<Site>::all(client))
        .with_name("sites")
        .watches(&pages, Owners::of::<Site>(&()));
    Ok(controller.run(process.stop()).await?)
}

/// Two controllers with one finalizer in two namespaces, as the documentation of `k8s_controller`
/// runs them.
pub(crate) async fn two_namespaces(process: Process) -> Ended {
    let operator = Operator::new();
    for namespace in ["default", OTHER_NAMESPACE] {
        let client = process.client();
        let sites = Sites(Publish::new(&process, client.clone(), None));
        let sites = process.handler(namespace, sites);
        let api = Api::<Site>::namespaced(client.clone(), namespace);
        let controller = ApplyCleanupController::new(client, sites, api);
        operator.add_controller(controller.with_name(namespace))?;
    }
    Ok(operator.run_until(process.stop()).await?)
}
