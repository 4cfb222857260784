//! `Debug` output: it names what it is of, and contains no value of an object and no state of a
//! handler, which may be secret.

use std::{num::NonZeroUsize, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{
    DeadLetter, ExponentialBackoff, Failure, Fence, InformerController, NewEvent, Outcome,
    PendingCall, Request, SimpleWatcher, State,
};

use crate::support::{Log, Refused, Rig, config, generation, pass};

const SECRET: &str = "hunter2";

fn secret(version: u32) -> ConfigMap {
    let mut object = generation(config("web", version), i64::from(version));
    object.data = Some([("value".to_owned(), SECRET.to_owned())].into());
    object
}

#[tokio::test(start_paused = true)]
async fn debug_output_of_handler_arguments_shows_no_value_of_the_object() {
    let shown = Log::default();
    let (requests, dequeues, exhausted) = (shown.clone(), shown.clone(), shown.clone());
    let builder = InformerController::builder()
        .on_error(|_| {})
        .retry_policy(ExponentialBackoff::new(Duration::from_secs(1), 1))
        .retry_dequeue_policy(move |new: &NewEvent<'_>, pending: &PendingCall<'_>| {
            dequeues.say(format_args!("{new:?}; {pending:?}"));
            true
        })
        .on_exhausted(move |call: DeadLetter| {
            exhausted.say(format_args!("{call:?}"));
            async {}
        });
    let rig = Rig::new(builder);
    rig.reconcile(move |request: Request<ConfigMap>| {
        requests.say(format_args!("{request:?}"));
        async {
            let failure = Failure::from(Refused("no")).state(State::new(SECRET));
            Err::<Outcome, Failure>(failure)
        }
    });
    let running = rig.start_empty().await;
    running.apply(secret(1)).await;
    assert_eq!(
        shown.take().await,
        "Request { key: shop/web, action: Created, attempt: 0, state: None, .. }"
    );
    running.apply(secret(2)).await;
    assert_eq!(
        shown.take().await,
        "UPDATE configs shop/web; \
         PendingCall { handler: HandlerId(0), action: Created, attempt: 1, .. }, \
         Request { key: shop/web, action: Updated, attempt: 0, state: Some(State(&str)), .. }"
    );
    pass(10).await;
    let last = shown.take().await;
    let start = "Request { key: shop/web, action: Updated, attempt: 1, \
                 state: Some(State(&str)), .. }, DeadLetter(reconciler 0";
    assert!(last.starts_with(start), "{last}");
    assert!(!last.contains(SECRET), "{last}");
    running.stop().await.expect("it stops");
}

#[test]
fn settings_and_controllers_show_their_name() {
    let builder = InformerController::builder()
        .name("main")
        .concurrency(NonZeroUsize::new(3).expect("not zero"));
    assert_eq!(
        format!("{builder:?}"),
        "InformerControllerBuilder { name: \"main\", coalescing: WhenFull, concurrency: 3, .. }"
    );
    let controller = builder.build().expect("good settings");
    assert_eq!(
        format!("{controller:?}"),
        "InformerController { name: \"main\", .. }"
    );
}

#[test]
fn a_fence_shows_its_state_and_its_calls() {
    let fence = Fence::with_clock(|| Duration::from_secs(1));
    assert_eq!(
        format!("{fence:?}"),
        "Fence { is_open: false, running: 0, .. }"
    );
    fence.open_until(Duration::from_secs(2));
    let _permit = fence.try_permit().expect("it is open");
    assert_eq!(
        format!("{fence:?}"),
        "Fence { is_open: true, running: 1, .. }"
    );
}

#[test]
fn a_simple_watcher_shows_its_functions() {
    let watcher =
        SimpleWatcher::<ConfigMap>::new().on_add(|_| std::future::ready(Ok::<_, Failure>(())));
    assert_eq!(
        format!("{watcher:?}"),
        "SimpleWatcher { add: true, update: false, delete: false }"
    );
}
