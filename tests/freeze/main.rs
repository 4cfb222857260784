//! Leader processes that are frozen for longer than their lease, on both servers.
//!
//! Two replicas of an operator run as child processes. The leader is stopped with `SIGSTOP`, the
//! other one takes over, and the first one continues with `SIGCONT` and hundreds of overdue requeues.
//! A proxy outside of the processes records when each write arrives. It delays some writes, so that
//! writes are in the network when their sender is frozen. The deadline of a leader is at most its
//! renew deadline after the proxy received its last renewal.
//!
//! The check of the fence and the start of a call are two instructions. A process that is stopped
//! between them starts the call when it continues. No check can prevent this for one call or write
//! per thread. So each call prints the time of its check, and calls that were checked before the
//! deadline and started after it are counted separately. Their number is limited for each freeze and
//! for the campaign.
//!
//! Each replica has two reconcilers: one that writes all the time, and one with a finalizer, whose
//! objects are deleted just before the freeze.
//!
//! `FREEZES=100 cargo test --test freeze` runs a campaign; `cargo xtask test` runs it on both
//! servers.

use std::{
    env,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use rustix::time::{ClockId, clock_gettime};

// The servers.
mod cluster;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../behaviour/real.rs"]
#[allow(dead_code, reason = "the other tests that include it use the rest")]
mod real;
#[path = "../support/trial.rs"]
mod trial;

// The replicas.
mod child;
mod replica;

use self::{
    cluster::{Cluster, Kind},
    real::RealServer,
};

const LEASE: Duration = Duration::from_secs(3);
const RENEW: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(200);

/// The number of objects. Each is reconciled and written repeatedly.
const OBJECTS: usize = 200;
const REQUEUE: Duration = Duration::from_secs(1);

/// The number of objects with a finalizer. They are deleted just before the freeze.
const FINALIZED: usize = 40;
const FINALIZER: &str = "example.io/freeze";

/// The duration of a clean-up: longer than from the delete to the freeze, and shorter than a freeze.
const CLEAN_UP: Duration = Duration::from_secs(1);

/// The number of threads of a replica that start calls and writes.
const THREADS: usize = 2;

/// The concurrency: this many calls could start when a replica continues.
const CONCURRENCY: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// The timeout of each step.
const LIMIT: Duration = Duration::from_secs(60);

/// Held by a campaign: two at the same time would share the processors.
static CAMPAIGN: Mutex<()> = Mutex::new(());

/// The totals of a campaign.
#[derive(Debug, Default)]
struct Totals {
    calls: usize,
    /// Those of the calls that clean up.
    deletes: usize,
    writes: usize,
    /// Calls whose check was after the deadline. Must be zero.
    permitted_late: usize,
    /// Calls that were checked before the deadline and started after it.
    begun_late: usize,
    /// Writes that arrived after the deadline.
    written_late: usize,
    /// Writes without a response when the leader was frozen.
    in_network: usize,
    /// Those of them that reached the server after the deadline.
    applied_late: usize,
    refused: usize,
}

fn main() {
    if child::is_replica() {
        child::replica();
    }
    let name =
        "a_leader_frozen_for_longer_than_its_lease_begins_and_writes_nothing_after_its_deadline";
    let body =
        a_leader_frozen_for_longer_than_its_lease_begins_and_writes_nothing_after_its_deadline;
    trial::run(vec![
        trial::trial("freeze::embedded", name, move || body(Kind::Embedded)),
        trial::trial("freeze::kube_apiserver", name, move || body(Kind::Real)),
    ])
}

/// Rows: BO-24
fn a_leader_frozen_for_longer_than_its_lease_begins_and_writes_nothing_after_its_deadline(
    kind: Kind,
) {
    trial::require_linux();
    if let Kind::Real = kind {
        RealServer::require();
    }
    let _one = CAMPAIGN.lock().unwrap_or_else(PoisonError::into_inner);
    let freezes = env::var("FREEZES").map_or(4, |it| it.parse().expect("a number"));
    let seed =
        env::var("SEED").map_or_else(|_| rand::rng().random(), |it| it.parse().expect("a number"));
    println!("SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let cluster = Cluster::start(kind, rng.random());

    let mut totals = Totals::default();
    let mut names = (0..).map(|number| format!("replica-{number}"));
    let mut name = || names.next().expect("endless");
    let mut leader = cluster.replica(&name());
    let mut freeze = 0;
    while freeze < freezes {
        let mut standby = cluster.replica(&name());
        if !cluster.until_it_writes(&mut leader, 50) {
            println!("the leader lost its lease before the freeze, because the machine is busy");
            leader = standby;
            continue;
        }
        if !cluster.delete_finalized(&mut leader) {
            println!("the leader lost its lease before the freeze, because the machine is busy");
            leader = standby;
            continue;
        }
        // Freeze at a random time between two renewals. No result depends on it.
        thread::sleep(Duration::from_millis(rng.random_range(0..400)));

        leader.signal("-STOP");
        // Its sent writes have arrived after this time.
        thread::sleep(Duration::from_millis(100));
        let deadline = cluster.last_renewal() + RENEW;
        let in_network = cluster.unanswered(leader.name());
        let is_lost = now() >= deadline || leader.has_ended();
        if is_lost || !cluster.writes(standby.name()).is_empty() {
            println!("the leader lost its lease before the freeze, because the machine is busy");
            leader = standby;
            continue;
        }
        freeze += 1;
        // The length of the freeze.
        thread::sleep(LEASE + Duration::from_millis(rng.random_range(0..1500)));
        let took_over = cluster.until_it_writes(&mut standby, 1);
        leader.signal("-CONT");
        let report = leader.end();

        let writes = cluster.writes(report.name());
        let of_this = Totals {
            calls: report.calls().len(),
            deletes: report.deletes(),
            writes: writes.len(),
            permitted_late: report.permitted_after(deadline),
            begun_late: report.begun_after(deadline),
            written_late: writes.iter().filter(|it| it.received > deadline).count(),
            in_network,
            applied_late: (writes.iter())
                .filter(|it| it.received <= deadline && it.passed_on > Some(deadline))
                .count(),
            refused: report.refused(),
        };
        println!("freeze {freeze}: {of_this:?}");
        assert!(took_over, "another replica leads");
        assert!(report.lost(), "it noticed that it had lost the lease");
        let taken_over = cluster.writes(standby.name()).first().map(|it| it.received);
        assert!(taken_over > Some(deadline), "{taken_over:?}, {deadline:?}");
        assert_eq!(of_this.permitted_late, 0);
        // Stopped between the check and the start of a call or write, at most once per thread.
        assert!(of_this.begun_late <= THREADS);
        assert!(of_this.written_late <= THREADS);
        totals.add(&of_this);
        leader = standby;
    }
    println!("{freezes} freezes: {totals:?}");
    let calls = totals.calls;
    assert!(calls >= 50 * freezes, "otherwise it shows nothing: {calls}");
    let deletes = totals.deletes;
    assert!(
        deletes >= 10 * freezes,
        "otherwise it shows nothing: {deletes}"
    );
    // A thread is rarely stopped at exactly that point: 3 calls and no write in 300 freezes.
    let (begun, written) = (totals.begun_late, totals.written_late);
    assert!(begun <= THREADS.max(freezes / 10), "{totals:?}");
    assert!(written <= freezes / 100, "{totals:?}");
}

// === impl Totals ===

impl Totals {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.deletes += other.deletes;
        self.writes += other.writes;
        self.permitted_late += other.permitted_late;
        self.begun_late += other.begun_late;
        self.written_late += other.written_late;
        self.in_network += other.in_network;
        self.applied_late += other.applied_late;
        self.refused += other.refused;
    }
}

/// A clock that continues while a process is stopped, and is the same in all processes.
fn now() -> Duration {
    // Elsewhere the test is ignored.
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    Duration::try_from(clock_gettime(CLOCK)).expect("after the start")
}
