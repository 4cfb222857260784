//! Fences: no call begins and no write is sent after the deadline of a lease.
//!
//! A [`Fence`] holds one number, the deadline, in an atomic. The leader election moves it at each
//! successful renewal. The engine checks it at the moment of each dispatch, and a fenced client
//! checks it for each write. A timer alone is not enough: a process that was frozen for longer
//! than its lease wakes with overdue work and overdue timers at once, and the work may run before
//! the timer.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task_local, time::sleep};

// The clock that runs during suspend.
mod clock;

// Clients that send no write after the deadline.
mod client;
mod layer;

// Errors.
mod error;

use self::clock::FenceClock;
pub use self::{
    clock::is_time_simulated,
    error::FenceClosed,
    layer::{FenceLayer, Fenced},
};

/// The deadline after which this replica begins no call and sends no write.
///
/// A fence is open until its deadline, and closed before the first one is set. Clones share one
/// deadline. With a leader election, use `LeaderElection::fence` of `windlass-operator`, whose
/// deadline moves with each renewal; create a fence only for another kind of lease, or for tests.
///
/// # Contract
///
/// *Guaranteed.* While the fence is closed, [`permit`](Self::permit) does not return,
/// [`try_permit`](Self::try_permit) fails, and a client made by [`client`](Self::client) or
/// [`connect`](Self::connect) sends no write. Time is measured by a clock that runs while the
/// process is stopped and while the machine is suspended: `CLOCK_BOOTTIME` on Linux, the monotonic
/// clock elsewhere. On a paused tokio clock (tests) it is tokio's clock.
///
/// *Not guaranteed.* That a request which was sent before the deadline does not arrive after it. No
/// lease can guarantee that; use `resourceVersion` preconditions where it matters. That an upgraded
/// connection (`exec`, `attach`, `portforward`), which is opened before the deadline, is closed at
/// it. Also, the check and the permitted operation are separate instructions: a thread that is
/// suspended between them for longer than the rest of the lease begins one call, or passes one
/// write to the socket, when it continues. That is at most one for each thread of the runtime, and
/// the writes of such a call are refused.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_controller::Fence;
///
/// let fence = Fence::new();
/// assert!(fence.try_permit().is_err(), "closed until a deadline is set");
///
/// fence.open_until(fence.now() + Duration::from_secs(10));
/// let permit = fence.try_permit()?;
/// assert_eq!(fence.running(), 1);
///
/// fence.close();
/// assert!(!fence.is_open());
/// drop(permit);
/// assert_eq!(fence.running(), 0);
/// # Ok::<(), windlass_controller::FenceClosed>(())
/// ```
#[derive(Clone)]
pub struct Fence {
    shared: Arc<FenceState>,
}

struct FenceState {
    clock: FenceClock,
    /// In nanoseconds of `clock`. 0 is closed.
    deadline: AtomicU64,
    /// The number of permits in use.
    running: AtomicUsize,
    /// The number of writes, other than of Events, that were dropped without a response.
    abandoned: AtomicUsize,
    /// Notified when the deadline moves.
    moved: Notify,
    /// Notified when the last permit is dropped.
    idle: Notify,
}

task_local! {
    /// The fence that permitted the call that runs.
    static CALL: Fence;
}

/// A permit for one call or write. Dropping it ends the call or write.
#[derive(Debug)]
#[must_use = "the permit must live as long as what it permits"]
pub struct FencePermit {
    fence: Fence,
}

// === impl Fence ===

impl Fence {
    /// Creates a closed fence with the clock that runs during suspend.
    #[must_use]
    pub fn new() -> Self {
        Self::from_clock(FenceClock::system())
    }

    /// Creates a closed fence that reads the time from `clock`: a duration since any fixed point.
    ///
    /// For tests that freeze or jump the clock. `clock` must not go back.
    #[doc(hidden)]
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self::from_clock(FenceClock::custom(clock))
    }

    fn from_clock(clock: FenceClock) -> Self {
        Self {
            shared: Arc::new(FenceState {
                clock,
                deadline: AtomicU64::new(0),
                running: AtomicUsize::new(0),
                abandoned: AtomicUsize::new(0),
                moved: Notify::new(),
                idle: Notify::new(),
            }),
        }
    }

    /// The time of this fence's clock, since a fixed point of that clock.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    /// Sets the deadline, in the time of this fence's clock. A deadline in the past closes the
    /// fence.
    ///
    /// Compute the deadline from a time *before* the renewal was sent.
    pub fn open_until(&self, deadline: Duration) {
        self.set(nanos(deadline));
    }

    /// Closes the fence until the next [`open_until`](Self::open_until).
    pub fn close(&self) {
        self.set(0);
    }

    /// Whether the deadline is in the future.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let deadline = self.shared.deadline.load(Ordering::SeqCst);
        nanos(self.now()) < deadline
    }

    /// Waits until the fence is open, and permits one call.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes no permit.
    pub async fn permit(&self) -> FencePermit {
        loop {
            let moved = self.shared.moved.notified();
            if let Ok(permit) = self.try_permit() {
                return permit;
            }
            moved.await;
        }
    }

    /// Permits one call or write now.
    ///
    /// # Errors
    ///
    /// [`FenceClosed`] if the deadline has passed or none was set.
    pub fn try_permit(&self) -> Result<FencePermit, FenceClosed> {
        // Counted first: code that closes the fence and then counts misses no permit.
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        let permit = FencePermit {
            fence: self.clone(),
        };
        self.check().map(|()| permit)
    }

    /// Fails if the fence is closed.
    fn check(&self) -> Result<(), FenceClosed> {
        if self.is_open() {
            Ok(())
        } else {
            Err(self.refusal())
        }
    }

    /// The number of permits in use: calls and writes in progress.
    #[doc(hidden)]
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst)
    }

    /// The number of writes that were dropped without a response, for example with the call that sent
    /// them. The API server may still apply them. Writes of Events are not counted.
    #[doc(hidden)]
    #[must_use]
    pub fn abandoned_writes(&self) -> usize {
        self.shared.abandoned.load(Ordering::SeqCst)
    }

    /// Waits until no permit is in use. Close the fence first, so that no new permit is issued.
    #[doc(hidden)]
    pub async fn idle(&self) {
        loop {
            let idle = self.shared.idle.notified();
            if self.running() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Waits until the fence is closed, by its deadline or by [`close`](Self::close).
    pub async fn closed(&self) {
        /// A timer may fire a little early, and the clock of a test may stand still.
        const MIN_WAIT: Duration = Duration::from_millis(1);
        loop {
            let moved = self.shared.moved.notified();
            if !self.is_open() {
                return;
            }
            let deadline = Duration::from_nanos(self.shared.deadline.load(Ordering::SeqCst));
            let left = deadline.saturating_sub(self.now()).max(MIN_WAIT);
            tokio::select! {
                biased;
                () = sleep(left) => {}
                () = moved => {}
            }
        }
    }

    /// The error of a closed fence.
    fn refusal(&self) -> FenceClosed {
        let deadline = match self.shared.deadline.load(Ordering::SeqCst) {
            0 => None,
            deadline => Some(Duration::from_nanos(deadline)),
        };
        let expired = deadline.map(|deadline| self.now().saturating_sub(deadline));
        FenceClosed::new(expired)
    }

    fn set(&self, deadline: u64) {
        self.shared.deadline.store(deadline, Ordering::SeqCst);
        self.shared.moved.notify_waiters();
    }
}

impl Default for Fence {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence")
            .field("is_open", &self.is_open())
            .field("running", &self.running())
            .finish_non_exhaustive()
    }
}

// === impl FencePermit ===

impl FencePermit {
    /// Runs `call`, within which [`check`] checks the fence of this permit.
    pub(crate) async fn within<C: Future>(&self, call: C) -> C::Output {
        CALL.scope(self.fence.clone(), call).await
    }
}

impl Drop for FencePermit {
    fn drop(&mut self) {
        let shared = &self.fence.shared;
        if shared.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            shared.idle.notify_waiters();
        }
    }
}

/// Checks the fence of the call that runs, if it has one: a wrapper awaits the API server before it
/// calls the user's code, and the deadline may pass meanwhile.
///
/// # Errors
///
/// [`FenceClosed`] if the deadline has passed.
pub(crate) fn check() -> Result<(), FenceClosed> {
    CALL.try_with(Fence::check).unwrap_or(Ok(()))
}

/// Saturates after 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
