//! A queue of delayed keys, whose timers can be reset and cancelled.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::Stream;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};
use windlass_informer::ObjectKey;

/// Schedules keys for later. Created with [`delayed_keys`].
///
/// # What is guaranteed
///
/// - A key has at most one timer: [`schedule`](Self::schedule) of a key that waits resets its timer.
/// - A key that was cancelled before it was due is not yielded.
/// - No method waits.
///
/// Clones belong to the same queue.
#[derive(Clone)]
pub struct DelayedKeys {
    handle: Arc<Handle>,
}

/// The keys of a [`DelayedKeys`] that are due: a stream, for
/// [`Trigger::keys`](crate::Trigger::keys). Created with [`delayed_keys`].
///
/// It ends when all handles are dropped and no key waits.
#[must_use = "keys are not yielded unless the stream is polled"]
pub struct DueKeys {
    timers: Arc<Mutex<Timers>>,
    /// `None` before the first poll: a queue can be created outside of a runtime.
    sleep: Option<Pin<Box<Sleep>>>,
}

/// Shared by all clones of a handle. Its drop ends the stream.
struct Handle {
    timers: Arc<Mutex<Timers>>,
}

/// The keys that wait.
#[derive(Default)]
struct Timers {
    by_key: HashMap<ObjectKey, Due>,
    by_time: BTreeMap<Due, ObjectKey>,
    /// The number of the last timer, which orders those of the same time.
    number: u64,
    /// The task that polls the stream.
    waker: Option<Waker>,
    has_handles: bool,
    has_stream: bool,
}

/// When a key is due, and the number of its timer.
type Due = (Instant, u64);

/// The longest delay, 30 years: a later time cannot be represented on every platform.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Creates a queue of delayed keys: the handle that schedules them, and the stream that yields each
/// key when it is due.
///
/// With a [`Trigger`](crate::Trigger), other code can decide when an object is reconciled next, and
/// can change its mind: a requeue of a call ([`Outcome::requeue_after`](crate::Outcome::requeue_after))
/// cannot be changed from outside.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use futures::StreamExt as _;
/// use tokio::time::Instant;
/// use windlass_controller::delayed_keys;
/// use windlass_informer::ObjectKey;
///
/// # tokio::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().expect("a runtime").block_on(async {
/// let (delayed, mut due) = delayed_keys();
/// // With a controller: builder.trigger(Trigger::keys(due));
/// let began = Instant::now();
/// let (blog, shop) = (ObjectKey::new("blog"), ObjectKey::new("shop"));
/// delayed.schedule(shop.clone(), Duration::from_secs(5));
/// delayed.schedule(blog.clone(), Duration::from_secs(10));
/// delayed.schedule(blog.clone(), Duration::from_secs(20)); // resets the timer
/// assert!(delayed.cancel(&shop));
///
/// assert_eq!(due.next().await, Some(blog));
/// assert_eq!(began.elapsed().as_secs(), 20);
/// # });
/// ```
pub fn delayed_keys() -> (DelayedKeys, DueKeys) {
    let timers = Arc::new(Mutex::new(Timers {
        has_handles: true,
        has_stream: true,
        ..Timers::default()
    }));
    let handle = Handle {
        timers: Arc::clone(&timers),
    };
    let delayed = DelayedKeys {
        handle: Arc::new(handle),
    };
    let due = DueKeys {
        timers,
        sleep: None,
    };
    (delayed, due)
}

// === impl DelayedKeys ===

impl DelayedKeys {
    /// Schedules `key` after `delay`. If it waits already, its timer is reset. It has no effect after
    /// the stream was dropped.
    pub fn schedule(&self, key: ObjectKey, delay: Duration) {
        let mut timers = self.handle.timers.lock();
        if timers.has_stream {
            timers.schedule(key, Instant::now() + delay.min(LONGEST));
            timers.wake();
        }
    }

    /// Cancels the timer of `key`. Returns whether the key waited.
    pub fn cancel(&self, key: &ObjectKey) -> bool {
        self.handle.timers.lock().cancel(key)
    }

    /// Cancels all timers.
    pub fn clear(&self) {
        self.handle.timers.lock().clear();
    }

    /// The number of keys that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handle.timers.lock().by_key.len()
    }

    /// Whether no key waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for DelayedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedKeys")
            .field("len", &self.len())
            .finish()
    }
}

// === impl DueKeys ===

impl Stream for DueKeys {
    type Item = ObjectKey;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ObjectKey>> {
        loop {
            let next = {
                let mut timers = self.timers.lock();
                if let Some(key) = timers.take_due(Instant::now()) {
                    return Poll::Ready(Some(key));
                }
                let Some(next) = timers.first_due() else {
                    if !timers.has_handles {
                        return Poll::Ready(None);
                    }
                    timers.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                };
                timers.waker = Some(cx.waker().clone());
                next
            };
            let sleep = (self.sleep).get_or_insert_with(|| Box::pin(sleep_until(next)));
            if sleep.deadline() != next {
                sleep.as_mut().reset(next);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for DueKeys {
    fn drop(&mut self) {
        let mut timers = self.timers.lock();
        timers.has_stream = false;
        timers.clear();
    }
}

impl fmt::Debug for DueKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DueKeys").finish_non_exhaustive()
    }
}

// === impl Handle ===

impl Drop for Handle {
    fn drop(&mut self) {
        let mut timers = self.timers.lock();
        timers.has_handles = false;
        timers.wake();
    }
}

// === impl Timers ===

impl Timers {
    fn schedule(&mut self, key: ObjectKey, at: Instant) {
        self.cancel(&key);
        self.number += 1;
        let due = (at, self.number);
        self.by_key.insert(key.clone(), due);
        self.by_time.insert(due, key);
    }

    fn cancel(&mut self, key: &ObjectKey) -> bool {
        let due = self.by_key.remove(key);
        due.is_some_and(|due| self.by_time.remove(&due).is_some())
    }

    fn clear(&mut self) {
        self.by_key.clear();
        self.by_time.clear();
    }

    /// Removes the first key that is due at `now`.
    fn take_due(&mut self, now: Instant) -> Option<ObjectKey> {
        let first = self.by_time.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let key = first.remove();
        self.by_key.remove(&key);
        Some(key)
    }

    /// When the next key is due.
    fn first_due(&self) -> Option<Instant> {
        let ((at, _), _) = self.by_time.first_key_value()?;
        Some(*at)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
