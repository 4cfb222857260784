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
//! ```
//!
//! A take gives `a1` for the first thing that happened to a, `a1?0` if the retry of handler 0
//! is to be asked about, `a!0` for a call of handler 0 alone, and `-` for nothing.

use std::{collections::HashMap, time::Duration};

use windlass_informer::{ObjectKey, Uid};

use crate::{
    Action, HandlerId,
    route::KindId,
    schedule::{
        Fold, LaneKey, Moment, Offer, Pending, Priority, Reason, Schedule, ScheduleItem, TakenLane,
        Work,
    },
};

/// A schedule, and what must be true of it.
pub(super) struct ScriptRunner {
    pub(super) schedule: Schedule<ScriptEvent, ScriptCall>,
    now: Moment,
    /// Whether events of one object fold.
    folding: bool,
    taken: HashMap<String, TakenLane<ScriptEvent, ScriptCall>>,
    /// The undispatched events, by object.
    untold: HashMap<String, Vec<u32>>,
    offered: HashMap<String, u32>,
    /// Which calls are pending, by object: handler, uid, reason, action.
    slots: HashMap<String, Vec<Slot>>,
}

/// Which call is pending: whose, for which object, why, and for what.
type Slot = (u64, Option<Uid>, Reason, Action);

/// The numbers of what happened, by object; what was folded holds more than one.
#[derive(Debug)]
pub(super) struct ScriptEvent {
    uid: Option<Uid>,
    action: Action,
    numbers: Vec<u32>,
}

/// The object that a pending call is about.
#[derive(Clone, Debug)]
pub(super) struct ScriptCall(Option<Uid>);

impl ScheduleItem for ScriptEvent {
    fn uid(&self) -> Option<&str> {
        self.uid.as_ref().map(Uid::as_str)
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
            folding: false,
            taken: HashMap::new(),
            untold: HashMap::new(),
            offered: HashMap::new(),
            slots: HashMap::new(),
        }
    }
}

impl ScriptRunner {
    /// A play in which events of one object fold, or not.
    pub(super) fn folding(folding: bool) -> Self {
        Self {
            folding,
            ..Self::default()
        }
    }

    /// Plays `script`; steps that make no sense (to finish what no worker holds) are left
    /// out. Returns what the takes gave.
    pub(super) fn run(&mut self, script: &str) -> String {
        let mut taken = Vec::new();
        for step in script.split(", ") {
            let words: Vec<_> = step.split_whitespace().collect();
            match *words {
                ["take"] => taken.push(self.take()),
                ["wait", seconds] => self.now = self.now + secs(seconds),
                ["cancel", handler] => self.cancel(handler),
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
            self.look();
        }
        taken.join(" ")
    }

    /// Runs until there is no work left.
    pub(super) fn run_out(&mut self) {
        for _ in 0..1_000 {
            for name in self.taken.keys().cloned().collect::<Vec<_>>() {
                self.end(&name, true, None);
            }
            self.now = self.now + Duration::from_secs(1);
            self.take();
            self.look();
            if self.taken.is_empty() && self.schedule.lanes() == 0 {
                break;
            }
        }
        assert_eq!(self.schedule.lanes(), 0, "no work is left");
        assert_eq!(self.schedule.pending(), 0);
        assert_eq!(self.schedule.next_due(), None);
        assert!(self.untold.values().all(Vec::is_empty), "nothing is lost");
    }

    fn offer(&mut self, words: &[&str]) {
        let offers: Vec<_> = words.chunks(2).map(|words| self.happen(words)).collect();
        let folding = self.folding;
        self.schedule.offer(offers, |older, newer| {
            if !folding {
                return Fold::Separate(newer);
            }
            older.numbers.extend(newer.numbers);
            older.action = newer.action;
            Fold::Merged
        });
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
        self.untold
            .entry(name.to_owned())
            .or_default()
            .push(*number);
        let offer = Offer {
            priority,
            pendings_checked: false,
            event: ScriptEvent {
                uid: Some(Uid::from(uid)),
                action,
                numbers: vec![*number],
            },
        };
        (key(name), offer)
    }

    fn take(&mut self) -> String {
        let Some(turn) = self.schedule.take(self.now) else {
            assert_eq!(self.schedule.ready(), 0);
            return "-".to_owned();
        };
        let name = turn.key.object.to_string();
        let slots = self.slots.entry(name.clone()).or_default();
        let told = match &turn.work {
            Work::Event { offer, pendings } => {
                // Nothing doubled, nothing out of order: it is the oldest untold.
                let untold = self.untold.get_mut(&name).expect("it was offered");
                let oldest: Vec<_> = untold.drain(..offer.event.numbers.len()).collect();
                assert_eq!(offer.event.numbers, oldest, "dispatched in order");
                for pending in pendings {
                    assert!(pending.call.0 == offer.event.uid, "of the same uid");
                }
                if !offer.pendings_checked {
                    slots.retain(|slot| slot.1 != offer.event.uid);
                }
                let numbers: Vec<_> = (oldest.iter())
                    .map(|number| format!("{name}{number}"))
                    .collect();
                let mut told = numbers.join("+");
                for pending in pendings {
                    told.push('?');
                    told += &pending.handler.to_string();
                }
                told
            }
            Work::Retry(pending) => {
                assert!(pending.due <= self.now, "not before it is due");
                let slot = slot(pending);
                let at = slots.iter().position(|it| *it == slot);
                slots.remove(at.expect("what is retried was pending"));
                format!("{name}!{}", pending.handler.0)
            }
        };
        assert!(!self.taken.contains_key(&name), "exclusive");
        self.taken.insert(name, turn);
        told
    }

    fn end(&mut self, name: &str, keep: bool, owed: Option<(Reason, &str, &str)>) {
        let Some(turn) = self.taken.remove(name) else {
            return;
        };
        let (uid, action, kept) = match turn.work {
            Work::Event { offer, pendings } => (offer.event.uid, offer.event.action, pendings),
            Work::Retry(pending) => (pending.call.0, pending.action, Vec::new()),
        };
        let mut all: Vec<_> = kept.into_iter().filter(|_| keep).collect();
        if let Some((reason, handler, after)) = owed {
            all.push(Pending {
                handler: id(handler),
                action,
                reason,
                due: self.now + secs(after),
                overtaken: false,
                call: ScriptCall(uid),
            });
        }
        self.note(name, &all);
        self.schedule.finish(turn.lane, all);
    }

    fn give_back(&mut self, name: &str, failed: Option<(&str, &str)>) {
        let Some(mut turn) = self.taken.remove(name) else {
            return;
        };
        let mut owed = Vec::new();
        match &mut turn.work {
            Work::Event { offer, pendings } => {
                let untold = self.untold.get_mut(name).expect("it was offered");
                untold.splice(..0, offer.event.numbers.iter().copied());
                if let Some((handler, after)) = failed {
                    // Its pending calls were asked about, and kept.
                    offer.pendings_checked = true;
                    owed = std::mem::take(pendings);
                    owed.push(Pending {
                        handler: id(handler),
                        action: offer.event.action,
                        reason: Reason::Failed,
                        due: self.now + secs(after),
                        overtaken: false,
                        call: ScriptCall(offer.event.uid.clone()),
                    });
                }
                let pendings = std::mem::take(pendings);
                self.note(name, pendings.iter().chain(&owed));
                if let Work::Event { pendings: left, .. } = &mut turn.work {
                    *left = pendings;
                }
            }
            Work::Retry(pending) => self.note(name, [&*pending]),
        }
        self.schedule.give_back(turn, owed);
    }

    fn cancel(&mut self, handler: &str) {
        let handler = id(handler);
        self.schedule.cancel(handler);
        for slots in self.slots.values_mut() {
            slots.retain(|slot| slot.0 != handler.0);
        }
    }

    /// Writes down what is pending from now on.
    fn note<'a>(&mut self, name: &str, all: impl IntoIterator<Item = &'a Pending<ScriptCall>>) {
        let slots = self.slots.entry(name.to_owned()).or_default();
        for pending in all {
            let new = slot(pending);
            if !self.schedule.handlers.contains(&pending.handler) {
                continue;
            }
            slots.retain(|old| {
                (old.0, &old.1, old.2) != (new.0, &new.1, new.2)
                    || (new.2 == Reason::Failed && old.3 != new.3)
            });
            slots.push(new);
        }
    }

    /// What must be true after each step.
    fn look(&self) {
        let pending: usize = self.slots.values().map(Vec::len).sum();
        assert_eq!(self.schedule.pending(), pending, "one slot each, none lost");
        assert_eq!(self.schedule.held, self.taken.len());
        let owed = |name: &String| {
            self.taken.contains_key(name)
                || !self.untold[name].is_empty()
                || self.slots.get(name).is_some_and(|slots| !slots.is_empty())
        };
        let owed = self.untold.keys().filter(|name| owed(name)).count();
        assert_eq!(self.schedule.lanes(), owed, "a lane that has work");
        assert_eq!(self.schedule.index.len(), owed);
    }
}

fn slot(pending: &Pending<ScriptCall>) -> Slot {
    let Pending {
        handler,
        action,
        reason,
        call,
        ..
    } = pending;
    (handler.0, call.0.clone(), *reason, *action)
}

fn key(name: &str) -> LaneKey {
    let object = match name.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(name).within(namespace),
        None => ObjectKey::new(name),
    };
    LaneKey {
        kind: KindId(0),
        object,
    }
}

fn id(handler: &str) -> HandlerId {
    HandlerId(handler.parse().expect("a number"))
}

fn secs(seconds: &str) -> Duration {
    Duration::from_secs(seconds.parse().expect("a number of seconds"))
}
