//! Runs the embedded Kubernetes API server as a command, for tests in any language.
//!
//! ```text
//! windlass-apiserver --kubeconfig kubeconfig.yaml --load crds/ --stop-with-stdin
//! ```
//!
//! When the server accepts requests, it writes one line to standard output: `ready` and its URL.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use windlass_apiserver::ApiServer;

mod load;

/// Serves an empty Kubernetes cluster, in memory, on a loopback port.
///
/// When the server accepts requests, it writes one line to standard output: "ready" and its URL. It
/// stops on SIGINT and SIGTERM.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent option"
)]
struct Arguments {
    /// The loopback address and the port; port 0 lets the system choose.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Writes a kubeconfig to this file before the server is ready.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Applies the manifests in this YAML or JSON file, or in all such files of this folder, before
    /// the server is ready: custom resource definitions first, then namespaces. Can be repeated.
    #[arg(long, value_name = "PATH")]
    load: Vec<PathBuf>,

    /// Enables RBAC authorization. Requests without a token are always authorized.
    #[arg(long)]
    rbac: bool,

    /// Does not delete the dependents of deleted objects, like a kube-apiserver without controllers.
    #[arg(long)]
    without_garbage_collection: bool,

    /// Creates the service account `default` and the config map `kube-root-ca.crt` in each
    /// namespace, as the controllers of a cluster do.
    #[arg(long)]
    namespace_contents: bool,

    /// Serves HTTPS. The certificate authority is generated at the start and is in the kubeconfig.
    #[arg(long)]
    tls: bool,

    /// Stops when standard input is closed, so that the server stops with the test that started it.
    #[arg(long)]
    stop_with_stdin: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass-apiserver: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Returns the messages of an error and its sources as one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The time that a stop waits for requests in progress.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

async fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder()
        .garbage_collection(!arguments.without_garbage_collection)
        .namespace_contents(arguments.namespace_contents)
        .rbac(arguments.rbac)
        .tls(arguments.tls)
        .start();
    load::load(&server, &arguments.load).await?;
    let listening = server.listen(arguments.listen).await?;
    if let Some(path) = &arguments.kubeconfig {
        std::fs::write(path, listening.kubeconfig())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    // Before the first line of output, because its reader may send a signal at once.
    let stopped = stop_signal()?;
    let mut out = std::io::stdout();
    writeln!(out, "ready {}", listening.url())?;
    out.flush()?;
    tokio::select! {
        () = stopped => {}
        () = end_of_input(), if arguments.stop_with_stdin => {}
    }
    // A client that does not read its watch would delay the exit.
    _ = tokio::time::timeout(STOP_TIMEOUT, listening.stop()).await;
    Ok(())
}

/// Registers handlers of SIGINT and SIGTERM at once, and returns a future that waits for a signal.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        _ = tokio::signal::ctrl_c().await;
    })
}

/// Waits until standard input is closed.
async fn end_of_input() {
    let (end, ended) = tokio::sync::oneshot::channel();
    // A separate thread, because a read of standard input cannot be cancelled.
    std::thread::spawn(move || {
        let mut ignored = [0; 256];
        while std::io::stdin()
            .read(&mut ignored)
            .is_ok_and(|read| read > 0)
        {}
        _ = end.send(());
    });
    _ = ended.await;
}
