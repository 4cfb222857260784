//! The requests that a reconciler receives.

use std::{num::NonZeroUsize, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Action, CannotCastError, Failure, InformerController, Outcome, Reconciler, Request,
    ResourceAction, State, TypedReconciler, Watcher,
};
use windlass_informer::{Informer, Script, Scripted};

use crate::support::{KIND, Log, Refused, Rig, ask, config, pass, show};

/// Rows: GA-01, GA-88, GA-92, GA-93
#[test]
fn actions_of_resources_and_of_reconcilers_translate_into_each_other() {
    for (resource, word, action) in [
        (ResourceAction::Create, "CREATE", Action::Created),
        (ResourceAction::Update, "UPDATE", Action::Updated),
        (ResourceAction::Delete, "DELETE", Action::Deleted),
    ] {
        assert_eq!(resource.as_str(), word);
        assert_eq!(Action::from(resource), action);
        assert_eq!(action.resource_action(), Some(resource));
    }
    assert_eq!(Action::Resynced.resource_action(), None);
}

/// Rows: GA-94, GA-101, GA-110
#[tokio::test(start_paused = true)]
async fn a_request_has_an_action_a_typed_object_and_a_state() {
    struct Typed(crate::support::Log);

    impl Reconciler<ConfigMap> for Typed {
        type Error = Refused;

        async fn reconcile(&self, request: Request<ConfigMap>) -> Result<Outcome, Refused> {
            let old = request.old().map_or("nothing".to_owned(), |old| show(old));
            let state = request.state().is_some();
            self.0
                .say(format_args!("{} after {old}, {state}", ask(&request)));
            Ok(Outcome::done())
        }
    }

    let rig = Rig::new(InformerController::builder());
    rig.reconcile(Typed(rig.log.clone()));
    let running = rig.start_empty().await;
    running.apply(config("web", 1)).await;
    running.apply(config("web", 2)).await;
    running.delete(config("web", 3)).await;
    assert_eq!(
        running.logged().await,
        "created web=1 after nothing, false, updated web=2 after web=1, false, \
         deleted web=3 after nothing, false"
    );
    running.stop().await.expect("it stops");
}

/// Rows: GA-91
#[tokio::test(start_paused = true)]
async fn a_resync_is_marked_and_is_an_update_for_watchers() {
    let controller = InformerController::new();
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source)
        .resync(Duration::from_secs(60))
        .build();
    let kind = controller.kind(KIND).expect("a new kind");
    controller.add_informer(&kind, &informer).expect("added");
    let rig = Rig::new(InformerController::builder());
    let log = rig.log.clone();
    controller
        .add_watcher(&kind, log.watcher("w"))
        .expect("added");
    controller
        .add_reconciler(&kind, log.reconciler("r"))
        .expect("added");
    let stop = rig.stop.clone();
    let run = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    script.list([config("web", 1)]).await.expect("it runs");
    assert_eq!(log.take().await, "w add web=1, r created web=1");
    pass(61).await;
    assert_eq!(log.take().await, "w update web=1 web=1, r resynced web=1");
    stop.cancel();
    run.await.expect("no panic").expect("it stops");
}

/// A reconciler can be tested without a controller.
#[tokio::test]
async fn a_request_can_be_constructed_in_a_test() {
    let step = |request: Request<ConfigMap>| async move {
        let seen = request.state().and_then(State::get::<u32>).copied();
        Ok::<_, Refused>(match seen {
            None => Outcome::requeue_after(Duration::from_secs(1)),
            Some(_) => Outcome::done(),
        })
    };
    let request = Request::new(Action::Created, config("web", 1).into());
    let first = step.reconcile(request.clone()).await.expect("well");
    assert_eq!(first.delay(), Some(Duration::from_secs(1)));
    let second = step.reconcile(request.resumed(State::new(1_u32))).await;
    assert_eq!(second.expect("well").delay(), None);
}

/// The types of handlers, at compile time. Rust has no `nil`, so that no absent object, watcher,
/// reconciler or function has to be rejected.
///
/// Rows: GA-06, GA-113
#[test]
fn closures_functions_and_structs_are_handlers() {
    async fn function(_: Request<ConfigMap>) -> Result<Outcome, Refused> {
        Ok(Outcome::done())
    }
    struct Nothing;
    impl Watcher<ConfigMap> for Nothing {
        type Error = std::convert::Infallible;
    }
    let controller = InformerController::builder()
        .concurrency(NonZeroUsize::MIN)
        .build()
        .expect("good settings");
    let kind = controller.kind::<ConfigMap>(KIND).expect("a new kind");
    controller.add_reconciler(&kind, function).expect("added");
    controller
        .add_reconciler(&kind, |_: Request<ConfigMap>| async {
            Ok::<_, Refused>(Outcome::done())
        })
        .expect("added");
    controller.add_watcher(&kind, Nothing).expect("added");
}

/// Rows: GA-111
#[tokio::test(start_paused = true)]
async fn a_typed_reconciler_reads_dynamic_objects_and_leaves_the_rest_of_the_request() {
    let rig = dynamic(Duration::ZERO, |log| {
        TypedReconciler::new(move |request: Request<ConfigMap>| {
            let state = request.state().and_then(State::get::<u32>).copied();
            log.say(format_args!("{} {state:?}", ask(&request)));
            async move {
                match state {
                    None => Err(Failure::new("not yet").state(State::new(7_u32))),
                    Some(_) => Ok(Outcome::done()),
                }
            }
        })
    });
    let (script, log) = rig.run();
    let web = serde_json::to_value(config("web", 1)).expect("JSON");
    let web = serde_json::from_value(web).expect("an object");
    script.list([web]).await.expect("it runs");
    assert_eq!(log.take().await, "created web=1 None");
    pass(60).await;
    assert_eq!(log.take().await, "created web=1 Some(7)");
}

/// Rows: GA-111
#[tokio::test(start_paused = true)]
async fn a_typed_reconciler_has_the_action_and_the_state_of_each_request() {
    let rig = dynamic(Duration::from_secs(3600), |log| {
        TypedReconciler::new(move |request: Request<ConfigMap>| {
            let state = request.state().and_then(State::get::<u32>).copied();
            log.say(format_args!("{} {state:?}", ask(&request)));
            async move {
                match state {
                    None => Err(Failure::new("not yet").state(State::new(7_u32))),
                    Some(_) => Ok(Outcome::done()),
                }
            }
        })
    });
    let (script, log) = rig.run();
    let web = |value: u32| {
        let web = serde_json::to_value(config("web", value)).expect("JSON");
        serde_json::from_value::<DynamicObject>(web).expect("an object")
    };
    script.list([]).await.expect("it runs");
    script.apply(web(1)).await.expect("it runs");
    pass(40).await;
    assert_eq!(
        log.take().await,
        "created web=1 None, created web=1 Some(7)"
    );
    script.apply(web(2)).await.expect("it runs");
    pass(40).await;
    assert_eq!(
        log.take().await,
        "updated web=2 None, updated web=2 Some(7)"
    );
    // One resync in each hour.
    pass(3600).await;
    assert_eq!(
        log.take().await,
        "resynced web=2 None, resynced web=2 Some(7)"
    );
    script.delete(web(3)).await.expect("it runs");
    pass(40).await;
    assert_eq!(
        log.take().await,
        "deleted web=3 None, deleted web=3 Some(7)"
    );
}

/// Rows: GA-14, GA-15, GA-112
#[tokio::test(start_paused = true)]
async fn an_object_of_another_type_is_an_error_with_its_identity() {
    let rig = dynamic(Duration::ZERO, |log| {
        TypedReconciler::new(move |request: Request<ConfigMap>| {
            log.say(ask(&request));
            async { Ok::<_, Refused>(Outcome::done()) }
        })
    });
    let (script, log) = rig.run();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.io", "v1", "Website"));
    let odd = DynamicObject::new("web", &resource)
        .within("shop")
        .data(serde_json::json!({ "data": ["not", "a", "map"] }));
    script.list([odd]).await.expect("it runs");
    pass(3600).await;
    // Not called, reported once, and not tried again.
    assert_eq!(
        log.take().await,
        "shop web example.io Website: cannot read Website.example.io shop/web as ConfigMap"
    );
}

/// A controller of dynamic objects, and what its reconciler's errors say.
struct Dynamic {
    controller: InformerController,
    script: Script<DynamicObject>,
    log: Log,
}

/// The informer resyncs each object once in `resync`; if that is zero, never.
fn dynamic<R: Reconciler<DynamicObject>>(
    resync: Duration,
    reconciler: impl FnOnce(Log) -> R,
) -> Dynamic {
    let log = Log::default();
    let hook = log.clone();
    let controller = InformerController::builder()
        .on_error(move |report| {
            if let Some(error) = report.error.downcast_ref::<CannotCastError>() {
                let CannotCastError {
                    namespace,
                    name,
                    group,
                    kind,
                    ..
                } = error;
                hook.say(format_args!("{namespace} {name} {group} {kind}: {error}"));
            }
        })
        .build()
        .expect("good settings");
    let (script, source) = Scripted::new();
    let kind = controller.kind(KIND).expect("a new kind");
    controller
        .add_informer(&kind, &Informer::builder(source).resync(resync).build())
        .expect("added");
    controller
        .add_reconciler(&kind, reconciler(log.clone()))
        .expect("added");
    Dynamic {
        controller,
        script,
        log,
    }
}

impl Dynamic {
    /// Runs until the test ends.
    fn run(self) -> (Script<DynamicObject>, Log) {
        let controller = self.controller;
        tokio::spawn(async move { controller.run(CancellationToken::new()).await });
        (self.script, self.log)
    }
}
