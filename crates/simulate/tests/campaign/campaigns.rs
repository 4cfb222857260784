//! One campaign for each operator: a simulation with every fault, which the operator must survive.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use std::time::Duration;
use windlass_simulate::{Fault, Process, Simulation, Step};

use crate::{
    operators::{self, Ended},
    site::{self, NAMESPACE},
};

/// Runs a campaign, with the number of runs that `cargo xtask sim` sets, or else few.
#[track_caller]
fn passes(simulation: Simulation) {
    match simulation.single_faults(40).fault_pairs(20).seeds(50).run() {
        Ok(summary) => {
            println!("{summary}");
            assert!(summary.masked.is_empty(), "{:?}", summary.masked);
        }
        Err(failure) => panic!("{failure}"),
    }
}

pub(crate) fn of_sites<Fut>(name: &str, operator: fn(Process) -> Fut) -> Simulation
where
    Fut: Future<Output = Ended> + Send + 'static,
{
    site::with_steps(Simulation::new(name, operator))
}

/// A simulation with three replicas. Each reads the lease every few seconds, so shorter times keep
/// the number of requests low.
pub(crate) fn of_replicas<F, Fut>(name: &str, operator: F) -> Simulation
where
    F: Fn(Process) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
{
    site::with_few_steps(Simulation::new(name, operator))
        .replicas(3)
        .pace(Duration::from_secs(15))
        // Recovery from a hanging call takes longer than this. Other campaigns inject this fault.
        .without_faults([Fault::HandlerHangs])
        .recovery(Duration::from_secs(400))
        .stay(Duration::from_secs(60))
}

#[test]
fn plain_watcher() {
    // Without a finalizer, it cannot detect deletes that happen while it does not run.
    let simulation = of_sites("plain watcher", |process| {
        operators::plain_watcher(process, None)
    });
    let blind = [Fault::CrashBefore, Fault::CrashAfter, Fault::Restart];
    passes(simulation.without_faults(blind));
}

#[test]
fn opinionated_watcher() {
    passes(of_sites("opinionated watcher", |process| {
        operators::opinionated_watcher(process, None)
    }));
}

#[test]
fn opinionated_reconciler() {
    passes(of_sites("opinionated reconciler", |process| {
        operators::opinionated_reconciler(process, None)
    }));
}

#[test]
fn quickstart() {
    // The content of a page must not be logged.
    passes(of_sites("quickstart", operators::quickstart).secret("hello again"));
}

#[test]
fn mapped() {
    let config = |name: &str, page: &str| {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(name.to_owned());
        config.metadata.namespace = Some(NAMESPACE.to_owned());
        config.data = Some([("page".to_owned(), page.to_owned())].into());
        Step::create(&config)
    };
    let page = |page: &str| json!({ "data": { "page": page } });
    let simulation = Simulation::new("mapped", operators::mapped)
        .object(&site::definition())
        .step(config("blog", "one"))
        .step(Step::create(&site::site("blog", "-")))
        .step(Step::create(&site::site("shop", "-")))
        .step(Step::merge::<ConfigMap>(NAMESPACE, "blog", page("two")))
        .step(config("shop", "three"))
        .step(Step::delete::<ConfigMap>(NAMESPACE, "blog"))
        .step(Step::merge::<ConfigMap>(NAMESPACE, "shop", page("four")))
        .step(config("blog", "five"));
    passes(simulation);
}

#[test]
fn shared_informers() {
    passes(of_sites("shared informers", operators::shared_informers));
}

#[test]
fn selected() {
    let mut other = site::site("other", "of another team");
    other.metadata.labels = None;
    passes(of_sites("selected", operators::selected).step(Step::create(&other)));
}

#[test]
fn dynamic_kinds() {
    passes(of_sites("dynamic kinds", operators::dynamic_kinds));
}

#[test]
fn three_replicas() {
    let operator = |process| operators::three_replicas(process, None);
    passes(of_replicas("three replicas", operator));
}
