//! Many objects on many threads: the guarantees for one object hold for each.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_controller::{
    Coalescing, ErrorReport, InformerController, Outcome, Request, RetryObject,
};

use crate::support::{Refused, Rig, config};

const OBJECTS: usize = 200;
const UPDATES: u32 = 25;

/// The observed calls of one object.
#[derive(Default)]
struct Seen {
    in_hand: bool,
    value: u32,
    calls: u32,
}

/// Exclusive, in order, each once, with failures, on any number of threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_object_is_dispatched_serially_and_in_order_on_many_threads() {
    for delivery in [Coalescing::WhenFull, Coalescing::Always] {
        let seen: Arc<Mutex<HashMap<String, Seen>>> = Arc::default();
        let (finished, all) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let builder = InformerController::builder()
            .concurrency(NonZeroUsize::new(8).expect("not zero"))
            // All events fit.
            .queue(NonZeroUsize::new(OBJECTS * UPDATES as usize).expect("not zero"))
            .coalescing(delivery)
            // The newest object could be ahead of the undispatched events.
            .retry_object(RetryObject::AsReceived)
            // At once: what fails comes between all the rest.
            .retry_policy(|_: &ErrorReport<'_>| Some(Duration::ZERO))
            .on_error(|_| {});
        let rig = Rig::new(builder);
        let (book, done, last) = (Arc::clone(&seen), Arc::clone(&finished), Arc::clone(&all));
        rig.reconcile(move |request: Request<ConfigMap>| {
            let (book, done, last) = (Arc::clone(&book), Arc::clone(&done), Arc::clone(&last));
            async move {
                let name = request.key().name().to_owned();
                let data = request.object().data.as_ref().expect("it has a value");
                let value: u32 = data["value"].parse().expect("a number");
                {
                    let mut book = book.lock();
                    let seen = book.entry(name.clone()).or_default();
                    assert!(!seen.in_hand, "{name} is in two hands");
                    seen.in_hand = true;
                    seen.calls += 1;
                    assert!(value >= seen.value, "{name} goes back in time");
                    if delivery == Coalescing::WhenFull && request.attempt() == 0 {
                        assert!(value <= seen.value + 1, "{name} lost an event");
                    }
                    seen.value = value;
                }
                tokio::task::yield_now().await;
                if let Some(seen) = book.lock().get_mut(&name) {
                    seen.in_hand = false;
                }
                if request.attempt() == 0 && value % 7 == 3 {
                    return Err(Refused("every seventh"));
                }
                if value == UPDATES && done.fetch_add(1, Ordering::SeqCst) + 1 == OBJECTS as u64 {
                    last.notify_one();
                }
                Ok(Outcome::done())
            }
        });
        let running = rig.start();
        running.rig.script.list([]).await.expect("it runs");
        for value in 1..=UPDATES {
            for object in 0..OBJECTS {
                running.apply(config(&format!("o{object}"), value)).await;
            }
        }
        all.notified().await;
        running.stop().await.expect("it stops");
        for (name, seen) in &*seen.lock() {
            assert_eq!(seen.value, UPDATES, "{name}");
            assert!(!seen.in_hand, "{name}");
            if delivery == Coalescing::WhenFull {
                assert!(seen.calls >= UPDATES, "{name}");
            }
        }
    }
}
