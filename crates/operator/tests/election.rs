//! Replicas of one operator and their lease, on paused time.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Method;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::ConfigMap,
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::Body,
};
use prometheus::{Registry, TextEncoder};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, Decision};
use windlass_controller::{Controller, InformerController, Outcome, Request};
use windlass_informer::{Informer, ListWatch};
use windlass_operator::{
    InvalidElection, LeaderElection, LeaderElectionBuilder, LeadershipLost, Operator, OperatorError,
};

const NAME: &str = "web";

/// Counts how many controllers run at once, and remembers the most.
#[derive(Clone, Default)]
struct Floor {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

/// Somebody is on the floor for as long as this lives.
struct OnFloor(Floor);

/// A controller that takes so long to end.
struct Lingers {
    floor: Floor,
    time: Option<Duration>,
}

/// A replica that runs.
struct Replica {
    election: LeaderElection,
    operator: Operator,
    stop: CancellationToken,
    run: AbortOnDropHandle<Result<(), OperatorError>>,
}

// === impl Floor ===

impl Floor {
    fn enter(&self) -> OnFloor {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        OnFloor(self.clone())
    }

    /// A controller on this floor, that takes so long to end or never does.
    fn lingers(&self, time: impl Into<Option<Duration>>) -> Lingers {
        Lingers {
            floor: self.clone(),
            time: time.into(),
        }
    }

    fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

impl Drop for OnFloor {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Controller for Lingers {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        "lingers"
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Infallible> {
        let _here = self.floor.enter();
        stop.cancelled().await;
        match self.time {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
        Ok(())
    }
}

// === impl Replica ===

impl Replica {
    fn start(election: LeaderElection, controller: Lingers) -> Self {
        Self::of(election, controller)
    }

    fn of(election: LeaderElection, controller: impl Controller) -> Self {
        let operator = Operator::builder()
            .leader_election(election.clone())
            .build();
        operator
            .add_controller(controller)
            .expect("it does not run");
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let (operator, stop) = (operator.clone(), stop.clone());
            async move { operator.run_until(stop).await }
        });
        Self {
            election,
            operator,
            stop,
            run: AbortOnDropHandle::new(run),
        }
    }

    async fn leads(&self) {
        until("it leads", || self.election.is_leader()).await;
    }

    /// Stops it, and waits for its end.
    async fn stop(self) -> Result<(), OperatorError> {
        self.stop.cancel();
        self.end().await
    }

    /// What it ends with.
    async fn end(self) -> Result<(), OperatorError> {
        self.run.await.expect("no panic")
    }

    /// One of its metrics, with all its labels.
    fn counted(&self, series: &str) -> Option<String> {
        let registry = Registry::new();
        for collector in self.operator.prometheus_collectors() {
            registry.register(collector).expect("no name twice");
        }
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.expect("text");
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(str::to_owned)
    }
}

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn one_of_two_replicas_works_and_a_stop_hands_over() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let first = Replica::start(election(&server, "first"), floor.lingers(secs(0)));
    first.leads().await;
    let second = Replica::start(election(&server, "second"), floor.lingers(secs(0)));
    sleep(secs(3600)).await;
    assert!(!second.election.is_leader());
    assert_eq!(second.election.holder().as_deref(), Some("first"));
    assert_eq!((floor.now(), floor.most()), (1, 1));
    assert_eq!(first.counted(MASTER).as_deref(), Some("1"));
    assert_eq!(second.counted(MASTER).as_deref(), Some("0"));

    let asked = Instant::now();
    first.stop().await.expect("it ends well");
    second.leads().await;
    // No longer than between two looks: the lease has not to run out.
    assert!(asked.elapsed() < secs(5), "{:?}", asked.elapsed());
    let spec = lease(&server).await.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    assert_eq!(spec.lease_transitions, Some(1));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(
        second.counted("leader_election_lease_transitions{name=\"web\"}"),
        Some("1".to_owned())
    );
    until("it works", || floor.now() == 1).await;
    assert_eq!(floor.most(), 1);
    second.stop().await.expect("it ends well");
}

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn the_lease_of_one_that_crashed_is_taken_when_it_has_run_out() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let first = Replica::start(election(&server, "first"), floor.lingers(secs(0)));
    first.leads().await;
    let second = Replica::start(election(&server, "second"), floor.lingers(secs(0)));
    sleep(secs(60)).await;
    let crashed = Instant::now();
    let is_leader = first.election.clone();
    drop(first);
    second.leads().await;
    // From its last renewal, which was up to two seconds ago and seen up to 4.4 later.
    let took = crashed.elapsed();
    assert!(took > secs(13) && took < secs(20), "{took:?}");
    assert_eq!(floor.most(), 1);
    assert!(!is_leader.is_leader());
    second.stop().await.expect("it ends well");
}

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn a_leader_that_hears_nothing_drops_all_before_another_leads() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let (client, is_cut) = cut(&server);
    let first = builder(client, "first").build().expect("good settings");
    let first = Replica::start(first, floor.lingers(None));
    first.leads().await;
    let second = Replica::start(election(&server, "second"), floor.lingers(secs(0)));
    sleep(secs(60)).await;

    is_cut.store(true, Ordering::SeqCst);
    let cut = Instant::now();
    match first.end().await {
        Err(OperatorError::LeadershipLost {
            source:
                LeadershipLost::NotRenewed {
                    lease,
                    deadline,
                    source,
                },
        }) => {
            assert_eq!((&*lease, deadline), ("default/web", secs(10)));
            assert_eq!(source.expect("it met something").reason(), "silent");
        }
        other => panic!("{other:?}"),
    }
    assert!(cut.elapsed() <= secs(10), "{:?}", cut.elapsed());
    assert_eq!(floor.now(), 0, "all was dropped");
    assert!(!second.election.is_leader());
    second.leads().await;
    until("it works", || floor.now() == 1).await;
    assert_eq!(floor.most(), 1);
    second.stop().await.expect("it ends well");
}

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_taken_emptied_or_deleted_stops_everything() {
    for (what, reason) in [
        ("taken", "taken"),
        ("emptied", "emptied"),
        ("deleted", "deleted"),
    ] {
        let (server, floor) = (ApiServer::new(), Floor::default());
        let replica = Replica::start(election(&server, "us"), floor.lingers(None));
        replica.leads().await;
        until("it works", || floor.now() == 1).await;
        let leases = leases(&server);
        match what {
            "taken" => set(&leases, "them").await,
            "emptied" => set(&leases, "").await,
            _ => {
                let deleted = leases.delete(NAME, &DeleteParams::default()).await;
                deleted.expect("it is there");
            }
        }
        let began = Instant::now();
        match replica.end().await {
            Err(OperatorError::LeadershipLost { source }) => {
                assert_eq!(source.reason(), reason);
                assert!(source.to_string().contains("default/web"), "{source}");
            }
            other => panic!("{what}: {other:?}"),
        }
        // At the next renewal.
        assert!(began.elapsed() <= secs(2), "{what}: {:?}", began.elapsed());
        assert_eq!(floor.now(), 0, "{what}: all was dropped");
    }
}

/// Whoever waits for `run_until` finds everything gone, and does not have to wait for it.
#[tokio::test(start_paused = true)]
async fn what_was_lost_is_gone_when_the_operator_has_ended() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let election = election(&server, "us");
    let operator = Operator::builder()
        .leader_election(election.clone())
        .build();
    let added = operator.add_controller(floor.lingers(None));
    added.expect("it does not run");
    let steal = async {
        until("it works", || floor.now() == 1).await;
        set(&leases(&server), "them").await;
    };
    let run = async {
        let ended = operator.run_until(CancellationToken::new()).await;
        (ended, floor.now(), election.is_leader())
    };
    let ((ended, running, is_leader), ()) = tokio::join!(run, steal);
    assert!(
        matches!(ended, Err(OperatorError::LeadershipLost { .. })),
        "{ended:?}"
    );
    assert_eq!((running, is_leader), (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_label_from_somebody_ends_nothing() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let replica = Replica::start(election(&server, "us"), floor.lingers(secs(0)));
    replica.leads().await;
    let patch = serde_json::json!({ "metadata": { "labels": { "a": "b" } } });
    let patched = leases(&server)
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("it is there");
    sleep(secs(60)).await;
    assert_eq!(floor.now(), 1);
    assert_eq!(
        replica.counted("leader_election_slowpath_total{name=\"web\"}"),
        Some("1".to_owned())
    );
    replica.stop().await.expect("it ends well");
    let lease = lease(&server).await;
    assert_eq!(lease.metadata.labels.map(|labels| labels.len()), Some(1));
}

/// Rows: BO-24, BO-25
#[tokio::test(start_paused = true)]
async fn the_lease_goes_last() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let replica = Replica::start(election(&server, "us"), floor.lingers(secs(20)));
    replica.leads().await;
    until("it works", || floor.now() == 1).await;
    replica.stop.cancel();
    // Longer than the lease holds: it is renewed while the controllers end.
    sleep(secs(19)).await;
    let held = lease(&server).await.spec.expect("a spec");
    assert_eq!(held.holder_identity.as_deref(), Some("us"));
    assert_eq!(floor.now(), 1);
    replica.end().await.expect("it ends well");
    let free = lease(&server).await.spec.expect("a spec");
    assert_eq!(free.holder_identity.as_deref(), Some(""));
    assert_eq!(free.lease_duration_seconds, Some(1));
    assert!(free.renew_time > held.renew_time);
}

/// Rows: BO-25
#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_dropped_and_named_and_then_the_lease_is_released() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let replica = Replica::start(election(&server, "us"), floor.lingers(None));
    replica.leads().await;
    until("it works", || floor.now() == 1).await;
    let asked = Instant::now();
    match replica.stop().await {
        Err(error @ OperatorError::Undrained { .. }) => {
            let text = error.to_string();
            assert!(text.contains("25s") && text.contains("lingers"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert!(asked.elapsed() >= secs(25), "{:?}", asked.elapsed());
    assert!(asked.elapsed() < secs(26), "{:?}", asked.elapsed());
    assert_eq!(floor.now(), 0, "it was dropped");
    let free = lease(&server).await.spec.expect("a spec");
    assert_eq!(free.holder_identity.as_deref(), Some(""));
}

/// Somebody else runs the informer, so that its store is warm when the replica leads.
#[tokio::test(start_paused = true)]
async fn an_informer_that_runs_by_itself_is_warm_when_its_replica_leads() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let mut object = ConfigMap::default();
    object.metadata.name = Some("a".to_owned());
    let created = configs.create(&PostParams::default(), &object).await;
    created.expect("new");
    let first = Replica::start(election(&server, "first"), floor.lingers(secs(0)));
    first.leads().await;

    let informer = Informer::new(ListWatch::new(configs));
    let stop = CancellationToken::new();
    let warm = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(stop).await }
    });
    let controller = InformerController::new();
    controller.add_informer("configs", &informer).expect("new");
    let (tell, mut told) = mpsc::channel(8);
    let reconciler = move |request: Request<ConfigMap>| {
        let tell = tell.clone();
        async move {
            let name = request.key().name().to_owned();
            tell.send(name).await.expect("the test listens");
            Ok::<_, Infallible>(Outcome::done())
        }
    };
    let added = controller.add_reconciler("configs", reconciler);
    added.expect("a name");
    let second = Replica::of(election(&server, "second"), controller);
    informer.synced().await;
    sleep(secs(60)).await;
    assert!(told.try_recv().is_err(), "it stands by");
    assert_eq!(informer.store().len(), 1);
    first.stop().await.expect("it ends well");
    second.leads().await;
    assert_eq!(told.recv().await.as_deref(), Some("a"));
    second.stop().await.expect("it ends well");
    stop.cancel();
    warm.await.expect("no panic").expect("it ends well");
}

/// Two of one name, as two pods with one setting would be.
#[tokio::test(start_paused = true)]
async fn two_of_one_name_are_two() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let first = Replica::start(election(&server, "twin"), floor.lingers(secs(0)));
    first.leads().await;
    let second = Replica::start(election(&server, "twin"), floor.lingers(secs(0)));
    sleep(secs(600)).await;
    assert!(first.election.is_leader() && !second.election.is_leader());
    assert_eq!(floor.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_stopped_while_standing_by_leaves_the_lease_alone() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let first = Replica::start(election(&server, "first"), floor.lingers(secs(0)));
    first.leads().await;
    let second = Replica::start(election(&server, "second"), floor.lingers(secs(0)));
    sleep(secs(60)).await;
    second.stop().await.expect("it ends well");
    sleep(secs(60)).await;
    assert!(first.election.is_leader());
    let spec = lease(&server).await.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("first"));
}

/// The server has taken our write, and its answer comes after we are told to stop, or never.
#[tokio::test(start_paused = true)]
async fn a_lease_that_comes_while_we_stop_is_given_back() {
    for time in [secs(3), secs(3600)] {
        let server = ApiServer::new();
        let service = server.service();
        let slow = tower::service_fn(move |request: http::Request<Body>| {
            let slowly = request.method() == Method::POST;
            let answer = service.clone().oneshot(request);
            async move {
                let answer = answer.await;
                if slowly {
                    sleep(time).await;
                }
                answer
            }
        });
        let election = builder(Client::new(slow, "default"), "us").build();
        let floor = Floor::default();
        let replica = Replica::start(election.expect("good settings"), floor.lingers(secs(0)));
        sleep(secs(1)).await;
        let held = lease(&server).await.spec.expect("a spec");
        assert_eq!(held.holder_identity.as_deref(), Some("us"));
        replica.stop().await.expect("it ends well");
        let free = lease(&server).await.spec.expect("a spec");
        assert_eq!(free.holder_identity.as_deref(), Some(""), "{time:?}");
        assert_eq!(floor.most(), 0, "nothing was started");
    }
}

/// A lease that somebody has filled with nonsense is waited for like any other.
#[tokio::test(start_paused = true)]
async fn a_lease_that_makes_no_sense_is_taken_in_the_end() {
    let (server, floor) = (ApiServer::new(), Floor::default());
    let mut odd = Lease::default();
    odd.metadata.name = Some(NAME.to_owned());
    odd.spec = Some(LeaseSpec {
        holder_identity: Some("nobody knows".to_owned()),
        renew_time: Some(MicroTime("3000-01-01T00:00:00Z".parse().expect("a time"))),
        ..LeaseSpec::default()
    });
    let created = leases(&server).create(&PostParams::default(), &odd).await;
    created.expect("a lease");
    let began = Instant::now();
    let replica = Replica::start(election(&server, "us"), floor.lingers(secs(0)));
    replica.leads().await;
    assert!(began.elapsed() >= secs(15), "{:?}", began.elapsed());
    replica.stop().await.expect("it ends well");
}

#[tokio::test(start_paused = true)]
async fn what_keeps_a_candidate_from_the_lease_is_counted_and_waited_out() {
    let allowed = Arc::new(AtomicBool::new(false));
    let server = ApiServer::builder()
        .authorize({
            let allowed = Arc::clone(&allowed);
            move |request| match &*request.resource {
                "leases" if !allowed.load(Ordering::SeqCst) => Decision::Deny,
                _ => Decision::Allow,
            }
        })
        .start();
    let floor = Floor::default();
    let replica = Replica::start(election(&server, "us"), floor.lingers(secs(0)));
    let forbidden = "leader_election_failures_total{name=\"web\",reason=\"forbidden\"}";
    until("it is counted", || replica.counted(forbidden).is_some()).await;
    assert_eq!(floor.now(), 0);
    allowed.store(true, Ordering::SeqCst);
    replica.leads().await;
    replica.stop().await.expect("it ends well");

    let elsewhere = LeaderElection::builder(server.client(), "no-such-place", NAME);
    let elsewhere = elsewhere.build().expect("good settings");
    let replica = Replica::start(elsewhere, floor.lingers(secs(0)));
    let nowhere = "leader_election_failures_total{name=\"web\",reason=\"no_namespace\"}";
    until("it is counted", || replica.counted(nowhere).is_some()).await;
    replica.stop().await.expect("it ends well");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let client = ApiServer::new().client();
    let timing = |lease, renew, retry| {
        let builder = builder(client.clone(), "us").lease_duration(lease);
        builder.renew_deadline(renew).retry_period(retry).build()
    };
    let refused = |election: Result<LeaderElection, InvalidElection>| {
        election.expect_err("it makes no sense").reason()
    };
    assert_eq!(
        refused(timing(secs(10), secs(10), secs(2))),
        "renew_deadline"
    );
    assert_eq!(refused(timing(secs(15), secs(2), secs(2))), "tries");
    assert_eq!(refused(timing(secs(15), secs(10), secs(0))), "retry_period");
    assert_eq!(
        refused(timing(Duration::MAX, secs(10), secs(2))),
        "lease_duration"
    );
    assert_eq!(refused(builder(client.clone(), "").build()), "anonymous");
    for (namespace, name) in [("", "web"), ("default", "")] {
        let election = LeaderElection::new(client.clone(), namespace, name);
        assert_eq!(refused(election), "unnamed");
    }
    assert!(timing(secs(2), secs(1), Duration::from_millis(200)).is_ok());
}

#[tokio::test]
async fn two_replicas_differ_in_their_names_if_nobody_gives_them_one() {
    let client = ApiServer::new().client();
    let election = || LeaderElection::new(client.clone(), "default", NAME).expect("names");
    assert_ne!(election().identity(), election().identity());
    let seeded = || {
        let builder = LeaderElection::builder(client.clone(), "default", NAME);
        builder.seed(7).build().expect("good settings")
    };
    assert_eq!(seeded().identity(), seeded().identity());
}

// --- a server, and what is on it ---

const MASTER: &str = "leader_election_master_status{name=\"web\"}";

fn election(server: &ApiServer, identity: &str) -> LeaderElection {
    builder(server.client(), identity)
        .build()
        .expect("good settings")
}

fn builder(client: Client, identity: &str) -> LeaderElectionBuilder {
    LeaderElection::builder(client, "default", NAME)
        .identity(identity)
        .seed(7)
}

/// A client, and what makes its requests disappear.
fn cut(server: &ApiServer) -> (Client, Arc<AtomicBool>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let (service, cut) = (server.service(), Arc::clone(&is_cut));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (answer, cut) = (service.clone().oneshot(request), Arc::clone(&cut));
        async move {
            if cut.load(Ordering::SeqCst) {
                pending::<()>().await;
            }
            answer.await
        }
    });
    (Client::new(service, "default"), is_cut)
}

fn leases(server: &ApiServer) -> Api<Lease> {
    Api::namespaced(server.client(), "default")
}

async fn lease(server: &ApiServer) -> Lease {
    leases(server).get(NAME).await.expect("it is there")
}

/// Writes another holder into the lease.
async fn set(leases: &Api<Lease>, holder: &str) {
    let patch = serde_json::json!({ "spec": { "holderIdentity": holder } });
    let patched = leases
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("it is there");
}

/// Waits until it is so.
async fn until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < secs(3600), "waited in vain until {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
