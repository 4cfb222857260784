//! The printed lines: what happens, when, and which part does it.

use std::{
    fmt::Display,
    io::{self, IsTerminal as _},
};

use tokio::time::Instant;

/// Prints what happens, with the time since the start.
#[derive(Debug)]
pub(crate) struct Printer {
    began: Instant,
    colours: bool,
}

/// The part that acted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Actor {
    /// The user, for which this program acts.
    You,
    /// The API server.
    Server,
    /// The watcher, which only prints.
    Watcher,
    /// The reconciler, which acts.
    Reconciler,
    /// The controller, about a call that failed.
    Retry,
}

// === impl Printer ===

impl Printer {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            colours: io::stdout().is_terminal(),
        }
    }

    pub(crate) fn print(&self, who: Actor, what: impl Display) {
        let seconds = self.began.elapsed().as_secs_f64();
        let (name, colour) = who.looks();
        if self.colours {
            println!("{seconds:>7.2}s  \x1b[{colour}m{name:<11}\x1b[0m {what}");
        } else {
            println!("{seconds:>7.2}s  {name:<11} {what}");
        }
    }

    pub(crate) fn heading(&self, text: &str) {
        if self.colours {
            println!("\n\x1b[1m{text}\x1b[0m");
        } else {
            println!("\n{text}");
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

// === impl Actor ===

impl Actor {
    /// A name, and a colour of the terminal.
    const fn looks(self) -> (&'static str, u8) {
        match self {
            Self::You => ("you", 36),
            Self::Server => ("server", 90),
            Self::Watcher => ("watcher", 34),
            Self::Reconciler => ("reconciler", 32),
            Self::Retry => ("retry", 33),
        }
    }
}
