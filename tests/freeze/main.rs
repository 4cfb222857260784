//! Leaders that are frozen for longer than their lease, as processes, on both servers.
//!
//! Two replicas of an operator run as child processes. The leader is stopped with `SIGSTOP`, the
//! other one takes over, and the first wakes with `SIGCONT` and hundreds of overdue requeues.
//! The oracle is outside of it: a proxy notes when each write arrived, and delays some of them, so
//! that writes are in the network when their sender is frozen. A leader's deadline is at most its
//! renew deadline after the proxy received its last renewal.
//!
//! A check and what it permits are two instructions. A process that is stopped between them goes on
//! with the second one when it wakes, and no check can prevent that: at most one call or write for
//! each of its threads. So each call says when the fence was checked for it, and calls that were
//! checked before the deadline and begun after it are counted apart.
//!
//! `FREEZES=100 cargo test --test freeze` runs a campaign; `cargo xtask test` runs it on both
//! servers.

#![cfg(target_os = "linux")]

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

// The replicas.
mod child;
mod replica;

use self::cluster::{Cluster, Kind};

const LEASE: Duration = Duration::from_secs(3);
const RENEW: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(200);

/// Objects, each of which is reconciled and written again and again.
const OBJECTS: usize = 200;
const REQUEUE: Duration = Duration::from_secs(1);

/// Threads of a replica that make calls and writes.
const THREADS: usize = 2;

/// Calls at once: all of them could begin when a replica wakes.
const CONCURRENCY: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// The longest that a step of this test may take.
const LIMIT: Duration = Duration::from_secs(60);

/// One campaign at a time: two at once would take each other's processors.
static CAMPAIGN: Mutex<()> = Mutex::new(());

/// What a campaign adds up to.
#[derive(Debug, Default)]
struct Totals {
    calls: usize,
    writes: usize,
    /// Calls whose check read a time after the deadline. None, ever.
    permitted_late: usize,
    /// Calls that were checked before the deadline, and begun after it.
    begun_late: usize,
    /// Writes that arrived after the deadline.
    written_late: usize,
    /// Writes that had left the leader and were not answered when it was frozen.
    in_network: usize,
    /// Those of them that reached the server after the deadline.
    applied_late: usize,
    refused: usize,
}

mod embedded {
    /// Rows: BO-24
    #[test]
    fn a_leader_frozen_for_longer_than_its_lease_begins_and_writes_nothing_after_its_deadline() {
        super::campaign(super::Kind::Embedded);
    }
}

mod kube_apiserver {
    /// Rows: BO-24
    #[test]
    fn a_leader_frozen_for_longer_than_its_lease_begins_and_writes_nothing_after_its_deadline() {
        super::campaign(super::Kind::Real);
    }
}

fn campaign(kind: Kind) {
    let _one = CAMPAIGN.lock().unwrap_or_else(PoisonError::into_inner);
    let freezes = env::var("FREEZES").map_or(4, |it| it.parse().expect("a number"));
    let seed =
        env::var("SEED").map_or_else(|_| rand::rng().random(), |it| it.parse().expect("a number"));
    println!("SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let Some(cluster) = Cluster::start(kind, rng.random()) else {
        println!("not run: there is no real kube-apiserver here");
        return;
    };

    let mut totals = Totals::default();
    let mut names = (0..).map(|number| format!("replica-{number}"));
    let mut name = || names.next().expect("endless");
    let mut leader = cluster.replica(&name());
    let mut freeze = 0;
    while freeze < freezes {
        let mut standby = cluster.replica(&name());
        if !cluster.until_it_writes(&mut leader, 50) {
            println!("the leader lost its lease before the freeze: a busy machine");
            leader = standby;
            continue;
        }
        // So that the freeze comes at any point between two renewals; no result depends on it.
        thread::sleep(Duration::from_millis(rng.random_range(0..400)));

        leader.signal("-STOP");
        // What it sent has arrived by then.
        thread::sleep(Duration::from_millis(100));
        let deadline = cluster.last_renewal() + RENEW;
        let in_network = cluster.unanswered(leader.name());
        if !cluster.writes(standby.name()).is_empty() {
            println!("the leader lost its lease before the freeze: a busy machine");
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
        // Stopped between the check and what it permits.
        assert!(of_this.begun_late <= THREADS);
        assert!(of_this.written_late <= THREADS);
        totals.add(&of_this);
        leader = standby;
    }
    println!("{freezes} freezes: {totals:?}");
    let calls = totals.calls;
    assert!(calls >= 50 * freezes, "otherwise it shows nothing: {calls}");
}

// === impl Totals ===

impl Totals {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.writes += other.writes;
        self.permitted_late += other.permitted_late;
        self.begun_late += other.begun_late;
        self.written_late += other.written_late;
        self.in_network += other.in_network;
        self.applied_late += other.applied_late;
        self.refused += other.refused;
    }
}

/// The clock that runs while a process is stopped, the same in all processes.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).expect("after the start")
}
