//! The checker: reads the log of a run and returns the violated rules.

use std::sync::Arc;

use crate::{
    Entry, Record, Settings, Violation,
    facts::{Facts, Uid},
    rules::{self, BrokenRule, Check, CheckedRule},
};

/// Reads the log of a run entry by entry, and returns the violated rules.
///
/// # Example
///
/// A handler is called for an object that no informer had:
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use windlass_model::{
///     Action, Began, CallId, Entry, Handler, HandlerId, Record, Role, Settings, Snapshot,
///     Version, check,
/// };
///
/// let handler = Handler {
///     id: HandlerId(0),
///     kind: Arc::from("websites"),
///     role: Role::Watcher,
///     finalizers: Vec::new(),
///     early: false,
///     filtered: false,
/// };
/// let object = Arc::new(Snapshot {
///     key: Arc::from("shop/web"),
///     uid: Arc::from("u1"),
///     version: Version(1),
///     generation: Some(1),
///     terminating: false,
///     finalizers: Vec::new(),
///     content: Arc::from("{}"),
/// });
/// let call = Began {
///     call: CallId(0),
///     handler: HandlerId(0),
///     action: Action::Created,
///     old: None,
///     object,
///     request: None,
/// };
/// let log = [Entry::HandlerAdded(handler), Entry::Started, Entry::Began(call)];
/// let log = log.map(|entry| Record { at: Duration::ZERO, entry });
/// let violation = check(Settings::default(), log).unwrap_err();
/// assert_eq!(violation.rule.name, "an_informer_has_an_object_before_it_is_handled");
/// ```
#[derive(Debug)]
pub struct Checker {
    facts: Facts,
    log: Vec<Record>,
}

// === impl Checker ===

impl Checker {
    /// Creates a checker for a new run.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            facts: Facts::new(settings),
            log: Vec::new(),
        }
    }

    /// Reads one entry. Returns one violation for each rule that it breaks.
    pub fn observe(&mut self, record: Record) -> Vec<Violation> {
        let of_settings = rules::of(&self.facts.settings);
        let rules = || of_settings.iter().flat_map(|it| it.iter());
        let mut violations = Vec::new();
        if record.at > self.facts.now && self.facts.open.is_empty() && self.facts.patches == 0 {
            let broken = rules().filter_map(|it| Some((it, self.idle(it).err()?)));
            violations.extend(broken.map(|(checked, broken)| self.violation(checked, broken)));
        }
        self.facts.at = self.log.len();
        self.facts.now = record.at;
        self.log.push(record);
        let record = &self.log[self.facts.at];
        let broken = rules().filter_map(|it| Some((it, self.verdict(it, &record.entry).err()?)));
        violations.extend(broken.map(|(checked, broken)| self.violation(checked, broken)));
        self.facts.apply(record);
        violations
    }

    fn verdict(&self, checked: &CheckedRule, entry: &Entry) -> Result<(), BrokenRule> {
        let facts = &self.facts;
        if facts.is_restored {
            return Ok(());
        }
        match (&checked.check, entry) {
            (Check::Call(check), Entry::Began(began)) => check(facts, began),
            (Check::Write(check), Entry::Committed { by, object }) => {
                check(facts, *by, Some(object), &object.uid)
            }
            (Check::Write(check), Entry::Removed { by, object }) => {
                check(facts, *by, None, &object.uid)
            }
            (Check::Settled(check), Entry::Settled) => check(facts),
            _ => Ok(()),
        }
    }

    fn idle(&self, checked: &CheckedRule) -> Result<(), BrokenRule> {
        match &checked.check {
            Check::Idle(check) if !self.facts.is_restored => check(&self.facts),
            _ => Ok(()),
        }
    }

    fn violation(&self, checked: &CheckedRule, broken: BrokenRule) -> Violation {
        let concerned = self.log.iter().enumerate();
        let concerned = concerned.filter(|(_, it)| self.concerns(&it.entry, &broken.uid));
        Violation {
            rule: checked.rule,
            reason: broken.reason,
            at: self.facts.at,
            entries: concerned.map(|(at, it)| (at, it.clone())).collect(),
        }
    }

    /// Whether an entry concerns the object, another object with its name, or no object.
    fn concerns(&self, entry: &Entry, uid: &Uid) -> bool {
        let key = |uid: &Uid| {
            let observed = self.facts.observed.get(uid).map(|it| Arc::clone(&it.key));
            observed.or_else(|| {
                let changes = &self.facts.server.get(uid)?.changes;
                Some(Arc::clone(&changes.first()?.after.as_ref()?.key))
            })
        };
        let own = key(uid);
        let is_own = |other: &crate::Snapshot| {
            other.uid == *uid || own.as_ref().is_some_and(|own| *own == other.key)
        };
        match entry {
            Entry::InformerEvent { shown, .. } => is_own(shown.object()),
            Entry::Committed { object, .. } | Entry::Removed { object, .. } => is_own(object),
            Entry::Began(began) => is_own(&began.object),
            Entry::Ended { call, .. } => self.log.iter().any(|it| match &it.entry {
                Entry::Began(began) => began.call == *call && is_own(&began.object),
                _ => false,
            }),
            _ => true,
        }
    }
}

/// Reads a whole log.
///
/// # Errors
///
/// [`Violation`] of the first broken rule.
pub fn check(
    settings: Settings,
    log: impl IntoIterator<Item = Record>,
) -> Result<(), Box<Violation>> {
    let mut checker = Checker::new(settings);
    for record in log {
        if let Some(first) = checker.observe(record).into_iter().next() {
            return Err(Box::new(first));
        }
    }
    Ok(())
}

/// Reads a whole log, and returns the first violation of each broken rule.
pub fn check_all(settings: Settings, log: impl IntoIterator<Item = Record>) -> Vec<Violation> {
    let mut checker = Checker::new(settings);
    let mut all: Vec<Violation> = Vec::new();
    for record in log {
        for violation in checker.observe(record) {
            if all.iter().all(|it| it.rule != violation.rule) {
                all.push(violation);
            }
        }
    }
    all
}
