//! The state of a controller for its users: health, calls, dead letters and metrics.

use std::sync::Arc;

use prometheus::core::Collector;

use super::{DeadLetter, InformerController, Shared, shared::FeedEntry};
use crate::{InformerDiagnostics, InformerHealth, RunningCall, metrics::Refreshed};

// === impl InformerController ===

impl InformerController {
    /// Whether all events of the first lists of all informers are in the queue, except those of
    /// [optional](Self::optional_kind) kinds.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        (self.shared.feeds.read().iter()).all(|entry| entry.optional || entry.feed.has_synced())
    }

    /// The state of each informer, in the order in which the informers were added.
    #[must_use]
    pub fn health(&self) -> Vec<InformerHealth> {
        let feeds = self.shared.feeds.read();
        let health = feeds.iter().map(|entry| InformerHealth {
            kind: self.shared.route.read().name(entry.kind),
            watch: entry.feed.health(),
            has_synced: entry.feed.has_synced(),
            is_optional: entry.optional,
        });
        health.collect()
    }

    /// What each informer has done so far, with a checksum of its store, in the order in which the
    /// informers were added. Like [`Informer::diagnostics`](windlass_informer::Informer::diagnostics),
    /// it reads the identities of all objects.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use windlass_controller::InformerController;
    /// use windlass_informer::{Informer, Scripted};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (_script, source) = Scripted::<Pod>::new();
    /// let controller = InformerController::builder().build()?;
    /// controller.add_informer(&controller.kind("pods")?, &Informer::new(source))?;
    /// let diagnostics = controller.diagnostics();
    /// assert_eq!(&*diagnostics[0].kind, "pods");
    /// assert_eq!(diagnostics[0].informer.objects, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn diagnostics(&self) -> Vec<InformerDiagnostics> {
        let of_entry = |entry: &FeedEntry| (entry.kind, Arc::clone(&entry.feed));
        let feeds: Vec<_> = self.shared.feeds.read().iter().map(of_entry).collect();
        // Without the lock, because this takes time.
        let diagnostics = feeds.into_iter().map(|(kind, feed)| InformerDiagnostics {
            kind: self.shared.route.read().name(kind),
            informer: feed.diagnostics(),
        });
        diagnostics.collect()
    }

    /// The calls of handlers that are in progress, the longest first.
    #[must_use]
    pub fn running_calls(&self) -> Vec<RunningCall> {
        self.shared.running_calls()
    }

    /// The number of pending calls: retries and requeues that are not due yet.
    #[must_use]
    pub fn pending_calls(&self) -> usize {
        self.shared.engine.pending()
    }

    /// The dead letters, oldest first: calls that failed and are not repeated any more. At most the
    /// newest 1,000.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.shared.dead_letters.lock().all()
    }

    /// Repeats the call of a dead letter, as a first attempt. Returns false if it is not a dead
    /// letter any more. Also if nothing would be called, because the run has ended or the informer of
    /// the object was removed: then it stays a dead letter.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn redrive(&self, call: &DeadLetter) -> bool {
        self.shared.redrive(call.number())
    }

    /// The collectors of the controller and its informers, for a registry. All metrics have the
    /// label `controller` with the name of the controller.
    #[must_use]
    pub fn prometheus_collectors(&self) -> Vec<Box<dyn Collector>> {
        let Shared {
            metrics,
            informer_metrics,
            ..
        } = &*self.shared;
        let collectors = metrics.collectors().into_iter();
        let collectors = collectors.chain(informer_metrics.collectors());
        let refreshed = collectors.map(|collector| {
            let shared = Arc::downgrade(&self.shared);
            let refresh = move || {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let Shared {
                    engine,
                    metrics,
                    route,
                    ..
                } = &*shared;
                metrics.queue(engine.depth(), engine.pending());
                let (route, now) = (route.read(), engine.now());
                let running = route
                    .all_metrics()
                    .flat_map(|kind| kind.running.elapsed(now));
                metrics.running(&running.collect::<Vec<_>>());
                route.all_metrics().for_each(|kind| kind.flush());
            };
            Box::new(Refreshed { collector, refresh }) as Box<dyn Collector>
        });
        refreshed.collect()
    }
}
