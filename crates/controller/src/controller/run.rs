//! The life of a controller: its tasks, and how they end.

use std::sync::Arc;

use tokio::task::{JoinError, JoinSet, yield_now};
use tokio_util::sync::CancellationToken;
use windlass_informer::InformerError;

use super::{Shared, known::Known, turn};
use crate::{RunError, work::message};

/// After so many turns a worker lets others go first: handlers that never wait would keep everybody
/// else waiting. As many as tokio would let it have, and not asked of tokio at each.
const AT_A_STRETCH: u32 = 128;

/// How a task ended.
type Ended = Result<(), RunError>;

pub(super) async fn run(shared: &Arc<Shared>, stop: CancellationToken) -> Result<(), RunError> {
    let stop = stop.child_token();
    // Whoever drops this future stops the informers too; the tasks go with the set.
    let _stop = stop.clone().drop_guard();
    let mut tasks = JoinSet::new();
    tasks.spawn(keep_time(Arc::clone(shared), stop.clone()));
    for _ in 0..shared.settings.concurrency.get() {
        tasks.spawn(worker(Arc::clone(shared), stop.clone()));
    }

    let mut outcome = Ok(());
    while outcome.is_ok() && !stop.is_cancelled() {
        start(shared, &mut tasks, &stop);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = shared.fed.notified() => {}
            Some(ended) = tasks.join_next() => outcome = flatten(ended),
        }
    }

    stop.cancel();
    while let Some(ended) = tasks.join_next().await {
        // The first error is the reason; those after it are its consequence.
        outcome = outcome.and(flatten(ended));
    }
    outcome
}

/// Starts the informers that have not been started.
fn start(shared: &Arc<Shared>, tasks: &mut JoinSet<Ended>, stop: &CancellationToken) {
    let mut feeds = shared.feeds.write();
    for fed in feeds.iter_mut().filter(|fed| !fed.started) {
        fed.started = true;
        let kind = fed.kind;
        // Stopped with the controller, or when it is removed.
        let own = fed.stop.clone();
        let whole = stop.child_token();
        let either = whole.clone();
        tasks.spawn(async move {
            either.run_until_cancelled(own.cancelled()).await;
            either.cancel();
            Ok(())
        });
        let pump = Arc::clone(&fed.feed).pump(Arc::clone(shared), kind, whole.clone());
        tasks.spawn(async move {
            pump.await;
            Ok(())
        });
        let informer = Arc::clone(&fed.feed).run(whole);
        let shared = Arc::clone(shared);
        tasks.spawn(async move {
            informer.await.map_err(|source: InformerError| {
                let kind = shared.route.read().name(kind).to_string();
                RunError::Informer { kind, source }
            })
        });
    }
}

/// Takes what there is to do, one turn after the other. A turn that has begun ends.
async fn worker(shared: Arc<Shared>, stop: CancellationToken) -> Ended {
    let engine = &shared.engine;
    let mut known = Known::default();
    let mut turns = 0;
    while let Some(mut held) = stop.run_until_cancelled(engine.take()).await {
        loop {
            let now = turn::play(&shared, &mut known, &mut held).await;
            turns += 1;
            if turns == AT_A_STRETCH {
                turns = 0;
                yield_now().await;
            }
            if stop.is_cancelled() {
                held.finish();
                break;
            }
            if !held.next(now) {
                break;
            }
        }
    }
    Ok(())
}

async fn keep_time(shared: Arc<Shared>, stop: CancellationToken) -> Ended {
    stop.run_until_cancelled(shared.engine.keep_time()).await;
    Ok(())
}

fn flatten(ended: Result<Ended, JoinError>) -> Ended {
    match ended {
        Ok(ended) => ended,
        Err(error) if error.is_panic() => Err(RunError::Broken {
            message: message(&*error.into_panic()),
        }),
        Err(_) => Ok(()),
    }
}
