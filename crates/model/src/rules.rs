//! The rules: one function for each condition.

use std::sync::Arc;

use crate::{
    Began, Rule, Settings, Snapshot, Writer,
    facts::{Facts, Uid},
};

// Safety rules.
mod delays;
mod level;
mod lifecycle;
mod order;
mod retries;
mod versions;
mod wrappers;

// Rules about what must have happened when all work is done.
mod obligations;

/// A rule with its check.
pub(crate) struct CheckedRule {
    pub(crate) rule: Rule,
    pub(crate) check: Check,
}

/// The check of a rule, by the entries at which it runs. It runs before the entry is applied.
pub(crate) enum Check {
    /// At each call that begins.
    Call(fn(&Facts, &Began) -> Verdict),
    /// At each write to the server. The state after the write is `None` if it removes the object.
    Write(fn(&Facts, Writer, Option<&Arc<Snapshot>>, &Uid) -> Verdict),
    /// When time passes and no call is open: all possible work must have been done.
    Idle(fn(&Facts) -> Verdict),
    /// At [`Entry::Settled`](crate::Entry::Settled).
    Settled(fn(&Facts) -> Verdict),
}

/// The result of a check.
pub(crate) type Verdict = Result<(), BrokenRule>;

/// The object and the reason of a violation.
#[derive(Debug)]
pub(crate) struct BrokenRule {
    pub(crate) uid: Uid,
    pub(crate) reason: String,
}

/// The rules of event handlers, in the order in which they are checked.
const EVENT_RULES: &[&[CheckedRule]] = &[
    order::ALL_CONTROLLERS,
    order::RULES,
    lifecycle::RULES,
    versions::RULES,
    wrappers::RULES,
    retries::RULES,
    delays::RULES,
    obligations::RULES,
];

/// The rules of level-triggered controllers, in the order in which they are checked.
const LEVEL_RULES: &[&[CheckedRule]] = &[order::ALL_CONTROLLERS, level::RULES];

/// The rules that hold for a controller, in the order in which they are checked.
pub(crate) const fn of(settings: &Settings) -> &'static [&'static [CheckedRule]] {
    if settings.level.is_some() {
        LEVEL_RULES
    } else {
        EVENT_RULES
    }
}

/// Every rule, in the order in which they are checked.
pub fn all() -> impl Iterator<Item = Rule> {
    EVENT_RULES
        .iter()
        .copied()
        .chain([level::RULES])
        .flatten()
        .map(|it| it.rule)
}

// === impl BrokenRule ===

impl BrokenRule {
    pub(crate) fn new(uid: &Uid, reason: impl Into<String>) -> Self {
        Self {
            uid: Arc::clone(uid),
            reason: reason.into(),
        }
    }
}

/// Returns a [`BrokenRule`] unless `holds`.
fn ensure(holds: bool, uid: &Uid, reason: impl FnOnce() -> String) -> Verdict {
    if holds {
        return Ok(());
    }
    Err(BrokenRule::new(uid, reason()))
}

const fn call(
    name: &'static str,
    source: &'static str,
    check: fn(&Facts, &Began) -> Verdict,
) -> CheckedRule {
    CheckedRule {
        rule: Rule { name, source },
        check: Check::Call(check),
    }
}

const fn idle(
    name: &'static str,
    source: &'static str,
    check: fn(&Facts) -> Verdict,
) -> CheckedRule {
    CheckedRule {
        rule: Rule { name, source },
        check: Check::Idle(check),
    }
}

const fn settled(
    name: &'static str,
    source: &'static str,
    check: fn(&Facts) -> Verdict,
) -> CheckedRule {
    CheckedRule {
        rule: Rule { name, source },
        check: Check::Settled(check),
    }
}

const fn write(
    name: &'static str,
    source: &'static str,
    check: fn(&Facts, Writer, Option<&Arc<Snapshot>>, &Uid) -> Verdict,
) -> CheckedRule {
    CheckedRule {
        rule: Rule { name, source },
        check: Check::Write(check),
    }
}
