//! `Request`: the action, the object and the attempt of a call.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use windlass_informer::{DecodeError, ErasedObject, Event, LazyObject, ObjectKey};

use super::{Failure, State};
use crate::{
    Action, Reasons,
    error::{CannotCast, Undecodable},
    event::AnyEvent,
    route::KindId,
};

/// A request to reconcile an object. Unlike `reconcile.Request` of controller-runtime it has the
/// object and the action, not only the key.
///
/// Cloning a request clones references, not objects.
pub struct Request<K> {
    key: ObjectKey,
    action: Action,
    object: Arc<K>,
    old: Option<OldObject<K>>,
    pub(crate) attempt: Attempt,
}

/// Which attempt of a call this is, and what the earlier ones left.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) is_last: bool,
    /// Whether it repeats an earlier call instead of being for a new event.
    pub(crate) is_repeated: bool,
    /// Whether a resync was coalesced into its event.
    pub(crate) is_resynced: bool,
    pub(crate) reasons: Reasons,
    /// Whether the stores did not show own writes in time.
    pub(crate) is_stale: bool,
    pub(crate) state: Option<State>,
    /// Whether the handler that the controller calls has no finalizer. Then a wrapper in it is
    /// hidden.
    pub(crate) hides_finalizer: bool,
    /// Whether it is for an update whose old state does not decode, so that its method is `add`.
    pub(crate) has_lost_old: bool,
    /// The time limit of a call. A handler with a finalizer applies it to the calls of its inner
    /// handler.
    pub(crate) limit: Option<Duration>,
}

/// The old state of an object, which is decoded once, at the first read.
struct OldObject<K> {
    lazy: LazyObject<K>,
    object: OnceLock<Option<Arc<K>>>,
}

/// A call of a handler, with a type-erased event.
pub(crate) struct Call {
    pub(crate) kind: KindId,
    pub(crate) key: ObjectKey,
    pub(crate) action: Action,
    pub(crate) event: AnyEvent,
    pub(crate) attempt: Attempt,
}

// === impl Request ===

impl<K> Request<K> {
    /// Creates a first request, for tests of reconcilers. The controller creates its own.
    pub fn new(action: Action, object: Arc<K>) -> Self
    where
        K: windlass_informer::ObjectIdentity,
    {
        Self {
            key: ObjectKey::of(&*object),
            action,
            object,
            old: None,
            attempt: Attempt::default(),
        }
    }

    /// Adds `state`, as if an earlier call had left it.
    #[must_use]
    pub fn resumed(mut self, state: State) -> Self {
        self.attempt.state = Some(state);
        self
    }

    /// Converts the request to another type of the same object. An update whose old state cannot be
    /// converted becomes `Created`.
    pub(super) fn about<T>(self, object: Arc<T>, old: Option<Arc<T>>) -> Request<T>
    where
        T: windlass_informer::Stored,
    {
        let lost_old = self.old.is_some() && old.is_none();
        let action = match self.action {
            Action::Updated if lost_old => Action::Created,
            action => action,
        };
        Request {
            object,
            old: old.map(|old| OldObject::new(LazyObject::from(old))),
            key: self.key,
            action,
            attempt: self.attempt,
        }
    }

    /// Converts the request of a wrapper to that of its inner handler: with another action, newer
    /// states of the object, and the inner handler's state.
    pub(crate) fn passed_on(
        self,
        action: Action,
        object: Arc<K>,
        old: Option<Arc<K>>,
        state: Option<State>,
    ) -> Self
    where
        K: windlass_informer::Stored,
    {
        Self {
            action,
            object,
            old: old.map(|old| OldObject::new(LazyObject::from(old))),
            attempt: Attempt {
                state,
                ..self.attempt
            },
            ..self
        }
    }

    /// Replaces the old state and the attempt.
    pub(crate) fn attempted(self, old: Option<Arc<K>>, attempt: Attempt) -> Self
    where
        K: windlass_informer::Stored,
    {
        Self {
            old: old.map(|old| OldObject::new(LazyObject::from(old))),
            attempt,
            ..self
        }
    }

    /// Why the call was queued, for logs.
    #[must_use]
    pub const fn reasons(&self) -> Reasons {
        self.attempt.reasons
    }

    /// The namespace and the name of the object.
    #[must_use]
    pub const fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The reason for the call. A retry or requeue has the action of its first call.
    #[must_use]
    pub const fn action(&self) -> Action {
        self.action
    }

    /// The object. In a retry, by default, the newest dispatched state; for `Deleted`, the last
    /// known state.
    #[must_use]
    pub const fn object(&self) -> &Arc<K> {
        &self.object
    }

    /// The object before the update, decoded at the first read. `None` for other actions.
    #[must_use]
    pub fn old(&self) -> Option<&Arc<K>>
    where
        K: Send + Sync + 'static,
    {
        self.old.as_ref()?.get()
    }

    /// The state that an earlier call of this request left. `None` in the first call.
    #[must_use]
    pub const fn state(&self) -> Option<&State> {
        self.attempt.state.as_ref()
    }

    /// The number of failed calls of this request in a row: 0 in the first call. A finalizer that
    /// could not be written does not count.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt.number
    }

    /// Whether this is the last attempt: the retry policy has
    /// [`max_attempts`](crate::RetryPolicy::max_attempts), and it is reached.
    #[must_use]
    pub const fn last_attempt(&self) -> bool {
        self.attempt.is_last
    }
}

impl<K> Clone for Request<K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            action: self.action,
            object: Arc::clone(&self.object),
            old: self.old.clone(),
            attempt: self.attempt.clone(),
        }
    }
}

/// Shows the action and the object's key, and never the object's content, which may be secret.
impl<K> fmt::Debug for Request<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("key", &format_args!("{}", self.key))
            .field("action", &self.action)
            .field("attempt", &self.attempt.number)
            .field("state", &self.attempt.state)
            .finish_non_exhaustive()
    }
}

// === impl OldObject ===

impl<K> OldObject<K> {
    const fn new(lazy: LazyObject<K>) -> Self {
        Self {
            lazy,
            object: OnceLock::new(),
        }
    }

    fn get(&self) -> Option<&Arc<K>>
    where
        K: Send + Sync + 'static,
    {
        self.object.get_or_init(|| self.lazy.get().ok()).as_ref()
    }
}

impl<K> Clone for OldObject<K> {
    fn clone(&self) -> Self {
        Self {
            lazy: self.lazy.clone(),
            object: self.object.clone(),
        }
    }
}

// === impl Call ===

impl Call {
    /// Converts the call to a request for a `K`, whose object stays decoded until its event is
    /// released.
    pub(crate) fn request<K: Send + Sync + 'static>(self) -> Result<Request<K>, Failure> {
        self.converted(<dyn ErasedObject>::into_typed_for_handler)
    }

    /// Converts the call to a request for a `K` that is read through the cache of its informer, for
    /// an object that is processed again.
    pub(crate) fn cached_request<K: Send + Sync + 'static>(self) -> Result<Request<K>, Failure> {
        self.converted(|object| object.typed())
    }

    fn converted<K: Send + Sync + 'static>(
        self,
        decode: impl Fn(Arc<dyn ErasedObject>) -> Result<Option<Arc<K>>, DecodeError>,
    ) -> Result<Request<K>, Failure> {
        let is_update = matches!(self.event, Event::Updated { .. });
        let event = checked(converted(self.event, decode), &self.key)?;
        let has_lost_old = is_update && matches!(event, Event::Added(_));
        let (action, object, old) = match event {
            Event::Updated { old, new } => (self.action, new, Some(OldObject::new(old))),
            // Also of an update: then the old state does not decode, and the handler has not
            // received it.
            Event::Added(object) => (Action::Created, object, None),
            Event::Resynced(object) => (self.action, object, None),
            Event::Deleted { last, .. } => (self.action, last, None),
            _ => return Err(cannot_cast::<K>(self.key).into()),
        };
        Ok(Request {
            object,
            old,
            key: self.key,
            action,
            attempt: Attempt {
                has_lost_old,
                ..self.attempt
            },
        })
    }
}

/// The converted event of a call. An object that does not decode is a permanent error of the call.
///
/// Kinds are typed, so the object is a `K`. If it were not, this call would fail, without a panic.
fn checked<K>(
    converted: Result<Option<Event<K>>, DecodeError>,
    key: &ObjectKey,
) -> Result<Event<K>, Failure> {
    match converted {
        Ok(Some(event)) => Ok(event),
        Ok(None) => Err(cannot_cast::<K>(key.clone()).into()),
        Err(source) => {
            let key = key.clone();
            Err(Failure::from(Undecodable { key, source }).permanent())
        }
    }
}

/// Converts the event, if its object is a `K`. An update whose old state is known not to decode
/// becomes an add, because no handler has received that state. The object stays decoded until its
/// event is released.
pub(crate) fn of_kind<K: Any + Send + Sync>(
    event: AnyEvent,
) -> Result<Option<Event<K>>, DecodeError> {
    converted(event, <dyn ErasedObject>::into_typed_for_handler)
}

/// Like [`of_kind`], but the object does not stay decoded.
pub(crate) fn of_kind_uncached<K: Any + Send + Sync>(
    event: AnyEvent,
) -> Result<Option<Event<K>>, DecodeError> {
    converted(event, <dyn ErasedObject>::into_typed_uncached)
}

fn converted<K: Any + Send + Sync>(
    event: AnyEvent,
    decode: impl Fn(Arc<dyn ErasedObject>) -> Result<Option<Arc<K>>, DecodeError>,
) -> Result<Option<Event<K>>, DecodeError> {
    Ok(match event {
        Event::Added(object) => decode(object)?.map(Event::Added),
        Event::Updated { old, new } => decode(new)?.map(|new| {
            let old = old.into_erased();
            if old.is_undecodable() {
                return Event::Added(new);
            }
            let old = LazyObject::from_erased(old);
            Event::Updated { old, new }
        }),
        Event::Deleted { last, missed } => {
            let last = decode(last)?;
            last.map(|last| Event::Deleted { last, missed })
        }
        Event::Resynced(object) => decode(object)?.map(Event::Resynced),
        _ => None,
    })
}

fn cannot_cast<K>(key: ObjectKey) -> CannotCast {
    CannotCast {
        key,
        expected: std::any::type_name::<K>(),
    }
}
