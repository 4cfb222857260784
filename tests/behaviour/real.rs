//! The real kube-apiserver, shared by all tests of this process.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use kube::{Config, config::Kubeconfig};
use serde_json::Value;

use crate::trial::ignore;

/// A running kube-apiserver with its etcd. It ends when this process does, because its
/// stdin then closes.
pub(crate) struct RealServer {
    pub(crate) kubeconfig: Kubeconfig,
    pub(crate) powerless_token: String,
    /// Such as `v1.36.3`.
    pub(crate) version: String,
    pipes: Mutex<Pipes>,
    child: Child,
}

/// The pipes to the process of the server. A command and its answer are one line each.
struct Pipes {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// The variable that names the binary. `cargo xtask test` sets it where it can build the server.
const BINARY: &str = "WINDLASS_KUBE_APISERVER";

/// Without the watch cache, the history only expires when the test compacts it, and no connection
/// breaks.
const WITHOUT_CACHE: &str = "--watch-cache=false";

// === impl RealServer ===

impl RealServer {
    /// The server that all tests share.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<RealServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[WITHOUT_CACHE]))
    }

    /// Whether there is a real server.
    pub(crate) fn is_available() -> bool {
        std::env::var_os(BINARY).is_some()
    }

    /// Ends the test as ignored where there is no real server.
    pub(crate) fn require() {
        if !Self::is_available() {
            ignore("no real kube-apiserver: run `cargo xtask test` where Go is installed");
        }
    }

    /// The server with the garbage collector and the namespace controller, which the tests of both
    /// share.
    pub(crate) fn with_controllers() -> &'static Self {
        static SHARED: OnceLock<RealServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&["--controllers"]))
    }

    /// A server of its own, on which each pod needs a service account. It ends when stdin of its
    /// process closes: keep the value for as long as it is used.
    pub(crate) fn with_accounts() -> Self {
        Self::start(&["--service-accounts", WITHOUT_CACHE])
    }

    /// A server of its own, with these flags of kube-apiserver.
    pub(crate) fn own(flags: &[&str]) -> Self {
        let options: Vec<_> = ["--"].iter().chain(flags).copied().collect();
        Self::start(&options)
    }

    /// Stops the server, and waits until its process has ended.
    pub(crate) fn stop(mut self) {
        self.send_command("stop");
        self.child.wait().expect("it is our child");
    }

    /// Starts a server; ends the test as ignored where there is none.
    ///
    /// The servers of a process start one after the other. kube-apiserver exits if a step of its
    /// start takes too long, and expects to be started again.
    fn start(options: &[&str]) -> Self {
        static STARTS: Mutex<()> = Mutex::new(());
        const ATTEMPTS: usize = 3;
        Self::require();
        let _one_at_a_time = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
        (0..ATTEMPTS)
            .find_map(|_| Self::try_start(options))
            .expect("the server starts: it writes the reason to stderr")
    }

    /// Starts a server, or returns `None` if it exited before it was ready.
    fn try_start(options: &[&str]) -> Option<Self> {
        let mut child = Command::new(std::env::var_os(BINARY).expect("checked before"))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("WINDLASS_KUBE_APISERVER names the server that `cargo xtask kube-apiserver --build-only` built");
        let stdin = child.stdin.take().expect("piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let Some(ready) = read_json(&mut stdout) else {
            let status = child.wait().expect("it is our child");
            eprintln!("kube-apiserver exited before it was ready: {status}");
            return None;
        };
        let kubeconfig = ready["kubeconfig"].as_str().expect("a path");
        Some(Self {
            kubeconfig: Kubeconfig::read_from(kubeconfig).expect("a kubeconfig"),
            powerless_token: ready["powerless_token"]
                .as_str()
                .expect("a token")
                .to_owned(),
            version: ready["version"].as_str().expect("a version").to_owned(),
            pipes: Mutex::new(Pipes { stdin, stdout }),
            child,
        })
    }

    pub(crate) async fn config(&self) -> Config {
        let config = self.kubeconfig.clone();
        Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
            .await
            .expect("our own kubeconfig")
    }

    /// Compacts the history up to now.
    pub(crate) fn compact(&self) {
        self.send_command("compact");
    }

    /// Sends a command, and waits for its completion.
    fn send_command(&self, command: &str) {
        let mut pipes = self
            .pipes
            .lock()
            .expect("no thread panics while it holds the lock");
        writeln!(pipes.stdin, "{command}").expect("the server listens");
        let answer = read_json(&mut pipes.stdout).expect("the server runs");
        assert!(answer.get("error").is_none(), "{answer}");
    }
}

/// The next line, or `None` if the process has closed its stdout.
fn read_json(from: &mut BufReader<ChildStdout>) -> Option<Value> {
    let mut line = String::new();
    let length = from.read_line(&mut line).expect("a pipe can be read");
    (length != 0).then(|| serde_json::from_str(&line).expect("one line of JSON"))
}
