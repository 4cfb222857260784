//! Handover: the next replica leads after the leader has stopped or crashed.

use std::{
    convert::Infallible,
    future::pending,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Client, api::PostParams, client::Body};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;
use windlass_controller::Runnable;
use windlass_operator::{AdminServer, LeaderElection, Operator, OperatorError};

use crate::{
    replica::{Replica, RunCount, secs, until},
    server::{MASTER, NAME, builder, cut, election, lease, leases},
};

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn one_of_two_replicas_runs_its_controllers_and_hands_over_at_a_stop() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let first = Replica::start(election(&server, "first"), count.lingers(secs(0)));
    first.leads().await;
    let second = Replica::start(election(&server, "second"), count.lingers(secs(0)));
    // In virtual time: twenty times as long as a lease.
    sleep(secs(300)).await;
    assert!(!second.election.is_leader());
    assert_eq!(first.election.holder().as_deref(), Some("first"));
    assert_eq!(second.election.holder().as_deref(), Some("first"));
    assert_eq!((count.now(), count.most()), (1, 1));
    assert_eq!(first.counted(MASTER).as_deref(), Some("1"));
    assert_eq!(second.counted(MASTER).as_deref(), Some("0"));

    let asked = Instant::now();
    first.stop().await.expect("no error");
    second.leads().await;
    // At most the time between two reads: the standby does not wait for the expiry.
    assert!(asked.elapsed() < secs(5), "{:?}", asked.elapsed());
    let spec = lease(&server).await.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    assert_eq!(spec.lease_transitions, Some(1));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(
        second.counted("leader_election_lease_transitions{name=\"web\"}"),
        Some("1".to_owned())
    );
    until("it works", || count.now() == 1).await;
    assert_eq!(count.most(), 1);
    second.stop().await.expect("no error");
}

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn the_lease_of_a_crashed_replica_is_acquired_after_it_has_expired() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let first = Replica::start(election(&server, "first"), count.lingers(secs(0)));
    first.leads().await;
    let second = Replica::start(election(&server, "second"), count.lingers(secs(0)));
    sleep(secs(60)).await;
    let crashed = Instant::now();
    let is_leader = first.election.clone();
    drop(first);
    second.leads().await;
    // 15 s after the last renewal, which was up to 2 s before the crash and read up to 4.4 s later.
    let took = crashed.elapsed();
    assert!(took > secs(13) && took < secs(20), "{took:?}");
    assert_eq!(count.most(), 1);
    assert!(!is_leader.is_leader());
    second.stop().await.expect("no error");
}

/// Rows: BO-24, BO-25
#[tokio::test(start_paused = true)]
async fn the_lease_is_released_after_the_controllers_have_ended() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let replica = Replica::start(election(&server, "us"), count.lingers(secs(20)));
    replica.leads().await;
    until("it works", || count.now() == 1).await;
    replica.stop.cancel();
    // Longer than the lease duration: the lease is renewed while the controllers end.
    sleep(secs(19)).await;
    let held = lease(&server).await.spec.expect("a spec");
    assert_eq!(held.holder_identity.as_deref(), Some("us"));
    assert_eq!(held.lease_transitions, Some(0));
    assert!(held.acquire_time.is_some() && held.acquire_time < held.renew_time);
    assert_eq!(count.now(), 1);
    let ended = replica.election.clone();
    replica.end().await.expect("no error");
    let free = lease(&server).await.spec.expect("a spec");
    assert_eq!(free.holder_identity.as_deref(), Some(""));
    assert_eq!(free.lease_duration_seconds, Some(1));
    assert!(free.renew_time > held.renew_time);
    assert_eq!(ended.holder(), None);
}

/// Rows: BO-25
#[tokio::test(start_paused = true)]
async fn controllers_that_exceed_the_drain_timeout_are_aborted_before_the_lease_is_released() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let replica = Replica::start(election(&server, "us"), count.lingers(None));
    replica.leads().await;
    until("it works", || count.now() == 1).await;
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
    assert_eq!(count.now(), 0, "it was dropped");
    let free = lease(&server).await.spec.expect("a spec");
    assert_eq!(free.holder_identity.as_deref(), Some(""));
}

/// Sends a write whose response never comes.
struct Writes {
    client: Client,
    /// The kind and name of the written object.
    path: &'static str,
    then: Then,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Until it is aborted, or the fence refuses the write.
    Waits,
    /// For 5 s.
    GivesUp,
    /// For 5 s, and then ends with an error.
    Fails,
}

const CONFIG: &str = "/api/v1/namespaces/default/configmaps/a";

impl Runnable for Writes {
    type Error = std::io::Error;

    fn name(&self) -> &'static str {
        "writes"
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), std::io::Error> {
        let write = || {
            let request = http::Request::delete(self.path).body(Vec::new());
            self.client.request_text(request.expect("valid"))
        };
        if self.then == Then::Waits {
            // A task of each replica does not lead at first.
            while write().await.is_err() && !stop.is_cancelled() {
                sleep(secs(1)).await;
            }
        } else {
            assert!(timeout(secs(5), write()).await.is_err(), "no response");
        }
        if self.then == Then::Fails {
            return Err(std::io::Error::other("no response"));
        }
        stop.cancelled().await;
        Ok(())
    }
}

/// A client behind the fence of `election`, whose requests get no response.
fn hanging(election: &LeaderElection) -> Client {
    let hangs = tower::service_fn(|_: http::Request<Body>| {
        pending::<Result<http::Response<Body>, Infallible>>()
    });
    election.fence().client(Client::new(hangs, "default"))
}

/// The API server may still apply it, after the next leader has started.
#[tokio::test(start_paused = true)]
async fn the_lease_is_not_released_after_a_stop_that_aborts_a_write_in_progress() {
    const EVENT: &str = "/apis/events.k8s.io/v1/namespaces/default/events/a";
    for (path, then, holder) in [
        (CONFIG, Then::Waits, "us"),
        (CONFIG, Then::GivesUp, ""),
        (CONFIG, Then::Fails, "us"),
        // Of any leader.
        (EVENT, Then::Waits, ""),
    ] {
        let server = ApiServer::new();
        let election = election(&server, "us");
        let client = hanging(&election);
        let replica = Replica::of(election, Writes { client, path, then });
        replica.leads().await;
        sleep(secs(10)).await;
        let ended = replica.stop().await;
        assert_eq!(ended.is_err(), then != Then::GivesUp, "{ended:?}");
        let spec = lease(&server).await.spec.expect("a spec");
        assert_eq!(spec.holder_identity.as_deref(), Some(holder));
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_not_released_if_its_fence_drops_a_write_of_a_task_of_each_replica() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let election = election(&server, "us");
    let (client, path, then) = (hanging(&election), CONFIG, Then::Waits);
    let builder = Operator::builder().leader_election(election.clone());
    let operator = builder.build();
    let controller = count.lingers(secs(0));
    operator.add_controller(controller).expect("a new name");
    let task = Writes { client, path, then };
    operator.add_to_each_replica(task).expect("a new name");
    let replica = Replica::run(election, operator);
    replica.leads().await;
    sleep(secs(10)).await;
    replica.stop().await.expect("no error");
    let spec = lease(&server).await.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("us"));
}

/// A standby whose create or update of the lease is not answered. A stop takes the drain timeout as
/// a whole, and at most 1 s more for the release.
#[tokio::test(start_paused = true)]
async fn a_stop_while_a_standby_claims_the_lease_takes_at_most_the_drain_timeout_and_a_second() {
    for (drain, most) in [
        (Duration::from_millis(50), 1.05),
        (secs(1), 2.0),
        (secs(3), 4.0),
        (secs(25), 5.0),
    ] {
        for method in [Method::POST, Method::PUT] {
            let (server, is_cut) = (ApiServer::new(), Arc::new(AtomicBool::new(false)));
            if method == Method::PUT {
                free_lease(&server).await;
            }
            let (service, cut, hangs) = (server.service(), Arc::clone(&is_cut), method.clone());
            let hanging = tower::service_fn(move |request: http::Request<Body>| {
                if *request.method() == hangs {
                    cut.store(true, Ordering::SeqCst);
                }
                let (answer, cut) = (service.clone().oneshot(request), Arc::clone(&cut));
                async move {
                    if cut.load(Ordering::SeqCst) {
                        pending::<()>().await;
                    }
                    answer.await
                }
            });
            let election = builder(Client::new(hanging, "default"), "us").build();
            let election = election.expect("valid settings");
            let builder = Operator::builder().leader_election(election.clone());
            let operator = builder.drain_timeout(drain).build();
            let added = operator.add_controller(RunCount::default().lingers(secs(0)));
            added.expect("the operator is not running");
            let replica = Replica::run(election, operator);
            until("it claims the lease", || is_cut.load(Ordering::SeqCst)).await;
            let asked = Instant::now();
            replica.stop().await.expect("it never led");
            let took = asked.elapsed().as_secs_f64();
            assert!(took <= most + 0.01, "{method} {drain:?}: {took} s");
        }
    }
}

/// A controller that never ends, a connection whose response never comes, and an API server that
/// does not respond, at the same time.
#[tokio::test(start_paused = true)]
async fn a_stop_takes_at_most_the_drain_timeout_and_two_seconds() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let (client, is_cut) = cut(&server);
    let election = builder(client, "us").build().expect("valid settings");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let requested = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&requested);
    let admin = AdminServer::new(listener).route("/hangs", move |_| {
        flag.store(true, Ordering::SeqCst);
        pending::<http::Response<bytes::Bytes>>()
    });
    let operator = Operator::builder()
        .leader_election(election.clone())
        .admin_server(admin.expect("a path"))
        .drain_timeout(secs(3))
        .build();
    let added = operator.add_controller(count.lingers(None));
    added.expect("the operator is not running");
    let replica = Replica::run(election, operator);
    replica.leads().await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = b"GET /hangs HTTP/1.1\r\nhost: here\r\n\r\n";
    stream.write_all(request).await.expect("it is sent");
    until("the route is called", || requested.load(Ordering::SeqCst)).await;
    is_cut.store(true, Ordering::SeqCst);
    let asked = Instant::now();
    let ended = replica.stop().await;
    let took = asked.elapsed().as_secs_f64();
    assert!(
        matches!(ended, Err(OperatorError::Undrained { .. })),
        "{ended:?}"
    );
    assert!((3.0..=5.01).contains(&took), "{took} s");
}

/// The server applies our write, but its response arrives after the stop, or never.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_acquired_during_the_stop_is_released() {
    // With a short drain timeout there is less time than one request may take.
    for (time, drain) in [(3, 30), (3600, 30), (3600, 4)] {
        let time = secs(time);
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
        let count = RunCount::default();
        let election = election.expect("valid settings");
        let operator = Operator::builder().leader_election(election.clone());
        let operator = operator.drain_timeout(secs(drain)).build();
        let added = operator.add_controller(count.lingers(secs(0)));
        added.expect("the operator is not running");
        let replica = Replica::run(election, operator);
        sleep(secs(1)).await;
        let held = lease(&server).await.spec.expect("a spec");
        assert_eq!(held.holder_identity.as_deref(), Some("us"));
        replica.stop().await.expect("no error");
        let free = lease(&server).await.spec.expect("a spec");
        assert_eq!(
            free.holder_identity.as_deref(),
            Some(""),
            "{time:?} {drain}"
        );
        assert_eq!(count.most(), 0, "nothing was started");
    }
}

/// The lease is read and written, each within a part of the timeout of one request.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_responds_slowly_has_time_for_the_release() {
    let server = ApiServer::new();
    let is_slow = Arc::new(AtomicBool::new(false));
    let (service, flag) = (server.service(), Arc::clone(&is_slow));
    let slow = tower::service_fn(move |request: http::Request<Body>| {
        let (answer, is_slow) = (service.clone().oneshot(request), Arc::clone(&flag));
        async move {
            if is_slow.load(Ordering::SeqCst) {
                sleep(secs(2)).await;
            }
            answer.await
        }
    });
    let election = builder(Client::new(slow, "default"), "us").build();
    let count = RunCount::default();
    let replica = Replica::start(election.expect("valid settings"), count.lingers(secs(0)));
    replica.leads().await;
    is_slow.store(true, Ordering::SeqCst);
    replica.stop().await.expect("no error");
    let free = lease(&server).await.spec.expect("a spec");
    assert_eq!(free.holder_identity.as_deref(), Some(""));
}

/// Creates a lease without a holder.
async fn free_lease(server: &ApiServer) {
    let mut free = Lease::default();
    free.metadata.name = Some(NAME.to_owned());
    let created = leases(server).create(&PostParams::default(), &free).await;
    created.expect("a lease");
}
