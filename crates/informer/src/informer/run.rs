//! A running informer: from the source into the store, and on to the subscriptions.

use std::{future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Instant, sleep_until},
};
use tracing::Instrument as _;

use super::{InformerError, Shared, resync::ResyncSchedule};
use crate::{
    Event, ObjectIdentity as _, ObjectKey, Problem, Source, Store, Stored, WatchError,
    health::{HealthState, InformerStatus},
    panics, problem,
    source::{Change, Changes},
    store::{Deltas, Writer},
    subscription::{EventEnvelope, Publisher},
    trace,
};

/// A [`Source`] of any type.
pub(super) trait ErasedSource<K: Stored>: Send {
    fn run(&mut self, changes: Changes<K>) -> SourceRun<'_>;
}

type SourceRun<'s> = Pin<Box<dyn Future<Output = Result<(), WatchError>> + Send + 's>>;

/// The source, and the writer of what it sends: for one run at a time, and kept from run to run.
pub(super) struct Ingest<K: Stored> {
    pub(super) source: Box<dyn ErasedSource<K>>,

    /// Kept, because it numbers the lists that the objects of the store were seen in.
    pub(super) writer: Writer<K>,
}

/// How many changes the source may be ahead. Decoding and storing take turns on one task, so
/// this only saves turns.
const AHEAD: usize = 4;

/// How many bytes of objects are delivered before the subscribers have a turn. They would have
/// it anyway; but an object that is used and dropped soon after it was decoded is still in all
/// caches, and leaves its memory to the next one.
const TURN_BYTES: usize = 32 * 1024;

/// How long an object that is not read stays decoded, and how soon it must be read again to
/// stay decoded longer.
const DECODED_TTL: Duration = Duration::from_secs(300);

struct Run<'r, K: Stored> {
    shared: &'r Shared<K>,
    writer: &'r mut Writer<K>,
    publisher: Publisher<K>,

    /// Whether the store is that of an earlier run, and no list of this one is complete. No
    /// subscription is served from such a store.
    is_stale: bool,

    /// Whether a list has begun that is not complete.
    is_listing: bool,

    /// Whether the source was started again for a list that was requested and is not complete.
    is_relisting: bool,

    /// How many objects the list that is being taken has shown, and the most that one of this run
    /// has.
    listed: usize,
    most_listed: usize,

    /// When each object is resynced, and since when; none before the first list is complete, or
    /// if objects are not resynced.
    resync: Option<(Instant, ResyncSchedule)>,

    /// When the store was swept.
    swept: Instant,

    /// How many bytes of objects were delivered since the subscribers had a turn.
    delivered_bytes: usize,
}

/// Runs the informer until it fails; dropping the future stops it.
pub(super) async fn run<K: Stored>(shared: Arc<Shared<K>>) -> InformerError {
    // The run before this one may not have been dropped yet.
    let mut ingest = shared.ingest.lock().await;
    let Ingest { source, writer } = &mut *ingest;
    shared.instruments.correct(shared.store.len());
    let run = Run {
        shared: &shared,
        writer,
        publisher: Publisher::new(Arc::clone(shared.new_subscribers.requested())),
        is_stale: !shared.store.is_empty(),
        is_listing: false,
        is_relisting: false,
        listed: 0,
        most_listed: 0,
        resync: None,
        swept: Instant::now(),
        delivered_bytes: 0,
    };
    let span = trace::informer(&shared.resource);
    let run = run.follow(&mut **source).instrument(span);
    let resource = Arc::clone(&shared.resource);
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(source) => InformerError::Source {
            resource,
            source: Arc::new(source),
        },
        Err(panic) => InformerError::Panicked {
            resource,
            message: panics::panic_message(panic).into(),
        },
    }
}

// === impl Run ===

impl<K: Stored> Run<'_, K> {
    async fn follow(mut self, source: &mut dyn ErasedSource<K>) -> WatchError {
        let shared = self.shared;
        shared.status.send_modify(InformerStatus::start);
        // The run begins with a list, whatever was requested before.
        _ = shared.relist.notified().now_or_never();
        let (sender, mut changes) = mpsc::channel(AHEAD);
        loop {
            let count = shared.new_subscribers.count().clone();
            let version = shared.status.borrow().resource_version.clone();
            let to = Changes::new(sender.clone(), shared.store.clone(), count, version);
            let mut source = source.run(to);
            if let Some(error) = self.follow_source(&mut source, &mut changes).await {
                return error;
            }
            // What it sent before it is stopped came before the list.
            drop(source);
            while let Ok(change) = changes.try_recv() {
                self.change(change).await;
            }
            tracing::info!(resource = %shared.resource, "relist requested, listing");
            shared.instruments.restarted("requested");
            self.is_relisting = true;
        }
    }

    /// Follows `source` until it fails, and returns why; or until another list is requested.
    async fn follow_source(
        &mut self,
        mut source: &mut SourceRun<'_>,
        changes: &mut mpsc::Receiver<Change<K>>,
    ) -> Option<WatchError> {
        let shared = self.shared;
        let mut source_ended = false;
        loop {
            let resync_due = self.resync_due();
            tokio::select! {
                biased;
                () = shared.new_subscribers.added(), if !self.is_stale => {
                    self.replay_to_new().await;
                }
                Some(change) = changes.recv() => {
                    self.changes(change, changes).await;
                    // Requests take turns with changes.
                    if self.publisher.requested().now_or_never().is_some() {
                        self.deliver_requested().await;
                    }
                }
                // Before the source, which brings the changes that it takes turns with.
                () = until(resync_due) => self.resync().await,
                // One after the other, so that each comes to its end.
                () = shared.relist.notified(), if !self.is_relisting => return None,
                end = &mut source, if !source_ended => {
                    source_ended = true;
                    // What it sent before it ended is still in the channel.
                    if let Err(error) = end {
                        return Some(error);
                    }
                }
                // Behind the source: changes come first, and it has had its turn above.
                () = self.publisher.requested() => self.deliver_requested().await,
            }
        }
    }

    /// Takes `first` and what came with it: no more than [`AHEAD`], because the source waits
    /// meanwhile.
    async fn changes(&mut self, first: Change<K>, others: &mut mpsc::Receiver<Change<K>>) {
        let mut next = Some(first);
        while let Some(change) = next {
            self.change(change).await;
            next = others.try_recv().ok();
        }
        if self.delivered_bytes >= TURN_BYTES {
            self.delivered_bytes = 0;
            yield_now().await;
        }
    }

    /// Notes the time if a list shows more objects than one of this run has shown before.
    fn note_progress(&mut self, change: &Change<K>) {
        match change {
            Change::ListStarted => self.listed = 0,
            Change::Applied(_) | Change::Unchanged(_) | Change::Undecodable { .. }
                if self.is_listing =>
            {
                self.listed += 1;
                if self.listed > self.most_listed {
                    self.most_listed = self.listed;
                    self.shared.progress.note();
                }
            }
            _ => {}
        }
    }

    async fn change(&mut self, change: Change<K>) {
        self.note_progress(&change);
        let Shared {
            status,
            instruments,
            resource,
            ..
        } = self.shared;
        match change {
            Change::HistoryWentBack => self.writer.go_back(),
            Change::ListStarted => {
                self.writer.begin();
                self.is_listing = true;
                status.send_modify(|status| {
                    status.state = HealthState::Listing;
                    status.undecodable.clear();
                });
            }
            Change::ListEnded { resource_version } => self.listed(resource_version).await,
            Change::Applied(fresh) => {
                let object = &fresh.kept;
                let was_undecodable = status.send_if_modified(|status| {
                    status.advance_version(object.resource_version());
                    // A key costs allocations, and hardly ever is one undecodable.
                    !status.undecodable.is_empty() && status.undecodable.remove(&object.key())
                });
                let changed = self.writer.apply(fresh);
                // An object that did not decode may have been in a list.
                self.publish_all(changed, self.is_listing || was_undecodable)
                    .await;
            }
            Change::Unchanged(object) => {
                let changed = self.writer.keep(&object);
                self.publish_all(changed, self.is_listing).await;
            }
            Change::Deleted { identity, last } => {
                status.send_if_modified(|status| {
                    status.advance_version(identity.resource_version.as_deref());
                    status.undecodable.remove(&identity.key)
                });
                let changed = self.writer.delete(&identity, last);
                self.publish_all(changed, self.is_listing).await;
            }
            Change::Undecodable { identity, error } => {
                status.send_modify(|status| _ = status.undecodable.insert(identity.key.clone()));
                instruments.undecodable();
                self.report(&Problem::Object {
                    resource,
                    key: &identity.key,
                    error: &error,
                });
                let changed = self.writer.keep(&identity);
                self.publish_all(changed, self.is_listing).await;
            }
            Change::Progress { resource_version } => {
                self.sweep();
                status.send_if_modified(|status| {
                    status.advance_version(Some(&resource_version));
                    false
                });
            }
            Change::Connected => {
                status.send_modify(|status| status.state = HealthState::Watching);
            }
            Change::Ended => {
                self.sweep();
                instruments.restarted("ended");
            }
            Change::Interrupted { error, retry_in } => {
                self.sweep();
                instruments.restarted(error.reason());
                self.report(&Problem::Watch {
                    resource,
                    error: &error,
                    retry_in,
                });
                status.send_modify(|status| {
                    status.state = HealthState::Down {
                        error: Arc::new(error),
                    };
                });
            }
        }
    }

    /// A list is complete: the objects that were not in it are gone.
    async fn listed(&mut self, resource_version: Option<String>) {
        let shared = self.shared;
        for key in self.writer.unmarked() {
            let changed = self.writer.sweep(&key);
            self.publish_all(changed, true).await;
        }
        self.writer.end();
        self.is_listing = false;
        let is_first = !shared.status.borrow().synced;
        shared.status.send_modify(|status| {
            status.synced = true;
            status.state = HealthState::Watching;
            status.list_version.clone_from(&resource_version);
            if let Some(version) = resource_version {
                status.resource_version = Some(version);
            }
        });
        shared.instruments.listed();
        let was_requested = std::mem::take(&mut self.is_relisting);
        if !is_first {
            if was_requested {
                self.publish_synced().await;
            }
            return;
        }
        let period = shared.settings.resync;
        self.resync = period.map(|period| (Instant::now(), ResyncSchedule::new(period)));
        if self.is_stale {
            self.is_stale = false;
            self.replay_to_new().await;
        } else {
            self.publish_synced().await;
        }
    }

    /// Delivers that a list was delivered.
    async fn publish_synced(&mut self) {
        let synced = EventEnvelope::synced().in_epoch(self.shared.store.epoch());
        self.publisher.publish(synced).await;
    }

    /// Delivers the objects of the store to new subscribers, and every event from then on.
    async fn replay_to_new(&mut self) {
        let Shared {
            store,
            status,
            resource,
            new_subscribers,
            ..
        } = self.shared;
        for mut subscriber in new_subscribers.take_all() {
            let synced = status.borrow().synced;
            // With the keys of the store, which are shared with it.
            let there = store.entries().into_iter();
            let there = there.filter_map(|(key, kept)| {
                let (object, kept) = kept.open()?;
                let event = Event::Added(object);
                let span = trace::event(resource, &event);
                let envelope = EventEnvelope::about(key, event, kept, span).listed(true);
                Some(envelope.in_epoch(store.epoch()))
            });
            let last = || EventEnvelope::synced().in_epoch(store.epoch());
            let mut all = there.chain(synced.then(last));
            let mut batch = Vec::new();
            loop {
                batch.extend(all.by_ref().take(subscriber.batch_size()));
                if batch.is_empty() {
                    break;
                }
                subscriber.deliver_batch(&mut batch).await;
            }
            self.publisher.admit(subscriber);
        }
    }

    async fn publish_all(&mut self, changed: Deltas<K>, from_list: bool) {
        let shared = self.shared;
        for delta in changed {
            shared.instruments.changed(&delta.delta_type);
            // A later subscriber receives a replay of the store.
            if self.is_stale || !shared.new_subscribers.count().any() {
                continue;
            }
            self.delivered_bytes += delta.object.bytes;
            let restored = delta.restored;
            if let Some((key, event, kept)) = delta.into_event() {
                let span = trace::event(&shared.resource, &event);
                let envelope = EventEnvelope::about(key, event, kept, span);
                let envelope = envelope.listed(from_list).restored(restored);
                self.publish(envelope.in_epoch(shared.store.epoch())).await;
            }
        }
    }

    async fn publish(&mut self, envelope: EventEnvelope<K>) {
        let span = envelope.span.clone();
        self.publisher.publish(envelope).instrument(span).await;
    }

    /// Delivers one object to each subscriber that asked for objects. Here, between two changes,
    /// everything that is in the store has been delivered.
    async fn deliver_requested(&mut self) {
        let Shared {
            store, resource, ..
        } = self.shared;
        let current = |key: &ObjectKey| Some(current(resource, store, key)?.requested());
        self.publisher.deliver_requested(current).await;
    }

    /// When the next resync is due, or the next keys are to be read for it.
    fn resync_due(&self) -> Option<Instant> {
        let (began, schedule) = self.resync.as_ref()?;
        began.checked_add(schedule.due()?)
    }

    /// Resyncs one object, or reads the keys of the next ones.
    async fn resync(&mut self) {
        let shared = self.shared;
        let Some((began, schedule)) = &mut self.resync else {
            return;
        };
        let Some(key) = schedule.take() else {
            schedule.begin(began.elapsed(), |wanted| shared.store.keys_where(wanted));
            return;
        };
        if let Some(envelope) = current(&shared.resource, &shared.store, &key) {
            shared.instruments.resynced();
            self.publish(envelope).await;
        }
    }

    /// Sweeps the store, if it is time. Called when a watch shows that it is alive, which is once
    /// a minute, or that it is not: no timer is needed for this.
    fn sweep(&mut self) {
        if self.swept.elapsed() >= DECODED_TTL {
            self.swept = Instant::now();
            self.shared.store.evict_unread();
        }
    }

    fn report(&self, problem: &Problem<'_>) {
        let handler = &self.shared.settings.on_error;
        if let Err(message) = panics::catch(|| handler(problem)) {
            let resource = &self.shared.resource;
            tracing::error!(%resource, panic = %message, "error handler panicked, logging the problem instead");
            problem::log(problem);
        }
    }
}

impl<K: Stored, S: Source<K>> ErasedSource<K> for S {
    fn run(&mut self, changes: Changes<K>) -> SourceRun<'_> {
        Box::pin(Source::run(self, changes))
    }
}

/// The object of `key` as the store has it, as a resync.
fn current<K: Stored>(
    resource: &str,
    store: &Store<K>,
    key: &ObjectKey,
) -> Option<EventEnvelope<K>> {
    let (object, kept) = store.get_lazy(key)?.open()?;
    let event = Event::Resynced(object);
    let span = trace::event(resource, &event);
    Some(EventEnvelope::about(key.clone(), event, kept, span).in_epoch(store.epoch()))
}

/// Waits until `due`, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
