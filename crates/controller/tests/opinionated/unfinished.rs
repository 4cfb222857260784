//! Clean-ups that do not finish.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{Action, OpinionatedReconciler, Outcome, Request};

use crate::{
    lines::Lines,
    support::{Refused, Rig, pass},
    world::OWN,
};

/// D29.
#[tokio::test(start_paused = true)]
async fn a_clean_up_that_requests_requeues_for_an_hour_is_logged_each_hour() {
    let rig = Rig::new();
    let unfinished = |request: Request<Lease>| async move {
        Ok::<_, Refused>(match request.action() {
            Action::Deleted => Outcome::requeue_after(Duration::from_secs(60)),
            _ => Outcome::done(),
        })
    };
    let wrapped = OpinionatedReconciler::new(rig.finalizers(), unfinished);
    let running = rig.reconcile(wrapped).await;
    rig.world.create("web", 1).await;
    rig.logged().await;

    let (lines, guard) = Lines::listen();
    let warnings = || -> Vec<String> {
        let all = lines.all().into_iter();
        all.filter(|line| line.contains("requeues for an hour"))
            .collect()
    };
    rig.world.delete("web").await;
    pass(3600 - 30).await;
    assert_eq!(warnings(), [""; 0]);
    pass(60).await;
    let first = warnings();
    assert_eq!(first.len(), 1, "{first:?}");
    for part in ["WARN", "key=shop/web", OWN, "marked_at"] {
        assert!(first[0].contains(part), "no {part} in {}", first[0]);
    }
    pass(3600 - 60).await;
    assert_eq!(warnings().len(), 1);
    pass(60).await;
    assert_eq!(warnings().len(), 2);
    assert_eq!(rig.world.finalizers("web").await, "own");
    drop(guard);
    running.stop(&rig).await;
}
