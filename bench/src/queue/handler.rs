//! The handlers of all contenders, which only count.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::{Mutex, Notify};

use super::index_of;
use crate::measure::{Measured, float, monotonic};

/// The result of a handler after a new event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Nothing,
    /// Requests a retry, with a different delay for each object.
    Again {
        after: Duration,
        within: Duration,
    },
}

/// A handler that counts its calls, and waits while a gate is closed.
#[derive(Debug)]
pub(super) struct Handler {
    closed: AtomicBool,
    opened: Notify,
    left: AtomicUsize,
    all: Notify,
    does: std::sync::RwLock<Does>,
    /// The due time of each object's retry. Zero if it has none.
    due: Vec<AtomicU64>,
    late: Mutex<Vec<u64>>,
}

// === impl Handler ===

impl Handler {
    pub(super) fn new(objects: usize) -> Self {
        Self {
            closed: AtomicBool::new(false),
            opened: Notify::new(),
            left: AtomicUsize::new(0),
            all: Notify::new(),
            does: std::sync::RwLock::new(Does::Nothing),
            due: (0..objects).map(|_| AtomicU64::new(0)).collect(),
            late: Mutex::new(Vec::with_capacity(objects)),
        }
    }

    /// Sets the number of expected calls and their result.
    pub(super) fn expect(&self, calls: usize, does: Does) {
        *self
            .does
            .write()
            .expect("no thread panics while it holds the lock") = does;
        self.left.store(calls, Ordering::Release);
    }

    /// Makes all further calls wait.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn open(&self) {
        self.closed.store(false, Ordering::Release);
        self.opened.notify_waiters();
    }

    /// Waits until all expected calls have been made.
    pub(super) async fn all(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            self.all.notified().await;
        }
    }

    /// Handles one call. Returns the delay of a retry.
    pub(super) async fn call(&self, object: &ConfigMap) -> Option<Duration> {
        while self.closed.load(Ordering::Acquire) {
            let opened = self.opened.notified();
            if self.closed.load(Ordering::Acquire) {
                opened.await;
            }
        }
        let again = self.again(object);
        // A periodic resync may add calls.
        let left = (self.left).fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            left.checked_sub(1)
        });
        if left == Ok(1) {
            self.all.notify_one();
        }
        again
    }

    /// Records the delays of retries after their due times.
    pub(super) fn lateness(&self, measured: &mut Measured) {
        let Ok(mut late) = self.late.try_lock() else {
            return;
        };
        late.sort_unstable();
        let last = late.len().saturating_sub(1);
        for (name, thousandths) in [("p50_us", 500), ("p99_us", 990)] {
            if let Some(late) = late.get(last * thousandths / 1000) {
                measured.set(name, float(*late) / 1e3);
            }
        }
    }

    fn again(&self, object: &ConfigMap) -> Option<Duration> {
        let does = *self
            .does
            .read()
            .expect("no thread panics while it holds the lock");
        let Does::Again { after, within } = does else {
            return None;
        };
        let index = index_of(object)?;
        let due = self.due.get(index)?;
        let was = due.swap(0, Ordering::Relaxed);
        if was > 0 && was <= monotonic() {
            if let Ok(mut late) = self.late.try_lock() {
                late.push(monotonic() - was);
            }
            return None;
        }
        // Evenly distributed in a scrambled order, by the golden ratio.
        let part = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let after = after + within.mul_f64(float(part) / float(1 << 24));
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        due.store(monotonic() + nanos, Ordering::Relaxed);
        Some(after)
    }
}
