//! Delayed keys as a cause of calls.

use windlass_controller::{Trigger, delayed_keys};
use windlass_informer::ObjectKey;

use crate::support::{Log, Rig, config, done, pass, secs};

/// Other code schedules calls. A second schedule of an object resets its timer, to a later or an
/// earlier time, and timers can be cancelled one by one or all together.
///
/// Rows: BO-49
#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_reset_by_another_schedule_and_can_be_cancelled() {
    let log = Log::new();
    let (delayed, due) = delayed_keys();
    let rig = Rig::start(
        &log,
        |mut builder| {
            builder.trigger(Trigger::keys(due));
            builder
        },
        log.reconciler(|_| done()),
    )
    .await;
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        rig.apply(config(name, version)).await;
    }
    rig.logged().await;
    let key = |name: &str| ObjectKey::new(name);

    // At 0 s.
    delayed.schedule(key("a"), secs(10));
    delayed.schedule(key("b"), secs(40));
    delayed.schedule(key("c"), secs(15));
    delayed.schedule(key("nothing"), secs(5));
    assert_eq!(delayed.len(), 4);
    pass(secs(6)).await;
    assert_eq!(rig.logged().await, "", "an object that does not exist");
    // At 6 s: one becomes later, one earlier, and one is cancelled.
    delayed.schedule(key("a"), secs(24));
    delayed.schedule(key("b"), secs(14));
    assert!(delayed.cancel(&key("c")));
    assert!(!delayed.cancel(&key("c")), "it does not wait any more");
    pass(secs(60)).await;
    let calls = "20.0 b@2 for trigger, 30.0 a@1 for trigger";
    assert_eq!(rig.logged().await, calls);
    assert!(delayed.is_empty());

    // At 66 s.
    for name in ["a", "b", "c"] {
        delayed.schedule(key(name), secs(10));
    }
    delayed.clear();
    assert!(delayed.is_empty());
    delayed.schedule(key("c"), secs(4));
    pass(secs(60)).await;
    assert_eq!(rig.logged().await, "70.0 c@3 for trigger");
    rig.stop().await;
    delayed.schedule(key("a"), secs(1));
    assert!(delayed.is_empty(), "the controller has ended");
}
