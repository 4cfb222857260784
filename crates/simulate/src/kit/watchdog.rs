//! Reports what a test does that has not ended for a long time.

use std::{
    io::{self, Write as _},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use super::{Core, Mark};

/// A thread that prints a report while a test runs for too long. It ends when this is dropped.
pub(super) struct Watchdog {
    #[expect(dead_code, reason = "held for its drop")]
    ended: Sender<()>,
}

/// The real time after which the first report is printed, like that of the test harness.
const LIMIT: Duration = Duration::from_secs(60);

// === impl Watchdog ===

impl Watchdog {
    /// Reports what the operators do, while the test of this thread runs.
    pub(super) fn of(core: &Arc<Core>) -> Self {
        let name = thread::current().name().unwrap_or("a test").to_owned();
        let core = Arc::downgrade(core);
        Self::start(LIMIT, move || {
            let running = core.upgrade().map(|it| describe(&it));
            format!("{name} still runs{}", running.unwrap_or_default())
        })
    }

    /// Prints a report after `limit` of real time, and again after twice the time of the last one.
    fn start(limit: Duration, report: impl Fn() -> String + Send + 'static) -> Self {
        let (ended, test) = mpsc::channel();
        let watch = move || {
            let mut limit = limit;
            while test.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Not by `eprintln!`: the test harness would show its text at the end of the test only.
                _ = writeln!(io::stderr(), "{}", report());
                limit = limit.saturating_mul(2);
            }
        };
        // Without a thread, there is no report.
        _ = thread::Builder::new()
            .name("kit-watchdog".to_owned())
            .spawn(watch);
        Self { ended }
    }
}

fn describe(core: &Core) -> String {
    let journal = &core.journal;
    format!(
        ".\nIf no virtual time passes, a call blocks the thread, or the test waits for something that does \
         not happen.\nthe last was: {}\ncalls in progress: {}\nmost often:{}{}",
        journal.last(),
        journal.open_calls(),
        journal.most_written(Mark::default()),
        core.describe(),
    )
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::Watchdog;

    #[test]
    fn a_test_that_does_not_end_is_reported_until_it_ends() {
        let (send, reports) = mpsc::channel();
        let report = move || {
            _ = send.send(());
            "a report".to_owned()
        };
        let watchdog = Watchdog::start(Duration::from_millis(1), report);
        assert_eq!(reports.recv(), Ok(()));
        assert_eq!(reports.recv(), Ok(()));
        drop(watchdog);
        // The thread ends, and drops the report.
        while reports.recv().is_ok() {}
    }
}
