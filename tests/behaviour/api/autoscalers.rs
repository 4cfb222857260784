//! Autoscalers: one stored object is served in two versions.

use serde_json::{Value, json};

use super::raw::{Raw, named, version};

const V1: &str = "/apis/autoscaling/v1";
const V2: &str = "/apis/autoscaling/v2";
const PREFIX: &str = "autoscaling.alpha.kubernetes.io/";

fn target() -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" })
}

fn utilization(name: &str, percentage: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": { "name": name, "target": { "type": "Utilization", "averageUtilization": percentage } },
    })
}

/// The content of an annotation of the old version.
fn annotation(object: &Value, name: &str) -> Value {
    let text = object["metadata"]["annotations"][format!("{PREFIX}{name}")].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("no {name}: {object}"))).expect("JSON")
}

on_both_servers! {
    /// docs/apiserver.md: row 113.
    async fn an_autoscaler_of_one_version_is_read_in_the_other(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let [old, new] = [V1, V2].map(|root| raw.at(root, "horizontalpodautoscalers"));
        for (name, percentage) in [("a", Some(50)), ("b", None)] {
            let mut object = named(name);
            object["spec"] = json!({ "maxReplicas": 3, "scaleTargetRef": target() });
            if let Some(percentage) = percentage {
                object["spec"]["targetCPUUtilizationPercentage"] = json!(percentage);
            }
            let percentage = percentage.unwrap_or(80);
            let created = raw.post(&old, &object).await.ok();
            assert_eq!(created["spec"]["minReplicas"], 1);
            let shown = raw.get(&format!("{old}/{name}")).await.ok();
            assert_eq!(shown["apiVersion"], "autoscaling/v1");
            assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], percentage);
            assert_eq!(shown["status"], json!({ "currentReplicas": 0, "desiredReplicas": 0 }));
            let other = raw.get(&format!("{new}/{name}")).await.ok();
            assert_eq!(other["spec"]["metrics"], json!([utilization("cpu", percentage)]));
            assert_eq!(version(&other), version(&created));
        }
        let why = raw.post(&old, &json!({
            "metadata": { "name": "c" }, "spec": { "maxReplicas": 0, "scaleTargetRef": target() },
        })).await.refused(422, "Invalid");
        assert!(why.contains("spec.maxReplicas: Invalid value: 0"), "{why}");
    }

    /// docs/apiserver.md: row 113.
    async fn an_autoscaler_keeps_fields_missing_from_the_old_version_in_annotations(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let [old, new] = [V1, V2].map(|root| raw.at(root, "horizontalpodautoscalers"));
        let mut object = named("a");
        object["metadata"]["annotations"] = json!({ "mine": "x" });
        let pods = json!({
            "type": "Pods",
            "pods": { "metric": { "name": "m" }, "target": { "type": "AverageValue", "averageValue": "7" } },
        });
        object["spec"] = json!({
            "maxReplicas": 3,
            "scaleTargetRef": target(),
            "metrics": [utilization("memory", 70), pods, utilization("cpu", 60)],
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 9 } },
        });
        let created = raw.post(&new, &object).await.ok();
        let path = format!("{old}/a");
        let shown = raw.get(&path).await.ok();
        assert_eq!(shown["spec"], json!({
            "maxReplicas": 3, "minReplicas": 1, "scaleTargetRef": target(),
            "targetCPUUtilizationPercentage": 60,
        }));
        assert_eq!(shown["metadata"]["annotations"]["mine"], "x");
        assert_eq!(annotation(&shown, "metrics"), json!([
            { "type": "Resource", "resource": { "name": "memory", "targetAverageUtilization": 70 } },
            { "type": "Pods", "pods": { "metricName": "m", "targetAverageValue": "7" } },
        ]));
        let behavior = annotation(&shown, "behavior");
        assert_eq!(behavior["ScaleDown"]["StabilizationWindowSeconds"], 9, "the names of Go's fields");
        assert_eq!(created["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 9);

        let status = json!({ "status": {
            "currentReplicas": 2, "desiredReplicas": 3,
            "conditions": [{ "type": "AbleToScale", "status": "True", "reason": "Tested" }],
            "currentMetrics": [{ "type": "Resource", "resource": { "name": "cpu",
                "current": { "averageUtilization": 40, "averageValue": "4" } } }],
        } });
        raw.merge(&format!("{new}/a/status"), &status).await.ok();
        let mut shown = raw.get(&path).await.ok();
        assert_eq!(shown["status"], json!({
            "currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 40,
        }));
        assert_eq!(annotation(&shown, "current-metrics"), json!([{
            "type": "Resource",
            "resource": { "name": "cpu", "currentAverageUtilization": 40, "currentAverageValue": "4" },
        }]));
        assert_eq!(annotation(&shown, "conditions")[0]["type"], "AbleToScale");

        let before = raw.get(&format!("{new}/a")).await.ok();
        shown["spec"]["maxReplicas"] = json!(5);
        raw.put(&path, &shown).await.ok();
        let after = raw.get(&format!("{new}/a")).await.ok();
        assert_eq!(after["spec"]["maxReplicas"], 5);
        assert_eq!(after["spec"]["behavior"], before["spec"]["behavior"]);
        assert_eq!(after["status"], before["status"]);
        assert_eq!(after["metadata"]["annotations"], json!({ "mine": "x" }));
        let metrics = after["spec"]["metrics"].as_array().expect("a list");
        let last = metrics.last().expect("a metric");
        assert_eq!((metrics.len(), last), (3, &utilization("cpu", 60)));
    }

    /// docs/apiserver.md: rows 55, 117.
    async fn both_versions_of_autoscalers_are_found_and_watched(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let _history = cluster.remember_history().await;
        let group = raw.get("/apis/autoscaling").await.ok();
        assert_eq!(group["preferredVersion"]["version"], "v2");
        let versions = group["versions"].as_array().expect("a list");
        let versions: Vec<_> = versions.iter().filter_map(|it| it["version"].as_str()).collect();
        assert_eq!(versions, ["v2", "v1"]);
        let old = raw.at(V1, "horizontalpodautoscalers");
        let list = raw.get(&old).await.ok();
        assert_eq!(list["apiVersion"], "autoscaling/v1");
        let mut watch = raw.watch(&format!("{old}?watch=1&resourceVersion={}", version(&list))).await;
        let mut object = named("a");
        object["spec"] = json!({ "maxReplicas": 3, "scaleTargetRef": target() });
        raw.post(&raw.at(V2, "horizontalpodautoscalers"), &object).await.ok();
        let event = watch.event().await;
        assert_eq!(event["object"]["apiVersion"], "autoscaling/v1");
        assert_eq!(event["object"]["spec"]["targetCPUUtilizationPercentage"], 80);
    }
}
