//! The rules, one function for each thing that must hold.

use std::sync::Arc;

use crate::{
    Began, Rule, Snapshot, Writer,
    facts::{Facts, Uid},
};

// What may never happen.
mod lives;
mod order;
mod prompt;
mod retries;
mod versions;
mod wrappers;

// What must have happened in the end.
mod obligations;

/// A rule, and how it is checked.
pub(crate) struct Checked {
    pub(crate) rule: Rule,
    pub(crate) check: Check,
}

/// When a rule is checked: before the entry is noted.
pub(crate) enum Check {
    /// At each call that begins.
    Call(fn(&Facts, &Began) -> Verdict),
    /// At each write to the server; none for the state after it if it erases the object.
    Write(fn(&Facts, Writer, Option<&Arc<Snapshot>>, &Uid) -> Verdict),
    /// When time passes and no call is open: everything that can be done has been done.
    Idle(fn(&Facts) -> Verdict),
    /// When everything has settled.
    Settled(fn(&Facts) -> Verdict),
}

/// Whether a rule holds.
pub(crate) type Verdict = Result<(), Broken>;

/// How a rule is broken.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) uid: Uid,
    pub(crate) reason: String,
}

/// Every rule, in the order in which they are checked.
pub(crate) const RULES: &[&[Checked]] = &[
    order::RULES,
    lives::RULES,
    versions::RULES,
    wrappers::RULES,
    retries::RULES,
    prompt::RULES,
    obligations::RULES,
];

/// Every rule, in the order in which they are checked.
pub fn all() -> impl Iterator<Item = Rule> {
    RULES
        .iter()
        .flat_map(|rules| rules.iter())
        .map(|it| it.rule)
}

// === impl Broken ===

impl Broken {
    pub(crate) fn new(uid: &Uid, reason: impl Into<String>) -> Self {
        Self {
            uid: Arc::clone(uid),
            reason: reason.into(),
        }
    }
}

/// Broken unless `holds`.
fn must(holds: bool, uid: &Uid, reason: impl FnOnce() -> String) -> Verdict {
    if holds {
        return Ok(());
    }
    Err(Broken::new(uid, reason()))
}

const fn call(
    name: &'static str,
    source: &'static str,
    check: fn(&Facts, &Began) -> Verdict,
) -> Checked {
    Checked {
        rule: Rule { name, source },
        check: Check::Call(check),
    }
}

const fn idle(name: &'static str, source: &'static str, check: fn(&Facts) -> Verdict) -> Checked {
    Checked {
        rule: Rule { name, source },
        check: Check::Idle(check),
    }
}

const fn settled(
    name: &'static str,
    source: &'static str,
    check: fn(&Facts) -> Verdict,
) -> Checked {
    Checked {
        rule: Rule { name, source },
        check: Check::Settled(check),
    }
}

const fn write(
    name: &'static str,
    source: &'static str,
    check: fn(&Facts, Writer, Option<&Arc<Snapshot>>, &Uid) -> Verdict,
) -> Checked {
    Checked {
        rule: Rule { name, source },
        check: Check::Write(check),
    }
}
