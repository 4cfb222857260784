//! `Debug` output of the wrappers: their finalizer, their settings, and how many objects they
//! remember.

use windlass_controller::{OnSelectorExit, OpinionatedWatcher, SimpleWatcher};

use crate::{support::Rig, world::OWN};

#[tokio::test(start_paused = true)]
async fn a_wrapper_shows_its_finalizer_and_its_settings() {
    let rig = Rig::new();
    let finalizers = format!("{:?}", rig.finalizers());
    assert!(finalizers.starts_with("Finalizers {"), "{finalizers}");
    assert!(finalizers.contains(OWN), "{finalizers}");
    let state = |exit| {
        format!(
            "FinalizerState {{ finalizers: {finalizers}, on_selector_exit: {exit}, remembered: 0 }}"
        )
    };
    let watcher = OpinionatedWatcher::new(rig.finalizers(), SimpleWatcher::new())
        .on_selector_exit(OnSelectorExit::CleanUp);
    assert_eq!(
        format!("{watcher:?}"),
        format!(
            "OpinionatedWatcher {{ state: {}, watcher: SimpleWatcher {{ add: false, update: \
             false, delete: false }}, .. }}",
            state("CleanUp")
        )
    );
    assert_eq!(
        format!("{:?}", rig.reconciler()),
        format!(
            "OpinionatedReconciler {{ state: {}, order: WhileHeld, timing: AfterFirstCall, .. }}",
            state("Release")
        )
    );
}
