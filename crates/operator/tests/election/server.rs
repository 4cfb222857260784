//! An API server and its lease.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    client::Body,
};
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;
use windlass_operator::{LeaderElection, LeaderElectionBuilder};

pub(crate) const NAME: &str = "web";

pub(crate) const MASTER: &str = "leader_election_master_status{name=\"web\"}";

pub(crate) fn election(server: &ApiServer, identity: &str) -> LeaderElection {
    builder(server.client(), identity)
        .build()
        .expect("valid settings")
}

pub(crate) fn builder(client: Client, identity: &str) -> LeaderElectionBuilder {
    LeaderElection::builder(client, "default", NAME)
        .identity(identity)
        .seed(7)
}

/// A client, and a switch that makes its requests hang.
pub(crate) fn cut(server: &ApiServer) -> (Client, Arc<AtomicBool>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let (service, cut) = (server.service(), Arc::clone(&is_cut));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (answer, cut) = (service.clone().oneshot(request), Arc::clone(&cut));
        async move {
            if cut.load(Ordering::SeqCst) {
                pending::<()>().await;
            }
            answer.await
        }
    });
    (Client::new(service, "default"), is_cut)
}

pub(crate) fn leases(server: &ApiServer) -> Api<Lease> {
    Api::namespaced(server.client(), "default")
}

pub(crate) async fn lease(server: &ApiServer) -> Lease {
    leases(server).get(NAME).await.expect("the object exists")
}

/// Writes another holder into the lease.
pub(crate) async fn set(leases: &Api<Lease>, holder: &str) {
    let patch = serde_json::json!({ "spec": { "holderIdentity": holder } });
    let patched = leases
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("the object exists");
}
