//! Which events a handler receives.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp,
};
use tokio::sync::Semaphore;
use windlass_controller::{
    Coalescing, Failure, GenerationChanged, InformerController, InformerControllerBuilder,
    LabelsChanged, Mapper, NeverRetry, Outcome, Predicate, Reconciler, Request, Watcher,
};
use windlass_informer::{Event, ObjectKey};

use crate::support::{Log, Refused, Rig, ask, config, generation, pass, secs, settle, show};

fn quiet() -> InformerControllerBuilder {
    InformerController::builder().on_error(|_| {})
}

/// Rows: BO-10
#[tokio::test(start_paused = true)]
async fn a_status_update_is_dispatched_to_handlers_that_accept_it() {
    let rig = Rig::new(quiet());
    rig.watch(Watcher::filter(rig.log.watcher("w1"), GenerationChanged))
        .watch(rig.log.watcher("w2"))
        .reconcile(rig.log.reconciler("r1").filter(GenerationChanged))
        .reconcile(rig.log.reconciler("r2"));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(
        running.logged().await,
        "w1 add web=1, w2 add web=1, r1 created web=1, r2 created web=1"
    );
    running.apply(config("web", 2)).await;
    assert_eq!(
        running.logged().await,
        "w2 update web=1 web=2, r2 updated web=2"
    );
    running.apply(generation(config("web", 3), 2)).await;
    assert_eq!(
        running.logged().await,
        "w1 update web=2 web=3, w2 update web=2 web=3, r1 updated web=3, r2 updated web=3"
    );
    // A finalizer holds it, and then it is on its way out.
    let mut held = generation(config("web", 4), 2);
    held.metadata.finalizers = Some(vec!["example.io/ours".to_owned()]);
    running.apply(held.clone()).await;
    assert!(running.logged().await.contains("r1 updated web=4"));
    held.metadata.resource_version = Some("5".to_owned());
    held.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    running.apply(held.clone()).await;
    assert!(running.logged().await.contains("r1 updated web=4"));
    running.delete(held).await;
    assert!(running.logged().await.contains("r1 deleted web=4"));
    running.stop().await.expect("it stops");
}

/// The handler received no new event, so that its pending call stays pending: a retry ...
#[tokio::test(start_paused = true)]
async fn an_event_rejected_by_a_predicate_drops_no_retry() {
    let rig = Rig::new(quiet());
    rig.watch(Watcher::filter(rig.log.failing("w1", 1), GenerationChanged))
        .watch(rig.log.failing("w2", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w1 add web=1, w2 add web=1");
    assert_eq!(running.rig.controller.pending_calls(), 2);
    // The event has the same generation, so that the call of the other handler stays pending too.
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "");
    assert_eq!(running.rig.controller.pending_calls(), 2);
    pass(600).await;
    let logged = running.logged().await;
    let mut logged: Vec<_> = logged.split(", ").collect();
    logged.sort_unstable();
    assert_eq!(logged, ["w1 add web=2", "w2 add web=2"], "with the newest");
    running.stop().await.expect("it stops");
}

/// ... one that was due when the event came ...
#[tokio::test(start_paused = true)]
async fn an_event_rejected_by_a_predicate_drops_no_due_retry() {
    let rig = Rig::new(quiet().concurrency(1.try_into().expect("not zero")));
    rig.watch(Watcher::filter(rig.log.failing("w1", 1), GenerationChanged));
    let gate = Arc::new(Semaphore::new(0));
    rig.reconcile(at(&gate, &rig.log).filter(|event: &Event<ConfigMap>| {
        (event.object()).is_some_and(|object| show(object).starts_with("busy"))
    }));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "w1 add web=1");
    // The only worker is busy until long after the retry is due.
    running.apply(config("busy", 1)).await;
    running.logged().await;
    pass(600).await;
    running.apply(config("web", 2)).await;
    settle().await;
    gate.add_permits(9);
    assert_eq!(running.logged().await, "r created busy=1, w1 add web=2");
    running.stop().await.expect("it stops");
}

/// ... a requeue ...
#[tokio::test(start_paused = true)]
async fn an_event_rejected_by_a_predicate_drops_no_requeue() {
    let rig = Rig::new(quiet());
    let log = rig.log.clone();
    let periodic = move |request: Request<ConfigMap>| {
        log.say(ask(&request));
        async { Ok::<_, Refused>(Outcome::requeue_after(secs(60))) }
    };
    rig.reconcile(periodic.filter(GenerationChanged));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "created web=1");
    pass(30).await;
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "");
    pass(30).await;
    assert_eq!(running.logged().await, "created web=2", "at its time");
    running.stop().await.expect("it stops");
}

/// ... and its dead letters stay.
#[tokio::test(start_paused = true)]
async fn an_event_rejected_by_a_predicate_drops_no_dead_letter() {
    let rig = Rig::new(quiet().retry_policy(NeverRetry));
    rig.watch(Watcher::filter(rig.log.failing("w1", 1), GenerationChanged))
        .watch(rig.log.failing("w2", 1));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.logged().await;
    let controller = running.rig.controller.clone();
    assert_eq!(controller.dead_letters().len(), 2);
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "w2 update web=1 web=2");
    let left = controller.dead_letters();
    assert_eq!(left.len(), 1);
    assert!(controller.redrive(&left[0]));
    // This is the last state that was dispatched to the handler.
    assert_eq!(running.logged().await, "w1 add web=1");
    running.stop().await.expect("it stops");
}

/// Two events wait as one: a handler that does not want the update receives the other.
#[tokio::test(start_paused = true)]
async fn a_resync_is_dispatched_though_the_update_merged_with_it_is_rejected() {
    for (delivery, update_first, expected) in [
        (
            Coalescing::WhenFull,
            true,
            "r1 resynced web=2, r2 updated web=2",
        ),
        (
            Coalescing::Always,
            true,
            "r1 resynced web=2, r2 updated web=2",
        ),
        (
            Coalescing::WhenFull,
            false,
            "r1 resynced web=1, r2 resynced web=1, r2 updated web=2",
        ),
        (
            Coalescing::Always,
            false,
            "r1 resynced web=2, r2 updated web=2",
        ),
    ] {
        let rig = Rig::new(quiet().coalescing(delivery));
        let gate = Arc::new(Semaphore::new(0));
        let log = rig.log.clone();
        rig.watch(Watcher::filter(
            Waiting(Arc::clone(&gate)),
            |event: &Event<ConfigMap>| matches!(event, Event::Added(_)),
        ))
        .reconcile(log.reconciler("r1").filter(GenerationChanged))
        .reconcile(log.reconciler("r2"));
        // Changes of other objects dispatch this one again.
        rig.controller
            .add_mapper(&rig.kind, &rig.kind, |object: &ConfigMap| {
                (show(object) != "web=1" && show(object) != "web=2")
                    .then(|| ObjectKey::new("web").within("shop"))
            })
            .expect("added");
        let running = rig.start_empty().await;
        running.apply(config("web", 1)).await;
        settle().await;
        if update_first {
            running.apply(config("web", 2)).await;
            settle().await;
        }
        running.apply(config("other", 1)).await;
        settle().await;
        if !update_first {
            running.apply(config("web", 2)).await;
            settle().await;
        }
        gate.add_permits(9);
        let logged = running.logged().await;
        let of_web = logged.split(", ").filter(|it| !it.contains("other"));
        let of_web: Vec<_> = of_web.skip(2).collect();
        assert_eq!(of_web.join(", "), expected, "{delivery:?} {update_first}");
        running.stop().await.expect("it stops");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_predicate_accepts_the_event() {
    let rig = Rig::new(quiet());
    let panics = |_: &Event<ConfigMap>| -> bool { panic!("no opinion") };
    rig.reconcile(rig.log.reconciler("r").filter(panics));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    assert_eq!(running.logged().await, "r created web=1, r updated web=2");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_predicate_sees_each_event_once_and_predicates_combine() {
    let rig = Rig::new(quiet());
    let asked = Log::default();
    let log = asked.clone();
    let named_web = move |event: &Event<ConfigMap>| {
        log.say(format_args!("{event:?}"));
        (event.object()).is_some_and(|object| show(object).starts_with("web"))
    };
    let predicate = named_web.and(GenerationChanged.or(LabelsChanged));
    rig.reconcile(rig.log.reconciler("r").filter(predicate));
    let running = rig.start_empty().await;
    running.apply(config("api", 1)).await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    let mut labelled = config("web", 3);
    labelled.metadata.labels = Some([("tier".to_owned(), "front".to_owned())].into());
    running.apply(labelled).await;
    assert_eq!(running.logged().await, "r created web=1, r updated web=3");
    assert_eq!(
        asked.take().await,
        "CREATE shop/api, CREATE shop/web, UPDATE shop/web, UPDATE shop/web"
    );
    running.stop().await.expect("it stops");
}

/// A reconciler that waits at `gate`, and records its requests.
fn at(gate: &Arc<Semaphore>, log: &Log) -> impl Reconciler<ConfigMap> + use<> {
    let (gate, log) = (Arc::clone(gate), log.clone());
    move |request: Request<ConfigMap>| {
        let (gate, log) = (Arc::clone(&gate), log.clone());
        async move {
            gate.acquire().await?.forget();
            log.say(format_args!("r {}", ask(&request)));
            Ok::<_, Failure>(Outcome::done())
        }
    }
}

/// A watcher that waits at a gate.
struct Waiting(Arc<Semaphore>);

impl Watcher<ConfigMap> for Waiting {
    type Error = Failure;

    async fn add(&self, _: Arc<ConfigMap>) -> Result<(), Failure> {
        self.0.acquire().await?.forget();
        Ok(())
    }
}

/// A watcher with two predicates of its own.
struct Two<A, B>(Log, A, B);

impl<A: Predicate<ConfigMap>, B: Predicate<ConfigMap>> Watcher<ConfigMap> for Two<A, B> {
    type Error = Refused;

    async fn add(&self, object: Arc<ConfigMap>) -> Result<(), Refused> {
        self.0.say(format_args!("own add {}", show(&object)));
        Ok(())
    }

    fn predicates(&self) -> Vec<&dyn Predicate<ConfigMap>> {
        vec![&self.1, &self.2]
    }
}

impl<A: Predicate<ConfigMap>, B: Predicate<ConfigMap>> Reconciler<ConfigMap> for Two<A, B> {
    type Error = Refused;

    async fn reconcile(&self, request: Request<ConfigMap>) -> Result<Outcome, Refused> {
        self.0.say(format_args!("own {}", ask(&request)));
        Ok(Outcome::done())
    }

    fn predicates(&self) -> Vec<&dyn Predicate<ConfigMap>> {
        vec![&self.1, &self.2]
    }
}

/// Each `filter` adds a predicate, and a handler may have several of its own.
#[tokio::test(start_paused = true)]
async fn an_event_that_one_of_several_predicates_refuses_is_not_dispatched() {
    let rig = Rig::new(quiet());
    let named = |event: &Event<ConfigMap>| {
        (event.object()).is_some_and(|object| show(object).starts_with("web"))
    };
    let ends = |event: &Event<ConfigMap>| {
        (event.object()).is_some_and(|object| show(object).ends_with("=1"))
    };
    let watcher = Watcher::filter(rig.log.watcher("w"), named);
    rig.watch(Watcher::filter(watcher, ends));
    rig.watch(Two(rig.log.clone(), named, ends));
    rig.reconcile(rig.log.reconciler("r").filter(ends).filter(named));
    rig.reconcile(Two(rig.log.clone(), named, ends));
    let log = rig.log.clone();
    let mapper = move |object: &ConfigMap| {
        log.say(format_args!("mapped {}", show(object)));
        None::<ObjectKey>
    };
    let mapper = Mapper::filter(Mapper::filter(mapper, named), ends);
    let added = rig.controller.add_mapper(&rig.kind, &rig.kind, mapper);
    added.expect("added");
    let running = rig.start_empty().await;
    running.apply(config("api", 1)).await;
    running.apply(config("web", 2)).await;
    assert_eq!(
        running.logged().await,
        "",
        "each event passes one of the two"
    );
    running.apply(config("web-1", 1)).await;
    assert_eq!(
        running.logged().await,
        "mapped web-1=1, w add web-1=1, own add web-1=1, r created web-1=1, own created web-1=1"
    );
    running.stop().await.expect("it stops");
}
