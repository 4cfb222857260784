//! Soak test: random work under random faults, on both servers. Memory must not grow, no clean-up may
//! be lost, and no task may remain.
//!
//! An operator with a finalizer, a lease and an admin server runs in a separate process, and so does
//! the embedded server. A proxy between them refuses, delays and cuts requests in phases. Meanwhile
//! the history is compacted, and objects are created, updated and deleted. After the faults have
//! stopped, the state must become the same as without faults.
//!
//! `cargo xtask soak --minutes 10` runs it for longer than the few seconds of a test run. Memory is
//! compared after five minutes, because the growth after the start is not a leak.

use std::{env, time::Duration};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

// The servers.
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../behaviour/real.rs"]
#[allow(dead_code, reason = "the other tests that include it use the rest")]
mod real;
#[path = "../support/trial.rs"]
mod trial;

// The processes.
mod child;
mod process;

// Work, faults and measurements.
mod faults;
mod memory;
mod work;

use self::{memory::Memory, real::RealServer, work::Cluster};

/// The environment variable that `cargo xtask soak` sets.
const MINUTES: &str = "WINDLASS_SOAK_MINUTES";

/// The duration in a normal test run.
const BRIEF: Duration = Duration::from_secs(8);

/// The time after which memory is compared.
const LONG: Duration = Duration::from_secs(300);

/// The highest growth of the operator, in MiB per minute. At 2,400 requests and 310 deletes a minute
/// this is a leak of 220 bytes for each request, or of 1.7 KB for each deleted object.
const OPERATOR_GROWTH: f64 = 0.5;

/// The same for the embedded server. Higher, because its history is bounded by time and bytes, and
/// so depends on the size of the last writes.
const SERVER_GROWTH: f64 = 2.0;

/// The longest time until the state has settled after the faults.
const SETTLES: Duration = Duration::from_secs(90);

/// The server of a run.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Embedded,
    Real,
}

fn main() {
    if let Ok(name) = env::var(child::CHILD) {
        child::run(&name);
    }
    let name = "nothing_is_lost_no_task_is_left_and_memory_stays_flat_under_faults";
    let body = nothing_is_lost_no_task_is_left_and_memory_stays_flat_under_faults;
    trial::run(vec![
        trial::trial("soak::embedded", name, move || body(Kind::Embedded)),
        trial::trial("soak::kube_apiserver", name, move || body(Kind::Real)),
        trial::trial(
            "soak::memory",
            "a_leak_is_noticed_and_peaks_and_the_start_are_not",
            memory::a_leak_is_noticed_and_peaks_and_the_start_are_not,
        ),
    ])
}

fn nothing_is_lost_no_task_is_left_and_memory_stays_flat_under_faults(kind: Kind) {
    trial::require_linux();
    if let Kind::Real = kind {
        RealServer::require();
    }
    let minutes: Option<u64> = env::var(MINUTES)
        .ok()
        .map(|it| it.parse().expect("a number"));
    let length = minutes.map_or(BRIEF, |it| Duration::from_secs(60 * it));
    let seed =
        env::var("SEED").map_or_else(|_| rand::rng().random(), |it| it.parse().expect("a number"));
    println!("SEED={seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut cluster = Cluster::start(kind, rng.random()).await;
        let (mut operator, mut server) = cluster.memory();
        cluster
            .work(&mut rng, length, |sample| {
                operator.sample();
                if let Some(server) = &mut server {
                    server.sample();
                }
                println!(
                    "{kind:?} {sample}; operator {operator}{}",
                    server
                        .as_ref()
                        .map(|it| format!(", server {it}"))
                        .unwrap_or_default()
                );
            })
            .await;
        let settled = cluster.settle(SETTLES).await;
        let end = cluster.end().await;
        println!("{kind:?} settled in {settled:.1?}; {end}");
        assert_eq!(end.lost, 0, "each deleted object was cleaned up");
        assert_eq!(end.operator_tasks, 0, "tasks of the operator");
        assert_eq!(
            end.server_tasks.unwrap_or_default(),
            0,
            "tasks of the server"
        );
        let server = server.map(|it| ("server", it, SERVER_GROWTH));
        let both = [Some(("operator", operator, OPERATOR_GROWTH)), server];
        for (name, memory, most) in both.into_iter().flatten() {
            if length >= LONG {
                println!("{kind:?} {name}: {}", memory.summary());
                assert!(memory.growth() <= most, "{name}: {}", memory.summary());
            }
        }
    });
}
