//! One replica works, and the next when it has ended.

use http::Method;
use kube::{Client, client::Body};
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;
use windlass_operator::OperatorError;

use crate::{
    replica::{Floor, Replica, secs, until},
    server::{MASTER, builder, election, lease},
};

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
