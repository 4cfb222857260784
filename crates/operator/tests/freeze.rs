//! Leaders that are frozen for longer than their lease, as processes on a server with a port.
//!
//! Two replicas of an operator run as child processes. The leader is stopped with `SIGSTOP`, the
//! other one takes over, and the first wakes with `SIGCONT` and hundreds of overdue requeues.
//! The oracle is outside of it: the server notes when each request arrived. A leader's deadline
//! is at most its renew deadline after the server received its last renewal.
//!
//! `FREEZES=100 cargo test -p windlass-operator --test freeze` runs a campaign.

#![cfg(target_os = "linux")]

use std::{
    env,
    io::{BufRead as _, BufReader},
    num::NonZeroUsize,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{ApiServer, Decision};
use windlass_controller::{Failure, FenceClosed, InformerController, Outcome, Request};
use windlass_informer::{Informer, ListWatch};
use windlass_operator::{LeaderElection, LeaseClient, Operator, OperatorError};

const LEASE: Duration = Duration::from_secs(2);
const RENEW: Duration = Duration::from_millis(1500);
const RETRY: Duration = Duration::from_millis(150);

/// Objects, each of which is reconciled and written again and again.
const OBJECTS: usize = 200;
const REQUEUE: Duration = Duration::from_millis(300);

/// Threads of a replica. `SIGSTOP` may stop each of them after a check and before the instruction
/// that follows it, which no check can prevent. In a campaign that is seldom.
const THREADS: usize = 2;

/// Calls at once: all of them could begin when a replica wakes.
const CONCURRENCY: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// The longest that a step of this test may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Where a child finds the server, and its name. Set for children only.
const URL: &str = "WINDLASS_FREEZE_URL";
const NAME: &str = "WINDLASS_FREEZE_NAME";

/// Rows: BO-24
#[test]
fn a_leader_frozen_for_longer_than_its_lease_begins_and_writes_nothing_after_its_deadline() {
    let freezes = env::var("FREEZES").map_or(4, |it| it.parse().expect("a number"));
    let seed =
        env::var("SEED").map_or_else(|_| rand::rng().random(), |it| it.parse().expect("a number"));
    println!("SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let cluster = Cluster::start();

    let (mut calls, mut late_calls, mut late_writes) = (0, 0, 0);
    let mut names = (0..).map(|number| format!("replica-{number}"));
    let mut name = || names.next().expect("endless");
    let mut leader = cluster.replica(&name());
    let mut freeze = 0;
    while freeze < freezes {
        let standby = cluster.replica(&name());
        cluster.until_it_writes(&leader.name, 50);
        thread::sleep(Duration::from_millis(rng.random_range(0..400)));

        leader.signal("-STOP");
        // What it sent has arrived by then.
        thread::sleep(Duration::from_millis(100));
        let deadline = cluster.last_renewal() + RENEW;
        if !cluster.writes(&standby.name).is_empty() {
            println!("the leader lost its lease before the freeze: a busy machine");
            leader = standby;
            continue;
        }
        freeze += 1;
        thread::sleep(LEASE + Duration::from_millis(rng.random_range(0..1500)));
        cluster.until_it_writes(&standby.name, 1);
        leader.signal("-CONT");
        let report = leader.end();

        let writes = cluster.writes(&report.name);
        let begun_late = report.calls.iter().filter(|at| **at > deadline).count();
        let written_late = writes.iter().filter(|at| **at > deadline).count();
        println!(
            "freeze {freeze}: {} calls, {} writes, {begun_late} begun late, {written_late} written late",
            report.calls.len(),
            writes.len(),
        );
        assert!(report.lost, "it noticed that it had lost the lease");
        let taken_over = cluster.writes(&standby.name).first().copied();
        assert!(taken_over > Some(deadline), "{taken_over:?}, {deadline:?}");
        calls += report.calls.len();
        late_calls += begun_late;
        late_writes += written_late;
        leader = standby;
    }
    println!("{calls} calls, {late_calls} begun late, {late_writes} writes late");
    assert!(calls >= 50 * freezes, "otherwise it shows nothing: {calls}");
    assert!(late_calls <= THREADS, "{late_calls} calls begun late");
    assert!(late_writes <= THREADS, "{late_writes} writes late");
}

/// A child process of the test above; without its variables it does nothing.
#[test]
fn replica() {
    let (Ok(url), Ok(name)) = (env::var(URL), env::var(NAME)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime");
    let ended = runtime.block_on(run_replica(&url, &name));
    match ended {
        Err(OperatorError::LeadershipLost { .. }) => println!("\nlost"),
        other => println!("\nended {other:?}"),
    }
    // Not the test harness: calls that are still there must not delay the end.
    std::process::exit(0);
}

async fn run_replica(url: &str, name: &str) -> Result<(), OperatorError> {
    let config = Config::new(url.parse().expect("a URL"));
    // One half renews on a thread of its own, the other half beside its handlers.
    let lease = if name.ends_with(['1', '3', '5', '7', '9']) {
        LeaseClient::from(config.clone())
    } else {
        LeaseClient::from(Client::try_from(config.clone()).expect("a client"))
    };
    let election = LeaderElection::builder(lease, "default", "frozen")
        .identity(name)
        .lease_duration(LEASE)
        .renew_deadline(RENEW)
        .retry_period(RETRY)
        .build()
        .expect("valid settings");
    let client = election.fence().connect(config).expect("a client");
    let read: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let write: Api<ConfigMap> = Api::namespaced(client, name);
    let controller = InformerController::builder()
        .concurrency(CONCURRENCY)
        .build();
    let controller = controller.expect("valid settings");
    let informer = Informer::new(ListWatch::new(read));
    controller.add_informer("configs", &informer).expect("new");
    let reconciler = move |request: Request<ConfigMap>| {
        let write = write.clone();
        async move {
            println!("\ncall {}", now().as_nanos());
            let patch = Patch::Merge(json!({ "data": { "at": now().as_nanos().to_string() } }));
            let params = PatchParams::default();
            match write.patch(request.key().name(), &params, &patch).await {
                Err(error) if FenceClosed::find(&error).is_some() => println!("\nrefused"),
                _ => {}
            }
            Ok::<_, Failure>(Outcome::requeue_after(REQUEUE))
        }
    };
    controller
        .add_reconciler("configs", reconciler)
        .expect("a name");
    let operator = Operator::builder().leader_election(election).build();
    operator
        .add_controller(controller)
        .expect("it does not run");
    operator.run_until(CancellationToken::new()).await
}

/// A server with a port, and when it received what.
struct Cluster {
    runtime: tokio::runtime::Runtime,
    server: ApiServer,
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

/// A write that arrived at the server.
struct Received {
    at: Duration,
    resource: String,
    namespace: String,
}

/// A replica as a child process.
struct Replica {
    name: String,
    child: Child,
    report: mpsc::Receiver<Report>,
}

/// The end of a replica.
#[derive(Default)]
struct Report {
    name: String,
    /// When the reconciler was called.
    calls: Vec<Duration>,
    lost: bool,
}

// === impl Cluster ===

impl Cluster {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let noted = Arc::clone(&received);
        let _guard = runtime.enter();
        let server = ApiServer::builder()
            .authorize(move |request| {
                if !matches!(&*request.verb, "get" | "list" | "watch") {
                    noted.lock().expect("no panic").push(Received {
                        at: now(),
                        resource: request.resource.clone(),
                        namespace: request.namespace.clone(),
                    });
                }
                Decision::Allow
            })
            .start();
        let listening = runtime.block_on(server.listen(([127, 0, 0, 1], 0)));
        let listening = listening.expect("a port");
        let url = listening.url();
        // It listens for as long as the runtime lives.
        std::mem::forget(listening);
        let cluster = Self {
            runtime,
            server: server.clone(),
            url,
            received,
        };
        for number in 0..OBJECTS {
            cluster.create("default", number);
        }
        cluster
    }

    fn create(&self, namespace: &str, number: usize) {
        let configs: Api<ConfigMap> = Api::namespaced(self.server.client(), namespace);
        let mut config = ConfigMap::default();
        config.metadata.name = Some(format!("object-{number}"));
        let params = PostParams::default();
        let created = configs.create(&params, &config);
        self.runtime.block_on(created).expect("new");
    }

    /// Starts a replica, which writes into a namespace of its own.
    fn replica(&self, name: &str) -> Replica {
        let _guard = self.runtime.enter();
        let namespaces: Api<Namespace> = Api::all(self.server.client());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        let params = PostParams::default();
        let created = namespaces.create(&params, &namespace);
        self.runtime.block_on(created).expect("new");
        for number in 0..OBJECTS {
            self.create(name, number);
        }
        // The writes above are not the replica's.
        self.received
            .lock()
            .expect("no panic")
            .retain(|it| it.namespace != name);
        Replica::start(name, &self.url)
    }

    fn writes(&self, namespace: &str) -> Vec<Duration> {
        let received = self.received.lock().expect("no panic");
        let received = received.iter().filter(|it| it.namespace == namespace);
        received.map(|it| it.at).collect()
    }

    fn until_it_writes(&self, name: &str, writes: usize) {
        let began = now();
        while self.writes(name).len() < writes {
            assert!(now() < began + LIMIT, "{name} does not write");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// When the server received the last write of the lease. Only a leader writes it.
    fn last_renewal(&self) -> Duration {
        let received = self.received.lock().expect("no panic");
        let mut leases = received.iter().rev().filter(|it| it.resource == "leases");
        leases.next().expect("a leader").at
    }
}

// === impl Replica ===

impl Replica {
    fn start(name: &str, url: &str) -> Self {
        let this = env::current_exe().expect("this test");
        let mut child = Command::new(this)
            .args(["--exact", "replica", "--nocapture", "--test-threads=1"])
            .envs([(URL, url), (NAME, name)])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = child.stdout.take().expect("it is piped");
        let (send, report) = mpsc::sync_channel(1);
        let owned = name.to_owned();
        thread::spawn(move || _ = send.send(Report::read(owned, output)));
        Self {
            name: name.to_owned(),
            child,
            report,
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("there is a kill").success());
    }

    /// Waits until it has ended by itself.
    fn end(self) -> Report {
        self.report.recv_timeout(LIMIT).expect("it ends")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

// === impl Report ===

impl Report {
    /// Reads the output of a replica to its end.
    fn read(name: String, output: ChildStdout) -> Self {
        let mut report = Self {
            name,
            ..Self::default()
        };
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(at) = line.strip_prefix("call ") {
                let at = at.parse().expect("nanoseconds");
                report.calls.push(Duration::from_nanos(at));
            }
            report.lost |= line == "lost";
        }
        report
    }
}

/// The clock that runs while a process is stopped, the same in all processes.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).expect("after the start")
}
