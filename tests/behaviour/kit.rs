//! The test kit on a cluster.

use std::time::Duration;

use kube::Client;
use windlass::kit::Kit;
use windlass_apiserver::ApiServer;

use crate::cluster::{Cluster, create_namespace};

#[path = "../support/website.rs"]
mod website;

on_both_servers! {
    /// Rows: RO-35
    async fn a_test_of_the_kit_runs_on_a_cluster(cluster: Cluster) {
        on_one_thread(&cluster, website::keeps_its_deployment);
    }

    async fn an_operator_has_the_permissions_of_its_service_account(cluster: Cluster) {
        on_one_thread(&cluster, async |kit| {
            Box::pin(website::has_the_permissions_of_its_roles(kit)).await;
        });
    }

    async fn a_snapshot_is_the_same_in_each_execution(cluster: Cluster) {
        on_one_thread(&cluster, async |kit| {
            Box::pin(website::has_the_same_snapshot_again(kit)).await;
        });
    }

    async fn the_kit_plays_the_controllers_of_the_built_in_kinds(cluster: Cluster) {
        on_one_thread(&cluster, async |kit| Box::pin(website::plays_the_controllers(kit)).await);
    }

    /// Rows: BO-13
    async fn fields_that_the_server_stores_in_another_form_cause_no_write(cluster: Cluster) {
        on_one_thread(&cluster, async |kit| Box::pin(website::stays_quiet(kit, Duration::ZERO)).await);
    }
}

/// A client of a server whose roles decide, as those of a cluster do.
async fn with_roles(namespace: &str) -> Client {
    let client = ApiServer::builder().rbac(true).start().client();
    create_namespace(client.clone(), namespace).await;
    client
}

/// Runs a test of the kit on a runtime of this thread: the kit records the calls of its thread.
fn on_one_thread(cluster: &Cluster, test: impl AsyncFnOnce(Kit)) {
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let client = if cluster.is_embedded() {
                with_roles(cluster.namespace()).await
            } else {
                cluster.client().await
            };
            let service = tower::service_fn(move |request| {
                let client = client.clone();
                async move { client.send(request).await }
            });
            // Names without a namespace are in that of the client.
            test(Kit::connect(Client::new(service, cluster.namespace()))).await;
        });
    });
}
