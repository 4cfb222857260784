//! Memory and allocations of keys, pending calls and events, by counting. Time is not measured
//! here.
//!
//! The counts are those of the whole process, so one test runs at a time. Where a number has
//! slack, the reason stands beside it.

use std::{
    alloc::System,
    convert::Infallible,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cap::Cap;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::{
    runtime,
    sync::{Mutex, MutexGuard, Semaphore},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use windlass_controller::{InformerController, Kind, Outcome, Request};
use windlass_informer::{Informer, Script, Scripted};

#[global_allocator]
static ALLOCATOR: Cap<&StatsAlloc<System>> = Cap::new(&INSTRUMENTED_SYSTEM, usize::MAX);

/// One test at a time counts.
static COUNTING: Mutex<()> = Mutex::const_new(());

/// Enough that what is made once is nothing beside it.
const MANY: usize = 25_000;

/// Enough that allocations of the test itself do not matter.
const EVENTS: usize = 5_000;

/// A trace parent has the size of a pointer, whatever the parent is.
const TRACE: usize = if cfg!(feature = "opentelemetry") {
    8
} else {
    0
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An informer of a scripted source, and the script.
struct CountedInformer {
    script: Script<ConfigMap>,
    informer: Informer<ConfigMap>,
    _alone: MutexGuard<'static, ()>,
}

/// The memory of a waiting key, without the object and its name: the lane with its first event (120
/// bytes), its entry in the table of names (9) and its ticket in the queue (8), and spare capacity in
/// all: 191 bytes were measured.
#[tokio::test(start_paused = true)]
async fn a_key_that_waits_costs_195_bytes() {
    let counted = CountedInformer::of(MANY).await;
    let none = Arc::new(Semaphore::new(0));
    let (controller, maps) = controller(move |_| {
        let none = Arc::clone(&none);
        async move {
            // The semaphore stays closed: the first key is in progress, and all others wait.
            _ = none.acquire().await;
            Outcome::done()
        }
    });
    let before = ALLOCATOR.allocated();
    controller
        .add_informer(&maps, &counted.informer)
        .expect("added once");
    idle().await;
    let each = (ALLOCATOR.allocated() - before) / MANY;
    assert!((144..=195 + TRACE).contains(&each), "{each} bytes a key");
}

/// The memory of a pending call, without the object and its name: the lane and its entry as above,
/// the call (104) and its timer (56), and spare capacity in the tables: 374 bytes were measured.
#[tokio::test(start_paused = true)]
async fn a_pending_call_costs_380_bytes() {
    let counted = CountedInformer::of(MANY).await;
    let (controller, maps) = controller(|_| async { Outcome::requeue_after(DAY) });
    let before = ALLOCATOR.allocated();
    controller
        .add_informer(&maps, &counted.informer)
        .expect("added once");
    idle().await;
    assert_eq!(controller.pending_calls(), MANY);
    let each = (ALLOCATOR.allocated() - before) / MANY;
    assert!(
        (297..=380 + 2 * TRACE).contains(&each),
        "{each} bytes a call"
    );
}

/// An event costs the same number of allocations however many calls are pending.
///
/// Beyond those of an informer with a subscriber, there are two: the handler's future, and the queue
/// of the namespace, which had no work before.
#[tokio::test(start_paused = true)]
async fn an_event_costs_two_allocations_whatever_is_pending() {
    let listened = {
        let counted = CountedInformer::of(0).await;
        let mut events = counted.informer.subscribe();
        tokio::spawn(async move { while events.next().await.is_some() {} });
        counted.allocations().await
    };
    for pending in [0, MANY] {
        let counted = CountedInformer::of(pending).await;
        let (controller, maps) = controller(|request: Request<ConfigMap>| async move {
            if request.key().name() == "one" {
                Outcome::done()
            } else {
                Outcome::requeue_after(DAY)
            }
        });
        controller
            .add_informer(&maps, &counted.informer)
            .expect("added once");
        idle().await;
        assert_eq!(controller.pending_calls(), pending);
        let each = counted.allocations().await - listened;
        assert!(
            each <= 2,
            "{each} allocations an event, with {pending} pending"
        );
    }
}

/// A worker sleeps until something is due. What ticked once a second would wake 86,400 times.
#[test]
fn an_idle_controller_does_not_wake_up() {
    let parks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&parks);
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || _ = counted.fetch_add(1, Ordering::Relaxed))
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let counted = CountedInformer::of(1_000).await;
        let calls = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&calls);
        let (controller, maps) = controller(move |_| {
            called.fetch_add(1, Ordering::Relaxed);
            async { Outcome::requeue_after(DAY) }
        });
        controller
            .add_informer(&maps, &counted.informer)
            .expect("added once");
        idle().await;
        assert_eq!(calls.load(Ordering::Relaxed), 1_000);

        let before = parks.load(Ordering::Relaxed);
        sleep(DAY.saturating_sub(Duration::from_secs(10))).await;
        let parks = parks.load(Ordering::Relaxed) - before;
        assert_eq!(calls.load(Ordering::Relaxed), 1_000);
        // The clock of the runtime turns its own wheels, which are six, and a minute after the calls
        // the report of long calls finds none.
        assert!(parks <= 8, "woken {parks} times in a day");

        sleep(Duration::from_secs(10)).await;
        assert_eq!(
            calls.load(Ordering::Relaxed),
            2_000,
            "and each once when due"
        );
    });
}

// === impl EventEnvelope ===

impl CountedInformer {
    /// An informer that has delivered `count` objects, and one called `one`.
    async fn of(count: usize) -> Self {
        let alone = COUNTING.lock().await;
        let (script, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::new(source);
        tokio::spawn({
            let informer = informer.clone();
            async move { informer.run(CancellationToken::new()).await }
        });
        let names = (0..count).map(|at| format!("map-{at}"));
        let objects = names.map(|name| object(&name, 1));
        script.list(objects).await.expect("the informer runs");
        informer.synced().await.expect("runs");
        Self {
            script,
            informer,
            _alone: alone,
        }
    }

    /// The number of allocations for an update of the object `one` until the subscriber has
    /// received it.
    async fn allocations(&self) -> usize {
        let versions = 1..=EVENTS + 100;
        let mut updates: Vec<_> = versions.map(|version| object("one", version)).collect();
        let measured = updates.split_off(100);
        for update in updates {
            self.script.apply(update).await.expect("the informer runs");
        }
        idle().await;
        let before = INSTRUMENTED_SYSTEM.stats();
        for update in measured {
            self.script.apply(update).await.expect("the informer runs");
        }
        idle().await;
        let spent = INSTRUMENTED_SYSTEM.stats() - before;
        // To the nearest whole number.
        (spent.allocations + spent.reallocations + EVENTS / 2) / EVENTS
    }
}

/// A controller that runs, with a queue for all of them and one worker.
fn controller<F, Fut>(reconcile: F) -> (InformerController, Kind<ConfigMap>)
where
    F: Fn(Request<ConfigMap>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let controller = InformerController::builder()
        .queue(NonZeroUsize::new(2 * MANY).expect("not zero"))
        .concurrency(NonZeroUsize::MIN)
        .build()
        .expect("a controller");
    let maps = controller.kind::<ConfigMap>("maps").expect("a new kind");
    controller
        .add_reconciler(&maps, move |request: Request<ConfigMap>| {
            let call = reconcile(request);
            async move { Ok::<_, Infallible>(call.await) }
        })
        .expect("a kind with a name");
    tokio::spawn({
        let controller = controller.clone();
        async move { controller.run(CancellationToken::new()).await }
    });
    (controller, maps)
}

/// Waits until there is nothing to do: time stands still until then.
async fn idle() {
    sleep(Duration::from_secs(1)).await;
}

fn object(name: &str, version: usize) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            uid: Some(format!("uid-of-{name}")),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}
