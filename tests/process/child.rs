//! A test that runs itself again as a child process.

use std::{
    env, fmt,
    io::{BufRead as _, BufReader, Lines},
    process::{Child as Process, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use kube::config::Kubeconfig;
use libtest_mimic::Trial;

use crate::{
    real::RealServer,
    trial::{require_linux, trial},
};

/// The API server of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Embedded,
    Real,
}

/// The environment variable of child processes: the kubeconfig of the real server, or nothing.
const CHILD: &str = "WINDLASS_PROCESS_CHILD";

/// The timeout of each step.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A child process, which is killed when this is dropped.
pub(crate) struct Child {
    pub(crate) process: Process,
    lines: Receiver<String>,
}

/// The test called `name`, such as `blocked::a_blocked_runtime_is_reported`, with each server.
pub(crate) fn on_both_servers(name: &'static str, body: fn(Kind)) -> Vec<Trial> {
    let of = |kind: Kind| {
        let (module, name) = name.split_once("::").expect("a module");
        trial(&format!("process::{module}::{kind}"), name, move || {
            require_linux();
            if let (Kind::Real, false) = (kind, is_child()) {
                RealServer::require();
            }
            body(kind);
        })
    };
    vec![of(Kind::Embedded), of(Kind::Real)]
}

/// Whether this process is the child of a test.
pub(crate) fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// The kubeconfig of the real server, in a child process.
pub(crate) fn kubeconfig() -> Kubeconfig {
    let text = env::var(CHILD).expect("this is a child");
    Kubeconfig::from_yaml(&text).expect("the kubeconfig of the parent")
}

/// Prints a line for [`Child::line`].
pub(crate) fn say(line: &str) {
    println!("\n> {line}");
}

// === impl Kind ===

/// The name of the server in the names of tests.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Real => "kube_apiserver",
        })
    }
}

// === impl Child ===

impl Child {
    /// Runs the test `name` with `command`, without an API server.
    pub(crate) fn alone(command: Command, name: &str) -> Self {
        Self::spawn(command, Stdio::piped(), "", name)
    }

    /// Runs the test `name` in a child process.
    pub(crate) fn start(kind: Kind, name: &str) -> Self {
        Self::with_stderr(Stdio::piped(), kind, name)
    }

    /// Runs the test `name` in a child process that logs to `stderr`.
    pub(crate) fn with_stderr(stderr: Stdio, kind: Kind, name: &str) -> Self {
        let this = Command::new(env::current_exe().expect("this test"));
        Self::on(kind, this, stderr, name)
    }

    /// Runs the test `name` in a child process that can open `limit` file descriptors.
    pub(crate) fn with_descriptors(limit: u32, kind: Kind, name: &str) -> Self {
        let mut shell = Command::new("sh");
        let this = env::current_exe().expect("this test");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
        shell.arg(this);
        Self::on(kind, shell, Stdio::piped(), name)
    }

    fn on(kind: Kind, command: Command, stderr: Stdio, name: &str) -> Self {
        let kubeconfig = match kind {
            Kind::Embedded => String::new(),
            Kind::Real => {
                let real = RealServer::shared();
                serde_yaml_ng::to_string(&real.kubeconfig).expect("a kubeconfig")
            }
        };
        let name = name.replace("::", &format!("::{kind}::"));
        Self::spawn(command, stderr, &kubeconfig, &name)
    }

    fn spawn(mut command: Command, stderr: Stdio, kubeconfig: &str, name: &str) -> Self {
        let mut process = command
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("it starts");
        let (send, lines) = channel();
        let stdout: Lines<BufReader<ChildStdout>> =
            BufReader::new(process.stdout.take().expect("a pipe")).lines();
        thread::spawn(move || {
            for line in stdout.map_while(Result::ok) {
                if let Some(line) = line.strip_prefix("> ") {
                    _ = send.send(line.to_owned());
                }
            }
        });
        Self { process, lines }
    }

    /// The next line that the child has said.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => line,
            Err(error) => panic!("no line: {error}, {:?}", self.process.try_wait()),
        }
    }

    /// Sends the child a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("there is a kill").success());
    }

    /// Waits until the child has ended.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let began = std::time::SystemTime::now();
        while began.elapsed().unwrap_or_default() < LIMIT {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status;
            }
            // `std` has no wait for a process with a limit.
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the process did not end within {LIMIT:?}")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
