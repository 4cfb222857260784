//! The log of a run: the recorded entries in order, with their times.

use std::{sync::Arc, time::Duration};

use crate::{Snapshot, Version};

mod display;

/// The id of a handler in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub u32);

/// The id of an informer in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InformerId(pub u32);

/// The id of a call in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The reason why a handler is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The object is new to the handler.
    Created,
    /// The object changed.
    Updated,
    /// The object was deleted. For a wrapped handler: the object has to be cleaned up.
    Deleted,
    /// The object did not change.
    Resynced,
}

/// The role of a handler. Watchers are called before reconcilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A handler with one method for each action.
    Watcher,
    /// A handler with one method, which receives the attempt and the state.
    Reconciler,
}

/// The description of a handler when it is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Its id in the log.
    pub id: HandlerId,
    /// The kind that it handles.
    pub kind: Arc<str>,
    /// Whether it is a watcher or a reconciler.
    pub role: Role,
    /// The finalizers of the wrapper around it: the final one first, then the others. Empty if
    /// there is no wrapper.
    pub finalizers: Vec<String>,
    /// Whether the wrapper writes the final finalizer before the first call.
    pub early: bool,
    /// Whether a predicate hides events from it. The rules do not know which events, so they check
    /// only what is forbidden for all events.
    pub filtered: bool,
}

/// An event of an informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InformerEvent {
    /// An object that it did not have.
    Added {
        /// The object.
        object: Arc<Snapshot>,
        /// How the informer received it.
        from: AddedBy,
    },
    /// A newer state of an object that it had.
    Updated(Arc<Snapshot>),
    /// An object that it does not have any more, in its last state.
    Deleted(Arc<Snapshot>),
    /// An object that has not changed.
    Resynced(Arc<Snapshot>),
}

/// How an informer received a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedBy {
    /// By its first list: an earlier process may have worked on the object.
    FirstList,
    /// By a later list.
    List,
    /// By its watch: the object is new.
    Watch,
}

/// The author of a write to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The wrapper around a handler.
    Wrapper(HandlerId),
    /// A call of a level-triggered handler.
    Call(CallId),
    /// Another client.
    Other,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It succeeded, and requests another call.
    Requeue {
        /// After this time.
        after: Duration,
        /// With this state.
        state: Option<u64>,
    },
    /// It failed.
    Failed {
        /// The delay that the handler requested, if any.
        retry_after: Option<Duration>,
        /// The state for the next attempt.
        state: Option<u64>,
    },
    /// It panicked.
    Panicked,
    /// It was dropped because of a timeout, or because the controller stopped.
    Dropped,
}

/// A call as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    /// The id of the call.
    pub call: CallId,
    /// The called handler.
    pub handler: HandlerId,
    /// The reason of the call.
    pub action: Action,
    /// The previous state, if the handler received it.
    pub old: Option<Arc<Snapshot>>,
    /// The object.
    pub object: Arc<Snapshot>,
    /// The attempt, which only reconcilers receive.
    pub request: Option<Attempt>,
}

/// The arguments that only a reconciler receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The number of earlier calls of this request that failed.
    pub attempt: u32,
    /// The state of an earlier call.
    pub state: Option<u64>,
    /// Whether the retry policy allows no further attempt.
    pub last: bool,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A new controller started. It has no memory of an earlier one.
    Started,
    /// The controller stopped with all its handlers and informers.
    Stopped,
    /// A handler was added.
    HandlerAdded(Handler),
    /// A handler was removed.
    HandlerRemoved(HandlerId),
    /// An informer was added to a kind.
    InformerAdded {
        /// The informer.
        informer: InformerId,
        /// Its kind.
        kind: Arc<str>,
    },
    /// An informer was removed.
    InformerRemoved(InformerId),
    /// An informer published an event.
    InformerEvent {
        /// The informer.
        informer: InformerId,
        /// The event.
        shown: InformerEvent,
    },
    /// An informer has published its first list.
    Synced(InformerId),
    /// The API server has a new state of an object.
    Committed {
        /// The client that wrote it.
        by: Writer,
        /// The new state.
        object: Arc<Snapshot>,
    },
    /// The API server has removed the object.
    Removed {
        /// The client that removed it.
        by: Writer,
        /// Its last state.
        object: Arc<Snapshot>,
    },
    /// The API server was restored from a backup. Entries with its objects follow. No rule holds for
    /// the current process any more, which ends when an informer detects the restore.
    Restored,
    /// A wrapper sent a patch, and waits for the response.
    PatchBegan(HandlerId),
    /// A wrapper has received the response to its patch.
    PatchEnded(HandlerId),
    /// The response to a patch of a wrapper was an error. The patch may have been applied.
    PatchFailed(HandlerId),
    /// An informer publishes the differences of a list, at the time of this entry.
    Listed(InformerId),
    /// A call begins.
    Began(Began),
    /// The state that a call reads at its begin, of an object of another kind.
    Read {
        /// The call.
        call: CallId,
        /// The object. Without an entry, the call reads that it does not exist.
        object: Arc<Snapshot>,
    },
    /// A call received the response to a write. Without an entry, the result is not known to it.
    Answered {
        /// The call.
        call: CallId,
        /// The version in the response.
        version: Version,
        /// Whether the version contains no change of others: the object was created, or its version
        /// before was a precondition.
        proven: bool,
    },
    /// A call ended.
    Ended {
        /// The call.
        call: CallId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// From now on there are no faults, informers are up to date, and handlers succeed.
    Quiet,
    /// All pending work has been done.
    Settled,
}

/// An entry with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The virtual time since the run began.
    pub at: Duration,
    /// The entry.
    pub entry: Entry,
}

// === impl InformerEvent ===

impl InformerEvent {
    /// The object of the event.
    #[must_use]
    pub const fn object(&self) -> &Arc<Snapshot> {
        match self {
            Self::Added { object, .. }
            | Self::Updated(object)
            | Self::Deleted(object)
            | Self::Resynced(object) => object,
        }
    }
}
