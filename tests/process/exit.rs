//! The end of a process in which a blocking call hangs.

use std::{
    env, fs,
    future::Future,
    net::UdpSocket,
    path::PathBuf,
    process::{self, Command, Stdio},
    thread,
    time::{Duration, SystemTime},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use libtest_mimic::Trial;
use serde_json::json;
use windlass_controller::InformerController;
use windlass_informer::Informer;
use windlass_operator::{Operator, block_on};

use crate::{
    child::{Child, LIMIT, is_child, say},
    trial::{ignore, require_linux, trial},
};

const PLUGIN: &str =
    "exit::a_process_ends_although_an_exec_plugin_hangs_and_leaves_neither_it_nor_its_child";

const LOOKUP: &str = "exit::a_process_ends_although_a_lookup_of_a_host_name_hangs";

const EARLY: &str = "exit::a_signal_before_an_operator_runs_stops_it";

pub(crate) fn trials() -> Vec<Trial> {
    let of = |name: &'static str, body: fn()| {
        let (module, name) = name.split_once("::").expect("a module");
        trial(&format!("process::{module}"), name, move || {
            require_linux();
            body();
        })
    };
    vec![
        of(
            PLUGIN,
            a_process_ends_although_an_exec_plugin_hangs_and_leaves_neither_it_nor_its_child,
        ),
        of(
            LOOKUP,
            a_process_ends_although_a_lookup_of_a_host_name_hangs,
        ),
        of(EARLY, a_signal_before_an_operator_runs_stops_it),
    ]
}

fn a_process_ends_although_an_exec_plugin_hangs_and_leaves_neither_it_nor_its_child() {
    /// Returns a token that has expired, until the file `$0` exists. Then it prints the ids of its
    /// process and of its child, and hangs.
    const SCRIPT: &str = r#"
        if [ -e "$0" ]; then
            sleep 600 &
            printf '\n> %s %s\n' "$$" "$!" > "/proc/$PPID/fd/1"
            wait
        fi
        echo '{
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": { "token": "a", "expirationTimestamp": "2000-01-01T00:00:00Z" }
        }'
    "#;

    if is_child() {
        let hangs = temporary("hangs", process::id());
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", SCRIPT, hangs],
            "interactiveMode": "Never",
        });
        // The client calls the plugin when it is created, too.
        let created = || fs::write(&hangs, "").expect("a file");
        return run_until_terminated(config(json!({ "exec": exec })), created);
    }
    let mut child = Child::alone(Command::new(this()), PLUGIN);
    let ids = child.line();
    let ids: Vec<u32> = ids
        .split(' ')
        .map(|id| id.parse().expect("an id"))
        .collect();
    assert_eq!(ids.len(), 2, "the plugin and its child");
    assert!(ids.iter().all(|id| is_running(*id)));
    ends_when_terminated(&mut child);
    // They are killed, which takes time on a busy machine.
    let is_any_left = || ids.iter().any(|id| is_running(*id));
    let killed = SystemTime::now();
    while is_any_left() {
        let took = killed.elapsed().unwrap_or_default();
        assert!(took < LIMIT, "one of {ids:?} was left");
        // No process is notified of the end of processes that are not its children.
        thread::sleep(Duration::from_millis(20));
    }
    fs::remove_file(temporary("hangs", child.process.id())).expect("the child created it");
}

fn a_process_ends_although_a_lookup_of_a_host_name_hangs() {
    if is_child() {
        // A name server that answers nothing.
        let server = UdpSocket::bind("127.0.0.1:53").expect("a port in a network of its own");
        thread::spawn(move || {
            server.recv(&mut [0; 512]).expect("a query");
            say("looked up");
            thread::park();
        });
        let server = "http://kubernetes.example:8080".parse().expect("a URL");
        return run_until_terminated(async { Config::new(server) }, || {});
    }
    // A network and a view of the file system of its own, in which this process may use port 53.
    let separate = ["--map-root-user", "--mount", "--net"];
    let mut possible = Command::new("unshare");
    possible
        .args(separate)
        .args(["ip", "link", "set", "lo", "up"]);
    possible.stdout(Stdio::null()).stderr(Stdio::null());
    if !possible.status().is_ok_and(|status| status.success()) {
        ignore("it needs unshare and ip, and permission to use them");
    }
    let files = [
        // Queries are repeated for 150 s.
        (
            "resolv.conf",
            "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n",
        ),
        ("nsswitch.conf", "hosts: dns\n"),
    ];
    let paths = files.map(|(name, text)| {
        let path = temporary(name, process::id());
        fs::write(&path, text).expect("a file");
        path
    });
    let [names, switch] = &paths;
    let script = "ip link set lo up && mount --bind \"$1\" /etc/resolv.conf && \
        mount --bind \"$2\" /etc/nsswitch.conf && shift 2 && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(separate).args(["sh", "-c", script]);
    command.arg(this()).args([names, switch]);
    let mut child = Child::alone(command, LOOKUP);
    assert_eq!(child.line(), "looked up");
    ends_when_terminated(&mut child);
    for path in &paths {
        fs::remove_file(path).expect("it was written");
    }
}

/// The kernel drops a signal to the first process of a container that does not listen.
fn a_signal_before_an_operator_runs_stops_it() {
    if is_child() {
        return run_until_terminated(config(json!({})), || {
            let id = process::id().to_string();
            let sent = Command::new("kill").args(["-TERM", &id]).status();
            assert!(sent.expect("there is a kill").success());
            say("sent");
        });
    }
    let separate = ["--map-root-user", "--fork", "--pid", "--kill-child"];
    let mut possible = Command::new("unshare");
    possible.args(separate).arg("true").stderr(Stdio::null());
    if !possible.status().is_ok_and(|status| status.success()) {
        ignore("a process can have no namespace of process ids here");
    }
    let mut contained = Command::new("unshare");
    contained.args(separate).arg(this());
    let mut child = Child::alone(contained, EARLY);
    assert_eq!(child.line(), "sent");
    assert_eq!(child.line(), "ended Ok(Ok(()))");
    assert!(child.ended().success());
}

/// An operator whose requests hang before they are sent.
fn run_until_terminated(config: impl Future<Output = Config>, created: impl FnOnce()) {
    let ended = block_on(async {
        let client = Client::try_from(config.await).expect("a client");
        created();
        let configs: Api<ConfigMap> = Api::default_namespaced(client);
        let controller = InformerController::builder().build().expect("settings");
        let kind = controller.kind("configs").expect("a new kind");
        controller
            .add_informer(&kind, &Informer::new(configs))
            .expect("new");
        let operator = Operator::new();
        operator.add_controller(controller).expect("not running");
        operator.run().await
    });
    say(&format!("ended {ended:?}"));
}

/// The configuration of a client with this user.
async fn config(user: serde_json::Value) -> Config {
    let config = json!({
        "clusters": [{ "name": "a", "cluster": { "server": "http://127.0.0.1:9" } }],
        "users": [{ "name": "a", "user": user }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        "current-context": "a",
    });
    let config: Kubeconfig = serde_json::from_value(config).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await;
    config.expect("a complete kubeconfig")
}

#[track_caller]
fn ends_when_terminated(child: &mut Child) {
    child.signal("-TERM");
    let terminated = SystemTime::now();
    assert_eq!(child.line(), "ended Ok(Ok(()))");
    assert!(child.ended().success());
    let took = terminated.elapsed().unwrap_or_default();
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// Whether the process `id` runs: it exists and is no zombie.
fn is_running(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .is_some_and(|it| it.starts_with(" Z"))
    })
}

/// The path of a temporary file of the process `id`.
fn temporary(name: &str, id: u32) -> PathBuf {
    env::temp_dir().join(format!("windlass-exit-{id}-{name}"))
}

/// The path of this test.
fn this() -> PathBuf {
    env::current_exe().expect("this test")
}
