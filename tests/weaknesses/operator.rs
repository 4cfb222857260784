//! The operator process, its admin server, and leader election between replicas.

use std::{
    future::pending,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use windlass::{
    AdminServer, Informer, InformerController, LeaderElection, ListWatch, Operator, Outcome,
    Request, admin::RouteError, operator::OperatorError, source::Scripted,
};
use windlass_apiserver::ApiServer;

use crate::rig::{KIND, Log, Refused, config, pass, quiet, settle};

type Run = JoinHandle<Result<(), OperatorError>>;

#[tokio::test]
async fn w28_a_check_that_hangs_or_panics_fails_only_its_own_line() {
    let (_script, source) = Scripted::<ConfigMap>::new();
    let controller = InformerController::builder().name("web").build();
    let controller = controller.expect("valid settings");
    let kind = controller.kind(KIND).expect("a new kind");
    let added = controller.add_informer(&kind, &Informer::new(source));
    added.expect("new");
    let (address, server) = server();
    let server = server
        .check_timeout(Duration::from_secs(1))
        .ready_check("hangs", pending::<Result<(), String>>)
        .ready_check("panics", || async {
            assert_eq!(1, 2, "test");
            Ok::<(), String>(())
        })
        .ready_check("works", || async { Ok::<(), String>(()) });
    let operator = Operator::builder().admin_server(server).build();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    let (stop, run) = start(&operator);
    // The informer has not listed yet, and one check never completes.
    let page = get(address, "/ready").await;
    assert!(page.starts_with("HTTP/1.1 503"), "{page}");
    for line in [
        "[-] informer configs of web: scripted: ",
        "[-] hangs: timed out after",
        "[-] panics: panicked: ",
        "[+] works: ok",
    ] {
        assert!(page.contains(line), "no {line:?} in {page}");
    }
    assert!(get(address, "/live").await.starts_with("HTTP/1.1 200"));
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn w28_a_used_path_a_used_port_and_a_second_run_are_typed_errors() {
    let route = |_| async { http::Response::default() };
    let (address, server) = server();
    let refused = server
        .route("/metrics", route)
        .expect_err("the path is used");
    assert!(matches!(refused, RouteError::Taken { .. }), "{refused}");

    let taken = TcpListener::bind(address).expect("free again");
    let operator = Operator::builder()
        .admin_server(AdminServer::new(address))
        .build();
    match operator.run_until(CancellationToken::new()).await {
        Err(OperatorError::Admin { source }) => {
            assert!(
                source.to_string().contains(&address.to_string()),
                "{source}"
            );
        }
        other => panic!("{other:?}"),
    }
    drop(taken);
    let again = operator.run_until(CancellationToken::new()).await;
    assert!(matches!(again, Err(OperatorError::AlreadyRan)), "{again:?}");
}

/// A request that is in progress when the operator is stopped is answered before the server ends.
#[tokio::test]
async fn w28_a_stop_completes_open_requests_and_closes_the_port() {
    let (address, server) = server();
    let began = Arc::new(tokio::sync::Notify::new());
    let may_end = Arc::new(tokio::sync::Notify::new());
    let route = {
        let (began, may_end) = (Arc::clone(&began), Arc::clone(&may_end));
        move |_| {
            let (began, may_end) = (Arc::clone(&began), Arc::clone(&may_end));
            async move {
                began.notify_one();
                may_end.notified().await;
                http::Response::new("the response".into())
            }
        }
    };
    let server = server.route("/slow", route).expect("a path");
    let operator = Operator::builder().admin_server(server).build();
    let (stop, run) = start(&operator);
    let response = tokio::spawn(get(address, "/slow"));
    began.notified().await;
    stop.cancel();
    may_end.notify_one();
    let page = response.await.expect("no panic");
    assert!(page.ends_with("the response"), "{page}");
    run.await.expect("no panic").expect("no error");
    assert!(TcpStream::connect(address).await.is_err(), "it is closed");
}

/// A configured health check and a configured metrics namespace take effect.
#[tokio::test]
async fn w28_settings_of_metrics_and_health_take_effect() {
    let (address, server) = server();
    let server = server.live_check("clock", || async { Err::<(), _>("stopped") });
    let controller = quiet().name("web").metrics_namespace("acme").build();
    let operator = Operator::builder().admin_server(server).build();
    let added = operator.add_controller(controller.expect("valid settings"));
    added.expect("the operator is not running");
    let (stop, run) = start(&operator);
    let page = get(address, "/live").await;
    assert!(page.starts_with("HTTP/1.1 503"), "{page}");
    assert!(page.contains("[-] clock: stopped"), "{page}");
    let page = get(address, "/metrics").await;
    assert!(
        page.contains("acme_pending_retries{controller=\"web\"} 0"),
        "{page}"
    );
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

#[tokio::test(start_paused = true)]
async fn w30_one_of_two_replicas_reconciles_until_it_stops_or_crashes() {
    let (server, log) = (ApiServer::new(), Log::default());
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "shop");
    namespace(&server).await;
    let mut web = config("web", 1);
    (web.metadata.uid, web.metadata.resource_version) = (None, None);
    configs
        .create(&PostParams::default(), &web)
        .await
        .expect("new");
    let set = async |value: &str| {
        let patch = Patch::Merge(json!({ "data": { "value": value } }));
        let patched = configs.patch("web", &PatchParams::default(), &patch).await;
        patched.expect("the object exists");
        pass(1).await;
    };

    let first = replica(&server, "first", &log);
    pass(60).await;
    let second = replica(&server, "second", &log);
    pass(3600).await;
    set("2").await;
    assert_eq!(log.take().await, "first web=1, first web=2");

    // The leader stops. A standby leads after its next read of the lease.
    first.0.cancel();
    first.1.await.expect("no panic").expect("no error");
    let third = replica(&server, "third", &log);
    pass(10).await;
    set("3").await;
    let lines = log.take().await;
    let (leads, other) = if lines.starts_with("second") {
        (second, third)
    } else {
        (third, second)
    };
    let name = lines.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(lines, format!("{name} web=2, {name} web=3"));

    // The leader crashes. No replica reconciles before the lease has expired.
    leads.1.abort();
    pass(5).await;
    set("4").await;
    assert_eq!(log.take().await, "");
    pass(20).await;
    set("5").await;
    let lines = log.take().await;
    let name = lines.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(lines, format!("{name} web=4, {name} web=5"));
    other.0.cancel();
    other.1.await.expect("no panic").expect("no error");
}

/// A replica whose lease was taken drops its call, so that it does not overlap with the next leader.
#[tokio::test(start_paused = true)]
async fn w30_a_replica_that_lost_its_lease_drops_the_call_in_progress() {
    let (server, log) = (ApiServer::new(), Log::default());
    let (script, source) = Scripted::<ConfigMap>::new();
    let controller = quiet().build().expect("valid settings");
    let kind = controller.kind(KIND).expect("a new kind");
    controller
        .add_informer(&kind, &Informer::new(source))
        .expect("new");
    let shared = log.clone();
    let reconciler = move |_: Request<ConfigMap>| {
        let log = shared.clone();
        async move {
            log.push("begins");
            pass(60).await;
            log.push("writes");
            Ok::<_, Refused>(Outcome::done())
        }
    };
    controller
        .add_reconciler(&kind, reconciler)
        .expect("a name");
    let election = LeaderElection::new(server.client(), "default", "web");
    let operator = Operator::builder()
        .leader_election(election.expect("names"))
        .build();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    let (_stop, run) = start(&operator);
    script.list([config("web", 1)]).await.expect("it runs");
    pass(5).await;
    assert_eq!(log.take().await, "begins");
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(server.client(), "default");
    let patch = Patch::Merge(json!({ "spec": { "holderIdentity": "other" } }));
    let patched = leases.patch("web", &PatchParams::default(), &patch).await;
    patched.expect("the object exists");
    let lost = run.await.expect("no panic");
    assert!(
        matches!(lost, Err(OperatorError::LeadershipLost { .. })),
        "{lost:?}"
    );
    pass(3600).await;
    assert_eq!(log.take().await, "");
}

/// Starts a replica that logs what it reconciles.
fn replica(server: &ApiServer, name: &'static str, log: &Log) -> (CancellationToken, Run) {
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "shop");
    let controller = quiet().build().expect("valid settings");
    let source = ListWatch::new(configs).fields("metadata.name=web");
    let informer = Informer::new(source.expect("a selector"));
    let kind = controller.kind(KIND).expect("a new kind");
    controller.add_informer(&kind, &informer).expect("new");
    let log = log.clone();
    let reconciler = move |request: Request<ConfigMap>| {
        let line = format!("{name} {}", crate::rig::show(request.object()));
        let log = log.clone();
        async move {
            log.push(line);
            Ok::<_, Refused>(Outcome::done())
        }
    };
    controller
        .add_reconciler(&kind, reconciler)
        .expect("a name");
    let election = LeaderElection::builder(server.client(), "default", "web");
    let election = election.identity(name).build().expect("valid settings");
    let operator = Operator::builder().leader_election(election).build();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    start(&operator)
}

fn start(operator: &Operator) -> (CancellationToken, Run) {
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (operator, stop) = (operator.clone(), stop.clone());
        async move { operator.run_until(stop).await }
    });
    (stop, run)
}

async fn namespace(server: &ApiServer) {
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.client());
    let namespace = json!({ "metadata": { "name": "shop" } });
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created.expect("new");
    settle().await;
}

/// An admin server, and its address.
fn server() -> (SocketAddr, AdminServer) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    (address, AdminServer::new(listener))
}

/// The complete HTTP response.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    stream
        .write_all(head.as_bytes())
        .await
        .expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    answer
}
