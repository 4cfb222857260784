//! A controller behind a fence, on paused time.

use std::{
    convert::Infallible,
    fmt,
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Fence, InformerController, InformerControllerBuilder, NeverRetry, Outcome, Reconciler, Request,
    RunError,
};
use windlass_informer::{Informer, Script, Scripted};

/// Set by the test: the clock of a fence that can jump while the timers stand still, as it does
/// for a process that was frozen.
#[derive(Clone, Default)]
struct TestClock(Arc<Mutex<Duration>>);

const MINUTE: Duration = Duration::from_secs(60);

// === impl TestClock ===

impl TestClock {
    fn fence(&self) -> Fence {
        let clock = self.clone();
        Fence::with_clock(move || *clock.0.lock().expect("no panic"))
    }

    fn advance(&self, time: Duration) {
        *self.0.lock().expect("no panic") += time;
    }
}

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn overdue_requeues_begin_only_when_the_deadline_is_extended() {
    let (clock, calls) = (TestClock::default(), Arc::new(AtomicUsize::new(0)));
    let fence = clock.fence();
    fence.open_until(MINUTE);
    let counted = Arc::clone(&calls);
    let (_stop, _run) = controller(&fence, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Outcome::requeue_after(Duration::from_secs(1)) }
    })
    .await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(calls.load(Ordering::SeqCst), OBJECTS);

    // The process is frozen for longer than the lease. The requeues are due when it continues.
    clock.advance(2 * MINUTE);
    sleep(10 * MINUTE).await;
    assert_eq!(calls.load(Ordering::SeqCst), OBJECTS, "no call begins");
    assert_eq!(fence.running(), 0);

    fence.open_until(fence.now() + MINUTE);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2 * OBJECTS);
}

/// The hook writes, as a handler does.
#[tokio::test(start_paused = true)]
async fn the_hook_for_exhausted_calls_waits_for_the_lease_and_not_after_a_stop() {
    for stops in [false, true] {
        let (fence, hooked) = (TestClock::default().fence(), Arc::new(AtomicUsize::new(0)));
        fence.open_until(MINUTE);
        let (hook, running) = (Arc::clone(&hooked), fence.clone());
        let builder = InformerController::builder()
            .retry_policy(NeverRetry)
            .on_error(|_| {})
            .on_exhausted(move |_| {
                hook.fetch_add(running.running(), Ordering::SeqCst);
                ready(())
            });
        // The lease is lost in the call that fails.
        let lost = fence.clone();
        let fails = move |_: Request<ConfigMap>| {
            lost.close();
            async { Err::<Outcome, _>(fmt::Error) }
        };
        let (script, stop, run) = behind(&fence, builder, fails);
        script.list([object(0)]).await.expect("it runs");
        sleep(10 * MINUTE).await;
        assert_eq!(hooked.load(Ordering::SeqCst), 0, "the lease is lost");
        if stops {
            stop.cancel();
            let ended = timeout(MINUTE, run).await.expect("it ends");
            ended.expect("no panic").expect("it stops");
            assert_eq!(hooked.load(Ordering::SeqCst), 0, "after the stop");
            continue;
        }
        fence.open_until(fence.now() + MINUTE);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(hooked.load(Ordering::SeqCst), 1, "once, with a permit");
        assert_eq!(fence.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_until_its_call_ends() {
    let (fence, may_end) = (TestClock::default().fence(), Arc::new(Notify::new()));
    fence.open_until(MINUTE);
    let ends = Arc::clone(&may_end);
    let (_stop, _run) = controller(&fence, move |_| {
        let ends = Arc::clone(&ends);
        async move {
            ends.notified().await;
            Outcome::done()
        }
    })
    .await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(fence.running(), OBJECTS);
    let idle = tokio::spawn({
        let fence = fence.clone();
        async move { fence.idle().await }
    });
    sleep(MINUTE).await;
    assert!(!idle.is_finished());
    may_end.notify_waiters();
    idle.await.expect("no panic");
    assert_eq!(fence.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_idle_after_its_only_permit_was_dropped() {
    let fence = TestClock::default().fence();
    fence.open_until(MINUTE);
    let permit = fence.try_permit().expect("it is open");
    let idle = tokio::spawn({
        let fence = fence.clone();
        async move { timeout(MINUTE, fence.idle()).await }
    });
    sleep(MINUTE / 2).await;
    assert!(!idle.is_finished());
    drop(permit);
    idle.await.expect("no panic").expect("it is idle");
}

#[test]
fn a_fence_is_closed_at_its_deadline_and_until_it_is_opened() {
    let clock = TestClock::default();
    let fence = clock.fence();
    assert!(!fence.is_open());
    fence.open_until(MINUTE);
    assert!(fence.is_open());
    clock.advance(MINUTE);
    assert!(!fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_end_of_a_fence_follows_a_deadline_that_is_moved() {
    let fence = Fence::new();
    let (began, minutes) = (fence.now(), |count: u32| count * MINUTE);
    fence.open_until(began + minutes(1));
    let closed = tokio::spawn({
        let fence = fence.clone();
        async move {
            fence.closed().await;
            fence.now()
        }
    });
    sleep(MINUTE / 2).await;
    fence.open_until(began + minutes(3));
    let at = closed.await.expect("no panic").saturating_sub(began);
    assert!(at >= minutes(3) && at < minutes(3) + MINUTE / 60, "{at:?}");

    fence.open_until(fence.now() + minutes(1));
    let closed = tokio::spawn({
        let fence = fence.clone();
        async move { fence.closed().await }
    });
    fence.close();
    closed.await.expect("no panic");
    let refused = fence.try_permit().expect_err("it is closed");
    assert_eq!(refused.expired, None);
    assert!(
        refused.to_string().contains("does not hold the lease"),
        "{refused}"
    );
}

const OBJECTS: usize = 8;

/// A controller that runs behind `fence` and calls `reconcile` for each of some objects.
async fn controller<Fut>(
    fence: &Fence,
    reconcile: impl Fn(Request<ConfigMap>) -> Fut + Send + Sync + 'static,
) -> (CancellationToken, JoinHandle<Result<(), RunError>>)
where
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let reconciler = move |request: Request<ConfigMap>| {
        let outcome = reconcile(request);
        async move { Ok::<_, Infallible>(outcome.await) }
    };
    let (script, stop, run) = behind(fence, InformerController::builder(), reconciler);
    script
        .list((0..OBJECTS).map(object).collect::<Vec<_>>())
        .await
        .expect("it runs");
    // The script is kept by the informer's source; a dropped one would end the watch.
    std::mem::forget(script);
    (stop, run)
}

/// A controller that runs behind `fence`, and the script of its informer.
fn behind(
    fence: &Fence,
    builder: InformerControllerBuilder,
    reconciler: impl Reconciler<ConfigMap>,
) -> (
    Script<ConfigMap>,
    CancellationToken,
    JoinHandle<Result<(), RunError>>,
) {
    let (script, source) = Scripted::<ConfigMap>::new();
    let controller = builder.build().expect("good settings");
    controller.set_fence(fence);
    let configs = controller.kind("configs").expect("a new kind");
    let added = controller.add_informer(&configs, &Informer::new(source));
    added.expect("new");
    controller
        .add_reconciler(&configs, reconciler)
        .expect("a name");
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    (script, stop, run)
}

fn object(number: usize) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(format!("object-{number}"));
    object
}
