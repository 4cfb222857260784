//! Behaviour tests by subject, on the embedded and the real server.
//!
//! Each test body takes a [`Cluster`](cluster::Cluster) and runs twice: as `embedded::...`
//! on a fresh server in the process, and as `kube_apiserver::...` in a fresh namespace of
//! the real one. Where there is no real one, the tests of the second half are ignored.

#[macro_use]
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod cluster;
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod connection;
mod kinds;
mod queue;
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod real;
mod running;
#[path = "../support/trial.rs"]
mod trial;
mod watched;

mod apply_cleanup;
mod children;
mod composite;
mod controller;
mod database;
mod definitions;
mod diagnostics;
mod finalizer;
mod helpers;
mod history;
mod keyed;
mod kit;
mod leader;
mod level;
mod listing;
mod mapping;
mod objects;
mod opinionated;
mod raw_objects;
mod selector;
mod sharding;
mod stored_json;
mod unusual;
mod webhooks;

fn main() {
    // The compiler reports a module that is not listed: its function is never used.
    let modules = [
        apply_cleanup::trials(),
        children::trials(),
        composite::calls::trials(),
        composite::children::trials(),
        composite::clean_up::trials(),
        composite::earlier::trials(),
        composite::status::trials(),
        controller::trials(),
        database::trials(),
        definitions::trials(),
        diagnostics::trials(),
        finalizer::trials(),
        helpers::trials(),
        history::trials(),
        keyed::trials(),
        kit::trials(),
        leader::trials(),
        level::trials(),
        level::bulk::trials(),
        level::children::trials(),
        level::claim_calls::trials(),
        level::claims::trials(),
        level::context::trials(),
        level::dependent_clean_up::trials(),
        level::dependent_secrets::trials(),
        level::dependents::trials(),
        level::finalizer::trials(),
        level::memo::trials(),
        level::missing::trials(),
        level::overrides::trials(),
        level::paused::trials(),
        level::rolling::trials(),
        level::selecting::trials(),
        level::visible::trials(),
        listing::trials(),
        mapping::trials(),
        objects::trials(),
        opinionated::downtime::trials(),
        opinionated::life::trials(),
        opinionated::others::trials(),
        raw_objects::trials(),
        selector::trials(),
        sharding::trials(),
        stored_json::trials(),
        unusual::trials(),
        webhooks::trials_of_all(),
    ];
    trial::run_waiting(modules.into_iter().flatten().collect())
}
