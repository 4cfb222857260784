//! Metrics, spans, health and errors.

use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass::{
    ExponentialBackoff, Informer, InformerController, Operator, Outcome, Request,
    controller::{AddError, HandlerError, Role},
};

use crate::rig::{KIND, Log, Refused, Rig, config, counted, pass, quiet, secs, settle};

#[tokio::test(start_paused = true)]
async fn w36_metrics_count_retries_and_resyncs_and_gauges_return_to_zero() {
    let mut rig = Rig::over(
        quiet().retry_policy(ExponentialBackoff::new(secs(1), 3)),
        |source| Informer::builder(source).resync(secs(600)).build(),
    );
    rig.reconcile(|request: Request<ConfigMap>| async move {
        pass(10).await;
        match request.attempt() {
            0 | 1 => Err(Refused("not yet")),
            _ => Ok(Outcome::done()),
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(5).await;
    let ongoing = "ongoing_reconcile_processes";
    assert_eq!(rig.counted(ongoing, &[r#"event_type="CREATE""#]), 1);
    pass(100).await;
    // Three calls for one event, each measured.
    let calls = "reconciler_process_duration_seconds_count";
    assert_eq!(rig.counted(calls, &[r#"event_type="CREATE""#]), 3);
    assert_eq!(rig.counted("reconciler_errors_total", &[]), 2);
    assert_eq!(rig.counted("workqueue_retries_total", &[]), 2);

    rig.delete(config("web", 2)).await;
    pass(5).await;
    assert_eq!(rig.counted(ongoing, &[r#"event_type="DELETE""#]), 1);
    assert_eq!(rig.counted(ongoing, &[r#"event_type="UPDATE""#]), 0);
    pass(100).await;
    assert_eq!(rig.counted(ongoing, &[]), 0);

    rig.apply(config("api", 1)).await;
    pass(1_800).await;
    let events = "informer_events_total";
    assert!(rig.counted(events, &[r#"event_type="RESYNC""#]) >= 2);
    assert_eq!(rig.counted(events, &[r#"event_type="UPDATE""#]), 0);

    // The label is the name of the kind, which is unique and never empty.
    assert_eq!(
        rig.counted(events, &[r#"kind="configs""#]),
        rig.counted(events, &[])
    );
    let nameless = rig.controller.kind::<ConfigMap>("");
    assert!(matches!(nameless, Err(AddError::EmptyKind)));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w37_an_error_handler_receives_object_action_handler_and_attempt() {
    let reports = Log::default();
    let log = reports.clone();
    let mut rig = Rig::new(
        InformerController::builder()
            .retry_policy(ExponentialBackoff::new(secs(1), 1))
            .on_error(move |report| {
                let refused = report.error.downcast_ref::<Refused>().map(|it| it.0);
                assert!(matches!(report.error, HandlerError::Failed { .. }));
                assert_eq!(report.role, Role::Reconciler);
                log.push(format_args!(
                    "{} {} {:?} handler {} attempt {} {refused:?} {:?}",
                    report.kind,
                    report.key,
                    report.action,
                    report.handler,
                    report.attempt,
                    report.retry_in
                ));
            }),
    );
    rig.reconcile(|_: Request<ConfigMap>| async { Err::<Outcome, _>(Refused("no")) });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    pass(60).await;
    assert_eq!(
        reports.take().await,
        "configs shop/web Created handler 0 attempt 0 Some(\"no\") Some(1s), \
         configs shop/web Created handler 0 attempt 1 Some(\"no\") None"
    );
    rig.stop().await;
}

/// An operator returns the collectors of its controllers, which return those of their informers.
/// The health of each informer is reported once.
#[tokio::test(start_paused = true)]
async fn w38_an_operator_returns_the_collectors_of_its_controllers_and_informers() {
    let rig = Rig::new(InformerController::builder().name("shop"));
    let more = InformerController::builder().name("more").build();
    let more = more.expect("valid settings");
    let again = more.kind("again").expect("a new kind");
    // The same informer in two controllers.
    more.add_informer(&again, &rig.informer).expect("added");
    let operator = Operator::new();
    for controller in [rig.controller.clone(), more.clone()] {
        operator
            .add_controller(controller)
            .expect("the operator is not running");
    }
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (operator, stop) = (operator.clone(), stop.clone());
        async move { operator.run_until(stop).await }
    });
    rig.script.list([config("web", 1)]).await.expect("it runs");
    settle().await;
    let all = || operator.prometheus_collectors();
    let first = [r#"controller="shop""#];
    assert_eq!(counted(all(), "informer_events_total", &first), 1);
    assert_eq!(
        counted(all(), "informer_events_total", &[r#"controller="more""#]),
        1
    );
    for controller in [r#"controller="shop""#, r#"controller="more""#] {
        assert_eq!(counted(all(), "informer_store_objects", &[controller]), 1);
    }

    let health = rig.controller.health();
    assert_eq!(health.len(), 1);
    assert_eq!(&*health[0].kind, KIND);
    assert!(health[0].watch.is_healthy() && health[0].has_synced);
    assert_eq!(more.health().len(), 1);
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}
