//! One contender with one thing to do, in a process of its own.

mod embedded;

use std::{sync::Arc, time::Duration};

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Client, Config, client::Body, core::PartialObjectMeta};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

pub(crate) use self::embedded::fill;
use crate::{
    Result,
    contender::{
        Contender, Following, Keeps, Lists, Object,
        floor::{self, Bare, BareConfigMap, BareObject, BarePod, BareText, Kept},
        own::{BareOwnPod, OwnPod},
        runtime, windlass,
    },
    measure::{Measured, Meter, Moment, Sampler},
    objects::Kind,
    queue,
    seen::Seen,
    server::update_version,
    servers::Load,
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
    pub(crate) keeps: Keeps,
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
    /// A store, each of whose objects is read once, and again, and again.
    Read,
    /// A store whose history is gone: a list that shows nothing new.
    Relist,
    /// Updates, to a listener of the store; `rate` a second, or as many as can be.
    Stream { events: usize, rate: u64 },
    /// Updates, to the handler of a controller.
    Handle { events: usize, rate: u64 },
    /// Updates to the handler of a controller, one of whose two watches is broken.
    Isolation { events: usize, rate: u64 },
    /// Updates to the handler of a controller, first quietly and then beside one object that
    /// is trouble.
    Disturbed {
        events: usize,
        rate: u64,
        by: Trouble,
    },
    /// A server, and what is asked of it.
    Serve(Load),
    /// Reconciles that do nothing, of objects that are in the store; on so many threads.
    Reconciles { threads: usize },
    /// Calls that are to be made again: set, cancelled and made.
    Retries,
}

/// What one object does to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Trouble {
    /// It is updated all the time.
    Hot,
    /// Its handler never returns.
    Hanging,
}

/// Long enough that a connection is there.
const SETTLED: Duration = Duration::from_millis(50);

/// How often the object that is hot is updated, a second.
const HOT: u64 = 1000;

/// One round of updates: after how many, how many, and how many a second of others and of the
/// one that is trouble.
#[derive(Clone, Copy)]
struct Round {
    first: usize,
    events: usize,
    rate: u64,
    hot: u64,
}

/// Long enough that what was begun is done.
const QUIET: Duration = Duration::from_millis(200);

// === impl Job ===

impl Job {
    /// Does it, on one thread, and returns what it measured.
    pub(crate) fn run(self, meter: Option<Meter>) -> Result<Measured> {
        let Self {
            contender, count, ..
        } = self;
        match self.task {
            Task::Reconciles { threads } => {
                return queue::on(threads, queue::reconciles(contender, count, meter));
            }
            Task::Retries => return queue::on(1, queue::retries(contender, count, meter)),
            _ => {}
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            match self.kind {
                Kind::Configmap => self.measure::<ConfigMap, BareConfigMap>(meter).await,
                Kind::Pod if self.keeps == Keeps::Own => {
                    self.measure::<OwnPod, BareOwnPod>(meter).await
                }
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
        sleep(SETTLED).await;
        match (self.contender, self.keeps) {
            (Contender::Floor, Keeps::Metadata) => {
                self.measure_floor::<BareObject>(&client, meter).await
            }
            (Contender::Floor, Keeps::Packed) => {
                self.measure_floor::<BareText>(&client, meter).await
            }
            (Contender::Floor, _) => self.measure_floor::<T>(&client, meter).await,
            (_, Keeps::Metadata) => {
                let measured = self.measure_contender::<PartialObjectMeta<K>>(client, meter);
                measured.await
            }
            _ => self.measure_contender::<K>(client, meter).await,
        }
    }

    async fn measure_contender<K: Object>(
        &self,
        client: Client,
        meter: Option<Meter>,
    ) -> Result<Measured> {
        let Self { task, count, .. } = *self;
        let mut measured = Measured::default();
        let timed = !matches!(task, Task::Sync | Task::Read | Task::Start | Task::Relist);
        // The last object is trouble, where one is.
        let apart = matches!(task, Task::Disturbed { .. }).then(|| count - 1);
        let seen = Arc::new(Seen::new(count, timed, apart));
        let nothing = Moment::now(meter);
        let following = self.follow::<K>(client.clone(), &seen).await?;
        nothing.cost(count, &mut measured);
        sleep(QUIET).await;
        nothing.growth(count, &mut measured);
        match task {
            // Neither a server nor what has none is measured here.
            Task::Sync | Task::Start | Task::Serve(_) | Task::Reconciles { .. } | Task::Retries => {
                if task == Task::Start {
                    measured.set("calls", calls(&seen));
                }
            }
            Task::Read => {
                for reads in ["first_us", "second_us", "later_us"] {
                    let begun = Moment::now(meter);
                    (following.read)();
                    begun.time(reads, count, &mut measured);
                }
                nothing.growth(count, &mut measured);
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
                nothing.residence(count, &mut measured);
                measured.set("calls", calls(&seen));
                measured.set(
                    "delivered",
                    crate::measure::float(seen.done(objects) as u64),
                );
                seen.lateness(["p50_us", "p99_us"], &mut measured).await;
            }
            Task::Disturbed { events, rate, by } => {
                self.disturbed((events, rate, by), &client, &seen, &mut measured)
                    .await?;
            }
        }
        Ok(measured)
    }

    /// Measures the others beside one object that is trouble.
    async fn disturbed(
        &self,
        (events, rate, by): (usize, u64, Trouble),
        client: &Client,
        seen: &Seen,
        measured: &mut Measured,
    ) -> Result<()> {
        let round = Round {
            first: 0,
            events,
            rate,
            hot: 0,
        };
        if !self.disturb(client, seen, round).await? {
            return Err("not every event of the quiet run came".into());
        }
        let names = ["quiet_p50_us", "quiet_p99_us"];
        seen.lateness(names, measured).await;
        let hot = match by {
            Trouble::Hot => HOT,
            Trouble::Hanging => 1,
        };
        if by == Trouble::Hanging {
            seen.hang();
        }
        let round = Round {
            first: events,
            hot,
            ..round
        };
        self.disturb(client, seen, round).await?;
        let delivered = seen.done(events) as u64;
        measured.set("delivered", crate::measure::float(delivered));
        // Where one of a hundred never came, there is no such number.
        if seen.done(events) * 100 >= events * 99 {
            seen.lateness(["p50_us", "p99_us"], measured).await;
        }
        let [quiet, loud] = ["quiet_p99_us", "p99_us"].map(|name| measured.get(name));
        if let (Some(quiet), Some(loud)) = (quiet, loud) {
            measured.set("slowdown", loud / quiet);
        }
        Ok(())
    }

    /// Has each of the first objects updated once, and says whether all updates came in time.
    async fn disturb(&self, client: &Client, seen: &Seen, round: Round) -> Result<bool> {
        let Round {
            first,
            events,
            rate,
            hot,
        } = round;
        seen.want(update_version(self.count, first), events);
        post(
            client,
            &format!("/bench/go?events={events}&rate={rate}&hot={hot}"),
        )
        .await?;
        let patience = Duration::from_secs(2 + events as u64 / rate.max(1));
        Ok(timeout(patience, seen.all()).await.is_ok())
    }

    async fn follow<K: Object>(&self, client: Client, seen: &Arc<Seen>) -> Result<Following> {
        let alone = matches!(self.task, Task::Sync | Task::Read);
        let listener = (!alone).then(|| Arc::clone(seen));
        let broken = matches!(self.task, Task::Isolation { .. });
        let controls = matches!(
            self.task,
            Task::Start | Task::Handle { .. } | Task::Isolation { .. } | Task::Disturbed { .. }
        );
        let seen = Arc::clone(seen);
        let Self { lists, keeps, .. } = *self;
        match (self.contender, controls) {
            (Contender::Windlass, false) => {
                windlass::store::<K>(client, lists, keeps, listener).await
            }
            (Contender::Windlass, true) => {
                windlass::controller::<K>(client, lists, keeps, seen, broken).await
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
            keeps,
            ..
        } = *self;
        let mut measured = Measured::default();
        let nothing = Moment::now(meter);
        let mut kept = Kept::<T>::read(client, kind, lists, keeps, count).await?;
        nothing.cost(count, &mut measured);
        sleep(QUIET).await;
        nothing.growth(count, &mut measured);
        match task {
            Task::Sync
            | Task::Read
            | Task::Start
            | Task::Isolation { .. }
            | Task::Disturbed { .. }
            | Task::Serve(_)
            | Task::Reconciles { .. }
            | Task::Retries => {}
            Task::Relist => {
                let begun = Moment::now(meter);
                floor::identities(client, kind, keeps).await?;
                begun.cost(count, &mut measured);
            }
            Task::Stream { events, rate } | Task::Handle { events, rate } => {
                let begun = Moment::now(meter);
                post(client, &format!("/bench/go?events={events}&rate={rate}")).await?;
                kept.follow(events).await?;
                begun.cost(events, &mut measured);
                nothing.residence(count, &mut measured);
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
