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
}
