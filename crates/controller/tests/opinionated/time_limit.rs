//! The time limit of calls: that of the inner handler, and not that of a finalizer write.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    Action, FinalizerHook, InformerControllerBuilder, NeverRetry, OpinionatedReconciler,
    OpinionatedWatcher, Outcome, Predicate, Reconciler, Request, SimpleWatcher, State,
};

use crate::{
    support::{Refused, Rig, Running, builder, pass, show, word},
    world::Fault,
};

/// The limit of the tests, which is shorter than that of a patch.
const LIMIT: Duration = Duration::from_secs(10);

/// A reconciler around a wrapper, which announces its finalizer.
struct Around<R>(R);

impl<K: Send + Sync + 'static, R: Reconciler<K>> Reconciler<K> for Around<R> {
    type Error = R::Error;

    async fn reconcile(&self, request: Request<K>) -> Result<Outcome, R::Error> {
        self.0.reconcile(request).await
    }

    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        self.0.predicates()
    }

    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        self.0.finalizer()
    }
}

async fn reconcile(
    rig: &Rig,
    builder: InformerControllerBuilder,
    reconciler: impl Reconciler<Lease>,
) -> Running {
    let controller = builder.build().expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let added = controller.add_reconciler(&leases, reconciler);
    added.expect("added");
    rig.start(controller, &leases, None).await
}

/// A reconciler that requests one requeue with a state for each object.
fn requeueing(rig: &Rig) -> impl Reconciler<Lease> + use<> {
    let log = rig.log.clone();
    move |request: Request<Lease>| {
        let left = request.state().and_then(State::get::<&str>).copied();
        let (word, left) = (word(request.action()), left.unwrap_or("no state"));
        log.say(format_args!("{word} {}, {left}", show(request.object())));
        let is_first = request.state().is_none() && request.action() == Action::Created;
        async move {
            Ok::<_, Refused>(if is_first {
                Outcome::requeue_after(Duration::from_secs(60)).state(State::new("half done"))
            } else {
                Outcome::done()
            })
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_requeue_is_performed_although_the_finalizer_patch_exceeds_the_limit() {
    let rig = Rig::new();
    rig.world.plan(Fault::TimesOut(2)).await;
    let wrapped = OpinionatedReconciler::new(rig.finalizers(), requeueing(&rig));
    let running = reconcile(&rig, builder().timeout(LIMIT), wrapped).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1, no state");
    pass(40).await;
    assert_eq!(rig.logged().await, "web [own]");
    pass(60).await;
    assert_eq!(rig.logged().await, "created web=1, half done");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_patch_that_exceeds_the_limit_is_no_attempt_of_the_handler() {
    let rig = Rig::new();
    for number in [1, 4, 5] {
        rig.world.plan(Fault::TimesOut(number)).await;
    }
    let log = rig.log.clone();
    let builder = builder().timeout(LIMIT).retry_policy(NeverRetry);
    let builder = builder.on_exhausted(move |letter| {
        log.say(format_args!("dead letter: {letter}"));
        std::future::ready(())
    });
    let running = reconcile(&rig, builder, Around(rig.reconciler())).await;
    rig.world.create("web", 1).await;
    pass(60).await;
    assert_eq!(rig.logged().await, "web [wip], created web=1, web [own]");
    rig.world.delete("web").await;
    pass(120).await;
    assert_eq!(rig.logged().await, "deleted web=1, web []");
    assert_eq!(rig.world.finalizers("web").await, "gone");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_inner_reconciler_that_exceeds_the_limit_has_failed() {
    let rig = Rig::new();
    let log = rig.log.clone();
    let slow = move |request: Request<Lease>| {
        let log = log.clone();
        async move {
            let word = word(request.action());
            log.say(format_args!("{word}, attempt {}", request.attempt()));
            if request.attempt() == 0 {
                std::future::pending::<()>().await;
            }
            Ok::<_, Refused>(Outcome::done())
        }
    };
    let errors = rig.log.clone();
    let builder = builder().timeout(LIMIT);
    let builder = builder.on_error(move |failed| errors.say(failed.error));
    let wrapped = Around(OpinionatedReconciler::new(rig.finalizers(), slow));
    let running = reconcile(&rig, builder, wrapped).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], created, attempt 0");
    pass(9).await;
    assert_eq!(rig.logged().await, "");
    pass(1).await;
    assert_eq!(rig.logged().await, "the handler timed out after 10s");
    pass(5).await;
    assert_eq!(rig.logged().await, "created, attempt 1, web [own]");
    rig.world.delete("web").await;
    pass(15).await;
    assert_eq!(
        rig.logged().await,
        "deleted, attempt 0, the handler timed out after 10s, deleted, attempt 1, web []"
    );
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_method_of_the_inner_watcher_that_exceeds_the_limit_has_failed() {
    let rig = Rig::new();
    rig.world.plan(Fault::TimesOut(2)).await;
    let log = rig.log.clone();
    let slow = SimpleWatcher::new().on_add(move |object: Arc<Lease>| {
        let log = log.clone();
        async move {
            // The second time it is fast enough.
            let called = log.call("add", format_args!("add {}", show(&object)));
            if called.is_err() {
                std::future::pending::<()>().await;
            }
            called
        }
    });
    rig.log.fail("add");
    let errors = rig.log.clone();
    let builder = builder().timeout(LIMIT);
    let builder = builder.on_error(move |failed| errors.say(failed.error));
    let controller = builder.build().expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let watcher = OpinionatedWatcher::new(rig.finalizers(), slow);
    controller.add_watcher(&leases, watcher).expect("added");
    let running = rig.start(controller, &leases, None).await;
    rig.world.create("web", 1).await;
    pass(15).await;
    assert_eq!(
        rig.logged().await,
        "web [wip], add web=1, the handler timed out after 10s, add web=1"
    );
    pass(40).await;
    assert_eq!(rig.logged().await, "the handler failed, web [own]");
    running.stop(&rig).await;
}
