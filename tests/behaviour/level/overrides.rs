//! Fields of children that the user of an operator overrides.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{Context, Desired, Failure, ObjectReconciler, Outcome, Owned};

use super::rig::{Rig, builder, create, patch, say, watch};
use crate::cluster::await_condition;

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Engine",
    namespaced
)]
#[serde(rename_all = "camelCase")]
struct EngineSpec {
    #[serde(default)]
    #[schemars(schema_with = "anything")]
    overrides: Value,
    #[serde(default)]
    #[schemars(schema_with = "anything")]
    pod_overrides: Value,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

struct Engines {
    deployments: Owned<Engine, Deployment>,
    calls: mpsc::Sender<String>,
}

impl ObjectReconciler<Engine> for Engines {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Engine>) -> Result<Outcome, Failure> {
        let spec = &cx.object().spec;
        let mut desired = Desired::json(deployment());
        if !spec.overrides.is_null() {
            desired = desired.overridden_by(spec.overrides.clone());
        }
        if !spec.pod_overrides.is_null() {
            let overrides = json!({ "spec": { "template": spec.pod_overrides } });
            desired = desired.overridden_by(overrides);
        }
        let applied = self.deployments.apply(&cx, desired).await;
        let line = applied.as_ref().err().map(ToString::to_string);
        say(&self.calls, line.unwrap_or_else(|| "applied".to_owned())).await;
        applied?;
        Ok(Outcome::done())
    }
}

fn deployment() -> Value {
    let labels = json!({ "app": "engine" });
    let container = json!({
        "name": "app", "image": "app:1",
        "env": [{ "name": "LEVEL", "value": "info" }, { "name": "PORT", "value": "80" }],
        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
    });
    let pod = json!({
        "terminationGracePeriodSeconds": 300,
        "containers": [container],
        "volumes": [{ "name": "data", "emptyDir": {} }],
        "tolerations": [{ "key": "engine", "operator": "Exists" }],
    });
    json!({
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    })
}

on_both_servers! {
    /// Rows: BO-66
    async fn the_overrides_of_a_user_are_merged_into_a_child(cluster: Cluster) {
        cluster.install(&Engine::crd()).await;
        let (engines, deployments) = (cluster.api_aside::<Engine>(), cluster.api_aside::<Deployment>());
        let (calls, receiver) = mpsc::channel(64);
        let mut builder = builder::<Engine>(&cluster).await;
        let deployments_of_engines = builder.owns(watch(&cluster).await);
        let reconciler = Engines { deployments: deployments_of_engines, calls };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        let pod_overrides = json!({
            "metadata": { "labels": { "tier": "gold" } },
            "spec": {
                "terminationGracePeriodSeconds": null,
                "containers": [
                    {
                        "name": "app",
                        "env": [{ "name": "LEVEL", "value": "debug" }, { "name": "MORE", "value": "1" }],
                        "volumeMounts": [{ "name": "data", "mountPath": "/more", "subPath": "more" }],
                    },
                    { "name": "sidecar", "image": "sidecar:1" },
                ],
                "tolerations": [{ "key": "user", "operator": "Exists" }],
            },
        });
        let spec = EngineSpec {
            overrides: json!({ "spec": { "replicas": 3 } }),
            pod_overrides,
        };
        create(&engines, Engine::new("a", spec)).await;
        assert_eq!(rig.next().await, "applied");
        let found = deployments.get("a").await.expect("applied");
        let found = serde_json::to_value(found).expect("JSON");
        assert_eq!(found["spec"]["replicas"], 3);
        let labels = json!({ "app": "engine", "tier": "gold" });
        assert_eq!(found["spec"]["template"]["metadata"]["labels"], labels);
        let pod = &found["spec"]["template"]["spec"];
        assert_eq!(pod["terminationGracePeriodSeconds"], 30, "the default of the server");
        let app = &pod["containers"][0];
        assert_eq!(app["image"], "app:1");
        let env = json!([
            { "name": "LEVEL", "value": "debug" }, { "name": "PORT", "value": "80" },
            { "name": "MORE", "value": "1" },
        ]);
        assert_eq!(app["env"], env);
        let mounts = json!([
            { "name": "data", "mountPath": "/data" },
            { "name": "data", "mountPath": "/more", "subPath": "more" },
        ]);
        assert_eq!(app["volumeMounts"], mounts);
        assert_eq!(pod["containers"][1]["name"], "sidecar");
        assert_eq!(pod["tolerations"], json!([{ "key": "user", "operator": "Exists" }]));

        // The overrides are removed.
        patch(&engines, "a", json!({ "spec": { "podOverrides": null } })).await;
        while rig.next().await != "applied" {}
        let is_plain = |it: Option<&Deployment>| {
            let spec = it.and_then(|it| it.spec.as_ref()).and_then(|it| it.template.spec.clone());
            spec.is_some_and(|it| {
                it.containers.len() == 1 && it.termination_grace_period_seconds == Some(300)
            })
        };
        await_condition(deployments, "a", is_plain).await.expect("as before");

        let overrides = json!({ "spec": { "overrides": { "metadata": { "name": "b" } } } });
        patch(&engines, "a", overrides).await;
        let mut refused = rig.next().await;
        while refused == "applied" {
            refused = rig.next().await;
        }
        let message = "the desired child deployments.apps a is invalid: its metadata.name cannot be \
                       overridden, because it identifies the child";
        assert!(refused.starts_with(message), "{refused}");
        rig.stop().await;
    }
}
