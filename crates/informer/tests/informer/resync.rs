//! When objects are resynced.

use std::{collections::HashMap, num::NonZeroUsize, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use windlass_informer::{Event, Informer, Scripted};

use crate::running::{config, run};

const PERIOD: Duration = Duration::from_secs(640);
const SLICE: Duration = Duration::from_secs(10);

/// An object that comes when a round has just begun does not wait for the end of the next one.
///
/// Rows: GA-91
#[tokio::test(start_paused = true)]
async fn the_first_resync_of_an_object_is_at_most_a_period_and_a_slice_late() {
    let (script, source) = Scripted::new();
    let mut running = run(Informer::builder(source).resync(PERIOD).build());
    script.list([]).await.expect("runs");
    let began = Instant::now();
    let write = async {
        for second in (0..1280).step_by(7) {
            sleep_until(began + Duration::from_secs(second)).await;
            let object = config(&format!("map-{second}"), "1");
            script.apply(object).await.expect("runs");
        }
        sleep(PERIOD * 2).await;
    };
    let mut came = HashMap::new();
    let mut resynced: HashMap<String, Vec<Instant>> = HashMap::new();
    let read = async {
        while let Some(event) = running.events.next().await {
            let Some(object) = event.object() else {
                continue;
            };
            let (name, now) = (object.name_any(), Instant::now());
            if let Event::Resynced(_) = event {
                resynced.entry(name).or_default().push(now);
            } else {
                came.insert(name, now);
            }
        }
    };
    tokio::select! {
        () = write => {}
        () = read => panic!("it ended"),
    }
    assert_eq!(came.len(), 183);
    for (name, came) in came {
        let times = resynced.remove(&name).expect("resynced");
        let waits: Vec<_> = std::iter::once(&came)
            .chain(&times)
            .zip(&times)
            .map(|(before, at)| *at - *before)
            .collect();
        assert!(waits[0] <= PERIOD + SLICE, "{name} waited {waits:?}");
        for wait in &waits[1..] {
            assert!(*wait + SLICE >= PERIOD, "{name} waited {waits:?}");
            assert!(*wait <= PERIOD + SLICE, "{name} waited {waits:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_overflowing_period_never_ends() {
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    for period in [Duration::MAX, Duration::MAX / 2, Duration::ZERO] {
        let (script, source) = Scripted::new();
        let mut running = run(Informer::builder(source).resync(period).build());
        script.list([config("a", "1")]).await.expect("runs");
        let events = &mut running.events;
        assert!(matches!(events.next().await, Some(Event::Added(_))));
        assert!(matches!(events.next().await, Some(Event::Synced)));
        let next = timeout(century, events.next()).await;
        // A period of 2^63 s has a first slice, and an object may be in it.
        assert!(next.is_err(), "{period:?}: {next:?}");
    }
}

/// A period of nothing but resyncs is slow, and no hot loop: others have their turn.
#[tokio::test(start_paused = true)]
async fn the_shortest_period_leaves_time_for_others() {
    let (script, source) = Scripted::new();
    let period = Duration::from_nanos(1);
    let mut running = run(Informer::builder(source).resync(period).build());
    script.list([config("a", "1")]).await.expect("runs");
    let began = Instant::now();
    let mut resyncs = 0;
    while resyncs < 100 {
        let event = running.events.next().await.expect("runs");
        resyncs += usize::from(matches!(event, Event::Resynced(_)));
    }
    assert!(began.elapsed() >= Duration::from_millis(90));
    let apply = timeout(Duration::from_secs(1), script.apply(config("b", "1")));
    apply.await.expect("it has its turn").expect("runs");
}

/// A watch that always has something new does not keep resyncs back.
#[tokio::test(start_paused = true)]
async fn changes_and_resyncs_take_turns() {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::builder(source)
        .resync(Duration::from_secs(64))
        .buffer(NonZeroUsize::MIN);
    let mut running = run(informer.build());
    script.list([config("quiet", "1")]).await.expect("runs");
    let write = async {
        for version in 1.. {
            let object = config("busy", &version.to_string());
            script.apply(object).await.expect("runs");
        }
    };
    let began = Instant::now();
    let read = async {
        loop {
            let event = running.events.next().await.expect("runs");
            if let Event::Resynced(object) = &event
                && object.name_any() == "quiet"
            {
                break;
            }
            // The next change is always queued before this one is received.
            tokio::time::advance(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = write => {}
        () = read => {}
    }
    assert!(began.elapsed() <= Duration::from_secs(66));
}
