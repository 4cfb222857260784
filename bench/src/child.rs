//! One contender with one thing to do, in a process of its own.

mod embedded;

use std::{sync::Arc, time::Duration};

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Client, Config, client::Body};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

pub(crate) use self::embedded::fill;
use crate::{
    Result,
    contender::{
        Contender, Following, Lists, Object,
        floor::{self, Bare, BareConfigMap, BarePod, Kept},
        runtime, windlass,
    },
    measure::{Measured, Meter, Moment, Sampler},
    objects::Kind,
    seen::Seen,
    server::update_version,
};

/// What a child does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(
    clippy::unsafe_derive_deserialize,
    reason = "it is `tokio::join!` that is unsafe inside, and it has no part in what a job is"
)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    pub(crate) task: Task,
    pub(crate) kind: Kind,
    pub(crate) count: usize,
    pub(crate) lists: Lists,

    /// Where the server is; none for an embedded one in the child itself.
    pub(crate) url: Option<String>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// A store, from nothing to whole.
    Sync,
    /// A controller, from nothing until its handler was called for every object.
    Start,
    /// A store whose history is gone: a list that shows nothing new.
    Relist,
    /// Updates, to a listener of the store; `rate` a second, or as many as can be.
    Stream { events: usize, rate: u64 },
    /// Updates, to the handler of a controller.
    Handle { events: usize, rate: u64 },
    /// Updates to the handler of a controller, one of whose two watches is broken.
    Isolation { events: usize, rate: u64 },
}

/// Long enough that what was begun is done.
const QUIET: Duration = Duration::from_millis(300);

// === impl Job ===

impl Job {
    /// Does it, on one thread, and returns what it measured.
    pub(crate) fn run(self, meter: Option<Meter>) -> Result<Measured> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            match self.kind {
                Kind::Configmap => self.measure::<ConfigMap, BareConfigMap>(meter).await,
                Kind::Pod => self.measure::<Pod, BarePod>(meter).await,
            }
        })
    }

    async fn measure<K: Object, T: Bare>(self, meter: Option<Meter>) -> Result<Measured> {
        let client = if let Some(url) = &self.url {
            Client::try_from(Config::new(url.parse()?))?
        } else {
            let client = windlass_apiserver::ApiServer::new().client();
            fill(&client, self.kind, self.count).await?;
            client
        };
        // Whatever is made once by the first request is not the contender's.
        _ = client
            .send(Request::get("/version").body(Body::empty())?)
            .await;
        sleep(QUIET).await;
        if self.contender == Contender::Floor {
            self.measure_floor::<T>(&client, meter).await
        } else {
            self.measure_contender::<K>(client, meter).await
        }
    }

    async fn measure_contender<K: Object>(
        &self,
        client: Client,
        meter: Option<Meter>,
    ) -> Result<Measured> {
        let Self { task, count, .. } = *self;
        let mut measured = Measured::default();
        let timed = !matches!(task, Task::Sync | Task::Start | Task::Relist);
        let seen = Arc::new(Seen::new(count, timed));
        let begun = Moment::now(meter);
        let following = self.follow::<K>(client.clone(), &seen).await?;
        begun.cost(count, &mut measured);
        sleep(QUIET).await;
        begun.growth(count, &mut measured);
        match task {
            Task::Sync | Task::Start => {
                if task == Task::Start {
                    measured.set("calls", calls(&seen));
                }
            }
            Task::Relist => {
                seen.want(0, count);
                let sampler = meter.map(Sampler::start);
                let begun = Moment::now(meter);
                let (done, expired) =
                    tokio::join!(following.relisted, post(&client, "/bench/expire"));
                let () = done;
                expired?;
                begun.cost(count, &mut measured);
                sleep(QUIET).await;
                measured.set("calls", calls(&seen));
                if let Some(sampler) = sampler {
                    let base = measured.get("settled_bytes").unwrap_or_default();
                    measured.set(
                        "relist_peak_bytes",
                        base + sampler.stop() / crate::measure::float(count as u64),
                    );
                }
            }
            Task::Stream { events, rate }
            | Task::Handle { events, rate }
            | Task::Isolation { events, rate } => {
                let objects = events.min(count);
                seen.want(update_version(count, events - objects), objects);
                let begun = Moment::now(meter);
                post(&client, &format!("/bench/go?events={events}&rate={rate}")).await?;
                let patience = match (task, rate) {
                    (Task::Isolation { .. }, rate) => {
                        Duration::from_secs(2 + events as u64 / rate.max(1))
                    }
                    _ => Duration::from_secs(600),
                };
                let all = timeout(patience, seen.all()).await.is_ok();
                if !all && !matches!(task, Task::Isolation { .. }) {
                    return Err("not every event came".into());
                }
                begun.cost(events, &mut measured);
                measured.set("calls", calls(&seen));
                measured.set(
                    "delivered",
                    crate::measure::float(seen.done(objects) as u64),
                );
                seen.lateness(&mut measured).await;
            }
        }
        Ok(measured)
    }

    async fn follow<K: Object>(&self, client: Client, seen: &Arc<Seen>) -> Result<Following> {
        let listener = Some(Arc::clone(seen)).filter(|_| !matches!(self.task, Task::Sync));
        let broken = matches!(self.task, Task::Isolation { .. });
        let controls = matches!(
            self.task,
            Task::Start | Task::Handle { .. } | Task::Isolation { .. }
        );
        let seen = Arc::clone(seen);
        let lists = self.lists;
        match (self.contender, controls) {
            (Contender::Windlass, false) => windlass::store::<K>(client, lists, listener).await,
            (Contender::Windlass, true) => {
                windlass::controller::<K>(client, lists, seen, broken).await
            }
            (_, false) => runtime::store::<K>(client, lists, listener).await,
            (_, true) => runtime::controller::<K>(client, lists, seen, broken).await,
        }
    }

    async fn measure_floor<T: Bare>(
        &self,
        client: &Client,
        meter: Option<Meter>,
    ) -> Result<Measured> {
        let Self {
            task,
            kind,
            count,
            lists,
            ..
        } = *self;
        let mut measured = Measured::default();
        let begun = Moment::now(meter);
        let mut kept = Kept::<T>::read(client, kind, lists, count).await?;
        begun.cost(count, &mut measured);
        sleep(QUIET).await;
        begun.growth(count, &mut measured);
        match task {
            Task::Sync | Task::Start | Task::Isolation { .. } => {}
            Task::Relist => {
                let begun = Moment::now(meter);
                floor::identities(client, kind).await?;
                begun.cost(count, &mut measured);
            }
            Task::Stream { events, rate } | Task::Handle { events, rate } => {
                let begun = Moment::now(meter);
                post(client, &format!("/bench/go?events={events}&rate={rate}")).await?;
                kept.follow(events).await?;
                begun.cost(events, &mut measured);
            }
        }
        Ok(measured)
    }
}

fn calls(seen: &Seen) -> f64 {
    crate::measure::float(seen.calls())
}

async fn post(client: &Client, url: &str) -> Result<()> {
    let answer = client.send(Request::post(url).body(Body::empty())?).await?;
    answer
        .status()
        .is_success()
        .then_some(())
        .ok_or_else(|| format!("{url}: {}", answer.status()).into())
}
