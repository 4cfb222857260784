//! Handlers that block all threads of the runtime.

use std::{
    io::Read as _,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    thread,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use libtest_mimic::Trial;
use tokio::runtime::Builder;
use windlass_controller::{Failure, InformerController, Outcome, Request};
use windlass_informer::Informer;
use windlass_operator::{AdminServer, Operator};

use crate::{
    child::{Child, Kind, is_child, on_both_servers, say},
    cluster::{Cluster, get},
};

/// The lease of this test, which waits for its end.
const LEASE: Duration = Duration::from_secs(12);

const BLOCKED: &str = "blocked::a_blocked_runtime_is_reported_loses_its_lease_and_ends_at_sigterm";

pub(crate) fn trials() -> Vec<Trial> {
    on_both_servers(
        BLOCKED,
        a_blocked_runtime_is_reported_loses_its_lease_and_ends_at_sigterm,
    )
}

fn a_blocked_runtime_is_reported_loses_its_lease_and_ends_at_sigterm(kind: Kind) {
    if is_child() {
        return blocks(kind);
    }
    let mut child = Child::start(kind, BLOCKED);
    let namespace = child.line();
    let address: SocketAddr = child.line().parse().expect("an address");
    assert_eq!(child.line(), "called");
    let live = wait_for_page(address, "/live", "503");
    assert!(live.contains("[-] runtime: runs no task since"), "{live}");
    let call = format!("of configs {namespace}/web on CREATE");
    for part in ["reconciler 0 (", &call] {
        assert!(live.contains(part), "{part} in {live}");
    }
    wait_for_page(address, "/ready", "503");
    assert_eq!(child.line(), "expired");
    child.signal("-TERM");
    assert_eq!(child.ended().code(), Some(1));
    let mut log = String::new();
    let mut stderr = child.process.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut log).expect("text");
    for line in [
        "the runtime runs no task: its threads are blocked",
        "the runtime is blocked, not renewing the lease",
        "the runtime is blocked and cannot stop the controllers, exiting",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line} in {log}");
    }
    assert!(log.contains(&call), "{log}");
}

/// Requests `path` until the status of the response is `status`.
fn wait_for_page(address: SocketAddr, path: &str, status: &str) -> String {
    for _ in 0..300 {
        let page = get(address, path);
        if page.starts_with(&format!("HTTP/1.1 {status}")) {
            return page;
        }
        // Between two requests to another process, which cannot notify this one.
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{path} is never {status}");
}

/// An operator whose only handler blocks its thread, on a runtime with one thread.
fn blocks(kind: Kind) {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let cluster = Cluster::start(kind);
    let namespace = cluster.namespace().to_owned();
    say(&namespace);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    say(&listener.local_addr().expect("an address").to_string());
    let config = cluster.config();
    let election = cluster
        .election()
        .lease_duration(LEASE)
        // Longer than a pause of the machine, and than the time until a blocked leader resigns.
        .renew_deadline(Duration::from_secs(10))
        .build()
        .expect("valid settings");
    thread::spawn(move || {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let operator = async move {
            let configs: Api<ConfigMap> =
                Api::namespaced(Client::try_from(config).expect("a client"), &namespace);
            let controller = InformerController::builder()
                .concurrency(NonZeroUsize::MIN)
                .build()
                .expect("settings");
            let reconciler = |_: Request<ConfigMap>| async {
                say("called");
                block();
                Ok::<Outcome, Failure>(Outcome::done())
            };
            let kind = controller.kind("configs").expect("a name");
            controller
                .add_informer(&kind, &Informer::new(configs))
                .expect("new");
            controller
                .add_reconciler(&kind, reconciler)
                .expect("a name");
            let operator = Operator::builder()
                .leader_election(election)
                .admin_server(AdminServer::new(listener))
                .drain_timeout(Duration::from_secs(1))
                .report_blocked_after(Duration::from_secs(2))
                .resign_blocked_after(Duration::from_secs(4))
                .build();
            operator.add_controller(controller).expect("not running");
            operator.run().await
        };
        let ended = runtime.block_on(runtime.spawn(operator));
        say(&format!("ended {ended:?}"));
    });
    cluster.wait_for_expiry(LEASE);
    say("expired");
    block();
}

/// Blocks until the operator exits, or the test kills this process.
fn block() {
    loop {
        thread::park();
    }
}
