//! The queue alone: objects that are in the store already, and handlers that do nothing.
//!
//! No server and no watch takes part: each key is queued by a request for all of
//! them. So what is measured is what stands between a store and a handler.

mod handler;
mod runtime;
mod windlass;

use std::{sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use tokio::time::sleep;

use self::handler::{Does, Handler};
use crate::{
    Result,
    contender::Contender,
    measure::{Measured, Meter, Moment, float, processor_time},
};

/// A contender whose store has all objects, and whose queue is empty.
trait Queue: Send + Sync {
    /// Queues every key.
    fn offer_all(&self) -> Result<()>;
}

/// Reconciles that do nothing, by the round: one costs what so many rounds cost more than one.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Reconciles {
    /// How many objects are reconciled in each.
    #[arg(long, default_value_t = 1_000)]
    keys: usize,

    #[arg(long, default_value_t = 1)]
    rounds: usize,

    #[arg(long, value_enum, default_value_t = Way::Waiting)]
    way: Way,
}

/// What becomes of a key between the store and the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// It waits until all are queued, as in P5.
    Waiting,
    /// It is taken as soon as can be.
    Passing,
    /// The same, as in P6: every other round leaves a retry of each, which the next makes
    /// needless. To set and to cancel one costs what two such rounds cost more than two of those
    /// that only pass.
    Pending,
}

/// How many calls are made at once, at most.
const AT_ONCE: u16 = 64;

/// How many namespaces the objects are in.
const NAMESPACES: usize = 100;

/// To be called again, and nothing of it comes due here.
const FAR: Does = Does::Again {
    after: Duration::from_secs(100_000),
    within: Duration::from_secs(1_000),
};

/// Enough reconciles for a clock that other work disturbs.
const ENOUGH: usize = 200_000;

/// Runs `job` on so many threads.
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
    // What works is not the thread that waits for it.
    runtime.block_on(async { tokio::spawn(job).await? })
}

/// Reconciles that do nothing: what each costs, and what a key costs that waits for one.
pub(crate) async fn reconciles(
    contender: Contender,
    count: usize,
    meter: Option<Meter>,
) -> Result<Measured> {
    let mut measured = Measured::default();
    let handler = Arc::new(Handler::new(count));
    let queue = start(contender, count, &handler).await?;
    idle().await;
    if meter.is_none() {
        // The first round is slower. What it needs more memory for, though, is the keys'.
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

/// Calls that are to be made again later: what it costs to have one pending, to make it
/// needless, and how late it is made.
pub(crate) async fn retries(
    contender: Contender,
    count: usize,
    meter: Option<Meter>,
) -> Result<Measured> {
    let mut measured = Measured::default();
    let handler = Arc::new(Handler::new(count));
    let queue = start(contender, count, &handler).await?;
    let mut costs = Vec::new();
    if meter.is_some() {
        // For memory the first round counts: what was made for it is there for the next.
        handler.expect(count, FAR);
        let begun = Moment::now(meter);
        queue.offer_all()?;
        handler.all().await;
        idle().await;
        begun.growth(count, &mut measured);
        return Ok(measured);
    }
    // The first round is to warm up; then reconciles that leave nothing, that set, and that
    // cancel what was set.
    for does in [Does::Nothing, Does::Nothing, FAR, Does::Nothing] {
        handler.expect(count, does);
        let begun = Moment::now(meter);
        queue.offer_all()?;
        handler.all().await;
        idle().await;
        begun.cost(count, &mut measured);
        costs.push(measured.get("cpu_us").unwrap_or_default());
    }
    measured.set("set_cancel_us", costs[2] + costs[3] - 2.0 * costs[1]);
    let within = Duration::from_micros(20 * count as u64);
    let soon = Does::Again {
        // Late enough that all have been set, also where other work takes most of the time.
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
            let queue = start(Contender::Windlass, keys, &handler).await?;
            for round in 0..rounds {
                // The last one leaves nothing.
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

async fn start(
    contender: Contender,
    count: usize,
    handler: &Arc<Handler>,
) -> Result<Box<dyn Queue>> {
    match contender {
        Contender::Windlass => windlass::start(count, Arc::clone(handler)).await,
        _ => runtime::start(count, Arc::clone(handler)).await,
    }
}

/// Object `index`, as small as can be: it is not what is measured.
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

/// Waits until there is nothing to do.
async fn idle() {
    /// Long enough to see that nothing happens, and a share of it that is nothing.
    const WHILE: Duration = Duration::from_millis(20);
    const NOTHING: Duration = Duration::from_micros(500);
    loop {
        // Not a whole moment: what it reads of the process would be in what is measured.
        let begun = processor_time();
        sleep(WHILE).await;
        if processor_time().saturating_sub(begun) < NOTHING {
            return;
        }
    }
}
