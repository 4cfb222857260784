//! What a handler saw: how many events, how late, and whether it was all.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use kube::Resource;
use tokio::sync::{Mutex, Notify};

use crate::{
    measure::{Measured, float, monotonic},
    objects::{SENT, index_of},
};

/// What the handlers of one child saw.
#[derive(Debug)]
pub(crate) struct Seen {
    calls: AtomicU64,
    /// An object is done once it is seen in a version from this one on.
    wanted: AtomicU64,
    done: Vec<AtomicBool>,
    left: AtomicUsize,
    all: Notify,
    lateness: Option<Mutex<Vec<u64>>>,
}

// === impl Seen ===

impl Seen {
    pub(crate) fn new(count: usize, timed: bool) -> Self {
        Self {
            calls: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            done: (0..count).map(|_| AtomicBool::new(false)).collect(),
            left: AtomicUsize::new(count),
            all: Notify::new(),
            lateness: timed.then(|| Mutex::new(Vec::with_capacity(1 << 16))),
        }
    }

    /// A handler was entered with `object`.
    pub(crate) fn object<K: Resource>(&self, object: &K) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let meta = object.meta();
        let version = meta.resource_version.as_deref().map(str::parse::<u64>);
        let (Some(Ok(version)), Some(index)) = (version, meta.name.as_deref().and_then(index_of))
        else {
            return;
        };
        let wanted = self.wanted.load(Ordering::Relaxed);
        if let Some(lateness) = &self.lateness
            && wanted > 0
        {
            let sent = meta.annotations.as_ref().and_then(|all| all.get(SENT));
            let sent = sent.and_then(|sent| sent.parse().ok()).unwrap_or(u64::MAX);
            // An object that was there from the start was sent at no time.
            if sent > 0
                && let Ok(mut lateness) = lateness.try_lock()
            {
                lateness.push(monotonic().saturating_sub(sent));
            }
        }
        let fresh = version >= wanted
            && self
                .done
                .get(index)
                .is_some_and(|done| !done.swap(true, Ordering::Relaxed));
        if fresh && self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all.notify_one();
        }
    }

    /// Waits until every object was seen in the version that is wanted.
    pub(crate) async fn all(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            self.all.notified().await;
        }
    }

    /// Wants every object again, in a version from `wanted` on; `count` of them.
    pub(crate) fn want(&self, wanted: u64, count: usize) {
        for done in &self.done {
            done.store(false, Ordering::Relaxed);
        }
        self.left.store(count, Ordering::Release);
        self.wanted.store(wanted, Ordering::Release);
        self.calls.store(0, Ordering::Relaxed);
    }

    /// How many of `objects` were seen as wanted.
    pub(crate) fn done(&self, objects: usize) -> usize {
        objects.saturating_sub(self.left.load(Ordering::Acquire))
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Notes how late the calls were.
    pub(crate) async fn lateness(&self, measured: &mut Measured) {
        let Some(lateness) = &self.lateness else {
            return;
        };
        let mut lateness = lateness.lock().await;
        lateness.sort_unstable();
        let last = lateness.len().saturating_sub(1);
        for (name, thousandths) in [("p50_us", 500), ("p99_us", 990)] {
            if let Some(late) = lateness.get(last * thousandths / 1000) {
                measured.set(name, float(*late) / 1e3);
            }
        }
    }
}
