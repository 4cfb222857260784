//! All comparisons, in the order in which they run.

use super::{Number, Scenario, Served};
use crate::{
    child::Task,
    contender::{Contender, Lists},
    objects::{Kind, short},
};

/// All comparisons; small ones if `quick`.
pub(crate) fn catalogue(quick: bool) -> Vec<Scenario> {
    let size = Size { quick };
    [
        size.embedded(),
        size.cold_start(),
        size.updates(),
        size.relist(),
        vec![size.latency(), size.broken_watch()],
    ]
    .concat()
}

/// How large the comparisons are.
#[derive(Clone, Copy, Debug)]
struct Size {
    quick: bool,
}

const BOTH: [Kind; 2] = [Kind::Configmap, Kind::Pod];

// === impl Size ===

impl Size {
    fn pick(self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// As many objects as make a store.
    fn few(self) -> usize {
        self.pick(10_000, 2_000)
    }

    fn base(self, id: &str, kind: Kind, count: usize, task: Task) -> Scenario {
        Scenario {
            name: format!("{id}-{}-{}", kind.name(), short(count)),
            served: Served::Load,
            task,
            kind,
            count,
            lists: Lists::Paged,
            contenders: Contender::ALL.to_vec(),
            numbers: vec![
                Number::CPU,
                Number::WALL,
                Number::SETTLED,
                Number::PEAK,
                Number::ALLOCATIONS,
            ],
            repeats: self.pick(3, 1),
        }
    }

    /// The embedded API server, on a port and in the process.
    fn embedded(self) -> Vec<Scenario> {
        let sync = |kind, count| Scenario {
            served: Served::Embedded,
            repeats: self.pick(5, 1),
            ..self.base("sync", kind, count, Task::Sync)
        };
        let configs = sync(Kind::Configmap, 10_000);
        let in_process = Scenario {
            name: format!("{}-in-process", configs.name),
            served: Served::InProcess,
            ..configs.clone()
        };
        let pods = sync(Kind::Pod, self.few());
        vec![configs.clone(), streamed(configs), in_process, pods]
    }

    /// P1: from nothing to whole.
    fn cold_start(self) -> Vec<Scenario> {
        let sizes = [self.pick(100_000, 10_000), self.pick(50_000, 2_000)];
        let of = |(kind, count)| {
            let handled = Scenario {
                contenders: vec![Contender::Windlass, Contender::Runtime],
                numbers: vec![Number::CPU, Number::WALL],
                ..self.base("P1-handled", kind, count, Task::Start)
            };
            [
                self.base("P1", kind, count, Task::Sync),
                streamed(self.base("P1", kind, self.few(), Task::Sync)),
                handled,
            ]
        };
        BOTH.into_iter().zip(sizes).flat_map(of).collect()
    }

    /// P3: a steady stream of updates.
    fn updates(self) -> Vec<Scenario> {
        let events = self.pick(50_000, 10_000);
        let of = |kind| {
            let numbers = vec![Number::CPU, Number::WALL, Number::ALLOCATIONS];
            let stream = Task::Stream { events, rate: 0 };
            let handle = Task::Handle { events, rate: 0 };
            [("P3-store", stream), ("P3", handle)].map(|(id, task)| Scenario {
                numbers: numbers.clone(),
                ..self.base(id, kind, self.few(), task)
            })
        };
        BOTH.into_iter().flat_map(of).collect()
    }

    /// P2: a list that shows nothing new.
    fn relist(self) -> Vec<Scenario> {
        let of = |kind| Scenario {
            numbers: vec![
                Number::CPU,
                Number::SETTLED,
                Number::RELIST_PEAK,
                Number::CALLS,
            ],
            ..self.base("P2", kind, self.few(), Task::Relist)
        };
        BOTH.into_iter().map(of).collect()
    }

    /// P4: a thousand updates a second.
    fn latency(self) -> Scenario {
        let events = self.pick(10_000, 3_000);
        let rate = 1_000;
        Scenario {
            contenders: vec![Contender::Windlass, Contender::Runtime],
            numbers: vec![Number::P50, Number::P99, Number::CPU],
            ..self.base("P4", Kind::Pod, 1_000, Task::Handle { events, rate })
        }
    }

    /// P7: one watch that is broken, beside one that is not.
    fn broken_watch(self) -> Scenario {
        let events = self.pick(2_000, 300);
        let task = Task::Isolation { events, rate: 100 };
        Scenario {
            contenders: vec![Contender::Windlass, Contender::Runtime],
            numbers: vec![Number::DELIVERED, Number::P99],
            repeats: 1,
            ..self.base("P7-broken-watch", Kind::Configmap, events, task)
        }
    }
}

fn streamed(scenario: Scenario) -> Scenario {
    Scenario {
        name: format!("{}-streamed", scenario.name),
        lists: Lists::Streamed,
        ..scenario
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::catalogue;

    #[test]
    fn no_two_scenarios_have_one_name() {
        for quick in [false, true] {
            let all = catalogue(quick);
            let names: BTreeSet<_> = all.iter().map(|scenario| &scenario.name).collect();
            assert_eq!(names.len(), all.len(), "quick: {quick}");
        }
    }
}
