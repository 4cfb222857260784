//! All comparisons, in the order in which they run.

use super::{Like, Number, Scenario, Served};
use crate::{
    child::{Task, Trouble},
    contender::{Contender, Keeps, Lists},
    objects::{Kind, short},
    servers::Load,
};

/// All comparisons of this size.
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

/// How large the comparisons are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Large enough for numbers that are published.
    Full,
    /// Small: all of them take less than two minutes.
    Quick,
    /// As small as can be, to see that they run. The numbers mean nothing.
    Least,
}

/// Those whose store alone is measured.
const STORES: [Contender; 5] = [
    Contender::Windlass,
    Contender::Runtime,
    Contender::ClientGo,
    Contender::GrafanaAppSdk,
    Contender::Floor,
];

/// Those who can read from a server without a socket.
const RUST: [Contender; 3] = [Contender::Windlass, Contender::Runtime, Contender::Floor];

/// Those whose handler is called, as one's own is.
const CONTROLLERS: [Contender; 4] = [
    Contender::Windlass,
    Contender::Runtime,
    Contender::ControllerRuntime,
    Contender::GrafanaAppSdk,
];

/// Where grafana-app-sdk takes part in a quick run: with it everywhere, that would take half a
/// minute more. It decodes a Pod for most of a millisecond, and waits for all that a handler
/// which hangs holds up.
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
        /// Enough that each of the namespaces and percentiles of a scenario has something.
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

    /// As many objects as make a store.
    fn few(self) -> usize {
        self.pick(10_000, 2_000)
    }

    fn base(self, id: &str, kind: Kind, count: usize, task: Task) -> Scenario {
        Scenario {
            name: format!("{id}-{}-{}", kind.name(), short(count)),
            served: Served::Load,
            task,
            keeps: Keeps::Typed,
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

    /// All `numbers`; when not full only those that need no second process of each contender.
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

    /// P1: from nothing to whole.
    fn cold_start(self) -> Vec<Scenario> {
        BOTH.into_iter().flat_map(|kind| self.lists(kind)).collect()
    }

    fn lists(self, kind: Kind) -> Vec<Scenario> {
        let count = match kind {
            Kind::Configmap => self.pick(100_000, 10_000),
            Kind::Pod => self.pick(100_000, 2_000),
        };
        let streaming = streamed(self.base("P1", kind, self.few(), Task::Sync));
        let streaming = Scenario {
            numbers: self.of(&streaming.numbers),
            ..streaming
        };
        let mut handled = Scenario {
            contenders: CONTROLLERS.to_vec(),
            numbers: vec![Number::CPU, Number::WALL],
            ..self.base("P1-handled", kind, count, Task::Start)
        };
        if kind == Kind::Pod {
            // As long again as its store takes, which is minutes, to show as much.
            without(&mut handled, Contender::GrafanaAppSdk);
        }
        let sync = self.base("P1", kind, count, Task::Sync);
        let mut all = vec![sync, streaming, handled];
        if kind == Kind::Pod {
            all.push(Scenario {
                contenders: vec![Contender::Windlass, Contender::Runtime],
                numbers: self.of(&[
                    Number::FIRST_READ,
                    Number::SECOND_READ,
                    Number::LATER_READ,
                    Number::SETTLED,
                ]),
                ..self.base("read", kind, self.few(), Task::Read)
            });
        }
        if self.is_full() {
            all.push(self.base("P1", kind, 1_000, Task::Sync));
        }
        all
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

    /// P2: a list that shows nothing new.
    fn relist(self) -> Vec<Scenario> {
        let numbers = [
            Number::CPU,
            Number::SETTLED,
            Number::RELIST_PEAK,
            Number::CALLS,
        ];
        let of = |kind| Scenario {
            numbers: match kind {
                Kind::Configmap => self.of(&numbers),
                Kind::Pod => numbers.to_vec(),
            },
            ..self.base("P2", kind, self.few(), Task::Relist)
        };
        BOTH.into_iter().map(of).collect()
    }

    /// P1 to P3 in the other forms that a store can have.
    fn stores(self) -> Vec<Scenario> {
        let kinds = if self.is_full() {
            &BOTH[..]
        } else {
            &BOTH[1..]
        };
        kinds
            .iter()
            .flat_map(|kind| self.stores_of(*kind))
            .collect()
    }

    fn stores_of(self, kind: Kind) -> Vec<Scenario> {
        let (lists, updates) = (self.lists(kind), self.updates());
        let relists = self.relist();
        let find = |all: &[Scenario], id: &str| {
            let mut all = all.iter();
            all.find(|it| it.kind == kind && it.name.starts_with(id))
                .cloned()
                .expect("the scenario is there")
        };
        let list = find(&lists, "P1-");
        let relist = find(&relists, "P2-");
        let update = find(&updates, &format!("P3-{}", kind.name()));
        let peers = |scenario: &Scenario| {
            let contenders = scenario.contenders.iter().copied();
            contenders.filter(|it| it.is_peer()).collect::<Vec<_>>()
        };
        // What the peers keep is the same, whatever we do: they are not measured twice.
        let packed = |id, scenario: &Scenario| Scenario {
            like: Some(Like {
                name: scenario.name.clone(),
                contenders: peers(scenario),
            }),
            ..kept(id, Keeps::Packed, scenario)
        };
        let decoded = Scenario {
            like: Some(Like {
                name: update.name.clone(),
                contenders: [peers(&update), vec![Contender::Floor]].concat(),
            }),
            ..kept("P3-packed-decoded", Keeps::Decoded, &update)
        };
        // Who decodes into types of Go's own packages goes on doing so.
        let own = |id, scenario: &Scenario| {
            let in_go = scenario.contenders.iter().copied();
            Scenario {
                like: Some(Like {
                    name: scenario.name.clone(),
                    contenders: in_go.filter(|it| it.in_go()).collect(),
                }),
                ..kept(id, Keeps::Own, scenario)
            }
        };
        let mut all = vec![
            packed("P1-packed", &list),
            packed("P2-packed", &relist),
            packed("P3-packed", &update),
            decoded,
            metadata("P1-metadata", &list),
            metadata("P3-metadata", &update),
        ];
        if kind == Kind::Pod {
            all.extend([own("P1-own-type", &list), own("P3-own-type", &update)]);
        }
        all
    }

    /// P4: a thousand updates a second.
    fn latency(self) -> Vec<Scenario> {
        let events = self.pick(5_000, 1_000);
        let rate = 1_000;
        vec![Scenario {
            contenders: [&CONTROLLERS[..], &[Contender::ClientGo]].concat(),
            numbers: vec![Number::P50, Number::P99, Number::CPU],
            ..self.base(
                "P4",
                Kind::Pod,
                self.pick(1_000, 1_000),
                Task::Handle { events, rate },
            )
        }]
    }

    /// P5: reconciles that do nothing, by how many keys wait for one.
    fn reconciles(self) -> Vec<Scenario> {
        let of = |count, threads| Scenario {
            name: format!("P5-{}", short(count)),
            served: Served::Nobody,
            contenders: vec![Contender::Windlass, Contender::Runtime],
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
                // The peer takes half a minute.
                repeats: 1,
                ..of(many, 2)
            });
        }
        all
    }

    /// P6: calls that are to be made again.
    fn retries(self) -> Vec<Scenario> {
        let two = [Contender::Windlass, Contender::Runtime];
        let of = |count, contenders: &[Contender]| Scenario {
            name: format!("P6-{}", short(count)),
            served: Served::Nobody,
            contenders: contenders.to_vec(),
            numbers: vec![
                Number::SET_CANCEL,
                Number::P50,
                Number::P99,
                Number::WAITING,
            ],
            repeats: 1,
            ..self.base("P6", Kind::Configmap, count, Task::Retries)
        };
        let few = self.pick(100_000, 10_000);
        let mut all = vec![of(few, &[&two[..], &[Contender::GrafanaAppSdk]].concat())];
        if self.is_full() {
            // Who looks at all of them each second would take minutes for these.
            all.push(of(1_000_000, &two));
        }
        all
    }

    /// P7: one watch that is broken, beside one that is not.
    fn broken_watch(self) -> Scenario {
        let events = self.pick(2_000, 150);
        let task = Task::Isolation { events, rate: 100 };
        Scenario {
            contenders: vec![
                Contender::Windlass,
                Contender::Runtime,
                Contender::GrafanaAppSdk,
            ],
            numbers: vec![Number::DELIVERED, Number::P99],
            repeats: 1,
            ..self.base("P7-broken-watch", Kind::Configmap, events, task)
        }
    }

    /// P7: one object that is trouble, beside many that are not.
    fn troubles(self) -> Vec<Scenario> {
        let events = self.pick(1_000, 250);
        let of = |(id, by)| {
            let rate = 500;
            let task = Task::Disturbed { events, rate, by };
            Scenario {
                name: format!("{id}-configmap-{}", short(events)),
                contenders: CONTROLLERS.to_vec(),
                numbers: vec![
                    Number::DELIVERED,
                    Number::QUIET_P99,
                    Number::P99,
                    Number::SLOWDOWN,
                ],
                ..self.base(id, Kind::Configmap, events + 1, task)
            }
        };
        [
            ("P7-hot-object", Trouble::Hot),
            ("P7-hanging-handler", Trouble::Hanging),
        ]
        .map(of)
        .to_vec()
    }

    /// P10: the embedded API server, and the real one.
    fn servers(self) -> Scenario {
        let load = Load {
            creates: self.pick(3_000, 300),
            events: self.pick(1_000, 100),
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
            ],
            ..self.base("P10", Kind::Configmap, 0, Task::Serve(load))
        }
    }
}

/// The same, in another form of store.
fn kept(id: &str, keeps: Keeps, scenario: &Scenario) -> Scenario {
    Scenario {
        name: format!("{id}-{}-{}", scenario.kind.name(), short(scenario.count)),
        keeps,
        ..scenario.clone()
    }
}

/// The same, with metadata only, among those who can ask for them.
fn metadata(id: &str, scenario: &Scenario) -> Scenario {
    let mut scenario = kept(id, Keeps::Metadata, scenario);
    // It reads whole objects of the kinds that it is given.
    without(&mut scenario, Contender::GrafanaAppSdk);
    scenario
}

/// Leaves out a contender.
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
            let earlier = earlier.unwrap_or_else(|| panic!("{} comes later", like.name));
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
