//! Writes of `status`: what the server keeps, adds and accepts.

use serde_json::json;

use super::raw::Raw;

on_both_servers! {
    /// docs/apiserver.md: row 76.
    async fn a_new_node_keeps_the_status_with_which_it_is_registered(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let node = json!({
            "metadata": { "name": raw.namespace },
            "status": { "conditions": ready, "addresses": [{ "type": "Hostname", "address": "a" }] },
        });
        let created = raw.post("/api/v1/nodes", &node).await.ok();
        assert_eq!(created["status"]["conditions"][0]["status"], "True");
        assert_eq!(created["status"]["addresses"], node["status"]["addresses"]);
        raw.delete(&format!("/api/v1/nodes/{}", raw.namespace)).await.ok();
    }

    /// docs/apiserver.md: row 76.
    async fn a_pod_keeps_its_class_of_service(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let pods = raw.at("/api/v1", "pods");
        let mut pod = raw.post(&pods, &json!({
            "metadata": { "name": "a" },
            "spec": { "containers": [{ "name": "a", "image": "x" }] },
        })).await.ok();
        pod["status"] = json!({ "phase": "Running" });
        let written = raw.put(&format!("{pods}/a/status"), &pod).await.ok();
        assert_eq!(written["status"], json!({ "phase": "Running", "qosClass": "BestEffort" }));
    }

    /// docs/apiserver.md: row 76.
    async fn an_address_of_a_load_balancer_is_virtual_by_default(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let services = raw.at("/api/v1", "services");
        raw.post(&services, &json!({
            "metadata": { "name": "a" },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
        })).await.ok();
        let status = json!({ "status": { "loadBalancer": { "ingress": [
            { "ip": "192.0.2.1" }, { "ip": "192.0.2.2", "ipMode": "Proxy" }, { "hostname": "a.b" },
        ] } } });
        let written = raw.merge(&format!("{services}/a/status"), &status).await.ok();
        assert_eq!(written["status"]["loadBalancer"]["ingress"], json!([
            { "ip": "192.0.2.1", "ipMode": "VIP" }, { "ip": "192.0.2.2", "ipMode": "Proxy" },
            { "hostname": "a.b" },
        ]));
    }

    /// docs/apiserver.md: row 76.
    async fn the_status_of_a_built_in_kind_is_written_only_by_its_subresource(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let budgets = raw.at("/apis/policy/v1", "poddisruptionbudgets");
        let (path, own) = (format!("{budgets}/a"), format!("{budgets}/a/status"));
        let created = raw.post(&budgets, &json!({
            "metadata": { "name": "a" },
            "spec": { "minAvailable": 1 },
            "status": { "currentHealthy": 7, "desiredHealthy": 7, "disruptionsAllowed": 7, "expectedPods": 7 },
        })).await.ok();
        assert_eq!(created["status"]["currentHealthy"], 0, "a create drops the status");

        let status = |number: u64| json!({
            "currentHealthy": number, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1,
        });
        let mut written = created.clone();
        written["status"] = status(2);
        written["spec"]["minAvailable"] = 5.into();
        written["metadata"]["annotations"] = json!({ "a": "b" });
        written["metadata"]["finalizers"] = json!(["ex.io/a"]);
        let ready = raw.put(&own, &written).await.ok();
        assert_eq!((&ready["status"], &ready["spec"]), (&status(2), &created["spec"]));
        let metadata = &ready["metadata"];
        assert_eq!(metadata["annotations"], json!({ "a": "b" }), "unlike of a custom resource");
        assert_eq!(metadata["finalizers"], json!(["ex.io/a"]));
        assert_eq!(metadata["generation"], created["metadata"]["generation"]);
        raw.put(&own, &written).await.refused(409, "Conflict");

        let change = json!({
            "spec": { "minAvailable": 5 }, "metadata": { "annotations": null, "finalizers": null },
            "status": status(3),
        });
        for (number, kind) in ["merge", "strategic-merge"].into_iter().enumerate() {
            let mut change = change.clone();
            change["status"]["observedGeneration"] = (number + 1).into();
            let patched = raw.patch(&own, kind, &change.to_string()).await.ok();
            assert_eq!((&patched["status"], &patched["spec"]), (&change["status"], &created["spec"]), "{kind}");
            let metadata = &patched["metadata"];
            assert_eq!((metadata.get("annotations"), metadata.get("finalizers")), (None, None), "{kind}");
        }

        let mut current = raw.get(&path).await.ok();
        let before = current["status"].clone();
        current["status"] = status(4);
        current["spec"]["minAvailable"] = 2.into();
        let updated = raw.put(&path, &current).await.ok();
        assert_eq!((&updated["status"], &updated["spec"]["minAvailable"]), (&before, &json!(2)));
        let patched = raw.merge(&path, &json!({ "status": status(4) })).await.ok();
        assert_eq!(patched, updated, "a patch of the status alone changes nothing");
    }
}
