//! Deletions: responses, options, preconditions and finalizers.

use serde_json::{Value, json};

use super::raw::{Raw, named, names, version};
use super::widget::Widget;

on_both_servers! {
    /// docs/apiserver.md: row 88.
    async fn the_deletion_of_a_removed_object_returns_a_status(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        let answer = raw.delete(&path).await;
        assert_eq!(answer.code, 200);
        assert_eq!(answer.body, json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": { "name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"] },
        }));
        raw.delete(&path).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: rows 88, 91.
    async fn the_deletion_of_a_remaining_object_returns_the_object(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let body = json!({ "metadata": { "name": "a", "finalizers": ["test.windlass.dev/a"] } });
        raw.post(&raw.maps(), &body).await.ok();
        let path = format!("{}/a", raw.maps());
        let answer = raw.delete(&path).await;
        assert_eq!(answer.code, 200);
        let dying = answer.ok();
        assert_eq!(dying["kind"], "ConfigMap");
        assert!(dying["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 0);
        let again = raw.delete(&path).await.ok();
        assert_eq!(again, dying, "an object dies once");
        let message = raw.post(&raw.maps(), &named("a")).await.refused(409, "AlreadyExists");
        assert_eq!(message, "object is being deleted: configmaps \"a\" already exists");
        raw.merge(&path, &json!({ "metadata": { "finalizers": null } })).await.ok();
        raw.get(&path).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: row 89.
    async fn options_come_in_the_body_or_in_the_query(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for name in ["a", "b"] {
            raw.post(&raw.maps(), &named(name)).await.ok();
        }
        let path = format!("{}/a", raw.maps());
        let unknown = json!({ "propagationPolicy": "Sometime" });
        raw.delete_so(&path, &unknown).await.refused(422, "Invalid");
        raw.delete(&format!("{path}?propagationPolicy=Sometime")).await.refused(422, "Invalid");
        let both = json!({ "propagationPolicy": "Background", "orphanDependents": true });
        raw.delete_so(&path, &both).await.refused(422, "Invalid");
        raw.get(&path).await.ok();
        let background = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background" });
        raw.delete_so(&path, &background).await.ok();
        raw.delete(&format!("{}/b?propagationPolicy=Background", raw.maps())).await.ok();
        assert_eq!(names(&raw.get(&raw.maps()).await.ok()), "");
    }

    /// docs/apiserver.md: rows 9, 89, 96.
    async fn malformed_options_delete_nothing(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        widget.create("a", &json!({})).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let (map, maps, custom) = (format!("{}/a", raw.maps()), raw.maps(), widget.one("a"));
        let field = |what: &str, field: &str, wanted: &str| format!(
            "json: cannot unmarshal {what} into Go struct field {field} of type {wanted}"
        );
        for (options, why) in [
            (json!({ "gracePeriodSeconds": "x" }), field("string", "DeleteOptions.gracePeriodSeconds", "int64")),
            (json!({ "gracePeriodSeconds": 1.5 }), field("number 1.5", "DeleteOptions.gracePeriodSeconds", "int64")),
            (json!({ "orphanDependents": 1 }), field("number", "DeleteOptions.orphanDependents", "bool")),
            (json!({ "propagationPolicy": {} }), field("object", "DeleteOptions.propagationPolicy", "v1.DeletionPropagation")),
            (json!({ "dryRun": "All" }), field("string", "DeleteOptions.dryRun", "[]string")),
            (json!({ "dryRun": [1] }), field("number", "DeleteOptions.dryRun", "string")),
            (json!({ "preconditions": [] }), field("array", "DeleteOptions.preconditions", "v1.Preconditions")),
            (json!({ "preconditions": { "uid": 1 } }), field("number", "Preconditions.preconditions.uid", "types.UID")),
        ] {
            for path in [&map, &maps, &custom] {
                let refusal = raw.delete_so(path, &options).await.refused(400, "BadRequest");
                assert_eq!(refusal, why, "{options}");
            }
        }
        // The real server adds where it looked for the kind.
        let other = json!({ "apiVersion": "v1", "kind": "Pod" });
        let refusal = raw.delete_so(&map, &other).await.refused(400, "BadRequest");
        assert!(refusal.starts_with("no kind \"Pod\" is registered for version \"v1\""), "{refusal}");
        raw.delete_so(&map, &json!([])).await.refused(400, "BadRequest");
        let invalid = |field: &str, value: &str| format!(
            "DeleteOptions.meta.k8s.io \"\" is invalid: {field}: Unsupported value: {value}: supported values: "
        );
        for (options, why) in [
            (json!({ "dryRun": [""] }), invalid("dryRun", "[\"\"]")),
            (json!({ "dryRun": ["All", "x"] }), invalid("dryRun", "[\"All\",\"x\"]")),
            (json!({ "propagationPolicy": "nil" }), invalid("propagationPolicy", "\"nil\"")),
        ] {
            let refusal = raw.delete_so(&map, &options).await.refused(422, "Invalid");
            assert!(refusal.starts_with(&why), "{refusal}");
        }
        for (query, code) in [
            ("gracePeriodSeconds=x", 400),
            ("gracePeriodSeconds=x&propagationPolicy=y", 400),
            ("dryRun=", 422),
            ("dryRun=All&dryRun=x", 422),
        ] {
            for path in [&map, &maps, &custom] {
                assert_eq!(raw.delete(&format!("{path}?{query}")).await.code, code, "{path} {query}");
            }
        }
        for path in [&map, &custom] {
            raw.get(path).await.ok();
        }
        // Unknown fields and every version are accepted, and `null` is no option.
        raw.delete_so(&map, &json!({ "kind": "DeleteOptions", "apiVersion": "x/v9", "x": 1 })).await.ok();
        raw.delete_so(&custom, &Value::Null).await.ok();
    }

    /// docs/apiserver.md: row 90.
    async fn a_deletion_can_have_preconditions(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let first = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        let uid = first["metadata"]["uid"].as_str().expect("a uid");
        let other = json!({ "preconditions": { "uid": "other" } });
        let message = raw.delete_so(&path, &other).await.refused(409, "Conflict");
        assert_eq!(message, format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) \
             does not match the UID in record ({uid}). The object might have been deleted and then \
             recreated"
        ));
        let second = raw.merge(&path, &json!({ "data": { "k": "v" } })).await.ok();
        let stale = json!({ "preconditions": { "resourceVersion": version(&first).to_string() } });
        let message = raw.delete_so(&path, &stale).await.refused(409, "Conflict");
        assert!(message.contains("the ResourceVersion in the precondition"), "{message}");
        let meant = json!({ "preconditions": {
            "uid": uid, "resourceVersion": version(&second).to_string(),
        } });
        raw.delete_so(&path, &meant).await.ok();
    }

    /// docs/apiserver.md: row 95.
    async fn a_collection_deletion_deletes_only_selected_objects(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (name, tier) in [("a", "x"), ("b", "x"), ("c", "y")] {
            let body = json!({ "metadata": { "name": name, "labels": { "tier": tier } } });
            raw.post(&raw.maps(), &body).await.ok();
        }
        let answer = raw.delete(&format!("{}?labelSelector=tier%3Dx", raw.maps())).await;
        assert_eq!(answer.code, 200);
        let gone = answer.ok();
        assert_eq!((gone["kind"].as_str(), names(&gone).as_str()), (Some("ConfigMapList"), "a b"));
        assert_eq!(names(&raw.get(&raw.maps()).await.ok()), "c");
    }

    /// docs/apiserver.md: rows 91, 95.
    async fn a_collection_deletion_keeps_objects_with_finalizers(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let body = json!({ "metadata": { "name": "a", "finalizers": ["test.windlass.dev/a"] } });
        raw.post(&raw.maps(), &body).await.ok();
        raw.post(&raw.maps(), &named("b")).await.ok();
        raw.delete(&raw.maps()).await.ok();
        let left = raw.get(&raw.maps()).await.ok();
        assert_eq!(names(&left), "a");
        assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
    }

    /// docs/apiserver.md: row 96.
    async fn a_dry_run_deletion_deletes_nothing(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        raw.delete(&format!("{path}?dryRun=All")).await.ok();
        raw.delete_so(&path, &json!({ "dryRun": ["All"] })).await.ok();
        assert_eq!(raw.get(&path).await.ok(), created);
    }

    /// docs/apiserver.md: row 95.
    async fn a_collection_deletion_can_be_limited(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for name in ["a", "b", "c", "d"] {
            let tier = if name == "b" { "y" } else { "x" };
            let body = json!({ "metadata": { "name": name, "labels": { "tier": tier } } });
            raw.post(&raw.maps(), &body).await.ok();
        }
        for (query, deleted, remaining, left) in [
            ("limit=1&dryRun=All", "a", json!(3), "a b c d"),
            ("limit=2&labelSelector=tier%3Dx", "a c", Value::Null, "b d"),
            ("limit=1", "b", json!(1), "d"),
            ("limit=1&continue=", "d", Value::Null, ""),
        ] {
            let gone = raw.delete(&format!("{}?{query}", raw.maps())).await.ok();
            assert_eq!(names(&gone), deleted, "{query}");
            let metadata = &gone["metadata"];
            assert_eq!(metadata["remainingItemCount"], remaining, "{query}");
            // With a selector, nothing says how many are left.
            assert_eq!(metadata["continue"].is_string(), deleted != "d", "{query}: {metadata}");
            assert_eq!(names(&raw.get(&raw.maps()).await.ok()), left, "{query}");
        }
        raw.post(&raw.maps(), &named("e")).await.ok();
        raw.post(&raw.maps(), &named("f")).await.ok();
        let first = raw.get(&format!("{}?limit=1", raw.maps())).await.ok();
        let token = first["metadata"]["continue"].as_str().expect("a token");
        let gone = raw.delete(&format!("{}?continue={token}", raw.maps())).await.ok();
        assert_eq!(names(&gone), "f");
        for query in ["limit=x", "labelSelector=a+b", "fieldSelector=none%3D1", "continue=x"] {
            raw.delete(&format!("{}?{query}", raw.maps())).await.refused(400, "BadRequest");
        }
        assert_eq!(names(&raw.get(&raw.maps()).await.ok()), "e");
    }

    /// docs/apiserver.md: row 96.
    async fn a_dry_run_sends_no_event_and_uses_no_version(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let from = version(&raw.post(&raw.maps(), &named("a")).await.ok());
        let maps = format!("{}?dryRun=All", raw.maps());
        let one = format!("{}/a?dryRun=All", raw.maps());
        let change = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
        let dry_runs = async || {
            raw.post(&maps, &named("b")).await.ok();
            raw.put(&one, &change).await.ok();
            raw.merge(&one, &change).await.ok();
            let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": "v" } });
            raw.apply(&one, "me", &config).await.ok();
            raw.delete(&one).await.ok();
            raw.delete(&maps).await.ok();
        };
        // Tests of other namespaces write to the same server.
        loop {
            let before = version(&raw.get(&raw.maps()).await.ok());
            dry_runs().await;
            if version(&raw.get(&raw.maps()).await.ok()) == before {
                break;
            }
        }
        raw.post(&raw.maps(), &named("z")).await.ok();
        let mut events = raw.watch(&format!("{}?watch=1&resourceVersion={from}", raw.maps())).await;
        assert_eq!(events.next_line().await, "ADDED z");
    }

    /// docs/apiserver.md: rows 20, 94, 95, 96.
    async fn jobs_and_replication_controllers_orphan_their_dependents_by_default(cluster: Cluster) {
        const WARNING: &str = "299 - \"child pods are preserved by default when jobs are deleted; set \
            propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
            this warning\"";
        let raw = Raw::new(&cluster).await;
        let jobs = raw.at("/apis/batch/v1", "jobs");
        let template = |policy: &str| json!({
            "metadata": { "labels": { "a": "b" } },
            "spec": { "restartPolicy": policy, "containers": [{ "name": "c", "image": "i" }] },
        });
        for name in ["a", "b", "c", "d"] {
            let job = json!({ "metadata": { "name": name }, "spec": { "template": template("Never") } });
            raw.post(&jobs, &job).await.ok();
        }
        let path = |name: &str| format!("{jobs}/{name}");
        let orphan = json!(["orphan"]);
        let tried = raw.delete(&format!("{}?dryRun=All", path("a"))).await;
        assert_eq!(tried.warnings, [WARNING]);
        assert_eq!(tried.ok()["metadata"]["finalizers"], orphan);
        let dying = raw.delete(&path("a")).await;
        assert_eq!((dying.code, &dying.warnings[..]), (200, &[WARNING.to_owned()][..]));
        assert_eq!(dying.ok()["metadata"]["finalizers"], orphan);
        let missing = raw.delete(&path("missing")).await;
        assert_eq!((missing.code, &missing.warnings[..]), (404, &[WARNING.to_owned()][..]));
        // A policy, or a finalizer of the object, comes before the default.
        let gone = raw.delete(&format!("{}?propagationPolicy=Background", path("b"))).await;
        assert_eq!(gone.warnings, [""; 0]);
        assert_eq!(gone.ok()["status"], "Success");
        let foreground = json!({ "metadata": { "finalizers": ["foregroundDeletion"] } });
        raw.merge(&path("c"), &foreground).await.ok();
        let dying = raw.delete(&path("c")).await.ok();
        assert_eq!(dying["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        let before = raw.get(&jobs).await.ok();
        let deleted = raw.delete(&jobs).await;
        assert_eq!(deleted.warnings, [WARNING]);
        assert_eq!(deleted.ok()["items"], before["items"], "the objects as they were");
        assert_eq!(raw.get(&path("d")).await.ok()["metadata"]["finalizers"], orphan);

        let controllers = raw.at("/api/v1", "replicationcontrollers");
        let spec = json!({ "selector": { "a": "b" }, "template": template("Always") });
        raw.post(&controllers, &json!({ "metadata": { "name": "a" }, "spec": spec })).await.ok();
        let dying = raw.delete(&format!("{controllers}/a")).await;
        assert_eq!(dying.warnings, [""; 0]);
        assert_eq!(dying.ok()["metadata"]["finalizers"], orphan);
    }

    /// docs/apiserver.md: row 94.
    async fn an_event_waits_for_no_dependents(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let events = raw.at("/api/v1", "events");
        for (name, policy) in [("a", "Orphan"), ("b", "Foreground"), ("c", "")] {
            let event = json!({
                "metadata": { "name": name, "finalizers": ["orphan"] },
                "involvedObject": { "namespace": raw.namespace },
            });
            raw.post(&events, &event).await.ok();
            let query = if policy.is_empty() { String::new() } else { format!("?propagationPolicy={policy}") };
            let gone = raw.delete(&format!("{events}/{name}{query}")).await.ok();
            assert_eq!(gone["status"], "Success", "{policy}");
        }
    }
}
