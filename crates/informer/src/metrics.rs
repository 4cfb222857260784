//! Metrics of informers. All names are in this file.

use std::{fmt, sync::Arc};

use parking_lot::RwLock;
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, core::Collector};

use crate::store::DeltaType;

/// The values of the label `reason`: a regular end, a requested list, and the reasons of
/// `WatchError`.
const REASONS: [&str; 15] = [
    "ended",
    "requested",
    "connection",
    "silent",
    "overdue",
    "unauthenticated",
    "forbidden",
    "unknown_kind",
    "invalid",
    "expired",
    "throttled",
    "server",
    "malformed",
    "too_long",
    "inconsistent",
];

/// The collectors of all informers of a process. The label `kind` distinguishes the informers.
///
/// Clones share the collectors.
///
/// # Example
///
/// ```
/// use windlass_informer::InformerMetrics;
///
/// let registry = prometheus::Registry::new();
/// for collector in InformerMetrics::new(None)?.collectors() {
///     registry.register(collector)?;
/// }
/// # Ok::<(), prometheus::Error>(())
/// ```
#[derive(Clone)]
pub struct InformerMetrics {
    objects: IntGaugeVec,
    restarts: IntCounterVec,
    lists: IntCounterVec,
    changes: IntCounterVec,
    undecodable: IntCounterVec,
    cache_reads: IntCounterVec,
    /// Its address identifies the collectors.
    identity: Arc<()>,
}

/// The counters of one informer, one set for each [`InformerMetrics`] that it counts in.
#[derive(Default)]
pub(crate) struct Instruments {
    counts: RwLock<Counts>,
}

#[derive(Default)]
struct Counts {
    /// The number of objects in the store, according to the counted changes.
    objects: i64,
    counters: Vec<KindCounters>,
}

struct KindCounters {
    kind: String,
    metrics: InformerMetrics,
    objects: prometheus::IntGauge,
    lists: IntCounter,
    undecodable: IntCounter,
    added: IntCounter,
    updated: IntCounter,
    deleted: IntCounter,
    resynced: IntCounter,
    cache_hits: IntCounter,
    cache_misses: IntCounter,
}

// === impl InformerMetrics ===

impl InformerMetrics {
    /// Creates the collectors. `namespace` and an underscore precede each name.
    ///
    /// # Errors
    ///
    /// [`prometheus::Error`] if `namespace` cannot be part of the name of a metric.
    pub fn new(namespace: Option<&str>) -> prometheus::Result<Self> {
        let opts =
            |name: &str, help: &str| Opts::new(name, help).namespace(namespace.unwrap_or_default());
        let counter = |name, help, labels: &[&str]| IntCounterVec::new(opts(name, help), labels);
        Ok(Self {
            objects: IntGaugeVec::new(
                opts("informer_store_objects", "Objects in the store."),
                &["kind"],
            )?,
            restarts: counter(
                "informer_watch_restarts_total",
                "Lists and watches that ended or broke, by reason.",
                &["kind", "reason"],
            )?,
            lists: counter("informer_lists_total", "Complete lists.", &["kind"])?,
            changes: counter(
                "informer_store_changes_total",
                "Changes of the store that were delivered to subscribers.",
                &["kind", "event_type"],
            )?,
            undecodable: counter(
                "informer_undecodable_objects_total",
                "Objects that did not decode and were quarantined.",
                &["kind"],
            )?,
            cache_reads: counter(
                "informer_decode_cache_reads_total",
                "Reads of objects that the store keeps as JSON: without decoding (hit), or with (miss).",
                &["kind", "result"],
            )?,
            identity: Arc::default(),
        })
    }

    /// Removes the series of `kind`, which has no informer any more. Call
    /// [`Informer::uninstrument`](crate::Informer::uninstrument) of each of its informers first:
    /// later counts of such an informer under this name may not be shown.
    pub fn remove(&self, kind: &str) {
        // A series that was never created cannot be removed, which is no error here.
        _ = self.objects.remove_label_values(&[kind]);
        _ = self.lists.remove_label_values(&[kind]);
        _ = self.undecodable.remove_label_values(&[kind]);
        for event in ["CREATE", "UPDATE", "DELETE", "RESYNC"] {
            _ = self.changes.remove_label_values(&[kind, event]);
        }
        for result in ["hit", "miss"] {
            _ = self.cache_reads.remove_label_values(&[kind, result]);
        }
        for reason in REASONS {
            _ = self.restarts.remove_label_values(&[kind, reason]);
        }
    }

    /// Whether `other` has the same collectors.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }

    /// The collectors, for a registry.
    #[must_use]
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.objects.clone()),
            Box::new(self.restarts.clone()),
            Box::new(self.lists.clone()),
            Box::new(self.changes.clone()),
            Box::new(self.undecodable.clone()),
            Box::new(self.cache_reads.clone()),
        ]
    }
}

impl fmt::Debug for InformerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerMetrics").finish_non_exhaustive()
    }
}

// === impl Instruments ===

impl Instruments {
    /// Counts in `metrics` from now on. The objects that are in the store are counted at once.
    pub(crate) fn add(&self, metrics: &InformerMetrics, kind: &str) {
        let mut counts = self.counts.write();
        if counts.counters.iter().any(|set| set.metrics.is(metrics)) {
            return;
        }
        let changes = |event: &str| metrics.changes.with_label_values(&[kind, event]);
        let set = KindCounters {
            objects: metrics.objects.with_label_values(&[kind]),
            lists: metrics.lists.with_label_values(&[kind]),
            undecodable: metrics.undecodable.with_label_values(&[kind]),
            added: changes("CREATE"),
            updated: changes("UPDATE"),
            deleted: changes("DELETE"),
            resynced: changes("RESYNC"),
            cache_hits: metrics.cache_reads.with_label_values(&[kind, "hit"]),
            cache_misses: metrics.cache_reads.with_label_values(&[kind, "miss"]),
            kind: kind.to_owned(),
            metrics: metrics.clone(),
        };
        set.objects.add(counts.objects);
        counts.counters.push(set);
    }

    /// Stops counting in `metrics`, and subtracts the stored objects.
    pub(crate) fn remove(&self, metrics: &InformerMetrics) {
        let mut counts = self.counts.write();
        let objects = counts.objects;
        counts.counters.retain(|set| {
            let stays = !set.metrics.is(metrics);
            if !stays {
                set.objects.sub(objects);
            }
            stays
        });
    }

    /// Corrects the number of stored objects: a run that was dropped may not have counted its last
    /// change.
    pub(crate) fn correct(&self, objects: usize) {
        let mut counts = self.counts.write();
        let objects = i64::try_from(objects).unwrap_or(i64::MAX);
        let missed = objects.saturating_sub(counts.objects);
        counts.objects = objects;
        for set in &counts.counters {
            set.objects.add(missed);
        }
    }

    pub(crate) fn changed<K>(&self, delta_type: &DeltaType<K>) {
        let mut counts = self.counts.write();
        let added = match delta_type {
            DeltaType::Added => 1,
            DeltaType::Updated { .. } => 0,
            DeltaType::Deleted { .. } => -1,
        };
        counts.objects += added;
        for set in &counts.counters {
            set.objects.add(added);
            match delta_type {
                DeltaType::Added => set.added.inc(),
                DeltaType::Updated { .. } => set.updated.inc(),
                DeltaType::Deleted { .. } => set.deleted.inc(),
            }
        }
    }

    pub(crate) fn resynced(&self) {
        self.each(|set| set.resynced.inc());
    }

    pub(crate) fn listed(&self) {
        self.each(|set| set.lists.inc());
    }

    pub(crate) fn undecodable(&self) {
        self.each(|set| set.undecodable.inc());
    }

    /// Counts a read of an object that the store keeps as JSON.
    pub(crate) fn read(&self, is_hit: bool) {
        self.each(|set| {
            let reads = if is_hit {
                &set.cache_hits
            } else {
                &set.cache_misses
            };
            reads.inc();
        });
    }

    pub(crate) fn restarted(&self, reason: &str) {
        self.each(|set| {
            let labels = [set.kind.as_str(), reason];
            set.metrics.restarts.with_label_values(&labels).inc();
        });
    }

    fn each(&self, count: impl Fn(&KindCounters)) {
        self.counts.read().counters.iter().for_each(count);
    }
}
