//! A replica of an operator, with a counting controller.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use prometheus::{Registry, TextEncoder};
use tokio::time::{Instant, sleep};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_controller::Runnable;
use windlass_operator::{LeaderElection, Operator, OperatorError};

/// Counts the concurrently running controllers, and keeps the highest count.
#[derive(Clone, Default)]
pub(crate) struct RunCount {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

/// A running controller, until this is dropped.
struct Counted(RunCount);

/// A controller that takes `time` to end after the stop, or never ends.
pub(crate) struct Lingers {
    count: RunCount,
    time: Option<Duration>,
}

/// A running replica.
pub(crate) struct Replica {
    pub(crate) election: LeaderElection,
    operator: Operator,
    pub(crate) stop: CancellationToken,
    run: AbortOnDropHandle<Result<(), OperatorError>>,
}

// === impl RunCount ===

impl RunCount {
    fn enter(&self) -> Counted {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Counted(self.clone())
    }

    /// A counted controller that takes `time` to end, or never ends.
    pub(crate) fn lingers(&self, time: impl Into<Option<Duration>>) -> Lingers {
        Lingers {
            count: self.clone(),
            time: time.into(),
        }
    }

    pub(crate) fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Runnable for Lingers {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        "lingers"
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Infallible> {
        let _here = self.count.enter();
        stop.cancelled().await;
        match self.time {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
        Ok(())
    }
}

// === impl Replica ===

impl Replica {
    pub(crate) fn start(election: LeaderElection, controller: Lingers) -> Self {
        Self::of(election, controller)
    }

    pub(crate) fn of(election: LeaderElection, controller: impl Runnable) -> Self {
        let operator = Operator::builder()
            .leader_election(election.clone())
            .build();
        operator
            .add_controller(controller)
            .expect("the operator is not running");
        Self::run(election, operator)
    }

    /// Runs `operator` with this election.
    pub(crate) fn run(election: LeaderElection, operator: Operator) -> Self {
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let (operator, stop) = (operator.clone(), stop.clone());
            async move { operator.run_until(stop).await }
        });
        Self {
            election,
            operator,
            stop,
            run: AbortOnDropHandle::new(run),
        }
    }

    pub(crate) async fn leads(&self) {
        until("it leads", || self.election.is_leader()).await;
    }

    /// Stops the replica, and waits for its end.
    pub(crate) async fn stop(self) -> Result<(), OperatorError> {
        self.stop.cancel();
        self.end().await
    }

    /// Drops the running operator.
    pub(crate) async fn crash(&mut self) {
        self.run.abort();
        let ended = (&mut self.run).await;
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }

    /// Waits for the result of the replica.
    pub(crate) async fn end(self) -> Result<(), OperatorError> {
        self.run.await.expect("no panic")
    }

    /// The value of one of its series.
    pub(crate) fn counted(&self, series: &str) -> Option<String> {
        let registry = Registry::new();
        for collector in self.operator.prometheus_collectors() {
            registry.register(collector).expect("no name twice");
        }
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.expect("text");
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(str::to_owned)
    }
}

/// Waits until `is` returns true.
pub(crate) async fn until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(
            began.elapsed() < secs(3600),
            "timed out waiting until {what}"
        );
        // On paused time in most tests; the fences of threads run in real time.
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
