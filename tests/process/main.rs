//! Operators in processes of their own: what must hold when the log, the runtime, or the operating
//! system fails.
//!
//! Each test that needs an API server runs with the embedded one and with the real kube-apiserver.

// A test that runs itself again as a child process, and its API server.
mod child;
mod cluster;
#[path = "../behaviour/real.rs"]
#[allow(dead_code, reason = "the other tests that include it use the rest")]
mod real;
#[path = "../support/trial.rs"]
mod trial;

mod blocked;
mod descriptors;
mod exit;
mod log;
mod read_timeout;

fn main() {
    // The compiler reports a module that is not listed: its function is never used.
    let modules = [
        blocked::trials(),
        descriptors::trials(),
        exit::trials(),
        log::trials(),
        read_timeout::trials(),
    ];
    trial::run(modules.into_iter().flatten().collect())
}
