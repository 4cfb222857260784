//! The text of each entry of a log.

use std::fmt;

use super::{
    Action, AddedBy, Began, CallId, Entry, HandlerId, InformerEvent, InformerId, Outcome, Record,
    Writer,
};

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

impl fmt::Display for InformerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added {
                object,
                from: AddedBy::Watch,
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
            Self::Call(call) => write!(f, "{call}"),
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
            Self::InformerEvent { informer, shown } => write!(f, "{informer} shows {shown}"),
            Self::Synced(informer) => write!(f, "{informer} synced"),
            Self::Committed { by, object } => write!(f, "server: {object} by {by}"),
            Self::Removed { by, object } => write!(f, "server: {} removed by {by}", object.uid),
            Self::Restored => f.write_str("server restored from a backup"),
            Self::PatchBegan(handler) => write!(f, "the wrapper of {handler} sent a patch"),
            Self::PatchEnded(handler) => write!(f, "the wrapper of {handler} received a response"),
            Self::PatchFailed(handler) => write!(f, "a patch of the wrapper of {handler} failed"),
            Self::Listed(informer) => write!(f, "{informer} lists"),
            Self::Began(began) => write!(f, "begin {began}"),
            Self::Read { call, object } => write!(f, "      {call} reads {object}"),
            Self::Answered {
                call,
                version,
                proven,
            } => {
                let how = if *proven { "proven" } else { "not proven" };
                write!(f, "      {call} wrote {version}, {how}")
            }
            Self::Ended { call, outcome } => write!(f, "end   {call} {outcome}"),
            Self::Quiet => f.write_str("no faults from now on"),
            Self::Settled => f.write_str("settled"),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3}s {}", self.at.as_secs_f64(), self.entry)
    }
}
