//! Metrics of informers. All names are in this file.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::SystemTime,
};

use parking_lot::RwLock;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, core::Collector};

use crate::wall_clock;

/// The values of the label `reason`: a regular end, a requested list, and the reasons of
/// `WatchError`.
const REASONS: [&str; 17] = [
    "ended",
    "requested",
    "connection",
    "silent",
    "overdue",
    "unauthenticated",
    "forbidden",
    "not_kubernetes",
    "unknown_kind",
    "not_watchable",
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
    /// Its address identifies the collectors.
    collectors: Arc<Collectors>,
}

struct Collectors {
    objects: IntGaugeVec,
    restarts: IntCounterVec,
    lists: IntCounterVec,
    changes: IntCounterVec,
    undecodable: IntCounterVec,
    cache_reads: IntCounterVec,
}

/// A change that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeType {
    Added,
    Updated,
    Deleted,
    Resynced,
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
    activity: Activity,
    counters: Vec<KindCounters>,
}

/// What an informer has done so far, also without metrics.
#[derive(Clone, Default)]
pub(crate) struct Activity {
    pub(crate) lists: u64,
    /// By reason.
    pub(crate) restarts: BTreeMap<&'static str, u64>,
    /// The last change of the store that was no resync.
    pub(crate) last_event: Option<SystemTime>,
}

struct KindCounters {
    kind: String,
    metrics: InformerMetrics,
    objects: IntGauge,
    lists: IntCounter,
    undecodable: IntCounter,
    /// By [`ChangeType`].
    changes: [IntCounter; CHANGES.len()],
    /// By whether the object was decoded: a miss, a hit.
    cache_reads: [IntCounter; CACHE_READS.len()],
}

/// The values of the label `event_type`, in the order of [`ChangeType`].
const CHANGES: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "RESYNC"];

/// The values of the label `result`.
const CACHE_READS: [&str; 2] = ["miss", "hit"];

// === impl InformerMetrics ===

impl InformerMetrics {
    /// Creates the collectors. `namespace` and an underscore precede each name.
    ///
    /// # Errors
    ///
    /// [`prometheus::Error`] if `namespace` cannot be part of the name of a metric.
    pub fn new(namespace: Option<&str>) -> prometheus::Result<Self> {
        Self::labelled(namespace, &HashMap::new())
    }

    /// Like [`new`](Self::new), with constant labels.
    ///
    /// # Errors
    ///
    /// [`prometheus::Error`] if `namespace` cannot be part of the name of a metric.
    #[doc(hidden)]
    pub fn labelled(
        namespace: Option<&str>,
        labels: &HashMap<String, String>,
    ) -> prometheus::Result<Self> {
        let opts = |name: &str, help: &str| {
            (Opts::new(name, help).namespace(namespace.unwrap_or_default()))
                .const_labels(labels.clone())
        };
        let counter = |name, help, labels: &[&str]| IntCounterVec::new(opts(name, help), labels);
        let collectors = Collectors {
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
                "Changes of the store, which subscribers receive as events.",
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
        };
        Ok(Self {
            collectors: Arc::new(collectors),
        })
    }

    /// Removes the series of `kind`, which has no informer any more. Call
    /// [`Informer::uninstrument`](crate::Informer::uninstrument) of each of its informers first:
    /// later counts of such an informer under this name may not be shown.
    #[doc(hidden)]
    pub fn remove(&self, kind: &str) {
        let all = &*self.collectors;
        // A series that was never created cannot be removed, which is no error here.
        _ = all.objects.remove_label_values(&[kind]);
        for (series, values) in [
            (&all.changes, &CHANGES[..]),
            (&all.cache_reads, &CACHE_READS),
            (&all.restarts, &REASONS),
        ] {
            for value in values {
                _ = series.remove_label_values(&[kind, value]);
            }
        }
        for series in [&all.lists, &all.undecodable] {
            _ = series.remove_label_values(&[kind]);
        }
    }

    /// Whether `other` has the same collectors.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.collectors, &other.collectors)
    }

    /// The collectors, for a registry.
    #[must_use]
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let all = &*self.collectors;
        let counters = [
            &all.restarts,
            &all.lists,
            &all.changes,
            &all.undecodable,
            &all.cache_reads,
        ];
        let counters = counters.map(|counter| Box::new(counter.clone()) as Box<dyn Collector>);
        let objects: Box<dyn Collector> = Box::new(all.objects.clone());
        std::iter::once(objects).chain(counters).collect()
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
        let all = &*metrics.collectors;
        let set = KindCounters {
            objects: all.objects.with_label_values(&[kind]),
            lists: all.lists.with_label_values(&[kind]),
            undecodable: all.undecodable.with_label_values(&[kind]),
            changes: CHANGES.map(|event| all.changes.with_label_values(&[kind, event])),
            cache_reads: CACHE_READS
                .map(|result| all.cache_reads.with_label_values(&[kind, result])),
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

    /// Counts a change of the store.
    pub(crate) fn changed(&self, change: ChangeType) {
        let mut counts = self.counts.write();
        let added = match change {
            ChangeType::Added => 1,
            ChangeType::Updated | ChangeType::Resynced => 0,
            ChangeType::Deleted => -1,
        };
        counts.objects += added;
        if change != ChangeType::Resynced {
            counts.activity.last_event = Some(wall_clock());
        }
        for set in &counts.counters {
            set.objects.add(added);
            set.changes[change as usize].inc();
        }
    }

    pub(crate) fn activity(&self) -> Activity {
        self.counts.read().activity.clone()
    }

    pub(crate) fn listed(&self) {
        self.counts.write().activity.lists += 1;
        self.each(|set| set.lists.inc());
    }

    pub(crate) fn undecodable(&self) {
        self.each(|set| set.undecodable.inc());
    }

    /// Counts a read of an object that the store keeps as JSON.
    pub(crate) fn read(&self, is_hit: bool) {
        self.each(|set| set.cache_reads[usize::from(is_hit)].inc());
    }

    pub(crate) fn restarted(&self, reason: &'static str) {
        let mut counts = self.counts.write();
        *counts.activity.restarts.entry(reason).or_default() += 1;
        drop(counts);
        self.each(|set| {
            let labels = [set.kind.as_str(), reason];
            set.metrics
                .collectors
                .restarts
                .with_label_values(&labels)
                .inc();
        });
    }

    fn each(&self, count: impl Fn(&KindCounters)) {
        self.counts.read().counters.iter().for_each(count);
    }
}

/// The store was dropped with its informer, and so are its objects.
impl Drop for Instruments {
    fn drop(&mut self) {
        let counts = self.counts.get_mut();
        for set in &counts.counters {
            set.objects.sub(counts.objects);
        }
    }
}
