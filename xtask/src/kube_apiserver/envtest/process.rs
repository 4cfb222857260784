//! A program that never outlives us, even if we are killed.

use std::{
    fs::OpenOptions,
    io,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A running program. Dropping this kills it.
pub(super) struct Process {
    shell: Child,
}

/// Runs a program until its own stdin closes, which it does when we end, however we end.
///
/// A Ctrl-C is for us and not for the shell. The first argument is a folder to remove
/// afterwards, or empty.
const UNTIL_STDIN_CLOSES: &str = r#"
trap '' INT TERM HUP
folder=$1; shift
"$@" </dev/null & program=$!
exec 3<&0
{ cat <&3 >/dev/null; kill -9 $program; rm -rf "$folder"; } 2>/dev/null &
wait $program
"#;

// === impl Process ===

impl Process {
    pub(super) fn start(
        program: &Path,
        flags: &[String],
        log: &Path,
        remove: Option<&Path>,
    ) -> io::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let shell = Command::new("sh")
            .args(["-c", UNTIL_STDIN_CLOSES, "sh"])
            .arg(remove.unwrap_or(Path::new("")))
            .arg(program)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Self { shell })
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.shell.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        _ = self.shell.wait();
    }
}
