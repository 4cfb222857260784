//! Names of objects, handlers and kinds that must not be confused.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject};
use windlass::{
    Informer, InformerController, Outcome, Reconciler, Request, retry::NeverDequeue,
    source::Scripted,
};

use crate::rig::{KIND, Log, Refused, Rig, ask, config, pass, quiet, reborn, secs, settle};

#[tokio::test(start_paused = true)]
async fn w11_a_recreated_object_inherits_no_retry_whatever_the_policy_keeps() {
    let mut rig = Rig::new(quiet().retry_dequeue_policy(NeverDequeue));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        log.say(ask(&request));
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
    assert_eq!(rig.said().await, "created web=1, updated web=2");
    assert_eq!(rig.pending(), 2);
    rig.apply(reborn("web", 3)).await;
    assert_eq!(rig.said().await, "deleted web=2, created web=3");
    pass(3600).await;
    // The delete of the old one is all that is repeated, always with the old one. The failure
    // of its update counts as the first of the five retries: no new generation came between.
    let said = rig.said().await;
    assert_eq!(said, ["deleted web=2"; 4].join(", "));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn w12_to_remove_a_handler_drops_its_retries_and_leaves_everybody_elses() {
    let mut rig = Rig::new(quiet());
    let [first, second, third] = ["first", "second", "third"].map(|name| {
        let log = rig.log.clone();
        rig.reconcile(move |request: Request<ConfigMap>| {
            log.say(format_args!("{name} {}", request.attempt()));
            let fails = request.attempt() == 0;
            async move {
                if fails {
                    return Err(Refused("not yet"));
                }
                Ok(Outcome::done())
            }
        })
    });
    assert!(first < second && second < third);
    rig.start().await;
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.said().await, "first 0, second 0, third 0");
    assert!(rig.controller.remove_reconciler(KIND, first));
    assert_eq!(rig.pending(), 2);
    // A name is never used again.
    let fourth = rig.reconcile(|_: Request<ConfigMap>| async { Ok::<_, Refused>(Outcome::done()) });
    assert!(fourth > third);
    pass(600).await;
    assert_eq!(rig.said().await, "second 1, third 1");
    rig.stop().await;
}

/// A kind is the name that its user chose, and not a group, version and kind.
#[tokio::test(start_paused = true)]
async fn w13_two_kinds_of_one_type_trigger_only_their_own_handlers() {
    let mut rig = Rig::new(quiet());
    let (script, source) = Scripted::new();
    let (controller, log) = (&rig.controller, &rig.log);
    controller
        .add_informer("labelled", &Informer::new(source))
        .expect("a kind of the same type");
    for kind in [KIND, "labelled"] {
        let log = log.clone();
        let says = move |request: Request<ConfigMap>| {
            log.say(format_args!("{kind}: {}", ask(&request)));
            async { Ok::<_, Refused>(Outcome::done()) }
        };
        controller.add_reconciler(kind, says).expect("added");
    }
    rig.start().await;
    script.list([config("api", 1)]).await.expect("it runs");
    assert_eq!(rig.said().await, "labelled: created api=1");
    rig.apply(config("web", 1)).await;
    assert_eq!(rig.said().await, "configs: created web=1");
    rig.stop().await;
}

/// The items of a list do not say what they are, the events of a watch do: it is the same
/// object in the same hand.
#[tokio::test(start_paused = true)]
async fn w16_an_object_is_in_one_lane_whether_or_not_it_says_its_kind() {
    let log = Log::default();
    let controller = InformerController::new();
    let (script, source) = Scripted::<DynamicObject>::new();
    let informer = Informer::new(source);
    controller.add_informer("things", &informer).expect("added");
    controller
        .add_reconciler("things", slow(&log))
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
    run.await.expect("no panic").expect("it ends well");
}

fn slow(log: &Log) -> impl Reconciler<DynamicObject> + use<> {
    let log = log.clone();
    move |request: Request<DynamicObject>| {
        let log = log.clone();
        async move {
            let version = request.object().metadata.resource_version.clone();
            let what = format!("{:?} {}", request.action(), version.unwrap_or_default());
            log.say(format_args!("{what} begins"));
            tokio::time::sleep(secs(5)).await;
            log.say(format_args!("{what} ends"));
            Ok::<_, Refused>(Outcome::done())
        }
    }
}

/// A version of one object, which says its kind or does not.
fn thing(version: u32, says: bool) -> DynamicObject {
    let mut object = DynamicObject::new("web", &ApiResource::erase::<ConfigMap>(&()));
    object.metadata = config("web", version).metadata;
    if !says {
        object.types = None;
    }
    object
}
