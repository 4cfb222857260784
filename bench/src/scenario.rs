//! Scenarios: the compared tasks, contenders and numbers.

mod catalogue;
mod programs;
mod run;

pub(crate) use self::{
    catalogue::{Size, catalogue},
    programs::Programs,
    run::{Outcome, Runner},
};
use crate::{
    child::Task,
    contender::{Contender, Form, Keeps, Lists},
    objects::Kind,
};

/// One scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The name, such as `P1-pod-100k`.
    pub(crate) name: String,
    pub(crate) served: Served,
    pub(crate) task: Task,
    pub(crate) keeps: Keeps,
    /// The form of the controller of Windlass.
    pub(crate) form: Form,
    pub(crate) kind: Kind,
    pub(crate) count: usize,
    pub(crate) lists: Lists,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) numbers: Vec<Number>,
    pub(crate) repeats: usize,

    /// An earlier scenario whose samples are reused for contenders with the same task.
    pub(crate) like: Option<Like>,
}

/// A scenario in which some contenders have the same task.
#[derive(Clone, Debug)]
pub(crate) struct Like {
    pub(crate) name: String,
    pub(crate) contenders: Vec<Contender>,
}

/// The server of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// The load server, in the parent.
    Load,
    /// The embedded API server, in the parent, on a loopback port.
    Embedded,
    /// The embedded API server, in the child, without a socket.
    InProcess,
    /// The contender is the server.
    Contender,
    /// No server: the child creates the objects.
    Nobody,
}

/// One compared number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    /// The name in the output of the child.
    pub(crate) measure: &'static str,
    /// The suffix after the name of the scenario.
    pub(crate) suffix: &'static str,
    pub(crate) unit: Unit,
    /// Whether the binary that counts allocations measures it.
    pub(crate) counted: bool,
    pub(crate) better: Better,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microseconds,
    Bytes,
    Count,
    Times,
}

/// Which of two numbers is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

// === impl Number ===

impl Number {
    pub(crate) const CPU: Self = Self::timed("cpu_us", "cpu");
    pub(crate) const WALL: Self = Self::timed("wall_us", "wall");
    pub(crate) const P50: Self = Self::timed("p50_us", "p50");
    pub(crate) const P99: Self = Self::timed("p99_us", "p99");
    pub(crate) const QUIET_P99: Self = Self::timed("quiet_p99_us", "quiet-p99");
    pub(crate) const READY: Self = Self::timed("ready_us", "ready");
    pub(crate) const FIRST_READ: Self = Self::timed("first_us", "first-read");
    pub(crate) const SECOND_READ: Self = Self::timed("second_us", "second-read");
    pub(crate) const LATER_READ: Self = Self::timed("later_us", "later-read");
    pub(crate) const RSS: Self = Self {
        counted: false,
        ..Self::counted("rss_bytes", "rss", Unit::Bytes)
    };
    pub(crate) const RESIDENT: Self = Self {
        counted: false,
        ..Self::counted("resident_bytes", "resident", Unit::Bytes)
    };
    pub(crate) const SETTLED: Self = Self::counted("settled_bytes", "settled", Unit::Bytes);
    pub(crate) const PEAK: Self = Self::counted("peak_bytes", "peak", Unit::Bytes);
    pub(crate) const RELIST_PEAK: Self = Self::counted("relist_peak_bytes", "peak", Unit::Bytes);
    pub(crate) const ALLOCATIONS: Self = Self::counted("allocations", "allocations", Unit::Count);
    pub(crate) const PER_SECOND: Self = Self {
        counted: false,
        better: Better::More,
        ..Self::counted("per_second", "per-second", Unit::Count)
    };
    pub(crate) const DRAIN: Self = Self::timed("drain_us", "drain");
    /// A call that schedules a retry, and the call that cancels it.
    pub(crate) const REQUEUE: Self = Self::timed("requeue_us", "requeue");
    pub(crate) const SET_CANCEL: Self = Self::timed("set_cancel_us", "set-cancel");
    pub(crate) const WAITING: Self = Self::counted("settled_bytes", "waiting", Unit::Bytes);
    pub(crate) const CALLS: Self = Self {
        counted: false,
        ..Self::counted("calls", "calls", Unit::Count)
    };
    pub(crate) const DELIVERED: Self = Self {
        counted: false,
        better: Better::More,
        ..Self::counted("delivered", "delivered", Unit::Count)
    };

    /// The delay of the other objects, divided by that of the undisturbed run.
    pub(crate) const SLOWDOWN: Self = Self {
        counted: false,
        ..Self::counted("slowdown", "slowdown", Unit::Times)
    };
    pub(crate) const CREATES: Self = Self::rate("creates_per_second", "creates/s");
    pub(crate) const CREATES_AT_ONCE: Self =
        Self::rate("creates_at_once_per_second", "creates-32-at-once/s");
    pub(crate) const EVENTS: Self = Self::rate("events_per_second", "events/s");

    const fn rate(measure: &'static str, suffix: &'static str) -> Self {
        Self {
            counted: false,
            better: Better::More,
            ..Self::counted(measure, suffix, Unit::Count)
        }
    }

    const fn timed(measure: &'static str, suffix: &'static str) -> Self {
        Self {
            measure,
            suffix,
            unit: Unit::Microseconds,
            counted: false,
            better: Better::Less,
        }
    }

    const fn counted(measure: &'static str, suffix: &'static str, unit: Unit) -> Self {
        Self {
            measure,
            suffix,
            unit,
            counted: true,
            better: Better::Less,
        }
    }
}

impl Number {
    /// Whether the counting child measures this number of this contender. Contenders in Go measure
    /// time and memory in the same process.
    pub(crate) fn pass(&self, contender: Contender) -> bool {
        self.counted && !contender.in_go()
    }
}

// === impl Unit ===

impl Unit {
    pub(crate) fn show(self, number: f64) -> String {
        match self {
            Self::Microseconds if number >= 1e6 => format!("{:.2}s", number / 1e6),
            Self::Microseconds if number >= 1000.0 => format!("{:.2}ms", number / 1000.0),
            Self::Microseconds if number >= 100.0 => format!("{number:.0}us"),
            Self::Microseconds => format!("{number:.1}us"),
            Self::Bytes if number >= 1000.0 => format!("{:.1}KB", number / 1000.0),
            Self::Bytes => format!("{number:.0}B"),
            Self::Count if number >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
            Self::Count => format!("{number:.1}"),
            Self::Times => format!("{number:.2}"),
        }
    }
}
