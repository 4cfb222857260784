//! Loss of the lease, real and apparent.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use http_body_util::BodyExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams},
    client::Body,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;
use windlass_operator::{LeadershipLost, Operator, OperatorError};

use crate::{
    replica::{Replica, RunCount, secs, until},
    server::{MASTER, NAME, builder, cut, election, lease, leases, set},
};

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn a_leader_without_answers_aborts_its_controllers_before_another_replica_leads() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let (client, is_cut) = cut(&server);
    let first = builder(client, "first").build().expect("valid settings");
    let first = Replica::start(first, count.lingers(None));
    first.leads().await;
    let second = Replica::start(election(&server, "second"), count.lingers(secs(0)));
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
            assert_eq!(source.expect("the last request failed").reason(), "silent");
        }
        other => panic!("{other:?}"),
    }
    assert!(cut.elapsed() <= secs(10), "{:?}", cut.elapsed());
    assert_eq!(count.now(), 0, "all was aborted");
    assert!(!second.election.is_leader());
    second.leads().await;
    until("it works", || count.now() == 1).await;
    assert_eq!(count.most(), 1);
    second.stop().await.expect("no error");
}

/// Only the `Status` of an API server says that the lease was deleted. A proxy can answer 404 by
/// mistake; the leader sends its renewal again until the deadline.
#[tokio::test(start_paused = true)]
async fn a_404_of_a_proxy_does_not_end_a_leader() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let misrouted = Arc::new(AtomicUsize::new(0));
    let (service, left) = (server.service(), Arc::clone(&misrouted));
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        let take = |left: usize| left.checked_sub(1);
        if (left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)).is_ok() {
            // The answer to this path is 404, and no `Status`.
            *request.uri_mut() = http::Uri::from_static("/nowhere");
        }
        service.clone().oneshot(request)
    });
    let client = Client::new(service, "default");
    let replica = builder(client, "us").build().expect("valid settings");
    let replica = Replica::start(replica, count.lingers(secs(0)));
    replica.leads().await;
    until("it works", || count.now() == 1).await;
    misrouted.store(1, Ordering::SeqCst);
    sleep(secs(60)).await;
    assert_eq!(
        misrouted.load(Ordering::SeqCst),
        0,
        "a renewal was misrouted"
    );
    assert_eq!(count.now(), 1, "it still leads");
    let spec = lease(&server).await.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("us"));
    replica.stop().await.expect("no error");
}

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn a_taken_emptied_or_deleted_lease_ends_the_operator() {
    for (what, reason) in [
        ("taken", "Taken"),
        ("emptied", "Emptied"),
        ("deleted", "Deleted"),
    ] {
        let (server, count) = (ApiServer::new(), RunCount::default());
        let replica = Replica::start(election(&server, "us"), count.lingers(None));
        replica.leads().await;
        until("it works", || count.now() == 1).await;
        let leases = leases(&server);
        match what {
            "taken" => set(&leases, "them").await,
            "emptied" => set(&leases, "").await,
            _ => {
                let deleted = leases.delete(NAME, &DeleteParams::default()).await;
                deleted.expect("the object exists");
            }
        }
        let began = Instant::now();
        match replica.end().await {
            Err(OperatorError::LeadershipLost { source }) => {
                assert!(format!("{source:?}").starts_with(reason), "{source:?}");
                assert!(source.to_string().contains("default/web"), "{source}");
            }
            other => panic!("{what}: {other:?}"),
        }
        // At the next renewal.
        assert!(began.elapsed() <= secs(2), "{what}: {:?}", began.elapsed());
        assert_eq!(count.now(), 0, "{what}: all was dropped");
    }
}

/// The controllers are dropped before `run_until` returns.
#[tokio::test(start_paused = true)]
async fn no_controller_runs_when_an_operator_that_lost_its_lease_has_ended() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let election = election(&server, "us");
    let operator = Operator::builder()
        .leader_election(election.clone())
        .build();
    let added = operator.add_controller(count.lingers(None));
    added.expect("the operator is not running");
    let steal = async {
        until("it works", || count.now() == 1).await;
        set(&leases(&server), "them").await;
    };
    let run = async {
        let ended = operator.run_until(CancellationToken::new()).await;
        (ended, count.now(), election.is_leader())
    };
    let ((ended, running, is_leader), ()) = tokio::join!(run, steal);
    assert!(
        matches!(ended, Err(OperatorError::LeadershipLost { .. })),
        "{ended:?}"
    );
    assert_eq!((running, is_leader), (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_label_on_the_lease_does_not_end_the_leadership() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let replica = Replica::start(election(&server, "us"), count.lingers(secs(0)));
    replica.leads().await;
    let patch = serde_json::json!({ "metadata": { "labels": { "a": "b" } } });
    let patched = leases(&server)
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("the object exists");
    sleep(secs(60)).await;
    assert_eq!(count.now(), 1);
    assert_eq!(
        replica.counted("leader_election_slowpath_total{name=\"web\"}"),
        Some("1".to_owned())
    );
    replica.stop().await.expect("no error");
    let lease = lease(&server).await;
    assert_eq!(lease.metadata.labels.map(|labels| labels.len()), Some(1));
}

/// An API server that creates what an update does not find answers with another uid. Another
/// replica may have led in between.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_created_the_lease_again_ends_the_operator() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let service = server.service();
    let recreates = tower::service_fn(move |request: http::Request<Body>| {
        let is_renewal = request.method() == http::Method::PUT;
        let answer = service.clone().oneshot(request);
        async move {
            let (parts, body) = answer.await?.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let mut body = body.to_vec();
            if is_renewal {
                let mut lease: Lease = serde_json::from_slice(&body).expect("a lease");
                lease.metadata.uid = Some("another".to_owned());
                body = serde_json::to_vec(&lease).expect("JSON");
            }
            let body = http_body_util::Full::<bytes::Bytes>::from(body);
            Ok::<_, std::convert::Infallible>(http::Response::from_parts(parts, body))
        }
    });
    let election = builder(Client::new(recreates, "default"), "us").build();
    let replica = Replica::start(election.expect("valid settings"), count.lingers(None));
    replica.leads().await;
    let ended = replica.end().await;
    let source = match ended {
        Err(OperatorError::LeadershipLost { source }) => source,
        other => panic!("{other:?}"),
    };
    assert!(matches!(source, LeadershipLost::Deleted { .. }), "{source}");
    assert_eq!(count.now(), 0, "all was aborted");
}

/// An operator that is dropped releases no lease, but says at once that it does not lead.
#[tokio::test(start_paused = true)]
async fn an_operator_that_is_dropped_does_not_lead_any_more() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let mut replica = Replica::start(election(&server, "us"), count.lingers(None));
    replica.leads().await;
    assert_eq!(replica.counted(MASTER).as_deref(), Some("1"));
    replica.crash().await;
    assert!(!replica.election.is_leader());
    assert_eq!(replica.election.holder(), None);
    assert_eq!(replica.counted(MASTER).as_deref(), Some("0"));
    let spec = lease(&server).await.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("us"));
}

/// A renewal that takes long is followed by the release, not by another renewal.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_stopped_sends_no_further_renewal() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let methods = Arc::new(Mutex::new(Vec::new()));
    let (service, sent) = (server.service(), Arc::clone(&methods));
    let slow = tower::service_fn(move |request: http::Request<Body>| {
        let method = request.method().clone();
        sent.lock().expect("no panic").push(method);
        let answer = service.clone().oneshot(request);
        async move {
            let answer = answer.await;
            // Longer than the time between two renewals.
            sleep(secs(3)).await;
            answer
        }
    });
    let election = builder(Client::new(slow, "default"), "us").build();
    let replica = Replica::start(election.expect("valid settings"), count.lingers(secs(0)));
    replica.leads().await;
    sleep(secs(60)).await;
    let before = methods.lock().expect("no panic").len();
    replica.stop().await.expect("no error");
    let methods = methods.lock().expect("no panic");
    assert_eq!(methods[before - 1], http::Method::PUT, "a renewal");
    assert_eq!(methods.get(before), Some(&http::Method::GET), "{methods:?}");
}
