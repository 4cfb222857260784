//! Clients of other people, with their defaults.
//!
//! They are in `tests/go-clients`, which `cargo xtask test` builds where Go is; its path is
//! in `WINDLASS_GO_CLIENTS`.

use std::process::Stdio;

use tokio::process::Command;

on_both_servers! {
    /// docs/apiserver.md: row 21.
    async fn client_go_and_controller_runtime_work_with_their_defaults(cluster: Cluster) {
        let Some(program) = std::env::var_os("WINDLASS_GO_CLIENTS") else {
            println!("not run: WINDLASS_GO_CLIENTS does not name the program of tests/go-clients");
            return;
        };
        let (kubeconfig, _listening) = cluster.kubeconfig().await;
        let folder = std::env::temp_dir();
        let file = folder.join(format!("windlass-{}.kubeconfig", cluster.namespace()));
        tokio::fs::write(&file, kubeconfig).await.expect("a file");
        let output = Command::new(program)
            .arg("clients")
            .arg(&file)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .expect("WINDLASS_GO_CLIENTS names a program");
        tokio::fs::remove_file(&file).await.expect("our own file");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}
