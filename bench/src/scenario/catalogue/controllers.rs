//! The scenarios that measure a controller.

use super::super::{Like, Number, Scenario};
use super::Size;
use crate::{
    child::{Task, Trouble},
    contender::{Contender, Form},
    objects::{Kind, short},
};

/// The contenders of scenarios that measure a handler.
pub(super) const CONTROLLERS: [Contender; 4] = [
    Contender::Windlass,
    Contender::Runtime,
    Contender::ControllerRuntime,
    Contender::GrafanaAppSdk,
];

impl Size {
    /// P4: 1,000 updates per second.
    pub(super) fn latency(self) -> Vec<Scenario> {
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

    /// P3, P5, P6 and reads of stores with the other forms of a controller. The peers are not
    /// measured again.
    pub(super) fn forms(self) -> Vec<Scenario> {
        let lists = self.lists(Kind::Pod).into_iter();
        let reads = lists.filter(|it| it.task == Task::Read).collect();
        let measured = [self.updates(), self.reconciles(), self.retries(), reads].concat();
        let with = |form, id: &str, peers: &[Contender], measured_ids: &[&str]| {
            let measured = measured.iter().filter_map(|scenario| {
                let (group, rest) = scenario.name.split_once('-')?;
                let wanted = measured_ids.contains(&group) && !rest.starts_with("store");
                let among = |it: &&Contender| scenario.contenders.contains(it);
                wanted.then(|| Scenario {
                    name: format!("{group}-{id}-{rest}"),
                    form,
                    contenders: [&[Contender::Windlass], peers].concat(),
                    like: Some(Like {
                        name: scenario.name.clone(),
                        contenders: peers.iter().filter(among).copied().collect(),
                    }),
                    ..scenario.clone()
                })
            });
            measured.collect::<Vec<_>>()
        };
        let level = [Contender::Runtime, Contender::ControllerRuntime];
        [
            with(Form::Level, "level", &level, &["P3", "P5", "P6", "read"]),
            with(
                Form::Runtime,
                "runtime",
                &[Contender::Runtime],
                &["P3", "P5"],
            ),
        ]
        .concat()
    }

    /// P7: one broken watch and one working watch.
    pub(super) fn broken_watch(self) -> Scenario {
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

    /// P7: one object that disturbs many others.
    pub(super) fn troubles(self) -> Vec<Scenario> {
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
}
