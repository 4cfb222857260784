//! Updates and patches: on which condition, of which part, and for show.

use serde_json::json;

use super::raw::{Raw, named, names, version};

on_both_servers! {
    /// docs/apiserver.md: row 74.
    async fn a_config_map_is_updated_without_a_version(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let body = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
        let updated = raw.put(&format!("{}/a", raw.maps()), &body).await.ok();
        assert_eq!(updated["data"], json!({ "k": "v" }));
    }

    /// docs/apiserver.md: rows 7, 74, 102.
    async fn a_lease_is_updated_at_the_version_that_was_read(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let leases = raw.at("/apis/coordination.k8s.io/v1", "leases");
        let path = format!("{leases}/l");
        let held = |by: &str| json!({
            "metadata": { "name": "l" },
            "spec": {
                "holderIdentity": by, "leaseDurationSeconds": 15, "leaseTransitions": 0,
                "acquireTime": "2026-01-01T00:00:00.000000Z",
                "renewTime": "2026-01-01T00:00:00.123456Z",
            },
        });
        let first = raw.post(&leases, &held("a")).await.ok();
        assert_eq!(first["spec"], held("a")["spec"]);

        let message = raw.put(&path, &held("b")).await.refused(422, "Invalid");
        assert!(message.contains("metadata.resourceVersion") && message.ends_with("must be specified for an update"), "{message}");

        let mut mine = held("b");
        mine["metadata"] = first["metadata"].clone();
        raw.put(&path, &mine).await.ok();
        mine["spec"]["holderIdentity"] = "c".into();
        let message = raw.put(&path, &mine).await.refused(409, "Conflict");
        assert_eq!(
            message,
            "Operation cannot be fulfilled on leases.coordination.k8s.io \"l\": the object has been \
             modified; please apply your changes to the latest version and try again"
        );
        assert_eq!(raw.get(&path).await.ok()["spec"]["holderIdentity"], "b");
    }

    /// docs/apiserver.md: row 75.
    async fn what_is_not_there_is_not_updated(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        assert_eq!(raw.put(&path, &named("a")).await.refused(404, "NotFound"), "configmaps \"a\" not found");
        raw.merge(&path, &json!({})).await.refused(404, "NotFound");
        raw.delete(&path).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: row 76.
    async fn a_kind_without_a_status_has_no_place_for_one(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a/status", raw.maps());
        raw.get(&path).await.refused(404, "NotFound");
        raw.merge(&path, &json!({})).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: row 79.
    async fn a_json_patch_that_is_none_is_refused(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        for change in ["{", "{}", r#"{"op":"remove"}"#, "3"] {
            raw.patch(&path, "json", change).await.refused(400, "BadRequest");
        }
        let missing = r#"[{"op":"remove","path":"/data/none"}]"#;
        raw.patch(&path, "json", missing).await.refused(422, "Invalid");
        assert_eq!(raw.get(&path).await.ok(), created);
    }

    /// docs/apiserver.md: row 79.
    async fn a_json_patch_is_done_in_its_order(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let change = r#"[
            {"op":"add","path":"/data","value":{"a":"1"}},
            {"op":"test","path":"/data/a","value":"1"},
            {"op":"copy","from":"/data/a","path":"/data/c"},
            {"op":"move","from":"/data/a","path":"/data/b"}
        ]"#;
        let patched = raw.patch(&format!("{}/a", raw.maps()), "json", change).await.ok();
        assert_eq!(patched["data"], json!({ "b": "1", "c": "1" }));
    }

    /// docs/apiserver.md: row 79.
    async fn a_null_in_a_merge_patch_takes_away(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let body = json!({ "metadata": { "name": "a", "labels": { "x": "y" } }, "data": { "a": "1", "b": "2" } });
        raw.post(&raw.maps(), &body).await.ok();
        let change = json!({ "metadata": { "labels": null }, "data": { "a": null, "c": "3" } });
        let patched = raw.merge(&format!("{}/a", raw.maps()), &change).await.ok();
        assert_eq!(patched["data"], json!({ "b": "2", "c": "3" }));
        assert_eq!(patched["metadata"].get("labels"), None);
        for change in ["{", "[]"] {
            raw.patch(&format!("{}/a", raw.maps()), "merge", change).await.refused(400, "BadRequest");
        }
    }

    /// docs/apiserver.md: rows 7, 79.
    async fn a_patch_with_a_version_is_for_that_version(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let first = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        let second = raw.merge(&path, &json!({ "data": { "k": "1" } })).await.ok();
        let at = |version: u64| json!({
            "metadata": { "resourceVersion": version.to_string() }, "data": { "k": "2" },
        });
        raw.merge(&path, &at(version(&first))).await.refused(409, "Conflict");
        assert_eq!(raw.get(&path).await.ok(), second);
        assert_eq!(raw.merge(&path, &at(version(&second))).await.ok()["data"]["k"], "2");
    }

    /// docs/apiserver.md: rows 78, 80.
    async fn a_strategic_patch_merges_lists_of_built_in_kinds_by_their_key(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let services = raw.at("/api/v1", "services");
        raw.post(&services, &json!({ "metadata": { "name": "s" }, "spec": { "ports": [
            { "name": "a", "port": 80 }, { "name": "b", "port": 81 },
        ] } })).await.ok();
        let change = json!({ "spec": { "ports": [{ "port": 81, "name": "c" }, { "port": 80, "$patch": "delete" }] } });
        let path = format!("{services}/s");
        let patched = raw.patch(&path, "strategic-merge", &change.to_string()).await.ok();
        let ports = patched["spec"]["ports"].as_array().expect("ports");
        assert_eq!(ports.len(), 1, "{ports:?}");
        assert_eq!((&ports[0]["name"], &ports[0]["port"]), (&json!("c"), &json!(81)));
    }

    /// docs/apiserver.md: rows 11, 78.
    async fn a_patch_of_an_unknown_type_is_refused(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        raw.patch(&path, "guess", "{}").await.refused(415, "UnsupportedMediaType");
    }

    /// docs/apiserver.md: row 96.
    async fn a_dry_run_answers_and_stores_nothing(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        let answer = raw.post(&format!("{maps}?dryRun=All"), &named("a")).await;
        assert_eq!((answer.code, answer.body["metadata"]["name"].as_str()), (201, Some("a")));
        assert_eq!(names(&raw.get(&maps).await.ok()), "");

        let created = raw.post(&maps, &named("a")).await.ok();
        let path = format!("{maps}/a?dryRun=All");
        let change = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
        assert_eq!(raw.merge(&path, &change).await.ok()["data"]["k"], "v");
        assert_eq!(raw.put(&path, &change).await.ok()["data"]["k"], "v");
        assert_eq!(raw.get(&format!("{maps}/a")).await.ok(), created);
        raw.post(&format!("{maps}?dryRun=All"), &named("a")).await.refused(409, "AlreadyExists");
        raw.post(&format!("{maps}?dryRun=Some"), &named("b")).await.refused(422, "Invalid");
    }

    /// docs/apiserver.md: row 81.
    async fn options_of_writes_are_checked(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        raw.post(&format!("{maps}?fieldManager=me"), &named("a")).await.ok();
        let long = "x".repeat(129);
        for query in [format!("fieldManager={long}"), "fieldValidation=Perhaps".to_owned()] {
            raw.post(&format!("{maps}?{query}"), &named("b")).await.refused(422, "Invalid");
        }
        raw.merge(&format!("{maps}/a?force=true"), &json!({})).await.refused(422, "Invalid");
    }
}
