//! Informers that several controllers use.

use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass_controller::{AddError, Coalescing, InformerController, RunError};
use windlass_informer::{Informer, Scripted};

use crate::support::{KIND, Log, config, settle};

/// Defect 9. Rows: GA-27
#[tokio::test(start_paused = true)]
async fn a_controller_that_stops_takes_no_informer_from_another() {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let log = Log::default();
    let start = |name: &'static str| {
        let controller = InformerController::builder()
            .name(name)
            .build()
            .expect("good");
        let kind = controller.kind(KIND).expect("a new kind");
        controller.add_informer(&kind, &informer).expect("added");
        controller
            .add_watcher(&kind, log.watcher(name))
            .expect("added");
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        (stop, task)
    };
    let (stop_a, a) = start("a");
    settle().await;
    let (stop_b, b) = start("b");
    script.list([config("web", 1)]).await.expect("runs");
    let logged = log.take().await;
    assert!(
        logged.contains("a add web=1") && logged.contains("b add web=1"),
        "{logged}"
    );

    // The one that runs the informer stops first.
    stop_a.cancel();
    a.await.expect("no panic").expect("it stops");
    script
        .apply(config("web", 2))
        .await
        .expect("it runs for the other one");
    assert_eq!(log.take().await, "b update web=1 web=2");
    stop_b.cancel();
    b.await.expect("no panic").expect("it stops");
}

/// A controller that makes the watch wait for its handlers would stop the events of every other
/// user of the informer, so it gets no informer that others have, and they do not get its own.
///
/// D24.
#[tokio::test(start_paused = true)]
async fn a_controller_that_may_stop_the_watch_has_its_informers_for_itself() {
    let (_script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let of = |coalescing| {
        let builder = InformerController::builder().coalescing(coalescing);
        builder.build().expect("good settings")
    };
    let add = |controller: &InformerController| {
        let kind = controller.kind(KIND).expect("no other handle is left");
        controller.add_informer(&kind, &informer)
    };
    let refused = |added: Result<(), AddError>| {
        let error = added.expect_err("the informer is shared");
        assert!(matches!(&error, AddError::SharedInformer { kind, .. } if kind == KIND));
        let text = error.to_string();
        assert!(text.contains("Coalescing::Never"), "{text}");
        assert!(text.contains("an informer of its own"), "{text}");
    };

    let (quick, never) = (of(Coalescing::WhenFull), of(Coalescing::Never));
    add(&quick).expect("the first one");
    add(&of(Coalescing::Always)).expect("any number of them");
    refused(add(&never));
    assert!(never.health().is_empty(), "nothing was added");
    assert!(quick.remove_informer(&informer));
    add(&never).expect("no other user is registered");
    for other in [Coalescing::WhenFull, Coalescing::Never] {
        refused(add(&of(other)));
    }

    // Until it removes it, or has run.
    assert!(never.remove_informer(&informer));
    add(&quick).expect("it is free");
    assert!(quick.remove_informer(&informer));
    add(&never).expect("it is free");
    let stop = CancellationToken::new();
    stop.cancel();
    never.run(stop).await.expect("it stops");
    add(&of(Coalescing::Never)).expect("a controller runs once");
}

/// D24.
#[tokio::test(start_paused = true)]
async fn a_controller_that_may_stop_the_watch_does_not_run_beside_another_subscription() {
    for coalescing in [Coalescing::Never, Coalescing::WhenFull] {
        let (_script, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::new(source);
        let builder = InformerController::builder().coalescing(coalescing);
        let controller = builder.build().expect("good settings");
        let kind = controller.kind(KIND).expect("a new kind");
        controller.add_informer(&kind, &informer).expect("added");
        let events = informer.subscribe();
        let stop = CancellationToken::new();
        stop.cancel();
        let ran = controller.run(stop).await;
        drop(events);
        match (coalescing, ran) {
            (Coalescing::Never, Err(error)) => {
                assert!(matches!(&error, RunError::SharedInformer { kind } if kind == KIND));
                let text = error.to_string();
                assert!(text.contains("an informer of its own"), "{text}");
            }
            (Coalescing::WhenFull, Ok(())) => {}
            (coalescing, ran) => panic!("{coalescing:?}: {ran:?}"),
        }
    }
}

/// A run that is dropped ends as one that is stopped does.
#[tokio::test(start_paused = true)]
async fn a_dropped_run_leaves_its_informers_to_others() {
    let (_script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    let alone = InformerController::builder()
        .coalescing(Coalescing::Never)
        .build()
        .expect("good settings");
    let kind = alone.kind(KIND).expect("a new kind");
    alone.add_informer(&kind, &informer).expect("added");
    let other = InformerController::new();
    let kind = other.kind(KIND).expect("a new kind");
    assert!(
        other.add_informer(&kind, &informer).is_err(),
        "it is in use"
    );
    let run = tokio::spawn({
        let alone = alone.clone();
        async move { alone.run(CancellationToken::new()).await }
    });
    settle().await;
    run.abort();
    assert!(run.await.expect_err("dropped").is_cancelled());
    other.add_informer(&kind, &informer).expect("it is free");
}
