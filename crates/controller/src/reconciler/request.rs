//! `Request`: the action, the object and the attempt of a call.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

use windlass_informer::{DecodeError, Event, LazyObject, ObjectKey};

use super::{Failure, State};
use crate::{
    Action,
    error::{CannotCast, Undecodable},
    event::AnyEvent,
};

/// One thing to reconcile: what happened, and to which object.
///
/// Cloning one clones no object.
pub struct Request<K> {
    key: ObjectKey,
    action: Action,
    object: Arc<K>,
    old: Option<OldObject<K>>,
    state: Option<State>,
    attempt: u32,
    last_attempt: bool,
    repeated: bool,
}

/// An earlier state of an object, which is decoded once, at the first read.
struct OldObject<K> {
    kept: LazyObject<K>,
    object: OnceLock<Option<Arc<K>>>,
}

/// A call of one handler, whatever its type.
pub(crate) struct Call {
    pub(crate) key: ObjectKey,
    pub(crate) action: Action,
    pub(crate) event: AnyEvent,
    pub(crate) state: Option<State>,
    pub(crate) attempt: u32,
    pub(crate) last_attempt: bool,
    /// Whether it repeats an earlier call, and is not made for a new event.
    pub(crate) repeated: bool,
}

// === impl Request ===

impl<K> Request<K> {
    /// A first request: `action` happened to `object`. For tests of reconcilers; the
    /// controller makes its own.
    pub fn new(action: Action, object: Arc<K>) -> Self
    where
        K: windlass_informer::ObjectIdentity,
    {
        Self {
            key: ObjectKey::of(&*object),
            action,
            object,
            old: None,
            state: None,
            attempt: 0,
            last_attempt: false,
            repeated: false,
        }
    }

    /// The same request as it comes after a call that left `state`.
    #[must_use]
    pub fn resumed(self, state: State) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// The same request, about the same object in another form. An update whose old state has no
    /// such form becomes `Created`.
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
            state: self.state,
            attempt: self.attempt,
            last_attempt: self.last_attempt,
            repeated: self.repeated,
        }
    }

    /// The same request as a wrapper passes it on: for another action, with newer states of the
    /// object, and with the state of the inner handler.
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
            state,
            ..self
        }
    }

    /// The same request, with another state before the update.
    pub(crate) fn with_old(self, old: Arc<K>) -> Self
    where
        K: windlass_informer::Stored,
    {
        Self {
            old: Some(OldObject::new(LazyObject::from(old))),
            ..self
        }
    }

    /// Whether this repeats an earlier call, and is not made for a new event.
    pub(crate) const fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// The namespace and the name of the object.
    #[must_use]
    pub const fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// What happened.
    #[must_use]
    pub const fn action(&self) -> Action {
        self.action
    }

    /// The object: as it was when it happened; in a retry, by default, the newest that the
    /// informer has; for `Deleted`, its last known state.
    #[must_use]
    pub const fn object(&self) -> &Arc<K> {
        &self.object
    }

    /// The object before it was updated. Decoded by the first who asks, unless it is already.
    #[must_use]
    pub fn old(&self) -> Option<&Arc<K>>
    where
        K: Send + Sync + 'static,
    {
        self.old.as_ref()?.get()
    }

    /// What an earlier call of this request left: none in the first call, and none unless an
    /// earlier one failed, or asked to be called again, and left a state.
    #[must_use]
    pub const fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// How many calls of this request have failed so far, one after the other: 0 in the
    /// first.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the retry policy makes no further attempt if this one fails, as far as it can
    /// say before it sees the error.
    #[must_use]
    pub const fn last_attempt(&self) -> bool {
        self.last_attempt
    }
}

impl<K> Clone for Request<K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            action: self.action,
            object: Arc::clone(&self.object),
            old: self.old.clone(),
            state: self.state.clone(),
            attempt: self.attempt,
            last_attempt: self.last_attempt,
            repeated: self.repeated,
        }
    }
}

/// Shows the action and the object's key, and never the object's content, which may be secret.
impl<K> fmt::Debug for Request<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("key", &format_args!("{}", self.key))
            .field("action", &self.action)
            .field("attempt", &self.attempt)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

// === impl OldObject ===

impl<K> OldObject<K> {
    const fn new(kept: LazyObject<K>) -> Self {
        Self {
            kept,
            object: OnceLock::new(),
        }
    }

    fn get(&self) -> Option<&Arc<K>>
    where
        K: Send + Sync + 'static,
    {
        self.object.get_or_init(|| self.kept.get().ok()).as_ref()
    }
}

impl<K> Clone for OldObject<K> {
    fn clone(&self) -> Self {
        Self {
            kept: self.kept.clone(),
            object: self.object.clone(),
        }
    }
}

// === impl Call ===

impl Call {
    /// The call as a request about a `K`.
    pub(crate) fn request<K: Send + Sync + 'static>(self) -> Result<Request<K>, Failure> {
        let (action, object, old) = match cast(self.event, &self.key)? {
            Event::Updated { old, new } => (self.action, new, Some(OldObject::new(old))),
            // Its state before does not decode: the handler that is asked has not received it.
            Event::Added(object) if self.action == Action::Updated => {
                (Action::Created, object, None)
            }
            Event::Added(object) | Event::Resynced(object) => (self.action, object, None),
            Event::Deleted { last, .. } => (self.action, last, None),
            _ => return Err(cannot_cast::<K>(self.key).into()),
        };
        Ok(Request {
            object,
            old,
            key: self.key,
            action,
            state: self.state,
            attempt: self.attempt,
            last_attempt: self.last_attempt,
            repeated: self.repeated,
        })
    }
}

/// The event as one about a `K`, for a call. An object that does not decode is an error of the
/// call, which is permanent.
///
/// The kinds of a controller are typed, so it is a `K`; should it be none all the same, it is an
/// error of one call and not a panic.
pub(crate) fn cast<K: Any + Send + Sync>(
    event: AnyEvent,
    key: &ObjectKey,
) -> Result<Event<K>, Failure> {
    match of_kind(event) {
        Ok(Some(event)) => Ok(event),
        Ok(None) => Err(cannot_cast::<K>(key.clone()).into()),
        Err(source) => {
            let key = key.clone();
            Err(Failure::from(Undecodable { key, source }).permanent())
        }
    }
}

/// The event as one about a `K`, if it is. An update from a state that is known not to decode is
/// an add: no handler has received that state.
pub(crate) fn of_kind<K: Any + Send + Sync>(
    event: AnyEvent,
) -> Result<Option<Event<K>>, DecodeError> {
    Ok(match event {
        Event::Added(object) => object.into_typed()?.map(Event::Added),
        Event::Updated { old, new } => new.into_typed()?.map(|new| {
            let old = old.into_erased();
            if old.is_undecodable() {
                return Event::Added(new);
            }
            let old = LazyObject::from_erased(old);
            Event::Updated { old, new }
        }),
        Event::Deleted { last, missed } => {
            let last = last.into_typed()?;
            last.map(|last| Event::Deleted { last, missed })
        }
        Event::Resynced(object) => object.into_typed()?.map(Event::Resynced),
        _ => None,
    })
}

fn cannot_cast<K>(key: ObjectKey) -> CannotCast {
    CannotCast {
        key,
        expected: std::any::type_name::<K>(),
    }
}
