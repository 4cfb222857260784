//! A child process that prints lines and reads commands.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    thread,
};

use tokio::sync::mpsc;

use crate::child::{CHILD, URL};

/// A child process of this test. Dropping it kills the process.
pub(crate) struct Process {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

// === impl Process ===

impl Process {
    /// Starts the child process called `name`, for the server at `url`.
    pub(crate) fn start(name: &str, url: &str) -> Self {
        let mut child = Command::new(env::current_exe().expect("this test"))
            .env(CHILD, name)
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = child.stdout.take().expect("it is piped");
        #[expect(
            clippy::disallowed_methods,
            reason = "a few lines for each deleted object"
        )]
        let (send, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                _ = send.send(line);
            }
        });
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line to its stdin.
    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{line}").expect("the request is sent");
    }

    /// Waits for the next line that begins with one of `words`. Returns the word and the rest.
    pub(crate) async fn wait_for_line<'a>(&mut self, words: &[&'a str]) -> (&'a str, String) {
        loop {
            let line = self
                .lines
                .recv()
                .await
                .expect("it runs until it is stopped");
            for word in words {
                if let Some(rest) = line.strip_prefix(*word) {
                    return (word, rest.trim().to_owned());
                }
            }
            assert!(!line.starts_with("ended"), "the operator {line}");
        }
    }

    /// The rest of such a line, if it was already printed.
    pub(crate) fn received_line(&mut self, word: &str) -> Option<String> {
        while let Ok(line) = self.lines.try_recv() {
            if let Some(rest) = line.strip_prefix(word) {
                return Some(rest.trim().to_owned());
            }
            assert!(!line.starts_with("ended"), "the operator {line}");
        }
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
