//! Updates, patches and dry runs.

use serde_json::{Value, json};

use super::raw::{Raw, named, names, version};
use super::widget::Widget;

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

    /// docs/apiserver.md: rows 3, 7.
    async fn a_conflict_names_the_object_and_its_resource(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        let group = widget.group.as_str();
        for (all, resource, object) in [
            (widget.all(), format!("widgets.{group}"), widget.object("a", &json!({}))),
            (raw.maps(), "configmaps".to_owned(), named("a")),
            (raw.at("/apis/apps/v1", "controllerrevisions"), "controllerrevisions.apps".to_owned(), json!({
                "metadata": { "name": "a" }, "revision": 1, "data": { "a": 1 },
            })),
        ] {
            let path = format!("{all}/a");
            let mut stale = raw.post(&all, &object).await.ok();
            let label = |value: &str| json!({ "metadata": { "labels": { "a": value } } });
            let current = raw.merge(&path, &label("b")).await.ok();
            stale["metadata"]["labels"] = json!({ "a": "c" });
            let mut change = label("c");
            change["metadata"]["resourceVersion"] = stale["metadata"]["resourceVersion"].clone();
            let mut config = stale.clone();
            config["metadata"].as_object_mut().expect("metadata").remove("managedFields");
            let answers = [
                raw.put(&path, &stale).await,
                raw.merge(&path, &change).await,
                raw.apply(&format!("{path}?force=true"), "me", &config).await,
            ];
            let kind = resource.split('.').next();
            let mut details = json!({ "name": "a", "kind": kind });
            if let Some((_, group)) = resource.split_once('.') {
                details["group"] = group.into();
            }
            for answer in answers {
                assert_eq!(answer.body["details"], details);
                assert_eq!(answer.refused(409, "Conflict"), format!(
                    "Operation cannot be fulfilled on {resource} \"a\": the object has been modified; \
                     please apply your changes to the latest version and try again"
                ));
            }
            assert_eq!(raw.get(&path).await.ok(), current);
        }
    }

    /// docs/apiserver.md: row 75.
    async fn a_missing_object_is_not_updated(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        assert_eq!(raw.put(&path, &named("a")).await.refused(404, "NotFound"), "configmaps \"a\" not found");
        raw.merge(&path, &json!({})).await.refused(404, "NotFound");
        raw.delete(&path).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: row 76.
    async fn a_kind_without_a_status_has_no_status_subresource(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a/status", raw.maps());
        raw.get(&path).await.refused(404, "NotFound");
        raw.merge(&path, &json!({})).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: row 79.
    async fn a_malformed_json_patch_is_rejected(cluster: Cluster) {
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
    async fn the_operations_of_a_json_patch_are_applied_in_order(cluster: Cluster) {
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
    async fn a_null_in_a_merge_patch_removes_the_member(cluster: Cluster) {
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
    async fn a_patch_with_a_version_requires_that_version(cluster: Cluster) {
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

    /// docs/apiserver.md: rows 78, 80.
    async fn a_list_that_a_strategic_patch_replaces_keeps_its_nulls(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = raw.at("/api/v1", "limitranges");
        let limits = |min: Value| json!({
            "metadata": { "name": "l" },
            "spec": { "limits": [{ "type": "Pod", "max": { "cpu": "2" }, "min": min }] },
        });
        raw.post(&path, &limits(json!({ "memory": "1Mi" }))).await.ok();
        let path = format!("{path}/l");
        // Go reads a null as the quantity zero.
        for (kind, min) in [("strategic-merge", json!({ "memory": "0" })), ("merge", Value::Null)] {
            let change = limits(json!({ "memory": null })).to_string();
            let patched = raw.patch(&path, kind, &change).await.ok();
            assert_eq!(patched["spec"]["limits"][0]["min"], min, "{kind}");
        }

        let path = raw.at("/apis/apps/v1", "deployments");
        let container = |name: &str| json!({ "name": name, "image": "x" });
        let deployment = |container: &Value| json!({ "metadata": { "name": "d" }, "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [container] } },
        } });
        raw.post(&path, &deployment(&container("a"))).await.ok();
        let mut added = container("b");
        added["resources"] = json!({ "limits": { "cpu": null } });
        let change = deployment(&added).to_string();
        let patched = raw.patch(&format!("{path}/d"), "strategic-merge", &change).await.ok();
        let first = &patched["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(first["resources"], json!({ "limits": { "cpu": "0" } }));

        // The selector is replaced too, but there the real server drops nulls if it is new.
        let path = raw.at("/apis/policy/v1", "poddisruptionbudgets");
        raw.post(&path, &json!({ "metadata": { "name": "p" }, "spec": { "minAvailable": 1 } })).await.ok();
        let change = json!({ "spec": { "selector": { "matchLabels": { "a": null } } } }).to_string();
        for selector in [json!({}), json!({ "matchLabels": { "a": "" } })] {
            let patched = raw.patch(&format!("{path}/p"), "strategic-merge", &change).await.ok();
            assert_eq!(patched["spec"]["selector"], selector);
        }
    }

    /// docs/apiserver.md: row 8.
    async fn a_value_that_its_type_refuses_is_reported_before_a_field_of_the_wrong_type(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let leases = raw.at("/apis/coordination.k8s.io/v1", "leases");
        let claims = raw.at("/api/v1", "persistentvolumeclaims");
        let secrets = raw.at("/api/v1", "secrets");
        for (path, object, error) in [
            (&leases, json!({ "metadata": [1], "spec": { "renewTime": "x" } }), "parsing time \"x\""),
            (
                &leases, json!({ "metadata": [1], "spec": { "leaseDurationSeconds": "x" } }),
                "json: cannot unmarshal array into Go struct field Lease.metadata",
            ),
            (
                &leases, json!({ "spec": { "leaseDurationSeconds": 4_294_967_296_u64, "renewTime": "x" } }),
                "parsing time \"x\"",
            ),
            (
                &claims, json!({ "spec": { "accessModes": [1], "resources": { "requests": { "storage": "x" } } } }),
                "quantities must match",
            ),
            (
                &secrets, json!({ "data": { "a": "?" }, "metadata": { "creationTimestamp": "x" } }),
                "parsing time \"x\"",
            ),
            (&secrets, json!({ "data": { "a": "?" }, "immutable": 1 }), "illegal base64 data"),
        ] {
            let message = raw.post(path, &object).await.refused(400, "BadRequest");
            assert!(message.contains(&format!(": {error}")), "{message}");
        }
    }

    /// docs/apiserver.md: rows 11, 78.
    async fn a_patch_of_an_unknown_type_is_refused(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        raw.patch(&path, "guess", "{}").await.refused(415, "UnsupportedMediaType");
    }

    /// docs/apiserver.md: row 96.
    async fn a_dry_run_returns_the_object_and_stores_nothing(cluster: Cluster) {
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
    async fn a_dry_run_has_one_value_and_only_patches_can_be_forced(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        raw.post(&format!("{maps}?force=true"), &named("a")).await.ok();
        raw.put(&format!("{maps}/a?force=true"), &named("a")).await.ok();
        raw.merge(&format!("{maps}/a?force=true"), &json!({})).await.refused(422, "Invalid");
        for (query, value) in [("dryRun=", "[\"\"]"), ("dryRun=All&dryRun=x", "[\"All\",\"x\"]")] {
            let created = raw.post(&format!("{maps}?{query}"), &named("b")).await;
            let updated = raw.put(&format!("{maps}/a?{query}"), &named("a")).await;
            let patched = raw.merge(&format!("{maps}/a?{query}"), &json!({ "data": { "k": "v" } })).await;
            for (answer, kind) in [(created, "Create"), (updated, "Update"), (patched, "Patch")] {
                assert_eq!(answer.refused(422, "Invalid"), format!(
                    "{kind}Options.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: {value}: \
                     supported values: \"All\""
                ));
            }
        }
        raw.post(&format!("{maps}?dryRun=All&dryRun=All"), &named("b")).await.ok();
        let list = raw.get(&maps).await.ok();
        assert_eq!(names(&list), "a");
        assert_eq!(list["items"][0].get("data"), None);
    }

    /// docs/apiserver.md: rows 74, 79.
    async fn a_patch_cannot_remove_the_version_of_some_kinds(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        widget.create("a", &json!({})).await;
        let lease = raw.at("/apis/coordination.k8s.io/v1", "leases");
        raw.post(&lease, &named("a")).await.ok();
        raw.post(&raw.maps(), &named("a")).await.ok();
        let without = json!({ "metadata": { "resourceVersion": null, "labels": { "a": "b" } } });
        for path in [format!("{lease}/a"), widget.one("a")] {
            let remove = r#"[{"op":"remove","path":"/metadata/resourceVersion"}]"#;
            for answer in [raw.merge(&path, &without).await, raw.patch(&path, "json", remove).await] {
                let why = answer.refused(422, "Invalid");
                let expected = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
                assert!(why.ends_with(expected), "{why}");
            }
        }
        raw.merge(&format!("{}/a", raw.maps()), &without).await.ok();
    }

    /// docs/apiserver.md: rows 33, 34, 78, 79.
    async fn a_patch_changes_neither_the_type_nor_the_uid(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        widget.create("a", &json!({})).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let (map, custom) = (format!("{}/a", raw.maps()), widget.one("a"));
        for path in [&map, &custom] {
            let why = raw.merge(path, &json!({ "metadata": { "uid": "other" } })).await;
            let why = why.refused(422, "Invalid");
            assert!(why.ends_with("metadata.uid: Invalid value: \"other\": field is immutable"), "{why}");
        }
        // A strategic merge patch is decoded as the type of the object.
        for change in [json!({ "kind": "Secret" }), json!({ "apiVersion": "v2" })] {
            let patched = raw.patch(&map, "strategic-merge", &change.to_string()).await.ok();
            assert_eq!((&patched["apiVersion"], &patched["kind"]), (&json!("v1"), &json!("ConfigMap")));
            let why = raw.merge(&map, &change).await.refused(422, "Invalid");
            assert!(why.starts_with(" \"\" is invalid: patch: Invalid value: "), "{why}");
        }
        let group = &widget.group;
        for (change, expected) in [
            (json!({ "kind": "Foo" }), format!("Foo.{group} \"a\" is invalid: kind: Invalid value: \"Foo\": must be Widget")),
            (json!({ "apiVersion": "v2" }), format!("Widget \"a\" is invalid: apiVersion: Invalid value: \"v2\": must be {group}/v1")),
            (json!({ "apiVersion": "foo/v2" }), format!("Widget.foo \"a\" is invalid: apiVersion: Invalid value: \"foo/v2\": must be {group}/v1")),
            (json!({ "apiVersion": "v2", "kind": "Foo" }), format!(
                "Foo \"a\" is invalid: [kind: Invalid value: \"Foo\": must be Widget, apiVersion: Invalid value: \
                 \"v2\": must be {group}/v1]"
            )),
        ] {
            assert_eq!(raw.merge(&custom, &change).await.refused(422, "Invalid"), expected);
        }
        let why = raw.merge(&custom, &json!({ "kind": null })).await.refused(422, "Invalid");
        assert!(why.contains("Object 'Kind' is missing"), "{why}");
        raw.merge(&custom, &json!({ "apiVersion": null })).await.refused(500, "InternalError");
        let labels = json!({ "metadata": { "labels": { "a": 1 } } });
        for path in [&map, &custom] {
            let why = raw.merge(path, &labels).await.refused(422, "Invalid");
            assert!(why.starts_with(" \"\" is invalid: patch: Invalid value: "), "{why}");
        }
    }

    /// docs/apiserver.md: rows 78, 79.
    async fn the_operations_of_a_json_patch_are_decoded_before_they_are_applied(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        widget.create("a", &json!({})).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let (map, custom) = (format!("{}/a", raw.maps()), widget.one("a"));
        let list = "Go value of type []handlers.jsonPatchOp";
        let item = "Go value of type handlers.jsonPatchOp";
        for path in [&map, &custom] {
            for (patch, what) in [
                ("{}", format!("object into {list}")),
                ("1", format!("number into {list}")),
                ("[[]]", format!("array into {item}")),
                ("[\"x\"]", format!("string into {item}")),
                ("[true]", format!("bool into {item}")),
                (r#"[{"op":1}]"#, "number into Go struct field jsonPatchOp.op of type string".to_owned()),
                (r#"[{"op":"test","path":1}]"#, "number into Go struct field jsonPatchOp.path of type string".to_owned()),
                (r#"[{"from":{}}]"#, "object into Go struct field jsonPatchOp.from of type string".to_owned()),
            ] {
                let why = raw.patch(path, "json", patch).await.refused(400, "BadRequest");
                assert_eq!(why, format!("error decoding patch: json: cannot unmarshal {what}"));
            }
            for patch in [
                "[null]", "[{}]", r#"[{"op":"nope","path":"/a"}]"#, r#"[{"op":"add"}]"#,
                r#"[{"op":null,"path":"/a"}]"#, r#"[{"op":"move","path":"/a"}]"#, r#"[{"op":"add","path":"x","value":1}]"#,
            ] {
                let why = raw.patch(path, "json", patch).await.refused(422, "Invalid");
                assert_eq!(why, "the server rejected our request due to an error in our request", "{patch}");
                let absent = raw.patch(&format!("{path}2"), "json", patch).await;
                absent.refused(404, "NotFound");
            }
            let before = raw.get(path).await.ok();
            assert_eq!(raw.patch(path, "json", "null").await.ok(), before);
            let why = raw.patch(path, "merge", "null").await.refused(400, "BadRequest");
            assert_eq!(why, "Invalid JSON Patch");
            raw.patch(&format!("{path}2"), "merge", "null").await.refused(404, "NotFound");
            let why = raw.patch(path, "merge", "[]").await.refused(400, "BadRequest");
            assert_eq!(why, "error decoding patch: json: cannot unmarshal array into Go value of type \
                map[string]interface {}");
        }
        // A value that is not there is `null`.
        let data = json!({ "data": { "k": "v" } });
        for operation in ["add", "replace"] {
            raw.merge(&map, &data).await.ok();
            let patch = format!(r#"[{{"op":"{operation}","path":"/data"}}]"#);
            assert_eq!(raw.patch(&map, "json", &patch).await.ok().get("data"), None, "{operation}");
        }
        let before = raw.get(&map).await.ok();
        assert_eq!(raw.patch(&map, "strategic-merge", "null").await.ok(), before);
        let why = raw.patch(&map, "strategic-merge", "[]").await.refused(400, "BadRequest");
        assert_eq!(why, "json: cannot unmarshal array into Go value of type map[string]interface {}");
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

    /// docs/apiserver.md: row 75.
    async fn an_update_of_some_kinds_creates_what_is_missing(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" });
        let name = raw.namespace.clone();
        for (path, mut object) in [
            (raw.at("/api/v1", "endpoints"), json!({})),
            (raw.at("/api/v1", "events"), json!({ "involvedObject": { "namespace": name } })),
            (raw.at("/api/v1", "limitranges"), json!({})),
            (raw.at("/api/v1", "services"), json!({ "spec": { "ports": [{ "port": 80 }] } })),
            (raw.at("/apis/coordination.k8s.io/v1", "leases"), json!({})),
            (raw.at(rbac, "roles"), json!({ "rules": [] })),
            (raw.at(rbac, "rolebindings"), json!({ "roleRef": role })),
            (format!("{rbac}/clusterroles"), json!({ "rules": [] })),
            (format!("{rbac}/clusterrolebindings"), json!({ "roleRef": role })),
            ("/apis/node.k8s.io/v1/runtimeclasses".to_owned(), json!({ "handler": "x" })),
        ] {
            object["metadata"] = json!({ "name": name });
            let path = format!("{path}/{name}");
            let tried = raw.put(&format!("{path}?dryRun=All"), &object).await;
            assert_eq!(tried.code, 201, "{path}: {}", tried.text);
            raw.get(&path).await.refused(404, "NotFound");
            let created = raw.put(&format!("{path}?fieldManager=me"), &object).await;
            assert_eq!(created.code, 201, "{path}: {}", created.text);
            let created = created.ok();
            assert_eq!(raw.get(&path).await.ok(), created);
            assert!(created["metadata"]["uid"].is_string(), "{path}");
            if let Some(entries) = created["metadata"]["managedFields"].as_array() {
                assert_eq!(entries.len(), 1, "{path}");
                assert_eq!((&entries[0]["manager"], &entries[0]["operation"]), (&json!("me"), &json!("Update")));
            }
            assert_eq!(raw.put(&path, &created).await.code, 200, "{path}");
        }
    }

    /// docs/apiserver.md: row 75.
    async fn a_creating_update_is_checked_like_any_other(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let leases = raw.at("/apis/coordination.k8s.io/v1", "leases");
        let old = json!({ "metadata": { "name": "a", "resourceVersion": "5" }, "spec": {} });
        let created = raw.put(&format!("{leases}/a"), &old).await;
        assert_eq!(created.code, 201, "{}", created.text);
        let message = raw.put(&format!("{leases}/b"), &named("c")).await.refused(400, "BadRequest");
        assert_eq!(message, "the name of the object (c) does not match the name on the URL (b)");
        let other = json!({ "metadata": { "name": "b", "uid": "5" } });
        let message = raw.put(&format!("{leases}/b"), &other).await.refused(409, "Conflict");
        assert!(message.ends_with("Precondition failed: UID in precondition: 5, UID in object meta: "), "{message}");
        let wrong = json!({ "metadata": { "name": "b" }, "spec": { "leaseDurationSeconds": -1 } });
        raw.put(&format!("{leases}/b"), &wrong).await.refused(422, "Invalid");
        let nowhere = "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases/b";
        raw.put(nowhere, &named("b")).await.refused(404, "NotFound");
        raw.merge(&format!("{leases}/b"), &json!({})).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: row 78.
    async fn an_index_of_a_json_patch_may_count_from_the_end(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let body = json!({ "metadata": { "name": "a", "finalizers": ["a.b/1", "a.b/2", "a.b/3"] } });
        raw.post(&raw.maps(), &body).await.ok();
        let path = format!("{}/a?dryRun=All", raw.maps());
        let list = "/metadata/finalizers";
        for (operation, expected) in [
            (json!({ "op": "test", "path": "-1", "value": "a.b/3" }), Some("1 2 3")),
            (json!({ "op": "add", "path": "-1", "value": "a.b/4" }), Some("1 2 3 4")),
            (json!({ "op": "add", "path": "-4", "value": "a.b/4" }), Some("4 1 2 3")),
            (json!({ "op": "add", "path": "-5", "value": "a.b/4" }), None),
            (json!({ "op": "add", "path": "-0", "value": "a.b/4" }), Some("4 1 2 3")),
            (json!({ "op": "add", "path": "01", "value": "a.b/4" }), Some("1 4 2 3")),
            (json!({ "op": "remove", "path": "-1" }), Some("1 2")),
            (json!({ "op": "remove", "path": "-4" }), None),
            (json!({ "op": "remove", "path": "-" }), None),
            (json!({ "op": "replace", "path": "-2", "value": "a.b/9" }), Some("1 9 3")),
            (json!({ "op": "replace", "path": "-4", "value": "a.b/9" }), None),
            (json!({ "op": "test", "path": "+1", "value": "a.b/2" }), Some("1 2 3")),
            (json!({ "op": "test", "path": "-4", "value": null }), None),
            (json!({ "op": "move", "from": "-1", "path": "0" }), Some("3 1 2")),
            (json!({ "op": "move", "from": "0", "path": "-1" }), Some("2 3 1")),
            (json!({ "op": "move", "from": "0", "path": "-2" }), Some("2 1 3")),
        ] {
            let mut operation = operation;
            for field in ["path", "from"] {
                if let Some(index) = operation[field].as_str() {
                    operation[field] = format!("{list}/{index}").into();
                }
            }
            let answer = raw.patch(&path, "json", &json!([operation]).to_string()).await;
            let Some(expected) = expected else {
                assert_eq!(answer.code, 422, "{operation}: {}", answer.text);
                continue;
            };
            let patched = answer.ok();
            let items = patched["metadata"]["finalizers"].as_array().expect("a list").iter();
            let numbers: Vec<_> = items.filter_map(|item| item.as_str()?.strip_prefix("a.b/")).collect();
            assert_eq!(numbers.join(" "), expected, "{operation}");
        }
    }

    /// docs/apiserver.md: row 80.
    async fn an_item_of_a_strategic_patch_needs_its_key(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let container = json!({ "name": "c", "image": "i", "env": [{ "name": "a", "value": "b" }] });
        let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [container] } });
        let pods = raw.at("/api/v1", "pods");
        raw.post(&pods, &pod).await.ok();
        let path = format!("{pods}/p?dryRun=All");
        let lacks = |item: &str| format!("map: map[{item}] does not contain declared merge key: name");
        for (containers, message) in [
            (json!([{ "image": "x" }]), lacks("image:x")),
            (json!([{ "name": "c", "env": [{ "value": "x" }] }]), lacks("value:x")),
            (json!([{ "$patch": "delete" }]), lacks("$patch:delete")),
            (json!([{ "$patch": "some", "name": "c" }]), "unknown patch type: some in map: map[$patch:some name:c]".to_owned()),
            (json!([{ "$patch": "merge", "name": "c" }]), "merging lists cannot yet be specified in the patch".to_owned()),
        ] {
            let change = json!({ "spec": { "containers": containers } });
            let answer = raw.patch(&path, "strategic-merge", &change.to_string()).await;
            assert_eq!(answer.body["message"], message, "{change}");
            assert_eq!((answer.code, answer.body.get("reason")), (500, None), "{change}");
        }
        let order = json!({ "spec": {
            "$setElementOrder/containers": [{ "x": "c" }], "containers": [{ "name": "c", "image": "x" }],
        } });
        let answer = raw.patch(&path, "strategic-merge", &order.to_string()).await;
        assert_eq!((answer.code, answer.body["message"].as_str()), (500, Some(&*lacks("x:c"))));
        // Nothing is merged into a list that is not there.
        let change = json!({ "spec": { "initContainers": [{ "image": "x" }] } });
        raw.patch(&path, "strategic-merge", &change.to_string()).await.refused(422, "Invalid");
    }

    /// What may not be changed: docs/apiserver.md, "Built-in kinds".
    async fn the_template_of_a_suspended_job_may_be_moved_to_other_nodes(cluster: Cluster) {
        cluster.require_the_default_version();
        let raw = Raw::new(&cluster).await;
        let jobs = raw.at("/apis/batch/v1", "jobs");
        let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "i" }],
            "affinity": { "nodeAffinity": {}, "podAntiAffinity": {} },
        } });
        for (name, suspend, status) in [
            ("suspended", true, json!({})),
            ("stopped", true, json!({
                "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{ "type": "Suspended", "status": "True" }],
            })),
            ("stopping", true, json!({ "startTime": "2026-01-01T00:00:00Z" })),
            ("running", false, json!({})),
        ] {
            let job = json!({ "metadata": { "name": name }, "spec": { "suspend": suspend, "template": template } });
            raw.post(&jobs, &job).await.ok();
            raw.merge(&format!("{jobs}/{name}/status"), &json!({ "status": status })).await.ok();
        }
        let requests = json!({ "requests": { "cpu": "1" } });
        for (change, is_free) in [
            (json!({ "spec": { "nodeSelector": { "a": "b" } } }), true),
            (json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } }), true),
            (json!({ "spec": { "schedulingGates": [{ "name": "a.b/c" }] } }), true),
            (json!({ "spec": { "affinity": { "nodeAffinity": null } } }), true),
            (json!({ "spec": { "affinity": { "podAntiAffinity": null } } }), false),
            (json!({ "spec": { "affinity": null } }), false),
            (json!({ "spec": { "containers": [{ "name": "c", "image": "i", "resources": requests }] } }), true),
            (json!({ "spec": { "containers": [{ "name": "c", "image": "j" }] } }), false),
            (json!({ "spec": { "terminationGracePeriodSeconds": 5 } }), false),
            (json!({ "metadata": { "labels": { "c": "d" } } }), true),
            (json!({ "metadata": { "annotations": { "c": "d" } } }), true),
        ] {
            let change = json!({ "spec": { "template": change } });
            for (name, may_change) in [("suspended", true), ("stopped", true), ("stopping", false), ("running", false)] {
                let answer = raw.merge(&format!("{jobs}/{name}?dryRun=All"), &change).await;
                if may_change && is_free {
                    assert_eq!(answer.code, 200, "{name} {change}: {}", answer.text);
                    continue;
                }
                let at = if may_change { "spec.template.spec" } else { "spec.template" };
                let start = format!("Job.batch \"{name}\" is invalid: {at}: Invalid value:");
                let message = answer.refused(422, "Invalid");
                assert!(message.starts_with(&start) && message.ends_with(": field is immutable"), "{message}");
            }
        }
    }

    /// docs/apiserver.md: row 80.
    async fn directives_of_a_strategic_merge_patch_replace_and_remove(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let deployment = create_deployment(&raw).await;
        let path = format!("{deployment}?dryRun=All");
        let env = |name: &str| json!({ "name": name, "value": "1" });
        let template = |spec: Value| json!({ "spec": { "template": { "spec": spec } } });
        for (patch, pointer, expected) in [
            (json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } }),
                "/spec/strategy", json!({ "type": "Recreate" })),
            (json!({ "spec": { "strategy": { "$retainKeys": ["rollingUpdate"], "rollingUpdate": { "maxSurge": 2 } } } }),
                "/spec/strategy", json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 2, "maxUnavailable": 0 } })),
            (template(json!({ "volumes": [{ "name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {} }] })),
                "/spec/template/spec/volumes", json!([{ "name": "v", "emptyDir": {} }, { "name": "w", "emptyDir": {} }])),
            (json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["a.b/1", "a.b/3", "a.b/9"] } }),
                "/metadata/finalizers", json!(["a.b/2"])),
            (json!({ "metadata": { "finalizers": ["a.b/4", "a.b/2"] } }),
                "/metadata/finalizers", json!(["a.b/4", "a.b/1", "a.b/2", "a.b/3"])),
            (json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["a.b/1"], "$setElementOrder/finalizers": ["a.b/4", "a.b/3", "a.b/2"], "finalizers": ["a.b/4"] } }),
                "/metadata/finalizers", json!(["a.b/4", "a.b/3", "a.b/2"])),
            (json!({ "metadata": { "$setElementOrder/finalizers": ["a.b/3", "a.b/1"] } }),
                "/metadata/finalizers", json!(["a.b/2", "a.b/3", "a.b/1"])),
            (json!({ "metadata": { "labels": { "$patch": "replace", "c": "3" } } }),
                "/metadata/labels", json!({ "c": "3" })),
            (json!({ "metadata": { "labels": { "$patch": "delete" } } }), "/metadata/labels", Value::Null),
            (template(json!({ "securityContext": { "$patch": "replace", "runAsGroup": 3 } })),
                "/spec/template/spec/securityContext", json!({ "runAsGroup": 3 })),
            (template(json!({ "securityContext": { "$patch": "delete" } })),
                "/spec/template/spec/securityContext", json!({})),
            (template(json!({ "volumes": [{ "$patch": "replace" }, { "name": "x", "emptyDir": {} }] })),
                "/spec/template/spec/volumes", json!([{ "name": "x", "emptyDir": {} }])),
            (template(json!({ "volumes": [{ "$patch": "replace" }] })), "/spec/template/spec/volumes", Value::Null),
            (template(json!({ "containers": [{ "name": "c", "env": [{ "$patch": "replace" }, env("C")] }] })),
                "/spec/template/spec/containers/0/env", json!([env("C")])),
            (template(json!({ "containers": [{ "name": "c", "env": [{ "$patch": "delete", "name": "A" }] }] })),
                "/spec/template/spec/containers/0/env", json!([env("B")])),
            (template(json!({ "containers": [{ "name": "c", "args": ["z"] }] })),
                "/spec/template/spec/containers/0/args", json!(["z"])),
            (template(json!({ "containers": [{ "name": "d", "$patch": "delete" }], "$setElementOrder/containers": [{ "name": "c" }] })),
                "/spec/template/spec/containers/1", Value::Null),
            (template(json!({ "containers": [{ "name": "c", "securityContext": { "$patch": "delete" } }] })),
                "/spec/template/spec/containers/0/securityContext", json!({})),
            (template(json!({ "containers": [{ "name": "c", "securityContext": { "capabilities": { "$patch": "replace", "add": ["A"] } } }] })),
                "/spec/template/spec/containers/0/securityContext/capabilities", json!({ "add": ["A"] })),
            (template(json!({ "containers": [{ "name": "d", "securityContext": { "$patch": "delete", "runAsUser": 1 } }] })),
                "/spec/template/spec/containers/1/securityContext", Value::Null),
            (template(json!({ "containers": [{ "name": "d", "securityContext": { "$patch": "replace", "runAsUser": 1 } }] })),
                "/spec/template/spec/containers/1/securityContext", Value::Null),
            (json!({ "metadata": { "annotations": { "$patch": "replace", "a": "1" } } }), "/metadata/annotations", Value::Null),
            (json!({ "metadata": { "labels": { "$patch": "replace", "a": null, "c": "1" } } }),
                "/metadata/labels", json!({ "a": "", "c": "1" })),
            (json!({ "metadata": { "annotations": { "$patch": "other", "a": "1" } } }), "/metadata/annotations", Value::Null),
            (template(json!({ "$setElementOrder/containers": [{ "name": "d" }, { "name": "c" }],
                "containers": [{ "name": "c", "$patch": "delete" }, { "name": "d", "image": "k" }] })),
                "/spec/template/spec/containers/0/image", json!("k")),
            (template(json!({ "containers": [{ "name": "c", "lifecycle": { "$patch": "delete", "preStop": { "sleep": { "seconds": 1 } } } }] })),
                "/spec/template/spec/containers/0/lifecycle", Value::Null),
        ] {
            let patched = raw.patch(&path, "strategic-merge", &patch.to_string()).await;
            assert_eq!(patched.code, 200, "{patch}: {}", patched.text);
            let found = patched.body.pointer(pointer).cloned().unwrap_or_default();
            assert_eq!(found, expected, "{patch}");
        }
        remove_finalizers(&raw, &deployment).await;
    }

    /// docs/apiserver.md: row 80.
    async fn directives_of_a_strategic_merge_patch_without_effect_are_accepted(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let deployment = create_deployment(&raw).await;
        let path = format!("{deployment}?dryRun=All");
        let before = raw.get(&deployment).await.ok();
        for patch in [
            json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": "a.b/1" } }),
            json!({ "metadata": { "$deleteFromPrimitiveList/none": ["a.b/1"] } }),
            json!({ "metadata": { "$deleteFromPrimitiveList/labels": ["a"] } }),
            json!({ "metadata": { "$setElementOrder/finalizers": [], "finalizers": ["a.b/1"] } }),
            json!({ "metadata": { "$setElementOrder/finalizers": ["a.b/1"], "finalizers": [] } }),
        ] {
            let patched = raw.patch(&path, "strategic-merge", &patch.to_string()).await.ok();
            assert_eq!(patched, before, "{patch}");
        }
        remove_finalizers(&raw, &deployment).await;
    }

    /// docs/apiserver.md: row 80.
    async fn a_wrong_directive_of_a_strategic_merge_patch_is_refused(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let deployment = create_deployment(&raw).await;
        let path = format!("{deployment}?dryRun=All");
        let template = |spec: Value| json!({ "spec": { "template": { "spec": spec } } });
        let retain = |keys: Value| json!({ "spec": { "strategy": { "$retainKeys": keys, "type": "Recreate" } } });
        let labels = |directive: Value| json!({ "metadata": { "labels": { "$patch": directive, "c": "3" } } });
        let finalizers = |order: Value, list: Value| json!({ "metadata": { "$setElementOrder/finalizers": order, "finalizers": list } });
        let containers = |order: Value, list: Value| template(json!({ "$setElementOrder/containers": order, "containers": list }));
        let retained = "invalid patch format of retainKeys";
        let unordered = |list: &str, order: &str| format!("The order in patch list:\n{list}\n doesn't match $setElementOrder list:\n{order}\n");
        let unknown = |directive: &str| format!("unknown patch type: {directive} c:3]");
        for (patch, code, message) in [
            (retain(json!("type")), 400, retained.to_owned()),
            (retain(json!(["rollingUpdate"])), 400, retained.to_owned()),
            (retain(json!([1])), 400, retained.to_owned()),
            (labels(json!("merge")), 500, unknown("merge in map: map[$patch:merge")),
            (labels(json!(1)), 500, unknown("%!s(int64=1) in map: map[$patch:1")),
            (labels(json!(true)), 500, unknown("%!s(bool=true) in map: map[$patch:true")),
            (labels(Value::Null), 500, unknown("%!s(<nil>) in map: map[$patch:<nil>")),
            (labels(json!(["x"])), 500, unknown("[x] in map: map[$patch:[x]")),
            (finalizers(json!("a.b/1"), json!(["a.b/1"])), 500, "expected a []interface {}, but received a string".to_owned()),
            (finalizers(json!(["a.b/1"]), json!(["a.b/1", "a.b/5"])), 500, unordered("[a.b/1 a.b/5]", "[a.b/1]")),
            (finalizers(json!(["a.b/2", "a.b/1"]), json!(["a.b/1", "a.b/2"])), 500, unordered("[a.b/1 a.b/2]", "[a.b/2 a.b/1]")),
            (
                containers(json!([{ "name": "d" }]), json!([{ "name": "c", "image": "k" }])), 500,
                unordered("[map[image:k name:c]]", "[map[name:d]]"),
            ),
            (json!({ "$patch": "delete" }), 400, "the name of the object (d based on URL) was undeterminable: name must be provided".to_owned()),
        ] {
            let answer = raw.patch(&path, "strategic-merge", &patch.to_string()).await;
            assert_eq!((answer.code, answer.body["message"].as_str()), (code, Some(&*message)), "{patch}");
        }
        // What is replaced by too little is validated like any other object.
        for patch in [
            json!({ "$patch": "replace", "metadata": { "name": "d" } }),
            template(json!({ "containers": [{ "$patch": "replace" }, { "$patch": "delete", "name": "c" }] })),
        ] {
            raw.patch(&path, "strategic-merge", &patch.to_string()).await.refused(422, "Invalid");
        }
        remove_finalizers(&raw, &deployment).await;
    }

    /// docs/apiserver.md: row 80.
    async fn new_items_of_a_strategic_merge_patch_stand_first(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = raw.at("/api/v1", "services");
        let port = |port: u16| json!({ "name": format!("p{port}"), "port": port });
        let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [port(1), port(2), port(3)] } });
        raw.post(&path, &service).await.ok();
        let path = format!("{path}/s");
        let order = |body: serde_json::Value| {
            let ports = body["spec"]["ports"].as_array().cloned().unwrap_or_default();
            let ports = ports.iter().map(|port| port["port"].to_string());
            ports.collect::<Vec<_>>().join(" ")
        };
        for (patch, expected) in [
            (json!({ "spec": { "ports": [port(4)] } }), "4 1 2 3"),
            (json!({ "spec": { "ports": [port(3), port(5)] } }), "4 1 2 3 5"),
            (
                json!({ "spec": {
                    "ports": [port(6)],
                    "$setElementOrder/ports": [{ "port": 3 }, { "port": 6 }, { "port": 1 }],
                } }),
                "4 2 3 6 1 5",
            ),
            (json!({ "spec": { "ports": [{ "port": 2, "$patch": "delete" }, port(7)] } }), "7 4 3 6 1 5"),
        ] {
            let patched = raw.patch(&path, "strategic-merge", &patch.to_string()).await.ok();
            assert_eq!(order(patched), expected, "{patch}");
        }
        let mixed = r#"{"spec":{"ports":[null]}}"#;
        let message = raw.patch(&path, "strategic-merge", mixed).await;
        assert_eq!(message.code, 500);
        let message = message.body["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.starts_with("list element types are not identical: "), "{message}");
    }
}

/// Creates a deployment with lists that strategic merge patches change, and returns its path.
async fn create_deployment(raw: &Raw) -> String {
    let deployments = raw.at("/apis/apps/v1", "deployments");
    let env = |name: &str| json!({ "name": name, "value": "1" });
    raw.post(&deployments, &json!({
        "metadata": { "name": "d", "labels": { "a": "1", "b": "2" }, "finalizers": ["a.b/1", "a.b/2", "a.b/3"] },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": {
                "securityContext": { "runAsUser": 1, "runAsGroup": 2 },
                "volumes": [{ "name": "v", "configMap": { "name": "m" } }, { "name": "w", "emptyDir": {} }],
                "containers": [
                    {
                        "name": "c", "image": "i", "env": [env("A"), env("B")], "args": ["x", "y"],
                        "securityContext": { "runAsUser": 1, "capabilities": { "drop": ["B"] } },
                    },
                    { "name": "d", "image": "j" },
                ],
            } },
        },
    })).await.ok();
    format!("{deployments}/d")
}

/// Removes the finalizers of the deployment, so that it can be deleted with its namespace.
async fn remove_finalizers(raw: &Raw, deployment: &str) {
    let patch = json!({ "metadata": { "finalizers": null } });
    raw.merge(deployment, &patch).await.ok();
}
