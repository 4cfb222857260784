//! A test that runs itself again as a child process.

use std::{
    env,
    io::{BufRead as _, BufReader, Lines},
    process::{Child as Process, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// The environment variable of child processes.
const CHILD: &str = "WINDLASS_PROCESS_CHILD";

/// The timeout of each step.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A child process, which is killed when this is dropped.
pub(crate) struct Child {
    pub(crate) process: Process,
    lines: Receiver<String>,
}

/// Whether this process is the child of a test.
pub(crate) fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// Prints a line for [`Child::line`].
pub(crate) fn say(line: &str) {
    println!("\n> {line}");
}

// === impl Child ===

impl Child {
    /// Runs the test `name` in a child process.
    pub(crate) fn start(name: &str) -> Self {
        Self::with_stderr(Stdio::piped(), name)
    }

    /// Runs the test `name` in a child process that logs to `stderr`.
    pub(crate) fn with_stderr(stderr: Stdio, name: &str) -> Self {
        let this = Command::new(env::current_exe().expect("this test"));
        Self::spawn(this, stderr, name)
    }

    /// Runs the test `name` in a child process that can open `limit` file descriptors.
    pub(crate) fn with_descriptors(limit: u32, name: &str) -> Self {
        let mut shell = Command::new("sh");
        let this = env::current_exe().expect("this test");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
        shell.arg(this);
        Self::spawn(shell, Stdio::piped(), name)
    }

    fn spawn(mut command: Command, stderr: Stdio, name: &str) -> Self {
        let mut process = command
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
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
