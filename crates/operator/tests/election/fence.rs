//! The fence of a leader: its deadline, its clients, and the release of the lease.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    client::Body,
};
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;
use windlass_controller::Runnable;
use windlass_operator::{
    Fence, FenceClosed, LeaderElection, LeadershipLost, Operator, OperatorError,
};

use crate::{
    replica::{Replica, RunCount, secs, until},
    server::{NAME, builder, cut, election, lease, leases},
};

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn a_leader_past_its_deadline_sends_no_write_and_ends() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let frozen = Arc::new(Mutex::new(Duration::ZERO));
    let clock = {
        let (frozen, began) = (Arc::clone(&frozen), Instant::now());
        move || began.elapsed() + *frozen.lock().expect("no panic")
    };
    let election = builder(server.client(), "us").fence(Fence::with_clock(clock));
    let election = election.build().expect("valid settings");
    let client = election.fence().client(server.client());
    let replica = Replica::start(election.clone(), count.lingers(None));
    replica.leads().await;
    create(&client, "before").await.expect("it leads");

    *frozen.lock().expect("no panic") += secs(60);
    // Before any timer has fired.
    assert!(!election.is_leader());
    let refused = create(&client, "after")
        .await
        .expect_err("it does not lead");
    let refused = FenceClosed::find(&refused).expect("it was the fence");
    let request = refused.request.as_deref();
    assert_eq!(request, Some("POST /api/v1/namespaces/default/configmaps"));
    assert!(refused.expired > Some(secs(49)), "{refused}");
    // Reads still work.
    let configs: Api<ConfigMap> = Api::namespaced(client, "default");
    configs.get("before").await.expect("it was written");
    let absent = configs.get_opt("after").await.expect("a response");
    assert!(absent.is_none());

    match replica.end().await {
        Err(OperatorError::LeadershipLost { source }) => {
            assert!(
                matches!(source, LeadershipLost::NotRenewed { .. }),
                "{source}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// The server may apply the renewal as soon as it is sent, and other candidates measure from then.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_measured_from_before_the_renewal_was_sent() {
    let (server, is_cut) = (ApiServer::new(), Arc::new(AtomicBool::new(false)));
    let (service, cut) = (server.service(), Arc::clone(&is_cut));
    let slow = tower::service_fn(move |request: http::Request<Body>| {
        let (answer, cut) = (service.clone().oneshot(request), Arc::clone(&cut));
        async move {
            let answer = answer.await;
            sleep(secs(4)).await;
            if cut.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            answer
        }
    });
    let election = builder(Client::new(slow, "default"), "us").build();
    let election = election.expect("valid settings");
    let fence = election.fence();
    let count = RunCount::default();
    let began = Instant::now();
    let replica = Replica::start(election, count.lingers(secs(0)));
    replica.leads().await;
    is_cut.store(true, Ordering::SeqCst);
    assert!(began.elapsed() >= secs(8), "{:?}", began.elapsed());
    fence.closed().await;
    // The read was sent at 0 s, the lease was created by a request sent at 4 s.
    let closed = began.elapsed();
    assert!(closed >= secs(14) && closed < secs(15), "{closed:?}");
    replica.end().await.expect_err("it lost the lease");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_connection_is_dropped_at_the_deadline() {
    let (server, fence) = (ApiServer::new(), Fence::new());
    let (client, is_cut) = cut(&server);
    let client = fence.client(client);
    fence.open_until(fence.now() + secs(10));
    is_cut.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let refused = create(&client, "late").await.expect_err("it hangs");
    assert!(FenceClosed::find(&refused).is_some(), "{refused:?}");
    assert!(began.elapsed() < secs(11), "{:?}", began.elapsed());
    assert_eq!(fence.running(), 0);
}

/// Without an election the client writes always; with one, only while its replica leads.
#[tokio::test(start_paused = true)]
async fn an_operator_creates_fenced_clients() {
    let server = ApiServer::new();
    let free = Operator::new().fenced_client(server.client());
    create(&free, "free").await.expect("nothing fences it");
    let election = election(&server, "us");
    let operator = Operator::builder().leader_election(election).build();
    let fenced = operator.fenced_client(server.client());
    let refused = create(&fenced, "fenced").await.expect_err("it stands by");
    assert!(FenceClosed::find(&refused).is_some(), "{refused:?}");
}

/// The same for a client with connections of its own.
#[tokio::test]
async fn an_operator_connects_fenced_clients() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let config = kube::Config::new(listening.url().parse().expect("a URL"));
    let free = Operator::new().connect(config.clone()).expect("a client");
    create(&free, "free").await.expect("nothing fences it");
    let election = election(&server, "us");
    let fence = election.fence();
    let operator = Operator::builder().leader_election(election).build();
    let fenced = operator.connect(config).expect("a client");
    let refused = create(&fenced, "fenced").await.expect_err("it stands by");
    assert!(FenceClosed::find(&refused).is_some(), "{refused:?}");
    fence.open_until(fence.now() + secs(60));
    create(&fenced, "fenced").await.expect("it leads");
}

/// The same record in a recreated lease, for example from a backup.
#[tokio::test(start_paused = true)]
async fn a_recreated_lease_is_not_mistaken_for_our_own() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let replica = Replica::start(election(&server, "us"), count.lingers(None));
    replica.leads().await;
    let leases = leases(&server);
    let ours = lease(&server).await;
    let deleted = leases.delete(NAME, &DeleteParams::default()).await;
    deleted.expect("the object exists");
    let mut again = Lease {
        spec: ours.spec,
        ..Lease::default()
    };
    again.metadata.name = Some(NAME.to_owned());
    let created = leases.create(&PostParams::default(), &again).await;
    created.expect("it was deleted");
    match timeout(secs(60), replica.end()).await {
        Ok(Err(OperatorError::LeadershipLost {
            source: LeadershipLost::Deleted { .. },
        })) => {}
        other => panic!("{other:?}"),
    }
}

/// Rows: BO-25
#[tokio::test(start_paused = true)]
async fn a_stop_while_the_api_server_hangs_takes_at_most_one_request_timeout() {
    for (drain, most) in [
        (secs(25), secs(5)),
        (secs(3), secs(3)),
        (secs(1) / 20, secs(1)),
    ] {
        let (server, count) = (ApiServer::new(), RunCount::default());
        let (client, is_cut) = cut(&server);
        let election = builder(client, "us").build().expect("valid settings");
        let builder = Operator::builder().leader_election(election.clone());
        let operator = builder.drain_timeout(drain).build();
        let added = operator.add_controller(count.lingers(secs(0)));
        added.expect("the operator is not running");
        let replica = Replica::run(election, operator);
        replica.leads().await;
        sleep(secs(60)).await;
        is_cut.store(true, Ordering::SeqCst);
        let asked = Instant::now();
        replica.stop().await.expect("its controllers are idle");
        let took = asked.elapsed();
        assert!(took <= most + secs(1) / 10, "{took:?} of {drain:?}");
    }
}

/// A call that blocks its thread cannot be aborted and may still write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_is_not_released_while_a_call_still_runs() {
    let server = ApiServer::new();
    create(&server.client(), "a").await.expect("new");
    let (begun, may_end) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let _ends = SetOnDrop(Arc::clone(&may_end));
    let controller = blocking(&server, &begun, &may_end);
    the_lease_expires(&server, controller, &begun).await;
    may_end.store(true, Ordering::SeqCst);
}

/// The same for a custom controller, whose calls the fence does not count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_is_not_released_while_a_controller_still_runs() {
    let server = ApiServer::new();
    let (begun, may_end) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let _ends = SetOnDrop(Arc::clone(&may_end));
    let controller = Blocks {
        begun: Arc::clone(&begun),
        may_end: Arc::clone(&may_end),
    };
    the_lease_expires(&server, controller, &begun).await;
}

/// Handlers that block all threads of the runtime do not delay a renewal.
#[test]
fn a_lease_with_a_separate_client_is_renewed_while_all_threads_are_blocked() {
    let servers = runtime(2);
    let _guard = servers.enter();
    let server = ApiServer::new();
    let listening = servers.block_on(server.listen(([127, 0, 0, 1], 0)));
    let listening = listening.expect("a port");
    servers
        .block_on(create(&server.client(), "a"))
        .expect("new");
    let (begun, may_end) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let controller = blocking(&server, &begun, &may_end);
    let config = kube::Config::new(listening.url().parse().expect("a URL"));
    let election = LeaderElection::builder(config, "default", NAME)
        .lease_duration(secs(60))
        .renew_deadline(secs(50))
        .retry_period(Duration::from_millis(100))
        .build()
        .expect("valid settings");
    let operators = runtime(1);
    let _ends = SetOnDrop(Arc::clone(&may_end));
    let run = operators.spawn({
        let operator = Operator::builder()
            .leader_election(election.clone())
            .build();
        operator
            .add_controller(controller)
            .expect("the operator is not running");
        let stop = tokio_util::sync::CancellationToken::new();
        async move { operator.run_until(stop).await }
    });
    servers.block_on(until("the call has begun", || begun.load(Ordering::SeqCst)));
    let renewed = || {
        servers
            .block_on(lease(&server))
            .spec
            .and_then(|it| it.renew_time)
    };
    // The only thread of the operator is blocked, so at most one renewal had begun before.
    for _ in 0..3 {
        let before = renewed();
        let is_renewed = (0..6_000).any(|_| {
            // Real time, in which a thread renews the lease.
            std::thread::sleep(Duration::from_millis(10));
            renewed() > before
        });
        assert!(is_renewed, "it was renewed");
    }
    assert!(election.is_leader());
    assert!(!run.is_finished());
    may_end.store(true, Ordering::SeqCst);
    run.abort();
}

/// A flag that is set on drop, so that a failed test ends.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A controller whose call blocks its thread until `may_end`.
/// Stops an operator while `controller` blocks a thread: the lease is left to expire.
async fn the_lease_expires(server: &ApiServer, controller: impl Runnable, begun: &AtomicBool) {
    let election = election(server, "us");
    let builder = Operator::builder().leader_election(election.clone());
    let operator = builder.drain_timeout(Duration::from_millis(100)).build();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    let replica = Replica::run(election, operator);
    until("the controller blocks", || begun.load(Ordering::SeqCst)).await;
    let ended = timeout(secs(30), replica.stop()).await.expect("it ends");
    assert!(
        matches!(ended, Err(OperatorError::Undrained { .. })),
        "{ended:?}"
    );
    let spec = lease(server).await.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("us"), "it expires");
}

/// A controller that blocks its thread.
struct Blocks {
    begun: Arc<AtomicBool>,
    may_end: Arc<AtomicBool>,
}

impl Runnable for Blocks {
    type Error = std::convert::Infallible;

    fn name(&self) -> &'static str {
        "blocks"
    }

    async fn run(&self, _: tokio_util::sync::CancellationToken) -> Result<(), Self::Error> {
        self.begun.store(true, Ordering::SeqCst);
        while !self.may_end.load(Ordering::SeqCst) {
            // Blocks the thread, which is the subject of the test; nothing waits for this time.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

fn blocking(
    server: &ApiServer,
    begun: &Arc<AtomicBool>,
    may_end: &Arc<AtomicBool>,
) -> windlass_controller::InformerController {
    use windlass_controller::{InformerController, Outcome, Request};
    use windlass_informer::{Informer, ListWatch};

    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let controller = InformerController::new();
    let informer = Informer::new(ListWatch::new(configs));
    let configs_kind = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs_kind, &informer)
        .expect("new");
    let (begun, may_end) = (Arc::clone(begun), Arc::clone(may_end));
    let reconciler = move |_: Request<ConfigMap>| {
        let (begun, may_end) = (Arc::clone(&begun), Arc::clone(&may_end));
        async move {
            begun.store(true, Ordering::SeqCst);
            while !may_end.load(Ordering::SeqCst) {
                // Blocks the thread, which is the subject of the test; nothing waits for this time.
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok::<_, std::convert::Infallible>(Outcome::done())
        }
    };
    controller
        .add_reconciler(&configs_kind, reconciler)
        .expect("a name");
    controller
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let builder = builder.worker_threads(threads).enable_all();
    builder.build().expect("a runtime")
}

async fn create(client: &Client, name: &str) -> Result<ConfigMap, kube::Error> {
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    configs.create(&PostParams::default(), &config).await
}
