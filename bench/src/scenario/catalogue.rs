//! All scenarios, in the order in which they run.

use super::{Number, Scenario, Served};
use crate::{
    child::Task,
    contender::{Contender, Form, Keeps, Lists},
    objects::{Kind, short},
    servers::Load,
};

mod controllers;
mod stores;

use self::controllers::CONTROLLERS;

/// All scenarios of this size.
pub(crate) fn catalogue(size: Size) -> Vec<Scenario> {
    let mut all = [
        size.embedded(),
        size.cold_start(),
        size.updates(),
        size.relist(),
        size.stores(),
        size.latency(),
        size.reconciles(),
        size.retries(),
        size.forms(),
        vec![size.broken_watch()],
        size.troubles(),
        vec![size.servers()],
    ]
    .concat();
    for scenario in &mut all {
        if size != Size::Full && !QUICK_GRAFANA.iter().any(|it| scenario.name.starts_with(it)) {
            without(scenario, Contender::GrafanaAppSdk);
        }
    }
    all
}

/// The size of the scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// The size of published numbers.
    Full,
    /// Small: all scenarios together take less than two minutes.
    Quick,
    /// The smallest size, to test that they run. The numbers are not meaningful.
    Least,
}

/// The contenders of scenarios that measure a store.
const STORES: [Contender; 5] = [
    Contender::Windlass,
    Contender::Runtime,
    Contender::ClientGo,
    Contender::GrafanaAppSdk,
    Contender::Floor,
];

/// The contenders that can read from a server without a socket.
const RUST: [Contender; 3] = [Contender::Windlass, Contender::Runtime, Contender::Floor];

/// The contenders of scenarios that measure a queue alone.
const QUEUES: [Contender; 3] = [
    Contender::Windlass,
    Contender::Runtime,
    Contender::ControllerRuntime,
];

/// The scenarios with grafana-app-sdk in a quick run. In all scenarios it would add half a minute: it
/// decodes a Pod in almost a millisecond, and waits for all objects behind a hanging handler.
const QUICK_GRAFANA: [&str; 8] = [
    "P1-configmap-10k",
    "P1-handled-configmap",
    "P2-configmap",
    "P3-configmap",
    "P4-",
    "P6-",
    "P7-broken-watch",
    "P7-hot-object",
];

const BOTH: [Kind; 2] = [Kind::Configmap, Kind::Pod];

// === impl Size ===

impl Size {
    fn pick(self, full: usize, quick: usize) -> usize {
        /// Enough objects for each namespace and percentile of a scenario.
        const LEAST: usize = 40;
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Least => quick.min(LEAST),
        }
    }

    const fn is_full(self) -> bool {
        matches!(self, Self::Full)
    }

    /// The number of objects in a store.
    fn few(self) -> usize {
        self.pick(10_000, 2_000)
    }

    fn base(self, id: &str, kind: Kind, count: usize, task: Task) -> Scenario {
        Scenario {
            name: format!("{id}-{}-{}", kind.name(), short(count)),
            served: Served::Load,
            task,
            keeps: Keeps::Typed,
            form: Form::Events,
            kind,
            count,
            lists: Lists::Paged,
            contenders: STORES.to_vec(),
            numbers: vec![
                Number::CPU,
                Number::WALL,
                Number::SETTLED,
                Number::PEAK,
                Number::RSS,
                Number::ALLOCATIONS,
            ],
            repeats: if self.is_full() { 3 } else { 1 },
            like: None,
        }
    }

    /// All `numbers` in a full run; otherwise only those that need no second process.
    fn of(self, numbers: &[Number]) -> Vec<Number> {
        let numbers = numbers.iter().copied();
        numbers.filter(|it| self.is_full() || !it.counted).collect()
    }

    /// The embedded API server, on a port and in the process.
    fn embedded(self) -> Vec<Scenario> {
        let sync = |kind, count| {
            let base = self.base("sync", kind, count, Task::Sync);
            Scenario {
                served: Served::Embedded,
                contenders: RUST.to_vec(),
                numbers: self.of(&base.numbers),
                ..base
            }
        };
        let configs = sync(Kind::Configmap, self.pick(10_000, 10_000));
        let in_process = Scenario {
            name: format!("{}-in-process", configs.name),
            served: Served::InProcess,
            ..configs.clone()
        };
        let pods = sync(Kind::Pod, self.few());
        vec![configs.clone(), streamed(configs), in_process, pods]
    }

    /// P3: a steady stream of updates.
    fn updates(self) -> Vec<Scenario> {
        let of = |kind| {
            let events = match kind {
                Kind::Configmap => self.pick(50_000, 10_000),
                Kind::Pod => self.pick(20_000, 4_000),
            };
            let numbers = [Number::CPU, Number::WALL, Number::RSS, Number::ALLOCATIONS];
            let numbers = self.of(&numbers);
            let stream = Task::Stream { events, rate: 0 };
            let handle = Task::Handle { events, rate: 0 };
            let handlers = [&CONTROLLERS[..], &[Contender::Floor]].concat();
            let both = [
                ("P3-store", stream, STORES.to_vec()),
                ("P3", handle, handlers),
            ];
            both.map(|(id, task, contenders)| Scenario {
                contenders,
                numbers: numbers.clone(),
                ..self.base(id, kind, self.few(), task)
            })
        };
        BOTH.into_iter().flat_map(of).collect()
    }

    /// P5: empty reconciles, by the number of waiting keys.
    fn reconciles(self) -> Vec<Scenario> {
        let of = |count, threads| Scenario {
            name: format!("P5-{}", short(count)),
            served: Served::Nobody,
            contenders: QUEUES.to_vec(),
            numbers: vec![
                Number::PER_SECOND,
                Number::CPU,
                Number::DRAIN,
                Number::WAITING,
                Number::ALLOCATIONS,
            ],
            ..self.base("P5", Kind::Configmap, count, Task::Reconciles { threads })
        };
        let many = self.pick(1_000_000, 50_000);
        let mut all = vec![of(1_000, 1), of(many, 1)];
        if self.is_full() {
            all.insert(1, of(100_000, 1));
            all.push(Scenario {
                name: format!("P5-{}-two-threads", short(many)),
                numbers: vec![Number::PER_SECOND, Number::CPU],
                // Left out: the peer takes half a minute.
                repeats: 1,
                ..of(many, 2)
            });
        }
        all
    }

    /// P6: retries.
    fn retries(self) -> Vec<Scenario> {
        let of = |count, contenders: &[Contender]| Scenario {
            name: format!("P6-{}", short(count)),
            served: Served::Nobody,
            contenders: contenders.to_vec(),
            numbers: vec![
                Number::REQUEUE,
                Number::SET_CANCEL,
                Number::P50,
                Number::P99,
                Number::WAITING,
            ],
            repeats: 1,
            ..self.base("P6", Kind::Configmap, count, Task::Retries)
        };
        let few = self.pick(100_000, 10_000);
        let mut all = vec![of(
            few,
            &[&QUEUES[..], &[Contender::GrafanaAppSdk]].concat(),
        )];
        if self.is_full() {
            // Left out: it visits all retries every second, which would take minutes.
            all.push(of(1_000_000, &QUEUES));
        }
        all
    }

    /// P10: the embedded API server, and the real one.
    fn servers(self) -> Scenario {
        let load = Load {
            creates: self.pick(3_000, 300),
            events: self.pick(1_000, 100),
            objects: self.pick(100_000, 2_000),
        };
        Scenario {
            name: "P10-server".to_owned(),
            served: Served::Contender,
            contenders: vec![Contender::Windlass, Contender::KubeApiserver],
            numbers: vec![
                Number::READY,
                Number::CREATES,
                Number::CREATES_AT_ONCE,
                Number::EVENTS,
                Number::RESIDENT,
            ],
            ..self.base("P10", Kind::Configmap, 0, Task::Serve(load))
        }
    }
}

/// The same scenario without a contender.
fn without(scenario: &mut Scenario, who: Contender) {
    scenario.contenders.retain(|it| *it != who);
    if let Some(like) = &mut scenario.like {
        like.contenders.retain(|it| *it != who);
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

    use super::{QUICK_GRAFANA, Size, catalogue};
    use crate::{contender::Contender, scenario::Scenario};

    #[test]
    fn scenario_names_are_unique() {
        for size in [Size::Full, Size::Quick, Size::Least] {
            let all = catalogue(size);
            let names: BTreeSet<_> = all.iter().map(|scenario| &scenario.name).collect();
            assert_eq!(names.len(), all.len(), "{size:?}");
        }
    }

    #[test]
    fn a_quick_run_has_the_same_contenders_as_a_full_run() {
        let all = |size| {
            let scenarios = catalogue(size).into_iter();
            let names = scenarios.flat_map(|it| it.contenders.into_iter().map(Contender::name));
            names.collect::<BTreeSet<_>>()
        };
        assert_eq!(all(Size::Quick), all(Size::Full));
        assert_eq!(all(Size::Least), all(Size::Full));
        for name in QUICK_GRAFANA {
            let scenarios = catalogue(Size::Quick).into_iter();
            let mut named = scenarios.filter(|scenario| scenario.name.starts_with(name));
            let has = |it: &Scenario| it.contenders.contains(&Contender::GrafanaAppSdk);
            assert!(named.any(|it| has(&it)), "{name}");
        }
    }

    #[test]
    fn a_reused_measurement_was_taken_in_an_earlier_scenario() {
        let all = catalogue(Size::Quick);
        for (index, scenario) in all.iter().enumerate() {
            let Some(like) = &scenario.like else { continue };
            let earlier = all[..index].iter().find(|it| it.name == like.name);
            let earlier = earlier.unwrap_or_else(|| panic!("{} is a later scenario", like.name));
            for contender in &like.contenders {
                assert!(earlier.contenders.contains(contender), "{}", scenario.name);
            }
            for number in &scenario.numbers {
                let same = earlier
                    .numbers
                    .iter()
                    .any(|it| it.measure == number.measure);
                assert!(same, "{}-{}", scenario.name, number.suffix);
            }
        }
    }
}
