//! A write, an event, what an informer shows, and what is decided about them. *(pure)*

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use windlass_informer::ObjectKey;

use crate::Reasons;

/// One write and its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnWrite {
    /// The kind, as `plural.group`.
    pub(crate) resource: Arc<str>,
    pub(crate) key: ObjectKey,
    pub(crate) uid: Arc<str>,
    pub(crate) effect: WriteEffect,
    /// Whether no change of others is in this version: the object was created, or the request had
    /// the version before it as a precondition.
    pub(crate) is_proven: bool,
    pub(crate) at: Instant,
}

/// What a write left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEffect {
    /// The object has this version.
    Version(u64),
    /// The object does not exist any more.
    Gone,
}

/// An event of an object that wakes a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventMark {
    /// The kind, as `plural.group`.
    pub(crate) resource: Arc<str>,
    pub(crate) uid: Option<Arc<str>>,
    /// Of the new state; of a delete, none.
    pub(crate) version: Option<u64>,
    /// Whether it came from the watch and not from a list, in which versions can be missing.
    pub(crate) is_from_watch: bool,
    /// Whether it is the lane's own object, with a new generation.
    pub(crate) is_new_generation: bool,
    /// The reason of a call because of it.
    pub(crate) reason: Reasons,
}

/// The objects of a resource in one namespace, or those without a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Scope {
    /// The kind, as `plural.group`.
    pub(crate) resource: Arc<str>,
    pub(crate) namespace: Option<Arc<str>>,
}

/// What to do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventDecision {
    /// The lane is called.
    Wake,
    /// It is the echo of a write of the lane.
    Drop,
    /// It is decided at the end of the call in progress.
    Keep,
}

/// Whether a call can begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The stores have all writes of earlier calls.
    Ready,
    /// They do not have them, and the time is over.
    Stale,
    /// Ask again after this time, or at the next event.
    Wait(Duration),
    /// Find out the current version of the server for these objects, tell it with
    /// [`OwnWrites::passes`](super::OwnWrites::passes), and ask again.
    FindVersions(Vec<Scope>),
}

/// What an informer shows of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No informer of this controller shows this object, whatever its state.
    Unwatched,
    /// Its informer has passed a version, and has this object or none.
    Watched {
        object: Option<(Arc<str>, u64)>,
        passed: Option<u64>,
    },
}

/// Whether a condition is true of what each informer shows of the object with a resource and a key.
/// An object with an empty name stands for all of its namespace.
pub(crate) type ShownByAll<'a> = dyn Fn(&str, &ObjectKey, &dyn Fn(&Shown) -> bool) -> bool + 'a;

// === impl Scope ===

impl Scope {
    /// The key of an object in it, with an empty name.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::in_namespace("", self.namespace.clone())
    }
}

// === impl Shown ===

impl Shown {
    /// What two informers show together, if each can show the object: the newer state, and the version
    /// that both have passed.
    pub(crate) fn with_other(self, other: Self) -> Self {
        let (
            Self::Watched { object, passed },
            Self::Watched {
                object: other_object,
                passed: other_passed,
            },
        ) = (&self, &other)
        else {
            return if self == Self::Unwatched { other } else { self };
        };
        let version = |object: &Option<(Arc<str>, u64)>| object.as_ref().map(|it| it.1);
        let newer = if version(other_object) > version(object) {
            other_object
        } else {
            object
        };
        Self::Watched {
            object: newer.clone(),
            passed: *passed.min(other_passed),
        }
    }
}

// === impl OwnWrite ===

impl OwnWrite {
    /// Whether all informers show this write, or something later, or can never show it.
    pub(super) fn is_settled(&self, by_all: &ShownByAll<'_>) -> bool {
        by_all(&self.resource, &self.key, &|shown| self.is_shown(shown))
    }

    fn is_shown(&self, shown: &Shown) -> bool {
        let Shown::Watched { object, passed } = shown else {
            return true;
        };
        let WriteEffect::Version(version) = self.effect else {
            return object.as_ref().is_none_or(|(uid, _)| *uid != self.uid);
        };
        let is_passed = passed.is_some_and(|passed| passed >= version);
        // A later version of this object, or of one that has its name since.
        let is_shown = (object.as_ref()).is_some_and(|(_, shown)| *shown >= version);
        is_passed || is_shown
    }
}
