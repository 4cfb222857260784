//! `Outcome`: the success of a call, and whether to requeue.

use std::time::{Duration, SystemTime};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use windlass_informer::{random_seed, wall_clock};

use super::State;

/// The result of a successful call: whether to requeue.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_controller::{Outcome, State};
///
/// let outcome = Outcome::requeue_after(Duration::from_secs(30)).state(State::new(1));
/// assert_eq!(outcome.delay(), Some(Duration::from_secs(30)));
/// assert_eq!(Outcome::done().delay(), None);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "an outcome says whether to requeue"]
pub struct Outcome {
    next: Next,
    state: Option<State>,
}

/// What follows a successful call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Event,
    Requeue(Duration),
    /// The call did nothing yet.
    Deferred(Duration),
    /// A wrapper did not call its inner handler.
    Declined,
}

// === impl Outcome ===

impl Outcome {
    /// Nothing remains to be done until the next event.
    pub const fn done() -> Self {
        Self::next(Next::Event)
    }

    /// Repeats the call after `delay`, with the same action and the newest object. A new event of
    /// the object cancels the requeue, unless the
    /// [`RetryDequeuePolicy`](crate::RetryDequeuePolicy) keeps it.
    pub const fn requeue_after(delay: Duration) -> Self {
        Self::next(Next::Requeue(delay))
    }

    /// Repeats the call at `time`, or at once if that has passed. Like
    /// [`requeue_after`](Self::requeue_after) with the time until then, so that a later change of the
    /// clock does not affect it: a call may begin somewhat before `time` by that clock.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use windlass_controller::Outcome;
    ///
    /// let expires = SystemTime::now() + Duration::from_secs(3600);
    /// assert!(Outcome::requeue_at(expires).delay() > Some(Duration::from_secs(3500)));
    /// assert_eq!(Outcome::requeue_at(SystemTime::UNIX_EPOCH).delay(), Some(Duration::ZERO));
    /// ```
    pub fn requeue_at(time: impl Into<SystemTime>) -> Self {
        let wait = time.into().duration_since(wall_clock());
        Self::requeue_after(wait.unwrap_or_default())
    }

    /// Repeats the call at once.
    pub const fn again() -> Self {
        Self::requeue_after(Duration::ZERO)
    }

    /// The clean-up has not finished, and the next event of the object or of an object that affects
    /// it continues it. The finalizer stays. If there is no event, the clean-up is called again after
    /// 10 hours.
    pub const fn unfinished() -> Self {
        Self::requeue_after(Self::UNFINISHED)
    }

    /// When an unfinished clean-up is called without an event: the longest interval of a
    /// controller-runtime controller.
    const UNFINISHED: Duration = Duration::from_secs(10 * 3600);

    const fn next(next: Next) -> Self {
        Self { next, state: None }
    }

    /// The same outcome, with a requeue after `delay` in place of what follows.
    pub(crate) fn delayed(self, delay: Duration) -> Self {
        Self {
            next: Next::Requeue(delay),
            ..self
        }
    }

    /// Repeats the call after a random delay of at least `min` and less than `max`, so that objects
    /// that were processed together are not all repeated together.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_controller::Outcome;
    ///
    /// let (min, max) = (Duration::from_secs(60), Duration::from_secs(90));
    /// let delay = Outcome::requeue_between(min, max).delay();
    /// assert!(delay.is_some_and(|it| (min..max).contains(&it)));
    /// ```
    pub fn requeue_between(min: Duration, max: Duration) -> Self {
        let random: f64 = StdRng::seed_from_u64(random_seed()).random();
        Self::requeue_after(min + max.saturating_sub(min).mul_f64(random))
    }

    /// Sets the state for the next call of this request. Dropped if there is no next call.
    pub fn state(self, state: State) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// The delay of the requeue, if there is one.
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        match self.next {
            Next::Requeue(delay) | Next::Deferred(delay) => Some(delay),
            Next::Event | Next::Declined => None,
        }
    }

    /// The call did nothing yet, and is repeated after `delay` at the latest. It counts neither as
    /// a success nor as a failure: the attempt number and the state stay.
    #[doc(hidden)]
    pub const fn deferred(delay: Duration) -> Self {
        Self::next(Next::Deferred(delay))
    }

    /// A wrapper did not call its inner handler for the event. The pending calls that the event has
    /// cancelled stay pending.
    pub(crate) const fn declined() -> Self {
        Self::next(Next::Declined)
    }

    pub(crate) const fn is_declined(&self) -> bool {
        matches!(self.next, Next::Declined)
    }

    pub(crate) const fn is_deferred(&self) -> bool {
        matches!(self.next, Next::Deferred(_))
    }

    pub(crate) fn into_state(self) -> Option<State> {
        self.state
    }
}
