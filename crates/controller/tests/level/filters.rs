//! Which changes of a primary object reconcile it.

use k8s_openapi::{
    api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp,
};
use windlass_controller::{GenerationChanged, LabelsChanged, Predicate, ResourceVersionChanged};
use windlass_informer::Event;

use crate::support::{Log, Rig, config, done, generation};

/// Rows: BO-10
#[tokio::test(start_paused = true)]
async fn a_change_of_the_status_alone_does_not_reconcile_and_metadata_and_finalizers_do() {
    let log = Log::new();
    let rig = Rig::start(&log, |builder| builder, log.reconciler(|_| done())).await;
    let mut object = config("web", 1);
    rig.apply(object.clone()).await;
    assert_eq!(rig.logged().await, "0.0 web@1 for changed");
    let mut version = 1;
    let mut change = |object: &mut ConfigMap| {
        version += 1;
        object.metadata.resource_version = Some(version.to_string());
    };
    change(&mut object);
    rig.apply(object.clone()).await;
    assert_eq!(rig.logged().await, "", "the status has no generation");
    for touch in [
        (|object| object.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()))
            as fn(&mut ConfigMap),
        |object| object.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into()),
        |object| object.metadata.finalizers = Some(vec!["example.io/other".to_owned()]),
        |object| object.metadata.generation = Some(2),
    ] {
        change(&mut object);
        touch(&mut object);
        rig.apply(object.clone()).await;
        let calls = rig.logged().await;
        assert!(calls.ends_with("for changed"), "{calls}");
    }
    // Without a finalizer of its own, the controller does not reconcile an object that is deleted.
    change(&mut object);
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    rig.apply(object).await;
    assert_eq!(rig.logged().await, "");
    rig.stop().await;
}

/// Rows: BO-10, BO-11
#[tokio::test(start_paused = true)]
async fn a_filter_can_be_replaced_and_combined() {
    let log = Log::new();
    let all = |builder: windlass_controller::ControllerBuilder<ConfigMap>| {
        builder.filter(ResourceVersionChanged)
    };
    let rig = Rig::start(&log, all, log.reconciler(|_| done())).await;
    rig.apply(config("web", 1)).await;
    rig.apply(config("web", 2)).await;
    let calls = rig.logged().await;
    assert!(calls.ends_with("web@2 for changed"), "{calls}");
    rig.stop().await;

    let log = Log::new();
    let some = |builder: windlass_controller::ControllerBuilder<ConfigMap>| {
        let named = |event: &Event<ConfigMap>| {
            let name = event.object().and_then(|it| it.metadata.name.clone());
            name.as_deref() != Some("ignored")
        };
        builder.filter(GenerationChanged.or(LabelsChanged).and(named))
    };
    let rig = Rig::start(&log, some, log.reconciler(|_| done())).await;
    rig.apply(config("ignored", 1)).await;
    rig.apply(config("web", 2)).await;
    assert_eq!(rig.logged().await, "0.0 web@2 for changed");
    rig.apply(config("web", 3)).await;
    assert_eq!(rig.logged().await, "");
    rig.apply(generation("web", 4)).await;
    assert_eq!(rig.logged().await, "0.0 web@4 for changed");
    rig.stop().await;
}
