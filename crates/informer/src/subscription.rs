//! Those who are told: bounded, in order, and welcome at any time.

use std::{
    fmt,
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures::{Stream, future};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tracing::{Instrument as _, Span};

use crate::{AnyObject, Event, Kept, ObjectKey, Stored};

mod recall;

pub use self::recall::Recall;
use self::recall::Wanted;

/// The events of one informer, for one handler.
///
/// # Contract
///
/// *Promised.* What [`Event`] promises. Whoever subscribes late is told of everything that
/// is there, then [`Synced`](Event::Synced), then what happens.
///
/// *Asked.* It is taken from, or dropped: while it is full, the watch waits.
pub struct Subscription<K> {
    _hears: Hears,
    events: mpsc::Receiver<Told<K>>,
    synced: Arc<AtomicBool>,
    wanted: Arc<Wanted>,
}

/// An event, and the span in which it was told: for whoever goes on with the trace that
/// begins there.
///
/// The span is over when the last one who was given it has dropped it; it is
/// [`Span::none`] where nobody wants to see it.
#[non_exhaustive]
pub struct Told<K> {
    /// Which object it happened to; none for [`Synced`](Event::Synced).
    pub key: Option<ObjectKey>,
    /// What happened.
    pub event: Event<K>,
    /// The span `informer-event-*`.
    pub span: Span,
    /// Whether this subscription asked for it, through its [`Recall`].
    pub recalled: bool,
    /// How the store keeps the object, if that is another form.
    kept: Option<Kept<K>>,
}

/// An event as code carries it that works on many kinds at once.
#[non_exhaustive]
pub struct AnyTold {
    /// Which object it happened to; none for [`Synced`](Event::Synced).
    pub key: Option<ObjectKey>,
    /// What happened, to an object in the form in which the store keeps it.
    pub event: Event<dyn AnyObject>,
    /// The span `informer-event-*`.
    pub span: Span,
    /// Whether this subscription asked for it, through its [`Recall`].
    pub recalled: bool,
}

/// The other end of one subscription.
pub(crate) struct Subscriber<K> {
    events: mpsc::Sender<Told<K>>,
    wanted: Arc<Wanted>,
    gone: bool,
}

/// Whether anybody is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard(Arc<AtomicUsize>);

/// One who is.
struct Hears(Heard);

/// All who are told.
pub(crate) struct Subscribers<K> {
    heard: Heard,
    state: Mutex<State<K>>,
    arrived: Notify,
    /// Told when a subscriber asks for something.
    recalled: Arc<Notify>,
    /// Held while telling, by the one who tells.
    admitted: tokio::sync::Mutex<Vec<Subscriber<K>>>,
}

enum State<K> {
    Open {
        /// Those who have not been told yet what is there.
        arrivals: Vec<Subscriber<K>>,
        /// Those who have, since the last event.
        welcomed: Vec<Subscriber<K>>,
    },
    Closed,
}

// === impl Subscription ===

impl<K> Subscription<K> {
    /// The next event; none once the informer has stopped and everything was taken.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing.
    pub async fn next(&mut self) -> Option<Event<K>> {
        self.told().await.map(|told| told.event)
    }

    /// The next event, with the span in which it was told.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing.
    pub async fn told(&mut self) -> Option<Told<K>> {
        future::poll_fn(|context| self.poll_told(context)).await
    }

    /// Takes all events that are there, up to `most`, and puts them behind what is in `into`;
    /// waits for the first. Returns how many those were: none once the informer has stopped and
    /// everything was taken, or if no more than none are asked for.
    ///
    /// To take a run of events costs little more than to take one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready takes nothing.
    pub async fn told_many(&mut self, into: &mut Vec<Told<K>>, most: usize) -> usize {
        let taken = self.events.recv_many(into, most).await;
        let run = &into[into.len() - taken..];
        if run.iter().any(|told| matches!(told.event, Event::Synced)) {
            self.synced.store(true, Ordering::Release);
        }
        taken
    }

    /// Whether everything that was there at the start has been taken from this
    /// subscription.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// With which to ask to be told again.
    #[must_use]
    pub fn recall(&self) -> Recall {
        Recall::new(Arc::clone(&self.wanted))
    }

    fn poll_told(&mut self, context: &mut Context<'_>) -> Poll<Option<Told<K>>> {
        let told = ready!(self.events.poll_recv(context));
        if matches!(&told, Some(told) if matches!(told.event, Event::Synced)) {
            self.synced.store(true, Ordering::Release);
        }
        Poll::Ready(told)
    }
}

impl<K> Stream for Subscription<K> {
    type Item = Event<K>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let told = ready!(self.get_mut().poll_told(context));
        Poll::Ready(told.map(|told| told.event))
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("has_synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}

// === impl Told ===

impl<K> Told<K> {
    /// What happened to the object of `key`, which is kept as `kept`.
    pub(crate) const fn about(
        key: ObjectKey,
        event: Event<K>,
        kept: Option<Kept<K>>,
        span: Span,
    ) -> Self {
        Self {
            key: Some(key),
            event,
            span,
            recalled: false,
            kept,
        }
    }

    /// That everything that was there at the start has been told.
    pub(crate) const fn synced() -> Self {
        Self {
            key: None,
            event: Event::Synced,
            span: Span::none(),
            recalled: false,
            kept: None,
        }
    }

    /// The same, for one who asked.
    pub(crate) fn again(self) -> Self {
        Self {
            recalled: true,
            ..self
        }
    }
}

impl<K: Stored> Told<K> {
    /// The same, for code that works on many kinds at once: about an object as the store keeps
    /// it. What is decoded already is held until somebody says that it may `rest`
    /// ([`AnyObject`]).
    #[must_use]
    pub fn into_any(self) -> AnyTold {
        let kept = self.kept;
        let event = self.event.map(|object| match kept {
            Some(kept) => {
                kept.hold(&object);
                kept.into_any()
            }
            None => object,
        });
        AnyTold {
            key: self.key,
            event,
            span: self.span,
            recalled: self.recalled,
        }
    }
}

impl<K> Clone for Told<K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            event: self.event.clone(),
            span: self.span.clone(),
            recalled: self.recalled,
            kept: self.kept.clone(),
        }
    }
}

impl fmt::Debug for AnyTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyTold")
            .field("key", &self.key)
            .field("action", &self.event.action())
            .finish_non_exhaustive()
    }
}

impl<K: Stored> fmt::Debug for Told<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told")
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

// === impl Heard ===

impl Heard {
    pub(crate) fn by_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

// === impl Hears ===

impl Hears {
    fn new(heard: &Heard) -> Self {
        heard.0.fetch_add(1, Ordering::Relaxed);
        Self(heard.clone())
    }
}

impl Drop for Hears {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Subscriber ===

impl<K> Subscriber<K> {
    /// Waits until there is room, and tells. Whoever has gone is told nothing.
    pub(crate) async fn tell(&mut self, told: Told<K>) {
        if !self.gone {
            self.gone = self.events.send(told).await.is_err();
        }
    }

    /// How many events are best told at once. Half of the buffer at most, so that whoever takes
    /// them need not wait for the next.
    pub(crate) fn run(&self) -> usize {
        /// So many that what they have in common costs next to nothing.
        const ENOUGH: usize = 64;
        (self.events.max_capacity() / 2).clamp(1, ENOUGH)
    }

    /// Waits until there is room for a [`run`](Self::run) of events, and tells them, each in its
    /// span. Whoever has gone is told nothing.
    pub(crate) async fn tell_run(&mut self, run: &mut Vec<Told<K>>) {
        let told = run.drain(..);
        if self.gone {
            return;
        }
        match self.events.reserve_many(told.len()).await {
            Ok(room) => room.zip(told).for_each(|(room, told)| {
                let span = told.span.clone();
                span.in_scope(|| room.send(told));
            }),
            Err(_) => self.gone = true,
        }
    }
}

// === impl Subscribers ===

impl<K> Subscribers<K> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::Open {
                arrivals: Vec::new(),
                welcomed: Vec::new(),
            }),
            heard: Heard::default(),
            arrived: Notify::new(),
            recalled: Arc::default(),
            admitted: tokio::sync::Mutex::new(Vec::new()),
        }
    }

    /// Whether there are any.
    pub(crate) const fn heard(&self) -> &Heard {
        &self.heard
    }

    pub(crate) fn add(&self, buffer: NonZeroUsize) -> Subscription<K> {
        let (sender, events) = mpsc::channel(buffer.get());
        let wanted = Arc::new(Wanted::new(Arc::clone(&self.recalled)));
        if let State::Open { arrivals, .. } = &mut *self.state.lock() {
            arrivals.push(Subscriber {
                events: sender,
                wanted: Arc::clone(&wanted),
                gone: false,
            });
        }
        self.arrived.notify_one();
        Subscription {
            _hears: Hears::new(&self.heard),
            events,
            synced: Arc::new(AtomicBool::new(false)),
            wanted,
        }
    }

    /// Waits until there may be somebody to welcome.
    pub(crate) async fn arrival(&self) {
        self.arrived.notified().await;
    }

    pub(crate) fn next_arrival(&self) -> Option<Subscriber<K>> {
        match &mut *self.state.lock() {
            State::Open { arrivals, .. } if !arrivals.is_empty() => Some(arrivals.remove(0)),
            _ => None,
        }
    }

    /// Tells `subscriber` everything from now on.
    pub(crate) fn admit(&self, subscriber: Subscriber<K>) {
        if let State::Open { welcomed, .. } = &mut *self.state.lock() {
            welcomed.push(subscriber);
        }
    }

    pub(crate) async fn tell(&self, told: Told<K>) {
        let mut admitted = self.admitted.lock().await;
        if let State::Open { welcomed, .. } = &mut *self.state.lock() {
            admitted.append(welcomed);
        }
        // The last one gets the event itself: with one handler nothing is counted twice.
        if let Some((last, others)) = admitted.split_last_mut() {
            for subscriber in others {
                subscriber.tell(told.clone()).await;
            }
            last.tell(told).await;
        }
        admitted.retain(|subscriber| !subscriber.gone);
    }

    /// Waits until somebody may have asked for something.
    pub(crate) async fn recalled(&self) {
        self.recalled.notified().await;
    }

    /// Tells each one who asked of one object, as `again` has it. Whoever asked for more is
    /// told of it another time.
    pub(crate) async fn recall(&self, again: impl Fn(&ObjectKey) -> Option<Told<K>>) {
        let mut admitted = self.admitted.lock().await;
        if let State::Open { welcomed, .. } = &mut *self.state.lock() {
            admitted.append(welcomed);
        }
        let mut more = false;
        for subscriber in admitted.iter_mut() {
            let told = std::iter::from_fn(|| subscriber.wanted.pop()).find_map(|key| again(&key));
            if let Some(told) = told {
                let span = told.span.clone();
                subscriber.tell(told).instrument(span).await;
            }
            more |= !subscriber.wanted.is_empty();
        }
        admitted.retain(|subscriber| !subscriber.gone);
        if more {
            self.recalled.notify_one();
        }
    }

    /// Tells nobody any more.
    pub(crate) fn close(&self) {
        *self.state.lock() = State::Closed;
        if let Ok(mut admitted) = self.admitted.try_lock() {
            admitted.clear();
        }
    }
}
