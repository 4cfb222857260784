//! A reconciler of the sites that match a label selector in one namespace.

use kube::Api;
use windlass_controller::{InformerController, OnSelectorExit, OpinionatedReconciler};
use windlass_informer::{Informer, ListWatch};
use windlass_simulate::Process;

use super::{Ended, finalizers, publish::Publish};
use crate::site::{NAMESPACE, Site};

/// Writes a host name, a config map and a status for each site with the label `team=web`.
pub(crate) async fn selected(process: Process) -> Ended {
    let sites = Api::<Site>::namespaced(process.client(), NAMESPACE);
    let sites = Informer::new(ListWatch::new(sites).labels("team=web")?);
    process.observe(&sites);
    let controller = InformerController::builder().name("selected").build()?;
    let sites_kind = controller.kind("sites")?;
    controller.add_informer(&sites_kind, &sites)?;
    let publish = Publish::new(&process, process.client(), None);
    let publish = process.handler("publish", publish);
    let publish = OpinionatedReconciler::new(finalizers(&process, "selected"), publish)
        .on_selector_exit(OnSelectorExit::CleanUp);
    controller.add_reconciler(&sites_kind, publish)?;
    Ok(controller.run(process.stop()).await?)
}
