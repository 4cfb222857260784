//! Standby replicas.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{Either, Full};
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::ConfigMap,
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, Client, api::PostParams, client::Body};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, Decision};
use windlass_controller::{InformerController, Outcome, Request};
use windlass_informer::{Informer, ListWatch};
use windlass_operator::LeaderElection;

use crate::{
    replica::{Replica, RunCount, secs, until},
    server::{NAME, builder, election, lease, leases},
};

/// A standalone informer, whose store is filled before the replica leads.
#[tokio::test(start_paused = true)]
async fn a_standalone_informer_is_synced_before_its_replica_leads() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let mut object = ConfigMap::default();
    object.metadata.name = Some("a".to_owned());
    let created = configs.create(&PostParams::default(), &object).await;
    created.expect("new");
    let first = Replica::start(election(&server, "first"), count.lingers(secs(0)));
    first.leads().await;

    let informer = Informer::new(ListWatch::new(configs));
    let stop = CancellationToken::new();
    let warm = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(stop).await }
    });
    let controller = InformerController::new();
    let configs_kind = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs_kind, &informer)
        .expect("new");
    let (send, mut received) = mpsc::channel(8);
    let reconciler = move |request: Request<ConfigMap>| {
        let send = send.clone();
        async move {
            let name = request.key().name().to_owned();
            send.send(name).await.expect("the test listens");
            Ok::<_, Infallible>(Outcome::done())
        }
    };
    let added = controller.add_reconciler(&configs_kind, reconciler);
    added.expect("a name");
    let second = Replica::of(election(&server, "second"), controller);
    informer.synced().await.expect("runs");
    sleep(secs(60)).await;
    assert!(received.try_recv().is_err(), "it stands by");
    assert_eq!(informer.store().len(), 1);
    first.stop().await.expect("no error");
    second.leads().await;
    assert_eq!(received.recv().await.as_deref(), Some("a"));
    second.stop().await.expect("no error");
    stop.cancel();
    warm.await.expect("no panic").expect("no error");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_standby_neither_reads_nor_writes_the_lease() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let first = Replica::start(election(&server, "first"), count.lingers(secs(0)));
    first.leads().await;
    let requests = Arc::new(AtomicUsize::new(0));
    let (service, counted) = (server.service(), Arc::clone(&requests));
    let client = tower::service_fn(move |request: http::Request<Body>| {
        counted.fetch_add(1, Ordering::SeqCst);
        service.clone().oneshot(request)
    });
    let second = builder(Client::new(client, "default"), "second").build();
    let second = Replica::start(second.expect("valid settings"), count.lingers(secs(0)));
    sleep(secs(60)).await;
    let before = requests.load(Ordering::SeqCst);
    assert!(before > 10, "{before} requests in a minute");
    second.stop().await.expect("no error");
    sleep(secs(60)).await;
    assert_eq!(requests.load(Ordering::SeqCst), before);
    assert!(first.election.is_leader());
    let spec = lease(&server).await.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("first"));
}

/// Two replicas have the same identity, for example from the same setting.
#[tokio::test(start_paused = true)]
async fn two_replicas_with_one_identity_are_two_candidates() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let first = Replica::start(election(&server, "twin"), count.lingers(secs(0)));
    first.leads().await;
    let second = Replica::start(election(&server, "twin"), count.lingers(secs(0)));
    sleep(secs(600)).await;
    assert!(first.election.is_leader() && !second.election.is_leader());
    assert_eq!(count.most(), 1);
}

/// A candidate waits for a lease with invalid content like for any other.
#[tokio::test(start_paused = true)]
async fn a_lease_with_invalid_content_is_acquired_after_the_lease_duration() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let mut odd = Lease::default();
    odd.metadata.name = Some(NAME.to_owned());
    odd.spec = Some(LeaseSpec {
        holder_identity: Some("unknown".to_owned()),
        renew_time: Some(MicroTime("3000-01-01T00:00:00Z".parse().expect("a time"))),
        ..LeaseSpec::default()
    });
    let created = leases(&server).create(&PostParams::default(), &odd).await;
    created.expect("a lease");
    let began = Instant::now();
    let replica = Replica::start(election(&server, "us"), count.lingers(secs(0)));
    replica.leads().await;
    assert!(began.elapsed() >= secs(15), "{:?}", began.elapsed());
    replica.stop().await.expect("no error");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_cannot_read_the_lease_retries_and_counts_the_reason() {
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
    let count = RunCount::default();
    let replica = Replica::start(election(&server, "us"), count.lingers(secs(0)));
    let forbidden = "leader_election_failures_total{name=\"web\",reason=\"forbidden\"}";
    until("it is counted", || replica.counted(forbidden).is_some()).await;
    assert_eq!(count.now(), 0);
    allowed.store(true, Ordering::SeqCst);
    replica.leads().await;
    replica.stop().await.expect("no error");

    let elsewhere = LeaderElection::builder(server.client(), "no-such-place", NAME);
    let elsewhere = elsewhere.build().expect("valid settings");
    let replica = Replica::start(elsewhere, count.lingers(secs(0)));
    let nowhere = "leader_election_failures_total{name=\"web\",reason=\"no_namespace\"}";
    until("it is counted", || replica.counted(nowhere).is_some()).await;
    replica.stop().await.expect("no error");
}

/// A standby waits as long as the server asks, and at most a minute. A leader does not: it would
/// lose its lease.
#[tokio::test(start_paused = true)]
async fn a_standby_respects_the_retry_delay_of_the_server_and_a_leader_does_not() {
    let in_body = r#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":30}}"#;
    for (header, body, least, most) in [
        (Some("30"), "", 30, 35),
        (None, in_body, 30, 35),
        (Some("86400"), "", 60, 65),
        (Some("18446744073709551616"), "", 60, 65),
        // Shorter than the pause between two reads.
        (Some("0"), "", 2, 5),
        (Some("Wed, 21 Oct 2015 07:28:00 GMT"), "", 2, 5),
        (None, "", 2, 5),
    ] {
        let (server, count) = (ApiServer::new(), RunCount::default());
        let is_throttled = Arc::new(AtomicBool::new(true));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (service, throttled) = (server.service(), Arc::clone(&is_throttled));
        let times = Arc::clone(&asked);
        let client = tower::service_fn(move |request: http::Request<Body>| {
            times.lock().expect("no panic").push(Instant::now());
            let mut refusal = http::Response::builder().status(429);
            if let Some(header) = header {
                refusal = refusal.header("retry-after", header);
            }
            let refusal = refusal.body(Either::Left(Full::<Bytes>::from(body)));
            let is_throttled = throttled.load(Ordering::SeqCst);
            let answer = service.clone().oneshot(request);
            async move {
                if is_throttled {
                    return Ok(refusal.expect("a response"));
                }
                answer.await.map(|answer| answer.map(Either::Right))
            }
        });
        let election = builder(Client::new(client, "default"), "us").build();
        let replica = Replica::start(election.expect("valid settings"), count.lingers(secs(0)));
        sleep(secs(600)).await;
        let waits = waits(&asked);
        assert!(waits.len() > 5, "{header:?} {body}: {waits:?}");
        let is_obeyed = |wait: &Duration| (secs(least)..secs(most)).contains(wait);
        assert!(waits.iter().all(is_obeyed), "{header:?} {body}: {waits:?}");

        is_throttled.store(false, Ordering::SeqCst);
        replica.leads().await;
        sleep(secs(60)).await;
        asked.lock().expect("no panic").clear();
        is_throttled.store(true, Ordering::SeqCst);
        // Less than from a renewal to its deadline.
        sleep(secs(7)).await;
        is_throttled.store(false, Ordering::SeqCst);
        sleep(secs(60)).await;
        assert!(replica.election.is_leader(), "{header:?} {body}");
        let waits = self::waits(&asked);
        assert!(
            waits.iter().all(|it| *it <= secs(2)),
            "{header:?} {body}: {waits:?}"
        );
        replica.stop().await.expect("no error");
    }
}

/// The times between requests.
fn waits(asked: &Mutex<Vec<Instant>>) -> Vec<Duration> {
    let asked = asked.lock().expect("no panic");
    asked.windows(2).map(|it| it[1] - it[0]).collect()
}
