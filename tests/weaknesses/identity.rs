//! The identity of objects, handlers and kinds.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject};
use windlass::{
    Informer, InformerController, Outcome, Reconciler, Request, retry::NeverDequeue,
    source::Scripted,
};

use crate::rig::{Log, Refused, Rig, config, describe, pass, quiet, recreated, secs, settle};

#[tokio::test(start_paused = true)]
async fn w11_a_recreated_object_inherits_no_retry_under_any_dequeue_policy() {
    let mut rig = Rig::new(quiet().retry_dequeue_policy(NeverDequeue));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.push(describe(&request));
        let old = request.object().metadata.uid.as_deref() == Some("uid-web");
        async move {
            if old {
                return Err(Refused("not yet"));
            }
            Ok(Outcome::done())
        }
    });
    rig.start().await;
    rig.apply(config("web", 1)).await;
    rig.apply(config("web", 2)).await;
    assert_eq!(rig.logged().await, "created web=1, updated web=2");
    assert_eq!(rig.pending(), 2);
    rig.apply(recreated("web", 3)).await;
    assert_eq!(rig.logged().await, "deleted web=2, created web=3");
    pass(3600).await;
    // Only the delete of the old object is repeated, always with the old object and with all five
    // retries.
    let logged = rig.logged().await;
    assert_eq!(logged, ["deleted web=2"; 5].join(", "));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w12_removing_a_handler_drops_only_its_own_retries() {
    let mut rig = Rig::new(quiet());
    let [first, second, third] = ["first", "second", "third"].map(|name| {
        let log = rig.log.clone();
        rig.reconcile(move |request: Request<ConfigMap>| {
            log.push(format_args!("{name} {}", request.attempt()));
            let fails = request.attempt() == 0;
            async move {
                if fails {
                    return Err(Refused("not yet"));
                }
                Ok(Outcome::done())
            }
        })
    });
    assert!(first.id() < second.id() && second.id() < third.id());
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "first 0, second 0, third 0");
    assert!(first.remove());
    assert_eq!(rig.pending(), 2);
    // An id is never reused.
    let fourth = rig.reconcile(|_: Request<ConfigMap>| async { Ok::<_, Refused>(Outcome::done()) });
    assert!(fourth.id() > third.id());
    pass(600).await;
    assert_eq!(rig.logged().await, "second 1, third 1");
    rig.stop().await;
}

/// A kind is identified by the name that the user chose, not by group, version and kind.
#[tokio::test(start_paused = true)]
async fn w13_two_kinds_of_one_type_trigger_only_their_own_handlers() {
    let mut rig = Rig::new(quiet());
    let (script, source) = Scripted::new();
    let (controller, log) = (&rig.controller, &rig.log);
    let labelled = controller.kind("labelled").expect("a new kind");
    controller
        .add_informer(&labelled, &Informer::new(source))
        .expect("a kind of the same type");
    for kind in [&rig.kind, &labelled] {
        let (log, name) = (log.clone(), kind.name().to_owned());
        let reconcile = move |request: Request<ConfigMap>| {
            log.push(format_args!("{name}: {}", describe(&request)));
            async { Ok::<_, Refused>(Outcome::done()) }
        };
        controller.add_reconciler(kind, reconcile).expect("added");
    }
    rig.start().await;
    script.list([config("api", 1)]).await.expect("it runs");
    assert_eq!(rig.logged().await, "labelled: created api=1");
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.logged().await, "configs: created web=1");
    rig.stop().await;
}

/// List items have no `apiVersion` and `kind`, watch events do. Both belong to the same object and
/// the same lane.
#[tokio::test(start_paused = true)]
async fn w16_objects_with_and_without_type_fields_share_one_lane() {
    let log = Log::default();
    let controller = InformerController::new();
    let (script, source) = Scripted::<DynamicObject>::new();
    let informer = Informer::new(source);
    let things = controller.kind("things").expect("a new kind");
    controller.add_informer(&things, &informer).expect("added");
    controller
        .add_reconciler(&things, slow(&log))
        .expect("added");
    let stop = tokio_util::sync::CancellationToken::new();
    let run = {
        let (controller, stop) = (controller.clone(), stop.clone());
        tokio::spawn(async move { controller.run(stop).await })
    };
    script.list([thing(1, false)]).await.expect("it runs");
    settle().await;
    script.apply(thing(2, true)).await.expect("it runs");
    script.apply(thing(3, false)).await.expect("it runs");
    pass(60).await;
    assert_eq!(
        log.take().await,
        "Created 1 begins, Created 1 ends, Updated 2 begins, Updated 2 ends, \
         Updated 3 begins, Updated 3 ends"
    );
    assert_eq!(informer.store().len(), 1);
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

fn slow(log: &Log) -> impl Reconciler<DynamicObject> + use<> {
    let log = log.clone();
    move |request: Request<DynamicObject>| {
        let log = log.clone();
        async move {
            let version = request.object().metadata.resource_version.clone();
            let what = format!("{:?} {}", request.action(), version.unwrap_or_default());
            log.push(format_args!("{what} begins"));
            tokio::time::sleep(secs(5)).await;
            log.push(format_args!("{what} ends"));
            Ok::<_, Refused>(Outcome::done())
        }
    }
}

/// A version of one object, with or without `apiVersion` and `kind`.
fn thing(version: u32, has_types: bool) -> DynamicObject {
    let mut object = DynamicObject::new("web", &ApiResource::erase::<ConfigMap>(&()));
    object.metadata = config("web", version).metadata;
    if !has_types {
        object.types = None;
    }
    object
}
