//! A child process: runs one task with one contender, and prints the measurements.

mod disturbed;
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
        Contender, Following, Form, Keeps, Lists, Object,
        floor::{self, Bare, BareConfigMap, BareObject, BarePod, BareText, Kept},
        level, moved,
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

/// The job of a child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(
    clippy::unsafe_derive_deserialize,
    reason = "the unsafe code is inside of `tokio::join!`, which does not affect deserialization"
)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    /// The form of Windlass. Other contenders ignore it.
    pub(crate) form: Form,
    pub(crate) task: Task,
    pub(crate) keeps: Keeps,
    pub(crate) kind: Kind,
    pub(crate) count: usize,
    pub(crate) lists: Lists,

    /// The URL of the server. None for an embedded server in the child.
    pub(crate) url: Option<String>,
}

/// The measured task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// A store, until it is filled.
    Sync,
    /// A controller, until its handler was called for every object.
    Start,
    /// A store, each of whose objects is read three times.
    Read,
    /// A relist without changes, after the history has expired.
    Relist,
    /// Updates to a subscriber of the store: `rate` per second, or as fast as possible.
    Stream { events: usize, rate: u64 },
    /// Updates to the handler of a controller.
    Handle { events: usize, rate: u64 },
    /// Updates to the handler of a controller with two watches, one of which is broken.
    Isolation { events: usize, rate: u64 },
    /// Updates to the handler of a controller, first alone and then with a disturbing object.
    Disturbed {
        events: usize,
        rate: u64,
        by: Trouble,
    },
    /// Requests to a server.
    Serve(Load),
    /// Empty reconciles of objects that are in the store, on this number of threads.
    Reconciles { threads: usize },
    /// Retries: scheduled, cancelled and fired.
    Retries,
}

/// How one object disturbs the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Trouble {
    /// The object is updated all the time.
    Hot,
    /// The handler of the object never returns.
    Hanging,
}

/// Enough time to open a connection.
const SETTLED: Duration = Duration::from_millis(50);

/// Enough time for pending work to finish.
const QUIET: Duration = Duration::from_millis(200);

// === impl Job ===

impl Job {
    /// Runs the job on one thread, and returns the measurements.
    pub(crate) fn run(self, meter: Option<Meter>) -> Result<Measured> {
        let Self {
            contender,
            form,
            count,
            ..
        } = self;
        let measured = queue::Queued {
            contender,
            form,
            count,
        };
        match self.task {
            Task::Reconciles { threads } => {
                return queue::on(threads, queue::reconciles(measured, meter));
            }
            Task::Retries => return queue::on(1, queue::retries(measured, meter)),
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
        // One-time allocations of the first request do not count for the contender.
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
        // The last object is the disturbing one, if the task has one.
        let apart = matches!(task, Task::Disturbed { .. }).then(|| count - 1);
        let seen = Arc::new(Seen::new(count, timed, apart));
        let nothing = Moment::now(meter);
        let following = self.follow::<K>(client.clone(), &seen).await?;
        nothing.cost(count, &mut measured);
        sleep(QUIET).await;
        nothing.growth(count, &mut measured);
        match task {
            // `Sync` is measured above; tasks of a server, or without one, are not measured here.
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
                let limit = match (task, rate) {
                    (Task::Isolation { .. }, rate) => {
                        Duration::from_secs(2 + events as u64 / rate.max(1))
                    }
                    _ => Duration::from_secs(600),
                };
                let all = timeout(limit, seen.all()).await.is_ok();
                if !all && !matches!(task, Task::Isolation { .. }) {
                    return Err("some events did not arrive".into());
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

    async fn follow<K: Object>(&self, client: Client, seen: &Arc<Seen>) -> Result<Following> {
        let alone = matches!(self.task, Task::Sync | Task::Read);
        let listener = (!alone).then(|| Arc::clone(seen));
        let broken = matches!(self.task, Task::Isolation { .. });
        let controls = matches!(
            self.task,
            Task::Start | Task::Handle { .. } | Task::Isolation { .. } | Task::Disturbed { .. }
        );
        let seen = Arc::clone(seen);
        let Self {
            lists, keeps, form, ..
        } = *self;
        match (self.contender, controls) {
            (Contender::Windlass, _) if form == Form::Level => {
                level::controller::<K>(client, lists, seen).await
            }
            (Contender::Windlass, _) if form == Form::Runtime => {
                moved::controller::<K>(client, seen).await
            }
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
