//! Wrappers behind a fence: the deadline of the lease passes while they wait for the API server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use windlass_controller::{
    Fence, FinalizerName, FinalizerPatch, Finalizers, InformerController, NeverRetry,
    OnSelectorExit, OpinionatedReconciler, OpinionatedWatcher, PatchClient,
};
use windlass_informer::ObjectKey;

use crate::{
    support::{Rig, Running, pass},
    world::{OWN, World},
};

const LEASE: Duration = Duration::from_secs(60);

/// The clock of a fence, which jumps when the process is frozen.
#[derive(Clone, Default)]
struct TestClock(Arc<Mutex<Duration>>);

/// When the process is frozen for longer than its lease, once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Freeze {
    /// Before a patch is answered.
    Patch,
    /// Before a read is answered.
    Get,
}

/// A client that has the process frozen during a request.
#[derive(Clone)]
struct FreezingClient {
    world: World,
    clock: TestClock,
    freeze: Arc<Mutex<Option<Freeze>>>,
}

/// Which wrapper is tested.
#[derive(Clone, Copy, Debug)]
enum Wrapper {
    Reconciler,
    Watcher,
}

/// A wrapper that runs behind a fence, with a policy that retries nothing.
struct Fenced {
    rig: Rig,
    clock: TestClock,
    fence: Fence,
    freeze: Arc<Mutex<Option<Freeze>>>,
    errors: Arc<AtomicUsize>,
    running: Running,
}

// === impl TestClock ===

impl TestClock {
    fn advance(&self) {
        *self.0.lock() += 2 * LEASE;
    }
}

// === impl FreezingClient ===

impl FreezingClient {
    fn sent(&self, request: Freeze) {
        if self.freeze.lock().take_if(|it| *it == request).is_some() {
            self.clock.advance();
        }
    }
}

impl PatchClient<Lease> for FreezingClient {
    async fn patch(&self, key: &ObjectKey, patch: &FinalizerPatch) -> Result<Lease, kube::Error> {
        let patched = self.world.patch(key, patch).await;
        self.sent(Freeze::Patch);
        patched
    }

    async fn get(&self, key: &ObjectKey) -> Result<Lease, kube::Error> {
        let found = self.world.get(key).await;
        self.sent(Freeze::Get);
        found
    }
}

// === impl Fenced ===

impl Fenced {
    async fn start(wrapper: Wrapper) -> Self {
        let (rig, clock, freeze) = (Rig::new(), TestClock::default(), Arc::default());
        let client = FreezingClient {
            world: rig.world.clone(),
            clock: clock.clone(),
            freeze: Arc::clone(&freeze),
        };
        let name = FinalizerName::new(OWN).expect("a name");
        let finalizers = Finalizers::new(client, name).expect("a finalizer");
        let errors = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&errors);
        let controller = InformerController::builder()
            .retry_policy(NeverRetry)
            .on_error(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
            })
            .build()
            .expect("good settings");
        let exit = OnSelectorExit::CleanUp;
        let leases = controller.kind("leases").expect("a new kind");
        match wrapper {
            Wrapper::Reconciler => controller.add_reconciler(
                &leases,
                OpinionatedReconciler::new(finalizers, rig.log.reconciler()).on_selector_exit(exit),
            ),
            Wrapper::Watcher => controller.add_watcher(
                &leases,
                OpinionatedWatcher::new(finalizers, rig.log.watcher()).on_selector_exit(exit),
            ),
        }
        .expect("a name");
        let time = clock.clone();
        let fence = Fence::with_clock(move || *time.0.lock());
        fence.open_until(LEASE);
        controller.set_fence(&fence);
        let running = rig.start(controller, &leases, None).await;
        Self {
            rig,
            clock,
            fence,
            freeze,
            errors,
            running,
        }
    }

    /// The lease is renewed, or held again.
    fn renew(&self) {
        self.fence.open_until(self.fence.now() + LEASE);
    }

    /// What was logged, without the words that differ between the wrappers.
    async fn logged(&self) -> String {
        let logged = self.rig.logged().await;
        logged
            .replace("created ", "add ")
            .replace("deleted ", "delete ")
    }

    async fn stop(self) {
        assert_eq!(self.errors.load(Ordering::SeqCst), 0, "no call has failed");
        self.running.stop(&self.rig).await;
    }
}

const WRAPPERS: [Wrapper; 2] = [Wrapper::Reconciler, Wrapper::Watcher];

/// Neither an add nor a clean-up begins, though the call of the wrapper began before; and none is
/// lost, whatever the retry policy.
///
/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn a_wrapped_handler_does_not_begin_after_the_deadline() {
    for wrapper in WRAPPERS {
        let fenced = Fenced::start(wrapper).await;
        *fenced.freeze.lock() = Some(Freeze::Patch);
        fenced.rig.world.create("web", 1).await;
        assert_eq!(fenced.logged().await, "web [wip]", "{wrapper:?}");
        pass(3600).await;
        assert_eq!(fenced.logged().await, "", "{wrapper:?}");
        fenced.renew();
        assert_eq!(fenced.logged().await, "add web=1, web [own]", "{wrapper:?}");

        *fenced.freeze.lock() = Some(Freeze::Get);
        fenced.rig.world.hide("web").await;
        pass(3600).await;
        assert_eq!(fenced.logged().await, "", "{wrapper:?}");
        fenced.renew();
        assert_eq!(fenced.logged().await, "delete web=1, web []", "{wrapper:?}");
        fenced.stop().await;
    }
}

/// The handler was called in time, and the process was frozen within it. The client is not fenced.
///
/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn no_finalizer_is_written_after_the_deadline_whatever_the_client() {
    for wrapper in WRAPPERS {
        let fenced = Fenced::start(wrapper).await;
        let clock = fenced.clock.clone();
        fenced.rig.log.during("add web=1", move || clock.advance());
        let clock = fenced.clock.clone();
        fenced
            .rig
            .log
            .during("created web=1", move || clock.advance());
        fenced.rig.world.create("web", 1).await;
        pass(3600).await;
        assert_eq!(fenced.logged().await, "web [wip], add web=1", "{wrapper:?}");
        fenced.renew();
        assert_eq!(fenced.logged().await, "web [own]", "{wrapper:?}");
        fenced.stop().await;
    }
}
