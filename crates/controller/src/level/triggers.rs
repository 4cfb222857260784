//! Triggers: causes of calls outside of the API server.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream::BoxStream};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use windlass_informer::{ObjectKey, log, panic_message};

use super::Reasons;
use crate::{controller::Shared, route::KindId, schedule::Priority};

/// Causes calls of a [`Controller`](crate::Controller) besides changes of objects: a stream, an
/// interval, or a handle.
///
/// | value | reconciles |
/// |--|--|
/// | [`Trigger::keys`] | the object of each key that a stream yields |
/// | [`Trigger::all`] | all objects for each item of a stream, with the lowest priority |
/// | [`Trigger::every`] | all objects once in each interval, with the lowest priority |
/// | [`Trigger::handle`] | what a [`TriggerHandle`] names, for example from a webhook |
/// | [`Trigger::requeue`] | the objects that a [`RequeueHandle`](super::RequeueHandle) names, each at its time |
///
/// Keys without an object are ignored. Streams are polled while the controller runs. A stream that
/// ends or panics is dropped, and the controller continues.
#[must_use = "a trigger does nothing until it is given to a controller"]
pub struct Trigger(Kind);

enum Kind {
    Keys(BoxStream<'static, ObjectKey>),
    All(BoxStream<'static, ()>),
    Every(Duration),
    Handle(TriggerHandle),
}

/// Causes calls of a [`Controller`](crate::Controller) from other code. [`Trigger::handle`] creates
/// it.
///
/// A call of its methods never waits. A call before the controller is built has no effect, because
/// all objects are reconciled at the start.
///
/// Clones belong to the same trigger.
#[derive(Clone, Default)]
pub struct TriggerHandle(Arc<OnceLock<Target>>);

/// The lanes that are woken.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) engine: Weak<Shared>,
    pub(super) kind: KindId,
}

// === impl Trigger ===

impl Trigger {
    /// Reconciles the object of each key that `keys` yields.
    pub fn keys(keys: impl Stream<Item = ObjectKey> + Send + 'static) -> Self {
        Self(Kind::Keys(keys.boxed()))
    }

    /// Reconciles all objects for each item that `items` yields.
    pub fn all(items: impl Stream<Item = ()> + Send + 'static) -> Self {
        Self(Kind::All(items.boxed()))
    }

    /// Reconciles all objects once in each `interval`. An interval below 1 ms counts as 1 ms.
    pub const fn every(interval: Duration) -> Self {
        Self(Kind::Every(interval))
    }

    /// A trigger and its handle.
    pub fn handle() -> (TriggerHandle, Self) {
        let handle = TriggerHandle::default();
        (handle.clone(), Self(Kind::Handle(handle)))
    }

    /// The task of the trigger, which ends with its stream. `None` if it needs no task.
    pub(super) fn task(self, target: Target) -> Option<BoxFuture<'static, ()>> {
        let task = match self.0 {
            Kind::Handle(handle) => {
                _ = handle.0.set(target);
                return None;
            }
            Kind::Keys(mut keys) => async move {
                while let Some(key) = keys.next().await {
                    target.wake([key], Reasons::TRIGGER);
                }
            }
            .boxed(),
            Kind::All(mut items) => async move {
                while let Some(()) = items.next().await {
                    target.wake_all();
                }
            }
            .boxed(),
            Kind::Every(interval) => async move {
                let interval = interval.max(Duration::from_millis(1));
                let Some(first) = Instant::now().checked_add(interval) else {
                    return;
                };
                let mut ticks = interval_at(first, interval);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    target.wake_all();
                }
            }
            .boxed(),
        };
        let caught = async {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                let panic = panic_message(panic);
                log::error!(
                    component = "Controller",
                    panic,
                    "a trigger panicked, dropped it"
                );
            }
        };
        Some(caught.boxed())
    }
}

impl From<Duration> for Trigger {
    /// [`Trigger::every`].
    fn from(interval: Duration) -> Self {
        Self::every(interval)
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Keys(_) => "Trigger::keys",
            Kind::All(_) => "Trigger::all",
            Kind::Every(_) => "Trigger::every",
            Kind::Handle(_) => "Trigger::handle",
        })
    }
}

// === impl TriggerHandle ===

impl TriggerHandle {
    /// Reconciles the objects with these keys.
    pub fn reconcile(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        if let Some(target) = self.0.get() {
            target.wake(keys, Reasons::TRIGGER);
        }
    }

    /// Reconciles all objects, with the lowest priority.
    pub fn reconcile_all(&self) {
        if let Some(target) = self.0.get() {
            target.wake_all();
        }
    }
}

impl fmt::Debug for TriggerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TriggerHandle")
    }
}

// === impl Target ===

impl Target {
    pub(super) fn wake(&self, keys: impl IntoIterator<Item = ObjectKey>, reasons: Reasons) {
        if let Some(engine) = self.engine.upgrade() {
            engine.wake(self.kind, keys, Priority::Live, reasons);
        }
    }

    pub(super) fn wake_all(&self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.wake_all(self.kind, Priority::Resync, Reasons::TRIGGER);
        }
    }
}
