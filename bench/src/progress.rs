//! The progress line.

use std::io::{IsTerminal as _, Write as _, stderr};

use crate::measure::monotonic;

/// Prints the progress of the run.
#[derive(Debug)]
pub(crate) struct Progress {
    began: u64,
    scenario: usize,
    scenarios: usize,
    last: String,
    terminal: bool,
    silent: bool,
}

// === impl Progress ===

impl Progress {
    pub(crate) fn new(scenarios: usize) -> Self {
        Self {
            began: monotonic(),
            scenario: 0,
            scenarios,
            last: String::new(),
            terminal: stderr().is_terminal(),
            silent: false,
        }
    }

    /// A progress that prints nothing.
    pub(crate) fn silent() -> Self {
        Self {
            silent: true,
            ..Self::new(0)
        }
    }

    pub(crate) fn step(&mut self, scenario: &str, contender: &str, repeat: usize, repeats: usize) {
        if self.silent {
            return;
        }
        let new = self.last != scenario;
        if new {
            self.scenario += 1;
            scenario.clone_into(&mut self.last);
        }
        let place = format!(
            "[{}/{}] {:>3}s {scenario}",
            self.scenario,
            self.scenarios,
            self.seconds()
        );
        if self.terminal {
            eprint!("\r\x1b[K{place}: {contender} {repeat}/{repeats}");
            _ = stderr().flush();
        } else if new {
            eprintln!("{place}");
        }
    }

    /// Clears the progress line before a line of output.
    pub(crate) fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    pub(crate) fn seconds(&self) -> u64 {
        (monotonic() - self.began) / 1_000_000_000
    }
}
