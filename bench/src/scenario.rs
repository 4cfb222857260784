//! Scenarios: what is compared, and how often.

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
    contender::{Contender, Keeps, Lists},
    objects::Kind,
};

/// One comparison.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// `P1-pod-100k`.
    pub(crate) name: String,
    pub(crate) served: Served,
    pub(crate) task: Task,
    pub(crate) keeps: Keeps,
    pub(crate) kind: Kind,
    pub(crate) count: usize,
    pub(crate) lists: Lists,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) numbers: Vec<Number>,
    pub(crate) repeats: usize,

    /// The scenario whose samples are taken for those who do the same there, if it was run.
    pub(crate) like: Option<Like>,
}

/// A scenario in which some contenders do the same.
#[derive(Clone, Debug)]
pub(crate) struct Like {
    pub(crate) name: String,
    pub(crate) contenders: Vec<Contender>,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// The load server, in the parent.
    Load,
    /// The embedded API server, in the parent, on a loopback port.
    Embedded,
    /// The embedded API server, in the child, without a socket.
    InProcess,
    /// The contender, which is a server.
    Contender,
    /// No server: the objects are made in the child.
    Nobody,
}

/// One number that is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    /// What the child calls it.
    pub(crate) measure: &'static str,
    /// What follows the scenario's name.
    pub(crate) suffix: &'static str,
    pub(crate) unit: Unit,
    /// Whether it is taken by the binary that counts allocations.
    pub(crate) counted: bool,
    pub(crate) better: Better,
}

/// What a number is of.
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

    /// How many times later the others are than in the quiet run.
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
    /// Whether the number of this contender comes from the children that count allocations.
    /// Those in Go know their memory all the time, and are asked once.
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
