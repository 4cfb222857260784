//! Random faults of requests, in phases of random length.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{StatusCode, request::Parts};
use rand::{Rng as _, rngs::StdRng};
use tokio::time::Instant;

use crate::proxy::Fault;

/// The faults of a run. All clones share one state.
#[derive(Clone)]
pub(crate) struct Faults {
    state: Arc<Mutex<State>>,
    requests: Arc<AtomicUsize>,
    harmed: Arc<AtomicUsize>,
}

struct State {
    rng: StdRng,
    phase: Phase,
    until: Instant,
    /// The faults have stopped.
    is_over: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Calm,
    /// Some requests get an error response.
    Refusing,
    /// Connections are closed before a request, before the response, or during the response.
    Cutting,
    Slow,
    /// All requests fail.
    Down,
}

// === impl Faults ===

impl Faults {
    pub(crate) fn new(rng: StdRng) -> Self {
        let state = State {
            rng,
            phase: Phase::Calm,
            until: Instant::now(),
            is_over: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            requests: Arc::default(),
            harmed: Arc::default(),
        }
    }

    /// The fault of the next request.
    pub(crate) fn next(&self, parts: &Parts) -> Fault {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = state.next(parts);
        if !matches!(fault, Fault::None) {
            self.harmed.fetch_add(1, Ordering::Relaxed);
        }
        fault
    }

    /// Stops all faults.
    pub(crate) fn stop(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_over = true;
    }

    /// The number of requests, and the number of faults.
    pub(crate) fn count(&self) -> (usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (load(&self.requests), load(&self.harmed))
    }
}

// === impl State ===

impl State {
    fn next(&mut self, parts: &Parts) -> Fault {
        // No faults for the lease: without renewals for 10 s the operator would end.
        if self.is_over || parts.uri.path().contains("/leases") {
            return Fault::None;
        }
        if Instant::now() >= self.until {
            self.turn();
        }
        let rng = &mut self.rng;
        let is_watch = parts.uri.query().is_some_and(|it| it.contains("watch="));
        let some = rng.random_bool(0.3);
        match self.phase {
            Phase::Down => Fault::Unsent,
            Phase::Refusing if some => {
                let code = [429, 500, 503, 504, 502, 403][rng.random_range(0..6)];
                Fault::Refused(StatusCode::from_u16(code).expect("a status"))
            }
            Phase::Cutting if is_watch => {
                Fault::CutAfter(Duration::from_millis(rng.random_range(0..2000)))
            }
            Phase::Cutting if some => [Fault::Unsent, Fault::Unanswered][rng.random_range(0..2)],
            Phase::Slow if some => Fault::Delayed(Duration::from_millis(rng.random_range(0..2000))),
            _ => Fault::None,
        }
    }

    /// Begins another phase.
    fn turn(&mut self) {
        let phases = [
            Phase::Calm,
            Phase::Refusing,
            Phase::Cutting,
            Phase::Slow,
            Phase::Down,
        ];
        self.phase = phases[self.rng.random_range(0..phases.len())];
        let most = if matches!(self.phase, Phase::Down) {
            3000
        } else {
            8000
        };
        let length = Duration::from_millis(self.rng.random_range(500..most));
        self.until = Instant::now() + length;
    }
}
