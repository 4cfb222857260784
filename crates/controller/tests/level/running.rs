//! What an operator asks a controller for: its calls in progress, and its finalizer.

use std::future::pending;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{
    AddError, Context, Controller, Failure, FinalizerRegistry, Outcome, Runnable, Watch,
};
use windlass_informer::{Informer, Scripted};

use crate::support::{Log, Rig, config, no_server, pass, secs};

#[tokio::test(start_paused = true)]
async fn a_call_in_progress_is_reported_with_its_object_and_its_time() {
    let log = Log::new();
    let rig = Rig::start(&log, |builder| builder, log.reconciler(|_| pending())).await;
    assert_eq!(Runnable::running_calls(&*rig.controller).len(), 0);
    rig.apply(config("web", 1)).await;
    pass(secs(60)).await;
    let calls = Runnable::running_calls(&*rig.controller);
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].key.name(), calls[0].elapsed), ("web", secs(60)));
    rig.abort().await;
}

/// Two controllers of one kind with one finalizer: in one cluster, and in two.
#[tokio::test]
async fn one_finalizer_is_in_one_controller_of_each_registry() {
    let build = |registry: Option<&FinalizerRegistry>| {
        let (_, source) = Scripted::<ConfigMap>::new();
        let builder = Controller::builder(no_server(), Watch::from(Informer::new(source)));
        let builder = builder.finalizer("test.windlass.dev/level");
        let builder = match registry {
            Some(registry) => builder.finalizer_registry(registry),
            None => builder,
        };
        let reconcile = |_: Context<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
        builder.build(reconcile).expect("good settings")
    };
    let of_operator = FinalizerRegistry::new();
    let (first, second) = (build(None), build(None));
    first.register_finalizers(&of_operator).expect("the first");
    let taken = second.register_finalizers(&of_operator);
    assert!(
        matches!(taken, Err(AddError::FinalizerTaken { .. })),
        "{taken:?}"
    );

    let of_operator = FinalizerRegistry::new();
    for cluster in [FinalizerRegistry::new(), FinalizerRegistry::new()] {
        let controller = build(Some(&cluster));
        controller
            .register_finalizers(&of_operator)
            .expect("of another cluster");
    }
}
