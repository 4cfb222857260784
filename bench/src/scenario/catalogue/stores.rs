//! The scenarios that measure a store.

use super::super::{Like, Number, Scenario};
use super::{BOTH, CONTROLLERS, QUEUES, Size, streamed, without};
use crate::{
    child::Task,
    contender::{Contender, Keeps},
    objects::{Kind, short},
};

impl Size {
    /// P1: a store is filled.
    pub(super) fn cold_start(self) -> Vec<Scenario> {
        BOTH.into_iter().flat_map(|kind| self.lists(kind)).collect()
    }

    pub(super) fn lists(self, kind: Kind) -> Vec<Scenario> {
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
            // Left out: it takes as long as without a handler, which is minutes.
            without(&mut handled, Contender::GrafanaAppSdk);
        }
        let sync = self.base("P1", kind, count, Task::Sync);
        let mut all = vec![sync, streaming, handled];
        if kind == Kind::Pod {
            all.push(Scenario {
                contenders: QUEUES.to_vec(),
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

    /// P2: a relist without changes.
    pub(super) fn relist(self) -> Vec<Scenario> {
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
    pub(super) fn stores(self) -> Vec<Scenario> {
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
                .expect("the scenario exists")
        };
        let list = find(&lists, "P1-");
        let relist = find(&relists, "P2-");
        let update = find(&updates, &format!("P3-{}", kind.name()));
        let peers = |scenario: &Scenario| {
            let contenders = scenario.contenders.iter().copied();
            contenders.filter(|it| it.is_peer()).collect::<Vec<_>>()
        };
        // The peers keep the same form as before, so they are not measured twice.
        let raw = |id, scenario: &Scenario| Scenario {
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
        // Contenders in Go use their usual types, as before.
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
            raw("P1-packed", &list),
            raw("P2-packed", &relist),
            raw("P3-packed", &update),
            decoded,
            metadata("P1-metadata", &list),
            metadata("P3-metadata", &update),
        ];
        if kind == Kind::Pod {
            all.extend([own("P1-own-type", &list), own("P3-own-type", &update)]);
        }
        all
    }
}

/// The same scenario with another form of the store.
fn kept(id: &str, keeps: Keeps, scenario: &Scenario) -> Scenario {
    Scenario {
        name: format!("{id}-{}-{}", scenario.kind.name(), short(scenario.count)),
        keeps,
        ..scenario.clone()
    }
}

/// The same scenario with metadata only, for the contenders that support it.
fn metadata(id: &str, scenario: &Scenario) -> Scenario {
    let mut scenario = kept(id, Keeps::Metadata, scenario);
    // grafana-app-sdk reads complete objects only.
    without(&mut scenario, Contender::GrafanaAppSdk);
    scenario
}
