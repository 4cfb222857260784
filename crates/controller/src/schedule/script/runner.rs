//! Runs scripts on a schedule, and checks its contract after each step.
//!
//! ```text
//! update a      an event of the object a; `update a#2` to another one of that name,
//!               and `update a create b` to several at once
//! take          a worker takes the next lane
//! done a        … and finishes it, all checked pending calls kept
//! drop a        … and finishes it, no checked pending call kept
//! fail a 0 5    … and handler 0 failed, retry in 5 s
//! again a 0 5   … and handler 0 requested a requeue in 5 s
//! break a       … and the turn is interrupted
//! half a 0 5    … and the turn is interrupted after handler 0 failed
//! wait 5        5 s pass
//! cancel 0      handler 0 is removed
//! close x       no lane of the namespace x is taken, or of any namespace without one
//! open x        … and they are again
//! purge x       the kind of the namespace x is removed
//! ```
//!
//! Each namespace is a kind of its own.
//!
//! A take returns `a1` for the first event of a, `a1?0` if the retry of handler 0 must be checked,
//! `a!0` for a call of handler 0 alone, and `-` if there is no work.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use windlass_informer::{ObjectKey, Uid};

use crate::{
    Action, HandlerId,
    retry::DeleteRetry,
    route::KindId,
    schedule::{
        Coalesced, LaneKey, Moment, Offer, Pending, Priority, Reason, Schedule, ScheduleItem,
        TakenLane,
    },
};

mod invariants;
mod turns;

/// A schedule, and the state that it must have.
pub(super) struct ScriptRunner {
    pub(super) schedule: Schedule<ScriptEvent, ScriptCall>,
    now: Moment,
    /// Whether events of one object coalesce.
    coalescing: bool,
    /// Whether a new object of the same name ends the retries of a delete.
    until_successor: bool,
    taken: HashMap<String, TakenLane<ScriptEvent, ScriptCall>>,
    /// The undispatched events, by object: their numbers and priorities.
    undispatched: HashMap<String, Vec<(u32, Priority)>>,
    offered: HashMap<String, u32>,
    /// The pending calls, by object.
    slots: HashMap<String, Vec<Slot>>,
    /// The number of calls that were replaced or cancelled and not dropped yet.
    discarded: usize,
    /// The kinds that are closed; `None` closes all.
    closed: HashSet<Option<KindId>>,
}

/// A pending call.
#[derive(Clone, Debug)]
struct Slot {
    handler: HandlerId,
    uid: Option<Uid>,
    reason: Reason,
    action: Action,
    due: Moment,
    overtaken: bool,
    /// Whether its timer has fired.
    fired: bool,
}

/// The numbers of events, by object. Coalesced events have more than one number.
#[derive(Debug)]
pub(super) struct ScriptEvent {
    name: String,
    uid: Option<Uid>,
    action: Action,
    numbers: Vec<u32>,
}

/// The object that a pending call is about.
#[derive(Clone, Debug)]
pub(super) struct ScriptCall(pub(super) Option<Uid>);

impl ScheduleItem for ScriptEvent {
    fn uid(&self) -> Option<&str> {
        self.uid.as_ref().map(Uid::as_str)
    }

    fn action(&self) -> Option<Action> {
        Some(self.action)
    }
}

impl ScheduleItem for ScriptCall {
    fn uid(&self) -> Option<&str> {
        self.0.as_ref().map(Uid::as_str)
    }
}

impl Default for ScriptRunner {
    fn default() -> Self {
        let mut schedule = Schedule::default();
        for handler in 0..4 {
            schedule.admit(HandlerId(handler));
        }
        Self {
            schedule,
            now: Moment::default(),
            coalescing: false,
            until_successor: false,
            taken: HashMap::new(),
            undispatched: HashMap::new(),
            offered: HashMap::new(),
            slots: HashMap::new(),
            discarded: 0,
            closed: HashSet::new(),
        }
    }
}

impl ScriptRunner {
    /// Creates a runner whose events of one object coalesce, or not.
    pub(super) fn coalescing(coalescing: bool) -> Self {
        Self {
            coalescing,
            ..Self::default()
        }
    }

    /// The retries of a delete end when a new object has its name.
    pub(super) fn until_successor(mut self) -> Self {
        self.until_successor = true;
        self.schedule.set_delete_retry(DeleteRetry::UntilSuccessor);
        self
    }

    /// Runs `script`. Impossible steps, such as the end of a turn that no worker has, are skipped.
    /// Returns the results of the takes.
    pub(super) fn run(&mut self, script: &str) -> String {
        let mut taken = Vec::new();
        for step in script.split(", ") {
            let words: Vec<_> = step.split_whitespace().collect();
            match *words {
                ["take"] => taken.push(self.take()),
                ["wait", seconds] => self.now = self.now + secs(seconds),
                ["cancel", handler] => self.cancel(handler),
                ["close" | "open", ref kind @ ..] => {
                    self.set_gate(kind.first().copied(), words[0] == "open");
                }
                ["purge", namespace] => self.purge(namespace),
                ["done" | "drop", name] => self.end(name, words[0] == "done", None),
                ["break", name] => self.give_back(name, None),
                ["half", name, handler, after] => self.give_back(name, Some((handler, after))),
                ["fail", name, handler, after] => {
                    self.end(name, true, Some((Reason::Failed, handler, after)));
                }
                ["again", name, handler, after] => {
                    self.end(name, true, Some((Reason::Requeued, handler, after)));
                }
                _ => self.offer(&words),
            }
            self.check_invariants();
        }
        taken.join(" ")
    }

    /// Runs until there is no work left.
    pub(super) fn run_out(&mut self) {
        for kind in std::mem::take(&mut self.closed) {
            self.schedule.set_gate(kind, true);
        }
        for _ in 0..1_000 {
            for name in self.taken.keys().cloned().collect::<Vec<_>>() {
                self.end(&name, true, None);
            }
            self.now = self.now + Duration::from_secs(1);
            self.take();
            self.check_invariants();
            if self.taken.is_empty() && self.schedule.lanes.phases().is_empty() {
                break;
            }
        }
        assert!(self.schedule.lanes.phases().is_empty(), "no work is left");
        assert_eq!(self.schedule.pending(), 0);
        assert_eq!(self.schedule.next_due(), None);
        assert!(
            self.undispatched.values().all(Vec::is_empty),
            "nothing is lost"
        );
    }

    fn offer(&mut self, words: &[&str]) {
        let offers: Vec<_> = words.chunks(2).map(|words| self.happen(words)).collect();
        let coalescing = self.coalescing;
        self.schedule.offer(offers, |older, mut newer| {
            if !coalescing {
                return Coalesced::Separate(newer);
            }
            if (older.action, newer.action) == (Action::Created, Action::Deleted) {
                return Coalesced::Cancelled(newer);
            }
            older.numbers.append(&mut newer.numbers);
            older.action = newer.action;
            Coalesced::Merged(newer)
        });
        for ScriptEvent { name, numbers, .. } in self.schedule.take_dropped() {
            let undispatched = self.undispatched.get_mut(&name).expect("it was offered");
            undispatched.retain(|(number, _)| !numbers.contains(number));
        }
    }

    fn happen(&mut self, words: &[&str]) -> (LaneKey, Offer<ScriptEvent>) {
        let [verb, name] = *words else {
            panic!("no such step: {words:?}");
        };
        let (name, uid) = name.split_once('#').unwrap_or((name, "1"));
        let (action, priority) = match verb {
            "create" => (Action::Created, Priority::Live),
            "update" => (Action::Updated, Priority::Live),
            "delete" => (Action::Deleted, Priority::Live),
            "resync" => (Action::Resynced, Priority::Resync),
            "first" => (Action::Created, Priority::FirstList),
            _ => panic!("no such verb: {verb}"),
        };
        let number = self.offered.entry(name.to_owned()).or_default();
        *number += 1;
        self.undispatched
            .entry(name.to_owned())
            .or_default()
            .push((*number, priority));
        let event = ScriptEvent {
            name: name.to_owned(),
            uid: Some(Uid::from(uid)),
            action,
            numbers: vec![*number],
        };
        (key(name), Offer::new(priority, event))
    }

    fn cancel(&mut self, handler: &str) {
        let handler = id(handler);
        let mut gone = 0;
        for slots in self.slots.values_mut() {
            let before = slots.len();
            slots.retain(|slot| slot.handler != handler);
            gone += before - slots.len();
        }
        assert_eq!(self.schedule.cancel(handler), gone);
        self.discarded += gone;
    }

    fn set_gate(&mut self, namespace: Option<&str>, open: bool) {
        let kind = namespace.map(kind);
        self.schedule.set_gate(kind, open);
        if open {
            self.closed.remove(&kind);
        } else {
            self.closed.insert(kind);
        }
    }

    fn purge(&mut self, namespace: &str) {
        let kind = kind(namespace);
        let mut gone = 0;
        for (_, undispatched) in self
            .undispatched
            .iter_mut()
            .filter(|(name, _)| key(name).kind == kind)
        {
            gone += std::mem::take(undispatched).len();
        }
        for (_, slots) in self
            .slots
            .iter_mut()
            .filter(|(name, _)| key(name).kind == kind)
        {
            self.discarded += std::mem::take(slots).len();
        }
        let purged = self.schedule.purge(kind);
        let purged = purged.iter().map(|offer| offer.event.numbers.len());
        assert_eq!(purged.sum::<usize>(), gone);
    }
}

// === impl Slot ===

impl Slot {
    /// Whether `pending` has this slot.
    fn is(&self, pending: &Pending<ScriptCall>) -> bool {
        (self.handler, &self.uid, self.reason) == (pending.handler, &pending.call.0, pending.reason)
            && (self.reason == Reason::Requeued || self.action == pending.action)
    }
}

pub(super) fn key(name: &str) -> LaneKey {
    let (namespace, object) = match name.split_once('/') {
        Some((namespace, name)) => (namespace, ObjectKey::new(name).within(namespace)),
        None => ("", ObjectKey::new(name)),
    };
    LaneKey {
        kind: kind(namespace),
        object,
    }
}

/// The kind of the objects in this namespace.
fn kind(namespace: &str) -> KindId {
    KindId(namespace.bytes().next().map_or(0, u32::from))
}

fn id(handler: &str) -> HandlerId {
    HandlerId(handler.parse().expect("a number"))
}

fn secs(seconds: &str) -> Duration {
    Duration::from_secs(seconds.parse().expect("a number of seconds"))
}
