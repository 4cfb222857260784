//! The operators: one for each way to use the framework.

use windlass_controller::{FinalizerName, Finalizers, InformerController};
use windlass_informer::Informer;
use windlass_simulate::Process;

use crate::site::Site;

mod reconciler;

pub(crate) use self::reconciler::{Variant, opinionated_reconciler};

/// How an operator ends.
pub(crate) type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The finalizer of the operators.
pub(crate) const FINALIZER: &str = "simulate.windlass.dev/publisher";

pub(crate) fn finalizers(process: &Process) -> Finalizers<Site> {
    let name = FinalizerName::new(FINALIZER).expect("a good name");
    Finalizers::new(process.client(), name).expect("a good finalizer")
}

/// A controller with an observed informer of sites.
pub(crate) fn sites(process: &Process) -> Result<InformerController, Box<dyn std::error::Error + Send + Sync>> {
    let sites = Informer::new(kube::Api::<Site>::all(process.client()));
    process.observe(&sites);
    let controller = InformerController::builder().name("sites").build()?;
    controller.add_informer("sites", &sites)?;
    Ok(controller)
}
