//! Takes, ends and returned turns of a script.

use super::{ScriptCall, ScriptRunner, Slot, id, key, secs};
use crate::{
    Action,
    schedule::{Pending, Reason, Work},
};

impl ScriptRunner {
    pub(super) fn take(&mut self) -> String {
        let taken = self.schedule.take(self.now);
        for slot in self.slots.values_mut().flatten() {
            slot.fired |= slot.due <= self.now;
        }
        let Some(turn) = taken else {
            assert_eq!(self.schedule.ready(), 0);
            for name in self.undispatched.keys() {
                let waits = self.taken.contains_key(name) || !self.is_open(name);
                assert!(
                    waits || self.expected_priority(name).is_none(),
                    "{name} has work"
                );
            }
            return "-".to_owned();
        };
        let name = turn.key.object.to_string();
        assert_eq!(turn.key, key(&name));
        assert!(self.is_open(&name), "{name} is closed");
        let slots = self.slots.entry(name.clone()).or_default();
        let overtaken = |slot: &Slot| slot.fired && slot.overtaken;
        let taken_work = match &turn.work {
            Work::Event { offer, pendings } => {
                // No event is duplicated or out of order: it is the oldest undispatched one.
                let undispatched = self.undispatched.get_mut(&name).expect("it was offered");
                let oldest = undispatched.drain(..offer.event.numbers.len());
                let oldest: Vec<_> = oldest.map(|(number, _)| number).collect();
                assert_eq!(offer.event.numbers, oldest, "dispatched in order");
                assert!(!slots.iter().any(overtaken), "an overtaken call goes first");
                for pending in pendings {
                    assert!(pending.call.0 == offer.event.uid, "of the same uid");
                    assert_eq!(pending.overtaken, pending.due <= self.now);
                }
                if !offer.pendings_checked {
                    let before = slots.len();
                    slots.retain(|slot| slot.uid != offer.event.uid);
                    assert_eq!(before - slots.len(), pendings.len(), "each is asked about");
                    if self.until_successor && offer.event.action == Action::Created {
                        let before = slots.len();
                        slots.retain(|slot| slot.action != Action::Deleted);
                        self.discarded += before - slots.len();
                    }
                }
                let numbers: Vec<_> = (oldest.iter())
                    .map(|number| format!("{name}{number}"))
                    .collect();
                let mut taken_work = numbers.join("+");
                for pending in pendings {
                    taken_work.push('?');
                    taken_work += &pending.handler.to_string();
                }
                taken_work
            }
            Work::Retry(pending) => {
                assert!(pending.due <= self.now, "not before it is due");
                let at = slots.iter().position(|it| it.is(pending));
                let slot = slots.remove(at.expect("what is retried was pending"));
                assert_eq!((slot.due, slot.overtaken), (pending.due, pending.overtaken));
                let is_first = |other: &Slot| !other.fired || slot.due <= other.due;
                if slot.overtaken {
                    assert!(slots.iter().filter(|it| it.overtaken).all(is_first));
                } else {
                    assert!(!slots.iter().any(overtaken) && slots.iter().all(is_first));
                    assert!(self.undispatched[&name].is_empty(), "an event goes first");
                }
                format!("{name}!{}", pending.handler.0)
            }
        };
        assert!(!self.taken.contains_key(&name), "exclusive");
        self.taken.insert(name, turn);
        let later = self.slots.values().flatten().filter(|it| !it.fired);
        let next = later.map(|slot| slot.due).min();
        assert_eq!(self.schedule.next_due(), next, "the next timer");
        taken_work
    }

    pub(super) fn end(
        &mut self,
        name: &str,
        keep: bool,
        pending_again: Option<(Reason, &str, &str)>,
    ) {
        let Some(turn) = self.taken.remove(name) else {
            return;
        };
        let (uid, action, kept) = match turn.work {
            Work::Event { offer, pendings } => (offer.event.uid, offer.event.action, pendings),
            Work::Retry(pending) => (pending.call.0, pending.action, Vec::new()),
        };
        let mut all: Vec<_> = kept.into_iter().filter(|_| keep).collect();
        if let Some((reason, handler, after)) = pending_again {
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

    pub(super) fn give_back(&mut self, name: &str, failed: Option<(&str, &str)>) {
        let Some(mut turn) = self.taken.remove(name) else {
            return;
        };
        let mut pending_again = Vec::new();
        match &mut turn.work {
            Work::Event { offer, pendings } => {
                let undispatched = self.undispatched.get_mut(name).expect("it was offered");
                let numbers = offer.event.numbers.iter();
                undispatched.splice(..0, numbers.map(|number| (*number, offer.priority)));
                if let Some((handler, after)) = failed {
                    // Its pending calls were checked, and kept.
                    offer.pendings_checked = true;
                    pending_again = std::mem::take(pendings);
                    pending_again.push(Pending {
                        handler: id(handler),
                        action: offer.event.action,
                        reason: Reason::Failed,
                        due: self.now + secs(after),
                        overtaken: false,
                        call: ScriptCall(offer.event.uid.clone()),
                    });
                }
                let pendings = std::mem::take(pendings);
                self.note(name, pendings.iter().chain(&pending_again));
                if let Work::Event { pendings: left, .. } = &mut turn.work {
                    *left = pendings;
                }
            }
            Work::Retry(pending) => self.note(name, [&*pending]),
        }
        self.schedule.return_unfinished(turn, pending_again);
    }

    /// Records the calls that are pending from now on.
    fn note<'a>(&mut self, name: &str, all: impl IntoIterator<Item = &'a Pending<ScriptCall>>) {
        let slots = self.slots.entry(name.to_owned()).or_default();
        for pending in all {
            if !self.schedule.calls.handlers().contains(&pending.handler) {
                self.discarded += 1;
                continue;
            }
            let mut new = Slot {
                handler: pending.handler,
                uid: pending.call.0.clone(),
                reason: pending.reason,
                action: pending.action,
                due: pending.due,
                overtaken: pending.overtaken,
                fired: false,
            };
            if let Some(at) = slots.iter().position(|old| old.is(pending)) {
                let old = slots.remove(at);
                if old.reason == Reason::Requeued {
                    new.due = new.due.min(old.due);
                }
                self.discarded += 1;
            }
            slots.push(new);
        }
    }
}
