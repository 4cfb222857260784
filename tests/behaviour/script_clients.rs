//! Clients of other people in Python and JavaScript, with their defaults.
//!
//! They are in `tests/python-clients` and `tests/node-clients`. `cargo xtask test` installs their
//! packages where the interpreters are; `WINDLASS_PYTHON` and `WINDLASS_NODE_CLIENTS` name what to
//! run.

use std::process::Stdio;

use tokio::process::Command;

use crate::cluster::Cluster;

on_both_servers! {
    /// docs/apiserver.md: row 21.
    async fn the_python_client_works_with_its_defaults(cluster: Cluster) {
        if let Some(command) = python("official.py") {
            run(command, &cluster).await;
        }
    }

    /// docs/apiserver.md: row 21.
    async fn an_operator_of_kopf_works_with_its_defaults(cluster: Cluster) {
        if let Some(command) = python("kopf_operator.py") {
            run(command, &cluster).await;
        }
    }

    /// docs/apiserver.md: row 21.
    async fn the_javascript_client_works_with_its_defaults(cluster: Cluster) {
        let Some(program) = std::env::var_os("WINDLASS_NODE_CLIENTS") else {
            println!("not run: WINDLASS_NODE_CLIENTS does not name an installed client");
            return;
        };
        let mut command = Command::new("node");
        command.arg(program);
        run(command, &cluster).await;
    }
}

fn python(script: &str) -> Option<Command> {
    let Some(program) = std::env::var_os("WINDLASS_PYTHON") else {
        println!("not run: WINDLASS_PYTHON does not name a Python with the packages");
        return None;
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python-clients");
    let mut command = Command::new(program);
    command.arg(format!("{folder}/{script}"));
    Some(command)
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
        .expect("the interpreter runs");
    tokio::fs::remove_file(&file).await.expect("our own file");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
