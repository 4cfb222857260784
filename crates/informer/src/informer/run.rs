//! The life of an informer: from the source into the store, and on to the subscribers.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{InformerError, Shared, resync::Round};
use crate::{
    Event, Named as _, ObjectKey, Problem, Source, Store, Stored, WatchError,
    health::HealthState,
    source::{Change, Changes},
    store::{Changed, Writer},
    subscription::Told,
    trace,
};

/// A [`Source`] of whatever type.
pub(super) trait ErasedSource<K: Stored>: Send {
    fn run(
        self: Box<Self>,
        changes: Changes<K>,
    ) -> Pin<Box<dyn Future<Output = Result<(), WatchError>> + Send>>
    where
        K: 'static;
}

/// How many changes the source may be ahead. Decoding and storing take turns on one task, so
/// this only saves turns.
const AHEAD: usize = 4;

/// How many bytes of objects are told before those who are told have a turn. They would have it
/// anyway; but an object that is used and dropped soon after it was decoded is still in all
/// caches, and leaves the next one the room that it had.
const RUN: usize = 32 * 1024;

/// How long it takes for what nobody reads not to be held decoded any more, and how soon
/// something must be read again to be.
const WHILE: Duration = Duration::from_secs(300);

struct Run<'i, K: Stored> {
    shared: &'i Shared<K>,
    writer: Writer<K>,
    stop: CancellationToken,

    /// When the store was swept.
    swept: Instant,

    /// How many bytes of objects were told since others had a turn.
    told: usize,
}

/// The informer is to stop.
struct Stop;

pub(super) async fn run<K: Stored>(
    shared: &Shared<K>,
    source: Box<dyn ErasedSource<K>>,
    stop: CancellationToken,
) -> Result<(), InformerError> {
    /// Whoever waits must learn of the end, however it comes.
    struct Ended<'i, K: Stored>(&'i Shared<K>);

    impl<K: Stored> Drop for Ended<'_, K> {
        fn drop(&mut self) {
            self.0.subscribers.close();
            self.0
                .pulse
                .send_modify(|pulse| pulse.state = HealthState::Stopped);
        }
    }

    let ended = Ended(shared);
    let run = Run {
        shared,
        writer: Writer::new(shared.store.clone()),
        stop,
        swept: Instant::now(),
        told: 0,
    };
    let span = trace::informer(&shared.resource);
    let outcome = run.follow(source).instrument(span).await;
    drop(ended);
    outcome.map_err(|source| InformerError::Source {
        resource: Arc::clone(&shared.resource),
        source,
    })
}

// === impl Run ===

impl<K: Stored> Run<'_, K> {
    async fn follow(mut self, source: Box<dyn ErasedSource<K>>) -> Result<(), WatchError> {
        self.shared
            .pulse
            .send_modify(|pulse| pulse.state = HealthState::Listing);
        let (sender, mut changes) = mpsc::channel(AHEAD);
        let mut source = source.run(Changes::new(
            sender,
            self.shared.store.clone(),
            self.shared.subscribers.heard().clone(),
        ));
        let mut source_ended = false;
        let mut round = None;
        let stop = self.stop.clone();
        // Once, and not for each change: to begin to wait takes a lock.
        let mut stopped = pin!(stop.cancelled());
        loop {
            let next_resync = round.as_ref().map(Round::next);
            let outcome = tokio::select! {
                biased;
                () = &mut stopped => return Ok(()),
                () = self.shared.subscribers.arrival() => self.welcome().await,
                Some(change) = changes.recv() => {
                    let outcome = self.changes(change, &mut changes).await;
                    if round.is_none() && self.shared.pulse.borrow().synced {
                        round = self.begin_round();
                    }
                    // What is asked for takes turns with what changes.
                    let asked = self.shared.subscribers.recalled().now_or_never();
                    match (outcome, asked) {
                        (Ok(()), Some(())) => self.recall().await,
                        (outcome, _) => outcome,
                    }
                }
                () = until(next_resync) => self.resync(&mut round).await,
                end = &mut source, if !source_ended => {
                    source_ended = true;
                    // What it told before it ended is still to be taken.
                    end.map(|()| Ok(()))?
                }
                // Behind the source, which brings the changes that it takes turns with.
                () = self.shared.subscribers.recalled() => self.recall().await,
            };
            if let Err(Stop) = outcome {
                return Ok(());
            }
        }
    }

    /// Takes `first` and what came with it: no more than [`AHEAD`], because the source waits
    /// meanwhile.
    async fn changes(
        &mut self,
        first: Change<K>,
        others: &mut mpsc::Receiver<Change<K>>,
    ) -> Result<(), Stop> {
        let mut next = Some(first);
        while let Some(change) = next {
            self.change(change).await?;
            next = others.try_recv().ok();
        }
        if self.told >= RUN {
            self.told = 0;
            yield_now().await;
        }
        Ok(())
    }

    async fn change(&mut self, change: Change<K>) -> Result<(), Stop> {
        let shared = self.shared;
        match change {
            Change::HistoryWentBack => {
                self.writer.go_back();
                Ok(())
            }
            Change::ListStarted => {
                self.writer.begin();
                shared.pulse.send_modify(|pulse| {
                    pulse.state = HealthState::Listing;
                    pulse.undecodable.clear();
                });
                Ok(())
            }
            Change::ListEnded { resource_version } => self.listed(resource_version).await,
            Change::Applied(fresh) => {
                let object = &fresh.kept;
                shared.pulse.send_if_modified(|pulse| {
                    pulse.moved(object.resource_version());
                    // A key costs allocations, and hardly ever is anything aside.
                    !pulse.undecodable.is_empty() && pulse.undecodable.remove(&object.key())
                });
                let told = self.writer.apply(fresh);
                self.tell_all(told).await
            }
            Change::Unchanged(object) => {
                let told = self.writer.keep(&object);
                self.tell_all(told).await
            }
            Change::Deleted { identity, last } => {
                shared.pulse.send_if_modified(|pulse| {
                    pulse.moved(identity.resource_version.as_deref());
                    pulse.undecodable.remove(&identity.key)
                });
                let told = self.writer.delete(&identity, last);
                self.tell_all(told).await
            }
            Change::Undecodable { identity, error } => {
                shared
                    .pulse
                    .send_modify(|pulse| _ = pulse.undecodable.insert(identity.key.clone()));
                shared.instruments.undecodable();
                self.report(&Problem::Object {
                    resource: &shared.resource,
                    key: &identity.key,
                    error: &error,
                });
                let told = self.writer.keep(&identity);
                self.tell_all(told).await
            }
            Change::Progress { resource_version } => {
                self.sweep();
                shared.pulse.send_if_modified(|pulse| {
                    pulse.moved(Some(&resource_version));
                    false
                });
                Ok(())
            }
            Change::Connected => {
                shared
                    .pulse
                    .send_modify(|pulse| pulse.state = HealthState::Watching);
                Ok(())
            }
            Change::Ended => {
                self.sweep();
                shared.instruments.restarted("ended");
                Ok(())
            }
            Change::Interrupted { error, retry_in } => {
                self.sweep();
                shared.instruments.restarted(error.reason());
                self.report(&Problem::Watch {
                    resource: &shared.resource,
                    error: &error,
                    retry_in,
                });
                shared.pulse.send_modify(|pulse| {
                    pulse.state = HealthState::Down {
                        error: Arc::new(error),
                    };
                });
                Ok(())
            }
        }
    }

    /// A picture is whole: whatever it did not show is gone.
    async fn listed(&mut self, resource_version: Option<String>) -> Result<(), Stop> {
        for key in self.writer.unmarked() {
            let told = self.writer.sweep(&key);
            self.tell_all(told).await?;
        }
        let first = !self.shared.pulse.borrow().synced;
        self.shared.pulse.send_modify(|pulse| {
            pulse.synced = true;
            pulse.state = HealthState::Watching;
            if let Some(version) = resource_version {
                pulse.resource_version = Some(version);
            }
        });
        self.shared.instruments.listed();
        if first {
            self.tell(Told::synced()).await?;
        }
        Ok(())
    }

    /// Tells new subscribers what is there already.
    async fn welcome(&mut self) -> Result<(), Stop> {
        let stop = self.stop.clone();
        // Once, and not for each run: to begin to wait takes a lock.
        let mut stopped = pin!(stop.cancelled());
        while let Some(mut subscriber) = self.shared.subscribers.next_arrival() {
            let synced = self.shared.pulse.borrow().synced;
            // With the names that the store has, which are nobody else's to keep.
            let there = self.shared.store.entries().into_iter();
            let there = there.filter_map(|(key, kept)| {
                let (object, kept) = kept.open()?;
                let event = Event::Added(object);
                let span = trace::event(&self.shared.resource, &event);
                Some(Told::about(key, event, kept, span))
            });
            let mut all = there.chain(synced.then(Told::synced));
            let mut run = Vec::new();
            loop {
                run.extend(all.by_ref().take(subscriber.run()));
                if run.is_empty() {
                    break;
                }
                tokio::select! {
                    biased;
                    () = &mut stopped => return Err(Stop),
                    () = subscriber.tell_run(&mut run) => {}
                }
            }
            self.shared.subscribers.admit(subscriber);
        }
        Ok(())
    }

    async fn tell_all(&mut self, told: Changed<K>) -> Result<(), Stop> {
        for news in told {
            self.shared.instruments.changed(&news.what);
            // Whoever comes later is told what is there.
            if !self.shared.subscribers.heard().by_any() {
                continue;
            }
            self.told += news.object.bytes;
            if let Some((key, event, kept)) = news.told() {
                let span = trace::event(&self.shared.resource, &event);
                self.tell(Told::about(key, event, kept, span)).await?;
            }
        }
        Ok(())
    }

    async fn tell(&mut self, told: Told<K>) -> Result<(), Stop> {
        let span = told.span.clone();
        let mut tell = pin!(self.shared.subscribers.tell(told).instrument(span));
        if tell.as_mut().now_or_never().is_some() {
            // There was room, as there mostly is.
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stop),
            () = tell => Ok(()),
        }
    }

    /// Tells those who asked of one object each, as it is. Here, between two changes, everything
    /// that is in the store has been told.
    async fn recall(&mut self) -> Result<(), Stop> {
        let shared = self.shared;
        let again = |key: &ObjectKey| Some(again(&shared.resource, &shared.store, key)?.again());
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stop),
            () = shared.subscribers.recall(again) => Ok(()),
        }
    }

    fn begin_round(&self) -> Option<Round<Instant>> {
        let period = self.shared.settings.resync?;
        Some(Round::new(self.shared.store.keys(), period, Instant::now()))
    }

    async fn resync(&mut self, round: &mut Option<Round<Instant>>) -> Result<(), Stop> {
        match round.as_mut().and_then(Round::take) {
            None => *round = self.begin_round(),
            Some(key) => {
                if let Some(told) = again(&self.shared.resource, &self.shared.store, &key) {
                    self.shared.instruments.resynced();
                    self.tell(told).await?;
                }
            }
        }
        Ok(())
    }

    /// Sweeps the store, if it is time. Asked when a watch says that it lives, which is once a
    /// minute, or that it does not: nothing ticks for this.
    fn sweep(&mut self) {
        if self.swept.elapsed() >= WHILE {
            self.swept = Instant::now();
            self.shared.store.sweep();
        }
    }

    fn report(&self, problem: &Problem<'_>) {
        (self.shared.settings.on_error)(problem);
    }
}

impl<K: Stored, S: Source<K>> ErasedSource<K> for S {
    fn run(
        self: Box<Self>,
        changes: Changes<K>,
    ) -> Pin<Box<dyn Future<Output = Result<(), WatchError>> + Send>>
    where
        K: 'static,
    {
        Box::pin(Source::run(*self, changes))
    }
}

/// The object of `key` as it is, told again, if it is there.
fn again<K: Stored>(resource: &str, store: &Store<K>, key: &ObjectKey) -> Option<Told<K>> {
    let (object, kept) = store.kept(key)?.open()?;
    let event = Event::Resynced(object);
    let span = trace::event(resource, &event);
    Some(Told::about(key.clone(), event, kept, span))
}

/// Waits until `due`, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
