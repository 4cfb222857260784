//! A replica as a child process, and its output.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{
    LIMIT,
    child::{NAME, URL},
};

/// A replica as a child process.
pub(crate) struct Replica {
    name: String,
    child: Child,
    report: mpsc::Receiver<Report>,
}

/// The output of a replica.
#[derive(Default)]
pub(crate) struct Report {
    name: String,
    calls: Vec<Call>,
    /// Those of the calls that clean up.
    deletes: usize,
    refused: usize,
    lost: bool,
}

/// A call of the reconciler.
pub(crate) struct Call {
    /// The time at which the fence was checked for it.
    checked: Duration,
    begun: Duration,
}

// === impl Replica ===

impl Replica {
    pub(crate) fn start(name: &str, url: &str) -> Self {
        let this = env::current_exe().expect("this test");
        let mut child = Command::new(this)
            .envs([(URL, url), (NAME, name)])
            // The child ends when this is closed, also if the test is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = child.stdout.take().expect("it is piped");
        let (send, report) = mpsc::sync_channel(1);
        let owned = name.to_owned();
        thread::spawn(move || _ = send.send(Report::read(owned, output)));
        Self {
            name: name.to_owned(),
            child,
            report,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("there is a kill").success());
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_some()
    }

    /// Waits until the replica has ended.
    pub(crate) fn end(self) -> Report {
        self.report.recv_timeout(LIMIT).expect("it ends")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

// === impl Report ===

impl Report {
    /// Reads the output of a replica to its end.
    fn read(name: String, output: ChildStdout) -> Self {
        let mut report = Self {
            name,
            ..Self::default()
        };
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let delete = line.strip_prefix("delete ");
            report.deletes += usize::from(delete.is_some());
            let call = delete.or_else(|| line.strip_prefix("call "));
            if let Some((checked, begun)) = call.and_then(|it| it.split_once(' ')) {
                // A call without a check counts as checked too late.
                let time = |text: &str| Duration::from_nanos(text.parse().unwrap_or(u64::MAX));
                let (checked, begun) = (time(checked), time(begun));
                report.calls.push(Call { checked, begun });
            }
            report.refused += usize::from(line == "refused");
            report.lost |= line == "lost";
        }
        report
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub(crate) fn deletes(&self) -> usize {
        self.deletes
    }

    pub(crate) fn permitted_after(&self, deadline: Duration) -> usize {
        let calls = self.calls.iter();
        calls.filter(|it| it.checked > deadline).count()
    }

    pub(crate) fn begun_after(&self, deadline: Duration) -> usize {
        let calls = self.calls.iter();
        calls.filter(|it| it.begun > deadline).count()
    }

    pub(crate) fn refused(&self) -> usize {
        self.refused
    }

    pub(crate) fn lost(&self) -> bool {
        self.lost
    }
}
