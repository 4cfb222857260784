//! The number of series of a controller, and the metrics that have labels for each object.

use std::{collections::BTreeMap, num::NonZeroUsize};

use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::Registry;
use windlass_controller::{
    ErrorReport, InformerController, InformerControllerBuilder, ObjectMetrics, Outcome, Request,
};
use windlass_informer::{Verb, WatchError, WatchErrorCause};

use crate::{
    metrics::{registry, series},
    support::{Refused, Rig, config, pass, secs, settle},
};

/// The delay of a retry.
const DELAY: u64 = 5;

/// The most objects with series of their own.
const MOST: NonZeroUsize = NonZeroUsize::new(2).expect("not zero");

/// The labels of a kind.
const KIND: &str = r#"controller="shop",kind="configs""#;

/// The labels of a queue.
const QUEUE: &str = r#"controller="shop",name="shop""#;

/// The number of active calls.
const ACTIVE: &str = r#"controller_runtime_active_workers{controller="shop"}"#;

/// The series of one run.
struct Observed {
    /// While two calls are active.
    busy: BTreeMap<String, String>,
    /// After all calls.
    done: BTreeMap<String, String>,
}

// === impl Observed ===

impl Observed {
    /// Checks the values of the queue and the store while two calls are active.
    #[track_caller]
    fn is_busy(&self, objects: u32) {
        for (series, expected) in [
            (format!("workqueue_depth{{{QUEUE}}}"), objects - 2),
            (ACTIVE.to_owned(), 2),
            (format!("informer_store_objects{{{KIND}}}"), objects),
        ] {
            assert_eq!(
                value(&self.busy, &series),
                &expected.to_string(),
                "{series}"
            );
        }
    }

    /// Checks the values after one call of each object, one retry, and one error of the watch.
    #[track_caller]
    fn is_done(&self, objects: u32) {
        let created = r#"controller="shop",event_type="CREATE",kind="configs""#;
        let result = |result: &str| {
            format!(r#"controller_runtime_reconcile_total{{{KIND},result="{result}"}}"#)
        };
        let time = "controller_runtime_reconcile_time_seconds";
        for (series, expected) in [
            (format!("workqueue_depth{{{QUEUE}}}"), 0),
            (ACTIVE.to_owned(), 0),
            (format!("{time}_count{{{KIND}}}"), objects + 1),
            (result("success"), objects),
            (result("error"), 1),
            (format!("workqueue_retries_total{{{QUEUE}}}"), 1),
            (format!("informer_events_total{{{created}}}"), objects),
            (
                format!(r#"informer_watch_restarts_total{{{KIND},reason="silent"}}"#),
                1,
            ),
            (format!("informer_store_objects{{{KIND}}}"), objects),
        ] {
            assert_eq!(
                value(&self.done, &series),
                &expected.to_string(),
                "{series}"
            );
        }
        // Each call took one second of paused time, and a little.
        let took = value(&self.done, &format!("{time}_sum{{{KIND}}}"));
        let took: f64 = took.parse().expect("a number");
        let calls = f64::from(objects + 1);
        assert!((calls..calls + 1.0).contains(&took), "{took}");
    }
}

#[track_caller]
fn value<'a>(of: &'a BTreeMap<String, String>, series: &str) -> &'a String {
    let value = of.get(series);
    value.unwrap_or_else(|| panic!("no {series} in {of:#?}"))
}

/// A controller with two workers and calls of one second. The first call for `web-0` fails, and so
/// does the watch at the end.
fn builder() -> InformerControllerBuilder {
    InformerController::builder()
        .name("shop")
        .concurrency(NonZeroUsize::new(2).expect("not zero"))
        .retry_policy(|_: &ErrorReport<'_>| Some(secs(DELAY)))
        .on_error(|_| {})
}

fn rig(builder: InformerControllerBuilder) -> Rig {
    let rig = Rig::new(builder);
    rig.reconcile(|request: Request<ConfigMap>| async move {
        tokio::time::sleep(secs(1)).await;
        if request.key().name() == "web-0" && request.attempt() == 0 {
            return Err(Refused("not yet"));
        }
        Ok(Outcome::done())
    });
    rig
}

async fn observe(objects: u32) -> Observed {
    let rig = rig(builder());
    let registry = registry(&rig.controller);
    let running = rig.start_empty().await;
    for number in 0..objects {
        running.apply(config(&format!("web-{number}"), 1)).await;
    }
    settle().await;
    let busy = series(&registry);
    pass(100).await;
    let silent = WatchErrorCause::Silent { limit: secs(30) };
    let silent = WatchError::new("configmaps", Verb::Watch, silent);
    let interrupt = running.rig.script.interrupt(silent, secs(1));
    interrupt.await.expect("it runs");
    settle().await;
    let done = series(&registry);
    running.stop().await.expect("it stops");
    Observed { busy, done }
}

/// The metrics of a controller say how many objects wait and are processed, how long calls take and
/// how they end, what the watch does and how much the store holds. They have the same series with 4
/// objects as with 40, unless the user adds [`ObjectMetrics`].
///
/// Rows: BO-28
#[tokio::test(start_paused = true)]
async fn the_number_of_series_does_not_depend_on_the_objects_unless_the_user_asks_for_it() {
    let few = observe(4).await;
    let many = observe(40).await;
    for (observed, objects) in [(&few, 4), (&many, 40)] {
        observed.is_busy(objects);
        observed.is_done(objects);
    }
    let names = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&few.done), names(&many.done));
    assert_eq!(names(&few.busy), names(&many.busy));
    the_objects_that_were_called_last_have_series_on_request().await;
}

async fn the_objects_that_were_called_last_have_series_on_request() {
    let objects = ObjectMetrics::new("shop", MOST).expect("valid names");
    let single = Registry::new();
    for collector in objects.collectors() {
        single.register(collector).expect("no name twice");
    }
    let counted = || {
        let all = series(&single).into_iter();
        all.filter(|(series, _)| series.starts_with("object_calls"))
            .collect::<Vec<_>>()
    };
    let one = |name: &str, result: &str| {
        let labels = format!(r#"{KIND},name="{name}",namespace="shop",result="{result}""#);
        (format!("object_calls_total{{{labels}}}"), "1".to_owned())
    };
    let rig = rig(builder().on_call(move |call| objects.observe(call)));
    let running = rig.start_empty().await;
    running.apply(config("web-0", 1)).await;
    running.apply(config("web-1", 1)).await;
    pass(100).await;
    let both = [one("web-0", "error"), one("web-0", "success")];
    let [failed, succeeded] = both.clone();
    assert_eq!(counted(), [failed, succeeded, one("web-1", "success")]);
    let seconds = format!(r#"object_call_seconds_total{{{KIND},name="web-0",namespace="shop"}}"#);
    let all = series(&single);
    let seconds: f64 = value(&all, &seconds).parse().expect("a number");
    assert!((2.0..2.1).contains(&seconds), "two calls: {seconds}");

    // `web-1` was called before the retry of `web-0`.
    running.apply(config("web-2", 1)).await;
    pass(100).await;
    let [failed, succeeded] = both;
    assert_eq!(counted(), [failed, succeeded, one("web-2", "success")]);
    // The first call of the delete fails, and the second one succeeds.
    running.delete(config("web-0", 2)).await;
    pass(100).await;
    running.stop().await.expect("it stops");
    assert_eq!(counted(), [one("web-2", "success")]);
}
