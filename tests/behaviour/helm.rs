//! Commands of Helm with its defaults, with the same exit code and the same output on both
//! servers.
//!
//! The commands are in `helm/script.txt`, and `helm/chart` is the chart. `helm/changed` has the
//! files of its next version that differ. Commands of kubectl print the objects that Helm wrote.
//! Helm is that of `tests/helm`, which `cargo xtask test` builds where Go is; its path is in
//! `WINDLASS_HELM`.

use crate::{
    commands::{Program, Script},
    kubectl::KUBECTL,
};

const SCRIPT: Script = Script {
    text: include_str!("helm/script.txt"),
    programs: &[
        Program {
            name: "helm",
            variable: "WINDLASS_HELM",
            sources: "tests/helm",
        },
        KUBECTL,
    ],
    version: "4",
    folders: &[
        ("helm", ""),
        ("helm/chart", "changed"),
        ("helm/changed", "changed"),
    ],
};

on_both_servers! {
    async fn helm_installs_and_uninstalls_a_chart(cluster: Cluster) {
        SCRIPT.check(&cluster, "install").await;
    }

    async fn helm_upgrades_a_release_and_rolls_it_back(cluster: Cluster) {
        SCRIPT.check(&cluster, "upgrade").await;
    }

    async fn helm_replaces_client_side_apply_by_server_side_apply(cluster: Cluster) {
        SCRIPT.check(&cluster, "clientside").await;
    }

    async fn helm_reports_conflicts_with_other_managers(cluster: Cluster) {
        SCRIPT.check(&cluster, "conflicts").await;
    }

    async fn helm_waits_for_objects(cluster: Cluster) {
        SCRIPT.check(&cluster, "wait").await;
    }
}
