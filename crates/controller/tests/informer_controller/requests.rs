//! What a reconciler is given.

use k8s_openapi::api::core::v1::ConfigMap;
use std::{num::NonZeroUsize, time::Duration};
use windlass_controller::{
    Action, InformerController, Outcome, Reconciler, Request, ResourceAction, State, Watcher,
};
use windlass_informer::{Informer, Scripted};

use crate::support::{KIND, Refused, Rig, ask, config, show};

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

/// Rows: GA-94, GA-101, GA-110, GA-111
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
        running.said().await,
        "created web=1 after nothing, false, updated web=2 after web=1, false, \
         deleted web=3 after nothing, false"
    );
    running.stop().await.expect("it stops");
}

/// Rows: GA-91
#[tokio::test(start_paused = true)]
async fn a_resync_is_said_to_be_one_and_is_an_update_for_watchers() {
    let controller = InformerController::new();
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source)
        .resync(Duration::from_secs(60))
        .build();
    controller.add_informer(KIND, &informer).expect("added");
    let rig = Rig::new(InformerController::builder());
    let log = rig.log.clone();
    controller
        .add_watcher(KIND, log.watcher("w"))
        .expect("added");
    controller
        .add_reconciler(KIND, log.reconciler("r"))
        .expect("added");
    let stop = rig.stop.clone();
    let run = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    script.list([config("web", 1)]).await.expect("it runs");
    assert_eq!(log.take().await, "w add web=1, r created web=1");
    crate::support::pass(61).await;
    assert_eq!(log.take().await, "w update web=1 web=1, r resynced web=1");
    stop.cancel();
    run.await.expect("no panic").expect("it stops");
}

/// A reconciler can be tested without a controller.
#[tokio::test]
async fn a_request_can_be_made_by_hand() {
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

/// What a reconciler can be, at compile time.
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
    controller.add_reconciler(KIND, function).expect("added");
    controller
        .add_reconciler(KIND, |_: Request<ConfigMap>| async {
            Ok::<_, Refused>(Outcome::done())
        })
        .expect("added");
    controller
        .add_watcher::<ConfigMap>(KIND, Nothing)
        .expect("added");
}
