//! The calls that are in progress, as the report of a blocked runtime shows them.

use std::future::pending;

use windlass_controller::Runnable;

use crate::support::{Log, Rig, config, pass, secs};

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
