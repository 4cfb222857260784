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

#![cfg(target_os = "linux")]

use std::{env, time::Duration};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

// The servers.
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../behaviour/real.rs"]
#[allow(dead_code, reason = "the other tests that include it use the rest")]
mod real;

// The processes.
mod child;
mod process;

// Work, faults and measurements.
mod faults;
mod memory;
mod work;

use self::{memory::Memory, work::Cluster};

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

mod embedded {
    #[test]
    fn nothing_is_lost_no_task_is_left_and_memory_stays_flat_under_faults() {
        super::soak(super::Kind::Embedded);
    }
}

mod kube_apiserver {
    #[test]
    fn nothing_is_lost_no_task_is_left_and_memory_stays_flat_under_faults() {
        super::soak(super::Kind::Real);
    }
}

fn soak(kind: Kind) {
    if env::var(child::URL).is_ok() {
        // A child process.
        return;
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
        let Some(mut cluster) = Cluster::start(kind, rng.random()).await else {
            println!("skipped: no real kube-apiserver is available");
            return;
        };
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
