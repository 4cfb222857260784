//! Counts of a handler: how many events, how late, and whether it was all.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use kube::Resource;
use tokio::sync::{Mutex, Notify};
use windlass_informer::Named;

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

    /// The object that is trouble to the others, and not looked at itself.
    apart: Option<usize>,
    /// Whether its handler never returns.
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

    /// A handler was entered with `object`.
    pub(crate) fn object<K: Resource>(&self, object: &K) {
        let meta = object.meta();
        let sent = || meta.annotations.as_ref()?.get(SENT)?.parse().ok();
        self.note(
            meta.name.as_deref(),
            meta.resource_version.as_deref(),
            Some(sent),
        );
    }

    /// A handler was entered with an object that it does not look into, and so does not see
    /// when it was sent.
    pub(crate) fn named(&self, object: &impl Named) {
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

    /// From now on the handler of the object that is trouble never returns.
    pub(crate) fn hang(&self) {
        self.hanging.store(true, Ordering::Relaxed);
    }

    /// Returns, unless this is the handler that never does.
    pub(crate) async fn or_hang(&self, object: &impl Named) {
        if self.hanging.load(Ordering::Relaxed) && index_of(object.name()) == self.apart {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until every object was seen in the version that is wanted.
    pub(crate) async fn all(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            self.all.notified().await;
        }
    }

    /// Wants every object again, in a version from `wanted` on; `count` of them. What was
    /// seen so far is forgotten.
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

    /// How many of `objects` were seen as wanted.
    pub(crate) fn done(&self, objects: usize) -> usize {
        objects.saturating_sub(self.left.load(Ordering::Acquire))
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Notes how late the calls were: half of them, and 99 of 100.
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
