//! Behaviour tests of operators that move from kube-rs, on the embedded and the real server.
//!
//! Each test body takes a [`Cluster`](cluster::Cluster) and runs twice: as `embedded::...`
//! on a fresh server in the process, and as `kube_apiserver::...` in a fresh namespace of
//! the real one. Where there is no real one, the tests of the second half are ignored.

#![allow(
    clippy::default_trait_access,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::match_same_arms,
    clippy::needless_pass_by_value,
    clippy::arc_with_non_send_sync,
    clippy::similar_names,
    reason = "programs as users of kube-rs write them; their channels and futures are small"
)]

#[macro_use]
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod cluster;
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod connection;
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod kinds;
#[allow(dead_code, reason = "each binary of the suite uses a part")]
mod real;
#[path = "../support/trial.rs"]
mod trial;

mod forms;
mod moved;
mod runtime;

fn main() {
    #[cfg(unix)]
    if runtime::signals::is_operator() {
        return runtime::signals::operate();
    }
    // The compiler reports a module that is not listed: its function is never used.
    let modules = [
        forms::trials(),
        moved::trials(),
        runtime::calls::trials(),
        runtime::dynamic::trials(),
        runtime::gaps::trials(),
        runtime::programs::trials(),
        runtime::secondaries::trials(),
        runtime::shutdown::trials(),
        #[cfg(unix)]
        runtime::signals::trials(),
        runtime::streams::trials(),
        runtime::triggers::trials(),
    ];
    trial::run_waiting(modules.into_iter().flatten().collect())
}
