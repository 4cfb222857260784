//! Runs a program and shows its progress.

use std::{
    io::{BufRead as _, BufReader, IsTerminal as _, Read, Write as _, stderr},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use crate::{
    Result,
    duration::{Elapsed, Stopwatch},
};

/// The exit status and the output of a program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) elapsed: Elapsed,

    /// The lines of stdout and stderr, in order of arrival.
    pub(crate) output: String,
}

/// The time between two progress lines if stderr is not a terminal.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// Runs `command` to its end. Meanwhile it shows `what`, the elapsed time, and the last text that
/// `note` returned for a line of the program.
pub(crate) fn run(
    what: &str,
    command: &mut Command,
    mut note: impl FnMut(&str) -> Option<String>,
) -> Result<Ran> {
    let stopwatch = Stopwatch::start();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().display()))?;

    let (sender, lines) = channel();
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr_pipe = child.stderr.take().expect("stderr is piped");
    let readers = [
        thread::spawn({
            let sender = sender.clone();
            move || read(stdout, &sender)
        }),
        thread::spawn(move || read(stderr_pipe, &sender)),
    ];

    let terminal = stderr().is_terminal();
    let tick = if terminal {
        Duration::from_millis(200)
    } else {
        SIGN_OF_LIFE
    };
    let mut output = String::new();
    let mut noted = String::new();
    let mut next = tick;
    loop {
        match lines.recv_timeout(tick) {
            Ok(line) => {
                noted = note(&line).unwrap_or(noted);
                output.push_str(&line);
                output.push('\n');
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // Also where lines come more often than this.
        let elapsed = stopwatch.elapsed();
        if elapsed.0 < next {
            continue;
        }
        next = elapsed.0 + tick;
        if terminal {
            eprint!("\r\x1b[K   ... {what}  {elapsed}  {noted}");
            _ = stderr().flush();
        } else {
            eprintln!("   ... {what}  {elapsed}  {noted}");
        }
    }
    if terminal {
        eprint!("\r\x1b[K");
    }
    for reader in readers {
        reader.join().expect("reading lines does not panic");
    }
    Ok(Ran {
        status: child.wait()?,
        elapsed: stopwatch.elapsed(),
        output,
    })
}

fn read(from: impl Read, to: &Sender<String>) {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    // The output may be invalid UTF-8.
    while from
        .read_until(b'\n', &mut bytes)
        .is_ok_and(|length| length > 0)
    {
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        bytes.clear();
        if to.send(text).is_err() {
            return;
        }
    }
}
