//! Metrics with labels for each object, for a bounded number of objects.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    num::NonZeroUsize,
    sync::Arc,
};

use parking_lot::Mutex;
use prometheus::core::Collector;
use windlass_informer::ObjectKey;

use super::{ObjectCollectors, RESULTS};
use crate::{Action, CallOutcome, CallReport};

/// The value of the label `result` for a call that was dropped before its end.
const ABANDONED: &str = "abandoned";

/// Counts the calls for each object, with its namespace and name as labels.
///
/// No other metric has such labels, because each object adds series to the database of metrics. Use
/// this for controllers of few objects, or to find the object that is slow or fails.
///
/// # What is guaranteed
///
/// - No more than `max_objects` objects have series. For another one, the object whose last call is
///   the longest ago loses its series, and counts from 0 if it is called again.
/// - An object loses its series when a `Deleted` call for it succeeds.
///
/// Clones share the collectors.
///
/// # Example
///
/// ```
/// use std::num::NonZeroUsize;
/// use windlass_controller::{InformerController, ObjectMetrics};
///
/// let objects = ObjectMetrics::new("shop", NonZeroUsize::new(500).expect("not zero"))?;
/// let registry = prometheus::Registry::new();
/// for collector in objects.collectors() {
///     registry.register(collector)?;
/// }
/// let controller = InformerController::builder()
///     .name("shop")
///     .on_call(move |call| objects.observe(call))
///     .build()?;
/// # drop(controller);
/// assert!(registry.gather().is_empty(), "no object was called");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ObjectMetrics {
    collectors: ObjectCollectors,
    max_objects: NonZeroUsize,
    recent: Arc<Mutex<RecentObjects>>,
}

/// The objects that have series, ordered by their last calls.
#[derive(Default)]
struct RecentObjects {
    /// The number of the last call of each object.
    last_calls: HashMap<ObjectLabels, u64>,
    /// The same, by number.
    by_call: BTreeMap<u64, ObjectLabels>,
    /// The number of the last call of all objects.
    calls: u64,
}

/// The labels of one object.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ObjectLabels {
    kind: Arc<str>,
    key: ObjectKey,
}

// === impl ObjectMetrics ===

impl ObjectMetrics {
    /// Creates the collectors for the controller called `controller`, the value of the label
    /// `controller`. At most `max_objects` objects have series.
    ///
    /// # Errors
    ///
    /// An error of [`prometheus`], which does not happen with these names and labels.
    pub fn new(controller: &str, max_objects: NonZeroUsize) -> prometheus::Result<Self> {
        Ok(Self {
            collectors: ObjectCollectors::new(controller)?,
            max_objects,
            recent: Arc::default(),
        })
    }

    /// Counts a call. For
    /// [`InformerControllerBuilder::on_call`](crate::InformerControllerBuilder::on_call) or
    /// [`ControllerBuilder::on_call`](crate::ControllerBuilder::on_call).
    pub fn observe(&self, call: &CallReport<'_>) {
        let object = ObjectLabels {
            kind: call.kind.into(),
            key: call.key.clone(),
        };
        // Locked until the end, so that no other call removes the series in between.
        let mut recent = self.recent.lock();
        if call.action == Action::Deleted && matches!(call.outcome, CallOutcome::Succeeded) {
            recent.remove(&object);
            self.collectors.remove(&object);
            return;
        }
        recent.called(object.clone());
        if recent.last_calls.len() > self.max_objects.get()
            && let Some(oldest) = recent.remove_oldest()
        {
            self.collectors.remove(&oldest);
        }
        let [kind, namespace, name] = object.values();
        let result = result(&call.outcome);
        let Self { collectors, .. } = self;
        let calls = &collectors.calls;
        calls
            .with_label_values(&[kind, namespace, name, result])
            .inc();
        let seconds = collectors
            .seconds
            .with_label_values(&[kind, namespace, name]);
        seconds.inc_by(call.duration.as_secs_f64());
    }

    /// The collectors, for a registry.
    #[must_use]
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let ObjectCollectors { calls, seconds } = self.collectors.clone();
        vec![Box::new(calls), Box::new(seconds)]
    }
}

impl fmt::Debug for ObjectMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectMetrics")
            .field("max_objects", &self.max_objects)
            .finish_non_exhaustive()
    }
}

/// The value of the label `result`.
fn result(outcome: &CallOutcome<'_>) -> &'static str {
    let [success, requeue_after, error, conflict] = RESULTS;
    match outcome {
        CallOutcome::Succeeded => success,
        CallOutcome::Requeued(_) => requeue_after,
        CallOutcome::Failed(_) => error,
        CallOutcome::Conflict(_) => conflict,
        CallOutcome::Abandoned => ABANDONED,
    }
}

// === impl ObjectCollectors ===

impl ObjectCollectors {
    /// Removes the series of `object`.
    fn remove(&self, object: &ObjectLabels) {
        let [kind, namespace, name] = object.values();
        for result in RESULTS.into_iter().chain([ABANDONED]) {
            // A series that was never created cannot be removed, which is no error here.
            let labels = [kind, namespace, name, result];
            _ = self.calls.remove_label_values(&labels);
        }
        _ = self.seconds.remove_label_values(&[kind, namespace, name]);
    }
}

// === impl RecentObjects ===

impl RecentObjects {
    fn called(&mut self, object: ObjectLabels) {
        self.calls += 1;
        if let Some(earlier) = self.last_calls.insert(object.clone(), self.calls) {
            self.by_call.remove(&earlier);
        }
        self.by_call.insert(self.calls, object);
    }

    fn remove(&mut self, object: &ObjectLabels) {
        if let Some(call) = self.last_calls.remove(object) {
            self.by_call.remove(&call);
        }
    }

    fn remove_oldest(&mut self) -> Option<ObjectLabels> {
        let (_, oldest) = self.by_call.pop_first()?;
        self.last_calls.remove(&oldest);
        Some(oldest)
    }
}

// === impl ObjectLabels ===

impl ObjectLabels {
    /// The kind, the namespace and the name.
    fn values(&self) -> [&str; 3] {
        let namespace = self.key.namespace().unwrap_or_default();
        [&*self.kind, namespace, self.key.name()]
    }
}
