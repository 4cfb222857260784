//! The delays of a failable handler, in virtual time.

use std::{
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

/// The times of the calls for a task that fails, and for one that does not, within an hour: in seconds
/// since the first one.
fn calls(backoff: &BackoffConfig) -> (Vec<u64>, Vec<u64>) {
    let times: Arc<Mutex<Vec<(bool, Instant)>>> = Arc::default();
    kit::run(async |kit: Kit| {
        kit.install(&Task::crd()).await;
        let (backoff, times) = (backoff.clone(), Arc::clone(&times));
        kit.start(move |client, stop| {
            let times = Arc::clone(&times);
            let children = move |request: &SyncRequest| -> Result<Vec<Value>, String> {
                let fails = request.parent.pointer("/spec/fails") == Some(&json!(true));
                times.lock().unwrap().push((fails, Instant::now()));
                if fails {
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
        for (name, fails) in [("good", false), ("bad", true)] {
            kit.create(&Task::new(name, TaskSpec { fails })).await;
            kit.expect::<Task>(name)
                .matches(json!({ "status": { "failed": fails } }))
                .await;
        }
        kit.advance(Duration::from_secs(3600)).await;
    });
    let times = times.lock().unwrap();
    let of = |fails: bool| {
        let times: Vec<_> = times.iter().filter(|it| it.0 == fails).collect();
        let since = |it: &&(bool, Instant)| (it.1 - times[0].1).as_secs();
        times.iter().map(since).collect()
    };
    (of(true), of(false))
}

/// Rows: RO-36
#[test]
fn the_backoff_of_each_parent_is_fixed_grows_ends_or_never_begins() {
    let seconds = Duration::from_secs;
    let fixed = BackoffConfig::fixed_interval(seconds(600));
    let (bad, good) = calls(&fixed);
    assert_eq!(bad, [0, 600, 1200, 1800, 2400, 3000, 3600][..bad.len()]);
    assert!((6..=7).contains(&bad.len()), "{bad:?}");
    assert_eq!(good, [0], "another parent is not repeated");

    let growing = BackoffConfig {
        initial_interval: seconds(100),
        max_interval: seconds(1000),
        multiplier: 2.0,
        ..BackoffConfig::default().disable_randomization()
    };
    assert_eq!(calls(&growing).0, [0, 100, 300, 700, 1500, 2500, 3500]);

    let ending = BackoffConfig {
        give_up_after: Some(seconds(1000)),
        ..fixed
    };
    assert_eq!(calls(&ending).0, [0, 600, 1200]);
    assert_eq!(calls(&BackoffConfig::never_retry()).0, [0]);
}
