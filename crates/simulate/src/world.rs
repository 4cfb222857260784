//! The shared state of one run: the server, the plan, the trace, and the data of the oracles.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::TaskTracker;
use windlass_apiserver::ApiServer;
use windlass_informer::{SimulatedHost, wall_clock};

use crate::{
    Fault, Plan, PlannedFault,
    connection::Target,
    direct::Direct,
    fault::{StepKind, Subject},
    oracle::{self, Violation},
    trace::{Trace, TracedStep},
};

mod calls;
mod network;
mod other_clients;
mod writes;

pub(crate) use self::network::Origin;
use self::network::{Lag, Replica};
use self::{calls::Calls, writes::Writes};

/// The duration of a gap in the watches.
const GAP: Duration = Duration::from_secs(20);

/// The time for which a server lags.
const LAG: Duration = Duration::from_secs(60);

/// The duration of a partition.
const PARTITION: Duration = Duration::from_secs(40);

/// The time for which the machine is frozen: longer than the default duration of a lease, 15 s.
const FREEZE: Duration = Duration::from_secs(25);

/// How far the wall clock jumps: by an hour, as after a wrong change of daylight saving time, or by
/// ten years, as with an empty battery of the clock.
const JUMPS: [Duration; 2] = [
    Duration::from_secs(3600),
    Duration::from_secs(10 * 365 * 86_400),
];

/// The shared state of one run.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) direct: Direct,
    /// The tasks of other clients, and of faults that take effect later.
    pub(crate) background_tasks: TaskTracker,
    /// Held while a user or another client sends several requests that belong together.
    pub(crate) write_lock: tokio::sync::Mutex<()>,
    /// By the path of an object: held from the change of another client until the change is undone.
    foreign_locks: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    began: Instant,
    /// The largest number of requests in the run.
    limit: u64,
    /// Notified when all faults end.
    changed: Notify,
    state: Mutex<State>,
}

struct State {
    random: StdRng,
    planned: Vec<PlannedFault>,
    /// The faults that took effect, in order.
    effective: Vec<Fault>,
    /// The faults that were injected, and that take effect later or possibly not at all.
    pending: Vec<Fault>,
    faults_ended: bool,
    /// Whether the second half of the operator's recovery time has begun.
    is_second_recovery_half: bool,
    /// Whether the operator failed in the second half of its recovery time.
    fails: bool,
    requests: u64,
    replicas: Vec<Replica>,
    trace: Trace,
    external: BTreeMap<String, String>,
    calls: Calls,
    writes: Writes,
    /// The selections that each process has watched, by process and resource.
    selections: BTreeMap<(Origin, String), BTreeSet<String>>,
    /// The paths of the objects that users created.
    user_objects: BTreeSet<String>,
    violations: Vec<Violation>,
}

// === impl World ===

impl World {
    pub(crate) fn new(plan: &Plan, server: ApiServer, replicas: usize, limit: u64) -> Arc<Self> {
        let mut planned = plan.faults.clone();
        planned.sort_unstable();
        let state = State {
            // Other random numbers than those of the host, which uses the same seed.
            random: StdRng::seed_from_u64(!plan.seed),
            planned,
            effective: Vec::new(),
            pending: Vec::new(),
            faults_ended: false,
            is_second_recovery_half: false,
            fails: false,
            requests: 0,
            replicas: (0..replicas).map(|_| Replica::new()).collect(),
            trace: Trace::default(),
            external: BTreeMap::new(),
            calls: Calls::default(),
            writes: Writes::new(replicas > 1),
            selections: BTreeMap::new(),
            user_objects: BTreeSet::new(),
            violations: Vec::new(),
        };
        Arc::new(Self {
            direct: Direct::new(server.clone()),
            server,
            background_tasks: TaskTracker::new(),
            write_lock: tokio::sync::Mutex::default(),
            foreign_locks: Mutex::default(),
            began: Instant::now(),
            limit,
            changed: Notify::new(),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn random(&self, range: std::ops::RangeInclusive<u64>) -> u64 {
        self.state.lock().random.random_range(range)
    }

    // --- processes ---

    // --- steps ---

    /// Counts a step, and returns the fault to inject at it. Faults that affect more than the step
    /// begin here, and are not returned.
    pub(crate) fn step(
        self: &Arc<Self>,
        origin: Origin,
        kind: StepKind,
        text: &str,
        subject: Option<&str>,
    ) -> Option<Fault> {
        let mut state = self.state.lock();
        let of_user = subject.filter(|it| state.user_objects.contains(*it));
        let whose = match of_user {
            Some(path) if is_container(path) => Subject::UserContainer,
            Some(_) => Subject::User,
            None => Subject::Other,
        };
        let number = state.trace.next_step();
        let fault = state.take_fault(number, kind, whose);
        let step = TracedStep {
            number,
            kind,
            subject: whose,
            object: subject.map(object_key),
            text: text.to_owned(),
        };
        let at = self.began.elapsed();
        state.trace.step(at, origin, step, fault);
        let fault = fault?;
        if fault.is_deferred() {
            state.pending.push(fault);
        } else {
            state.effective.push(fault);
        }
        if matches!(fault, Fault::ClockForward | Fault::ClockBack) {
            let by = JUMPS[state.random.random_range(0..JUMPS.len())];
            jump(fault == Fault::ClockForward, by);
        }
        let own = &mut state.replicas[origin.replica];
        let now = Instant::now();
        match fault {
            Fault::Restart => own.stop.cancel(),
            Fault::Gap => {
                own.no_watches_until = Some(now + GAP);
                std::mem::take(&mut own.cut).cancel();
                drop(state);
                self.compact_after(GAP);
                return Some(fault);
            }
            Fault::Stale => {
                own.lag = Some(Lag {
                    revision: self.server.resource_version(),
                    until: now + LAG,
                });
            }
            Fault::Partition => own.partitioned_until = Some(now + PARTITION),
            Fault::StripFinalizers
            | Fault::ForeignFinalizer
            | Fault::Relabel
            | Fault::Recreate
            | Fault::LeaseStolen
            | Fault::LeaseDeleted => {
                drop(state);
                if let Some(subject) = subject {
                    self.write_as_other_client(fault, subject.to_owned());
                }
                return None;
            }
            _ => return Some(fault),
        }
        None
    }

    /// Records that a pending fault has taken effect. Later calls for the same fault do nothing.
    pub(crate) fn mark_effective(&self, fault: Fault) {
        let mut state = self.state.lock();
        if let Some(at) = state.pending.iter().position(|it| *it == fault) {
            state.pending.remove(at);
            state.effective.push(fault);
        }
    }

    /// Freezes the machine: time passes, and no process runs. Afterwards all timers that are due
    /// fire at the same time, after the work that was ready before.
    pub(crate) async fn freeze(&self) {
        self.log(None, "everything is frozen");
        tokio::time::advance(FREEZE).await;
        self.log(None, "everything continues");
    }

    /// Records the selection of a watch of a process.
    pub(crate) fn record_watch(&self, origin: Origin, target: &Target) {
        let mut state = self.state.lock();
        let key = (origin, target.full_resource());
        let selections = state.selections.entry(key).or_default();
        selections.insert(target.selection());
    }

    /// The selections of a resource that a process has watched, as paths of lists.
    pub(crate) fn selections(&self, origin: Origin, resource: &str) -> Vec<String> {
        let state = self.state.lock();
        let watched = state.selections.get(&(origin, resource.to_owned()));
        watched.into_iter().flatten().cloned().collect()
    }

    /// Whether all planned faults have been injected.
    pub(crate) fn has_injected_all_faults(&self) -> bool {
        self.state.lock().planned.is_empty()
    }

    /// Whether a fault has taken effect.
    pub(crate) fn has_injected_faults(&self) -> bool {
        !self.state.lock().effective.is_empty()
    }

    /// Adds a line to the trace that is not a step.
    pub(crate) fn log(&self, origin: Option<Origin>, text: &str) {
        let at = self.began.elapsed();
        self.state.lock().trace.line(at, origin, text);
    }

    /// Counts a request. Reports a violation when the operator reaches the limit.
    pub(crate) fn count_request(&self) {
        let mut state = self.state.lock();
        state.requests += 1;
        if state.requests == self.limit {
            let text = format!("the operator sent {} requests, the limit", self.limit);
            state.violations.push(Violation::new(oracle::BOUNDED, text));
        }
    }

    /// Whether the operator has reached the limit of requests, so that the run ends.
    pub(crate) fn is_flooded(&self) -> bool {
        self.state.lock().requests >= self.limit
    }

    pub(crate) fn replicas(&self) -> usize {
        self.state.lock().replicas.len()
    }

    pub(crate) fn all_external(&self) -> BTreeMap<String, String> {
        self.state.lock().external.clone()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.state.lock().requests
    }

    pub(crate) fn report_violation(&self, oracle: &'static str, text: String) {
        self.report(Violation::new(oracle, text));
    }

    fn report(&self, violation: Violation) {
        self.log(None, &format!("BROKEN {violation}"));
        self.state.lock().violations.push(violation);
    }

    /// Records an object that a user creates: faults may write to it as another client.
    pub(crate) fn add_user_object(&self, path: String) {
        self.state.lock().user_objects.insert(path);
    }

    /// Ends all faults. No fault is injected any more.
    pub(crate) fn end_faults(&self) {
        let mut state = self.state.lock();
        state.faults_ended = true;
        state.planned.clear();
        let at = self.began.elapsed();
        state.trace.end_faults(at);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Begins the second half of the operator's recovery time.
    pub(crate) fn begin_second_recovery_half(&self) {
        self.state.lock().is_second_recovery_half = true;
    }

    /// Records that a call failed, or that the server rejected a write of the operator.
    pub(crate) fn record_failure(&self) {
        let mut state = self.state.lock();
        state.fails |= state.is_second_recovery_half;
    }

    /// Returns the recorded results at the end of the run.
    pub(crate) fn finish(&self) -> Finished {
        let mut state = self.state.lock();
        Finished {
            violations: std::mem::take(&mut state.violations),
            trace: std::mem::take(&mut state.trace),
            writes: state.writes.counts(),
            faults: std::mem::take(&mut state.effective),
            fails: state.fails,
        }
    }
}

/// The recorded results of a run.
pub(crate) struct Finished {
    pub(crate) violations: Vec<Violation>,
    pub(crate) trace: Trace,
    pub(crate) writes: BTreeMap<String, u32>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) fails: bool,
}

// === impl State ===

impl State {
    /// Removes and returns the first planned fault that is due at this step and fits it.
    fn take_fault(&mut self, number: u64, kind: StepKind, subject: Subject) -> Option<Fault> {
        let fits = |it: &PlannedFault| it.step <= number && it.fault.fits_step(kind, subject);
        let at = self.planned.iter().position(fits)?;
        Some(self.planned.remove(at).fault)
    }
}

/// Whether the deletion of the object at `path` deletes other objects.
fn is_container(path: &str) -> bool {
    let collection = path.rsplit_once('/').map(|(collection, _)| collection);
    collection
        .is_some_and(|it| it == "/api/v1/namespaces" || it.ends_with("/customresourcedefinitions"))
}

/// The namespace and name in the path of an object, or in the key of a call.
fn object_key(path: &str) -> String {
    let parts: Vec<_> = path.rsplit('/').collect();
    match parts.as_slice() {
        [name, _, namespace, "namespaces", ..] | [name, namespace] => {
            format!("{namespace}/{name}")
        }
        [name, ..] => format!("/{name}"),
        [] => String::new(),
    }
}

/// Moves the wall clock.
fn jump(forward: bool, by: Duration) {
    let now = wall_clock();
    let then = if forward {
        now.checked_add(by)
    } else {
        now.checked_sub(by)
    };
    SimulatedHost::set_wall_clock(then.unwrap_or(now));
}
