//! All comparisons, in the order in which they run.

use super::{Number, Scenario, Served};
use crate::{
    child::Task,
    contender::{Contender, Lists},
    objects::{Kind, short},
};

/// All comparisons; small ones if `quick`.
pub(crate) fn catalogue(quick: bool) -> Vec<Scenario> {
    let size = |full, small| if quick { small } else { full };
    let repeats = size(5, 1);
    let cost = vec![
        Number::CPU,
        Number::WALL,
        Number::SETTLED,
        Number::PEAK,
        Number::ALLOCATIONS,
    ];
    let base = |id: &str, kind: Kind, count: usize, task: Task| Scenario {
        name: format!("{id}-{}-{}", kind.name(), short(count)),
        served: Served::Load,
        task,
        kind,
        count,
        lists: Lists::Paged,
        contenders: Contender::ALL.to_vec(),
        numbers: cost.clone(),
        repeats,
    };
    let streamed = |scenario: Scenario| Scenario {
        name: format!("{}-streamed", scenario.name),
        lists: Lists::Streamed,
        ..scenario
    };

    let mut all = Vec::new();
    let few = size(10_000, 2_000);

    // The embedded server.
    for kind in [Kind::Configmap, Kind::Pod] {
        let port = Scenario {
            served: Served::Embedded,
            ..base(
                "sync",
                kind,
                size(10_000, if kind == Kind::Pod { 2_000 } else { 10_000 }),
                Task::Sync,
            )
        };
        if kind == Kind::Configmap {
            all.push(streamed(port.clone()));
            all.push(Scenario {
                name: format!("{}-in-process", port.name),
                served: Served::InProcess,
                repeats: size(3, 1),
                ..port.clone()
            });
        }
        all.push(port);
    }

    // P1: cold start.
    for (kind, count) in [
        (Kind::Configmap, size(100_000, 10_000)),
        (Kind::Pod, size(50_000, few)),
    ] {
        let start = Scenario {
            contenders: vec![Contender::Windlass, Contender::Runtime],
            numbers: vec![Number::CPU, Number::WALL],
            repeats: size(3, 1),
            ..base("P1-handled", kind, count, Task::Start)
        };
        let sync = Scenario {
            repeats: size(3, 1),
            ..base("P1", kind, count, Task::Sync)
        };
        let stream = streamed(Scenario {
            repeats: size(3, 1),
            ..base("P1", kind, few, Task::Sync)
        });
        all.extend([sync, stream, start]);
    }

    // P3: a steady stream of updates.
    for kind in [Kind::Configmap, Kind::Pod] {
        let events = size(50_000, few * 5);
        let numbers = vec![Number::CPU, Number::WALL, Number::ALLOCATIONS];
        let stream = Task::Stream { events, rate: 0 };
        let handle = Task::Handle { events, rate: 0 };
        all.push(Scenario {
            numbers: numbers.clone(),
            repeats: size(3, 1),
            ..base("P3-store", kind, few, stream)
        });
        all.push(Scenario {
            numbers,
            repeats: size(3, 1),
            ..base("P3", kind, few, handle)
        });
    }

    // P2: a relist of what did not change.
    for kind in [Kind::Configmap, Kind::Pod] {
        all.push(Scenario {
            numbers: vec![
                Number::CPU,
                Number::SETTLED,
                Number::RELIST_PEAK,
                Number::CALLS,
            ],
            repeats: size(3, 1),
            ..base("P2", kind, few, Task::Relist)
        });
    }

    // P4: latency.
    let latency = Task::Handle {
        events: size(10_000, 3_000),
        rate: 1_000,
    };
    all.push(Scenario {
        contenders: vec![Contender::Windlass, Contender::Runtime],
        numbers: vec![Number::P50, Number::P99, Number::CPU],
        repeats: size(3, 1),
        ..base("P4", Kind::Pod, 1_000, latency)
    });

    // P7: one broken watch.
    let events = size(2_000, 500);
    let isolation = Task::Isolation { events, rate: 100 };
    all.push(Scenario {
        contenders: vec![Contender::Windlass, Contender::Runtime],
        numbers: vec![Number::DELIVERED, Number::P99],
        repeats: 1,
        ..base("P7-broken-watch", Kind::Configmap, events, isolation)
    });
    all
}
