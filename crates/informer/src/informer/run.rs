//! A running informer: applies the changes of the source to the store, and publishes the events.

mod publish;

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
};

use futures::FutureExt as _;
use tokio::{sync::mpsc, time::Instant};

use super::{InformerError, Shared, resync::ResyncSchedule, status::InformerStatus};
use crate::{
    HealthState, HistoryWentBack, IncomingObject, ObjectIdentity as _, Problem, Source, Stored,
    WatchError, log, panics, problem,
    source::{Change, Changes, until},
    store::Writer,
    subscription::Publisher,
    trace,
};

/// A [`Source`] of any type.
pub(super) trait ErasedSource<K: Stored>: Send {
    fn run(&mut self, changes: Changes<K>) -> SourceRun<'_>;
}

type SourceRun<'s> = Pin<Box<dyn Future<Output = Result<(), WatchError>> + Send + 's>>;

/// The source of an informer and the writer of its store. One run at a time uses them, and they are
/// kept for the next run.
pub(super) struct SourceAndWriter<K: Stored> {
    pub(super) source: Box<dyn ErasedSource<K>>,

    /// Kept between runs, because it numbers the lists that marked the objects of the store.
    pub(super) writer: Writer<K>,
}

/// How many changes the source may be ahead. Decoding and storing alternate on one task, so a
/// larger channel only saves task switches.
const CHANGE_BUFFER: usize = 4;

/// One run of an informer.
struct Run<'r, K: Stored> {
    shared: &'r Shared<K>,
    writer: &'r mut Writer<K>,
    publisher: Publisher<K>,

    /// Whether the store is from an earlier run and no list of this run is complete. Such a store
    /// is not replayed to subscriptions.
    is_stale: bool,

    /// Whether a list has begun and is not complete.
    is_listing: bool,

    /// What showed that the history went back, until the list after it is complete.
    went_back: Option<HistoryWentBack>,

    /// Whether the source was restarted for a requested relist that is not complete.
    is_relisting: bool,

    /// How many objects the current list has shown, and the largest such number of this run.
    listed: usize,
    most_listed: usize,

    /// The start and the schedule of the resyncs. `None` before the first list is complete, and
    /// without resyncs.
    resync: Option<(Instant, ResyncSchedule)>,
}

/// Runs the informer until it fails. Dropping the future stops it.
pub(super) async fn run<K: Stored>(shared: Arc<Shared<K>>) -> InformerError {
    // The previous run may not have been dropped yet.
    let mut source_and_writer = shared.source_and_writer.lock().await;
    let SourceAndWriter { source, writer } = &mut *source_and_writer;
    shared.instruments.correct(shared.store.len());
    if let Some(InformerError::Panicked { .. }) = &shared.status.borrow().failure {
        // An index may lack the last change: the list stores each object again.
        writer.begin_epoch();
    }
    let run = Run {
        shared: &shared,
        writer,
        publisher: Publisher::new(Arc::clone(&shared.new_subscribers)),
        is_stale: !shared.store.is_empty(),
        is_listing: false,
        went_back: None,
        is_relisting: false,
        listed: 0,
        most_listed: 0,
        resync: None,
    };
    let span = trace::informer(&shared.resource, shared.namespaces.as_deref());
    let run = pin!(run.run_source(&mut **source));
    let run = span.within(run);
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
    /// Runs `source`, and restarts it for each requested relist. Returns the error of the source.
    async fn run_source(mut self, source: &mut dyn ErasedSource<K>) -> WatchError {
        let shared = self.shared;
        shared.status.send_modify(InformerStatus::start);
        // A run begins with a list, so earlier requests are obsolete.
        _ = shared.relist.notified().now_or_never();
        let (sender, mut changes) = mpsc::channel(CHANGE_BUFFER);
        loop {
            let count = shared.new_subscribers.count().clone();
            let version = shared.status.borrow().resource_version.clone();
            let to = Changes::new(sender.clone(), shared.store.clone(), count, version);
            let mut source = source.run(to);
            if let Some(error) = self.follow_source(&mut source, &mut changes).await {
                return error;
            }
            // Changes that the source sent before the restart precede the list.
            drop(source);
            while let Ok(change) = changes.try_recv() {
                self.apply_change(change).await;
            }
            log::info!(resource = %shared.resource, "relist requested, listing");
            shared.instruments.restarted("requested");
            self.is_relisting = true;
        }
    }

    /// Runs `source` until it fails, and returns the error; or returns `None` when a relist is
    /// requested.
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
                    self.apply_changes(change, changes).await;
                    // Requests and changes alternate.
                    if self.publisher.requested().now_or_never().is_some() {
                        self.deliver_requested().await;
                    }
                }
                // Not while a requested list is incomplete, so that each requested list becomes
                // complete.
                () = shared.relist.notified(), if !self.is_relisting => return None,
                end = &mut source, if !source_ended => {
                    source_ended = true;
                    // The channel may still have changes.
                    if let Err(error) = end {
                        return Some(error);
                    }
                }
                // After the source, so that resyncs and changes alternate: it sends changes only while
                // it is polled.
                () = until(resync_due) => self.resync().await,
                // Last: while changes arrive, requests had a turn above.
                () = self.publisher.requested() => self.deliver_requested().await,
            }
        }
    }

    /// Applies `first` and the changes that wait, at most [`CHANGE_BUFFER`], because the source waits
    /// meanwhile.
    async fn apply_changes(&mut self, first: Change<K>, others: &mut mpsc::Receiver<Change<K>>) {
        let mut next = Some(first);
        while let Some(change) = next {
            self.apply_change(change).await;
            next = others.try_recv().ok();
        }
    }

    /// Notes the time if a list shows more objects than earlier lists of this run.
    fn note_progress(&mut self, change: &Change<K>) {
        match change {
            Change::ListStarted => self.listed = 0,
            Change::Applied(_) | Change::Unchanged(_) | Change::Undecodable { .. }
                if self.is_listing =>
            {
                self.listed += 1;
                if self.listed > self.most_listed {
                    self.most_listed = self.listed;
                    *self.shared.list_progress.lock() = Some(Instant::now());
                }
            }
            _ => {}
        }
    }

    /// Applies one change of the source, and publishes the resulting events.
    async fn apply_change(&mut self, change: Change<K>) {
        self.note_progress(&change);
        let Shared {
            status,
            instruments,
            resource,
            ..
        } = self.shared;
        match change {
            Change::HistoryWentBack(went_back) => {
                self.writer.begin_epoch();
                status.send_modify(|status| status.went_back = Some(went_back.clone()));
                // Before the first event of the new history.
                self.publisher.history_went_back(&went_back);
                self.went_back = Some(went_back);
            }
            Change::ListStarted => {
                self.writer.begin();
                self.is_listing = true;
                status.send_modify(InformerStatus::begin_list);
            }
            Change::ListEnded { resource_version } => self.end_list(resource_version).await,
            Change::Applied(incoming) => self.apply_object(incoming).await,
            Change::Unchanged(object) => {
                let changed = self.writer.keep(&object);
                self.publish_all(changed, self.is_listing).await;
            }
            Change::Deleted { identity, last } => {
                let changed = self.writer.delete(&identity, last);
                status.send_if_modified(|status| {
                    status.advance_version(identity.resource_version.as_deref());
                    status.undecodable.remove(&identity.key).is_some()
                });
                self.publish_all(changed, self.is_listing).await;
            }
            Change::Undecodable {
                identity,
                error,
                finalizers,
            } => {
                instruments.undecodable();
                let problem = Problem::Object {
                    resource,
                    key: &identity.key,
                    error: &error,
                    finalizers: &finalizers,
                };
                let text = problem.to_string();
                if status.send_if_modified(|status| status.add_undecodable(&identity.key, text)) {
                    self.report(&problem);
                }
                let changed = self.writer.keep(&identity);
                self.publish_all(changed, self.is_listing).await;
            }
            Change::Progress { resource_version } => {
                status.send_if_modified(|status| {
                    status.advance_version(Some(&resource_version));
                    false
                });
            }
            Change::Connected => {
                status.send_modify(|status| status.state = HealthState::Watching);
            }
            Change::Ended => {
                instruments.restarted("ended");
            }
            Change::Interrupted { error, retry_in } => {
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

    /// Stores an object that was created or updated.
    async fn apply_object(&mut self, incoming: IncomingObject<K>) {
        let status = &self.shared.status;
        let object = incoming.lazy.clone();
        let was_undecodable = status.send_if_modified(|status| {
            // Building a key allocates, and objects are rarely undecodable.
            !status.undecodable.is_empty() && status.undecodable.remove(&object.key()).is_some()
        });
        let changed = self.writer.apply(incoming);
        // After the store: a reader that sees the version also sees the object.
        status.send_if_modified(|status| {
            status.advance_version(object.resource_version());
            false
        });
        // The list may have shown the object while it did not decode.
        self.publish_all(changed, self.is_listing || was_undecodable)
            .await;
    }

    /// Ends a list: removes the objects that it did not show.
    async fn end_list(&mut self, resource_version: Option<String>) {
        let shared = self.shared;
        for key in self.writer.unmarked() {
            let changed = self.writer.sweep(&key);
            self.publish_all(changed, true).await;
        }
        let went_back = self.went_back.take().is_some();
        self.is_listing = false;
        let is_first = !shared.status.borrow().synced;
        (shared.status).send_modify(|status| status.end_list(resource_version));
        shared.instruments.listed();
        let was_requested = std::mem::take(&mut self.is_relisting);
        if !is_first {
            if was_requested || went_back {
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

    fn report(&self, problem: &Problem<'_>) {
        let handler = &self.shared.settings.on_error;
        if let Err(message) = panics::catch(|| handler(problem)) {
            let resource = &self.shared.resource;
            log::error!(%resource, panic = %message, "error handler panicked, logging the problem instead");
            problem::log(problem);
        }
    }
}

impl<K: Stored, S: Source<K>> ErasedSource<K> for S {
    fn run(&mut self, changes: Changes<K>) -> SourceRun<'_> {
        Box::pin(Source::run(self, changes))
    }
}
