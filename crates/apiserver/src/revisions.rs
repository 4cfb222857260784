//! The newest revision of something, and tasks that wait for a newer one.
//!
//! Waiting tasks are woken in the order in which they began to wait. `tokio::sync::watch` wakes them
//! in a random order, so a simulation with two watches of one resource would not be repeatable.

use std::{future::pending, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The newest revision. Dropping it ends all readers.
#[derive(Debug)]
pub(crate) struct Revisions(Arc<Shared>);

/// A reader of [`Revisions`].
#[derive(Debug)]
pub(crate) struct RevisionReader {
    shared: Arc<Shared>,
    /// The newest revision that was read.
    seen: u64,
}

#[derive(Debug)]
struct Shared {
    /// `None` after the end.
    newest: Mutex<Option<u64>>,
    changed: Notify,
}

/// Nothing is written any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended;

// === impl Revisions ===

impl Revisions {
    pub(crate) fn new(revision: u64) -> Self {
        Self(Arc::new(Shared {
            newest: Mutex::new(Some(revision)),
            changed: Notify::new(),
        }))
    }

    /// Sets the newest revision, and wakes the readers if it is another one.
    pub(crate) fn set(&self, revision: u64) {
        if self.0.newest.lock().replace(revision) != Some(revision) {
            self.0.changed.notify_waiters();
        }
    }

    /// Whether it has a reader.
    pub(crate) fn is_read(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Returns a reader that has read the newest revision.
    pub(crate) fn reader(&self) -> RevisionReader {
        RevisionReader {
            shared: self.0.clone(),
            seen: self.0.newest.lock().unwrap_or_default(),
        }
    }
}

impl Drop for Revisions {
    fn drop(&mut self) {
        *self.0.newest.lock() = None;
        self.0.changed.notify_waiters();
    }
}

// === impl RevisionReader ===

impl RevisionReader {
    /// Reads the newest revision. Returns an error after the end.
    pub(crate) fn read(&mut self) -> Result<u64, Ended> {
        self.seen = self.shared.newest.lock().ok_or(Ended)?;
        Ok(self.seen)
    }

    /// Waits for another revision than the one that was read last, and reads it. Returns an error
    /// after the end.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped has read nothing.
    pub(crate) async fn changed(&mut self) -> Result<u64, Ended> {
        let before = self.seen;
        self.wait_for(|revision| revision != before).await
    }

    /// Waits for a revision that is `wanted`, which may be the newest one, and reads it. Returns an
    /// error after the end.
    pub(crate) async fn wait_for(
        &mut self,
        wanted: impl Fn(u64) -> bool + Send,
    ) -> Result<u64, Ended> {
        loop {
            // Created before the read, so that a change after the read wakes it.
            let changed = self.shared.changed.notified();
            let newest = self.shared.newest.lock().ok_or(Ended)?;
            if wanted(newest) {
                self.seen = newest;
                return Ok(newest);
            }
            changed.await;
        }
    }

    /// Waits for another revision; for ever after the end.
    pub(crate) async fn changed_or_never(&mut self) {
        if self.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::{FutureExt as _, StreamExt as _, stream::FuturesOrdered};

    use super::*;

    #[test]
    fn a_reader_waits_for_another_revision_until_the_end() {
        let revisions = Revisions::new(1);
        let mut reader = revisions.reader();
        assert_eq!(reader.changed().now_or_never(), None);
        revisions.set(1);
        assert_eq!(reader.changed().now_or_never(), None);
        revisions.set(3);
        assert_eq!(reader.changed().now_or_never(), Some(Ok(3)));
        assert_eq!(reader.changed().now_or_never(), None);
        assert_eq!(reader.read(), Ok(3));
        drop(revisions);
        assert_eq!(reader.changed().now_or_never(), Some(Err(Ended)));
        assert_eq!(reader.read(), Err(Ended));
    }

    #[test]
    fn readers_are_counted() {
        let revisions = Revisions::new(1);
        assert!(!revisions.is_read());
        let reader = revisions.reader();
        assert!(revisions.is_read());
        drop(reader);
        assert!(!revisions.is_read());
    }

    #[tokio::test]
    async fn readers_are_woken_in_the_order_in_which_they_wait() {
        let revisions = Revisions::new(1);
        let waiting = Arc::new(AtomicUsize::new(0));
        let woken = Arc::new(Mutex::new(Vec::new()));
        let tasks: FuturesOrdered<_> = (0..100)
            .map(|number| {
                let (waiting, woken) = (waiting.clone(), woken.clone());
                let mut reader = revisions.reader();
                tokio::spawn(async move {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    reader.changed().await.expect("a revision");
                    woken.lock().push(number);
                })
            })
            .collect();
        while waiting.load(Ordering::Relaxed) < 100 {
            tokio::task::yield_now().await;
        }
        revisions.set(2);
        tasks
            .for_each(|ended| async { ended.expect("a task") })
            .await;
        assert_eq!(*woken.lock(), (0..100).collect::<Vec<_>>());
    }
}
