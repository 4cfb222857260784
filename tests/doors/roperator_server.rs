//! The server of an operator: `/health` and `/metrics`.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Notify,
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;
use windlass::roperator::{
    prelude::{
        ChildConfig, Error, K8sType, OperatorConfig, SyncRequest, SyncResponse, k8s_types,
        run_operator,
    },
    runner::RunnerError,
    serde_json::json,
};

use crate::{
    cluster::{Cluster, until},
    roperator_greeter::{definition, types},
};

static PARENT_TYPE: &K8sType = &K8sType {
    api_version: "example.com/v1",
    kind: "Greeter",
    plural_kind: "greeters",
};

/// The names of the parent and of its child.
const PARENT: &str = "unmistakable-parent";
const CHILD: &str = "unmistakable-child";

/// A running operator, whose handler was called for the parent. Its first call fails.
struct Running {
    port: u16,
    _task: AbortOnDropHandle<Result<(), RunnerError>>,
}

impl Running {
    /// Runs an operator with a server on a free port.
    async fn start(client: &Client, config: impl Fn(OperatorConfig) -> OperatorConfig) -> Self {
        let mut failed = None;
        for _ in 0..10 {
            let port = free_port();
            let started = Self::on_port(client, config(operator_config().server_port(port))).await;
            match started {
                Ok(task) => return Self { port, _task: task },
                // Another process may have the port now.
                Err(error @ RunnerError::Operator(_)) => failed = Some(error),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("ten attempts failed, the last one with {failed:?}");
    }

    /// Waits for the first call of the handler, which comes after the server has started.
    async fn on_port(
        client: &Client,
        config: OperatorConfig,
    ) -> Result<AbortOnDropHandle<Result<(), RunnerError>>, RunnerError> {
        let called = Arc::new(Notify::new());
        let notify = Arc::clone(&called);
        let has_failed = AtomicBool::new(false);
        let handler = move |request: &SyncRequest| {
            assert_eq!(request.parent.name(), PARENT);
            notify.notify_one();
            if !has_failed.swap(true, Ordering::Relaxed) {
                return Err(Error::from(format!("{PARENT} is not ready")));
            }
            let child = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": CHILD, "namespace": "shop" },
            });
            Ok::<_, Error>(SyncResponse {
                status: json!({ "children": request.children().iter().count() }),
                children: vec![child],
                resync: None,
            })
        };
        let task = tokio::spawn(run_operator(config, client.clone(), handler));
        let mut task = AbortOnDropHandle::new(task);
        tokio::select! {
            () = called.notified() => Ok(task),
            ended = &mut task => Err(ended.expect("no panic").expect_err("it runs until it is stopped")),
        }
    }

    /// The status and the text of the response.
    async fn get(&self, path: &str) -> (u16, String) {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await;
        let mut stream = stream.expect("the server listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: operator\r\nconnection: close\r\n\r\n");
        let sent = stream.write_all(request.as_bytes()).await;
        sent.expect("an open connection");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        read.expect("a response in UTF-8");
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
        (status.expect("the status of HTTP"), answer)
    }
}

fn operator_config() -> OperatorConfig {
    OperatorConfig::new("greeter-operator", PARENT_TYPE)
        .with_child(k8s_types::core::v1::ConfigMap, ChildConfig::replace())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The ports on which this process listens. Only Linux shows them.
fn listening() -> Option<BTreeSet<u16>> {
    let sockets = std::fs::read_dir("/proc/self/fd").ok()?;
    let sockets = sockets.filter_map(|it| std::fs::read_link(it.ok()?.path()).ok());
    let sockets: BTreeSet<_> = sockets
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables = tables.map(|it| std::fs::read_to_string(it).unwrap_or_default());
    let port = |line: &str| {
        // The number, both addresses, the state, five other columns, and the inode.
        let columns: Vec<_> = line.split_whitespace().collect();
        let is_listening = columns.get(3) == Some(&"0A");
        let is_ours = sockets.contains(&format!("socket:[{}]", columns.get(9)?));
        let (_, port) = columns.get(1)?.rsplit_once(':')?;
        (is_listening && is_ours).then(|| u16::from_str_radix(port, 16).expect("a port"))
    };
    Some(
        tables
            .iter()
            .flat_map(|it| it.lines())
            .filter_map(port)
            .collect(),
    )
}

/// Fails unless this process listens on `expected` and on no other port. The sockets of an operator
/// that was dropped are closed soon.
async fn listens_only_on(expected: &[u16]) {
    let expected: BTreeSet<_> = expected.iter().copied().collect();
    let began = Instant::now();
    while let Some(ports) = listening().filter(|it| *it != expected) {
        let is_late = began.elapsed() > Duration::from_secs(10);
        assert!(!is_late, "it listens on {ports:?}, not on {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Rows: RO-34
#[tokio::test]
async fn health_and_metrics_are_served_without_names_and_each_can_be_turned_off() {
    let cluster = Cluster::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = definition(PARENT_TYPE, "Namespaced");
    let installed = definitions
        .create(&PostParams::default(), &definition)
        .await;
    installed.expect("a new kind");
    let greeters: Api<DynamicObject> =
        Api::namespaced_with(cluster.client(), "shop", &types(PARENT_TYPE));
    let parent = DynamicObject::new(PARENT, &types(PARENT_TYPE)).data(json!({}));
    let created = greeters.create(&PostParams::default(), &parent).await;
    created.expect("a new object");

    let both = Running::start(&cluster.client(), |it| it).await;
    until(async || {
        let parent = greeters.get(PARENT).await.expect("it exists");
        parent.data["status"]["children"] == 1
    })
    .await;
    listens_only_on(&[both.port]).await;
    let (status, _) = both.get("/health").await;
    assert_eq!(status, 200);
    let (status, metrics) = both.get("/metrics").await;
    assert_eq!(status, 200);
    let reconciled = "controller_runtime_active_workers{controller=\"greeter-operator\"";
    assert!(metrics.contains(reconciled), "{metrics}");
    let failed = "controller_runtime_reconcile_errors_total{controller=\"greeter-operator\"";
    assert!(metrics.contains(failed), "{metrics}");
    for name in [PARENT, CHILD] {
        assert!(!metrics.contains(name), "{name} is in\n{metrics}");
    }
    drop(both);

    let health = Running::start(&cluster.client(), |it| it.expose_metrics(false)).await;
    listens_only_on(&[health.port]).await;
    assert_eq!(health.get("/health").await.0, 200);
    assert_eq!(health.get("/metrics").await.0, 404);
    drop(health);

    let metrics = Running::start(&cluster.client(), |it| it.expose_health(false)).await;
    listens_only_on(&[metrics.port]).await;
    assert_eq!(metrics.get("/metrics").await.0, 200);
    for page in ["/health", "/live", "/ready"] {
        assert_eq!(metrics.get(page).await.0, 404, "{page}");
    }
    drop(metrics);

    // It does not listen: its port is taken, and it has no other one.
    let taken = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let config = operator_config().server_port(port);
    let config = config.expose_health(false).expose_metrics(false);
    let started = Running::on_port(&cluster.client(), config).await;
    let running = started.expect("it needs no port");
    listens_only_on(&[port]).await;
    drop(running);
}
