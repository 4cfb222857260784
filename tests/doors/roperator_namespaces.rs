//! A namespace for each `Sandbox`, for a limited time.
//!
//! The program is that of a user of roperator 0.3: a `FailableHandler` with a regular resync, and a
//! handler with a clean-up. Only its imports are changed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ObjectMeta, PostParams},
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass::roperator::handler::failable::{
    DefaultFailableHandler, FailableHandler, HandlerResult,
};
use windlass::roperator::prelude::{ChildConfig, K8sType, OperatorConfig, SyncRequest, k8s_types};
use windlass::roperator::serde_json::{self, Value, json};

use crate::{
    cluster::{Cluster, until},
    roperator_greeter::{definition, types},
};

// --- the program ---

const OPERATOR_NAME: &str = "sandbox-operator";

static PARENT_TYPE: &K8sType = &K8sType {
    api_version: "example.com/v1alpha1",
    kind: "Sandbox",
    plural_kind: "sandboxes",
};

#[derive(Deserialize, Clone, Debug, PartialEq)]
struct Sandbox {
    metadata: ObjectMeta,
    spec: SandboxSpec,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
struct SandboxSpec {
    is_needed: bool,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
struct SandboxStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Asks another system, whose answers the test decides.
#[derive(Clone, Default)]
struct SandboxHandler {
    calls: Arc<Mutex<Vec<Instant>>>,
    finalize_errors: Arc<Mutex<Vec<Instant>>>,
}

impl FailableHandler for SandboxHandler {
    type Validated = Sandbox;
    type Error = serde_json::Error;
    type Status = SandboxStatus;

    fn validate(&self, request: &SyncRequest) -> Result<Self::Validated, Self::Error> {
        self.calls.lock().unwrap().push(Instant::now());
        request.deserialize_parent::<Sandbox>()
    }

    fn sync_children(
        &self,
        validated: &mut Sandbox,
        _request: &SyncRequest,
    ) -> Result<Vec<Value>, Self::Error> {
        if !validated.spec.is_needed {
            return Ok(Vec::new());
        }
        Ok(vec![json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": validated.metadata.name.as_ref().unwrap() },
        })])
    }

    fn finalize(&self, _request: &SyncRequest) -> Result<(), Self::Error> {
        let mut errors = self.finalize_errors.lock().unwrap();
        if errors.len() < 3 {
            errors.push(Instant::now());
            return Err(serde::de::Error::custom("the other system is busy"));
        }
        Ok(())
    }

    fn determine_status(
        &self,
        request: &SyncRequest,
        result: HandlerResult<Self::Validated, Self::Error>,
    ) -> Self::Status {
        let existing = request
            .children()
            .of_type(k8s_types::core::v1::Namespace)
            .first();
        SandboxStatus {
            namespace: existing.map(|namespace| namespace.name().to_owned()),
            error: result.into_error().map(|error| error.to_string()),
        }
    }
}

// --- the test ---

/// Rows: RO-24, RO-25, RO-29, RO-33, RO-36
#[tokio::test(start_paused = true)]
#[expect(
    clippy::too_many_lines,
    reason = "one object, from its creation to its deletion"
)]
async fn a_sandbox_has_a_namespace_while_it_is_needed() {
    let cluster = Cluster::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = definition(PARENT_TYPE, "Cluster");
    let installed = definitions
        .create(&PostParams::default(), &definition)
        .await;
    installed.expect("a new kind");
    let sandboxes: Api<DynamicObject> = Api::all_with(cluster.client(), &types(PARENT_TYPE));
    let namespaces: Api<Namespace> = Api::all(cluster.client());

    let handler = SandboxHandler::default();
    let wrapped =
        DefaultFailableHandler::wrap(handler.clone()).with_regular_resync(Duration::from_secs(30));
    let config = OperatorConfig::new(OPERATOR_NAME, PARENT_TYPE)
        .with_child(k8s_types::core::v1::Namespace, ChildConfig::on_delete());
    let controller = config
        .controller(cluster.client(), wrapped)
        .expect("a valid name");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    let status = async |expected: Value| {
        let sandboxes = sandboxes.clone();
        until(async move || {
            let mut found = sandboxes.get("test").await.expect("it exists");
            let mut status = found.data["status"].take();
            if let Some(fields) = status.as_object_mut() {
                fields.remove("observedGeneration");
            }
            status == expected
        })
        .await;
    };

    let sandbox = DynamicObject::new("test", &types(PARENT_TYPE))
        .data(json!({ "spec": { "isNeeded": true } }));
    let created = sandboxes.create(&PostParams::default(), &sandbox).await;
    created.expect("a new object");
    status(json!({ "namespace": "test" })).await;
    namespaces.get("test").await.expect("the namespace");

    // Regular calls, although nothing changes.
    let before = handler.calls.lock().unwrap().len();
    tokio::time::sleep(Duration::from_secs(95)).await;
    let calls = handler.calls.lock().unwrap()[before..].to_vec();
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert_eq!(calls[1] - calls[0], calls[2] - calls[1]);

    // An error is in the status, and the namespace stays.
    let params = kube::api::PatchParams::default();
    let needed = |value: Value| kube::api::Patch::Merge(json!({ "spec": { "isNeeded": value } }));
    let patched = sandboxes
        .patch("test", &params, &needed("perhaps".into()))
        .await;
    patched.expect("an object that exists");
    until(async || {
        let found = sandboxes.get("test").await.expect("it exists");
        let error = found.data["status"]["error"].as_str();
        error.is_some_and(|error| error.contains("expected a boolean"))
    })
    .await;
    let namespace = namespaces.get("test").await.expect("the namespace");
    assert!(namespace.metadata.deletion_timestamp.is_none());

    let patched = sandboxes
        .patch("test", &params, &needed(false.into()))
        .await;
    patched.expect("an object that exists");
    until(
        async || match namespaces.get_opt("test").await.expect("an answer") {
            None => true,
            Some(namespace) => namespace.metadata.deletion_timestamp.is_some(),
        },
    )
    .await;

    // The clean-up fails three times. The finalizer stays until it succeeds.
    let deleted = sandboxes.delete("test", &DeleteParams::default()).await;
    deleted.expect("an object that exists");
    until(async || {
        sandboxes
            .get_opt("test")
            .await
            .expect("an answer")
            .is_none()
    })
    .await;
    assert_eq!(handler.finalize_errors.lock().unwrap().len(), 3);
    stop.cancel();
    running.await.expect("no panic").expect("no error");
}
