//! The end of a process in which a blocking call hangs.

use std::{
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;
use windlass_operator::{Operator, block_on};

use crate::child::{Child, is_child, say};

#[test]
fn a_process_ends_although_a_blocking_call_hangs_and_leaves_no_children() {
    const NAME: &str = "exit::a_process_ends_although_a_blocking_call_hangs_and_leaves_no_children";

    if is_child() {
        return hangs();
    }
    let mut child = Child::start(NAME);
    let plugin: u32 = child.line().parse().expect("an id");
    assert_eq!(child.line(), "stopped");
    let stopped = SystemTime::now();
    assert!(child.ended().success());
    let took = stopped.elapsed().unwrap_or_default();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(!is_running(plugin), "the plugin was left");
}

/// Whether the process `id` runs: it exists and is no zombie.
fn is_running(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .is_some_and(|it| it.starts_with(" Z"))
    })
}

/// An operator that is stopped while a plugin does not return, as kube runs exec plugins: with
/// `Command::output` on a thread for blocking calls.
fn hangs() {
    let ended = block_on(async {
        let (started, has_started) = tokio::sync::oneshot::channel();
        tokio::task::spawn_blocking(|| {
            let plugin = Command::new("sh")
                .args(["-c", "sleep 600; true"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let mut plugin = plugin.expect("it starts");
            say(&plugin.id().to_string());
            _ = started.send(());
            _ = plugin.wait();
        });
        has_started.await.expect("it starts");
        let stop = CancellationToken::new();
        stop.cancel();
        Operator::new().run_until(stop).await
    });
    ended.expect("a runtime").expect("no error");
    say("stopped");
}
