//! One run: the operator, its users and its faults, until the end state is reached.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::{
    runtime::{Builder, Handle},
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;
use windlass_apiserver::ApiServer;
use windlass_informer::SimulatedHost;

use crate::{
    EndState, Fault, Plan, Process, Simulation, Step, Trace, Violation,
    direct::Refusal,
    oracle,
    process::{Cached, Contents},
    secrets::Secrets,
    simulation::Settings,
    state,
    world::{Origin, Unseen, World},
};

/// The time of day at which every run begins: 2026-01-01.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

/// How long a process that ended is away.
const RESTART: Duration = Duration::from_secs(1);

/// How long a process has to end in good order.
const GRACE: Duration = Duration::from_secs(30);

/// How long the operator reacts to the last step of the users before the quiet time: faults happen
/// to that too.
const REACTION: Duration = Duration::from_secs(5);

/// After that, how long faults can still happen.
const TAIL: Duration = Duration::from_secs(30);

/// How long tasks of a dropped process have to end.
const DROPPED: Duration = Duration::from_secs(5);

/// One run, as it was recorded.
pub(crate) struct Run {
    pub(crate) violations: Vec<Violation>,
    pub(crate) trace: Trace,
    pub(crate) fields: state::Fields,
    pub(crate) writes: BTreeMap<String, u32>,
    /// The faults that took effect, in order.
    pub(crate) faults: Vec<Fault>,
    pub(crate) unseen: Unseen,
    /// The steps of the users that the server refused as invalid.
    pub(crate) refused_steps: BTreeSet<usize>,
    /// Whether calls failed, or writes of the operator were refused, when no fault happened any
    /// more and half of the time to recover was over.
    pub(crate) fails: bool,
}

/// The newest process of each replica.
type Processes = Arc<Mutex<BTreeMap<usize, Process>>>;

/// Runs `plan`, in a runtime of its own on this thread.
///
/// # Panics
///
/// If there is no runtime to be had, or this thread runs one already.
pub(crate) fn run(simulation: &Simulation, plan: &Plan) -> Run {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing of the system");
    let secrets = Secrets::new(&simulation.settings.secrets);
    let reads_logs = !simulation.settings.secrets.is_empty();
    let _logs = reads_logs.then(|| tracing::subscriber::set_default(secrets.clone()));
    let mut run = runtime.block_on(drive(simulation, plan));
    if let Some(text) = secrets.found() {
        run.violations.push(Violation::new(oracle::SECRETS, text));
    }
    (run.violations).retain(|it| !simulation.settings.oracles_left_out.contains(&it.oracle));
    run
}

async fn drive(simulation: &Simulation, plan: &Plan) -> Run {
    let settings = &simulation.settings;
    let beginning = SystemTime::UNIX_EPOCH + BEGINNING;
    let _host = SimulatedHost::enter(plan.seed, beginning);
    let server = ApiServer::builder()
        .seed(plan.seed)
        .wall_clock(beginning)
        .history_age(Duration::from_secs(86_400))
        .start();
    let world = World::new(plan, server, settings.replicas, settings.request_limit);
    for step in &settings.beginning {
        if let Err(refusal) = do_step(&world, step).await {
            check_refusal(plan, &world, step, &refusal);
        }
    }

    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let processes = Processes::default();
    let replicas: Vec<_> = (0..settings.replicas)
        .map(|replica| {
            let supervise = supervise(
                simulation.clone(),
                Arc::clone(&world),
                replica,
                Arc::clone(&processes),
            );
            AbortOnDropHandle::new(tokio::spawn(supervise))
        })
        .collect();

    let refused_steps = users(settings, plan, &world).await;
    world.end_faults();
    // In the second half there is at least one retry of a call that fails each time.
    pass(&world, settings.recovery / 2).await;
    world.recovered();
    pass(&world, settings.recovery / 2).await;
    let end = snapshot(settings, &world);
    let requests = world.requests();
    pass(&world, settings.stay).await;
    let later = snapshot(settings, &world);
    let fields = end.fields();
    let changes = state::difference(&fields, &later.fields(), &BTreeSet::default());
    if let Some(change) = changes.first() {
        world.violate(oracle::STAYS, format!("it changed later: {change}"));
    }
    check_requests(settings, &world, requests);
    check_caches(&world, &processes).await;
    let unseen = world.unseen(&world.server.objects());

    drop(replicas);
    processes.lock().clear();
    sleep(DROPPED).await;
    let left = tasks().saturating_sub(before);
    if left > 0 {
        world.violate(
            oracle::TASKS,
            format!("{left} tasks still run after the drop"),
        );
    }
    let finished = world.finish();
    let mut violations = finished.violations;
    for (name, check) in &settings.oracles {
        if let Err(text) = check(&end) {
            violations.push(Violation::new(name, text));
        }
    }
    Run {
        violations,
        trace: finished.trace,
        fields,
        writes: finished.writes,
        faults: finished.faults,
        unseen,
        refused_steps,
        fails: finished.fails,
    }
}

/// Does what users do, each step after a pause that depends on the seed. Returns the steps that
/// the server refused as invalid.
async fn users(settings: &Settings, plan: &Plan, world: &Arc<World>) -> BTreeSet<usize> {
    let mut refused = BTreeSet::new();
    for (number, step) in settings.steps.iter().enumerate() {
        if plan.without.contains(&number) {
            continue;
        }
        let pace = u64::try_from(settings.pace.as_millis()).unwrap_or(u64::MAX);
        pass(world, Duration::from_millis(world.random(0..=pace))).await;
        if world.is_flooded() {
            return refused;
        }
        if let Err(refusal) = do_step(world, step).await {
            if refusal.is_invalid() {
                refused.insert(number);
            }
            if !(refusal.is_invalid() && settings.has_invalid_steps) {
                check_refusal(plan, world, step, &refusal);
            }
        }
    }
    pass(world, REACTION).await;
    let mut left = TAIL;
    while !left.is_zero() && !world.has_acted() {
        pass(world, RESTART).await;
        left = left.saturating_sub(RESTART);
    }
    world.background_tasks.close();
    world.background_tasks.wait().await;
    refused
}

async fn do_step(world: &Arc<World>, step: &Step) -> Result<(), Refusal> {
    if let Some(path) = step.created() {
        world.add_user_object(path);
    }
    world.log(None, &format!("user: {step}"));
    let result = step.run(&world.direct, &world.write_lock).await;
    if let Err(refusal) = &result {
        world.log(None, &format!("user: refused with {refusal}"));
    }
    result
}

/// A refused step is a violation if no fault and no step that was left out can be the reason:
/// otherwise the operator would have nothing to do, and every oracle would hold.
fn check_refusal(plan: &Plan, world: &World, step: &Step, refusal: &Refusal) {
    if plan.faults.is_empty() && plan.without.is_empty() {
        let text = format!("{step}: refused with {refusal}");
        world.violate(oracle::STEPS, text);
    }
}

/// Lets time pass; returns early if the operator sends requests without end.
async fn pass(world: &World, time: Duration) {
    const SLICE: Duration = Duration::from_secs(10);

    let mut left = time;
    while !left.is_zero() && !world.is_flooded() {
        let slice = left.min(SLICE);
        sleep(slice).await;
        left -= slice;
    }
}

/// Runs one replica: starts a process again whenever it has ended.
async fn supervise(
    simulation: Simulation,
    world: Arc<World>,
    replica: usize,
    processes: Processes,
) {
    loop {
        let (origin, crash, stop) = world.start(replica);
        let process = Process::new(Arc::clone(&world), origin, stop.clone());
        processes.lock().insert(replica, process.clone());
        // The call that makes the future can panic too.
        let run = async { (simulation.operator)(process).await };
        let run = AssertUnwindSafe(run).catch_unwind();
        let stopped = async {
            stop.cancelled().await;
            sleep(GRACE).await;
        };
        tokio::select! {
            biased;
            () = crash.cancelled() => world.log(Some(origin), "process crashed"),
            () = stopped => world.log(Some(origin), "process killed after its grace period"),
            ended = run => ended_by_itself(&world, origin, stop.is_cancelled(), ended.ok()),
        }
        world.crash(origin);
        processes.lock().remove(&replica);
        sleep(RESTART).await;
    }
}

fn ended_by_itself(world: &World, origin: Origin, stopped: bool, how: Option<String>) {
    let panicked = how.is_none();
    let text = how.unwrap_or_else(|| "a panic".to_owned());
    world.log(Some(origin), &format!("process ended: {text}"));
    // A replica that lost its lease has to end, but never by a panic.
    if panicked || (!stopped && world.replicas() == 1) {
        world.violate(oracle::RUNS, format!("process {origin} ended: {text}"));
    }
}

fn snapshot(settings: &Settings, world: &World) -> EndState {
    EndState::new(
        &world.server.objects(),
        world.all_external(),
        &settings.ignored,
    )
}

/// Few requests are sent once the end state is reached.
fn check_requests(settings: &Settings, world: &World, before: u64) {
    let sent = world.requests().saturating_sub(before);
    let seconds = settings.stay.as_secs().max(1);
    let replicas = u64::try_from(settings.replicas).unwrap_or(u64::MAX);
    if sent > seconds.saturating_mul(replicas) {
        let text = format!("{sent} requests in {seconds} s in which there was nothing to do");
        world.violate(oracle::BOUNDED, text);
    }
}

/// What the observed informers have is what the server has, and they say that they are up.
async fn check_caches(world: &World, processes: &Processes) {
    let processes: Vec<_> = processes.lock().values().cloned().collect();
    for process in processes {
        for cache in process.caches() {
            // A replica that does not lead may not have started its informers.
            if !cache.has_synced && world.replicas() > 1 {
                continue;
            }
            if let Some(problem) = &cache.problem {
                world.violate(oracle::HEALTH, format!("an informer is not up: {problem}"));
            }
            check_cache(world, process.origin(), cache).await;
        }
    }
}

/// What an informer has is what the server has of one of the selections that its process watches.
async fn check_cache(world: &World, origin: Origin, cache: Contents) {
    let (resource, mut shown) = (cache.resource, cache.objects);
    shown.sort_unstable();
    let objects = world.server.objects();
    let all = objects.into_iter().filter(|(name, _)| *name == resource);
    let all: Vec<_> = all.map(|(_, object)| object).collect();
    let mut selected = Vec::new();
    for path in world.selections(origin, &resource) {
        let list = world.direct.get(&path).await.unwrap_or_default();
        selected.push(list["items"].as_array().cloned().unwrap_or_default());
    }
    // A source that sends no requests.
    if selected.is_empty() {
        selected.push(all);
    }
    let mut difference = None;
    for objects in selected {
        let mut there: Vec<_> = objects.iter().map(Cached::of).collect();
        there.sort_unstable();
        let ghost = shown.iter().find(|it| !there.contains(it));
        let missing = there.iter().find(|it| !shown.contains(it));
        let text = match (ghost, missing) {
            (None, None) => return,
            (Some(ghost), _) => {
                format!("an informer of {resource} has {ghost:?}, the server has not")
            }
            (_, Some(missing)) => format!("an informer of {resource} lacks {missing:?}"),
        };
        difference.get_or_insert(text);
    }
    if let Some(text) = difference {
        world.violate(oracle::CACHES, text);
    }
}
