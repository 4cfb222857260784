//! Causes of calls outside of the API server.

use std::time::Duration;

use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio_util::sync::CancellationToken;
use windlass_controller::{Context, Controller, Failure, Outcome, SameName, Watch};
use windlass_controller::{ControllerBuilder, Trigger};
use windlass_informer::{Informer, ObjectKey, Scripted};

use crate::support::{Log, Rig, config, done, no_server, pass, secs};

type Builder = ControllerBuilder<ConfigMap>;

/// Rows: BO-36
#[tokio::test(start_paused = true)]
async fn a_handle_reconciles_the_objects_that_it_names_and_ignores_others() {
    let log = Log::new();
    let (handle, trigger) = Trigger::handle();
    let with_trigger = |mut builder: Builder| {
        builder.trigger(trigger);
        builder
    };
    let rig = Rig::start(&log, with_trigger, log.reconciler(|_| done())).await;
    rig.apply(config("a", 1)).await;
    rig.apply(config("b", 2)).await;
    rig.logged().await;
    handle.reconcile([ObjectKey::new("a"), ObjectKey::new("nothing")]);
    assert_eq!(rig.logged().await, "0.0 a@1 for trigger");
    handle.reconcile_all();
    let calls = rig.logged().await;
    assert!(
        calls.contains("a@1 for trigger") && calls.contains("b@2 for trigger"),
        "{calls}"
    );
    rig.stop().await;
}

/// Rows: BO-36
#[tokio::test(start_paused = true)]
async fn streams_and_intervals_reconcile_and_an_ended_stream_does_not_stop_the_controller() {
    let log = Log::new();
    let with_triggers = |mut builder: Builder| {
        let keys = stream::unfold(0, |at| async move {
            pass(secs(7)).await;
            (at < 1).then(|| (ObjectKey::new("web"), at + 1))
        });
        let panics = stream::once(async { panic!("a broken stream") });
        builder
            .trigger(Trigger::keys(keys))
            .trigger(Trigger::all(panics))
            .trigger(secs(10));
        builder
    };
    let rig = Rig::start(&log, with_triggers, log.reconciler(|_| done())).await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    pass(secs(21)).await;
    let calls = "7.0 web@1 for trigger, 10.0 web@1 for trigger, 20.0 web@1 for trigger";
    assert_eq!(rig.logged().await, calls);
    rig.stop().await;
}

/// Rows: BO-36
#[tokio::test(start_paused = true)]
async fn triggers_are_added_and_removed_while_the_controller_runs() {
    let log = Log::new();
    let rig = Rig::start(&log, |builder| builder, log.reconciler(|_| done())).await;
    rig.apply(config("web", 1)).await;
    rig.logged().await;
    pass(secs(20)).await;
    let every = rig.controller.add_trigger(secs(7));
    let (handle, trigger) = Trigger::handle();
    let handled = rig.controller.add_trigger(trigger);
    pass(secs(10)).await;
    assert_eq!(rig.logged().await, "27.0 web@1 for trigger");
    drop(every);
    pass(secs(60)).await;
    assert_eq!(rig.logged().await, "");
    handle.reconcile_all();
    assert_eq!(rig.logged().await, "90.0 web@1 for trigger");
    drop(handled);
    rig.stop().await;
}

/// Rows: KR-05, BO-09
#[tokio::test(start_paused = true)]
async fn a_change_of_another_kind_wakes_directly_and_only_objects_that_exist() {
    let log = Log::new();
    let (configs, source) = Scripted::<ConfigMap>::new();
    let (secrets, others) = Scripted::<Secret>::new();
    let (configs_informer, secrets_informer) = (Informer::new(source), Informer::new(others));
    let mut builder = Controller::builder(no_server(), Watch::from(&configs_informer));
    let handle = builder.watches(Watch::from(&secrets_informer), SameName);
    let reconciler = {
        let log = log.clone();
        move |cx: Context<ConfigMap>| {
            let secret = handle.get(&cx, cx.key());
            log.say(format_args!(
                "{} {}",
                crate::support::show(&cx),
                secret.is_some()
            ));
            async { Ok::<_, Failure>(Outcome::done()) }
        }
    };
    let controller = builder.build(reconciler).expect("good settings");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    configs.list([config("web", 1)]).await.expect("it runs");
    pass(Duration::from_secs(1)).await;
    assert_eq!(
        log.take().await,
        "",
        "no call before all stores are complete"
    );
    secrets.list([]).await.expect("it runs");
    assert_eq!(log.take().await, "1.0 web@1 for first list false");
    let mut secret = Secret::default();
    secret.metadata.name = Some("web".to_owned());
    secrets.apply(secret.clone()).await.expect("it runs");
    assert_eq!(log.take().await, "1.0 web@1 for related true");
    let mut other = secret.clone();
    other.metadata.name = Some("nothing".to_owned());
    secrets.apply(other).await.expect("it runs");
    assert_eq!(log.take().await, "");
    secrets.delete(secret).await.expect("it runs");
    assert_eq!(log.take().await, "1.0 web@1 for related false");
    stop.cancel();
    running
        .await
        .expect("no panic")
        .expect("a graceful shutdown");
}
