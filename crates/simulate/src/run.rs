//! One run: starts the operator, makes the steps of the users, injects faults, and records the end state.

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
    process::{CachedObject, InformerSnapshot},
    received::Received,
    secrets::Secrets,
    simulation::Settings,
    state,
    world::{Origin, World},
};

/// The wall-clock time at which every run begins: 2026-01-01.
pub(crate) const START: Duration = Duration::from_secs(1_767_225_600);

/// The time between the end of a process and its restart.
const RESTART: Duration = Duration::from_secs(1);

/// The time that a process has for a graceful shutdown.
const GRACE: Duration = Duration::from_secs(30);

/// The time after the last step of the users in which the operator reacts to it, and in which
/// faults are still injected.
const REACTION: Duration = Duration::from_secs(5);

/// The longest further wait for planned faults that have not been injected yet.
const REMAINING_FAULTS: Duration = Duration::from_secs(30);

/// The time in which the tasks of a dropped process have to end.
const TASKS_END: Duration = Duration::from_secs(5);

/// The recorded results of one run.
pub(crate) struct Run {
    pub(crate) violations: Vec<Violation>,
    pub(crate) trace: Trace,
    pub(crate) fields: state::Fields,
    pub(crate) writes: BTreeMap<String, u32>,
    /// The faults that took effect, in order.
    pub(crate) faults: Vec<Fault>,
    pub(crate) received: Received,
    /// The steps of the users that the server rejected as invalid.
    pub(crate) refused_steps: BTreeSet<usize>,
    /// Whether calls failed, or writes of the operator were rejected, in the second half of the
    /// recovery time, when no fault was injected any more.
    pub(crate) fails: bool,
}

/// The newest process of each replica.
type Processes = Arc<Mutex<BTreeMap<usize, Process>>>;

/// Runs `plan` in a new runtime on this thread.
///
/// # Panics
///
/// If the runtime cannot be built, or if this thread has a runtime already.
pub(crate) fn run(simulation: &Simulation, plan: &Plan) -> Run {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs no resources of the system");
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

/// Starts the server of a run.
pub(crate) fn server(seed: u64, start: SystemTime) -> ApiServer {
    ApiServer::builder()
        .seed(seed)
        .wall_clock(start)
        .history_age(Duration::from_secs(86_400))
        // The end state does not depend on how long the run takes.
        .event_ttl(Duration::ZERO)
        .start()
}

async fn drive(simulation: &Simulation, plan: &Plan) -> Run {
    let settings = &simulation.settings;
    let start = SystemTime::UNIX_EPOCH + START;
    let _host = SimulatedHost::enter(plan.seed, start);
    let server = server(plan.seed, start);
    let world = World::new(plan, server, settings.replicas, settings.request_limit);
    for step in &settings.initial_steps {
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
    // The second half is long enough for at least one retry of a call that always fails.
    pass(&world, settings.recovery / 2).await;
    world.begin_second_recovery_half();
    pass(&world, settings.recovery / 2).await;
    let end = snapshot(settings, &world);
    let requests = world.requests();
    pass(&world, settings.stay).await;
    let later = snapshot(settings, &world);
    let fields = end.fields();
    let changes = state::difference(&fields, &later.fields(), &BTreeSet::default());
    if let Some(change) = changes.first() {
        world.report_violation(oracle::STAYS, format!("the end state changed: {change}"));
    }
    check_requests(settings, &world, requests);
    check_caches(&world, &processes).await;
    let received = world.received(&world.server.objects());

    drop(replicas);
    processes.lock().clear();
    sleep(TASKS_END).await;
    let left = tasks().saturating_sub(before);
    if left > 0 {
        world.report_violation(
            oracle::TASKS,
            format!("{left} tasks still run after the process was dropped"),
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
        received,
        refused_steps,
        fails: finished.fails,
    }
}

/// Makes the steps of the users, each after a pause that depends on the seed. Returns the steps
/// that the server rejected as invalid.
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
    let mut left = REMAINING_FAULTS;
    while !left.is_zero() && !world.has_injected_all_faults() {
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

/// Reports a rejected step as a violation, unless a fault or an omitted step can be the reason.
/// Without this check, an operator that has no work would satisfy every oracle.
fn check_refusal(plan: &Plan, world: &World, step: &Step, refusal: &Refusal) {
    if plan.faults.is_empty() && plan.without.is_empty() {
        let text = format!("{step}: refused with {refusal}");
        world.report_violation(oracle::STEPS, text);
    }
}

/// Lets virtual time pass. Returns early when the operator has reached its limit of requests.
async fn pass(world: &World, time: Duration) {
    const SLICE: Duration = Duration::from_secs(10);

    let mut left = time;
    while !left.is_zero() && !world.is_flooded() {
        let slice = left.min(SLICE);
        sleep(slice).await;
        left -= slice;
    }
}

/// Runs one replica: restarts the process each time it has ended.
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
        // The call that creates the future can panic too.
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
    // A replica that lost its lease has to end, but must not panic. A single one loses it only by a fault.
    let lost_lease = text.contains("LeadershipLost") && world.has_injected_faults();
    if panicked || (!stopped && world.replicas() == 1 && !lost_lease) {
        world.report_violation(oracle::RUNS, format!("process {origin} ended: {text}"));
    }
}

fn snapshot(settings: &Settings, world: &World) -> EndState {
    EndState::new(
        &world.server.objects(),
        world.all_external(),
        &settings.ignored,
    )
}

/// Checks that the operator sends few requests after it has reached the end state.
fn check_requests(settings: &Settings, world: &World, before: u64) {
    let sent = world.requests().saturating_sub(before);
    let seconds = settings.stay.as_secs().max(1);
    let replicas = u64::try_from(settings.replicas).unwrap_or(u64::MAX);
    if sent > seconds.saturating_mul(replicas) {
        let text = format!("{sent} requests in {seconds} s without a change or a fault");
        world.report_violation(oracle::BOUNDED, text);
    }
}

/// Checks that the stores of the observed informers equal the server, and that they are healthy.
async fn check_caches(world: &World, processes: &Processes) {
    let processes: Vec<_> = processes.lock().values().cloned().collect();
    for process in processes {
        for cache in process.informer_snapshots() {
            // A replica that does not lead may not have started its informers.
            if !cache.has_synced && world.replicas() > 1 {
                continue;
            }
            if let Some(problem) = &cache.problem {
                world.report_violation(
                    oracle::HEALTH,
                    format!("an informer is not healthy: {problem}"),
                );
            }
            check_cache(world, process.origin(), cache).await;
        }
    }
}

/// Checks that the store of an informer equals one of the selections that its process watches.
async fn check_cache(world: &World, origin: Origin, cache: InformerSnapshot) {
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
    // The source of the informer sends no requests.
    if selected.is_empty() {
        selected.push(all);
    }
    let mut difference = None;
    for objects in selected {
        let mut there: Vec<_> = objects.iter().map(CachedObject::of).collect();
        there.sort_unstable();
        let ghost = shown.iter().find(|it| !there.contains(it));
        let missing = there.iter().find(|it| !shown.contains(it));
        let text = match (ghost, missing) {
            (None, None) => return,
            (Some(ghost), _) => {
                format!("an informer of {resource} has {ghost:?}, which the server does not have")
            }
            (_, Some(missing)) => format!("an informer of {resource} lacks {missing:?}"),
        };
        difference.get_or_insert(text);
    }
    if let Some(text) = difference {
        world.report_violation(oracle::CACHES, text);
    }
}
