//! Behaviour tests by subject, on the embedded and the real server.
//!
//! Each test body takes a [`Cluster`](cluster::Cluster) and runs twice: as `embedded::...`
//! on a fresh server in the process, and as `kube_apiserver::...` in a fresh namespace of
//! the real one. Where there is no real one, the tests of the second half are ignored.

#[macro_use]
mod cluster;
mod commands;
mod connection;
mod kinds;
mod real;
mod running;
#[path = "../support/trial.rs"]
mod trial;
mod watched;

mod api;
mod apply_cleanup;
mod children;
mod clients;
mod composite;
mod controller;
mod database;
mod deploying;
mod finalizer;
#[allow(
    clippy::default_trait_access,
    clippy::large_futures,
    clippy::needless_pass_by_value,
    reason = "programs as users write them"
)]
mod forms;
mod helm;
mod helpers;
mod history;
mod keyed;
mod kit;
mod kube_controllers;
mod kubectl;
mod leader;
mod level;
mod listing;
mod mapping;
#[allow(
    clippy::default_trait_access,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::match_same_arms,
    clippy::needless_pass_by_value,
    clippy::arc_with_non_send_sync,
    clippy::similar_names,
    reason = "programs as users of kube-rs write them; their channels and futures are small"
)]
mod moved;
mod objects;
mod opinionated;
mod raw_objects;
#[allow(
    clippy::default_trait_access,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::match_same_arms,
    clippy::needless_pass_by_value,
    clippy::arc_with_non_send_sync,
    clippy::similar_names,
    reason = "programs as users of kube-rs write them; their channels and futures are small"
)]
mod runtime;
mod selector;
mod stored_json;
mod unusual;

fn main() {
    #[cfg(unix)]
    if runtime::signals::is_operator() {
        return runtime::signals::operate();
    }
    // The compiler reports a module that is not listed: its function is never used.
    let modules = [
        api::admission::trials(),
        api::admission::trials_with_accounts().into(),
        api::apply::trials(),
        api::apply::random::trials(),
        api::autoscalers::trials(),
        api::builtin::trials(),
        api::cluster_objects::trials(),
        api::definitions::trials(),
        api::deletions::trials(),
        api::discovery::trials(),
        api::documents::trials(),
        api::garbage::trials(),
        api::garbage::random::trials(),
        api::impersonation::trials(),
        api::kinds::trials(),
        api::kinds::requests::trials(),
        api::kinds::sequences::trials(),
        api::kinds::statuses::trials(),
        api::kinds::warnings::trials(),
        api::kinds::tables::trials(),
        api::lists::trials(),
        api::metadata::trials(),
        api::namespaces::trials(),
        api::openapi::trials(),
        api::options::trials(),
        api::protobuf::trials(),
        api::requests::trials(),
        api::resources::trials(),
        api::roles::trials(),
        api::scales::trials(),
        api::schema::trials(),
        api::selectors::trials(),
        api::servers::trials(),
        api::sizes::trials(),
        api::statuses::trials(),
        api::subresources::trials(),
        api::suites::trials(),
        api::versions::trials(),
        api::watch_cache::trials(),
        api::watches::trials(),
        api::writes::trials(),
        api::yaml::trials(),
        apply_cleanup::trials(),
        children::trials(),
        clients::trials(),
        composite::trials(),
        controller::trials(),
        database::trials(),
        deploying::trials(),
        finalizer::trials(),
        forms::trials(),
        helm::trials(),
        helpers::trials(),
        history::trials(),
        keyed::trials(),
        kit::trials(),
        kube_controllers::trials(),
        kubectl::trials(),
        leader::trials(),
        level::trials(),
        level::children::trials(),
        level::context::trials(),
        level::missing::trials(),
        level::paused::trials(),
        level::visible::trials(),
        listing::trials(),
        mapping::trials(),
        moved::trials(),
        objects::trials(),
        opinionated::downtime::trials(),
        opinionated::life::trials(),
        opinionated::others::trials(),
        raw_objects::trials(),
        runtime::calls::trials(),
        runtime::dynamic::trials(),
        runtime::gaps::trials(),
        runtime::secondaries::trials(),
        runtime::shutdown::trials(),
        #[cfg(unix)]
        runtime::signals::trials(),
        runtime::triggers::trials(),
        selector::trials(),
        stored_json::trials(),
        unusual::trials(),
    ];
    trial::run(modules.into_iter().flatten().collect())
}
