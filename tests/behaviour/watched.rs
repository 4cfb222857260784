//! An informer that runs until the end of a test.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::Resource;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Event, Informer, ListWatch,
    informer::{InformerError, Subscription},
    source::{Backoff, Source},
    store::Stored,
};

/// An informer that runs, and one handler's view of it.
pub(crate) struct Watched<K: Stored> {
    pub(crate) informer: Informer<K>,
    pub(crate) events: Subscription<K>,

    /// The problems that the error handler received.
    pub(crate) problems: Arc<Mutex<Vec<String>>>,

    stop: CancellationToken,
    running: AbortOnDropHandle<Result<(), InformerError>>,
}

/// A source with waits that suit a test.
pub(crate) fn quick<K>(source: impl Into<ListWatch<K>>) -> ListWatch<K>
where
    K: Resource,
{
    let backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
    ListWatch::new(source).backoff(backoff.expect("a backoff"))
}

// === impl Watched ===

impl<K> Watched<K>
where
    K: Stored,
{
    pub(crate) fn start(source: impl Source<K>) -> Self {
        let problems = Arc::new(Mutex::new(Vec::new()));
        let informer = Informer::builder(source)
            .on_error({
                let problems = Arc::clone(&problems);
                move |problem| {
                    let mut problems = problems
                        .lock()
                        .expect("no thread panics while it holds the lock");
                    problems.push(problem.to_string());
                }
            })
            .build();
        let events = informer.subscribe();
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (informer, stop) = (informer.clone(), stop.clone());
            async move { informer.run(stop).await }
        });
        Self {
            informer,
            events,
            problems,
            stop,
            running: AbortOnDropHandle::new(running),
        }
    }

    /// The next event, in words: `added a`, `updated a`, `deleted a`, `synced`.
    pub(crate) async fn next(&mut self) -> String {
        let event = self.events.next().await.expect("the informer runs");
        describe(&event)
    }

    /// Everything up to `Synced`, sorted.
    pub(crate) async fn first_list(&mut self) -> Vec<String> {
        let mut list = Vec::new();
        loop {
            let event = self.next().await;
            if event == "synced" {
                list.sort();
                return list;
            }
            list.push(event);
        }
    }

    /// Waits until the watch follows what happens.
    pub(crate) async fn following(&self) {
        let watching = |state: &_| matches!(state, windlass::informer::HealthState::Watching);
        self.informer.until(watching).await;
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.running
            .await
            .expect("no panic")
            .expect("nothing final went wrong");
    }
}

pub(crate) fn describe<K: Stored>(event: &Event<K>) -> String {
    match event {
        Event::Added(object) => format!("added {}", object.name()),
        Event::Updated { new, .. } => format!("updated {}", new.name()),
        Event::Deleted {
            last,
            missed: false,
        } => format!("deleted {}", last.name()),
        Event::Deleted { last, missed: true } => format!("missed {}", last.name()),
        Event::Resynced(object) => format!("resynced {}", object.name()),
        _ => "synced".to_owned(),
    }
}
