//! Dead letters: calls that failed and are not repeated, kept for inspection and redrive.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use windlass_informer::{ErrorChain, ObjectKey};

use super::queued::RepeatableCall;
use crate::{
    Action, HandlerError, HandlerId, Role, event::AnyEvent, handler::Handler, schedule::LaneKey,
    work::typed,
};

/// A call that failed and is not repeated automatically any more.
///
/// [`on_exhausted`](crate::InformerControllerBuilder::on_exhausted) receives it, for example to
/// write the failure into the object's status.
/// [`dead_letters`](crate::InformerController::dead_letters) lists those that are kept.
///
/// It is removed when its handler is called for a new event of the object, when its handler is
/// removed, and when 1,000 newer dead letters exist. Unless its event was a delete, it is also removed
/// when its object is deleted. Events of another object with the same name do not affect it, except
/// that they end the call for a delete under [`DeleteRetry::UntilSuccessor`].
///
/// [`DeleteRetry::UntilSuccessor`]: crate::DeleteRetry::UntilSuccessor
#[derive(Clone)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The name of the kind.
    pub kind: Arc<str>,
    /// The object's namespace and name.
    pub key: ObjectKey,
    /// The handler that was called.
    pub handler: HandlerId,
    /// The type of that handler, as Rust names it: its path, or where its closure is.
    pub handler_type: &'static str,
    /// Whether the handler is a watcher or a reconciler.
    pub role: Role,
    /// The action of the call. For a wrapper with a finalizer, that of the call of its inner handler:
    /// `Deleted` for a clean-up, whose event was an update.
    pub action: Action,
    /// The number of failed calls.
    pub attempts: u32,
    /// The error of the last call.
    pub error: Arc<HandlerError>,

    event: AnyEvent,
    number: u64,
}

/// A dead letter with the call to repeat.
pub(crate) struct DeadLetterEntry {
    pub(crate) letter: DeadLetter,
    /// The action of the event, with which a redrive calls the handler.
    pub(crate) action: Action,
    pub(crate) lane: LaneKey,
    pub(crate) call: RepeatableCall,
}

/// The dead letters of a controller, at most [`CAPACITY`](Self::CAPACITY).
#[derive(Default)]
pub(crate) struct DeadLetters {
    /// By number, in order of age.
    calls: BTreeMap<u64, DeadLetterEntry>,
    lanes: HashMap<LaneKey, Vec<u64>>,
}

/// The number of dead letters in the process. A number is in one controller, so that no other
/// controller accepts the letter.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

// === impl DeadLetter ===

impl DeadLetter {
    /// The number of a letter that was not added to the dead letters.
    const NOT_ADDED: u64 = u64::MAX;

    /// The object of the last call. Of a deleted object the last known state. `None` if it is not a
    /// `K` or does not decode.
    #[must_use]
    pub fn object<K: Send + Sync + 'static>(&self) -> Option<Arc<K>> {
        typed::<K>(&self.event)?.object().cloned()
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }
}

/// Shows the call, and never the content of the object, which may be secret.
impl fmt::Debug for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeadLetter({self})")
    }
}

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            key,
            handler,
            handler_type,
            role,
            action,
            error,
            ..
        } = self;
        let (role, action, error) = (role.as_str(), action.as_str(), ErrorChain::new(&**error));
        write!(
            f,
            "{role} {handler} ({handler_type}) of {kind} {key} on {action}: {error}"
        )
    }
}

// === impl DeadLetterEntry ===

impl DeadLetterEntry {
    /// The dead letter of `call`, which `handler` failed with `error`.
    pub(super) fn new(
        lane: LaneKey,
        kind: &Arc<str>,
        handler: &Handler,
        action: Action,
        error: Arc<HandlerError>,
        call: RepeatableCall,
    ) -> Self {
        let letter = DeadLetter {
            kind: Arc::clone(kind),
            key: lane.object.clone(),
            handler: handler.id,
            handler_type: handler.code.type_name(),
            role: handler.role,
            action,
            attempts: call.attempt,
            error,
            event: call.event.clone(),
            number: DeadLetter::NOT_ADDED,
        };
        Self {
            letter,
            action,
            lane,
            call,
        }
    }
}

// === impl DeadLetters ===

impl DeadLetters {
    /// Enough to find a cause, and few enough to keep.
    pub(crate) const CAPACITY: usize = 1000;

    /// Adds `call`. Returns it, and the oldest dead letter if there are too many.
    pub(crate) fn put(
        &mut self,
        mut call: DeadLetterEntry,
    ) -> (DeadLetter, Option<DeadLetterEntry>) {
        call.letter.number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        (call.letter.clone(), self.put_back(call))
    }

    /// Adds `call`, which was taken, with its number. Returns the oldest dead letter if there are too
    /// many.
    pub(crate) fn put_back(&mut self, call: DeadLetterEntry) -> Option<DeadLetterEntry> {
        let number = call.letter.number;
        self.lanes
            .entry(call.lane.clone())
            .or_default()
            .push(number);
        self.calls.insert(number, call);
        let is_full = self.calls.len() > Self::CAPACITY;
        let oldest = self.calls.keys().next().copied().filter(|_| is_full);
        oldest.and_then(|oldest| self.take(oldest))
    }

    pub(crate) fn get(&self, number: u64) -> Option<&DeadLetterEntry> {
        self.calls.get(&number)
    }

    /// Removes a dead letter.
    pub(crate) fn take(&mut self, number: u64) -> Option<DeadLetterEntry> {
        let call = self.calls.remove(&number)?;
        if let Some(numbers) = self.lanes.get_mut(&call.lane) {
            numbers.retain(|it| *it != number);
            if numbers.is_empty() {
                self.lanes.remove(&call.lane);
            }
        }
        Some(call)
    }

    /// Removes the `obsolete` dead letters of one lane.
    pub(crate) fn clear(
        &mut self,
        lane: &LaneKey,
        obsolete: impl Fn(&DeadLetterEntry) -> bool,
    ) -> Vec<DeadLetterEntry> {
        let numbers = self.lanes.get(lane).cloned().unwrap_or_default();
        let obsolete = |number: &u64| self.calls.get(number).is_some_and(&obsolete);
        let numbers: Vec<_> = numbers.into_iter().filter(obsolete).collect();
        numbers.into_iter().filter_map(|it| self.take(it)).collect()
    }

    /// Removes the dead letters of one handler.
    pub(crate) fn cancel(&mut self, handler: HandlerId) -> Vec<DeadLetterEntry> {
        let calls = self.calls.values();
        let theirs: Vec<_> = calls
            .filter(|call| call.letter.handler == handler)
            .map(|call| call.letter.number)
            .collect();
        theirs.into_iter().filter_map(|it| self.take(it)).collect()
    }

    /// All dead letters, oldest first.
    pub(crate) fn all(&self) -> Vec<DeadLetter> {
        self.calls
            .values()
            .map(|call| call.letter.clone())
            .collect()
    }

    /// Whether there are no dead letters.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_informer::Event;

    use super::*;
    use crate::route::KindId;

    #[test]
    fn a_dead_letter_is_kept_until_the_next_event_of_its_object() {
        check("put a0, put b0, put a1, clear a", "b0");
        check("put a0, clear b", "a0");
    }

    #[test]
    fn a_dead_letter_is_kept_when_another_handler_receives_an_event() {
        check("put a0, put b0, put a1, dispatch a0", "b0 a1");
        check("put a0, dispatch a1, clear a", "");
    }

    #[test]
    fn dead_letters_are_removed_with_their_handler() {
        check("put a0, put b0, put a1, cancel 0", "a1");
    }

    #[test]
    fn a_dead_letter_is_taken_once() {
        let mut letters = DeadLetters::default();
        letters.put(call("a0"));
        let number = letters.all()[0].number;
        assert!(letters.take(number).is_some());
        assert!(letters.take(number).is_none());
        assert!(letters.is_empty() && letters.lanes.is_empty());
    }

    #[test]
    fn the_oldest_dead_letter_is_dropped_above_the_limit() {
        let mut letters = DeadLetters::default();
        let first = letters.put(call("a0")).0.number;
        for _ in 1..DeadLetters::CAPACITY {
            assert!(letters.put(call("a0")).1.is_none());
        }
        let gone = letters.put(call("b0")).1.expect("one goes");
        assert_eq!(gone.letter.number, first);
        assert_eq!(letters.all().len(), DeadLetters::CAPACITY);
        assert_eq!(
            letters.clear(&call("a0").lane, |_| true).len(),
            DeadLetters::CAPACITY - 1
        );
        assert_eq!(letters.all().len(), 1);
    }

    /// Runs `script`, in which `a1` is a call of handler 1 for the object a. `left` are the
    /// remaining dead letters.
    #[track_caller]
    fn check(script: &str, left: &str) {
        let mut letters = DeadLetters::default();
        for step in script.split(", ") {
            match step.split_once(' ') {
                Some(("put", it)) => _ = letters.put(call(it)),
                Some(("clear", name)) => _ = letters.clear(&lane(name), |_| true),
                Some(("dispatch", name)) => {
                    let dispatched = call(name);
                    letters.clear(&dispatched.lane, |it| {
                        it.letter.handler == dispatched.letter.handler
                    });
                }
                Some((_, handler)) => {
                    let handler = handler.parse().expect("a number");
                    letters.cancel(HandlerId(handler));
                }
                None => panic!("no such step: {step}"),
            }
        }
        let names: Vec<_> = (letters.all().iter())
            .map(|it| format!("{}{}", it.key, it.handler))
            .collect();
        assert_eq!(names.join(" "), left, "{script}");
    }

    fn lane(name: &str) -> LaneKey {
        LaneKey {
            kind: KindId(0),
            object: ObjectKey::new(name),
        }
    }

    fn call(text: &str) -> DeadLetterEntry {
        let (name, handler) = text.split_at(1);
        let lane = lane(name);
        let error = Arc::new(HandlerError::TimedOut {
            limit: Duration::ZERO,
        });
        DeadLetterEntry {
            letter: DeadLetter {
                kind: Arc::from("k"),
                key: lane.object.clone(),
                handler: HandlerId(handler.parse().expect("a number")),
                handler_type: "handler",
                role: Role::Watcher,
                action: Action::Created,
                attempts: 1,
                error: Arc::clone(&error),
                event: Event::Synced,
                number: DeadLetter::NOT_ADDED,
            },
            action: Action::Created,
            lane,
            call: RepeatableCall {
                event: Event::Synced,
                is_deferred: false,
                attempt: 0,
                state: None,
                failed: None,
                reasons: crate::Reasons::default(),
                origin: crate::trace::TraceParent::default(),
            },
        }
    }
}
