//! The log of a run: what happened, in order, with the time.

use std::{fmt, sync::Arc, time::Duration};

use crate::Snapshot;

/// A handler of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub u32);

/// An informer of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InformerId(pub u32);

/// A call of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What a handler was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The object is new to the handler.
    Created,
    /// The object changed.
    Updated,
    /// The object is gone, or, for a wrapped handler, is to be cleaned up after.
    Deleted,
    /// The object did not change.
    Resynced,
}

/// Which of the two kinds of handlers one is. Watchers come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// One method for each action.
    Watcher,
    /// One method, with attempt and state.
    Reconciler,
}

/// What is known of a handler when it is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Its number in the log.
    pub id: HandlerId,
    /// The kind that it handles.
    pub kind: Arc<str>,
    /// Watcher or reconciler.
    pub role: Role,
    /// The finalizers of the wrapper around it: the final one first, then the others. Empty if
    /// there is no wrapper.
    pub finalizers: Vec<String>,
    /// Whether a predicate hides events from it. The rules do not know which, so they check only
    /// what may never happen.
    pub filtered: bool,
}

/// What an informer showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// An object that it did not have.
    Added {
        /// The object.
        object: Arc<Snapshot>,
        /// How it came to be shown.
        from: Seen,
    },
    /// A newer state of an object that it had.
    Updated(Arc<Snapshot>),
    /// An object that it has no more, in its last state.
    Deleted(Arc<Snapshot>),
    /// An object that it has, in the state that it had.
    Resynced(Arc<Snapshot>),
}

/// How an informer came to show an object that it did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// By its first list: an earlier process may have worked on the object.
    FirstList,
    /// By a later list.
    List,
    /// By its watch: the object is new.
    Watch,
}

/// Who wrote to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The wrapper around a handler.
    Wrapper(HandlerId),
    /// Another client.
    Other,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It succeeded, and is to be repeated.
    Requeue {
        /// After this time.
        after: Duration,
        /// With this state.
        state: Option<u64>,
    },
    /// It failed.
    Failed {
        /// When the handler itself said when to try again.
        retry_after: Option<Duration>,
        /// The state that it left.
        state: Option<u64>,
    },
    /// It panicked.
    Panicked,
    /// It was dropped: it took too long, or the controller stopped.
    Dropped,
}

/// A call as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    /// The number of the call.
    pub call: CallId,
    /// Which handler.
    pub handler: HandlerId,
    /// For what.
    pub action: Action,
    /// The state before, where the handler was given one.
    pub old: Option<Arc<Snapshot>>,
    /// The object.
    pub object: Arc<Snapshot>,
    /// What only reconcilers are given.
    pub request: Option<Attempt>,
}

/// What a reconciler is given beside the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// How many calls failed before.
    pub attempt: u32,
    /// The state of an earlier call.
    pub state: Option<u64>,
    /// Whether the policy allows no other attempt.
    pub last: bool,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A controller runs. What an earlier one remembered is lost.
    Started,
    /// The controller ended, and with it all its handlers and informers.
    Stopped,
    /// A handler was added.
    HandlerAdded(Handler),
    /// A handler was removed.
    HandlerRemoved(HandlerId),
    /// An informer was added to a kind.
    InformerAdded {
        /// Which.
        informer: InformerId,
        /// The kind.
        kind: Arc<str>,
    },
    /// An informer was removed.
    InformerRemoved(InformerId),
    /// An informer shows something from now on.
    Shown {
        /// Which.
        informer: InformerId,
        /// What.
        shown: Shown,
    },
    /// An informer has shown its first list.
    Synced(InformerId),
    /// An informer noticed that the server was restored: what it shows from now on is of the
    /// restored server.
    WentBack(InformerId),
    /// The API server has a new state of an object.
    Committed {
        /// Who wrote it.
        by: Writer,
        /// The state.
        object: Arc<Snapshot>,
    },
    /// The API server has the object no more.
    Erased {
        /// Who wrote that.
        by: Writer,
        /// Its last state.
        object: Arc<Snapshot>,
    },
    /// The API server was restored from a backup: what it has now follows, in a new epoch.
    Restored,
    /// A wrapper waits for the answer to a patch.
    PatchBegan(HandlerId),
    /// It waits no more.
    PatchEnded(HandlerId),
    /// A wrapper's patch was answered with an error, made or not.
    PatchFailed(HandlerId),
    /// A call begins.
    Began(Began),
    /// A call ended.
    Ended {
        /// Which.
        call: CallId,
        /// How.
        outcome: Outcome,
    },
    /// From here on there are no faults, informers are up to date, and handlers succeed.
    Quiet,
    /// Everything that was to happen by itself has happened.
    Settled,
}

/// An entry with its time since the run began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, in virtual time.
    pub at: Duration,
    /// What.
    pub entry: Entry,
}

// === impl Action ===

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resynced => "resynced",
        })
    }
}

// === impl HandlerId ===

impl fmt::Display for HandlerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

// === impl InformerId ===

impl fmt::Display for InformerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0)
    }
}

// === impl CallId ===

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

// === impl Shown ===

impl Shown {
    /// The object that it is about.
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

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added {
                object,
                from: Seen::Watch,
            } => write!(f, "added {object}"),
            Self::Added { object, .. } => write!(f, "listed {object}"),
            Self::Updated(object) => write!(f, "updated {object}"),
            Self::Deleted(object) => write!(f, "deleted {object}"),
            Self::Resynced(object) => write!(f, "resynced {object}"),
        }
    }
}

// === impl Writer ===

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrapper(handler) => write!(f, "the wrapper of {handler}"),
            Self::Other => f.write_str("another client"),
        }
    }
}

// === impl Outcome ===

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |state: &Option<u64>| match state {
            Some(state) => format!(" with state {state}"),
            None => String::new(),
        };
        match self {
            Self::Done => f.write_str("done"),
            Self::Requeue { after, state: s } => write!(f, "requeue after {after:?}{}", state(s)),
            Self::Failed {
                retry_after: Some(after),
                state: s,
            } => write!(f, "failed, retry after {after:?}{}", state(s)),
            Self::Failed { state: s, .. } => write!(f, "failed{}", state(s)),
            Self::Panicked => f.write_str("panicked"),
            Self::Dropped => f.write_str("dropped"),
        }
    }
}

// === impl Record ===

impl fmt::Display for Began {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.call, self.handler, self.action)?;
        if let Some(old) = &self.old {
            write!(f, "{} -> ", old.version)?;
        }
        self.object.fmt(f)?;
        if let Some(request) = &self.request {
            write!(f, " attempt {}", request.attempt)?;
            if let Some(state) = request.state {
                write!(f, " state {state}")?;
            }
            if request.last {
                f.write_str(" last")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("controller started"),
            Self::Stopped => f.write_str("controller stopped"),
            Self::HandlerAdded(it) if it.filtered => {
                write!(f, "{} added: filtered {:?} of {}", it.id, it.role, it.kind)
            }
            Self::HandlerAdded(it) if it.finalizers.is_empty() => {
                write!(f, "{} added: {:?} of {}", it.id, it.role, it.kind)
            }
            Self::HandlerAdded(it) => {
                write!(f, "{} added: wrapped {:?} of {}", it.id, it.role, it.kind)
            }
            Self::HandlerRemoved(handler) => write!(f, "{handler} removed"),
            Self::InformerAdded { informer, kind } => write!(f, "{informer} added to {kind}"),
            Self::InformerRemoved(informer) => write!(f, "{informer} removed"),
            Self::Shown { informer, shown } => write!(f, "{informer} shows {shown}"),
            Self::Synced(informer) => write!(f, "{informer} synced"),
            Self::WentBack(informer) => write!(f, "{informer} notices the restored server"),
            Self::Committed { by, object } => write!(f, "server: {object} by {by}"),
            Self::Erased { by, object } => write!(f, "server: {} erased by {by}", object.uid),
            Self::Restored => f.write_str("server restored from a backup"),
            Self::PatchBegan(handler) => write!(f, "the wrapper of {handler} waits for an answer"),
            Self::PatchEnded(handler) => write!(f, "the wrapper of {handler} has an answer"),
            Self::PatchFailed(handler) => write!(f, "a patch of the wrapper of {handler} failed"),
            Self::Began(began) => write!(f, "begin {began}"),
            Self::Ended { call, outcome } => write!(f, "end   {call} {outcome}"),
            Self::Quiet => f.write_str("quiet: no faults from here on"),
            Self::Settled => f.write_str("settled"),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3}s {}", self.at.as_secs_f64(), self.entry)
    }
}
