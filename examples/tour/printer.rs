//! Prints one line for each step: its time, its actor and its text.

use std::{
    fmt::Display,
    io::{self, IsTerminal as _},
};

use tokio::time::Instant;

/// Prints lines with the time since the start.
#[derive(Debug)]
pub(crate) struct Printer {
    began: Instant,
    colours: bool,
}

/// The part of the program that a line is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Actor {
    /// The user, whose part this program plays.
    You,
    /// The API server.
    Server,
    /// The watcher, which only prints.
    Watcher,
    /// The reconciler, which writes.
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

    pub(crate) fn print(&self, actor: Actor, text: impl Display) {
        let seconds = self.began.elapsed().as_secs_f64();
        let (name, colour) = actor.style();
        if self.colours {
            println!("{seconds:>7.2}s  \x1b[{colour}m{name:<11}\x1b[0m {text}");
        } else {
            println!("{seconds:>7.2}s  {name:<11} {text}");
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
    /// The printed name, and its ANSI colour code.
    const fn style(self) -> (&'static str, u8) {
        match self {
            Self::You => ("you", 36),
            Self::Server => ("server", 90),
            Self::Watcher => ("watcher", 34),
            Self::Reconciler => ("reconciler", 32),
            Self::Retry => ("retry", 33),
        }
    }
}
