//! Signals. The operator is a process of its own: a signal reaches all controllers of a process.
//!
//! The process is this program, with a kubeconfig and a namespace in its environment. It reports in
//! lines on its standard output, and reads commands from its standard input.

use std::{
    env,
    process::{Command as Program, Stdio},
    sync::{Arc, Mutex, mpsc},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Config, ResourceExt as _,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Semaphore,
};
use windlass::runtime::{
    controller::{Action, Controller},
    watcher,
};

use super::{Refused, config, create, until};
use crate::{cluster::Cluster, connection::Connection};

/// The kubeconfig of the operator, as YAML, and its namespace.
const KUBECONFIG: &str = "WINDLASS_TEST_OPERATOR_KUBECONFIG";
const NAMESPACE: &str = "WINDLASS_TEST_OPERATOR_NAMESPACE";

/// Whether this process is an operator, and not the tests.
pub(crate) fn is_operator() -> bool {
    env::var_os(KUBECONFIG).is_some()
}

/// Reports that a call was aborted, unless it has ended.
struct Call(Option<String>);

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(name) = self.0.take() {
            println!("aborted {name}");
        }
    }
}

/// Runs the operator: its calls wait for the command `release`, that of the object called `blocks`
/// without yielding.
pub(crate) fn operate() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(operator());
    // It would wait for the call that blocks.
    runtime.shutdown_background();
}

async fn operator() {
    let kubeconfig = env::var(KUBECONFIG).expect("the test sets it");
    let namespace = env::var(NAMESPACE).expect("the test sets it");
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).expect("a kubeconfig");
    let settings = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let connection = Connection::new();
    let client = ClientBuilder::try_from(settings.expect("a kubeconfig"))
        .expect("a client")
        .with_layer(&connection)
        .build();
    let released = Arc::new(Semaphore::new(0));
    let (unblock, unblocked) = mpsc::channel();
    let unblocked = Arc::new(Mutex::new(unblocked));
    let gate = Arc::clone(&released);
    let mut reconciled = Controller::new(
        Api::<ConfigMap>::namespaced(client, &namespace),
        watcher::Config::default(),
    )
    .shutdown_on_signal()
    .run(
        move |config: Arc<ConfigMap>, _| {
            let (gate, unblocked) = (Arc::clone(&gate), Arc::clone(&unblocked));
            async move {
                let name = config.name_any();
                let mut call = Call(Some(name.clone()));
                println!("begun {name}");
                if name == "blocks" {
                    let unblocked = unblocked.lock().expect("no panic");
                    unblocked.recv().expect("the test releases it");
                }
                gate.acquire().await.expect("it is open").forget();
                call.0 = None;
                Ok::<_, Refused>(Action::await_change())
            }
        },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    )
    .boxed();
    let watches = async {
        // The watch may have ended before this looks again.
        until(|| connection.has_watched()).await;
        connection.no_watch_runs().await;
        println!("the watches have ended");
        std::future::pending::<()>().await;
    };
    let (read, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            _ = read.send(line.expect("standard input"));
        }
    });
    let commands = async {
        while let Some(command) = lines.recv().await {
            match &*command {
                "release" => released.add_permits(1),
                "unblock" => unblock.send(()).expect("the operator waits"),
                "ping" => println!("pong"),
                other => panic!("{other} is not a command"),
            }
        }
    };
    let items = async {
        while let Some(item) = reconciled.next().await {
            match item {
                Ok((target, _)) => println!("reconciled {}", target.name),
                Err(error) => eprintln!("{error}"),
            }
        }
        println!("the stream has ended");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = watches => {}
        () = items => {}
        () = commands => {}
    }
}

/// The operator as a child process.
struct Operator {
    process: Child,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _server: Option<windlass_apiserver::Listening>,
}

// === impl Operator ===

impl Operator {
    /// Starts it, with a call that has begun for each object.
    async fn start(cluster: &Cluster, objects: &[&str]) -> Self {
        let (kubeconfig, server) = cluster.kubeconfig().await;
        let mut process = Command::new(env::current_exe().expect("a program"))
            .env(KUBECONFIG, kubeconfig)
            .env(NAMESPACE, cluster.namespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let commands = process.stdin.take().expect("piped");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut operator = Self {
            process,
            commands,
            lines,
            _server: server,
        };
        for object in objects {
            create(&cluster.api_aside::<ConfigMap>(), config(object, "1")).await;
            assert_eq!(operator.line().await, format!("begun {object}"));
        }
        operator
    }

    /// The next line of its output.
    async fn line(&mut self) -> String {
        let line = self.lines.next_line().await.expect("standard output");
        line.expect("the operator runs")
    }

    async fn command(&mut self, command: &str) {
        let line = format!("{command}\n");
        let written = self.commands.write_all(line.as_bytes()).await;
        written.expect("the operator reads");
    }

    /// Sends a signal to the process.
    fn signal(&self, signal: &str) {
        let pid = self.process.id().expect("it runs").to_string();
        let status = Program::new("kill").args([signal, &pid]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Shows that the process has survived the signals before, and ends it.
    async fn end(mut self) {
        self.command("ping").await;
        assert_eq!(self.line().await, "pong");
        drop(self.commands);
        let status = self.process.wait().await.expect("it is a child");
        assert!(status.success(), "{status}");
    }
}

/// The first signal ends the watches, and the stream after the running call. Later ones have no effect.
async fn ends_gracefully_on(cluster: &Cluster, signal: &str) {
    let mut operator = Operator::start(cluster, &["a"]).await;
    operator.signal(signal);
    assert_eq!(operator.line().await, "the watches have ended");
    create(&cluster.api_aside::<ConfigMap>(), config("late", "1")).await;
    operator.command("release").await;
    assert_eq!(operator.line().await, "reconciled a");
    assert_eq!(operator.line().await, "the stream has ended");
    operator.signal("-INT");
    operator.signal("-TERM");
    operator.end().await;
}

on_both_servers! {
    /// Rows: KR-28, KR-31
    async fn sigterm_starts_a_graceful_shutdown(cluster: Cluster) {
        ends_gracefully_on(&cluster, "-TERM").await;
    }

    /// Rows: KR-28, KR-31
    async fn sigint_starts_a_graceful_shutdown(cluster: Cluster) {
        ends_gracefully_on(&cluster, "-INT").await;
    }

    /// The stream ends at once, although a call does not yield. That call is aborted when it yields.
    ///
    /// Rows: KR-29, KR-30
    async fn a_second_signal_ends_the_stream_and_aborts_the_calls(cluster: Cluster) {
        let mut operator = Operator::start(&cluster, &["waits", "blocks"]).await;
        operator.signal("-TERM");
        assert_eq!(operator.line().await, "the watches have ended");
        operator.signal("-INT");
        let mut lines = [operator.line().await, operator.line().await];
        lines.sort_unstable();
        assert_eq!(lines, ["aborted waits", "the stream has ended"]);
        operator.command("unblock").await;
        assert_eq!(operator.line().await, "aborted blocks");
        operator.end().await;
    }
}
