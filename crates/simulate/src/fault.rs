//! The faults that a simulation can inject, and the steps at which each can happen.

use std::{fmt, str::FromStr};

/// A fault that a simulation can inject at a step of a run.
///
/// The text form is in kebab case, as in `crash-after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The process crashes before the request, the external write or the call has an effect, or
    /// before the event arrives. It restarts one second later.
    CrashBefore,
    /// The process crashes after the effect and before the response. It restarts one second later.
    CrashAfter,
    /// The process receives a request to stop, has 30 s to shut down, and restarts.
    Restart,

    /// The connection breaks before the request reaches the server.
    LostRequest,
    /// The server handles the request, and the connection breaks before the response.
    LostReply,
    /// The request never reaches the server. The request of the client times out after 295 s, the
    /// read timeout of a kube client.
    Stall,
    /// The response is 429 in plain text, with a `Retry-After` of one second.
    TooManyRequests,
    /// The response is 500.
    InternalError,
    /// The response is 503.
    Unavailable,
    /// The server handles the request, but the response is 504.
    LateTimeout,
    /// The response is 409. Only for requests that change an object.
    Conflict,

    /// The watch ends before an event: the server closes it, or the connection breaks.
    CutBefore,
    /// The watch ends after an event: the server closes it, or the connection breaks.
    CutAfter,
    /// All watches of the process end before an event and cannot be opened for 20 s. Then the
    /// server has compacted the history in between.
    Gap,
    /// The watch receives error 410 instead of an event, and ends.
    Expired,
    /// The watch receives error 500 instead of an event, and ends.
    WatchError,
    /// An event arrives twice.
    Duplicate,
    /// An event and all later events of this watch arrive 30 s late.
    Delay,
    /// The connection of the watch breaks in the middle of an event.
    Truncate,
    /// The watch stays open and sends no more events.
    Silence,

    /// For 60 s the process reads from a server that lags: its watches send no new events, and
    /// reads that allow an old state receive an old state.
    Stale,
    /// For 40 s, no data passes between the process and the server in either direction.
    Partition,

    /// Another client removes all finalizers of the object.
    StripFinalizers,
    /// Another client adds a finalizer to the object, and removes it 20 s later.
    ForeignFinalizer,
    /// Another client removes the labels of the object, and restores them 10 s later.
    Relabel,
    /// Another client deletes the object, waits until it does not exist any more, and recreates it.
    Recreate,

    /// A call of a handler fails.
    HandlerFails,
    /// A call of a handler panics.
    HandlerPanics,
    /// A call of a handler takes 30 s longer.
    HandlerSlow,
    /// A call of a handler takes ten minutes longer.
    HandlerHangs,
    /// A write to an external resource fails.
    ExternalFails,

    /// Another client takes the lease.
    LeaseStolen,
    /// Another client deletes the lease.
    LeaseDeleted,

    /// The machine of all processes is frozen for 25 s, longer than a lease: no process runs, and
    /// time passes. Afterwards all timers are overdue at the same time.
    Freeze,
    /// The wall clock jumps forward by one hour or by ten years.
    ClockForward,
    /// The wall clock jumps back by one hour or by ten years.
    ClockBack,
}

/// The kind of a step, which decides which faults can be injected at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// A request that changes nothing.
    Read,
    /// A request that creates an object.
    Create,
    /// A request that changes or deletes an object.
    Change,
    /// A request that changes a lease.
    Lease,
    /// A request for a watch.
    Watch,
    /// An event of a watch.
    Event,
    /// A call of a handler.
    Call,
    /// A write to an external resource.
    External,
}

/// Who created the object of a step, which decides which faults can be injected at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A user created the object.
    User,
    /// A user created the object, and its deletion deletes other objects: a namespace, or a custom
    /// resource definition.
    UserContainer,
    /// The operator created the object, or the step has no object.
    Other,
}

/// The text is not the name of a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown fault {name:?}; the faults are {}", Fault::names())]
pub struct UnknownFault {
    name: String,
}

// === impl Fault ===

impl Fault {
    /// Every fault.
    pub const ALL: &[Self] = &[
        Self::CrashBefore,
        Self::CrashAfter,
        Self::Restart,
        Self::LostRequest,
        Self::LostReply,
        Self::Stall,
        Self::TooManyRequests,
        Self::InternalError,
        Self::Unavailable,
        Self::LateTimeout,
        Self::Conflict,
        Self::CutBefore,
        Self::CutAfter,
        Self::Gap,
        Self::Expired,
        Self::WatchError,
        Self::Duplicate,
        Self::Delay,
        Self::Truncate,
        Self::Silence,
        Self::Stale,
        Self::Partition,
        Self::StripFinalizers,
        Self::ForeignFinalizer,
        Self::Relabel,
        Self::Recreate,
        Self::HandlerFails,
        Self::HandlerPanics,
        Self::HandlerSlow,
        Self::HandlerHangs,
        Self::ExternalFails,
        Self::LeaseStolen,
        Self::LeaseDeleted,
        Self::Freeze,
        Self::ClockForward,
        Self::ClockBack,
    ];

    /// The faults that crash the process, so that the restarted process has an empty memory.
    pub const CRASHES: &[Self] = &[Self::CrashBefore, Self::CrashAfter];

    /// The name, in kebab case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash-before",
            Self::CrashAfter => "crash-after",
            Self::Restart => "restart",
            Self::LostRequest => "lost-request",
            Self::LostReply => "lost-reply",
            Self::Stall => "stall",
            Self::TooManyRequests => "too-many-requests",
            Self::InternalError => "internal-error",
            Self::Unavailable => "unavailable",
            Self::LateTimeout => "late-timeout",
            Self::Conflict => "conflict",
            Self::CutBefore => "cut-before",
            Self::CutAfter => "cut-after",
            Self::Gap => "gap",
            Self::Expired => "expired",
            Self::WatchError => "watch-error",
            Self::Duplicate => "duplicate",
            Self::Delay => "delay",
            Self::Truncate => "truncate",
            Self::Silence => "silence",
            Self::Stale => "stale",
            Self::Partition => "partition",
            Self::StripFinalizers => "strip-finalizers",
            Self::ForeignFinalizer => "foreign-finalizer",
            Self::Relabel => "relabel",
            Self::Recreate => "recreate",
            Self::HandlerFails => "handler-fails",
            Self::HandlerPanics => "handler-panics",
            Self::HandlerSlow => "handler-slow",
            Self::HandlerHangs => "handler-hangs",
            Self::ExternalFails => "external-fails",
            Self::LeaseStolen => "lease-stolen",
            Self::LeaseDeleted => "lease-deleted",
            Self::Freeze => "freeze",
            Self::ClockForward => "clock-forward",
            Self::ClockBack => "clock-back",
        }
    }

    fn names() -> String {
        let names: Vec<_> = Self::ALL.iter().map(|it| it.name()).collect();
        names.join(", ")
    }

    /// Whether the fault can be injected at a step of this kind.
    const fn fits(self, step: StepKind) -> bool {
        use StepKind as S;
        match self {
            Self::CrashBefore => true,
            Self::CrashAfter => matches!(
                step,
                S::Create | S::Change | S::Lease | S::Call | S::External
            ),
            Self::Restart | Self::Stale => matches!(step, S::Create | S::Change | S::Event),
            Self::LostRequest
            | Self::Stall
            | Self::TooManyRequests
            | Self::InternalError
            | Self::Unavailable => {
                matches!(step, S::Read | S::Create | S::Change | S::Lease | S::Watch)
            }
            Self::LostReply | Self::LateTimeout | Self::ClockForward | Self::ClockBack => {
                matches!(step, S::Create | S::Change | S::Lease)
            }
            Self::Freeze => matches!(
                step,
                S::Create | S::Change | S::Lease | S::Event | S::Call | S::External
            ),
            Self::Conflict => matches!(step, S::Change | S::Lease),
            Self::CutBefore
            | Self::CutAfter
            | Self::Gap
            | Self::Expired
            | Self::WatchError
            | Self::Duplicate
            | Self::Delay
            | Self::Truncate
            | Self::Silence => matches!(step, S::Event),
            Self::Partition => {
                matches!(step, S::Create | S::Change | S::Lease | S::Watch | S::Event)
            }
            Self::StripFinalizers | Self::ForeignFinalizer | Self::Relabel | Self::Recreate => {
                matches!(step, S::Change | S::Event)
            }
            Self::HandlerFails | Self::HandlerPanics | Self::HandlerSlow | Self::HandlerHangs => {
                matches!(step, S::Call)
            }
            Self::ExternalFails => matches!(step, S::External),
            Self::LeaseStolen | Self::LeaseDeleted => matches!(step, S::Lease),
        }
    }

    /// Whether the fault can be injected at a step of this kind with this subject.
    pub(crate) fn fits_step(self, step: StepKind, subject: Subject) -> bool {
        let fits_subject = match subject {
            Subject::User => true,
            // The deleted contents would not be recreated.
            Subject::UserContainer => self != Self::Recreate,
            Subject::Other => !self.is_foreign(),
        };
        self.fits(step) && fits_subject
    }

    /// Whether the fault is a write of another client to the object of the step.
    pub(crate) const fn is_foreign(self) -> bool {
        matches!(
            self,
            Self::StripFinalizers | Self::ForeignFinalizer | Self::Relabel | Self::Recreate
        )
    }

    /// Whether the fault takes effect later than at its step, or possibly not at all.
    pub(crate) const fn is_deferred(self) -> bool {
        self.is_foreign()
            || matches!(
                self,
                Self::Gap | Self::Stale | Self::Partition | Self::LeaseStolen | Self::LeaseDeleted
            )
    }

    /// Whether the fault can hide a delete from a process: the process or its watches do not run,
    /// or another process becomes the leader before the clean-up.
    pub(crate) const fn hides_deletes(self) -> bool {
        matches!(
            self,
            Self::CrashBefore
                | Self::CrashAfter
                | Self::Restart
                | Self::Gap
                | Self::Partition
                | Self::Freeze
                | Self::LeaseStolen
                | Self::LeaseDeleted
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Self, UnknownFault> {
        let found = Self::ALL.iter().find(|it| it.name() == name);
        found.copied().ok_or_else(|| UnknownFault {
            name: name.chars().take(40).collect(),
        })
    }
}
