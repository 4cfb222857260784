//! Metrics of informers. All names are in this file.

use std::{fmt, sync::OnceLock};

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, core::Collector};

use crate::store::What;

/// Why a list or a watch ended: its regular end, and the reasons of a `WatchError`.
const REASONS: [&str; 14] = [
    "ended",
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
    "garbled",
    "too_long",
    "inconsistent",
];

/// The collectors of all informers of a process, told apart by the label `kind`.
///
/// Cloning one gives the same collectors.
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
    told: IntCounterVec,
    undecodable: IntCounterVec,
}

/// The counters of one informer, once its metrics were asked for.
pub(crate) struct Instruments {
    set: OnceLock<Set>,
}

struct Set {
    kind: String,
    metrics: InformerMetrics,
    objects: prometheus::IntGauge,
    lists: IntCounter,
    undecodable: IntCounter,
    added: IntCounter,
    updated: IntCounter,
    deleted: IntCounter,
    resynced: IntCounter,
}

// === impl InformerMetrics ===

impl InformerMetrics {
    /// Creates the collectors; `namespace` comes before each name, with an underscore.
    ///
    /// # Errors
    ///
    /// [`prometheus::Error`] if `namespace` cannot stand in the name of a metric.
    pub fn new(namespace: Option<&str>) -> prometheus::Result<Self> {
        let opts =
            |name: &str, help: &str| Opts::new(name, help).namespace(namespace.unwrap_or_default());
        Ok(Self {
            objects: IntGaugeVec::new(
                opts("informer_store_objects", "Objects in the store."),
                &["kind"],
            )?,
            restarts: IntCounterVec::new(
                opts(
                    "informer_watch_restarts_total",
                    "Lists and watches that ended or broke off, by reason.",
                ),
                &["kind", "reason"],
            )?,
            lists: IntCounterVec::new(
                opts("informer_lists_total", "Whole lists taken."),
                &["kind"],
            )?,
            told: IntCounterVec::new(
                opts(
                    "informer_store_changes_total",
                    "Changes of the store that were told to handlers.",
                ),
                &["kind", "event_type"],
            )?,
            undecodable: IntCounterVec::new(
                opts(
                    "informer_undecodable_objects_total",
                    "Times that an object did not decode and was set aside.",
                ),
                &["kind"],
            )?,
        })
    }

    /// Removes the series of `kind`, which has no informer any more. An informer that still
    /// counts under this name goes on to count, and is not shown.
    pub fn remove(&self, kind: &str) {
        // A series that was never made cannot be removed, which is no error here.
        _ = self.objects.remove_label_values(&[kind]);
        _ = self.lists.remove_label_values(&[kind]);
        _ = self.undecodable.remove_label_values(&[kind]);
        for event in ["CREATE", "UPDATE", "DELETE", "RESYNC"] {
            _ = self.told.remove_label_values(&[kind, event]);
        }
        for reason in REASONS {
            _ = self.restarts.remove_label_values(&[kind, reason]);
        }
    }

    /// The collectors, to be registered in a registry.
    #[must_use]
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.objects.clone()),
            Box::new(self.restarts.clone()),
            Box::new(self.lists.clone()),
            Box::new(self.told.clone()),
            Box::new(self.undecodable.clone()),
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
    pub(crate) fn new() -> Self {
        Self {
            set: OnceLock::new(),
        }
    }

    pub(crate) fn set(&self, metrics: &InformerMetrics, kind: &str) {
        let told = |event: &str| metrics.told.with_label_values(&[kind, event]);
        self.set.get_or_init(|| Set {
            objects: metrics.objects.with_label_values(&[kind]),
            lists: metrics.lists.with_label_values(&[kind]),
            undecodable: metrics.undecodable.with_label_values(&[kind]),
            added: told("CREATE"),
            updated: told("UPDATE"),
            deleted: told("DELETE"),
            resynced: told("RESYNC"),
            kind: kind.to_owned(),
            metrics: metrics.clone(),
        });
    }

    pub(crate) fn changed<K>(&self, what: &What<K>) {
        let Some(set) = self.set.get() else { return };
        match what {
            What::Added => {
                set.added.inc();
                set.objects.inc();
            }
            What::Updated { .. } => set.updated.inc(),
            What::Deleted { .. } => {
                set.deleted.inc();
                set.objects.dec();
            }
        }
    }

    pub(crate) fn resynced(&self) {
        if let Some(set) = self.set.get() {
            set.resynced.inc();
        }
    }

    pub(crate) fn listed(&self) {
        if let Some(set) = self.set.get() {
            set.lists.inc();
        }
    }

    pub(crate) fn undecodable(&self) {
        if let Some(set) = self.set.get() {
            set.undecodable.inc();
        }
    }

    pub(crate) fn restarted(&self, reason: &str) {
        if let Some(set) = self.set.get() {
            let labels = [set.kind.as_str(), reason];
            set.metrics.restarts.with_label_values(&labels).inc();
        }
    }
}
