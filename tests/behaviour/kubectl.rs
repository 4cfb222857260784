//! Commands of two minor versions of kubectl, with the same exit code and the same output on both
//! servers.
//!
//! The commands are in `kubectl/script.txt`, each with the exit code that it has on the real
//! server. kubectl is that of `tests/kubectl`, which `cargo xtask test` builds where Go is; its
//! path is in `WINDLASS_KUBECTL`, and that of the older one in `WINDLASS_KUBECTL_1_34`.

use crate::commands::{Program, Script};

/// The kubectl of the minor version of the embedded server.
pub(crate) const KUBECTL: Program = Program {
    name: "kubectl",
    variable: "WINDLASS_KUBECTL",
    sources: "tests/kubectl",
};

const SCRIPT: Script = Script {
    text: include_str!("kubectl/script.txt"),
    programs: &[KUBECTL],
    version: "1.36",
    folders: &[("kubectl", "")],
};

/// The same commands with a kubectl that is two minor versions older.
const OLDER: Script = Script {
    programs: &[Program {
        variable: "WINDLASS_KUBECTL_1_34",
        ..KUBECTL
    }],
    version: "1.34",
    ..SCRIPT
};

on_both_servers! {
    async fn kubectl_creates_objects(cluster: Cluster) {
        SCRIPT.check(&cluster, "create").await;
    }

    async fn kubectl_prints_objects(cluster: Cluster) {
        SCRIPT.check(&cluster, "get").await;
    }

    async fn kubectl_changes_objects(cluster: Cluster) {
        SCRIPT.check(&cluster, "change").await;
    }

    async fn kubectl_applies_manifests(cluster: Cluster) {
        SCRIPT.check(&cluster, "apply").await;
    }

    async fn kubectl_deletes_objects(cluster: Cluster) {
        SCRIPT.check(&cluster, "delete").await;
    }

    async fn kubectl_uses_pods_and_waits_for_them(cluster: Cluster) {
        SCRIPT.check(&cluster, "wait").await;
    }

    async fn kubectl_discovers_the_resources_of_the_server(cluster: Cluster) {
        SCRIPT.check(&cluster, "server").await;
    }

    async fn kubectl_works_with_custom_resources(cluster: Cluster) {
        SCRIPT.check(&cluster, "custom").await;
    }

    async fn an_older_kubectl_creates_objects(cluster: Cluster) {
        OLDER.check(&cluster, "create").await;
    }

    async fn an_older_kubectl_prints_objects(cluster: Cluster) {
        OLDER.check(&cluster, "get").await;
    }

    async fn an_older_kubectl_changes_objects(cluster: Cluster) {
        OLDER.check(&cluster, "change").await;
    }

    async fn an_older_kubectl_applies_manifests(cluster: Cluster) {
        OLDER.check(&cluster, "apply").await;
    }

    async fn an_older_kubectl_deletes_objects(cluster: Cluster) {
        OLDER.check(&cluster, "delete").await;
    }

    async fn an_older_kubectl_uses_pods_and_waits_for_them(cluster: Cluster) {
        OLDER.check(&cluster, "wait").await;
    }

    async fn an_older_kubectl_discovers_the_resources_of_the_server(cluster: Cluster) {
        OLDER.check(&cluster, "server").await;
    }

    async fn an_older_kubectl_works_with_custom_resources(cluster: Cluster) {
        OLDER.check(&cluster, "custom").await;
    }
}
