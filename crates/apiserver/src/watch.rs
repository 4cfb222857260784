//! The stream of a watch: the initial objects, then the events of its resource.
//!
//! A watch has no queue. It stores its position in the history, and reads the next events from the
//! log of its resource. It reads the initial objects in the same way: the current objects, with the
//! changes since the start of the watch reverted. Its memory is bounded: one chunk of lines, and
//! references to the bytes of large objects, which all watches share. A slow watch is closed when
//! events that it has not sent were dropped from the log.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, stream};
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::encode::{self, EventEncoder};
use crate::registry::Resource;
use crate::revisions::RevisionReader;
use crate::selector::Selector;
use crate::shared::Shared;
use crate::store::{Change, Event, Expired, Key, Stored};

/// The interval of periodic bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The time between the last bookmark and the end of a watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// The time between a change of the definition of a custom resource and the end of its watches.
const AFTER_DEFINITION_CHANGE: Duration = Duration::from_secs(1);

/// The number of events, or of initial objects, that are read at once.
const BATCH: usize = 128;

/// The target size of a chunk of lines, in bytes. If the client does not read, the watch holds one
/// chunk and its connection a few.
const CHUNK: usize = 16 * 1024;

/// The parameters of a watch.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) selector: Selector,
    pub(crate) encoder: EventEncoder,
    /// The key of the next initial object, in the state of revision `sent`. `None` after the last
    /// one, and if the watch begins at a resourceVersion.
    pub(crate) initial: Option<Bound<Key>>,
    /// Whether a bookmark ends the initial objects.
    pub(crate) marks_initial_end: bool,
    /// The revision of the last event that was read from the log.
    pub(crate) sent: u64,
    /// Whether the client accepts bookmarks.
    pub(crate) bookmarks: bool,
    /// The time at which the watch ends.
    pub(crate) deadline: Instant,
}

/// The definition of a custom resource, whose changes end its watches.
pub(crate) struct DefinitionChanges {
    /// The generation at the start of the watch.
    pub(crate) generation: Option<u64>,
    /// Changes with each write to a definition.
    pub(crate) written: RevisionReader,
}

/// A running watch.
struct Watch {
    subscription: Subscription,
    shared: Arc<Shared>,
    /// Changes with each write to the resource. Closed when the resource is no longer served.
    written: RevisionReader,
    /// `None` for a built-in resource.
    definition: Option<DefinitionChanges>,
    /// Cancelled when all watches are closed.
    cut: CancellationToken,
    /// Cancelled when the port of the watch is closed.
    stop: CancellationToken,
    next_bookmark: Instant,
    /// Encoded parts of lines that are not sent yet.
    ready: VecDeque<Bytes>,
    /// Whether the deadline has passed. Then the watch reads the log once more, sends the encoded
    /// lines, and ends.
    is_over: bool,
}

/// A chunk of lines: owned bytes, interleaved with the shared bytes of large objects.
#[derive(Default)]
struct Chunk {
    sent: VecDeque<Bytes>,
    own: Vec<u8>,
    /// The total number of bytes.
    size: usize,
}

/// Returns the stream of the lines or frames of a watch, which ends with the watch.
pub(crate) fn lines(
    subscription: Subscription,
    shared: Arc<Shared>,
    written: RevisionReader,
    definition: Option<DefinitionChanges>,
    cut: CancellationToken,
    stop: CancellationToken,
) -> impl Stream<Item = Bytes> + Send {
    let next_bookmark = next_bookmark(subscription.deadline);
    let watch = Watch {
        subscription,
        shared,
        written,
        definition,
        cut,
        stop,
        next_bookmark,
        ready: VecDeque::new(),
        is_over: false,
    };
    stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((chunk, watch))
    })
}

/// Returns the time of the next bookmark: after a minute, or shortly before the deadline if that is
/// earlier.
fn next_bookmark(deadline: Instant) -> Instant {
    let now = Instant::now();
    let due = now + BOOKMARK_INTERVAL;
    match deadline.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now && last < due => last,
        _ => due,
    }
}

/// Waits for a write to a definition; for `None` forever.
async fn definition_written(definition: &mut Option<DefinitionChanges>) {
    match definition {
        Some(definition) => definition.written.changed_or_never().await,
        None => std::future::pending().await,
    }
}

// === impl Watch ===

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            if self.is_over || self.cut.is_cancelled() || self.stop.is_cancelled() {
                return None;
            }
            // Checked in each iteration, because a slow client may never reach the wait below.
            let now = Instant::now();
            self.is_over = now >= self.subscription.deadline;
            self.initial()?;
            if !self.ready.is_empty() {
                continue;
            }
            if self.subscription.bookmarks
                && now >= self.next_bookmark
                && let Some(chunk) = self.bookmark()
            {
                return Some(chunk);
            }
            // Marks the writes as seen before the log is read, so that no write is missed.
            let open = self.written.read().is_ok();
            self.read()?;
            if !self.ready.is_empty() {
                continue;
            }
            if !open || self.is_over {
                return None;
            }
            let deadline = self.subscription.deadline;
            tokio::select! {
                biased;
                () = self.cut.cancelled() => return None,
                () = self.stop.cancelled() => return None,
                // An error means that the resource is no longer served: the watch sends the
                // remaining events in the log, and ends.
                _ = self.written.changed() => {}
                () = definition_written(&mut self.definition) => self.check_definition(),
                () = sleep_until(deadline) => {}
                () = sleep_until(self.next_bookmark), if self.subscription.bookmarks => {}
            }
        }
    }

    /// Lets the watch end soon if the definition of its resource has changed, as the real server does:
    /// it replaces the storage of the resource.
    fn check_definition(&mut self) {
        let resource = &self.subscription.resource;
        let generation = self
            .shared
            .read(|cluster| cluster.definition_generation(resource));
        let is_changed = |it: &DefinitionChanges| it.generation != generation;
        if self.definition.take_if(|it| is_changed(it)).is_some() {
            let end = Instant::now() + AFTER_DEFINITION_CHANGE;
            self.subscription.deadline = self.subscription.deadline.min(end);
        }
    }

    /// Encodes a batch of the initial objects. Returns `None` if changes since the start of the watch
    /// were dropped from the log.
    fn initial(&mut self) -> Option<()> {
        let now = self.shared.now();
        let subscription = &mut self.subscription;
        let mut chunk = Chunk::default();
        while chunk.size < CHUNK
            && let Some(start) = subscription.initial.take()
        {
            let (table, sent) = (&subscription.resource.table, subscription.sent);
            let namespace = subscription.namespace.as_deref();
            let objects: Vec<_> = self
                .shared
                .read(|cluster| {
                    let objects = cluster.store.objects_at(table, sent, start)?;
                    let objects = objects
                        .take_while(|(key, _)| namespace.is_none_or(|it| *key.namespace == *it))
                        .map(|(key, object)| (key.clone(), object.clone()));
                    Ok::<_, Expired>(objects.take(BATCH).collect())
                })
                .inspect_err(|_| tracing::debug!(resource = %table, "closed a slow watch"))
                .ok()?;
            for (key, object) in objects {
                subscription.initial = Some(Bound::Excluded(key));
                if subscription.selects(&object) {
                    chunk.event(&mut subscription.encoder, "ADDED", &object, now);
                }
                // The next call reads the rest of the batch again.
                if chunk.size >= CHUNK {
                    break;
                }
            }
        }
        if subscription.initial.is_none() && std::mem::take(&mut subscription.marks_initial_end) {
            subscription
                .encoder
                .bookmark(&mut chunk.own, subscription.sent, true, now);
        }
        self.ready.extend(chunk.pieces());
        Some(())
    }

    /// Encodes the next events. Returns `None` if some of them were dropped from the log.
    fn read(&mut self) -> Option<()> {
        let now = self.shared.now();
        let subscription = &mut self.subscription;
        let mut chunk = Chunk::default();
        while chunk.is_empty() {
            let (table, sent) = (&subscription.resource.table, subscription.sent);
            let events = self
                .shared
                .read(|cluster| cluster.store.events_after(table, sent, BATCH))
                .inspect_err(|_| tracing::debug!(resource = %table, "closed a slow watch"))
                .ok()?;
            if events.is_empty() {
                break;
            }
            for event in events {
                subscription.sent = event.revision;
                if let Some((kind, object)) = subscription.watch_event(&event) {
                    chunk.event(&mut subscription.encoder, kind, &object, now);
                }
                // The next call reads the rest of the batch from the log again.
                if chunk.size >= CHUNK {
                    break;
                }
            }
        }
        self.ready.extend(chunk.pieces());
        Some(())
    }

    /// Encodes a bookmark. If the log has no unsent events, it first advances the position of the
    /// watch to the newest revision.
    fn bookmark(&mut self) -> Option<Bytes> {
        self.next_bookmark = next_bookmark(self.subscription.deadline);
        let subscription = &mut self.subscription;
        let (table, sent) = (&subscription.resource.table, subscription.sent);
        let revision = self.shared.read(|cluster| {
            let unsent = cluster.store.events_after(table, sent, 1);
            let is_current = unsent.is_ok_and(|events| events.is_empty());
            if is_current {
                cluster.store.revision()
            } else {
                sent
            }
        });
        // A watch from a future resourceVersion sends nothing before that version.
        if sent > revision {
            return None;
        }
        subscription.sent = revision;
        let mut out = Vec::new();
        subscription
            .encoder
            .bookmark(&mut out, subscription.sent, false, self.shared.now());
        Some(out.into())
    }
}

// === impl Chunk ===

impl Chunk {
    fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.own.is_empty()
    }

    fn event(&mut self, encoder: &mut EventEncoder, kind: &str, object: &Stored, now: Timestamp) {
        let before = self.own.len();
        if let Some(body) = encoder.shared_event(&mut self.own, kind, object) {
            self.size += body.len();
            self.sent.push_back(std::mem::take(&mut self.own).into());
            self.sent.push_back(body);
            encode::close_shared(&mut self.own);
        } else {
            encoder.event(&mut self.own, kind, object, now);
            self.size += self.own.len() - before;
        }
    }

    /// Returns the parts of the lines, in order.
    fn pieces(mut self) -> VecDeque<Bytes> {
        if !self.own.is_empty() {
            self.sent.push_back(self.own.into());
        }
        self.sent
    }
}

// === impl Subscription ===

impl Subscription {
    fn selects(&self, object: &Stored) -> bool {
        self.resource.selects(&self.selector, object)
    }

    /// Returns the type and the object of the watch event for a write, or `None` if the watch does
    /// not select it.
    ///
    /// The type is `ADDED` if the selector matches only after the write, and `DELETED` if it matched
    /// only before.
    fn watch_event(&self, event: &Event) -> Option<(&'static str, Arc<Stored>)> {
        if self
            .namespace
            .as_deref()
            .is_some_and(|namespace| *event.key.namespace != *namespace)
        {
            return None;
        }
        let before = event.previous.as_ref();
        let before = before.filter(|previous| self.selects(previous));
        let after = event.change != Change::Deleted && self.selects(&event.object);
        match (before, after) {
            (None, false) => None,
            (None, true) => Some(("ADDED", event.object.clone())),
            (Some(_), true) => Some(("MODIFIED", event.object.clone())),
            (Some(_), false) if event.change == Change::Deleted => {
                Some(("DELETED", event.object.clone()))
            }
            // The last state that the selector matched, with the revision of the write.
            (Some(before), false) => Some(("DELETED", Arc::new(before.at(event.revision)))),
        }
    }
}
