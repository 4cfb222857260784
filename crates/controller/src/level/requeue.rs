//! Requeues from other code: calls of single objects at a time that can be changed.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::time::{DelayQueue, delay_queue};
use windlass_informer::ObjectKey;

use super::Trigger;

/// Requeues objects of a [`Controller`](crate::Controller) from other code, each at one time that can
/// be changed. [`Trigger::requeue`] creates it.
///
/// Use it if other code learns when an object has to be reconciled: a lease of an external system
/// that was extended, or a certificate that expires earlier. A call that knows it itself returns
/// [`Outcome::requeue_after`](crate::Outcome::requeue_after).
///
/// *Guaranteed.* Each key has at most one time: a further [`requeue_after`](Self::requeue_after)
/// replaces it, also by a later one. A call of the object in the meantime does not. The methods never
/// wait, and can be called before the controller runs and outside of a tokio runtime. A time that
/// passes before the controller runs is due when it starts.
///
/// *Not guaranteed.* That [`cancel`](Self::cancel) and [`clear`](Self::clear) prevent a call whose
/// time has passed. A restart forgets all times. A key without an object is ignored when its time has
/// come.
///
/// Clones belong to the same trigger.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_controller::Trigger;
/// use windlass_informer::ObjectKey;
///
/// let (requeue, trigger) = Trigger::requeue();
/// // builder.trigger(trigger);
/// let web = ObjectKey::new("web").within("shop");
/// requeue.requeue_after(web.clone(), Duration::from_secs(60));
/// requeue.requeue_after(web.clone(), Duration::from_secs(90)); // 90 s from now, and not after 60
/// requeue.cancel(&web);
/// # assert_eq!(format!("{trigger:?}"), "Trigger::keys");
/// ```
#[derive(Clone, Default)]
pub struct RequeueHandle(Arc<Requests>);

/// What the handles have requested since the trigger last looked.
#[derive(Default)]
struct Requests {
    changes: Mutex<Changes>,
    changed: Notify,
}

#[derive(Default)]
struct Changes {
    /// Whether all earlier times are dropped.
    is_cleared: bool,
    /// The new time of each key; `None` if it is cancelled.
    times: BTreeMap<ObjectKey, Option<Instant>>,
}

/// The times of all keys.
#[derive(Default)]
struct Times {
    queue: DelayQueue<ObjectKey>,
    entries: HashMap<ObjectKey, delay_queue::Key>,
}

/// The longest delay: [`DelayQueue`] panics above two years.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

// === impl Trigger ===

impl Trigger {
    /// Reconciles the objects that the [`RequeueHandle`] names, each at its time. Returns the handle
    /// and the trigger.
    pub fn requeue() -> (RequeueHandle, Self) {
        let handle = RequeueHandle::default();
        let trigger = Self::keys(due(Arc::clone(&handle.0)));
        (handle, trigger)
    }
}

// === impl RequeueHandle ===

impl RequeueHandle {
    /// Reconciles the object with this key after `delay`, of at most a year. Replaces an earlier time
    /// of this key.
    pub fn requeue_after(&self, key: ObjectKey, delay: Duration) {
        let at = Instant::now() + delay.min(LONGEST);
        self.0
            .change(|changes| _ = changes.times.insert(key, Some(at)));
    }

    /// Drops the time of this key.
    pub fn cancel(&self, key: &ObjectKey) {
        self.0
            .change(|changes| _ = changes.times.insert(key.clone(), None));
    }

    /// Drops the times of all keys.
    pub fn clear(&self) {
        self.0.change(|changes| {
            changes.is_cleared = true;
            changes.times.clear();
        });
    }
}

impl fmt::Debug for RequeueHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequeueHandle")
    }
}

// === impl Requests ===

impl Requests {
    fn change(&self, change: impl FnOnce(&mut Changes)) {
        change(&mut self.changes.lock());
        self.changed.notify_one();
    }
}

/// The keys whose time has come. It never ends.
fn due(requests: Arc<Requests>) -> impl Stream<Item = ObjectKey> + Send {
    let times = Times::default();
    stream::unfold((requests, times), |(requests, mut times)| async move {
        loop {
            times.apply(std::mem::take(&mut *requests.changes.lock()));
            tokio::select! {
                // A cancelled key is not due.
                biased;
                () = requests.changed.notified() => {}
                Some(key) = times.next() => return Some((key, (requests, times))),
            }
        }
    })
}

// === impl Times ===

impl Times {
    fn apply(&mut self, changes: Changes) {
        if changes.is_cleared {
            self.queue.clear();
            self.entries.clear();
        }
        for (key, at) in changes.times {
            if let Some(entry) = self.entries.remove(&key) {
                self.queue.try_remove(&entry);
            }
            if let Some(at) = at {
                let entry = self.queue.insert_at(key.clone(), at);
                self.entries.insert(key, entry);
            }
        }
    }

    /// The next key, when its time has come. `None` if there is none.
    async fn next(&mut self) -> Option<ObjectKey> {
        let key = self.queue.next().await?.into_inner();
        self.entries.remove(&key);
        Some(key)
    }
}
