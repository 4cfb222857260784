//! One turn of a worker: one event for a whole chain, or one call that is made again.

use std::{cmp::Ordering, pin::pin, sync::Arc, time::Duration};

use windlass_informer::{Event, Named, ObjectKey};

use super::{
    Shared,
    engine::Held,
    known::{Known, KnownKind},
    notice::{Notice, Owed, Place},
    report::ErrorReport,
    shelf::{GivenUp, Shelved},
};
use crate::{
    Action, Arrival, ExponentialBackoff, HandlerError, HandlerId, PendingRetry, RetryObject,
    RetryPolicy,
    event::AnyEvent,
    metrics::KindMetrics,
    reconciler::{Call, Retry},
    route::{Chain, Handler, KindId},
    schedule::{LaneKey, Moment, Pending, Reason, Work},
    trace::{self, Origin},
    work::{self, Failed, ask},
};

/// What a turn is about.
struct Turn<'a> {
    shared: &'a Shared,
    kind: KindId,
    chain: &'a Chain,
    metrics: &'a KindMetrics,
    /// The trace of what it is about, for calls that come of it.
    origin: Origin,
}

/// Who is told of an event, and what.
enum Audience<'a> {
    /// The whole chain the same: so it is mostly, and nothing is copied for it.
    Whole(&'a Chain),
    Part(Vec<(&'a Handler, AnyEvent)>),
}

/// A call, and for whom.
struct Dialled<'a> {
    handler: &'a Handler,
    key: &'a ObjectKey,
    action: Action,
    /// The event as it was received.
    event: &'a AnyEvent,
}

/// Does what `held` is held for. Returns when it was done: then it is to be given back.
///
/// # Cancel safety
///
/// Dropping the future drops the handler that is being called; and when what is held is dropped
/// too, that handler and those behind it are owed their call.
pub(crate) async fn play(
    shared: &Shared,
    known: &mut Known,
    held: &mut Held<Notice, Owed>,
) -> Moment {
    let kind = held.key().kind;
    let KnownKind { chain, metrics } = known.of(kind, shared);
    let mut turn = Turn {
        shared,
        kind,
        chain,
        metrics,
        origin: Origin::default(),
    };
    let began = held.since();
    let (ongoing, span) = match held.work() {
        Work::Event { offer, .. } => {
            let Some(action) = Action::of(&offer.event.event) else {
                return began;
            };
            let ongoing = metrics.event(action, began - offer.event.received);
            let (key, notice) = (&held.key().object, &offer.event);
            let span = trace::event(&metrics.kind, key, action, &notice.event, &notice.origin);
            turn.origin = Origin::of(&span);
            (ongoing, span)
        }
        Work::Retry(pending) => {
            let ongoing = metrics.retry(pending.action, began - pending.due);
            let span = trace::retry(&metrics.kind, &held.key().object, pending);
            turn.origin = match pending.reason {
                // All retries of a call stand beside each other.
                Reason::Failed => pending.call.origin.clone(),
                Reason::Requeued => Origin::of(&span),
            };
            (ongoing, span)
        }
    };
    let done = trace::within(&span, pin!(turn.play(held))).await;
    ongoing.done(done - began);
    done
}

// === impl Audience ===

impl Audience<'_> {
    /// Who is told, and what, in order, of what happened to all.
    fn iter<'a>(
        &'a self,
        event: &'a AnyEvent,
    ) -> impl Iterator<Item = (&'a Handler, &'a AnyEvent)> {
        let (whole, part): (&[Arc<Handler>], &[_]) = match self {
            Self::Whole(chain) => (chain, &[]),
            Self::Part(told) => (&[], told),
        };
        let whole = whole.iter().map(move |it| (&**it, event));
        whole.chain(part.iter().map(|(it, event)| (*it, event)))
    }

    /// What this handler is told of what happened, if it is told anything.
    fn share<'a>(&'a self, handler: HandlerId, event: &'a AnyEvent) -> Option<&'a AnyEvent> {
        let share = self.iter(event).find(|(it, _)| it.id == handler);
        share.map(|(_, event)| event)
    }
}

// === impl Turn ===

impl Turn<'_> {
    /// Does what is held, and returns when that was done.
    async fn play(&self, held: &mut Held<Notice, Owed>) -> Moment {
        let began = held.since();
        let Work::Event { offer, .. } = held.work() else {
            return self.retry(held).await;
        };
        let audience = self.audience(&offer.event);
        let told = |id| audience.share(id, &offer.event.event).is_some();
        self.shared.unshelve(held.key(), told);
        self.dequeue(held, &audience);
        self.tell(held, &audience, began).await
    }

    /// Who of the chain is told of the event: in order, and but for those whose predicate does
    /// not let it pass.
    fn audience(&self, notice: &Notice) -> Audience<'_> {
        let Notice {
            event, resynced, ..
        } = notice;
        // Each is asked once.
        let unwilling = (self.chain.iter()).position(|it| !work::wants(it, event));
        let Some(unwilling) = unwilling else {
            return Audience::Whole(self.chain);
        };
        let told = self.chain.iter().enumerate().filter_map(|(at, handler)| {
            let event = match at.cmp(&unwilling) {
                Ordering::Less => Some(event.clone()),
                Ordering::Equal => work::instead(handler, event, *resynced),
                Ordering::Greater => work::share(handler, event, *resynced),
            };
            Some((&**handler, event?))
        });
        Audience::Part(told.collect())
    }

    /// Asks of each pending call whether it is still wanted. One of a handler that is not told
    /// is: for that handler nothing has happened.
    ///
    /// To ask takes next to no time: it is in that of the first handler.
    fn dequeue(&self, held: &mut Held<Notice, Owed>, audience: &Audience<'_>) {
        let (lane, work, owed) = held.parts();
        let Work::Event { offer, pendings } = work else {
            return;
        };
        offer.asked = true;
        for pending in pendings.drain(..) {
            let Some(event) = audience.share(pending.handler, &offer.event.event) else {
                owed.push(pending);
                continue;
            };
            let Some((action, object)) = Action::of(event).zip(event.object()) else {
                continue;
            };
            let arrival = Arrival {
                kind: &self.metrics.kind,
                key: &lane.object,
                action,
                object,
            };
            let dropped = pending.call.event.object().is_none_or(|object| {
                let retry = PendingRetry {
                    handler: pending.handler,
                    action: pending.action,
                    object,
                    error: pending.call.error.as_deref(),
                    attempt: pending.call.attempt,
                };
                let policy = &self.shared.settings.dequeue;
                // A policy that panics has no opinion, and the default's is yes.
                ask("retry_dequeue_policy", || policy.dequeue(&arrival, &retry)).unwrap_or(true)
            });
            if !dropped {
                owed.push(pending);
            }
        }
    }

    /// Tells an event to the audience, or to what is left of it, from `now` on. Returns when that
    /// was done.
    async fn tell(
        &self,
        held: &mut Held<Notice, Owed>,
        audience: &Audience<'_>,
        mut now: Moment,
    ) -> Moment {
        let (lane, work, owed) = held.parts();
        let Work::Event { offer, .. } = work else {
            return now;
        };
        let Notice { event, told, .. } = &mut offer.event;
        for (handler, event) in audience.iter(event) {
            let Some(action) = Action::of(event) else {
                return now;
            };
            let place = Place::of(handler.place());
            if told.is_some_and(|told| place <= told) || handler.is_removed() {
                continue;
            }
            let call = Call {
                key: lane.object.clone(),
                action,
                event: event.clone(),
                state: None,
                attempt: 0,
                last_attempt: self.is_last(0),
            };
            let dialled = Dialled {
                handler,
                key: &lane.object,
                action,
                event,
            };
            let later = self.call(&dialled, call, &mut now).await;
            // From here to the end without an `await`: told and owed go together.
            owed.extend(later);
            *told = Some(place);
        }
        if let Some(object) = event.object() {
            object.rest();
        }
        now
    }

    /// Makes one call again. Returns when that was done.
    async fn retry(&self, held: &mut Held<Notice, Owed>) -> Moment {
        let mut now = held.since();
        let key = &held.key().object;
        let Work::Retry(pending) = held.work() else {
            return now;
        };
        let Some(handler) = self.shared.route.read().handler(self.kind, pending.handler) else {
            return now;
        };
        let attempt = pending.call.attempt;
        let call = Call {
            key: key.clone(),
            action: pending.action,
            event: self.refresh(key, &pending.call.event),
            state: pending.call.state.as_deref().cloned(),
            attempt,
            last_attempt: self.is_last(attempt),
        };
        let dialled = Dialled {
            handler: &handler,
            key,
            action: pending.action,
            event: &pending.call.event,
        };
        if let Some(owed) = self.call(&dialled, call, &mut now).await {
            held.owe(owed);
        }
        now
    }

    /// The event with the newest state of its object, if that is wanted and it is still the
    /// same object. The end of an object has no newer state.
    fn refresh(&self, key: &ObjectKey, event: &AnyEvent) -> AnyEvent {
        let wanted = self.shared.settings.retry_object == RetryObject::Latest;
        let latest = wanted
            .then(|| self.shared.latest(self.kind, key))
            .flatten()
            .filter(|latest| {
                let known = event.object().map(|object| Named::uid(&**object));
                known == Some(Named::uid(&**latest))
            });
        match (event, latest) {
            (_, None) => event.clone(),
            (Event::Updated { old, .. }, Some(new)) => Event::Updated {
                old: old.clone(),
                new,
            },
            (Event::Added(_), Some(new)) => Event::Added(new),
            (Event::Resynced(_), Some(new)) => Event::Resynced(new),
            (event, Some(_)) => event.clone(),
        }
    }

    /// Makes a call, and moves `now` on to its end. Returns the call that is to follow.
    async fn call(
        &self,
        dialled: &Dialled<'_>,
        call: Call,
        now: &mut Moment,
    ) -> Option<Pending<Owed>> {
        let Dialled {
            handler,
            action,
            event,
            ..
        } = *dialled;
        let (attempt, state) = (call.attempt, call.state.clone());

        let began = *now;
        let ongoing = self.metrics.call(action);
        let span = trace::handler(handler.role, handler.id, action, attempt);
        let called = pin!(async {
            // At the moment of the dispatch: no call begins after the deadline of the lease.
            let _permit = self.shared.permit().await;
            work::call(handler, call, self.shared.settings.limit).await
        });
        let ended = trace::within(&span, called).await;
        trace::called(&span, &ended);
        drop(span);
        *now = self.shared.engine.now();
        let result = ended.as_ref().map_err(|failed| &failed.error);
        ongoing.called(handler.role, *now - began, result);

        let (reason, delay, call) = match ended {
            Ok(outcome) => {
                let delay = outcome.delay()?;
                let state = outcome.into_state().or(state);
                let owed = Owed {
                    event: event.clone(),
                    attempt: 0,
                    state: state.map(Box::new),
                    error: None,
                    origin: self.origin.clone(),
                };
                (Reason::Requeued, delay, owed)
            }
            Err(failed) => {
                let delay = self.judge(dialled, attempt, &failed);
                let owed = Owed {
                    event: event.clone(),
                    attempt: attempt.saturating_add(1),
                    state: failed.state.or(state).map(Box::new),
                    error: Some(Arc::new(failed.error)),
                    origin: self.origin.clone(),
                };
                let Some(delay) = delay else {
                    self.give_up(dialled, attempt, owed);
                    return None;
                };
                self.metrics.retried();
                (Reason::Failed, delay, owed)
            }
        };
        Some(Pending {
            handler: handler.id,
            action,
            reason,
            due: *now + delay,
            overtaken: false,
            call,
        })
    }

    /// After how long a call that failed is made again, if it is; and tells of it.
    fn judge(&self, dialled: &Dialled<'_>, attempt: u32, failed: &Failed) -> Option<Duration> {
        let settings = &self.shared.settings;
        let retry_in = match failed.retry {
            Retry::Never => None,
            Retry::Policy => self.policy(&failed.error, attempt),
            Retry::After(delay) => self.policy(&failed.error, attempt).map(|_| delay),
        };
        let report = self.report(dialled, attempt, &failed.error, retry_in);
        ask("on_error", || (settings.on_error)(&report));
        retry_in
    }

    fn report<'a>(
        &'a self,
        dialled: &'a Dialled<'_>,
        attempt: u32,
        error: &'a HandlerError,
        retry_in: Option<Duration>,
    ) -> ErrorReport<'a> {
        ErrorReport {
            kind: &self.metrics.kind,
            key: dialled.key,
            handler: dialled.handler.id,
            role: dialled.handler.role,
            action: dialled.action,
            attempt,
            error,
            retry_in,
        }
    }

    /// Keeps a call that was given up, and tells of it.
    fn give_up(&self, dialled: &Dialled<'_>, attempt: u32, call: Owed) {
        let Some(error) = call.error.clone() else {
            return;
        };
        self.metrics.given_up();
        let told = GivenUp {
            kind: Arc::clone(&self.metrics.kind),
            key: dialled.key.clone(),
            handler: dialled.handler.id,
            role: dialled.handler.role,
            action: dialled.action,
            attempts: call.attempt,
            error: Arc::clone(&error),
            number: 0,
        };
        self.shared.shelve(Shelved {
            told,
            lane: LaneKey {
                kind: self.kind,
                object: dialled.key.clone(),
            },
            call,
        });
        // Whoever is told may look for it, and have it made again.
        let report = self.report(dialled, attempt, &error, None);
        let hook = &self.shared.settings.on_exhausted;
        ask("on_exhausted", || hook(&report));
    }

    /// What the retry policy says; what the default says, if it panics.
    fn policy(&self, error: &HandlerError, attempt: u32) -> Option<Duration> {
        let random = self.shared.random();
        let policy = &self.shared.settings.retry;
        ask("retry_policy", || policy.delay(error, attempt, random))
            .unwrap_or_else(|| ExponentialBackoff::GRAFANA.delay(error, attempt, random))
    }

    fn is_last(&self, attempt: u32) -> bool {
        let max = self.shared.max_attempts;
        max.is_some_and(|max| attempt >= max)
    }
}
