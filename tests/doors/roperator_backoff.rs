//! The delays of a failable handler, in virtual time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass::{
    kit::{self, Kit},
    roperator::{
        handler::failable::{BackoffConfig, DefaultFailableHandler},
        prelude::{K8sType, OperatorConfig, SyncRequest},
        serde_json::{Value, json},
    },
};

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Task",
    namespaced,
    status = "TaskStatus"
)]
struct TaskSpec {
    fails: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TaskStatus {
    failed: bool,
    observed_generation: Option<i64>,
}

static PARENT_TYPE: &K8sType = &K8sType {
    api_version: "example.com/v1",
    kind: "Task",
    plural_kind: "tasks",
};

/// The times of the calls within an hour, by the name of the task, in seconds since its first one. The
/// task `good` does not fail, and the others do. The task `late` is created 250 s after them.
fn calls(backoff: &BackoffConfig) -> BTreeMap<String, Vec<u64>> {
    let times: Arc<Mutex<BTreeMap<String, Vec<Instant>>>> = Arc::default();
    kit::run(async |kit: Kit| {
        kit.install(&Task::crd()).await;
        let (backoff, times) = (backoff.clone(), Arc::clone(&times));
        kit.start(move |client, stop| {
            let times = Arc::clone(&times);
            let children = move |request: &SyncRequest| -> Result<Vec<Value>, String> {
                let name = request.parent.name().to_owned();
                let mut times = times.lock().unwrap();
                times.entry(name).or_default().push(Instant::now());
                if request.parent.pointer("/spec/fails") == Some(&json!(true)) {
                    return Err("the other system is down".to_owned());
                }
                Ok(Vec::new())
            };
            let status =
                |_: &SyncRequest, error: Option<String>| json!({ "failed": error.is_some() });
            let handler = DefaultFailableHandler::new((children, status), backoff.clone(), None);
            let config = OperatorConfig::new("task-operator", PARENT_TYPE);
            async move {
                let controller = config.controller(client, handler).expect("a valid name");
                controller.run(stop).await
            }
        });
        for (name, fails, wait) in [("good", false, 0), ("bad", true, 250), ("late", true, 3350)] {
            kit.create(&Task::new(name, TaskSpec { fails })).await;
            kit.expect::<Task>(name)
                .matches(json!({ "status": { "failed": fails } }))
                .await;
            kit.advance(Duration::from_secs(wait)).await;
        }
    });
    let times = std::mem::take(&mut *times.lock().unwrap());
    let since = |times: Vec<Instant>| times.iter().map(|it| (*it - times[0]).as_secs()).collect();
    let times = times.into_iter();
    times.map(|(name, times)| (name, since(times))).collect()
}

/// Rows: RO-36
#[test]
fn the_backoff_of_each_parent_is_fixed_grows_ends_or_never_begins() {
    let seconds = Duration::from_secs;
    let fixed = BackoffConfig::fixed_interval(seconds(600));
    let all = calls(&fixed);
    let bad = &all["bad"];
    assert_eq!(*bad, [0, 600, 1200, 1800, 2400, 3000, 3600][..bad.len()]);
    assert!((6..=7).contains(&bad.len()), "{bad:?}");
    assert_eq!(all["good"], [0], "another parent is not repeated");

    let growing = BackoffConfig {
        initial_interval: seconds(100),
        max_interval: seconds(1000),
        multiplier: 2.0,
        ..BackoffConfig::default().disable_randomization()
    };
    let all = calls(&growing);
    assert_eq!(all["bad"], [0, 100, 300, 700, 1500, 2500, 3500]);
    assert_eq!(
        all["late"],
        [0, 100, 300, 700, 1500, 2500],
        "its own errors"
    );

    let ending = BackoffConfig {
        give_up_after: Some(seconds(1000)),
        ..fixed
    };
    let all = calls(&ending);
    assert_eq!(all["bad"], [0, 600, 1200]);
    assert_eq!(all["late"], [0, 600, 1200], "its own first error");
    assert_eq!(calls(&BackoffConfig::never_retry())["bad"], [0]);
}
