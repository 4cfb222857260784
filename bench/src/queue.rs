//! Measures the queue alone: the objects are in the store already, and the handlers are empty.
//!
//! There is no server and no watch: each round queues all keys. So the numbers are the cost between
//! a store and a handler.

mod handler;
mod level;
mod moved;
mod runtime;
mod served;
mod windlass;

use std::{sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use tokio::time::sleep;

use self::handler::{Does, Handler};
use crate::{
    Result,
    contender::{Contender, Form},
    measure::{Measured, Meter, Moment, float, processor_time},
};

/// A contender with a filled store and an empty queue.
trait Queue: Send + Sync {
    /// Queues every key.
    fn offer_all(&self) -> Result<()>;
}

/// A contender whose queue is measured, and the number of its objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) contender: Contender,
    pub(crate) form: Form,
    pub(crate) count: usize,
}

/// Runs rounds of empty reconciles. The cost of a round is the difference to a run with one round
/// less.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Reconciles {
    /// The number of objects in each round.
    #[arg(long, default_value_t = 1_000)]
    keys: usize,

    #[arg(long, default_value_t = 1)]
    rounds: usize,

    #[arg(long, value_enum, default_value_t = Way::Waiting)]
    way: Way,
}

/// How keys pass from the store to the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Handlers wait until all keys are queued, as in P5.
    Waiting,
    /// Workers take keys immediately.
    Passing,
    /// Workers take keys immediately, and every second round schedules a retry of each key, which
    /// the next round cancels, as in P6. The cost of both is the difference between two such rounds
    /// and two rounds of the variant above.
    Pending,
}

/// The most concurrent calls.
const AT_ONCE: u16 = 64;

/// The number of namespaces of the objects.
const NAMESPACES: usize = 100;

/// The delay of retries that are never due during a run.
const FAR: Does = Does::Again {
    after: Duration::from_secs(100_000),
    within: Duration::from_secs(1_000),
};

/// Enough reconciles for a stable time on a busy machine.
const ENOUGH: usize = 200_000;

/// Runs `job` on this number of threads.
pub(crate) fn on(
    threads: usize,
    job: impl Future<Output = Result<Measured>> + Send + 'static,
) -> Result<Measured> {
    let mut runtime = if threads == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = runtime.worker_threads(threads).enable_all().build()?;
    // The workers are other threads than the one that waits here.
    runtime.block_on(async { tokio::spawn(job).await? })
}

/// Empty reconciles: the cost of each, and the memory of a waiting key.
pub(crate) async fn reconciles(queued: Queued, meter: Option<Meter>) -> Result<Measured> {
    let Queued { count, .. } = queued;
    let mut measured = Measured::default();
    let handler = Arc::new(Handler::new(count));
    let queue = start(queued, &handler).await?;
    idle().await;
    if meter.is_none() {
        // The first round is slower. But its additional memory belongs to the keys.
        handler.expect(count, Does::Nothing);
        queue.offer_all()?;
        handler.all().await;
        idle().await;
    }

    let rounds = if meter.is_some() {
        1
    } else {
        (ENOUGH / count).clamp(1, 10)
    };
    let (mut offer, mut drain) = (0.0, 0.0);
    for _ in 0..rounds {
        handler.expect(count, Does::Nothing);
        handler.close();
        let begun = Moment::now(meter);
        queue.offer_all()?;
        idle().await;
        begun.cost(count, &mut measured);
        begun.growth(count, &mut measured);
        let offered = measured.get("allocations").unwrap_or_default();
        offer += measured.get("cpu_us").unwrap_or_default();
        let begun = Moment::now(meter);
        handler.open();
        handler.all().await;
        begun.cost(count, &mut measured);
        drain += measured.get("cpu_us").unwrap_or_default();
        let drained = measured.get("allocations").unwrap_or_default();
        measured.set("allocations", offered + drained);
        idle().await;
    }
    let rounds = float(rounds as u64);
    measured.set("offer_us", offer / rounds);
    measured.set("drain_us", drain / rounds);
    measured.set("cpu_us", (offer + drain) / rounds);
    measured.set("per_second", 1e6 * rounds / (offer + drain));
    Ok(measured)
}

/// Retries: the cost of a call that schedules one and of the call that cancels it, the part of both
/// that is not the calls, the memory of a pending one, and the delay after the due time.
pub(crate) async fn retries(queued: Queued, meter: Option<Meter>) -> Result<Measured> {
    let Queued { count, .. } = queued;
    let mut measured = Measured::default();
    let handler = Arc::new(Handler::new(count));
    let queue = start(queued, &handler).await?;
    let mut costs = Vec::new();
    if meter.is_some() {
        // A round without retries, so that objects that are read for the first time do not count.
        handler.expect(count, Does::Nothing);
        queue.offer_all()?;
        handler.all().await;
        idle().await;
        handler.expect(count, FAR);
        let begun = Moment::now(meter);
        queue.offer_all()?;
        handler.all().await;
        idle().await;
        begun.growth(count, &mut measured);
        return Ok(measured);
    }
    // A warm-up round, a round without retries, a round that schedules them, and a round that
    // cancels them.
    for does in [Does::Nothing, Does::Nothing, FAR, Does::Nothing] {
        handler.expect(count, does);
        let begun = Moment::now(meter);
        queue.offer_all()?;
        handler.all().await;
        idle().await;
        begun.cost(count, &mut measured);
        costs.push(measured.get("cpu_us").unwrap_or_default());
    }
    measured.set("requeue_us", costs[2] + costs[3]);
    measured.set("set_cancel_us", costs[2] + costs[3] - 2.0 * costs[1]);
    let within = Duration::from_micros(20 * count as u64);
    let soon = Does::Again {
        // Late enough that all are scheduled before, even on a busy machine.
        after: Duration::from_secs_f64(costs[2] * float(count as u64) / 1e6 * 5.0 + 0.5),
        within,
    };
    handler.expect(2 * count, soon);
    let begun = Moment::now(meter);
    queue.offer_all()?;
    handler.all().await;
    begun.cost(count, &mut measured);
    handler.lateness(&mut measured);
    Ok(measured)
}

impl Reconciles {
    pub(crate) fn run(&self) -> Result<()> {
        let Self { keys, rounds, way } = *self;
        let job = async move {
            let handler = Arc::new(Handler::new(keys));
            let queued = Queued {
                contender: Contender::Windlass,
                form: Form::Events,
                count: keys,
            };
            let queue = start(queued, &handler).await?;
            for round in 0..rounds {
                // The last round schedules nothing.
                let leaves = way == Way::Pending && (rounds - round) % 2 == 0;
                handler.expect(keys, if leaves { FAR } else { Does::Nothing });
                if way == Way::Waiting {
                    handler.close();
                }
                queue.offer_all()?;
                if way == Way::Waiting {
                    idle().await;
                    handler.open();
                }
                handler.all().await;
                idle().await;
            }
            Ok(Measured::default())
        };
        on(1, job).map(drop)
    }
}

async fn start(queued: Queued, handler: &Arc<Handler>) -> Result<Box<dyn Queue>> {
    let (count, handler) = (queued.count, Arc::clone(handler));
    match (queued.contender, queued.form) {
        (Contender::Windlass, Form::Events) => windlass::start(count, handler).await,
        (Contender::Windlass, Form::Level) => level::start(count, handler).await,
        (Contender::Windlass, Form::Runtime) => moved::start(count, handler).await,
        _ => runtime::start(count, handler).await,
    }
}

/// The object with this index, as small as possible.
fn object(index: usize) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("config-{index}")),
            namespace: Some(format!("namespace-{}", index % NAMESPACES)),
            uid: Some(format!("00000000-0000-4000-8000-{index:012}")),
            resource_version: Some("1".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// The index of an [`object`].
fn index_of(object: &ConfigMap) -> Option<usize> {
    let name = object.metadata.name.as_deref()?;
    name.strip_prefix("config-")?.parse().ok()
}

/// Waits until the process is idle.
async fn idle() {
    /// The time between two checks, and the CPU time below which the process is idle.
    const WHILE: Duration = Duration::from_millis(20);
    const NOTHING: Duration = Duration::from_micros(500);
    loop {
        // Only the CPU time, because reading the other meters would cost CPU time.
        let begun = processor_time();
        sleep(WHILE).await;
        if processor_time().saturating_sub(begun) < NOTHING {
            return;
        }
    }
}
