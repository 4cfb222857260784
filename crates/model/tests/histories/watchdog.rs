//! Ends the process when a history does not come back.
//!
//! Time is paused, so a history that waits ends at once. One that does not come back spins in a
//! loop without a yield, which nothing in the runtime can stop.

#![expect(
    clippy::disallowed_types,
    reason = "what spins does so in real time, which a paused clock does not show"
)]

use std::{
    process,
    sync::{Mutex, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long one history may take in real time: a thousand times as long as it does.
const LIMIT: Duration = Duration::from_secs(30);

/// The histories that are played now.
static PLAYED: Mutex<Vec<(thread::ThreadId, Instant, String)>> = Mutex::new(Vec::new());

/// A history that is played.
pub(crate) struct Watched;

// === impl Watched ===

impl Watched {
    pub(crate) fn new(script: &impl ToString) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| _ = thread::spawn(watch));
        let played = (thread::current().id(), Instant::now(), script.to_string());
        PLAYED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(played);
        Self
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut played = PLAYED.lock().unwrap_or_else(PoisonError::into_inner);
        played.retain(|(thread, ..)| *thread != thread::current().id());
    }
}

fn watch() {
    loop {
        thread::sleep(Duration::from_secs(1));
        let played = PLAYED.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, began, script) in &*played {
            if began.elapsed() > LIMIT {
                eprintln!("this history spins, and does not come back:\nscript: {script}");
                process::exit(101);
            }
        }
    }
}
