//! The tasks of a running controller: start, supervision and stop.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::{
    task::{JoinError, JoinSet, yield_now},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use windlass_informer::{InformerId, log, panic_message};

use super::{
    Shared,
    drain::OnStop,
    engine::LaneGuard,
    queued::{QueuedEvent, RepeatableCall},
    shared::FeedEntry,
    snapshot::RouteSnapshot,
    turn,
};
use crate::{
    RunError,
    route::KindId,
    schedule::{Moment, Work},
};

/// A worker yields after this number of turns, because handlers that never wait would otherwise
/// block all other tasks of the thread. The same number as tokio's budget of a task, which is not
/// consulted here.
const TURNS_BEFORE_YIELD: u32 = 128;

/// How a task ended.
type Ended = Result<(), RunError>;

/// The kinds that wait for their informers.
struct SyncGates {
    /// Whether all kinds wait, because an informer of the start has not synced.
    all: bool,
    /// Whether the informers of the start have synced. From then on, an informer that does not sync
    /// is reported and ends nothing.
    has_started: bool,
    /// The kinds that wait for an informer of their own: it was added later, or the kind is
    /// optional.
    kinds: Vec<KindId>,
    /// The informers that were reported.
    reported: HashSet<InformerId>,
}

/// Releases what the controller has claimed when the run ends or is dropped.
struct RunGuard(Arc<Shared>);

pub(super) async fn run(shared: &Arc<Shared>, stop: CancellationToken) -> Result<(), RunError> {
    let _run = RunGuard(Arc::clone(shared));
    if let Some(kind) = shared.route.read().without_informer() {
        return Err(RunError::NoInformer { kind });
    }
    let stop = stop.child_token();
    // Dropping this future also stops the informers. The tasks end with the `JoinSet`.
    let _stop = stop.clone().drop_guard();
    let mut gates = SyncGates {
        all: !shared.settings.start_before_sync,
        has_started: shared.settings.start_before_sync,
        kinds: Vec::new(),
        reported: HashSet::new(),
    };
    shared.engine.set_gate(None, !gates.all);
    let drains = shared.settings.on_stop == OnStop::Drain;
    let mut tasks = JoinSet::new();
    tasks.spawn(keep_time(Arc::clone(shared), stop.clone()));
    tasks.spawn(report_long_calls(Arc::clone(shared), stop.clone()));
    let mut workers = JoinSet::new();
    let drained = CancellationToken::new();
    for _ in 0..shared.settings.concurrency.get() {
        // Separate tokens, because a shared one is one lock for all workers.
        let stop = stop.child_token();
        let end = if drains {
            drained.child_token()
        } else {
            stop.clone()
        };
        workers.spawn(worker(Arc::clone(shared), stop, end));
    }

    let mut outcome = Ok(());
    while outcome.is_ok() && !stop.is_cancelled() {
        start(shared, &mut tasks, &stop, &mut gates);
        gates.open(shared);
        let deadline = gates.deadline(shared);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = shared.feeds_changed.notified() => {}
            () = shared.synced.notified() => {}
            Some(ended) = tasks.join_next() => outcome = flatten(ended),
            Some(ended) = workers.join_next() => outcome = flatten(ended),
            () = shared.engine.until(deadline) => outcome = gates.check(shared),
        }
    }

    stop.cancel();
    if matches!(outcome, Err(RunError::HistoryWentBack { .. })) {
        // What is queued never happened on this server: it is not drained either.
        shared.engine.set_gate(None, false);
    }
    if drains {
        shared.engine.cancel_all();
    }
    // The workers drain the queue after the informers have filled it.
    for mut tasks in [tasks, workers] {
        while let Some(ended) = tasks.join_next().await {
            // The first error is the cause of the later ones.
            outcome = outcome.and(flatten(ended));
        }
        drained.cancel();
    }
    outcome
}

/// Starts the informers that are not started.
fn start(
    shared: &Arc<Shared>,
    tasks: &mut JoinSet<Ended>,
    stop: &CancellationToken,
    gates: &mut SyncGates,
) {
    // An informer that is being added has read which others are started.
    let _registration = shared.registration.lock();
    let mut feeds = shared.feeds.write();
    for entry in feeds.iter_mut().filter(|entry| !entry.started) {
        entry.started = true;
        let kind = entry.kind;
        // Before the informer can queue events.
        if !entry.optional && shared.gates_late_informers() {
            shared.engine.set_gate(None, false);
            gates.all = true;
        } else if (entry.optional || !gates.all) && !shared.settings.start_before_sync {
            shared.engine.set_gate(Some(kind), false);
            gates.kinds.push(kind);
        }
        shared.route.write().expect_handlers(kind);
        // Stopped with the controller, or when the informer is removed.
        let own = entry.stop.clone();
        let whole = stop.child_token();
        let either = whole.clone();
        tasks.spawn(async move {
            either.run_until_cancelled(own.cancelled()).await;
            either.cancel();
            Ok(())
        });
        // It counts as a caller of `run` from this call on. Therefore it subscribes to this run of
        // the informer.
        let informer = Arc::clone(&entry.feed).run(whole.clone());
        let enqueue_events =
            Arc::clone(&entry.feed).enqueue_events(Arc::clone(shared), kind, whole);
        let name = shared.route.read().name(kind);
        let (kind, name) = (name.to_string(), name.to_string());
        tasks.spawn(async move {
            let ended = enqueue_events.await;
            ended.map_err(|source| RunError::HistoryWentBack { kind, source })
        });
        tasks.spawn(async move {
            let ended = informer.await;
            ended.map_err(|source| RunError::Informer { kind: name, source })
        });
    }
}

// === impl SyncGates ===

impl SyncGates {
    /// Opens the gates of the kinds whose informers have synced. From then on, kinds without handlers
    /// queue no events, and those of their first lists are dropped.
    fn open(&mut self, shared: &Shared) {
        // Locked until the events are dropped: a handler that is added before gets them.
        let registration = shared.registration.lock();
        self.open_gates(shared);
        let is_open = |kind| !self.all && !self.kinds.contains(&kind);
        let unhandled = shared.route.write().stop_unhandled(is_open);
        let purged: Vec<_> = (unhandled.into_iter())
            .map(|kind| shared.engine.purge(kind))
            .collect();
        // The objects are dropped without a lock.
        drop(registration);
        drop(purged);
    }

    fn open_gates(&mut self, shared: &Shared) {
        // Locked until the gates are open: an informer that is added later closes them again.
        let feeds = shared.feeds.read();
        // The informer may have been removed before it was started.
        self.all |= shared.take_closed_gate();
        let synced = |kind: Option<KindId>| {
            let mut feeds = feeds
                .iter()
                .filter(|entry| kind.map_or(!entry.optional, |it| it == entry.kind));
            feeds.all(|entry| entry.feed.has_synced())
        };
        if self.all && synced(None) {
            (self.all, self.has_started) = (false, true);
            shared.engine.set_gate(None, true);
        }
        self.kinds.retain(|kind| {
            let open = synced(Some(*kind));
            if open {
                shared.engine.set_gate(Some(*kind), true);
            }
            !open
        });
    }

    fn are_open(&self) -> bool {
        !self.all && self.kinds.is_empty()
    }

    /// Whether `entry` must sync within the timeout and was not reported.
    fn is_awaited(&self, entry: &FeedEntry) -> bool {
        !entry.optional
            && !entry.feed.has_synced()
            && !self.reported.contains(&entry.feed.informer())
    }

    /// When to check for informers without progress.
    fn deadline(&self, shared: &Shared) -> Option<Moment> {
        let timeout = shared.settings.cache_sync_timeout?;
        if self.are_open() {
            return None;
        }
        let feeds = shared.feeds.read();
        let now = shared.engine.now();
        let unsynced = feeds.iter().filter(|entry| self.is_awaited(entry));
        let left = unsynced.map(|entry| timeout.saturating_sub(entry.feed.idle(now)));
        left.min().map(|left| now + left)
    }

    /// Returns an error if an informer of the start has made no progress for the timeout. Logs each
    /// later informer for which that is so, once.
    fn check(&mut self, shared: &Shared) -> Result<(), RunError> {
        let Some(timeout) = shared.settings.cache_sync_timeout else {
            return Ok(());
        };
        let now = shared.engine.now();
        let feeds = shared.feeds.read();
        let late: Vec<_> = (feeds.iter())
            .filter(|entry| self.is_awaited(entry) && entry.feed.idle(now) >= timeout)
            .collect();
        let name = |entry: &FeedEntry| shared.route.read().name(entry.kind);
        if self.has_started {
            for entry in late {
                log::warn!(
                    component = "InformerController",
                    kind = &*name(entry),
                    health = %entry.feed.health(),
                    ?timeout,
                    "an informer that was added later has not synced, its handlers wait"
                );
                self.reported.insert(entry.feed.informer());
            }
            return Ok(());
        }
        if late.is_empty() {
            return Ok(());
        }
        let named: Vec<_> = (late.iter())
            .map(|entry| format!("{} ({})", name(entry), entry.feed.health()))
            .collect();
        Err(RunError::NotSynced {
            informers: named.join(", "),
            timeout,
        })
    }
}

// === impl RunGuard ===

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Runs turns until `stop`. After that an active call ends normally, and no other call begins. If the
/// controller drains its queue, runs turns until `end`, and then until the queue is empty; after
/// `stop` it repeats no call.
async fn worker(shared: Arc<Shared>, stop: CancellationToken, end: CancellationToken) -> Ended {
    let engine = &shared.engine;
    let drains = shared.settings.on_stop == OnStop::Drain;
    let mut routes = RouteSnapshot::default();
    let mut turns = 0;
    while let Some(mut guard) = take(&shared, &mut routes, &end).await {
        loop {
            let is_repeated =
                |work: &Work<_, _>| matches!(work, Work::Retry(it) if !it.is_deferred_delete());
            if drains && stop.is_cancelled() && is_repeated(guard.work()) {
                guard.finish();
                break;
            }
            let Some(now) = turn::run(&shared, &mut routes, &mut guard, &end).await else {
                return Ok(());
            };
            turns += 1;
            if turns == TURNS_BEFORE_YIELD {
                turns = 0;
                yield_now().await;
            }
            if stop.is_cancelled() && !drains {
                guard.finish();
                break;
            }
            let more = guard.next(now);
            if engine.has_evicted() {
                shared.add_evicted_dead_letters();
            }
            if !more {
                break;
            }
        }
    }
    Ok(())
}

/// Waits for a lane. `None` after `end` is cancelled. A controller that drains its queue first takes
/// all ready lanes. If the routes change meanwhile, the snapshot is dropped, and with it the code of
/// removed handlers.
async fn take(
    shared: &Shared,
    routes: &mut RouteSnapshot,
    end: &CancellationToken,
) -> Option<LaneGuard<QueuedEvent, RepeatableCall>> {
    let drains = shared.settings.on_stop == OnStop::Drain;
    loop {
        let rerouted = shared.rerouted.notified();
        routes.drop_outdated(shared);
        tokio::select! {
            biased;
            () = end.cancelled(), if !drains => return None,
            guard = shared.engine.take() => return Some(guard),
            () = end.cancelled(), if drains => return None,
            () = rerouted => {}
        }
    }
}

async fn keep_time(shared: Arc<Shared>, stop: CancellationToken) -> Ended {
    stop.run_until_cancelled(shared.engine.keep_time()).await;
    Ok(())
}

/// Logs each call that runs for ten minutes: without a time limit, nothing else shows it.
async fn report_long_calls(shared: Arc<Shared>, stop: CancellationToken) -> Ended {
    const LONG: Duration = Duration::from_secs(600);
    /// Ten times as often, so that a report is at most a minute late.
    const PERIOD: Duration = Duration::from_secs(60);
    let report = async {
        loop {
            // Without calls no timer wakes the process.
            shared.call_began.notified().await;
            while shared.is_calling() {
                sleep(PERIOD).await;
                shared.report_long_calls(LONG);
            }
        }
    };
    stop.run_until_cancelled(report).await.unwrap_or(Ok(()))
}

/// The result of a task. A panic is an error, and an abort is none.
pub(crate) fn flatten(ended: Result<Ended, JoinError>) -> Ended {
    match ended {
        Ok(ended) => ended,
        Err(error) if error.is_panic() => Err(RunError::Broken {
            message: panic_message(error.into_panic()),
        }),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_ends_the_run_and_an_aborted_one_does_not() {
        let panicked = tokio::spawn(async { panic!("no reason") }).await;
        let broken = flatten(panicked).expect_err("it panicked").to_string();
        assert!(broken.contains("no reason"), "{broken}");
        let aborted = tokio::spawn(std::future::pending::<Ended>());
        aborted.abort();
        flatten(aborted.await).expect("it was only stopped");
    }
}
