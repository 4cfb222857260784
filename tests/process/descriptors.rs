//! A process that can open few file descriptors.

use std::{
    fs::File,
    io::Read as _,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use libtest_mimic::Trial;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use windlass_controller::InformerController;
use windlass_operator::{AdminServer, Operator};

use crate::{
    child::{Child, Kind, is_child, on_both_servers, say},
    cluster::Cluster,
};

const CLIENTS: &str = "descriptors::clients_of_the_admin_server_cost_the_leader_no_lease";

const EXHAUSTED: &str =
    "descriptors::a_leader_without_free_descriptors_renews_its_lease_and_logs_once";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = on_both_servers(
        CLIENTS,
        clients_of_the_admin_server_cost_the_leader_no_lease,
    );
    trials.extend(on_both_servers(
        EXHAUSTED,
        a_leader_without_free_descriptors_renews_its_lease_and_logs_once,
    ));
    trials
}

fn clients_of_the_admin_server_cost_the_leader_no_lease(kind: Kind) {
    if is_child() {
        return leads(kind, false);
    }
    let mut child = Child::with_descriptors(64, kind, CLIENTS);
    let address: SocketAddr = child.line().parse().expect("an address");
    assert_eq!(child.line(), "leads");
    let connections: Vec<_> = (0..200)
        .filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok())
        .collect();
    assert!(connections.len() > 64, "{}", connections.len());
    assert_eq!(child.line(), "leads after 25 renewals");
    drop(connections);
}

fn a_leader_without_free_descriptors_renews_its_lease_and_logs_once(kind: Kind) {
    if is_child() {
        return leads(kind, true);
    }
    let mut child = Child::with_descriptors(64, kind, EXHAUSTED);
    let address: SocketAddr = child.line().parse().expect("an address");
    assert_eq!(child.line(), "leads");
    assert_eq!(child.line(), "no descriptor is free");
    let connections: Vec<_> = (0..20).map(|_| TcpStream::connect(address)).collect();
    assert_eq!(child.line(), "leads after 25 renewals");
    drop(connections);
    child.ended();
    let mut log = String::new();
    let mut stderr = child.process.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut log).expect("text");
    assert_eq!(
        log.matches("cannot accept a connection").count(),
        1,
        "{log}"
    );
}

/// A leader with an admin server. Opens all file descriptors that are left, if `exhausts`.
fn leads(kind: Kind, exhausts: bool) {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let cluster = Cluster::start(kind);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    say(&listener.local_addr().expect("an address").to_string());
    let election = cluster.election().build().expect("valid settings");
    let runtime = Runtime::new().expect("a runtime");
    let operator = Operator::builder()
        .leader_election(election.clone())
        .admin_server(AdminServer::new(listener))
        .build();
    let controller = InformerController::builder().build().expect("settings");
    operator.add_controller(controller).expect("not running");
    let run = runtime.spawn(async move { operator.run_until(CancellationToken::new()).await });
    wait(|| election.is_leader());
    say("leads");
    let mut files = Vec::new();
    if exhausts {
        // After the first renewals, so that the connection is in use.
        cluster.wait_for_renewals(3);
        // Ends: the process can open 64 files.
        while let Ok(file) = File::open("/dev/null") {
            files.push(file);
        }
        say("no descriptor is free");
    }
    cluster.wait_for_renewals(25);
    assert!(
        election.is_leader() && !run.is_finished(),
        "it lost the lease"
    );
    drop(files);
    say("leads after 25 renewals");
}

fn wait(condition: impl Fn() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        // The state of the election has no notification for a thread.
        thread::sleep(Duration::from_millis(100));
    }
    panic!("it did not become true within a minute");
}
