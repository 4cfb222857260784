//! The requests of an operator: exactly those that its documented RBAC rules allow.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use prometheus::{Registry, TextEncoder};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{ApiServer, Decision};
use windlass_controller::{
    Failure, FinalizerName, Finalizers, InformerController, OpinionatedReconciler, Outcome, Request,
};
use windlass_informer::{Informer, ListWatch};
use windlass_operator::{AdminServer, HealthDetails, LeaderElection, Operator};

/// Records the requests of a server, each as verb, resource, namespace and name.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

// === impl Asked ===

impl Asked {
    fn server(&self) -> ApiServer {
        let asked = self.clone();
        ApiServer::builder()
            .authorize(move |request| {
                let sub = match &*request.subresource {
                    "" => String::new(),
                    sub => format!("/{sub}"),
                };
                let line = format!(
                    "{} {}{sub} in {:?} called {:?}",
                    request.verb, request.resource, request.namespace, request.name
                );
                asked.0.lock().expect("no panic").push(line);
                Decision::Allow
            })
            .start()
    }

    fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    /// The distinct requests in order, without the first `skipped` ones.
    fn all(&self, skipped: usize) -> BTreeSet<String> {
        self.0.lock().expect("no panic")[skipped..]
            .iter()
            .cloned()
            .collect()
    }
}

/// An operator with all parts that send requests: an informer, a finalizer and a lease.
fn operator(server: &ApiServer, admin: AdminServer) -> Operator {
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let name = FinalizerName::new("example.io/publisher").expect("a name");
    let finalizers = Finalizers::<ConfigMap>::new(server.client(), name).expect("valid");
    let reconciler = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
    let controller = InformerController::new();
    let informer = Informer::new(ListWatch::new(configs));
    let configs_kind = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs_kind, &informer)
        .expect("new");
    let reconciler = OpinionatedReconciler::new(finalizers, reconciler);
    controller
        .add_reconciler(&configs_kind, reconciler)
        .expect("a name");
    let election = LeaderElection::new(server.client(), "default", "web").expect("names");
    let builder = Operator::builder().leader_election(election);
    let operator = builder.admin_server(admin).build();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    operator
}

/// An object is created and deleted, and the operator is started and stopped. The operator sends no
/// request for all namespaces, deletes nothing, and accesses only its own lease.
#[tokio::test(start_paused = true)]
async fn an_operator_sends_exactly_the_requests_that_its_role_must_grant() {
    let asked = Asked::default();
    let server = asked.server();
    let operator = operator(&server, AdminServer::new(([127, 0, 0, 1], 0)));
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    sleep(Duration::from_secs(5)).await;
    // Objects that the test creates and deletes itself, with a client that is not recorded.
    let before = asked.all(0);
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let mut config = ConfigMap::default();
    config.metadata.name = Some("a".to_owned());
    configs
        .create(&PostParams::default(), &config)
        .await
        .expect("new");
    sleep(Duration::from_secs(5)).await;
    configs
        .delete("a", &DeleteParams::default())
        .await
        .expect("the object exists");
    sleep(Duration::from_secs(5)).await;
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    let mut all = asked.all(0);
    // The two requests of the test itself.
    for own in [
        "create configmaps in \"default\" called \"\"",
        "delete configmaps in \"default\" called \"a\"",
    ] {
        assert!(all.remove(own), "{all:?}");
        assert!(!before.contains(own));
    }
    let expected = [
        "create leases in \"default\" called \"\"",
        "get leases in \"default\" called \"web\"",
        "patch configmaps in \"default\" called \"a\"",
        "update leases in \"default\" called \"web\"",
        "watch configmaps in \"default\" called \"\"",
    ];
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    assert_eq!(all, expected);
}

/// Probes and scrapes send no request to the API server, and show no details to other clients.
#[tokio::test]
async fn a_probe_sends_no_request_and_shows_reasons_only_to_allowed_clients() {
    for (details, shown) in [
        (HealthDetails::default(), true),
        (HealthDetails::None, false),
    ] {
        let asked = Asked::default();
        let server = asked.server();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let admin = AdminServer::new(listener)
            .health_details(details)
            .live_check("disk", || async { Err::<(), _>("3 MB left") });
        let operator = operator(&server, admin);
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { operator.run_until(stop).await }
        });
        let get = |path: &'static str| async move {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
            stream
                .write_all(head.as_bytes())
                .await
                .expect("the request is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("text");
            let body = answer.split_once("\r\n\r\n").expect("a response").1;
            body.to_owned()
        };
        let ready = async {
            while !get("/ready").await.starts_with("ok") {
                // Between two requests: the port has no notification.
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), ready)
            .await
            .expect("it becomes ready");
        let page = get("/ready").await;
        assert_eq!(
            page.contains("configmaps") && page.contains("lease"),
            shown,
            "{page}"
        );
        let page = get("/live").await;
        assert_eq!(
            page,
            if shown {
                "not ok\n[-] disk: 3 MB left\n"
            } else {
                "not ok\n"
            }
        );
        // More requests than a scraper and a kubelet send between two renewals of the lease.
        let is_renewal = |line: &String| line.contains("leases");
        let before = asked.count();
        for _ in 0..20 {
            for path in ["/live", "/ready", "/metrics"] {
                get(path).await;
            }
        }
        let others = asked.all(before).into_iter().filter(|it| !is_renewal(it));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new());
        stop.cancel();
        run.await.expect("no panic").expect("no error");
    }
}

/// The samples of `rest_client_requests_total`, in order.
fn counted(operator: &Operator) -> Vec<String> {
    let registry = Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector).expect("no name twice");
    }
    let text = TextEncoder::new().encode_to_string(&registry.gather());
    let text = text.expect("text");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter_map(|line| line.strip_prefix("rest_client_requests_total"));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_requests_of_a_connected_client_are_counted_as_by_client_go() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let host = listening.addr().to_string();
    let config = kube::Config::new(listening.url().parse().expect("a URL"));
    let operator = Operator::new();
    assert_eq!(counted(&operator), [""; 0]);
    let client = operator.connect(config.clone()).expect("a client");
    let configs: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some("a".to_owned());
    assert_eq!(configs.get_opt("a").await.expect("a response"), None);
    for name in ["a", "b"] {
        config_map.metadata.name = Some(name.to_owned());
        let created = configs.create(&PostParams::default(), &config_map).await;
        created.expect("new");
    }
    let sample = |code: &str, method: &str, count: u32| {
        format!("{{code=\"{code}\",host=\"{host}\",method=\"{method}\"}} {count}")
    };
    let expected = [sample("201", "POST", 2), sample("404", "GET", 1)];
    assert_eq!(counted(&operator), expected);

    // A write that the fence refuses is not sent.
    let election = LeaderElection::new(server.client(), "default", "web").expect("names");
    let operator = Operator::builder().leader_election(election).build();
    let client = operator.connect(config).expect("a client");
    let configs: Api<ConfigMap> = Api::namespaced(client, "default");
    let refused = configs.create(&PostParams::default(), &config_map).await;
    refused.expect_err("it does not lead");
    configs.get("a").await.expect("it exists");
    assert_eq!(counted(&operator), [sample("200", "GET", 1)]);

    drop(listening);
    configs.get("a").await.expect_err("no connection");
    let expected = [sample("200", "GET", 1), sample("<error>", "GET", 1)];
    assert_eq!(counted(&operator), expected);
}
