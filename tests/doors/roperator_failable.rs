//! The steps of a failable handler.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{
    kit::{self, Kit},
    roperator::{
        handler::{
            Handler as _,
            failable::{BackoffConfig, DefaultFailableHandler, FailableHandler, HandlerResult},
        },
        prelude::{ChildConfig, K8sResource, K8sType, OperatorConfig, SyncRequest, k8s_types},
        serde_json::{Value, json},
    },
};

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Report",
    namespaced,
    status = "ReportStatus"
)]
struct ReportSpec {
    failing: String,
    text: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ReportStatus {
    result: String,
    observed_generation: Option<i64>,
}

static PARENT_TYPE: &K8sType = &K8sType {
    api_version: "example.com/v1",
    kind: "Report",
    plural_kind: "reports",
};

/// Fails in the step that the spec names, and logs its steps.
#[derive(Clone, Default)]
struct Steps(Arc<Mutex<Vec<&'static str>>>);

impl Steps {
    fn step(&self, name: &'static str, request: &SyncRequest) -> Result<(), String> {
        self.0.lock().unwrap().push(name);
        let failing = request.parent.pointer("/spec/failing");
        if failing == Some(&json!(name)) {
            return Err(format!("{name} failed"));
        }
        Ok(())
    }

    /// The steps since the last call.
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl FailableHandler for Steps {
    type Validated = String;
    type Error = String;
    type Status = Value;

    fn validate(&self, request: &SyncRequest) -> Result<String, String> {
        self.step("validate", request)?;
        let text = request.parent.pointer("/spec/text");
        Ok(text.and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    fn sync_children(
        &self,
        text: &mut String,
        request: &SyncRequest,
    ) -> Result<Vec<Value>, String> {
        self.step("children", request)?;
        let child = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "report", "namespace": request.parent.namespace() },
            "data": { "text": text },
        });
        text.push_str(" with a child");
        Ok(vec![child])
    }

    fn determine_status(&self, _: &SyncRequest, result: HandlerResult<String, String>) -> Value {
        self.0.lock().unwrap().push("status");
        json!({ "result": format!("{result:?}") })
    }
}

/// Rows: RO-36
#[test]
fn the_status_has_the_result_of_the_steps_and_after_an_error_the_children_stay() {
    children_stay_after_an_error(false);
}

/// A handler of the program calls the failable one.
///
/// Rows: RO-36
#[test]
fn the_children_stay_after_an_error_of_a_handler_that_is_wrapped() {
    children_stay_after_an_error(true);
}

fn children_stay_after_an_error(is_wrapped: bool) {
    kit::run(async move |kit: Kit| {
        kit.install(&Report::crd()).await;
        let steps = Steps::default();
        let handler = steps.clone();
        kit.start(move |client, stop| {
            // No repeated call, except where the test waits for it.
            let backoff = BackoffConfig {
                initial_interval: Duration::from_secs(100),
                max_interval: Duration::from_secs(100_000),
                multiplier: 100.0,
                ..BackoffConfig::default().disable_randomization()
            };
            let handler = DefaultFailableHandler::new(handler.clone(), backoff, None);
            let config = OperatorConfig::new("report-operator", PARENT_TYPE)
                .with_child(k8s_types::core::v1::ConfigMap, ChildConfig::replace());
            async move {
                let controller = if is_wrapped {
                    let wrapper = move |request: &SyncRequest| handler.sync(request);
                    config.controller(client, wrapper)
                } else {
                    config.controller(client, handler)
                };
                controller.expect("a valid name").run(stop).await
            }
        });
        let spec = |failing: &str, text: &str| ReportSpec {
            failing: failing.to_owned(),
            text: text.to_owned(),
        };
        let change = async |failing: &str, text: &str| {
            kit.quiet().await;
            steps.take();
            kit.edit::<Report>("report", |it| it.spec = spec(failing, text))
                .await;
            kit.quiet().await;
        };
        let shows = async |result: &str, text: &str| {
            kit.expect::<Report>("report")
                .matches(json!({ "status": { "result": result } }))
                .await;
            kit.expect::<ConfigMap>("report")
                .matches(json!({ "data": { "text": text } }))
                .await;
        };

        kit.create(&Report::new("report", spec("", "one"))).await;
        shows(r#"SyncSuccess("one with a child")"#, "one").await;
        kit.quiet().await;
        assert_eq!(steps.take()[..3], ["validate", "children", "status"]);

        change("children", "two").await;
        shows(r#"SyncFailed("two", "children failed")"#, "one").await;
        assert_eq!(steps.take(), ["validate", "children", "status"]);
        change("validate", "three").await;
        shows(r#"ValidationFailed("validate failed")"#, "one").await;
        assert_eq!(steps.take(), ["validate", "status"]);

        // The third delay would be longer than a day. A success ends the series of errors.
        change("", "four").await;
        shows(r#"SyncSuccess("four with a child")"#, "four").await;
        change("validate", "five").await;
        assert_eq!(steps.take(), ["validate", "status"]);
        kit.advance(Duration::from_secs(100)).await;
        assert_eq!(steps.take(), ["validate", "status"]);
    });
}

/// A program tests its handlers without a server.
#[test]
fn a_request_is_created_from_json_and_its_children_are_iterated() {
    let object = |kind: &str, name: &str| {
        K8sResource::from_value(json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": { "name": name, "namespace": "shop", "uid": name, "resourceVersion": "1" },
        }))
    };
    let request = SyncRequest {
        parent: object("ConfigMap", "parent").unwrap(),
        children: ["a", "b"].map(|name| object("Pod", name).unwrap()).to_vec(),
    };
    let mut names = Vec::new();
    for pod in request.children().of_type(k8s_types::core::v1::Pod) {
        assert!(pod.is_type(&("v1", "Pod").into()) && pod.is_id(&("shop", pod.name()).into()));
        names.push(pod.get_object_id().to_string());
    }
    assert_eq!(names, ["shop/a", "shop/b"]);
    let pods = request
        .children()
        .with_type::<Pod>(k8s_types::core::v1::Pod);
    let decoded: Result<Vec<Pod>, _> = pods.into_iter().collect();
    assert_eq!(decoded.unwrap().len(), 2);
    let text = json!(request).to_string();
    let read: SyncRequest = windlass::roperator::serde_json::from_str(&text).unwrap();
    assert_eq!(read, request);
    let refused = K8sResource::from_value(json!({ "kind": "Pod", "apiVersion": "v1" }));
    assert_eq!(refused.unwrap_err().message, "missing metadata.name");
}
