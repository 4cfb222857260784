//! Informers that do not sync: at the start, later, and of an optional kind.

use k8s_openapi::api::core::v1::Secret;
use tokio::time::Instant;
use windlass_controller::{InformerController, Kind, Outcome, Request, RunError};
use windlass_informer::{Informer, Script, Scripted};

use crate::support::{KIND, Refused, Rig, config, pass, secs};

/// Adds an informer of secrets, which has not listed, to `kind`.
fn silent(controller: &InformerController, kind: &Kind<Secret>) -> Script<Secret> {
    let (script, source) = Scripted::new();
    let added = controller.add_informer(kind, &Informer::new(source));
    added.expect("added");
    script
}

fn secret() -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some("a".to_owned());
    secret.metadata.uid = Some("a".to_owned());
    secret
}

/// D23. Rows: BO-35
#[tokio::test(start_paused = true)]
async fn an_informer_that_does_not_sync_at_the_start_ends_the_run_with_its_kind_and_the_setting() {
    let rig = Rig::new(InformerController::builder());
    let secrets = rig.controller.kind("secrets").expect("a new kind");
    let _never = silent(&rig.controller, &secrets);
    let running = rig.start();
    let listed = running.rig.script.list([config("web", 1)]).await;
    listed.expect("it runs");
    let began = Instant::now();
    let ended = running.ended().await.expect_err("it fails");
    assert!(began.elapsed() >= secs(120) && began.elapsed() < secs(125));
    let RunError::NotSynced { informers, .. } = &ended else {
        panic!("{ended}");
    };
    assert!(informers.contains("secrets"), "{ended}");
    assert!(!informers.contains(KIND), "{ended}");
    let text = ended.to_string();
    assert!(text.contains("listing"), "the reason: {text}");
    assert!(text.contains("cache_sync_timeout"), "{text}");
    assert!(text.contains("optional_kind"), "{text}");

    let rig = Rig::new(InformerController::builder().cache_sync_timeout(None));
    let running = rig.start();
    pass(24 * 3600).await;
    running.stop().await.expect("it waits for ever");
}

/// D23. Rows: BO-35, BO-43
#[tokio::test(start_paused = true)]
async fn an_informer_that_is_added_later_and_does_not_sync_ends_nothing() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    let running = rig.start_empty().await;
    let controller = running.rig.controller.clone();
    let secrets = controller.kind("secrets").expect("a new kind");
    let late = silent(&controller, &secrets);
    let log = running.rig.log.clone();
    let added = controller.add_reconciler(&secrets, move |request: Request<Secret>| {
        log.say(format_args!("secret {}", request.key()));
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    added.expect("added");

    pass(3 * 3600).await;
    assert!(!running.has_ended());
    running.apply(config("web", 1)).await;
    assert_eq!(running.logged().await, "r created web=1");
    let health = controller.health();
    assert!(health[0].has_synced && !health[1].has_synced);
    assert!(!controller.has_synced(), "its health is reported");

    late.list([secret()]).await.expect("it runs");
    assert_eq!(running.logged().await, "secret a");
    running.stop().await.expect("it stops");
}

/// D23. Rows: BO-35
#[tokio::test(start_paused = true)]
async fn an_optional_kind_delays_no_other_kind() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    let secrets = rig.controller.optional_kind("secrets");
    let secrets = secrets.expect("a new kind");
    let later = silent(&rig.controller, &secrets);
    let log = rig.log.clone();
    let added = (rig.controller).add_reconciler(&secrets, move |request: Request<Secret>| {
        log.say(format_args!("secret {}", request.key()));
        async { Ok::<_, Refused>(Outcome::done()) }
    });
    added.expect("added");
    let running = rig.start();
    let listed = running.rig.script.list([config("web", 1)]).await;
    listed.expect("it runs");
    assert_eq!(running.logged().await, "r created web=1");
    assert!(running.rig.controller.has_synced(), "of the other kinds");
    assert!(running.rig.controller.health()[1].is_optional);

    pass(24 * 3600).await;
    assert!(!running.has_ended());
    later.list([secret()]).await.expect("it runs");
    assert_eq!(running.logged().await, "secret a");
    running.stop().await.expect("it stops");
}
