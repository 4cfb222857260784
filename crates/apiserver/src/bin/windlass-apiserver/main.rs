//! The embedded Kubernetes API server as a process, for tests in any language.
//!
//! ```text
//! windlass-apiserver --kubeconfig kubeconfig.yaml --load crds/ --stop-with-stdin
//! ```
//!
//! When the server answers, one line is written to standard output: `ready` and its URL.

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
/// When the server answers, it writes one line to standard output: "ready" and its URL. It stops on
/// SIGINT and SIGTERM.
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

    /// Lets roles and bindings decide what users may do. A request without a token may do
    /// everything.
    #[arg(long)]
    rbac: bool,

    /// Leaves the dependents of deleted objects, as a server without controllers does.
    #[arg(long)]
    without_garbage_collection: bool,

    /// Creates the service account `default` and the config map `kube-root-ca.crt` in each
    /// namespace, as the controllers of a cluster do.
    #[arg(long)]
    namespace_contents: bool,

    /// Speaks HTTPS, with a certificate authority that is made at the start and is in the
    /// kubeconfig.
    #[arg(long)]
    tls: bool,

    /// Stops when standard input is closed, so that the server ends with the test that started it.
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

/// An error and its sources, as one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The longest time in which open requests can end after a stop.
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
    // Before the first line of output: who reads it may send a signal at once.
    let stopped = stop_signal()?;
    let mut out = std::io::stdout();
    writeln!(out, "ready {}", listening.url())?;
    out.flush()?;
    tokio::select! {
        () = stopped => {}
        () = end_of_input(), if arguments.stop_with_stdin => {}
    }
    // A client that does not read its watch would keep the server.
    _ = tokio::time::timeout(STOP_TIMEOUT, listening.stop()).await;
    Ok(())
}

/// Listens for SIGINT and SIGTERM from now on, and waits for one of them.
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
    // A thread of its own: a read of standard input cannot be cancelled.
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
