//! A handler's counts: the number of events, their delay, and whether all arrived.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use kube::Resource;
use tokio::sync::{Mutex, Notify};
use windlass_informer::ObjectIdentity;

use crate::{
    measure::{Measured, float, monotonic},
    objects::{SENT, index_of},
};

/// The counts of the handlers of one child.
#[derive(Debug)]
pub(crate) struct Seen {
    calls: AtomicU64,
    /// An object is done when it is seen with at least this version.
    wanted: AtomicU64,
    done: Vec<AtomicBool>,
    left: AtomicUsize,
    all: Notify,
    lateness: Option<Mutex<Vec<u64>>>,

    /// The disturbing object, which is not counted.
    apart: Option<usize>,
    /// Whether the handler of the disturbing object never returns.
    hanging: AtomicBool,
}

// === impl Seen ===

impl Seen {
    pub(crate) fn new(count: usize, timed: bool, apart: Option<usize>) -> Self {
        Self {
            calls: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            done: (0..count).map(|_| AtomicBool::new(false)).collect(),
            left: AtomicUsize::new(count),
            all: Notify::new(),
            lateness: timed.then(|| Mutex::new(Vec::with_capacity(1 << 16))),
            apart,
            hanging: AtomicBool::new(false),
        }
    }

    /// Records a call of a handler with `object`.
    pub(crate) fn object<K: Resource>(&self, object: &K) {
        let meta = object.meta();
        let sent = || meta.annotations.as_ref()?.get(SENT)?.parse().ok();
        self.note(
            meta.name.as_deref(),
            meta.resource_version.as_deref(),
            Some(sent),
        );
    }

    /// Records a call of a handler with an undecoded object, whose time of sending is not known.
    pub(crate) fn named(&self, object: &impl ObjectIdentity) {
        let unsent = None::<fn() -> Option<u64>>;
        self.note(Some(object.name()), object.resource_version(), unsent);
    }

    fn note(
        &self,
        name: Option<&str>,
        version: Option<&str>,
        sent: Option<impl FnOnce() -> Option<u64>>,
    ) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let version = version.map(str::parse::<u64>);
        let (Some(Ok(version)), Some(index)) = (version, name.and_then(index_of)) else {
            return;
        };
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted > 0 && self.apart == Some(index) {
            return;
        }
        if let Some(lateness) = &self.lateness
            && let Some(sent) = sent
            && wanted > 0
        {
            let sent = sent().unwrap_or(u64::MAX);
            // An object of the first list has no time of sending.
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

    /// Makes the handler of the disturbing object hang from now on.
    pub(crate) fn hang(&self) {
        self.hanging.store(true, Ordering::Relaxed);
    }

    /// Hangs if this is the handler of the disturbing object.
    pub(crate) async fn or_hang(&self, object: &impl ObjectIdentity) {
        if self.hanging.load(Ordering::Relaxed) && index_of(object.name()) == self.apart {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until every object was seen with the expected version.
    pub(crate) async fn all(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            self.all.notified().await;
        }
    }

    /// Expects `count` objects with at least the version `wanted`. Resets all counts.
    pub(crate) fn want(&self, wanted: u64, count: usize) {
        for done in &self.done {
            done.store(false, Ordering::Relaxed);
        }
        self.left.store(count, Ordering::Release);
        self.wanted.store(wanted, Ordering::Release);
        self.calls.store(0, Ordering::Relaxed);
        if let Some(lateness) = &self.lateness
            && let Ok(mut lateness) = lateness.try_lock()
        {
            lateness.clear();
        }
    }

    /// The number of `objects` that were seen with the expected version.
    pub(crate) fn done(&self, objects: usize) -> usize {
        objects.saturating_sub(self.left.load(Ordering::Acquire))
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Records the p50 and p99 of the delays.
    pub(crate) async fn lateness(&self, names: [&str; 2], measured: &mut Measured) {
        let Some(lateness) = &self.lateness else {
            return;
        };
        let mut lateness = lateness.lock().await;
        lateness.sort_unstable();
        let last = lateness.len().saturating_sub(1);
        for (name, thousandths) in names.into_iter().zip([500, 990]) {
            if let Some(late) = lateness.get(last * thousandths / 1000) {
                measured.set(name, float(*late) / 1e3);
            }
        }
    }
}
