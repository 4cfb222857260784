//! `Context`: the object of one call, and what its reconciler needs.

use std::{fmt, sync::Arc};

use kube::Client;
use tokio::time::Instant;
use windlass_informer::ObjectKey;

use super::{Mode, Reasons, Watchable, children::CallWrites, own::CallWriter, setup::Setup};
use crate::{ObjectEvent, State};

/// One call of an [`ObjectReconciler`](super::ObjectReconciler): the object, and how to read and
/// write.
///
/// Clones belong to the same call.
pub struct Context<K: Watchable> {
    pub(super) call: Arc<CallContext<K>>,
}

pub(super) struct CallContext<K: Watchable> {
    pub(super) setup: Arc<Setup<K>>,
    pub(super) key: ObjectKey,
    pub(super) object: Arc<K>,
    pub(super) reasons: Reasons,
    pub(super) attempt: u32,
    pub(super) is_last: bool,
    pub(super) state: Option<State>,
    pub(super) writes: CallWrites,
    pub(super) writer: CallWriter,
    pub(super) is_stale: bool,
    pub(super) mode: Mode,
}

/// A named part of a call, which is timed until it is dropped.
#[derive(Debug)]
#[must_use = "the step ends when this is dropped"]
pub struct Step {
    began: Instant,
    histogram: Option<prometheus::Histogram>,
}

// === impl Context ===

impl<K: Watchable> Context<K> {
    /// The object, in the newest state that the store had when the call began, or with the finalizer
    /// that was just added.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        &self.call.object
    }

    /// The namespace and the name of the object.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.call.key
    }

    /// The generation of the object; 0 for kinds without one.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.object().meta().generation.unwrap_or_default()
    }

    /// Why the call was queued, for logs.
    #[must_use]
    pub fn reasons(&self) -> Reasons {
        self.call.reasons
    }

    /// The number of failed calls in a row: 0 in the first call.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.call.attempt
    }

    /// Whether the retry policy ends with this attempt.
    #[must_use]
    pub fn last_attempt(&self) -> bool {
        self.call.is_last
    }

    /// The state that the previous call left in its [`Outcome`](crate::Outcome::state) or its
    /// [`Failure`](crate::Failure), if it has this type.
    #[must_use]
    pub fn state<S: std::any::Any + Send + Sync>(&self) -> Option<&S> {
        self.call.state.as_ref()?.get()
    }

    /// Whether the stores do not show a write of an earlier call for this object yet, although this
    /// call waited for the [`own_write_timeout`](super::ControllerBuilder::own_write_timeout).
    ///
    /// Each call is stale until the stores show the write, at most for 6 minutes. If it is shown by an
    /// event, a further call begins because of it.
    ///
    /// A store can then lack children that an earlier call has created, and have some that it has
    /// deleted, and the object the status before it. Children with names of their own are found by their
    /// names; create none with `generateName`. What must happen once, such as the start of a Job that is
    /// deleted later, needs an
    /// [`own_write_timeout`](super::ControllerBuilder::own_write_timeout) of `Duration::MAX`: then no call
    /// is stale.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.call.is_stale
    }

    /// Whether the object is paused: then nothing but the status and Events is written.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.call.mode
    }

    /// The client of this call. It sends each write once, and records it: the next call for the object
    /// waits until the stores have it, and the event that it causes does not reconcile this object
    /// again. While the controller does not hold the lease of its operator, writes fail. If the object
    /// is [paused](Mode::Paused), writes fail with a [`kube::Error::Service`] around a
    /// [`WritePaused`](crate::WritePaused), except those of a status and of Events.
    #[must_use]
    pub fn client(&self) -> Client {
        self.call.writer.client(|| self.call.setup.client().clone())
    }

    /// The field manager of the controller, for server-side apply.
    #[must_use]
    pub fn field_manager(&self) -> &str {
        &self.call.setup.field_manager
    }

    /// Publishes a Kubernetes Event about the object. It never waits and never fails: repeats are
    /// counted in one Event, and too many are dropped, as [`EventRecorder`](crate::EventRecorder)
    /// says.
    pub fn event(&self, event: ObjectEvent) {
        let regarding = self.object().object_ref(self.call.setup.types());
        self.call.setup.events.record(regarding, event);
    }

    /// Times a part of the call, until the result is dropped, in the metric
    /// `reconcile_step_duration_seconds`. `name` is a label value: use few names, and no names of
    /// objects.
    pub fn step(&self, name: &'static str) -> Step {
        Step {
            began: Instant::now(),
            histogram: self.call.setup.step(name),
        }
    }
}

impl<K: Watchable> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self {
            call: Arc::clone(&self.call),
        }
    }
}

/// Shows the key and the attempt, and never the object's content, which may be secret.
impl<K: Watchable> fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("kind", &K::kind(self.call.setup.types()))
            .field("key", &format_args!("{}", self.key()))
            .field("reasons", &self.call.reasons)
            .field("attempt", &self.call.attempt)
            .finish_non_exhaustive()
    }
}

// === impl Step ===

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(histogram) = &self.histogram {
            histogram.observe(self.began.elapsed().as_secs_f64());
        }
    }
}
