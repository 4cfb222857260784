//! The printed lines, and waiting for one of them.

use std::{fmt::Display, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::Error;

/// Tells what happens as it happens. Clones are the same diary.
#[derive(Clone)]
pub(crate) struct Diary {
    began: Instant,
    lines: watch::Sender<Vec<String>>,
}

/// Who did something.
#[derive(Clone, Copy)]
pub(crate) enum Who {
    /// The person at the keyboard, played by this program.
    You,
    /// The first watcher.
    Clerk,
    /// The second watcher.
    Camera,
    /// The first reconciler.
    Packer,
    /// The second reconciler.
    Courier,
    /// What the controller asks and tells: policies and hooks.
    Office,
}

// === impl Diary ===

impl Diary {
    /// The longest that the story waits for anything.
    const PATIENCE: Duration = Duration::from_secs(60);

    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            lines: watch::Sender::default(),
        }
    }

    pub(crate) fn heading(&self, text: &str) {
        println!("\n{text}");
        self.write(text.to_owned());
    }

    pub(crate) fn tell(&self, who: Who, what: impl Display) {
        let seconds = self.began.elapsed().as_secs_f64();
        let line = format!("{:<8} {what}", who.name());
        println!("{seconds:>6.2}s  {line}");
        self.write(line);
    }

    fn write(&self, line: String) {
        self.lines.send_modify(|lines| lines.push(line));
    }

    /// Waits until a line contains `text`.
    pub(crate) async fn until(&self, text: &str) -> Result<(), Error> {
        let mut lines = self.lines.subscribe();
        let told = lines.wait_for(|lines| lines.iter().any(|line| line.contains(text)));
        match timeout(Self::PATIENCE, told).await {
            Ok(told) => told.map(|_| ()).map_err(Into::into),
            Err(_) => Err(format!("timed out waiting for {text:?}").into()),
        }
    }
}

// === impl Who ===

impl Who {
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
