//! Informers that several controllers use.

use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass_controller::InformerController;
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
