//! A Website operator with `Controller<K>`, and a test of it that runs on any cluster.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{Client, CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::{
    kit::{Kit, NewStatus, Verb},
    prelude::*,
};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "kit.windlass.dev",
    version = "v1",
    kind = "Website",
    namespaced
)]
#[kube(status = "WebsiteStatus")]
pub(crate) struct WebsiteSpec {
    pub(crate) replicas: i32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebsiteStatus {
    ready: bool,
    observed_generation: i64,
}

pub(crate) fn website(name: &str, replicas: i32) -> Website {
    Website::new(name, WebsiteSpec { replicas })
}

/// Each website owns a deployment, and is ready when its deployment has all replicas.
pub(crate) fn website_operator(client: Client) -> Result<Operator, Error> {
    let namespace = client.default_namespace().to_owned();
    let watch = Watch::namespaced(&*namespace);
    let mut websites = Controller::<Website>::builder(client, watch);
    let deployments = websites.owns(Watch::<Deployment>::namespaced(namespace));
    let websites = websites
        .name("website-operator")
        .finalizer("kit.windlass.dev/website");
    let operator = Operator::new();
    operator.add_controller(websites.build(Websites { deployments })?)?;
    Ok(operator)
}

pub(crate) async fn run(client: Client, stop: CancellationToken) -> Result<(), Error> {
    Ok(website_operator(client)?.run_until(stop).await?)
}

struct Websites {
    deployments: Owned<Website, Deployment>,
}

impl ObjectReconciler<Website> for Websites {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        let replicas = cx.object().spec.replicas;
        let labels = json!({ "website": cx.key().name() });
        let deployment = Desired::json(json!({ "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "server", "image": "nginx:1" }] },
            },
        } }));
        let deployment = self.deployments.apply(&cx, deployment).await?;
        let status = deployment.status.as_ref();
        let ready = status.and_then(|it| it.ready_replicas);
        cx.write_status(WebsiteStatus {
            ready: ready.unwrap_or_default() >= replicas,
            observed_generation: cx.generation(),
        })
        .await?;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, _: Context<Website>) -> Result<Outcome, Failure> {
        Ok(Outcome::done())
    }
}

/// Drift, a status, a quiet time, a refused write, a crash and a delete.
pub(crate) async fn keeps_its_deployment(kit: Kit) {
    let replicas = |count: i32| json!({ "spec": { "replicas": count } });
    kit.install(&Website::crd()).await;
    let operator = kit.start(run);
    kit.create(&website("blog", 1)).await;
    kit.quiet().await;
    kit.expect::<Deployment>("blog").matches(replicas(1)).await;

    kit.edit::<Deployment>("blog", |it| {
        it.spec.as_mut().expect("a spec").replicas = Some(0);
    })
    .await;
    kit.expect::<Deployment>("blog")
        .becomes(|it| it.spec.as_ref().expect("a spec").replicas == Some(1))
        .await;
    kit.set_status::<Deployment>("blog", json!({ "replicas": 1, "readyReplicas": 1 }))
        .await;
    kit.expect::<Website>("blog")
        .matches(json!({ "status": { "ready": true, "observedGeneration": 1 } }))
        .await;
    kit.quiet().await;
    let since = kit.mark();
    kit.quiet().await;
    assert_eq!(kit.writes(since), [], "nothing changes");

    kit.refuse_next(Verb::Patch, "deployments", 500);
    kit.edit::<Website>("blog", |it| it.spec.replicas = 2).await;
    kit.expect::<Deployment>("blog").matches(replicas(2)).await;
    kit.quiet().await;
    let name = format!("{}/blog", kit.namespace());
    let calls = kit.calls(since).of(&name);
    assert_eq!(calls.failed(), 1, "{calls:?}");
    let writes = kit.writes(since);
    assert_eq!(writes[0].code, 500, "{writes:?}");
    assert_eq!(writes[0].manager, "website-operator");
    assert_eq!(writes[1].change, ".spec.replicas: 1 -> 2");

    // Deleted while no operator runs, and kept until one does.
    operator.crash();
    kit.delete::<Website>("blog").await;
    assert!(kit.get::<Website>("blog").await.is_some());
    operator.restart();
    kit.expect_gone::<Website>("blog").await;
    assert_eq!(operator.stop().await, "Ok(())");
}

/// A snapshot of a child is the same on each server and in each execution.
pub(crate) async fn has_the_same_snapshot_again(kit: Kit) {
    kit.install(&Website::crd()).await;
    kit.start(run);
    kit.create(&website("blog", 1)).await;
    kit.quiet().await;
    let first = kit.snapshot::<Deployment>("blog").await;
    let metadata = first["metadata"].as_object().expect("an object");
    let fields: Vec<_> = metadata.keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        [
            "annotations",
            "labels",
            "name",
            "namespace",
            "ownerReferences"
        ]
    );
    assert_eq!(metadata["ownerReferences"][0]["uid"], "uid of no object");
    assert_eq!(first["spec"]["replicas"], 1);
    let website = kit.snapshot::<Website>("blog").await;
    assert_eq!(website["status"]["observedGeneration"], "current");

    // Other uids, versions and times.
    kit.delete::<Website>("blog").await;
    kit.expect_gone::<Website>("blog").await;
    if kit.get::<Deployment>("blog").await.is_some() {
        // A server without the controller that collects garbage.
        kit.delete::<Deployment>("blog").await;
    }
    kit.advance(Duration::from_secs(2)).await;
    kit.create(&self::website("blog", 1)).await;
    kit.quiet().await;
    assert_eq!(kit.snapshot::<Deployment>("blog").await, first);
    assert_eq!(kit.snapshot::<Website>("blog").await, website);
}

/// An operator whose deployment has what the server stores in another form: defaults, quantities,
/// nulls and empty values.
pub(crate) async fn run_with_other_forms(
    client: Client,
    stop: CancellationToken,
) -> Result<(), Error> {
    let namespace = client.default_namespace().to_owned();
    let watch = Watch::namespaced(&*namespace);
    let mut websites = Controller::<Website>::builder(client, watch);
    let deployments = websites.owns(Watch::<Deployment>::namespaced(namespace));
    let websites = websites.name("website-operator").build(move |cx| {
        let deployments = deployments.clone();
        async move {
            deployments.apply(&cx, Desired::json(other_forms())).await?;
            Ok::<_, Failure>(Outcome::done())
        }
    })?;
    Ok(websites.run(stop).await?)
}

fn other_forms() -> Value {
    let container = json!({
        "name": "server",
        "image": "nginx:1",
        "args": [],
        "command": null,
        "env": [{ "name": "EMPTY", "value": "" }],
        // The protocol is a default.
        "ports": [{ "containerPort": 80 }],
        "resources": {
            "limits": { "cpu": "1000m", "memory": "1024Mi" },
            "requests": { "cpu": "0.50", "memory": "1e6" },
        },
        "securityContext": {},
    });
    json!({
        "metadata": { "annotations": null, "labels": { "empty": "" } },
        "spec": {
            "replicas": 1,
            "paused": false,
            "selector": { "matchLabels": { "app": "blog" }, "matchExpressions": [] },
            "strategy": {},
            "template": {
                "metadata": { "labels": { "app": "blog" }, "annotations": {} },
                "spec": {
                    "containers": [container],
                    "initContainers": [],
                    "nodeSelector": {},
                    "securityContext": {},
                    "tolerations": null,
                    "volumes": [],
                },
            },
        },
    })
}

/// Without a change there is no write, for `time` or until the operator is quiet.
pub(crate) async fn stays_quiet(kit: Kit, time: Duration) {
    kit.install(&Website::crd()).await;
    let operator = kit.start(run_with_other_forms);
    kit.create(&website("steady", 1)).await;
    kit.expect::<Deployment>("steady")
        .matches(json!({ "spec": { "replicas": 1 } }))
        .await;
    kit.quiet().await;
    let since = kit.mark();
    kit.advance(time).await;
    kit.quiet().await;
    assert_eq!(kit.writes(since), []);

    // A new process applies each child once, which changes nothing.
    operator.restart();
    while kit.writes(since).is_empty() {
        kit.advance(Duration::from_millis(100)).await;
    }
    kit.quiet().await;
    let writes = kit.writes(since);
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(writes[0].change, "nothing");
    let since = kit.mark();
    kit.advance(time).await;
    kit.quiet().await;
    assert_eq!(kit.writes(since), []);
    assert_eq!(operator.stop().await, "Ok(())");
}

/// The roles of the operator in the namespace of the kit, without `delete` of deployments.
const ROLES: &str = r"
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: ServiceAccount
    metadata: { name: website-operator }
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata: { name: website-operator }
    rules:
      - apiGroups: [kit.windlass.dev]
        resources: [websites]
        verbs: [list, watch, get, patch]
      - apiGroups: [apps]
        resources: [deployments]
        verbs: [list, watch, get, create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: website-operator }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: website-operator }
subjects: [{ kind: ServiceAccount, name: website-operator }]
";

/// The operator lacks the permission for the status until its roles have it.
pub(crate) async fn has_the_permissions_of_its_roles(kit: Kit) {
    kit.install(&Website::crd()).await;
    kit.install(ROLES).await;
    // The roles take effect.
    kit.quiet().await;
    let operator = kit.start_as("website-operator", run);
    kit.create(&website("blog", 1)).await;
    kit.expect::<Deployment>("blog").becomes(|_| true).await;
    kit.quiet().await;
    let missing = operator.missing_rules();
    assert_eq!(missing.len(), 1, "{missing:?}");
    let rule = &missing[0];
    assert_eq!(rule.resource, "websites/status");
    assert_eq!((&*rule.verb, &*rule.namespace), ("patch", kit.namespace()));
    let shown =
        r#"{ apiGroups: ["kit.windlass.dev"], resources: ["websites/status"], verbs: ["patch"] }"#;
    assert!(rule.to_string().starts_with(shown), "{rule}");

    let roles = ROLES.replace(
        "resources: [websites]",
        "resources: [websites, websites/status]",
    );
    kit.install(&roles).await;
    kit.quiet().await;
    operator.restart();
    kit.expect::<Website>("blog")
        .matches(json!({ "status": { "ready": false } }))
        .await;
    assert_eq!(operator.missing_rules(), missing);
    assert_eq!(operator.stop().await, "Ok(())");
}

/// A kind with conditions, and objects whose controllers the kit plays.
const WORKLOADS: &str = r"
apiVersion: played.windlass.dev/v1
kind: Certificate
metadata: { name: a }
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: a }
spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: certificates.played.windlass.dev }
spec:
  group: played.windlass.dev
  names: { kind: Certificate, plural: certificates }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: { status: {} }
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
";

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "played.windlass.dev",
    version = "v1",
    kind = "Certificate",
    namespaced
)]
pub(crate) struct CertificateSpec {}

/// The objects whose controllers the kit plays.
fn played_objects() -> Vec<Value> {
    let pod = json!({
        "restartPolicy": "Never", "automountServiceAccountToken": false,
        "containers": [{ "name": "a", "image": "a:1" }],
    });
    let always = json!({ "containers": [{ "name": "a", "image": "a:1" }] });
    let template = |spec: &Value| json!({ "metadata": { "labels": { "a": "a" } }, "spec": spec });
    let object = |version: &str, kind: &str, name: &str, spec: Value| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec });
    let mut objects: Vec<_> = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"]
        .into_iter()
        .map(|kind| {
            let mut spec = json!({
                "selector": { "matchLabels": { "a": "a" } }, "template": template(&always),
            });
            match kind {
                "DaemonSet" => {}
                "StatefulSet" => {
                    spec["replicas"] = 2.into();
                    spec["serviceName"] = "a".into();
                }
                _ => spec["replicas"] = 2.into(),
            }
            object("apps/v1", kind, "a", spec)
        })
        .collect();
    for name in ["complete", "failed"] {
        let spec = json!({ "template": template(&pod) });
        objects.push(object("batch/v1", "Job", name, spec));
    }
    for name in ["running", "complete", "failed"] {
        objects.push(object("v1", "Pod", name, pod.clone()));
    }
    objects
}

/// The status of an object that is ready, complete or failed, for each kind whose controller the kit
/// plays.
pub(crate) async fn plays_the_controllers(kit: Kit) {
    kit.install(WORKLOADS).await;
    kit.install(&played_objects()).await;
    plays_the_controllers_of_replicas(&kit).await;
    for (name, status, phase, ready) in [
        ("running", NewStatus::Ready, "Running", true),
        ("complete", NewStatus::Complete, "Succeeded", false),
        ("failed", NewStatus::Failed, "Failed", false),
    ] {
        kit.set_status::<Pod>(name, status).await;
        let containers = json!([{ "name": "a", "ready": ready }]);
        kit.expect::<Pod>(name)
            .matches(json!({ "status": { "phase": phase, "containerStatuses": containers } }))
            .await;
    }
    kit.set_status::<Job>(
        "complete",
        json!({ "startTime": "2026-01-01T00:00:00Z", "active": 1 }),
    )
    .await;
    kit.set_status::<Job>("complete", NewStatus::Complete).await;
    kit.expect::<Job>("complete")
        .matches(
            json!({ "status": { "succeeded": 1, "active": null, "conditions": [
            { "type": "SuccessCriteriaMet" }, { "type": "Complete", "status": "True" },
        ] } }),
        )
        .await;
    kit.set_status::<Job>("failed", NewStatus::Failed).await;
    kit.expect::<Job>("failed")
        .matches(json!({ "status": { "failed": 1, "conditions": [
            { "type": "FailureTarget" }, { "type": "Failed", "status": "True" },
        ] } }))
        .await;
    let other = json!({ "conditions": [{ "type": "Other", "status": "True" }] });
    kit.set_status::<Certificate>("a", other).await;
    for (status, ready) in [(NewStatus::Ready, "True"), (NewStatus::Failed, "False")] {
        kit.set_status::<Certificate>("a", status).await;
        kit.expect::<Certificate>("a")
            .matches(json!({ "status": { "conditions": [
                { "type": "Other" }, { "type": "Ready", "status": ready },
            ] } }))
            .await;
    }
}

async fn plays_the_controllers_of_replicas(kit: &Kit) {
    let two = json!({ "status": { "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1 } });
    kit.set_status::<Deployment>("a", NewStatus::Ready).await;
    kit.expect::<Deployment>("a").matches(two.clone()).await;
    kit.set_status::<Deployment>("a", NewStatus::Failed).await;
    kit.expect::<Deployment>("a")
        .matches(json!({ "status": { "conditions": [
            { "type": "Available", "status": "True" },
            { "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" },
        ] } }))
        .await;
    kit.set_status::<ReplicaSet>("a", NewStatus::Ready).await;
    kit.expect::<ReplicaSet>("a").matches(two.clone()).await;
    kit.set_status::<StatefulSet>("a", NewStatus::Ready).await;
    kit.expect::<StatefulSet>("a").matches(two).await;
    kit.set_status::<DaemonSet>("a", NewStatus::Ready).await;
    kit.expect::<DaemonSet>("a")
        .matches(json!({ "status": { "numberReady": 1, "desiredNumberScheduled": 1 } }))
        .await;
    kit.set_status::<PersistentVolumeClaim>("a", NewStatus::Ready)
        .await;
    kit.expect::<PersistentVolumeClaim>("a")
        .matches(json!({ "status": { "phase": "Bound", "capacity": { "storage": "1Gi" } } }))
        .await;
}
