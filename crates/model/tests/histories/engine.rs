//! The controller under test: the only file that uses its builder.

use std::{convert::Infallible, num::NonZeroUsize, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Coalescing, DeleteRetry, ErrorReport, ExponentialBackoff, FinalizerName, FinalizerTiming,
    Finalizers, GenerationChanged, InformerController, Kind, NeverDequeue, NeverRetry, NewEvent,
    OnSelectorExit, OpinionatedReconciler, OpinionatedRetryDequeuePolicy, OpinionatedWatcher,
    Outcome, PendingCall, Reconciler, Registration, Request, RetryObject, RunError, Watcher,
};
use windlass_informer::{Event, Informer};
use windlass_model::{self as model, Action, Dequeue, Retry, SelectorExit, Settings};

use crate::{
    handler::Recorded,
    informer_source::InformerSource,
    live::{Live, View},
    script::{
        CoalescingOption, DequeueOption, ExitOption, HandlerKind, Options, RetryOption, Selector,
    },
    stage::{Client, Stage, value},
};

/// The kind name of all objects.
pub(crate) const KIND: &str = "leases";

/// A running controller.
pub(crate) struct Engine {
    kind: Kind<Lease>,
    controller: InformerController,
    exit: OnSelectorExit,
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), RunError>>>,
}

/// The name of the finalizer of a wrapped handler.
fn finalizer(handler: u32) -> FinalizerName {
    FinalizerName::new(format!("h{handler}.example.io/own")).expect("a name")
}

/// The finalizers that a wrapper writes: first its own, then the in-progress one.
pub(crate) fn finalizers(handler: u32) -> Vec<String> {
    let name = finalizer(handler);
    vec![name.to_string(), name.in_progress().to_string()]
}

/// The settings of the model that correspond to the options.
pub(crate) fn settings(options: &Options) -> Settings {
    let seconds = Duration::from_secs;
    Settings {
        dequeue: match options.dequeue {
            DequeueOption::Always => Dequeue::Always,
            DequeueOption::Never => Dequeue::Never,
            DequeueOption::Opinionated => Dequeue::Opinionated,
            DequeueOption::Coin => Dequeue::Other,
        },
        retry: match options.retry {
            RetryOption::Default => Retry::default(),
            RetryOption::Constant => Retry::new(move |_| Some((seconds(4), seconds(4)))),
            RetryOption::Doubling => Retry::new(move |failure| {
                let delay = seconds(1 << failure.min(6));
                Some((delay, delay))
            }),
            RetryOption::Twice => {
                Retry::new(move |failure| (failure < 2).then_some((seconds(2), seconds(2))))
            }
            RetryOption::Never => Retry::never(),
        },
        retry_as_received: options.as_received,
        start_before_sync: options.before_sync,
        timeout: (options.timeout > 0).then(|| seconds(options.timeout)),
        coalescing: match options.coalescing {
            CoalescingOption::Always => model::Coalescing::Always,
            // When the queue is full, events are coalesced.
            CoalescingOption::WhenFull if options.queue > 0 => model::Coalescing::WhenFull,
            CoalescingOption::WhenFull => model::Coalescing::Never,
        },
        delete_until_successor: options.until_successor,
        selector_exit: match options.exit {
            ExitOption::Release => SelectorExit::Release,
            ExitOption::CleanUp => SelectorExit::CleanUp,
            ExitOption::Report => SelectorExit::Report,
        },
        level: None,
    }
}

// === impl Engine ===

impl Engine {
    pub(crate) fn new(options: &Options) -> Self {
        let mut builder = InformerController::builder()
            .on_error(|_| {})
            .seed(options.seed)
            .coalescing(match options.coalescing {
                CoalescingOption::WhenFull => Coalescing::WhenFull,
                CoalescingOption::Always => Coalescing::Always,
            })
            .start_before_sync(options.before_sync)
            .cache_sync_timeout(None);
        builder = match options.dequeue {
            DequeueOption::Always => builder,
            DequeueOption::Never => builder.retry_dequeue_policy(NeverDequeue),
            DequeueOption::Opinionated => {
                builder.retry_dequeue_policy(OpinionatedRetryDequeuePolicy)
            }
            DequeueOption::Coin => builder.retry_dequeue_policy(coin),
        };
        let seconds = Duration::from_secs;
        builder = match options.retry {
            RetryOption::Default => builder,
            RetryOption::Constant => {
                builder.retry_policy(move |_: &ErrorReport<'_>| Some(seconds(4)))
            }
            RetryOption::Doubling => {
                builder.retry_policy(ExponentialBackoff::forever(seconds(1)).cap(seconds(64)))
            }
            RetryOption::Twice => builder.retry_policy(move |failed: &ErrorReport<'_>| {
                let failure = failed.attempt;
                (failure < 2).then_some(seconds(2))
            }),
            RetryOption::Never => builder.retry_policy(NeverRetry),
        };
        if options.until_successor {
            builder = builder.delete_retry(DeleteRetry::UntilSuccessor);
        }
        if options.as_received {
            builder = builder.retry_object(RetryObject::AsReceived);
        }
        if options.timeout > 0 {
            builder = builder.timeout(seconds(options.timeout));
        }
        if let Some(queue) = NonZeroUsize::new(options.queue) {
            builder = builder.queue(queue);
        }
        if let Some(concurrency) = NonZeroUsize::new(options.concurrency) {
            builder = builder.concurrency(concurrency);
        }
        let controller = builder.build().expect("good settings");
        let kind = controller.kind(KIND).expect("a new kind");
        Self {
            exit: match options.exit {
                ExitOption::Release => OnSelectorExit::Release,
                ExitOption::CleanUp => OnSelectorExit::CleanUp,
                ExitOption::Report => OnSelectorExit::Report,
            },
            controller,
            kind,
            stop: CancellationToken::new(),
            task: None,
        }
    }

    pub(crate) fn add_handler(
        &self,
        handler: u32,
        kind: HandlerKind,
        stage: &Stage,
    ) -> Registration {
        let recorded = Recorded {
            handler,
            stage: stage.clone(),
        };
        let finalizers = || {
            let client = Client {
                handler,
                stage: stage.clone(),
            };
            Finalizers::<Lease>::new(client, finalizer(handler)).expect("a finalizer")
        };
        let controller = &self.controller;
        let odd = |event: &Event<Lease>| event.object().is_some_and(|it| value(it) % 2 == 1);
        let added = match (kind.wrapped, kind.reconciler) {
            (false, false) if kind.filtered => {
                controller.add_watcher(&self.kind, Watcher::filter(recorded, odd))
            }
            (false, true) if kind.filtered => {
                controller.add_reconciler(&self.kind, Reconciler::filter(recorded, odd))
            }
            (false, false) => controller.add_watcher(&self.kind, recorded),
            (false, true) => controller.add_reconciler(&self.kind, recorded),
            (true, false) => {
                let sync = recorded.clone();
                let watcher = OpinionatedWatcher::new(finalizers(), recorded);
                let watcher = watcher.on_selector_exit(self.exit);
                let watcher = watcher.sync(move |object: Arc<Lease>| {
                    let sync = sync.clone();
                    async move {
                        sync.call(Action::Resynced, None, &object, None)
                            .await
                            .map(drop)
                    }
                });
                if kind.filtered {
                    controller.add_watcher(&self.kind, watcher.filter(GenerationChanged))
                } else {
                    controller.add_watcher(&self.kind, watcher)
                }
            }
            (true, true) => {
                let reconciler = OpinionatedReconciler::new(finalizers(), recorded);
                let reconciler = reconciler.on_selector_exit(self.exit);
                let reconciler = if kind.early {
                    reconciler.finalizer_timing(FinalizerTiming::BeforeFirstCall)
                } else {
                    reconciler
                };
                if kind.filtered {
                    controller.add_reconciler(&self.kind, reconciler.filter(GenerationChanged))
                } else {
                    controller.add_reconciler(&self.kind, reconciler)
                }
            }
        };
        added.expect("added")
    }

    pub(crate) fn add_informer(
        &self,
        id: u32,
        selector: Selector,
        stage: &Stage,
    ) -> (View, Informer<Lease>) {
        let (view, informer) = if let Some(embedded) = &stage.embedded {
            let live = Live::new(id, selector, stage, embedded);
            let informer = live.informer();
            (View::Live(live), informer)
        } else {
            let (sight, source) = InformerSource::new(id, selector, stage.clone());
            (View::Scripted(sight), Informer::new(source))
        };
        self.controller
            .add_informer(&self.kind, &informer)
            .expect("added");
        (view, informer)
    }

    /// Adds a removed informer again.
    pub(crate) fn add_again(&self, informer: &Informer<Lease>) {
        self.controller
            .add_informer(&self.kind, informer)
            .expect("added again");
    }

    /// Adds a second controller without handlers that shares an informer.
    pub(crate) fn other(informer: &Informer<Lease>) -> Self {
        let controller = InformerController::builder()
            .on_error(|_| {})
            .build()
            .expect("good");
        let kind = controller.kind(KIND).expect("a new kind");
        controller.add_informer(&kind, informer).expect("added");
        let nothing = |_: Request<Lease>| async { Ok::<_, Infallible>(Outcome::done()) };
        controller.add_reconciler(&kind, nothing).expect("added");
        let mut other = Self {
            controller,
            kind,
            exit: OnSelectorExit::default(),
            stop: CancellationToken::new(),
            task: None,
        };
        other.start();
        other
    }

    pub(crate) fn remove_informer(&self, informer: &Informer<Lease>) {
        self.controller.remove_informer(informer);
    }

    pub(crate) fn start(&mut self) {
        let (controller, stop) = (self.controller.clone(), self.stop.clone());
        self.task = Some(tokio::spawn(async move { controller.run(stop).await }));
    }

    /// Stops the controller gracefully, with a limit of one minute for calls that hang.
    pub(crate) async fn stop(&mut self) -> Result<(), String> {
        self.stop.cancel();
        let Some(mut task) = self.task.take() else {
            return Ok(());
        };
        match tokio::time::timeout(Duration::from_secs(60), &mut task).await {
            // It may have detected a restore just before.
            Ok(Ok(Ok(()) | Err(RunError::HistoryWentBack { .. }))) => Ok(()),
            Ok(ended) => Err(format!("the controller ended with {ended:?}")),
            Err(_) => {
                task.abort();
                _ = task.await;
                Ok(())
            }
        }
    }

    /// Waits until a restored server ends the controller, with a limit of one minute for calls that
    /// hang.
    pub(crate) async fn ended_by_restore(&mut self) -> Result<(), String> {
        let Some(mut task) = self.task.take() else {
            return Ok(());
        };
        match tokio::time::timeout(Duration::from_secs(60), &mut task).await {
            Ok(Ok(Err(RunError::HistoryWentBack { .. }))) => Ok(()),
            Ok(ended) => Err(format!("a restored server ended it with {ended:?}")),
            Err(_) => {
                task.abort();
                _ = task.await;
                Ok(())
            }
        }
    }

    /// Aborts the controller.
    pub(crate) async fn crash(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            _ = task.await;
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// A pseudo-random decision that is the same in each run.
fn coin(arrival: &NewEvent<'_>, pending: &PendingCall<'_>) -> bool {
    let generation = arrival.object.generation().unwrap_or_default();
    (generation + i64::from(pending.attempt)) % 2 == 0
}
