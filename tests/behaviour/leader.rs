//! Leader election: which replica runs its controllers, and when another one takes over.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use prometheus::Registry;
use serde_json::json;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Failure, Informer, InformerController, LeaderElection, Operator, Outcome, Request,
    leader::{LeaderElectionBuilder, LeadershipLost},
    operator::OperatorError,
};

use crate::{
    cluster::Cluster,
    kinds::{config, value},
    watched::quick,
};

on_both_servers! {
    /// Rows: BO-24
    async fn only_the_leader_writes_and_a_stop_hands_over(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::default());
        configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let first = Replica::start(&cluster, patient(&cluster, "first"), &log).await;
        log.until("first web=1").await;
        let second = Replica::start(&cluster, patient(&cluster, "second"), &log).await;
        set(&configs, "2").await;
        log.until("first shop=2").await;
        log.until("first web=2").await;

        first.stop().await.expect("it ends well");
        second.leads().await;
        set(&configs, "3").await;
        log.until("second shop=3").await;
        log.until("second web=3").await;
        // One lease for both controllers: each value was written by one replica.
        assert_eq!(log.of("web"), ["first web=1", "first web=2", "second web=3"]);
        assert_eq!(log.of("shop"), ["first shop=1", "first shop=2", "second shop=3"]);
        let lease = lease(&cluster).await.spec.expect("a spec");
        assert_eq!(lease.holder_identity.as_deref(), Some("second"));
        assert_eq!(lease.lease_transitions, Some(1));
        second.stop().await.expect("it ends well");
    }

    /// Rows: BO-24
    async fn the_lease_of_a_crashed_leader_is_acquired_after_it_has_expired(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::default());
        configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        // Their own leases are long, so that a busy machine loses none.
        let first = Replica::start(&cluster, patient(&cluster, "first"), &log).await;
        log.until("first web=1").await;
        let second = Replica::start(&cluster, patient(&cluster, "second"), &log).await;
        second.stands_by().await;
        drop(first);
        // A candidate waits for the duration that the lease states.
        patch(&cluster, json!({ "spec": { "leaseDurationSeconds": LEASE.as_secs() } })).await;
        let left = lease(&cluster).await.spec.expect("a spec");
        assert_eq!(left.holder_identity.as_deref(), Some("first"));
        set(&configs, "2").await;
        log.until("second web=2").await;
        let taken = lease(&cluster).await.spec.expect("a spec");
        let (taken, left) = (taken.acquire_time.expect("taken").0, left.renew_time.expect("renewed").0);
        assert!(taken > left && taken.duration_since(left).unsigned_abs() >= LEASE, "{left} to {taken}");
        assert_eq!(log.of("web"), ["first web=1", "second web=2"]);
        second.stop().await.expect("it ends well");
    }

    /// The API server accepts times that are later than the last `jiff::Timestamp`.
    async fn a_lease_whose_times_are_out_of_range_is_acquired_once_it_has_expired(cluster: Cluster) {
        let leases = cluster.api_aside::<Lease>();
        let far = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": LEASE_NAME, "labels": { "team": "web" } },
            "spec": {
                "holderIdentity": "gone",
                "leaseDurationSeconds": 1,
                "renewTime": "9999-12-31T23:59:59.000000Z",
                "acquireTime": "9999-12-31T23:59:59.000000Z",
            },
        });
        let request = http::Request::post(leases.resource_url())
            .header("content-type", "application/json")
            .body(far.to_string().into_bytes())
            .expect("a request");
        let client = leases.clone().into_client();
        client.request_text(request).await.expect("the server accepts it");
        let log = Log::default();
        let replica = Replica::start(&cluster, patient(&cluster, "first"), &log).await;
        replica.leads().await;
        let lease = lease(&cluster).await;
        let labels = lease.metadata.labels.expect("they are kept");
        assert_eq!(labels.get("team").map(String::as_str), Some("web"));
        replica.stop().await.expect("it ends well");
    }

    /// Rows: BO-24
    async fn one_of_many_simultaneous_candidates_becomes_the_leader(cluster: Cluster) {
        let log = Log::default();
        let mut replicas = Vec::new();
        for name in ["a", "b", "c", "d", "e"] {
            replicas.push(Replica::start(&cluster, patient(&cluster, name), &log).await);
        }
        let looked = || replicas.iter().all(|it| it.election.holder().is_some());
        until("each has looked", looked).await;
        until("one leads", || replicas.iter().any(|it| it.election.is_leader())).await;
        let leaders = replicas.iter().filter(|it| it.election.is_leader());
        assert_eq!(leaders.count(), 1);
    }

    /// Rows: BO-24
    async fn a_lease_that_another_client_takes_stops_the_leader(cluster: Cluster) {
        let error = lose(&cluster, json!({ "spec": { "holderIdentity": "thief" } })).await;
        assert!(matches!(&error, LeadershipLost::Taken { holder, .. } if holder == "thief"), "{error}");
        // And stays as the thief has left it.
        let spec = lease(&cluster).await.spec.expect("a spec");
        assert_eq!(spec.holder_identity.as_deref(), Some("thief"));
    }

    async fn a_lease_that_another_client_clears_stops_the_leader(cluster: Cluster) {
        let error = lose(&cluster, json!({ "spec": { "holderIdentity": null } })).await;
        assert!(matches!(error, LeadershipLost::Emptied { .. }), "{error}");
    }

    /// A write to a lease that is not there would make it anew: the leader looks first.
    async fn a_deleted_lease_stops_the_leader_and_is_not_recreated_by_it(cluster: Cluster) {
        let log = Log::default();
        let replica = Replica::start(&cluster, patient(&cluster, "us"), &log).await;
        replica.leads().await;
        let deleted = cluster.api_aside::<Lease>().delete(LEASE_NAME, &DeleteParams::default()).await;
        deleted.expect("it is there");
        let error = lost(replica.end().await);
        assert!(matches!(error, LeadershipLost::Deleted { .. }), "{error}");
        let lease = cluster.api_aside::<Lease>().get_opt(LEASE_NAME).await;
        assert!(lease.expect("an answer").is_none());
    }

    async fn a_label_on_the_lease_is_kept_and_does_not_end_the_leadership(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::default());
        let replica = Replica::start(&cluster, patient(&cluster, "us"), &log).await;
        replica.leads().await;
        patch(&cluster, json!({ "metadata": { "labels": { "a": "b" } } })).await;
        until("it has looked again", || replica.counted("leader_election_slowpath_total") == Some(1)).await;
        configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        log.until("us web=1").await;
        replica.stop().await.expect("it ends well");
        let lease = lease(&cluster).await;
        assert_eq!(lease.metadata.labels.expect("labels")["a"], "b");
        assert_eq!(lease.spec.expect("a spec").holder_identity.as_deref(), Some(""));
    }

    /// Rows: BO-24, BO-25
    async fn a_call_in_progress_ends_before_the_lease_is_released(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let (began, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let controller = InformerController::new();
        let informer = Informer::new(quick(named(cluster.api().await)));
        let configs_kind = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs_kind, &informer).expect("new");
        let reconciler = {
            let (began, may_end) = (Arc::clone(&began), Arc::clone(&may_end));
            move |_: Request<ConfigMap>| {
                let (began, may_end) = (Arc::clone(&began), Arc::clone(&may_end));
                async move {
                    began.notify_one();
                    may_end.notified().await;
                    Ok::<_, Infallible>(Outcome::done())
                }
            }
        };
        controller.add_reconciler(&configs_kind, reconciler).expect("a name");
        let replica = Replica::of(patient(&cluster, "us"), vec![controller]);
        began.notified().await;
        replica.stop.cancel();
        // The replica continues to renew the lease during the call.
        let before = lease(&cluster).await.spec.expect("a spec");
        assert_eq!(before.holder_identity.as_deref(), Some("us"));
        loop {
            let now = lease(&cluster).await.spec.expect("a spec");
            assert_eq!(now.holder_identity.as_deref(), Some("us"));
            if now.renew_time > before.renew_time {
                break;
            }
            sleep(STEP).await;
        }
        may_end.notify_one();
        replica.end().await.expect("it ends well");
        let spec = lease(&cluster).await.spec.expect("a spec");
        assert_eq!(spec.holder_identity.as_deref(), Some(""));
    }

    async fn missing_permissions_and_a_missing_namespace_are_reported(cluster: Cluster) {
        let forbidden = LeaderElection::builder(cluster.powerless().await, cluster.namespace(), LEASE_NAME);
        let nowhere = LeaderElection::builder(cluster.aside(), "no-such-namespace", LEASE_NAME);
        for (builder, reason) in [(forbidden, "forbidden"), (nowhere, "no_namespace")] {
            let replica = Replica::of(builder.retry_period(RETRY).build().expect("good settings"), Vec::new());
            until(reason, || replica.failures(reason) > 1).await;
            assert!(!replica.election.is_leader());
            replica.stop().await.expect("it ends well");
        }
    }
}

const LEASE_NAME: &str = "shop-operator";

/// Short enough to wait until it expires.
const LEASE: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(100);

/// Between two looks of a test.
const STEP: Duration = Duration::from_millis(10);

/// Who wrote what, in order. Clones are the same log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

/// A replica that runs.
struct Replica {
    election: LeaderElection,
    operator: Operator,
    stop: CancellationToken,
    run: AbortOnDropHandle<Result<(), OperatorError>>,
}

// === impl Log ===

impl Log {
    fn record(&self, line: String) {
        self.0
            .lock()
            .expect("no thread panics while it holds the lock")
            .push(line);
    }

    fn all(&self) -> Vec<String> {
        self.0
            .lock()
            .expect("no thread panics while it holds the lock")
            .clone()
    }

    /// The values that one controller wrote, in any replica. A write can be repeated before its
    /// event arrives.
    fn of(&self, controller: &str) -> Vec<String> {
        let mut lines = self.all();
        lines.retain(|line| line.contains(&format!(" {controller}=")));
        lines.dedup();
        lines
    }

    async fn until(&self, line: &str) {
        until(line, || self.all().iter().any(|it| it == line)).await;
    }
}

// === impl Replica ===

impl Replica {
    /// Two controllers, each of which writes down the value of the object `a`, once.
    async fn start(cluster: &Cluster, election: LeaderElection, log: &Log) -> Self {
        let mut controllers = Vec::new();
        for name in ["web", "shop"] {
            let api = cluster.api::<ConfigMap>().await;
            let controller = InformerController::builder().name(name).build();
            let controller = controller.expect("a good name");
            let informer = Informer::new(quick(named(api.clone())));
            let configs = controller.kind("configs").expect("a new kind");
            controller.add_informer(&configs, &informer).expect("new");
            let (log, identity) = (log.clone(), election.identity().to_owned());
            let reconciler = move |request: Request<ConfigMap>| {
                let (api, log, identity) = (api.clone(), log.clone(), identity.clone());
                async move {
                    let value = value(request.object()).to_owned();
                    if request.object().data.as_ref().and_then(|it| it.get(name)) == Some(&value) {
                        return Ok(Outcome::done());
                    }
                    let patch = Patch::Merge(json!({ "data": { name: value } }));
                    api.patch("a", &PatchParams::default(), &patch).await?;
                    log.record(format!("{identity} {name}={value}"));
                    Ok::<_, Failure>(Outcome::done())
                }
            };
            controller
                .add_reconciler(&configs, reconciler)
                .expect("a name");
            controllers.push(controller);
        }
        Self::of(election, controllers)
    }

    fn of(election: LeaderElection, controllers: Vec<InformerController>) -> Self {
        let operator = Operator::builder()
            .leader_election(election.clone())
            .build();
        for controller in controllers {
            let added = operator.add_controller(controller);
            added.expect("it does not run");
        }
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

    /// Waits until it has seen the lease of another replica.
    async fn stands_by(&self) {
        until("it has looked", || self.election.holder().is_some()).await;
        assert!(!self.election.is_leader());
    }

    async fn stop(self) -> Result<(), OperatorError> {
        self.stop.cancel();
        self.end().await
    }

    async fn end(self) -> Result<(), OperatorError> {
        self.run.await.expect("no panic")
    }

    /// How often a request for the lease failed for this reason.
    fn failures(&self, reason: &str) -> u64 {
        let series = format!("reason=\"{reason}\"}}");
        let lines = self.metrics();
        let mut lines = lines.lines().filter(|line| line.contains(&series));
        let value = lines.find_map(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_default()
    }

    /// The value of a metric, once it is not zero.
    fn counted(&self, metric: &str) -> Option<u64> {
        let lines = self.metrics();
        let mut lines = lines.lines().filter(|line| line.starts_with(metric));
        let value = lines.find_map(|line| line.rsplit(' ').next()?.parse().ok());
        value.filter(|value| *value > 0)
    }

    fn metrics(&self) -> String {
        let registry = Registry::new();
        for collector in self.operator.prometheus_collectors() {
            registry.register(collector).expect("no name twice");
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather());
        text.expect("text")
    }
}

/// An election in which nothing runs out while a test looks at it.
fn patient(cluster: &Cluster, identity: &str) -> LeaderElection {
    let builder = builder(cluster.aside(), cluster, identity);
    builder.build().expect("good settings")
}

fn builder(client: Client, cluster: &Cluster, identity: &str) -> LeaderElectionBuilder {
    LeaderElection::builder(client, cluster.namespace(), LEASE_NAME)
        .identity(identity)
        .retry_period(RETRY)
}

/// Why a leader stops when another client changes its lease like this.
async fn lose(cluster: &Cluster, change: serde_json::Value) -> LeadershipLost {
    let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::default());
    let replica = Replica::start(cluster, patient(cluster, "us"), &log).await;
    replica.leads().await;
    patch(cluster, change).await;
    let error = lost(replica.end().await);
    // What comes now is not the replica's.
    let params = PostParams::default();
    configs
        .create(&params, &config("a", "1"))
        .await
        .expect("new");
    assert_eq!(log.all(), [""; 0]);
    error
}

fn lost(ended: Result<(), OperatorError>) -> LeadershipLost {
    match ended {
        Err(OperatorError::LeadershipLost { source }) => source,
        other => panic!("{other:?}"),
    }
}

async fn lease(cluster: &Cluster) -> Lease {
    let leases = cluster.api_aside::<Lease>();
    leases.get(LEASE_NAME).await.expect("it is there")
}

async fn patch(cluster: &Cluster, change: serde_json::Value) {
    let leases = cluster.api_aside::<Lease>();
    let patched = leases
        .patch(LEASE_NAME, &PatchParams::default(), &Patch::Merge(change))
        .await;
    patched.expect("it is there");
}

async fn set(configs: &Api<ConfigMap>, value: &str) {
    let patch = Patch::Merge(json!({ "data": { "value": value } }));
    let patched = configs.patch("a", &PatchParams::default(), &patch).await;
    patched.expect("it is there");
}

/// Without what a cluster puts into each namespace.
fn named(api: Api<ConfigMap>) -> windlass::ListWatch<ConfigMap> {
    let only = windlass::ListWatch::new(api).fields("metadata.name=a");
    only.expect("a selector")
}

/// Waits until it is so; the test as a whole has a limit.
async fn until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        let waited = began.elapsed();
        assert!(
            waited < Duration::from_secs(50),
            "timed out waiting for {what}"
        );
        sleep(STEP).await;
    }
}
