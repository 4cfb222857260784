//! The test kit on a cluster.

use std::time::Duration;

use kube::Client;
use windlass::kit::Kit;

use crate::cluster::Cluster;

#[path = "../support/website.rs"]
mod website;

on_both_servers! {
    /// Rows: RO-35
    async fn a_test_of_the_kit_runs_on_a_cluster(cluster: Cluster) {
        on_one_thread(&cluster, website::keeps_its_deployment);
    }

    /// Rows: BO-13
    async fn fields_that_the_server_stores_in_another_form_cause_no_write(cluster: Cluster) {
        on_one_thread(&cluster, async |kit| Box::pin(website::stays_quiet(kit, Duration::ZERO)).await);
    }
}

/// Runs a test of the kit on a runtime of this thread: the kit records the calls of its thread.
fn on_one_thread(cluster: &Cluster, test: impl AsyncFnOnce(Kit)) {
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let client = cluster.client().await;
            let service = tower::service_fn(move |request| {
                let client = client.clone();
                async move { client.send(request).await }
            });
            // Names without a namespace are in that of the client.
            test(Kit::connect(Client::new(service, cluster.namespace()))).await;
        });
    });
}
