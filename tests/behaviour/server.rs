//! Behaviour tests of the API server by subject, and programs that use it: the embedded and the real one.
//!
//! Each test body takes a [`Cluster`](cluster::Cluster) and runs twice: as `embedded::...`
//! on a fresh server in the process, and as `kube_apiserver::...` in a fresh namespace of
//! the real one. Where there is no real one, the tests of the second half are ignored.

#[macro_use]
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod cluster;
mod commands;
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod connection;
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod kinds;
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod real;
#[path = "../support/trial.rs"]
mod trial;

mod api;
mod clients;
mod deploying;
mod helm;
mod kube_controllers;
mod kubectl;

fn main() {
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
        api::strict::trials(),
        api::subresources::trials(),
        api::suites::trials(),
        api::versions::trials(),
        api::watch_cache::trials(),
        api::watches::trials(),
        api::writes::trials(),
        api::yaml::trials(),
        clients::trials(),
        deploying::trials(),
        helm::trials(),
        kube_controllers::trials(),
        kubectl::trials(),
    ];
    trial::run_waiting(modules.into_iter().flatten().collect())
}
