//! The metadata of objects: which fields the server sets, and which ones a client may set.

use serde_json::json;

use super::raw::{Raw, named, version};
use super::widget::Widget;

on_both_servers! {
    /// docs/apiserver.md: row 24.
    async fn a_create_returns_the_fields_that_the_server_set(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let answer = raw.post(&raw.maps(), &json!({ "metadata": {
            "name": "a",
            "uid": "mine",
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "deletionTimestamp": "2001-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 3,
        } })).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        let metadata = &answer.body["metadata"];
        assert_eq!(metadata["uid"].as_str().map(str::len), Some(36), "{metadata}");
        let born = metadata["creationTimestamp"].as_str().expect("a time");
        assert!(born.len() == 20 && born.ends_with('Z') && !born.starts_with("2001"), "{born}");
        assert_eq!(metadata.get("deletionTimestamp"), None);
        assert_eq!(metadata.get("deletionGracePeriodSeconds"), None);
        assert_eq!((&answer.body["apiVersion"], &answer.body["kind"]), (&json!("v1"), &json!("ConfigMap")));
    }

    /// docs/apiserver.md: rows 14, 25.
    async fn a_create_with_a_version_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let body = json!({ "metadata": { "name": "a", "resourceVersion": "1" } });
        let message = raw.post(&raw.maps(), &body).await.refused(500, "");
        assert_eq!(message, "resourceVersion should not be set on objects to be created");
    }

    /// docs/apiserver.md: row 36.
    async fn a_finalizer_without_a_domain_is_rejected_or_reported(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let finalizers = json!({ "metadata": { "name": "a", "finalizers": ["cleanup"] } });
        let why = raw.post(&raw.maps(), &finalizers).await.refused(422, "Invalid");
        let expected = "name is neither a standard finalizer name nor is it fully qualified";
        assert!(why.contains(expected), "{why}");
        let both = json!({ "metadata": { "name": "a", "finalizers": ["orphan", "a.b/c", "foregroundDeletion"] } });
        let why = raw.post(&raw.maps(), &both).await.refused(422, "Invalid");
        assert!(why.ends_with("finalizer orphan and foregroundDeletion cannot be both set"), "{why}");
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        let mut object = widget.object("a", &json!({}));
        object["metadata"]["finalizers"] = json!(["cleanup"]);
        let answer = raw.post(&widget.all(), &object).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        assert!(answer.warning.contains("prefer a domain-qualified finalizer name"), "{}", answer.warning);
    }

    /// docs/apiserver.md: row 26.
    async fn a_name_is_generated_from_a_prefix(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let long = "x".repeat(70);
        for (base, kept) in [("web-", "web-"), (long.as_str(), &long[..58])] {
            let body = json!({ "metadata": { "generateName": base } });
            let created = raw.post(&raw.maps(), &body).await.ok();
            let name = created["metadata"]["name"].as_str().expect("a name");
            let random = name.strip_prefix(kept).expect("it begins so");
            let known = |c: char| "bcdfghjklmnpqrstvwxz2456789".contains(c);
            assert!(random.len() == 5 && random.chars().all(known), "{name}");
            assert_eq!(created["metadata"]["generateName"], base);
        }
        let both = json!({ "metadata": { "name": "mine", "generateName": "web-" } });
        assert_eq!(raw.post(&raw.maps(), &both).await.ok()["metadata"]["name"], "mine");
        let again = raw.post(&raw.maps(), &both).await;
        assert_eq!(again.body["details"]["retryAfterSeconds"], 1);
        assert_eq!(again.refused(409, "AlreadyExists"), "configmaps \"mine\" already exists, the \
            server was not able to generate a unique name for the object");
    }

    /// docs/apiserver.md: row 27.
    async fn an_object_needs_a_name(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let message = raw.post(&raw.maps(), &json!({})).await.refused(422, "Invalid");
        assert!(message.contains("metadata.name: Required value: name or generateName is required"), "{message}");
    }

    /// docs/apiserver.md: row 28.
    async fn the_name_of_an_address_is_the_address(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let addresses = "/apis/networking.k8s.io/v1/ipaddresses?dryRun=All";
        let invalid = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        for (name, error) in [
            ("10.9.8.7", ""),
            ("fd00::1", ""),
            ("1:0:0:2::", ""),
            ("a", invalid),
            ("1.2.3", invalid),
            ("1..2.3", invalid),
            ("010.0.0.1", "must not have leading 0s"),
            ("1.2.3.00", "must not have leading 0s"),
            ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
            ("fd00::0:1", "must be in canonical form (\"fd00::1\")"),
            ("FD00::1", "must be in canonical form (\"fd00::1\")"),
        ] {
            let address = json!({
                "metadata": { "name": name },
                "spec": { "parentRef": { "resource": "services", "namespace": "default", "name": "a" } },
            });
            let answer = raw.post(addresses, &address).await;
            if error.is_empty() {
                assert_eq!(answer.code, 201, "{}", answer.text);
                continue;
            }
            assert_eq!(answer.refused(422, "Invalid"), format!(
                "IPAddress.networking.k8s.io {name:?} is invalid: metadata.name: Invalid value: {name:?}: {error}"
            ));
        }
    }

    /// docs/apiserver.md: row 28.
    async fn names_labels_and_annotations_have_their_syntax(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (metadata, field) in [
            (json!({ "name": "a/b" }), "metadata.name"),
            (json!({ "name": "-a" }), "metadata.name"),
            (json!({ "name": "x".repeat(254) }), "metadata.name"),
            (json!({ "name": "a", "labels": { "a b": "c" } }), "metadata.labels"),
            (json!({ "name": "a", "labels": { "a": "not a value" } }), "metadata.labels"),
            (json!({ "name": "a", "labels": { "a": "x".repeat(64) } }), "metadata.labels"),
            (json!({ "name": "a", "annotations": { "-": "" } }), "metadata.annotations"),
            (json!({ "name": "a", "annotations": { "a": "x".repeat(256 << 10) } }), "metadata.annotations"),
        ] {
            let answer = raw.post(&raw.maps(), &json!({ "metadata": metadata })).await;
            let found = &answer.body["details"]["causes"][0]["field"];
            assert_eq!(*found, field, "{}", answer.body["message"]);
            answer.refused(422, "Invalid");
        }
    }

    /// docs/apiserver.md: row 30.
    async fn one_counter_counts_all_writes(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let leases = raw.at("/apis/coordination.k8s.io/v1", "leases");
        let mut last = 0;
        for (place, name) in [(raw.maps(), "a"), (leases, "a"), (raw.maps(), "b")] {
            let created = version(&raw.post(&place, &named(name)).await.ok());
            assert!(created > last, "{created} after {last}");
            last = created;
        }
        let secrets = raw.get(&raw.at("/api/v1", "secrets")).await.ok();
        assert!(version(&secrets) >= last, "a list tells the counter, not its newest item");
    }

    /// docs/apiserver.md: row 31.
    async fn a_config_map_has_no_generation(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let change = json!({ "data": { "k": "v" } });
        let changed = raw.merge(&format!("{}/a", raw.maps()), &change).await.ok();
        assert_eq!(changed["metadata"].get("generation"), None);
    }

    /// docs/apiserver.md: row 31.
    async fn a_generation_counts_changes_of_the_spec(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let deployments = raw.at("/apis/apps/v1", "deployments");
        let body = json!({ "metadata": { "name": "d", "generation": 7 }, "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "a", "image": "a" }] },
            },
        } });
        let created = raw.post(&deployments, &body).await.ok();
        assert_eq!(created["metadata"]["generation"], 1);
        let path = format!("{deployments}/d");
        for (part, change, generation) in [
            ("", json!({ "metadata": { "labels": { "a": "b" } } }), 1),
            ("", json!({ "spec": { "paused": true } }), 2),
            ("/status", json!({ "status": { "replicas": 1 }, "spec": { "paused": false } }), 2),
            ("", json!({ "metadata": { "generation": 9, "finalizers": ["test.windlass.dev/a"] } }), 2),
        ] {
            let changed = raw.merge(&format!("{path}{part}"), &change).await.ok();
            assert_eq!(changed["metadata"]["generation"], generation, "{change}");
        }
        let dying = raw.delete(&path).await.ok();
        assert_eq!(dying["metadata"]["generation"], 3, "to die is a wish too");
    }

    /// docs/apiserver.md: row 33.
    async fn fields_set_by_the_server_are_immutable(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        let dying = json!({ "metadata": { "deletionTimestamp": "2001-01-01T00:00:00Z" } });
        let message = raw.merge(&path, &dying).await.refused(422, "Invalid");
        assert!(message.contains("metadata.deletionTimestamp") && message.ends_with("field is immutable"), "{message}");
        let older = json!({ "metadata": { "creationTimestamp": "2001-01-01T00:00:00Z" } });
        raw.merge(&path, &older).await.ok();
        raw.merge(&path, &json!({ "metadata": { "name": "b" } })).await.refused(400, "BadRequest");
        let now = raw.get(&path).await.ok();
        for member in ["name", "uid", "creationTimestamp"] {
            assert_eq!(now["metadata"][member], created["metadata"][member]);
        }
        assert_eq!(now["metadata"].get("deletionTimestamp"), None);
    }

    /// docs/apiserver.md: row 34.
    async fn an_update_with_another_uid_is_a_conflict(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let other = json!({ "metadata": { "name": "a", "uid": "other" } });
        let message = raw.put(&format!("{}/a", raw.maps()), &other).await.refused(409, "Conflict");
        let uid = created["metadata"]["uid"].as_str().expect("a uid");
        let expected = format!("Precondition failed: UID in precondition: other, UID in object meta: {uid}");
        assert!(message.starts_with("Operation cannot be fulfilled on configmaps \"a\": "), "{message}");
        assert!(message.ends_with(&expected), "{message}");
    }

    /// docs/apiserver.md: row 35.
    async fn owner_references_are_complete_and_only_one_is_the_controller(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let owner = |name: &str| json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true,
        });
        for member in ["apiVersion", "kind", "name", "uid"] {
            let mut owner = owner("o");
            owner[member] = "".into();
            let body = json!({ "metadata": { "name": "a", "ownerReferences": [owner] } });
            let message = raw.post(&raw.maps(), &body).await.refused(422, "Invalid");
            assert!(message.contains("metadata.ownerReferences") && message.contains(member), "{message}");
        }
        let two = json!({ "metadata": { "name": "a", "ownerReferences": [owner("o"), owner("p")] } });
        let message = raw.post(&raw.maps(), &two).await.refused(422, "Invalid");
        assert!(message.contains("Only one reference can have Controller set to true"), "{message}");
        let one = json!({ "metadata": { "name": "a", "ownerReferences": [owner("o")] } });
        let created = raw.post(&raw.maps(), &one).await.ok();
        assert_eq!(created["metadata"]["ownerReferences"], json!([owner("o")]));
    }
}
