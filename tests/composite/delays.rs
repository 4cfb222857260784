//! When a handler is called again: after delays and errors.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use windlass::{
    composite::FinalizeResponse,
    kit::{self, Kit},
};

use crate::support::{Scripted, Site, desired, seconds, site};

/// Rows: RO-21, RO-24
#[test]
fn a_clean_up_is_repeated_after_its_delay_and_a_failed_one_with_a_backoff() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        *handler.finalize.lock() = vec![
            Ok(FinalizeResponse::unfinished()),
            Ok(FinalizeResponse::unfinished()),
            Ok(FinalizeResponse::retry_after(Duration::from_secs(60))),
            Err("the registry is down"),
            Err("the registry is down"),
            Err("the registry is down"),
        ];
        handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        kit.delete::<Site>("blog").await;
        kit.advance(Duration::from_secs(120)).await;
        kit.expect_gone::<Site>("blog").await;
        let times = handler.finalizes.lock().clone();
        assert_eq!(times.len(), 7, "{times:?}");
        assert_eq!(seconds(&times)[..3], [3, 3, 60], "not counted twice");
        for (at, most) in [(3, 150), (4, 225), (5, 338)] {
            let delay = times[at + 1] - times[at];
            // With the latencies of the kit.
            let most = Duration::from_millis(most + 20);
            assert!(!delay.is_zero() && delay <= most, "{at}: {delay:?}");
        }
    });
}

/// Rows: RO-29
#[test]
fn a_resync_is_superseded_by_an_earlier_call() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(|request| {
            let mut response = desired(request)?;
            response.resync_after(Duration::from_secs(600));
            Ok(response)
        });
        handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.advance(Duration::from_secs(60)).await;
        let calls = handler.syncs.lock().len();
        kit.advance(Duration::from_secs(400)).await;
        assert_eq!(handler.syncs.lock().len(), calls, "not yet");
        kit.edit::<Site>("blog", |it| it.spec.theme = "light".to_owned())
            .await;
        kit.advance(Duration::from_secs(500)).await;
        let times = handler.syncs.lock().clone();
        let last = times.last().expect("a call");
        assert!(
            last.elapsed() > Duration::from_secs(490),
            "the first delay was dropped"
        );
        kit.advance(Duration::from_secs(150)).await;
        let later = handler.syncs.lock().clone();
        assert_eq!(later.len(), times.len() + 1, "although nothing has changed");
        assert_eq!((later[times.len()] - *last).as_secs(), 600);
    });
}

/// Rows: RO-13, RO-32
#[test]
fn a_failing_parent_is_repeated_with_a_backoff_and_disturbs_no_other() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let failed = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&failed);
        let handler = Scripted::new(move |request| {
            if request.name() == "bad" {
                log.lock().push(Instant::now());
                return Err("always".into());
            }
            desired(request)
        });
        handler.start(&kit);
        kit.create(&site("bad", "dark")).await;
        kit.create(&site("blog", "dark")).await;
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
        kit.advance(Duration::from_secs(60)).await;
        let since = kit.mark();
        kit.advance(Duration::from_secs(3600)).await;
        let gaps = seconds(&failed.lock().clone());
        assert!((10..60).contains(&gaps.len()), "{gaps:?}");
        assert!(
            gaps.iter().all(|gap| *gap <= 900),
            "600 s, plus a half: {gaps:?}"
        );
        assert_eq!(kit.writes(since), []);
    });
}
