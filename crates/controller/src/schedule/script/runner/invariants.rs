//! The invariants of a schedule, which are checked after each step of a script.

use super::{ScriptRunner, key};
use crate::{
    Action,
    schedule::{Phase, Priority},
};

impl ScriptRunner {
    pub(super) fn is_open(&self, name: &str) -> bool {
        !self.closed.contains(&None) && !self.closed.contains(&Some(key(name).kind))
    }

    /// The priority of an object that no worker has, if it has work.
    pub(super) fn expected_priority(&self, name: &str) -> Option<Priority> {
        let event = self.undispatched[name]
            .iter()
            .map(|(_, priority)| *priority)
            .min();
        let mut slots = self.slots.get(name).into_iter().flatten();
        match event {
            Some(Priority::Live) => event,
            _ if slots.any(|slot| slot.fired) => Some(Priority::Retry),
            _ => event,
        }
    }

    /// Checks the invariants after each step.
    pub(super) fn check_invariants(&mut self) {
        let pending: usize = self.slots.values().map(Vec::len).sum();
        assert_eq!(self.schedule.pending(), pending, "one slot each, none lost");
        let deletes = self.slots.values().flatten();
        let deletes = deletes.filter(|slot| slot.action == Action::Deleted);
        assert_eq!(self.schedule.calls.deletes(), deletes.count());
        assert_eq!(self.schedule.take_discarded().len(), self.discarded);
        self.discarded = 0;
        let phases = self.schedule.lanes.phases();
        let processing = (phases.iter()).filter(|(_, phase)| *phase == Phase::Processing);
        assert_eq!(processing.count(), self.taken.len());
        let has_work = |name: &String| {
            self.taken.contains_key(name)
                || !self.undispatched[name].is_empty()
                || self.slots.get(name).is_some_and(|slots| !slots.is_empty())
        };
        let with_work = self
            .undispatched
            .keys()
            .filter(|name| has_work(name))
            .count();
        assert_eq!(phases.len(), with_work, "a lane that has work");
        let mut ready = 0;
        for (key, phase) in phases {
            let name = key.object.to_string();
            if self.taken.contains_key(&name) {
                assert_eq!(phase, Phase::Processing);
            } else {
                let priority = self.expected_priority(&name);
                assert_eq!(phase, priority.map_or(Phase::Idle, Phase::Ready));
                ready += usize::from(priority.is_some() && self.is_open(&name));
            }
        }
        assert_eq!(self.schedule.ready(), ready, "lanes of open kinds");
        assert_eq!(self.schedule.has_ready(), ready > 0);
    }
}
