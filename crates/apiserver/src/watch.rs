//! One watch: the objects that are there, then what happens to them, as lines.
//!
//! A watch keeps no queue. It remembers how far it has told the history and reads on
//! from the log of its resource, so a slow watcher costs nothing; one that is so slow
//! that the log has let go of what it has not read is closed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::encode::EventEncoder;
use crate::registry::Resource;
use crate::selector::Selector;
use crate::server::Shared;
use crate::store::{Change, Event, Stored};

/// How often a quiet watch says how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How long before its end a watch says how far it is.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// How many events are read from the log at once.
const BATCH: usize = 128;

/// How many bytes of lines are sent at once, if there are so many.
const CHUNK: usize = 32 * 1024;

/// What a watch was asked for.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) selector: Selector,
    pub(crate) encoder: EventEncoder,
    /// The objects that are there; empty if the watch begins at a resourceVersion.
    pub(crate) initial: VecDeque<Arc<Stored>>,
    /// Whether a bookmark ends the initial objects.
    pub(crate) marks_initial_end: bool,
    /// How far the history has been told.
    pub(crate) told: u64,
    /// Whether bookmarks may be sent.
    pub(crate) bookmarks: bool,
    /// When the watch ends.
    pub(crate) deadline: Instant,
}

/// A watch that runs.
struct Watch {
    subscription: Subscription,
    shared: Arc<Shared>,
    /// Moves with each write to the resource; closed when it is served no longer.
    written: watch::Receiver<u64>,
    /// Cut when all watches are.
    cut: CancellationToken,
    /// Cut when the port is closed through which the watch was asked for.
    stop: CancellationToken,
    next_bookmark: Instant,
    /// Whether the deadline has passed: one more look at the log, and then the end.
    is_over: bool,
}

/// The lines of a watch, until it ends.
pub(crate) fn lines(
    subscription: Subscription,
    shared: Arc<Shared>,
    written: watch::Receiver<u64>,
    cut: CancellationToken,
    stop: CancellationToken,
) -> impl Stream<Item = Bytes> + Send {
    let next_bookmark = next_bookmark(subscription.deadline);
    let watch = Watch {
        subscription,
        shared,
        written,
        cut,
        stop,
        next_bookmark,
        is_over: false,
    };
    stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((chunk, watch))
    })
}

/// When the next bookmark is due: every minute, and shortly before the end.
fn next_bookmark(deadline: Instant) -> Instant {
    let now = Instant::now();
    let due = now + BOOKMARK_EVERY;
    match deadline.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now && last < due => last,
        _ => due,
    }
}

// === impl Watch ===

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(chunk) = self.initial() {
            return Some(chunk);
        }
        loop {
            if self.cut.is_cancelled() || self.stop.is_cancelled() {
                return None;
            }
            // Before the log is read, so that a write in between is not missed.
            let open = self.written.has_changed().is_ok();
            self.written.borrow_and_update();
            let chunk = self.read()?;
            if !chunk.is_empty() {
                return Some(chunk);
            }
            if !open || self.is_over {
                return None;
            }
            let deadline = self.subscription.deadline;
            tokio::select! {
                biased;
                () = self.cut.cancelled() => return None,
                () = self.stop.cancelled() => return None,
                // An error says that the resource is served no longer: what is left in
                // the log is told, and then the watch ends.
                _ = self.written.changed() => {}
                () = sleep_until(deadline) => self.is_over = true,
                () = sleep_until(self.next_bookmark), if self.subscription.bookmarks => {
                    if let Some(chunk) = self.bookmark() {
                        return Some(chunk);
                    }
                }
            }
        }
    }

    /// A part of the objects that were there at the start.
    fn initial(&mut self) -> Option<Bytes> {
        let now = self.shared.now();
        let subscription = &mut self.subscription;
        let mut out = Vec::new();
        while let Some(object) = subscription.initial.pop_front() {
            subscription.encoder.event(&mut out, "ADDED", &object, now);
            if out.len() >= CHUNK {
                return Some(out.into());
            }
        }
        if subscription.marks_initial_end {
            subscription.marks_initial_end = false;
            subscription
                .encoder
                .bookmark(&mut out, subscription.told, true, now);
        }
        (!out.is_empty()).then(|| out.into())
    }

    /// What happened since; nothing if the log has let go of it.
    fn read(&mut self) -> Option<Bytes> {
        let now = self.shared.now();
        let subscription = &mut self.subscription;
        let mut out = Vec::new();
        while out.is_empty() {
            let (table, told) = (&subscription.resource.table, subscription.told);
            let events = self
                .shared
                .read(|cluster| cluster.store.events_after(table, told, BATCH))
                .inspect_err(|_| tracing::debug!(resource = %table, "closed a slow watch"))
                .ok()?;
            if events.is_empty() {
                break;
            }
            for event in events {
                subscription.told = event.revision;
                if let Some((kind, object)) = subscription.tell(&event) {
                    subscription.encoder.event(&mut out, kind, &object, now);
                }
            }
        }
        Some(out.into())
    }

    /// How far the watch is, if everything before has been told.
    fn bookmark(&mut self) -> Option<Bytes> {
        self.next_bookmark = next_bookmark(self.subscription.deadline);
        let subscription = &mut self.subscription;
        let (table, told) = (&subscription.resource.table, subscription.told);
        let revision = self.shared.read(|cluster| {
            let news = cluster.store.events_after(table, told, 1);
            let is_quiet = news.is_ok_and(|events| events.is_empty());
            is_quiet.then(|| cluster.store.revision())
        })?;
        // A watch from the future has nothing to say before then.
        if told > revision {
            return None;
        }
        subscription.told = revision;
        let mut out = Vec::new();
        subscription
            .encoder
            .bookmark(&mut out, subscription.told, false, self.shared.now());
        Some(out.into())
    }
}

// === impl Subscription ===

impl Subscription {
    /// What this watch says of an event: nothing, or its type and its object.
    ///
    /// A change that brings an object into the selection adds it, and one that takes it
    /// out deletes it.
    fn tell(&self, event: &Event) -> Option<(&'static str, Arc<Stored>)> {
        if self
            .namespace
            .as_deref()
            .is_some_and(|namespace| *event.key.namespace != *namespace)
        {
            return None;
        }
        let meant = |object: &Arc<Stored>| self.selector.matches(object.value());
        let before = event.previous.as_ref().filter(|previous| meant(previous));
        let after = event.change != Change::Deleted && meant(&event.object);
        match (before, after) {
            (None, false) => None,
            (None, true) => Some(("ADDED", event.object.clone())),
            (Some(_), true) => Some(("MODIFIED", event.object.clone())),
            (Some(_), false) if event.change == Change::Deleted => {
                Some(("DELETED", event.object.clone()))
            }
            // The last state that was in the selection, at the time at which it left.
            (Some(before), false) => Some(("DELETED", Arc::new(before.at(event.revision)))),
        }
    }
}
