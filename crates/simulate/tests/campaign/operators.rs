//! The operators: one for each way to use the framework, with and without a deliberate bug.

use windlass_controller::{FinalizerName, Finalizers, InformerController};
use windlass_informer::Informer;
use windlass_simulate::Process;

use crate::site::Site;

// What they do for a site.
mod publish;

// One file for each.
mod dynamic;
mod leader;
mod mapped;
mod pages;
mod reconciler;
mod selected;
mod shared;
mod watcher;

pub(crate) use self::{
    dynamic::dynamic_kinds,
    leader::three_replicas,
    mapped::mapped,
    pages::pages,
    reconciler::{opinionated_reconciler, quickstart},
    selected::selected,
    shared::shared_informers,
    watcher::{opinionated_watcher, plain_watcher},
};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// How an operator ends.
pub(crate) type Ended = Result<(), Error>;

/// A deliberate bug of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The clean-up fails if the external resource is gone already.
    CleanUpIsNotIdempotent,
    /// The clean-up of an object deletes the child of its successor.
    DeletesByName,
    /// The finalizer is removed before the clean-up.
    FinalizerRemovedTooEarly,
    /// The spec is written back as it was read.
    WritesStaleSpec,
    /// A child with a generated name is created again after a restart.
    CreatesChildTwice,
    /// Errors of the API server are ignored.
    IgnoresErrors,
    /// What was there before the start is ignored.
    IgnoresTheFirstList,
    /// Each call writes something new.
    WritesEachTime,
    /// A task outlives the process.
    LeavesATask,
    /// The controller goes on after the lease is lost.
    GoesOnAfterTheLease,
}

/// A finalizer of this operator.
pub(crate) fn finalizers(process: &Process, name: &str) -> Finalizers<Site> {
    let name = FinalizerName::new(format!("simulate.windlass.dev/{name}")).expect("a good name");
    Finalizers::new(process.client(), name).expect("a good finalizer")
}

/// An informer of sites, checked at the end.
pub(crate) fn informer(process: &Process) -> Informer<Site> {
    let sites = Informer::new(kube::Api::<Site>::all(process.client()));
    process.observe(&sites);
    sites
}

/// A controller of sites.
pub(crate) fn controller(process: &Process) -> Result<InformerController, Error> {
    let controller = InformerController::builder().name("sites").build()?;
    controller.add_informer("sites", &informer(process))?;
    Ok(controller)
}
