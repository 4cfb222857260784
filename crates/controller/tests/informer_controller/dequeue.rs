//! Which pending calls a new event drops.

use windlass_controller::{
    Action, InformerController, InformerControllerBuilder, NeverDequeue, NewEvent,
    OpinionatedRetryDequeuePolicy, PendingCall,
};

use crate::support::{Log, Rig, config, generation, pass, word};

fn quiet() -> InformerControllerBuilder {
    InformerController::builder().on_error(|_| {})
}

/// Rows: GA-25, GA-97
#[tokio::test(start_paused = true)]
async fn a_new_event_drops_pending_calls_by_default() {
    let rig = Rig::new(quiet());
    rig.watch(rig.log.failing("w", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(
        running.rig.controller.pending_calls(),
        0,
        "not dispatched yet"
    );
    assert_eq!(running.logged().await, "w add web=1");
    assert_eq!(running.rig.controller.pending_calls(), 1);
    running.apply(generation(config("web", 2), 2)).await;
    assert_eq!(running.logged().await, "w update web=1 web=2");
    assert_eq!(running.rig.controller.pending_calls(), 0);
    pass(600).await;
    assert_eq!(running.logged().await, "");
    running.stop().await.expect("it stops");
}

/// Rows: GA-24, GA-104, GA-105
#[tokio::test(start_paused = true)]
async fn a_policy_is_called_for_each_pending_call() {
    let asked = Log::default();
    let log = asked.clone();
    let rig = Rig::new(quiet().retry_dequeue_policy(
        move |arrival: &NewEvent<'_>, pending: &PendingCall<'_>| {
            let error = pending.error.expect("it failed");
            log.say(format_args!(
                "{} {} rv{} while handler {} has {} rv{} pending ({}: {})",
                word(arrival.action),
                arrival.key,
                arrival
                    .object
                    .metadata()
                    .resource_version
                    .as_deref()
                    .unwrap_or_default(),
                pending.handler,
                word(pending.action),
                pending
                    .object
                    .metadata()
                    .resource_version
                    .as_deref()
                    .unwrap_or_default(),
                error.reason(),
                pending.attempt,
            ));
            // The second handler's is kept.
            pending.handler.to_string() == "0"
        },
    ));
    rig.watch(rig.log.failing("w1", 1))
        .watch(rig.log.failing("w2", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w1 add web=1, w2 add web=1");
    running.apply(generation(config("web", 2), 2)).await;
    assert_eq!(
        running.logged().await,
        "w1 update web=1 web=2, w2 update web=1 web=2"
    );
    assert_eq!(
        asked.take().await,
        "updated shop/web rv2 while handler 0 has created rv1 pending (failed: 1), \
         updated shop/web rv2 while handler 1 has created rv1 pending (failed: 1)"
    );
    pass(600).await;
    assert_eq!(running.logged().await, "w2 add web=2");
    running.stop().await.expect("it stops");
}

/// Rows: GA-07, GA-08, GA-09, GA-10
#[tokio::test(start_paused = true)]
async fn the_opinionated_policy_keeps_what_an_update_does_not_replace() {
    for (first, then, kept) in [
        // Another action: the failed create is still pending.
        (None, generation(config("web", 2), 2), true),
        // The same action and generation: no news.
        (Some(config("web", 2)), config("web", 3), true),
        // A new generation: the update that failed is overtaken.
        (
            Some(config("web", 2)),
            generation(config("web", 3), 2),
            false,
        ),
    ] {
        let rig = Rig::new(quiet().retry_dequeue_policy(OpinionatedRetryDequeuePolicy));
        let failing_at_first = usize::from(first.is_none());
        rig.watch(rig.log.failing("w", failing_at_first));
        let running = rig.start_empty().await;
        running.apply(config("web", 1)).await;
        running.logged().await;
        if let Some(update) = first {
            running
                .rig
                .controller
                .remove_all_watchers(&running.rig.kind);
            running.rig.watch(running.rig.log.failing("w", 1));
            running.apply(update).await;
            running.logged().await;
        }
        assert_eq!(running.rig.controller.pending_calls(), 1);
        running.apply(then).await;
        running.logged().await;
        let pending = running.rig.controller.pending_calls();
        assert_eq!(pending, usize::from(kept));
        running.delete(config("web", 9)).await;
        running.logged().await;
        assert_eq!(running.rig.controller.pending_calls(), 0, "a delete drops");
        running.stop().await.expect("it stops");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_dequeue_policy_drops_the_call() {
    let rig = Rig::new(quiet().retry_dequeue_policy(
        |_: &NewEvent<'_>, _: &PendingCall<'_>| -> bool { panic!("no opinion") },
    ));
    rig.watch(rig.log.failing("w", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(generation(config("web", 2), 2)).await;
    pass(60).await;
    assert_eq!(running.logged().await, "w add web=1, w update web=1 web=2");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_call_kept_by_the_never_policy_is_made_when_due() {
    let rig = Rig::new(quiet().retry_dequeue_policy(NeverDequeue));
    rig.watch(rig.log.failing("w", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.logged().await;
    running.apply(generation(config("web", 2), 2)).await;
    assert_eq!(running.logged().await, "w update web=1 web=2");
    pass(5).await;
    assert_eq!(running.logged().await, "w add web=2");
    assert_eq!(word(Action::Resynced), "resynced");
    running.stop().await.expect("it stops");
}
