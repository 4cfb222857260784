//! The simulated operators: one for each way to use the framework, with an optional planted bug.

use windlass_controller::{FinalizerName, Finalizers, InformerController, Kind};
use windlass_informer::Informer;
use windlass_simulate::Process;

use crate::site::Site;

// What the operators share.
mod level;
mod publish;

// The operators, one file for each.
mod apply_cleanup;
mod composite;
mod dependents;
mod dynamic;
mod failing;
mod keyed;
mod leader;
mod mapped;
mod owned;
mod pages;
mod reconciler;
mod referred;
mod selected;
mod shared;
mod shared_child;
mod watcher;

pub(crate) use self::{
    apply_cleanup::{OTHER_NAMESPACE, apply_cleanup, two_namespaces},
    composite::{
        composite_handler, composites_of_two_namespaces, published, slow_composite_handler,
    },
    dependents::{dependents, each_parent_has_a_menu},
    dynamic::dynamic_kinds,
    failing::{BROKEN, always_failing},
    keyed::{keyed_resource, overloaded},
    leader::three_replicas,
    mapped::mapped,
    owned::{PARENT, each_site_has_its_children, owned_children},
    pages::pages,
    reconciler::{opinionated_reconciler, quickstart},
    referred::{each_site_shows_its_secret, referred_secret},
    selected::selected,
    shared::shared_informers,
    shared_child::{each_site_shows_the_others, shared_child},
    watcher::{opinionated_watcher, plain_watcher},
};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of an operator.
pub(crate) type Ended = Result<(), Error>;

/// A planted bug of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The clean-up fails if the external resource does not exist any more.
    CleanUpIsNotIdempotent,
    /// The clean-up of an object also deletes the child of a new object with the same name.
    DeletesByName,
    /// The finalizer is removed before the clean-up.
    FinalizerRemovedTooEarly,
    /// The operator writes back the spec that it read, which can be stale.
    WritesStaleSpec,
    /// A child with a generated name is created again after a restart.
    CreatesChildTwice,
    /// Errors of the API server are ignored.
    IgnoresErrors,
    /// Objects that existed before the start are ignored.
    IgnoresTheFirstList,
    /// Each call writes a new value.
    WritesEachTime,
    /// A task outlives the process.
    LeavesATask,
    /// The controller continues after the lease is lost.
    ContinuesAfterTheLease,
    /// Children are pruned before the desired ones are applied.
    PrunesFirst,
}

/// Creates a finalizer client for this operator.
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

/// A controller of sites, and their kind.
pub(crate) fn controller(process: &Process) -> Result<(InformerController, Kind<Site>), Error> {
    let controller = InformerController::builder().name("sites").build()?;
    let sites = controller.kind("sites")?;
    controller.add_informer(&sites, &informer(process))?;
    Ok((controller, sites))
}
