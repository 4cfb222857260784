//! One campaign for each operator: a simulation with every fault, which the operator must survive.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use serde_json::json;
use std::time::Duration;
use windlass_simulate::{Fault, Process, Simulation, Step};

use crate::{
    operators::{self, Ended},
    site::{self, NAMESPACE, Site},
};

mod composite;

/// Runs a campaign, with the number of runs that `cargo xtask sim` sets, or else few.
#[track_caller]
fn passes(simulation: Simulation) {
    passes_all(&simulation.single_faults(12).fault_pairs(6));
}

/// Runs a campaign with a number of random combinations of faults, and with few single faults.
#[track_caller]
fn passes_random(simulation: Simulation, seeds: u64) {
    passes_all(&simulation.seeds(seeds).single_faults(5).fault_pairs(5));
}

#[track_caller]
fn passes_all(simulation: &Simulation) {
    is_repeatable(simulation);
    match simulation.run() {
        Ok(summary) => {
            println!("{summary}");
            assert!(summary.masked.is_empty(), "{:?}", summary.masked);
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// The same plans have the same traces again. A trace contains each request, event and call.
#[track_caller]
fn is_repeatable(simulation: &Simulation) {
    for plan in [
        "1:",
        "2: crash-after@12, gap@40",
        "3: restart@20, lost-reply@30",
    ] {
        let plan = plan.parse().expect("a plan");
        let traces = [simulation.trace(&plan), simulation.trace(&plan)].map(|it| it.to_string());
        let [first, second] = &traces;
        let mut lines = first.lines().zip(second.lines()).enumerate();
        if let Some((at, (line, other))) = lines.find(|(_, (line, other))| line != other) {
            panic!("line {at} of plan {plan} is {line:?}, and again {other:?}");
        }
        assert_eq!(first.len(), second.len(), "plan {plan}");
    }
}

pub(crate) fn of_sites<Fut>(name: &str, operator: fn(Process) -> Fut) -> Simulation
where
    Fut: Future<Output = Ended> + Send + 'static,
{
    site::with_steps(Simulation::new(name, operator)).seeds(15)
}

/// A simulation with three replicas. Each reads the lease every few seconds, so shorter times keep
/// the number of requests low.
pub(crate) fn of_replicas<F, Fut>(name: &str, operator: F) -> Simulation
where
    F: Fn(Process) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
{
    site::with_few_steps(Simulation::new(name, operator))
        .seeds(15)
        .replicas(3)
        .pace(Duration::from_secs(15))
        // Recovery from a hanging call takes longer than this. Other campaigns inject this fault.
        .without_faults([Fault::HandlerHangs])
        .recovery(Duration::from_secs(400))
        .stay(Duration::from_secs(60))
}

fn namespace(name: &str) -> Namespace {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespace
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
        .seeds(15)
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

/// Another client also changes and deletes a child, a menu is deleted and created again, and a site
/// owns another site.
#[test]
fn owned_children() {
    let edited = json!({ "data": { "page": "by hand" } });
    let page = |name: &str, page: &str| {
        Step::merge::<Site>(NAMESPACE, name, json!({ "spec": { "page": page } }))
    };
    let mut other = site::site("blog", "elsewhere");
    other.metadata.namespace = Some(operators::OTHER_NAMESPACE.to_owned());
    other.spec.host = "other.example".to_owned();
    let simulation = Simulation::new("owned children", |it| operators::owned_children(it, None))
        .object(&namespace(operators::OTHER_NAMESPACE))
        .object(&site::definition())
        .step(Step::create(&site::site("blog", "hello")))
        .step(Step::create(&site::site("group", operators::PARENT)))
        .step(Step::create(&site::site("short-lived", "page")))
        .step(Step::merge::<ConfigMap>(NAMESPACE, "blog", edited))
        .step(page("blog", "short"))
        .step(page("group", "parent again"))
        .step(page("blog", "goodbye"))
        .step(Step::create(&other))
        .step(Step::delete::<Site>(NAMESPACE, "short-lived"))
        .step(Step::delete::<ConfigMap>(NAMESPACE, "blog-menu"))
        .step(page("blog", "the end"))
        .oracle(
            "each_site_has_its_children",
            operators::each_site_has_its_children,
        );
    passes_random(with_models_oracles(simulation), 100);
}

/// A site becomes a parent, and then none any more. Another client changes and deletes dependents.
///
/// Rows: BO-38, BO-41
#[test]
fn dependents() {
    let page = |name: &str, page: &str| {
        Step::merge::<Site>(NAMESPACE, name, json!({ "spec": { "page": page } }))
    };
    let edited = json!({ "data": { "entries": "by hand" } });
    let simulation = Simulation::new("dependents", operators::dependents)
        .object(&site::definition())
        .step(Step::create(&site::site("blog", "hello")))
        .step(Step::create(&site::site("group", operators::PARENT)))
        .step(Step::create(&site::site("short-lived", operators::PARENT)))
        .step(page("blog", "parent of one"))
        .step(page("group", "parent again"))
        .step(Step::merge::<ConfigMap>(NAMESPACE, "group-menu", edited))
        .step(page("blog", "alone"))
        .step(Step::delete::<Site>(NAMESPACE, "group-part"))
        .step(Step::delete::<Site>(NAMESPACE, "short-lived"))
        .step(page("blog", "parent of two"))
        .oracle("each_parent_has_a_menu", operators::each_parent_has_a_menu);
    let simulation = with_models_oracles(simulation).seeds(40);
    let simulation = simulation.single_faults(5).fault_pairs(5);
    is_repeatable(&simulation);
    let summary = simulation
        .run()
        .unwrap_or_else(|failure| panic!("{failure}"));
    println!("{summary}");
    // The digest of a desired child contains the uid of its parent.
    let is_digest = |it: &String| it.ends_with("windlass.dev/applied");
    assert!(summary.masked.iter().all(is_digest), "{:?}", summary.masked);
}

/// The secret is created later, changed, and recreated, and the site names another one.
#[test]
fn referred_secret() {
    let secret = |name: &str, page: &str| {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.to_owned());
        secret.metadata.namespace = Some(NAMESPACE.to_owned());
        secret.string_data = Some([("page".to_owned(), page.to_owned())].into());
        Step::create(&secret)
    };
    let change = |name: &str, page: &str| {
        Step::merge::<Secret>(NAMESPACE, name, json!({ "stringData": { "page": page } }))
    };
    let point =
        |page: &str| Step::merge::<Site>(NAMESPACE, "blog", json!({ "spec": { "page": page } }));
    let simulation = Simulation::new("referred secret", operators::referred_secret)
        .object(&site::definition())
        .step(Step::create(&site::site("blog", "one")))
        .step(Step::create(&site::site("shop", "two")))
        .step(secret("one", "hello"))
        .step(change("one", "hello again"))
        .step(point("two"))
        .step(secret("two", "buy"))
        .step(change("one", "not shown"))
        .step(Step::delete::<Secret>(NAMESPACE, "two"))
        .step(secret("two", "sold"))
        .oracle(
            "each_site_shows_its_secret",
            operators::each_site_shows_its_secret,
        );
    passes_random(simulation, 100);
}

/// Sites write one config map, and each shows what the others have written.
#[test]
fn shared_child() {
    let page = |name: &str, page: &str| {
        Step::merge::<Site>(NAMESPACE, name, json!({ "spec": { "page": page } }))
    };
    let note = json!({ "metadata": { "annotations": { "note": "read again" } } });
    let simulation = Simulation::new("shared child", operators::shared_child)
        .object(&site::definition())
        .step(Step::create(&site::site("blog", "one")))
        .step(Step::create(&site::site("shop", "two")))
        .step(Step::create(&site::site("wiki", "three")))
        .step(Step::create(&site::site("short-lived", "short")))
        .step(page("blog", "four"))
        .step(Step::delete::<Site>(NAMESPACE, "short-lived"))
        .step(page("wiki", "five"))
        .step(page("shop", "six"))
        .step(page("blog", "seven"))
        // A call that changes nothing in the menu.
        .step(Step::merge::<Site>(NAMESPACE, "wiki", note))
        // Writes of the users meet calls in progress.
        .pace(Duration::from_millis(15))
        .oracle(
            "each_site_shows_the_others",
            operators::each_site_shows_the_others,
        );
    passes_random(simulation, 100);
}

/// Two sites fail in each call, and a third one for some time.
#[test]
fn always_failing() {
    let page = |page: &str| json!({ "spec": { "page": page } });
    let simulation = Simulation::new("always failing", operators::always_failing)
        .object(&site::definition())
        .step(Step::create(&site::site("blog", "hello")))
        .step(Step::create(&site::site("shop", operators::BROKEN)))
        .step(Step::create(&site::site("stuck", operators::BROKEN)))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page(operators::BROKEN)))
        .step(Step::merge::<Site>(NAMESPACE, "blog", page("goodbye")))
        // Each call changes them.
        .ignore("serviceaccounts");
    passes_random(simulation, 100);
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

/// No call breaks its contract, and no object is left in deletion.
fn with_models_oracles(simulation: Simulation) -> Simulation {
    let simulation = simulation.oracle("no_object_stays_in_deletion", |end| {
        let is_marked =
            |site: &&serde_json::Value| !site["metadata"]["deletionTimestamp"].is_null();
        match end.objects("sites.simulate.windlass.dev").find(is_marked) {
            None => Ok(()),
            Some(site) => Err(format!("{} is left", site["metadata"]["name"])),
        }
    });
    simulation.oracle("no_call_breaks_its_contract", |end| {
        let mut names = end.external().keys();
        match names.find(|it| it.starts_with("violation")) {
            None => Ok(()),
            Some(violation) => Err(violation.clone()),
        }
    })
}

#[test]
fn apply_cleanup() {
    let simulation = of_sites("apply cleanup", |it| operators::apply_cleanup(it, None));
    passes(with_models_oracles(simulation).seeds(100));
}

#[test]
fn two_namespaces() {
    let mut other = site::site("blog", "elsewhere");
    other.metadata.namespace = Some(operators::OTHER_NAMESPACE.to_owned());
    other.spec.host = "other.example".to_owned();
    let simulation = Simulation::new("two namespaces", operators::two_namespaces)
        .object(&namespace(operators::OTHER_NAMESPACE))
        .object(&site::definition())
        .step(Step::create(&site::site("blog", "here")))
        .step(Step::create(&other))
        .step(Step::delete::<site::Site>(NAMESPACE, "blog"))
        // The two controllers do not wait for each other.
        .without_oracle("calls_begin_after_the_first_lists");
    passes(with_models_oracles(simulation).seeds(100));
}

#[test]
fn keyed_resource() {
    let page = |page: &str| json!({ "spec": { "page": page } });
    // Deleted, recreated and deleted while other calls are in progress.
    let simulation = of_sites("keyed resource", operators::keyed_resource)
        .step(Step::merge::<site::Site>(NAMESPACE, "blog", page("busy")))
        .step(Step::delete::<site::Site>(NAMESPACE, "shop"))
        .step(Step::create(&site::site("shop", "again")))
        .step(Step::delete::<site::Site>(NAMESPACE, "shop"))
        .pace(Duration::from_secs(1));
    // Its runs are slow: a resource that gave up waits for the next resync.
    let simulation = with_models_oracles(simulation).single_faults(12);
    is_repeatable(&simulation);
    match simulation.fault_pairs(4).seeds(12).run() {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn overloaded() {
    let sites = (0..26).map(|number| Step::create(&site::site(&format!("s{number}"), "-")));
    let simulation = Simulation::new("overloaded", operators::overloaded)
        .object(&site::definition())
        .steps(sites)
        .step(Step::delete::<site::Site>(NAMESPACE, "s1"))
        .pace(Duration::from_millis(1))
        // A delete while it does not run is not seen.
        .without_faults([Fault::CrashBefore, Fault::CrashAfter, Fault::Restart]);
    // Its runs are slow: it has many objects.
    let simulation = with_models_oracles(simulation).single_faults(10);
    is_repeatable(&simulation);
    match simulation.fault_pairs(0).seeds(10).run() {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn three_replicas() {
    let operator = |process| operators::three_replicas(process, None);
    passes(of_replicas("three replicas", operator));
}

/// It ends and is started again, as by its Deployment.
#[test]
fn a_single_replica_loses_its_lease() {
    let operator = |process| operators::three_replicas(process, None);
    let simulation = of_replicas("a single replica", operator).replicas(1);
    passes(simulation.faults([Fault::LeaseStolen]));
}
