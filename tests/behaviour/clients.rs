//! Clients of other projects in Go, Python, JavaScript and Java, with their defaults.
//!
//! They are in `tests/go-clients`, `tests/python-clients`, `tests/node-clients` and
//! `tests/java-clients`. `cargo xtask test` builds them, or installs their packages, where the
//! languages are installed; `WINDLASS_GO_CLIENTS`, `WINDLASS_PYTHON`, `WINDLASS_NODE_CLIENTS` and
//! `WINDLASS_JAVA_CLIENTS` name what to run.

use std::{ffi::OsString, path::Path, process::Stdio};

use tokio::process::Command;

use crate::{cluster::Cluster, trial::ignore};

on_both_servers! {
    /// docs/apiserver.md: row 21.
    async fn client_go_and_controller_runtime_work_with_their_defaults(cluster: Cluster) {
        let mut command = Command::new(required("WINDLASS_GO_CLIENTS"));
        command.arg("clients");
        run(command, &cluster).await;
    }

    /// docs/apiserver.md: row 21.
    async fn the_python_client_works_with_its_defaults(cluster: Cluster) {
        run(python("official.py"), &cluster).await;
    }

    /// docs/apiserver.md: row 21.
    async fn an_operator_of_kopf_works_with_its_defaults(cluster: Cluster) {
        run(python("kopf_operator.py"), &cluster).await;
    }

    /// docs/apiserver.md: row 21.
    async fn the_javascript_client_works_with_its_defaults(cluster: Cluster) {
        let mut command = Command::new("node");
        command.arg(required("WINDLASS_NODE_CLIENTS"));
        run(command, &cluster).await;
    }

    async fn the_fabric8_client_works_with_both_transports(cluster: Cluster) {
        let folder = required("WINDLASS_JAVA_CLIENTS");
        let folder = Path::new(&folder);
        let path = std::env::join_paths([folder.join("classes"), folder.join("lib/*")]);
        let mut command = Command::new("java");
        // The optimizing compiler takes more time than it saves in a program of seconds.
        command.arg("-XX:TieredStopAtLevel=1");
        command.arg("-cp").arg(path.expect("a path")).arg("Clients");
        run(command, &cluster).await;
    }
}

/// What `variable` names; without it, the test ends as ignored.
fn required(variable: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| {
        ignore(format!(
            "{variable} names no client: run `cargo xtask test` where its language is installed"
        ))
    })
}

fn python(script: &str) -> Command {
    let mut command = Command::new(required("WINDLASS_PYTHON"));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python-clients");
    command.arg(format!("{folder}/{script}"));
    command
}

/// Runs a client in the namespace of the test.
async fn run(mut command: Command, cluster: &Cluster) {
    let (kubeconfig, _listening) = cluster.kubeconfig().await;
    let namespace = cluster.namespace();
    let file = std::env::temp_dir().join(format!("windlass-{namespace}.kubeconfig"));
    tokio::fs::write(&file, kubeconfig).await.expect("a file");
    let output = command
        .arg(&file)
        .arg(namespace)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the variable names a program");
    tokio::fs::remove_file(&file).await.expect("our own file");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
