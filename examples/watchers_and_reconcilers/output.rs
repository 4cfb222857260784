//! Prints lines, and waits until a line was printed.

use std::{fmt::Display, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::Error;

/// Prints lines with the time since the start. All clones share the lines.
#[derive(Clone)]
pub(crate) struct Output {
    began: Instant,
    lines: watch::Sender<Vec<String>>,
}

/// The part of the program that a line is about.
#[derive(Clone, Copy)]
pub(crate) enum Actor {
    /// The user, whose part this program plays.
    You,
    /// The first watcher.
    Clerk,
    /// The second watcher.
    Camera,
    /// The first reconciler.
    Packer,
    /// The second reconciler.
    Courier,
    /// The policies and hooks.
    Office,
}

// === impl Output ===

impl Output {
    /// The longest time that `until` waits.
    const TIMEOUT: Duration = Duration::from_secs(60);

    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            lines: watch::Sender::default(),
        }
    }

    pub(crate) fn heading(&self, text: &str) {
        println!("\n{text}");
        self.record(text.to_owned());
    }

    pub(crate) fn print(&self, actor: Actor, text: impl Display) {
        let seconds = self.began.elapsed().as_secs_f64();
        let line = format!("{:<8} {text}", actor.name());
        println!("{seconds:>6.2}s  {line}");
        self.record(line);
    }

    fn record(&self, line: String) {
        self.lines.send_modify(|lines| lines.push(line));
    }

    /// Waits until a line contains `text`.
    pub(crate) async fn until(&self, text: &str) -> Result<(), Error> {
        let mut lines = self.lines.subscribe();
        let printed = lines.wait_for(|lines| lines.iter().any(|line| line.contains(text)));
        match timeout(Self::TIMEOUT, printed).await {
            Ok(printed) => printed.map(|_| ()).map_err(Into::into),
            Err(_) => Err(format!(
                "timed out after {:?} waiting for a line with {text:?}",
                Self::TIMEOUT
            )
            .into()),
        }
    }
}

// === impl Actor ===

impl Actor {
    const fn name(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Clerk => "clerk",
            Self::Camera => "camera",
            Self::Packer => "packer",
            Self::Courier => "courier",
            Self::Office => "office",
        }
    }
}
