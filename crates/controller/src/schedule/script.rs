//! Tests of the schedule: scripts a person can read, and random ones.
//!
//! ```text
//! update a      something happens to the object a; `update a#2` to another one of that name
//! take          a worker takes what it is its turn to do
//! done a        … and is done with it, all asked-for retries kept
//! drop a        … and is done with it, no asked-for retry kept
//! fail a 0 5    … and handler 0 failed, to be tried again in 5 s
//! again a 0 5   … and handler 0 asked to be called again in 5 s
//! break a       … and the worker is gone
//! half a 0 5    … and the worker is gone after handler 0 failed
//! wait 5        5 s pass
//! cancel 0      handler 0 is removed
//! ```
//!
//! A take gives `a1` for the first thing that happened to a, `a1?0` if the retry of handler 0
//! is to be asked about, `a!0` for a call of handler 0 alone, and `-` for nothing.

use std::{collections::HashMap, fmt, time::Duration};

use proptest::prelude::*;
use windlass_informer::{ObjectKey, Uid};

use super::*;
use crate::route::KindId;

// --- scripts ---

#[test]
fn an_object_is_in_one_hand() {
    check("update a, take, update a, take, done a, take", "a1 - a2");
}

#[test]
fn different_objects_are_worked_on_side_by_side() {
    check("update a, update b, take, take", "a1 b1");
}

#[test]
fn what_happens_to_an_object_is_told_in_order() {
    check(
        "update a, update a, delete a, take, done a, take, done a, take, done a, take",
        "a1 a2 a3 -",
    );
}

#[test]
fn after_its_turn_an_object_goes_behind_the_others() {
    check(
        "update a, update a, update b, take, done a, take, take",
        "a1 b1 a2",
    );
}

#[test]
fn the_end_of_an_object_is_told_before_the_beginning_of_its_successor() {
    check("delete a, create a#2, take, take, done a, take", "a1 - a2");
}

#[test]
fn a_retry_comes_when_it_is_due_and_not_before() {
    check(
        "update a, take, fail a 0 5, take, wait 4, take, wait 1, take",
        "a1 - - a!0",
    );
}

#[test]
fn pending_retries_are_asked_about_before_a_new_event_is_told() {
    check(
        "update a, take, fail a 0 5, update a, take, drop a, wait 9, take",
        "a1 a2?0 -",
    );
    check(
        "update a, take, fail a 0 5, update a, take, done a, take, wait 5, take",
        "a1 a2?0 - a!0",
    );
}

#[test]
fn an_event_goes_before_a_due_retry_which_it_may_make_needless() {
    check(
        "update a, take, fail a 0 5, wait 5, update a, take, drop a, take",
        "a1 a2?0 -",
    );
}

#[test]
fn a_due_retry_that_was_kept_goes_before_the_next_event() {
    check(
        "update a, take, fail a 0 5, wait 5, update a, update a, take, done a, take, done a, take",
        "a1 a2?0 a!0 a3",
    );
}

#[test]
fn a_failure_replaces_the_pending_one_of_the_same_handler_and_action() {
    check(
        "update a, take, fail a 0 5, update a, take, fail a 0 9, wait 5, take, wait 4, take, done a, take",
        "a1 a2?0 - a!0 -",
    );
}

#[test]
fn failures_of_other_handlers_and_actions_are_pending_beside_it() {
    check(
        "create a, take, fail a 0 5, update a, take, fail a 0 6, update a, take, fail a 1 7, \
         wait 9, take, done a, take, done a, take, done a, take",
        "a1 a2?0 a3?0?0 a!0 a!0 a!1 -",
    );
}

#[test]
fn of_two_requeues_the_sooner_due_time_wins() {
    check(
        "update a, take, again a 0 5, update a, take, again a 0 9, wait 5, take, done a, wait 9, take",
        "a1 a2?0 a!0 -",
    );
    check(
        "update a, take, again a 0 9, update a, take, again a 0 5, wait 5, take, done a, wait 9, take",
        "a1 a2?0 a!0 -",
    );
}

#[test]
fn a_handler_has_one_requeue_whatever_it_was_called_for() {
    check(
        "create a, take, again a 0 5, update a, take, again a 0 5, wait 5, take, done a, wait 9, take",
        "a1 a2?0 a!0 -",
    );
}

#[test]
fn a_successor_inherits_no_retries() {
    check(
        "update a, take, fail a 0 5, create a#2, take, done a, wait 9, take",
        "a1 a2 -",
    );
}

#[test]
fn a_delete_that_could_not_be_told_is_asked_about_when_a_successor_comes() {
    check(
        "delete a, take, fail a 0 5, create a#2, take, done a, wait 5, take",
        "a1 a2?0 a!0",
    );
}

#[test]
fn a_removed_handler_is_owed_nothing() {
    check("update a, take, fail a 0 5, cancel 0, wait 9, take", "a1 -");
    check("update a, take, cancel 0, fail a 0 5, wait 9, take", "a1 -");
    check(
        "update a, take, fail a 1 5, cancel 0, wait 9, take",
        "a1 a!1",
    );
}

#[test]
fn work_that_broke_off_is_owed_again() {
    check(
        "update a, update a, take, break a, take, done a, take",
        "a1 a1 a2",
    );
    check(
        "update a, take, fail a 0 5, wait 5, take, break a, take",
        "a1 a!0 a!0",
    );
    check(
        "update a, take, fail a 0 5, update a, take, break a, take",
        "a1 a2?0 a2?0",
    );
}

#[test]
fn what_a_broken_off_event_left_is_not_asked_about_by_the_same_event() {
    check(
        "update a, take, half a 0 5, take, done a, take, wait 5, take",
        "a1 a1 - a!0",
    );
}

#[test]
fn namespaces_take_turns() {
    check(
        "update x/a, update x/b, update x/c, update y/d, take, take, take, take",
        "x/a1 y/d1 x/b1 x/c1",
    );
}

#[test]
fn the_first_list_and_resyncs_wait_for_what_changed() {
    check("resync a, first b, update c, take, take, take", "c1 b1 a1");
}

#[test]
fn an_object_of_the_first_list_that_changes_becomes_urgent() {
    check("first a, first b, update b, take, done b, take", "b1 b2");
}

#[test]
fn an_event_that_folds_is_told_once() {
    let mut play = Play {
        folding: true,
        ..Play::default()
    };
    assert_eq!(
        play.run("update a, update a, take, update a, update a, done a, take, done a, take"),
        "a1+a2 a3+a4 -"
    );
    let mut play = Play {
        folding: true,
        ..Play::default()
    };
    assert_eq!(
        play.run("update a, update a#2, take, done a, take"),
        "a1 a2"
    );
}

#[test]
fn an_object_to_which_nothing_is_owed_costs_nothing() {
    let mut play = Play::default();
    play.run("update a, update b, take, take, done a, fail b 0 5, wait 5, take, done b");
    assert_eq!((play.schedule.lanes(), play.schedule.pending()), (0, 0));
    assert_eq!(play.schedule.index.len(), 0);
    assert_eq!(play.schedule.next_due(), None);
}

#[track_caller]
fn check(script: &str, taken: &str) {
    assert_eq!(Play::default().run(script), taken, "{script}");
}

// --- random scripts ---

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// [`Play`] asserts the contract at each step; here every step is possible.
    #[test]
    fn the_contract_holds_in_any_order_of_events(
        steps in prop::collection::vec(step(), 1..60),
        folding: bool,
    ) {
        let script: Vec<_> = steps.iter().map(ToString::to_string).collect();
        let mut play = Play { folding, ..Play::default() };
        play.run(&script.join(", "));
        play.run_out();
    }
}

fn step() -> impl Strategy<Value = Step> {
    let object = (0..4_u8, 1..3_u8);
    let name = || 0..4_u8;
    prop_oneof![
        8 => (0..5_usize, object).prop_map(|(verb, (name, uid))| {
            Step::Offer(["create", "update", "delete", "resync", "first"][verb], name, uid)
        }),
        8 => Just(Step::Take),
        2 => name().prop_map(|name| Step::End("done", name)),
        2 => name().prop_map(|name| Step::End("drop", name)),
        1 => name().prop_map(|name| Step::End("break", name)),
        1 => (name(), 0..3_u8, 0..9_u8).prop_map(|(name, handler, after)| {
            Step::Owe("half", name, handler, after)
        }),
        3 => (name(), 0..3_u8, 0..9_u8).prop_map(|(name, handler, after)| {
            Step::Owe("fail", name, handler, after)
        }),
        3 => (name(), 0..3_u8, 0..9_u8).prop_map(|(name, handler, after)| {
            Step::Owe("again", name, handler, after)
        }),
        3 => (0..9_u8).prop_map(Step::Wait),
        1 => (0..3_u8).prop_map(Step::Cancel),
    ]
}

/// One line of a random script.
#[derive(Clone, Debug)]
enum Step {
    Offer(&'static str, u8, u8),
    Take,
    End(&'static str, u8),
    Owe(&'static str, u8, u8, u8),
    Wait(u8),
    Cancel(u8),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Two objects in each of two namespaces.
        const NAMES: [&str; 4] = ["x/a", "x/b", "y/c", "y/d"];
        let name = |at: &u8| NAMES[usize::from(*at)];
        match self {
            Self::Offer(verb, at, uid) => write!(f, "{verb} {}#{uid}", name(at)),
            Self::Take => f.write_str("take"),
            Self::End(verb, at) => write!(f, "{verb} {}", name(at)),
            Self::Owe(verb, at, handler, after) => {
                write!(f, "{verb} {} {handler} {after}", name(at))
            }
            Self::Wait(seconds) => write!(f, "wait {seconds}"),
            Self::Cancel(handler) => write!(f, "cancel {handler}"),
        }
    }
}

// --- the player ---

/// A schedule, and what must be true of it.
struct Play {
    schedule: Schedule<Told, ()>,
    now: Moment,
    folding: bool,
    hands: HashMap<String, Turn<Told, ()>>,
    /// What has been offered and not been told, by object.
    untold: HashMap<String, Vec<u32>>,
    offered: HashMap<String, u32>,
    /// Which calls are pending, by object: handler, uid, reason, action.
    slots: HashMap<String, Vec<Slot>>,
}

/// Which call is pending: whose, for which object, why, and for what.
type Slot = (u64, Option<Uid>, Reason, Action);

/// The numbers of what happened, by object; what was folded holds more than one.
#[derive(Debug)]
struct Told {
    action: Action,
    numbers: Vec<u32>,
}

impl Default for Play {
    fn default() -> Self {
        let mut schedule = Schedule::default();
        for handler in 0..4 {
            schedule.admit(HandlerId(handler));
        }
        Self {
            schedule,
            now: Moment::default(),
            folding: false,
            hands: HashMap::new(),
            untold: HashMap::new(),
            offered: HashMap::new(),
            slots: HashMap::new(),
        }
    }
}

impl Play {
    /// Plays `script`; steps that make no sense (to be done with what nobody holds) are left
    /// out. Returns what the takes gave.
    fn run(&mut self, script: &str) -> String {
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
                [verb, name] => self.offer(verb, name),
                _ => panic!("no such step: {step}"),
            }
            self.look();
        }
        taken.join(" ")
    }

    /// Lets everything come to its end: then nothing is owed, and all has been told.
    fn run_out(&mut self) {
        for _ in 0..1_000 {
            for name in self.hands.keys().cloned().collect::<Vec<_>>() {
                self.end(&name, true, None);
            }
            self.now = self.now + Duration::from_secs(1);
            self.take();
            self.look();
            if self.hands.is_empty() && self.schedule.lanes() == 0 {
                break;
            }
        }
        assert_eq!(self.schedule.lanes(), 0, "nothing is owed in the end");
        assert_eq!(self.schedule.pending(), 0);
        assert_eq!(self.schedule.next_due(), None);
        assert!(self.untold.values().all(Vec::is_empty), "nothing is lost");
    }

    fn offer(&mut self, verb: &str, name: &str) {
        let (name, uid) = name.split_once('#').unwrap_or((name, "1"));
        let (action, class) = match verb {
            "create" => (Action::Created, Class::Live),
            "update" => (Action::Updated, Class::Live),
            "delete" => (Action::Deleted, Class::Live),
            "resync" => (Action::Resynced, Class::Resync),
            "first" => (Action::Created, Class::FirstList),
            _ => panic!("no such verb: {verb}"),
        };
        let number = self.offered.entry(name.to_owned()).or_default();
        *number += 1;
        self.untold
            .entry(name.to_owned())
            .or_default()
            .push(*number);
        let offer = Offer {
            uid: Some(Uid::from(uid)),
            class,
            asked: false,
            event: Told {
                action,
                numbers: vec![*number],
            },
        };
        let folding = self.folding;
        self.schedule.offer(key(name), offer, |older, newer| {
            if !folding {
                return Some(newer);
            }
            older.numbers.extend(newer.numbers);
            older.action = newer.action;
            None
        });
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
                assert_eq!(offer.event.numbers, oldest, "told in order");
                for pending in pendings {
                    assert!(pending.uid == offer.uid || pending.action == Action::Deleted);
                }
                if !offer.asked {
                    slots.clear();
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
        assert!(!self.hands.contains_key(&name), "one hand");
        self.hands.insert(name, turn);
        told
    }

    fn end(&mut self, name: &str, keep: bool, owed: Option<(Reason, &str, &str)>) {
        let Some(turn) = self.hands.remove(name) else {
            return;
        };
        let (uid, action, kept) = match turn.work {
            Work::Event { offer, pendings } => (offer.uid, offer.event.action, pendings),
            Work::Retry(pending) => (pending.uid, pending.action, Vec::new()),
        };
        let mut all: Vec<_> = kept.into_iter().filter(|_| keep).collect();
        if let Some((reason, handler, after)) = owed {
            all.push(Pending {
                uid,
                handler: id(handler),
                action,
                reason,
                due: self.now + secs(after),
                overtaken: false,
                call: (),
            });
        }
        self.note(name, &all);
        self.schedule.finish(turn.lane, all);
    }

    fn give_back(&mut self, name: &str, failed: Option<(&str, &str)>) {
        let Some(mut turn) = self.hands.remove(name) else {
            return;
        };
        let mut owed = Vec::new();
        match &mut turn.work {
            Work::Event { offer, pendings } => {
                let untold = self.untold.get_mut(name).expect("it was offered");
                untold.splice(..0, offer.event.numbers.iter().copied());
                if let Some((handler, after)) = failed {
                    // Its pending calls were asked about, and kept.
                    offer.asked = true;
                    owed = std::mem::take(pendings);
                    owed.push(Pending {
                        uid: offer.uid.clone(),
                        handler: id(handler),
                        action: offer.event.action,
                        reason: Reason::Failed,
                        due: self.now + secs(after),
                        overtaken: false,
                        call: (),
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
    fn note<'a>(&mut self, name: &str, all: impl IntoIterator<Item = &'a Pending<()>>) {
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
        assert_eq!(self.schedule.held, self.hands.len());
        let owed = |name: &String| {
            self.hands.contains_key(name)
                || !self.untold[name].is_empty()
                || self.slots.get(name).is_some_and(|slots| !slots.is_empty())
        };
        let owed = self.untold.keys().filter(|name| owed(name)).count();
        assert_eq!(
            self.schedule.lanes(),
            owed,
            "a lane for whom something is owed"
        );
        assert_eq!(self.schedule.index.len(), owed);
    }
}

fn slot(pending: &Pending<()>) -> Slot {
    let Pending {
        uid,
        handler,
        action,
        reason,
        ..
    } = pending;
    (handler.0, uid.clone(), *reason, *action)
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
