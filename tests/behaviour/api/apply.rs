//! Server-side apply and `managedFields`: ownership, conflicts, and removed fields.

use http::Method;
use serde_json::{Value, json};

use super::raw::{Answer, Raw, named};
use super::widget::Widget;

pub(crate) mod random;

/// Who owns what: each entry as `manager operation subresource: fields`, sorted.
#[track_caller]
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut owners: Vec<_> = entries
        .into_iter()
        .flatten()
        .map(|entry| {
            assert_eq!(entry["fieldsType"], "FieldsV1", "{entry}");
            let word = |field: &str| entry[field].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {}: {}",
                word("manager"),
                word("operation"),
                word("subresource"),
                entry["fieldsV1"]
            )
        })
        .collect();
    owners.sort();
    owners
}

/// A config map with this data.
fn map(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

/// The causes of a conflict, as `message field`, sorted.
#[track_caller]
fn conflicts(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.code, 409, "{}", answer.text);
    let causes = answer.body["details"]["causes"].as_array();
    let mut conflicts: Vec<_> = causes
        .into_iter()
        .flatten()
        .map(|cause| {
            assert_eq!(cause["reason"], "FieldManagerConflict");
            let word = |field: &str| cause[field].as_str().unwrap_or_default();
            format!("{} {}", word("message"), word("field")).replace('"', "")
        })
        .collect();
    conflicts.sort();
    conflicts
}

/// The schema of a spec with each kind of list and map.
fn spec() -> Value {
    let text = json!({ "type": "string" });
    let pair = json!({ "a": text, "b": text });
    json!({ "type": "object", "properties": {
        "size": { "type": "integer", "default": 1 },
        "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": text },
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "proto"],
            "items": { "type": "object", "required": ["port"], "properties": {
                "port": { "type": "integer" },
                "proto": { "type": "string", "default": "TCP" },
                "name": text,
            } },
        },
        "list": { "type": "array", "items": text },
        "leaf": { "type": "object", "x-kubernetes-map-type": "atomic", "properties": pair },
        "free": { "x-kubernetes-preserve-unknown-fields": true },
    } })
}

on_both_servers! {
    /// docs/apiserver.md: row 85.
    async fn each_write_gives_its_manager_the_fields_that_it_changes(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let agent = [("content-type", "application/json"), ("user-agent", "me/1.0 (linux)")];
        let body = map("a", &json!({ "k": "1", "l": "1" }));
        let created = raw.ask(Method::POST, &raw.maps(), &agent, &body.to_string()).await.ok();
        assert_eq!(owners(&created), [r#"me Update -: {"f:data":{".":{},"f:k":{},"f:l":{}}}"#]);
        let entry = &created["metadata"]["managedFields"][0];
        assert_eq!(entry["apiVersion"], "v1");
        assert_eq!(entry["time"], created["metadata"]["creationTimestamp"]);

        let path = format!("{}/a", raw.maps());
        let body = map("a", &json!({ "k": "2" }));
        let updated = raw.put(&format!("{path}?fieldManager=you"), &body).await.ok();
        assert_eq!(owners(&updated), [
            r#"me Update -: {"f:data":{}}"#,
            r#"you Update -: {"f:data":{"f:k":{}}}"#,
        ]);
        let change = json!({ "metadata": { "labels": { "x": "y" } } });
        let merged = raw.merge(&format!("{path}?fieldManager=they"), &change).await.ok();
        assert_eq!(
            owners(&merged)[1],
            r#"they Update -: {"f:metadata":{"f:labels":{".":{},"f:x":{}}}}"#
        );
        let same = raw.put(&format!("{path}?fieldManager=third"), &merged).await.ok();
        assert_eq!(same, merged, "a write that changes nothing owns nothing");
    }

    /// docs/apiserver.md: row 83.
    async fn an_apply_creates_fields_and_removes_those_it_does_not_contain_any_more(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        let answer = raw.apply(&path, "me", &map("a", &json!({ "k": "1", "l": "1" }))).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        let answer = raw.apply(&path, "me", &map("a", &json!({ "k": "1", "l": "1" }))).await;
        assert_eq!(answer.code, 200);
        assert_eq!(answer.ok(), raw.get(&path).await.ok(), "nothing has changed");

        let both = raw.apply(&path, "you", &map("a", &json!({ "k": "1" }))).await.ok();
        assert_eq!(owners(&both), [
            r#"me Apply -: {"f:data":{"f:k":{},"f:l":{}}}"#,
            r#"you Apply -: {"f:data":{"f:k":{}}}"#,
        ]);
        let left = raw.apply(&path, "me", &map("a", &json!({ "m": "1" }))).await.ok();
        assert_eq!(left["data"], json!({ "k": "1", "m": "1" }), "you still want k");
        let bare = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
        let left = raw.apply(&path, "you", &bare).await.ok();
        assert_eq!(left["data"], json!({ "m": "1" }));
        let left = raw.apply(&path, "me", &bare).await.ok();
        assert_eq!((left.get("data"), owners(&left)), (None, Vec::new()));
    }

    /// docs/apiserver.md: row 84.
    async fn fields_of_others_conflict_unless_the_apply_is_forced(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        raw.post(&format!("{}?fieldManager=one", raw.maps()), &map("a", &json!({ "k": "1" }))).await.ok();
        let answer = raw.apply(&path, "me", &map("a", &json!({ "k": "2" }))).await;
        assert_eq!(conflicts(&answer), ["conflict with one using v1 .data.k"]);
        assert_eq!(answer.body["details"].as_object().map(serde_json::Map::len), Some(1));
        assert_eq!(
            answer.refused(409, "Conflict"),
            r#"Apply failed with 1 conflict: conflict with "one" using v1: .data.k"#
        );
        raw.apply(&path, "two", &map("a", &json!({ "l": "1" }))).await.ok();
        let config = map("a", &json!({ "k": "2", "l": "2" }));
        let answer = raw.apply(&path, "me", &config).await;
        assert_eq!(conflicts(&answer), ["conflict with one using v1 .data.k", "conflict with two .data.l"]);
        assert_eq!(
            answer.refused(409, "Conflict"),
            "Apply failed with 2 conflicts: conflicts with \"one\" using v1:\n- .data.k\nconflicts with \"two\":\n- .data.l"
        );
        let forced = raw.apply(&format!("{path}?force=true"), "me", &config).await.ok();
        assert_eq!(owners(&forced), [
            r#"me Apply -: {"f:data":{"f:k":{},"f:l":{}}}"#,
            r#"one Update -: {"f:data":{}}"#,
        ]);
    }

    /// docs/apiserver.md: rows 81, 83.
    async fn an_invalid_apply_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        let good = map("a", &json!({ "k": "1" }));
        let message = raw.apply(&path, "", &good).await.refused(422, "Invalid");
        assert!(message.ends_with("fieldManager: Required value: is required for apply patch"), "{message}");
        raw.apply(&path, &"x".repeat(129), &good).await.refused(422, "Invalid");
        raw.merge(&format!("{path}?force=true"), &json!({})).await.refused(422, "Invalid");

        let mut other = good.clone();
        other["kind"] = "Secret".into();
        let message = raw.apply(&path, "me", &other).await.refused(400, "BadRequest");
        assert_eq!(message, "invalid object type: /v1, Kind=Secret");
        let mut entries = good.clone();
        entries["metadata"]["managedFields"] = json!([{}]);
        let message = raw.apply(&path, "me", &entries).await.refused(400, "BadRequest");
        assert_eq!(message, "metadata.managedFields must be nil");
        let mut unknown = good.clone();
        unknown["colour"] = "x".into();
        let message = raw.apply(&path, "me", &unknown).await.refused(500, "");
        assert_eq!(
            message,
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .colour: field not declared in schema"
        );
        raw.apply(&path, "me", &map("b", &json!({}))).await.refused(400, "BadRequest");
        let mut uid = good.clone();
        uid["metadata"]["uid"] = "1".into();
        raw.apply(&path, "me", &uid).await.refused(409, "Conflict");
        raw.get(&path).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: rows 81, 83.
    async fn a_key_that_is_an_object_is_written_without_braces(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = raw.at("/api/v1", "pods") + "/a";
        for (name, shown) in [(json!({}), ""), (json!({ "a": 1 }), "a=1"), (json!(["a", {}]), r#"["a",]"#)] {
            let config = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
                "spec": { "containers": [{ "image": "x", "name": name }] },
            });
            let message = raw.apply(&path, "me", &config).await.refused(500, "");
            let place = format!("(/a; /v1, Kind=Pod): .spec.containers[name={shown}].name: expected string, got ");
            assert!(message.contains(&place), "{message}");
        }
    }

    /// docs/apiserver.md: rows 81, 83.
    async fn the_data_of_a_revision_is_one_value(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = raw.at("/apis/apps/v1", "controllerrevisions") + "/a";
        let config = |data: Value, revision: i64| json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": { "name": "a" },
            "data": data, "revision": revision,
        });
        let message = raw.apply(&path, "me", &config("x".into(), 1)).await.refused(422, "Invalid");
        assert!(message.ends_with("data: Required value: data must be a valid JSON object"), "{message}");
        let created = raw.apply(&path, "me", &config(json!({}), 1)).await.ok();
        assert_eq!(created["data"], json!({}));
        let message = raw.apply(&path, "other", &config(true.into(), 1)).await.refused(409, "Conflict");
        assert!(message.ends_with(": .data"), "{message}");
        let message = raw.apply(&path, "me", &config(true.into(), -1)).await.refused(422, "Invalid");
        for expected in ["data: Invalid value: true: field is immutable", "revision: Invalid value: -1: must be greater"] {
            assert!(message.contains(expected), "{message}");
        }
    }

    /// docs/apiserver.md: rows 81, 111.
    async fn an_object_that_an_apply_empties_is_removed(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let free = json!({ "x-kubernetes-preserve-unknown-fields": true });
        let spec = json!({ "type": "object", "properties": { "free": free } });
        let widget = Widget::served(&raw, &spec).await;
        let empty = json!({ "free": {} });
        for (sent, stored) in [
            (json!({ "free": { "a": 1 } }), json!({ "free": { "a": 1 } })),
            (empty.clone(), json!({})),
            (empty.clone(), empty.clone()),
            (json!({ "free": { "a": 1 } }), json!({ "free": { "a": 1 } })),
            (empty, json!({})),
        ] {
            let applied = raw.apply(&widget.one("w"), "me", &widget.object("w", &sent)).await.ok();
            assert_eq!(applied["spec"], stored);
        }
        // A read does not show the null that is stored, and the next write removes it.
        let applied = raw.get(&widget.one("w")).await.ok();
        assert_eq!(applied["spec"], json!({}));
        let nothing = json!({ "metadata": { "finalizers": null } });
        let written = raw.merge(&widget.one("w"), &nothing).await.ok();
        assert_ne!(written["metadata"]["resourceVersion"], applied["metadata"]["resourceVersion"]);
        assert_eq!(written["metadata"]["generation"], applied["metadata"]["generation"]);
        let repeated = raw.merge(&widget.one("w"), &nothing).await.ok();
        assert_eq!(repeated, written);
    }

    /// docs/apiserver.md: rows 81, 83.
    async fn a_version_is_no_precondition_of_an_apply_that_creates(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
        let object = widget.object("a", &json!({}));
        for (path, mut config) in [(format!("{}/a", raw.maps()), map), (widget.one("a"), object)] {
            config["metadata"]["resourceVersion"] = "x".into();
            let why = raw.apply(&path, "me", &config).await.refused(500, "");
            assert_eq!(why, "strconv.ParseUint: parsing \"x\": invalid syntax");
            config["metadata"]["resourceVersion"] = "1".into();
            let created = raw.apply(&path, "me", &config).await;
            assert_eq!(created.code, 201, "{}", created.text);
            assert_ne!(created.ok()["metadata"]["resourceVersion"], "1");
            raw.apply(&path, "me", &config).await.refused(409, "Conflict");
            if config["kind"] == "Widget" {
                config["metadata"]["resourceVersion"] = Value::Null;
                let why = raw.apply(&path, "me", &config).await.refused(422, "Invalid");
                assert!(why.ends_with("Invalid value: 0: must be specified for an update"), "{why}");
            }
            config["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
            config["metadata"]["uid"] = "other".into();
            let why = raw.apply(&path, "me", &config).await.refused(422, "Invalid");
            assert!(why.ends_with("metadata.uid: Invalid value: \"other\": field is immutable"), "{why}");
        }
    }

    /// docs/apiserver.md: rows 83, 96.
    async fn a_dry_run_apply_changes_nothing(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        let dry = format!("{path}?dryRun=All");
        let answer = raw.apply(&dry, "me", &map("a", &json!({ "k": "1" }))).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        raw.get(&path).await.refused(404, "NotFound");
        let created = raw.apply(&path, "me", &map("a", &json!({ "k": "1" }))).await.ok();
        let shown = raw.apply(&dry, "me", &map("a", &json!({ "k": "2" }))).await.ok();
        assert_eq!(shown["data"], json!({ "k": "2" }));
        assert_eq!(raw.get(&path).await.ok(), created);
    }

    /// docs/apiserver.md: row 85.
    async fn after_a_reset_of_entries_an_apply_conflicts_with_before_first_apply(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        for entries in [json!([]), json!([{}])] {
            raw.apply(&format!("{path}?force=true"), "me", &map("a", &json!({ "k": "1" }))).await.ok();
            let change = json!({ "metadata": { "managedFields": entries } });
            assert_eq!(owners(&raw.merge(&path, &change).await.ok()), Vec::<String>::new());
        }
        let changed = raw.merge(&path, &json!({ "data": { "k": "2" } })).await.ok();
        assert_eq!(owners(&changed), Vec::<String>::new(), "nothing is tracked until the next apply");
        let answer = raw.apply(&path, "me", &map("a", &json!({ "k": "3" }))).await;
        assert_eq!(conflicts(&answer), ["conflict with before-first-apply using v1 .data.k"]);
        let applied = raw.apply(&path, "me", &map("a", &json!({ "k": "2", "l": "1" }))).await.ok();
        assert_eq!(owners(&applied), [
            r#"before-first-apply Update -: {"f:data":{".":{},"f:k":{}}}"#,
            r#"me Apply -: {"f:data":{"f:k":{},"f:l":{}}}"#,
        ]);
    }

    /// docs/apiserver.md: row 85.
    async fn more_than_ten_managers_of_updates_share_an_entry(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        let merge = async |manager: usize, change: &Value| {
            raw.merge(&format!("{path}?fieldManager=m{manager:02}"), change).await.ok()
        };
        let entry = |manager: &str, keys: &str| {
            let keys = keys.split(' ').map(|key| match key {
                "." => r#"".":{}"#.to_owned(),
                key => format!(r#""f:{key}":{{}}"#),
            });
            let keys = keys.collect::<Vec<_>>().join(",");
            format!("{manager}: {{\"f:data\":{{{keys}}}}}")
        };
        raw.apply(&path, "applier", &map("a", &json!({ "a": "1" }))).await.ok();
        let data = |number: usize| json!({ "data": { format!("k{number:02}"): "1" } });
        let mut last = Value::Null;
        for number in 0..10 {
            last = merge(number, &data(number)).await;
        }
        let own = |number: usize| entry(&format!("m{number:02} Update -"), &format!("k{number:02}"));
        let applied = entry("applier Apply -", "a");
        let mut expected = vec![applied.clone()];
        expected.extend((0..10).map(own));
        assert_eq!(owners(&last), expected);

        // The oldest two are merged, and then one after the other.
        for number in 10..13 {
            last = merge(number, &data(number)).await;
            let merged = (0..=number - 9).map(|number| format!("k{number:02}")).collect::<Vec<_>>();
            let mut expected = vec![
                entry("ancient-changes Update -", &merged.join(" ")),
                applied.clone(),
            ];
            expected.extend((number - 8..=number).map(own));
            assert_eq!(owners(&last), expected, "{number}");
        }
        let answer = raw.apply(&path, "me", &map("a", &json!({ "k00": "2", "k12": "2" }))).await;
        assert_eq!(conflicts(&answer), [
            "conflict with ancient-changes using v1 .data.k00",
            "conflict with m12 using v1 .data.k12",
        ]);
        // Appliers are not counted.
        for number in 0..12 {
            let manager = format!("a{number:02}");
            last = raw.apply(&path, &manager, &map("a", &json!({ format!("l{number:02}"): "1" }))).await.ok();
        }
        assert_eq!(owners(&last).len(), 10 + 1 + 12);
    }

    /// docs/apiserver.md: row 85.
    async fn managers_of_the_status_count_as_managers_of_updates(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let number = json!({ "x-kubernetes-preserve-unknown-fields": true, "type": "object" });
        let widgets = Widget::new(&raw);
        let mut definition = widgets.definition(&number);
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = number;
        widgets.define(&definition).await;
        widgets.create("a", &json!({})).await;
        let mut last = Value::Null;
        for number in 0..12 {
            let (part, path) = if number % 2 == 0 { ("spec", "") } else { ("status", "/status") };
            let path = format!("{}{path}?fieldManager=m{number:02}", widgets.one("a"));
            last = raw.merge(&path, &json!({ part: { format!("k{number:02}"): 1 } })).await.ok();
        }
        let found = owners(&last);
        assert_eq!(found.len(), 10, "{found:?}");
        // The shared entry has no subresource.
        assert_eq!(found[0], "ancient-changes Update -: \
            {\"f:spec\":{\"f:k00\":{},\"f:k02\":{}},\"f:status\":{\".\":{},\"f:k01\":{},\"f:k03\":{}}}");
        assert_eq!(found[1..3], [
            r#"m04 Update -: {"f:spec":{"f:k04":{}}}"#,
            r#"m05 Update status: {"f:status":{"f:k05":{}}}"#,
        ]);
    }

    /// docs/apiserver.md: row 85.
    async fn entries_that_cannot_be_decoded_are_ignored(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        let created = raw.post(&format!("{}?fieldManager=me", raw.maps()), &map("a", &json!({ "k": "1" }))).await.ok();
        let entry = |change: &str, value: Value| {
            let mut entry = json!({
                "manager": "you", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": { "f:data": { "f:k": {} } },
            });
            match value {
                Value::Null => _ = entry.as_object_mut().expect("an object").remove(change),
                value => entry[change] = value,
            }
            entry
        };
        let good = entry("manager", "you".into());
        let malformed = entry("fieldsV1", json!({ "data": {} }));
        let mine = [r#"me Update -: {"f:data":{".":{},"f:k":{}}}"#];
        let yours = [r#"you Update -: {"f:data":{"f:k":{}}}"#];
        let unnamed = [r#"- Update -: {"f:data":{"f:k":{}}}"#];
        for (entries, expected) in [
            (json!([entry("operation", "Other".into())]), mine.as_slice()),
            (json!([entry("operation", Value::Null)]), &mine),
            (json!([entry("fieldsType", "FieldsV2".into())]), &mine),
            (json!([entry("fieldsType", Value::Null)]), &mine),
            (json!([malformed]), &mine),
            (json!([entry("fieldsV1", json!({ "k:data": {} }))]), &mine),
            (json!([entry("fieldsV1", json!({ "f:data": 1 }))]), &mine),
            (json!([entry("fieldsV1", json!({ "f:data": { "v:": {} } }))]), &mine),
            (json!([entry("apiVersion", Value::Null)]), &mine),
            (json!([good.clone(), malformed]), &mine),
            (json!([good.clone(), {}]), &mine),
            // These are decoded, and own nothing that the object has.
            (json!([entry("fieldsV1", json!({ "x:data": {} }))]), &[]),
            (json!([entry("fieldsV1", Value::Null)]), &[]),
            (json!([entry("apiVersion", "v9".into())]), &[]),
            (json!([entry("manager", Value::Null)]), &unnamed),
            (json!([good]), &yours),
        ] {
            let mut body = created.clone();
            body["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
            body["metadata"]["managedFields"] = entries.clone();
            let updated = raw.put(&format!("{path}?dryRun=All&fieldManager=other"), &body).await.ok();
            assert_eq!(owners(&updated), expected, "{entries}");
            body["metadata"]["name"] = "b".into();
            let made = raw.post(&format!("{}?dryRun=All&fieldManager=other", raw.maps()), &body).await.ok();
            assert_eq!(owners(&made), [r#"other Update -: {"f:data":{".":{},"f:k":{}}}"#], "{entries}");
        }
        for (field, value, told) in [
            ("manager", "x".repeat(129), "manager: Too long: may not be more than 128 bytes"),
            ("manager", "a\u{1}b".to_owned(), "manager: Invalid value: \"a\\x01b\": invalid character U+0001 (at position 1)"),
            ("subresource", "x".repeat(257), "subresource: Too long: may not be more than 256 bytes"),
        ] {
            let mut body = created.clone();
            body["metadata"]["managedFields"] = json!([entry(field, value.into())]);
            let message = raw.put(&path, &body).await.refused(422, "Invalid");
            assert_eq!(message, format!("ConfigMap \"a\" is invalid: metadata.managedFields[0].{told}"));
        }
    }

    /// docs/apiserver.md: row 86.
    async fn finalizers_are_a_set_and_owner_references_are_identified_by_uid(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        let config = |finalizers: &[&str], uids: &[&str]| {
            let owners = uids.iter().map(|uid| json!({
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid,
            }));
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": "a", "finalizers": finalizers, "ownerReferences": owners.collect::<Vec<_>>(),
            } })
        };
        raw.apply(&path, "me", &config(&["a/1", "a/2"], &["1"])).await.ok();
        let two = raw.apply(&path, "you", &config(&["a/3"], &["2"])).await.ok();
        assert_eq!(two["metadata"]["finalizers"], json!(["a/1", "a/2", "a/3"]));
        assert_eq!(two["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(2));
        let one = raw.apply(&path, "me", &config(&["a/2"], &[])).await.ok();
        assert_eq!(one["metadata"]["finalizers"], json!(["a/2", "a/3"]));
        assert_eq!(one["metadata"]["ownerReferences"][0]["uid"], "2");
        raw.merge(&path, &json!({ "metadata": { "finalizers": null } })).await.ok();
    }

    /// docs/apiserver.md: row 86.
    async fn a_custom_resource_is_merged_by_its_schema(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widgets = Widget::served(&raw, &spec()).await;
        let path = widgets.one("a");
        let config = |spec: Value| widgets.object("a", &spec);
        let first = raw.apply(&path, "me", &config(json!({
            "tags": ["x", "y"], "ports": [{ "port": 1 }, { "port": 1, "proto": "UDP" }],
            "list": ["a"], "leaf": { "a": "1" }, "free": { "any": [1] },
        }))).await.ok();
        assert_eq!(first["spec"]["size"], 1, "a default has no owner");
        assert_eq!(owners(&first), [
            r#"me Apply -: {"f:spec":{"f:free":{"f:any":{}},"f:leaf":{},"f:list":{},"f:ports":{"k:{\"port\":1,\"proto\":\"TCP\"}":{".":{},"f:port":{}},"k:{\"port\":1,\"proto\":\"UDP\"}":{".":{},"f:port":{},"f:proto":{}}},"f:tags":{"v:\"x\"":{},"v:\"y\"":{}}}}"#,
        ]);
        let answer = raw.apply(&path, "you", &config(json!({
            "tags": ["z"], "ports": [{ "port": 1, "name": "n" }], "list": ["b"], "leaf": { "b": "2" },
            "free": { "any": [2] },
        }))).await;
        assert_eq!(conflicts(&answer), [
            "conflict with me .spec.free.any", "conflict with me .spec.leaf", "conflict with me .spec.list",
        ]);
        let merged = raw.apply(&path, "you", &config(json!({
            "tags": ["z", "x"], "ports": [{ "port": 2 }, { "port": 1, "name": "n" }],
        }))).await.ok();
        assert_eq!(merged["spec"]["tags"], json!(["z", "x", "y"]));
        assert_eq!(merged["spec"]["ports"], json!([
            { "port": 2, "proto": "TCP" },
            { "port": 1, "proto": "TCP", "name": "n" },
            { "port": 1, "proto": "UDP" },
        ]));
        let left = raw.apply(&path, "me", &config(json!({}))).await.ok();
        assert_eq!(left["spec"], json!({
            "size": 1, "tags": ["z", "x"],
            "ports": [{ "port": 2, "proto": "TCP" }, { "port": 1, "proto": "TCP", "name": "n" }],
        }));
    }

    /// docs/apiserver.md: row 86.
    async fn atomic_parts_of_built_in_kinds_have_one_owner(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/s", raw.at("/api/v1", "services"));
        let config = |spec: Value| json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" }, "spec": spec,
        });
        let port = |port: u64, protocol: &str, name: &str| json!({ "port": port, "protocol": protocol, "name": name });
        let mine = config(json!({
            "selector": { "a": "1" }, "externalIPs": ["192.0.2.1"],
            "ports": [port(53, "TCP", "t"), port(53, "UDP", "u")],
        }));
        let first = raw.apply(&path, "me", &mine).await.ok();
        assert_eq!(owners(&first), [
            r#"me Apply -: {"f:spec":{"f:externalIPs":{},"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}},"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}},"f:selector":{}}}"#,
        ]);
        let yours = config(json!({ "selector": { "b": "2" }, "externalIPs": ["192.0.2.2"] }));
        let answer = raw.apply(&path, "you", &yours).await;
        assert_eq!(conflicts(&answer), ["conflict with me .spec.externalIPs", "conflict with me .spec.selector"]);
        let forced = raw.apply(&format!("{path}?force=true"), "you", &yours).await.ok();
        assert_eq!(forced["spec"]["selector"], json!({ "b": "2" }), "an atomic map is replaced");
        assert_eq!(forced["spec"]["externalIPs"], json!(["192.0.2.2"]));

        // Ports are identified by number and protocol.
        let other = config(json!({ "ports": [port(53, "UDP", "u"), port(80, "TCP", "h")] }));
        let merged = raw.apply(&path, "third", &other).await.ok();
        let names: Vec<_> = merged["spec"]["ports"].as_array().expect("ports").iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["t", "u", "h"]);
        let left = raw.apply(&path, "me", &config(json!({ "ports": [port(53, "TCP", "t")] }))).await.ok();
        let names: Vec<_> = left["spec"]["ports"].as_array().expect("ports").iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["t", "u", "h"], "third still owns the second one");
        let twice = config(json!({ "ports": [port(53, "TCP", "t"), port(53, "TCP", "u")] }));
        let message = raw.apply(&path, "me", &twice).await.refused(500, "");
        assert_eq!(
            message,
            "failed to create typed patch object (/s; /v1, Kind=Service): .spec.ports: duplicate entries \
             for key [port=53,protocol=\"TCP\"]"
        );
    }

    /// docs/apiserver.md: rows 76, 83.
    async fn the_status_is_applied_separately(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widgets = Widget::served(&raw, &spec()).await;
        let path = widgets.one("a");
        let mut config = widgets.object("a", &json!({ "size": 2 }));
        config["status"] = json!({ "ready": true });
        let created = raw.apply(&path, "me", &config).await.ok();
        assert_eq!(created.get("status"), None);
        assert_eq!(owners(&created), [r#"me Apply -: {"f:spec":{"f:size":{}}}"#]);
        config["spec"]["size"] = 3.into();
        let applied = raw.apply(&format!("{path}/status"), "me", &config).await.ok();
        assert_eq!((&applied["spec"]["size"], &applied["status"]["ready"]), (&json!(2), &json!(true)));
        assert_eq!(owners(&applied), [
            r#"me Apply -: {"f:spec":{"f:size":{}}}"#,
            r#"me Apply status: {"f:status":{"f:ready":{}}}"#,
        ]);
        config["status"]["ready"] = false.into();
        let answer = raw.apply(&format!("{path}/status"), "you", &config).await;
        assert_eq!(conflicts(&answer), ["conflict with me with subresource status .status.ready"]);
        raw.apply(&format!("{}/status", widgets.one("none")), "me", &widgets.object("none", &json!({})))
            .await
            .refused(404, "NotFound");
    }

    /// docs/apiserver.md: row 86.
    async fn containers_ports_and_variables_are_identified_by_their_keys(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/d", raw.at("/apis/apps/v1", "deployments"));
        let config = |spec: Value, containers: Value| {
            let mut config = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
                "spec": spec,
            });
            config["spec"]["selector"] = json!({ "matchLabels": { "a": "b" } });
            config["spec"]["template"] =
                json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": containers } });
            config
        };
        let env = |name: &str, value: &str| json!({ "name": name, "value": value });
        let mine = json!([{ "name": "x", "image": "i", "env": [env("A", "1"), env("B", "1")], "ports": [{ "containerPort": 80 }] }]);
        raw.apply(&path, "me", &config(json!({ "replicas": 1 }), mine.clone())).await.ok();
        raw.merge(&format!("{path}?fieldManager=scaler"), &json!({ "spec": { "replicas": 3 } })).await.ok();
        let answer = raw.apply(&path, "me", &config(json!({ "replicas": 1 }), mine.clone())).await;
        assert_eq!(
            answer.refused(409, "Conflict"),
            r#"Apply failed with 1 conflict: conflict with "scaler" using apps/v1: .spec.replicas"#
        );
        let yours = json!([{ "name": "x", "env": [env("C", "1")] }]);
        raw.apply(&path, "you", &config(json!({}), yours)).await.ok();
        let fewer = json!([{ "name": "x", "image": "i", "env": [env("B", "1")] }, { "name": "y", "image": "j" }]);
        let applied = raw.apply(&path, "me", &config(json!({}), fewer)).await.ok();
        assert_eq!(applied["spec"]["replicas"], 3);
        let containers = &applied["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["env"], json!([env("B", "1"), env("C", "1")]));
        assert_eq!((containers[0].get("ports"), &containers[1]["name"]), (None, &json!("y")));
        let entry = owners(&applied).into_iter().find(|owner| owner.starts_with("you"));
        assert_eq!(entry.as_deref(), Some(
            r#"you Apply -: {"f:spec":{"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"x\"}":{".":{},"f:env":{"k:{\"name\":\"C\"}":{".":{},"f:name":{},"f:value":{}}},"f:name":{}}}}}}}"#
        ));
        let other = json!([{ "name": "x", "image": "other", "env": [env("C", "2")] }]);
        let answer = raw.apply(&path, "third", &config(json!({}), other)).await;
        assert_eq!(conflicts(&answer), [
            "conflict with me .spec.template.spec.containers[name=x].image",
            "conflict with you .spec.template.spec.containers[name=x].env[name=C].value",
        ]);
    }

    /// docs/apiserver.md: row 87.
    async fn kubectl_takes_over_fields_of_its_client_side_apply(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let last = map("a", &json!({ "k": "1" }));
        let mut object = last.clone();
        object["metadata"]["annotations"] =
            json!({ "kubectl.kubernetes.io/last-applied-configuration": last.to_string() });
        raw.post(&format!("{}?fieldManager=kubectl-client-side-apply", raw.maps()), &object).await.ok();
        let path = format!("{}/a", raw.maps());
        let config = map("a", &json!({ "k": "2" }));
        raw.apply(&path, "me", &config).await.refused(409, "Conflict");
        let applied = raw.apply(&path, "kubectl", &config).await.ok();
        assert_eq!(applied["data"], json!({ "k": "2" }));
        let annotation = &applied["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
        let renewed: Value = serde_json::from_str(annotation.as_str().expect("text")).expect("JSON");
        assert_eq!(renewed, config);
    }

    /// docs/apiserver.md: row 85.
    async fn an_item_without_its_key_leaves_no_entries(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
        let name = &raw.namespace;
        let one = format!("{path}/{name}");
        let spec = json!({ "priorityLevelConfiguration": { "name": "global-default" } });
        let status = json!({ "conditions": [{ "status": "True" }] });
        let schema = json!({ "metadata": { "name": name }, "spec": spec });
        let mut with_status = schema.clone();
        with_status["status"] = status.clone();
        let entries = |object: &Value| object["metadata"].get("managedFields").cloned();
        let created = raw.post(&format!("{path}?dryRun=All"), &with_status).await.ok();
        assert_eq!(entries(&created), None);
        assert_ne!(entries(&raw.post(path, &schema).await.ok()), None);
        let change = json!({ "status": status });
        let changed = raw.merge(&format!("{one}?dryRun=All"), &change).await.ok();
        assert_eq!(entries(&changed), None);
        assert_ne!(entries(&raw.get(&one).await.ok()), None);
        assert_eq!(entries(&raw.merge(&one, &change).await.ok()), None);
        let labels = json!({ "metadata": { "labels": { "a": "b" } } });
        assert_eq!(entries(&raw.merge(&one, &labels).await.ok()), None);
        raw.merge(&format!("{one}/status"), &change).await.refused(422, "Invalid");
        raw.delete(&one).await.ok();
    }

    /// docs/apiserver.md: row 85.
    async fn the_server_owns_the_status_that_it_writes(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widgets = Widget::served(&raw, &json!({ "type": "object" })).await;
        let established = |answer: &Answer| answer.text.contains(r#""Established""#);
        let definition = raw.until(&widgets.own_path(), established).await;
        let entry = owners(&definition).into_iter().find(|owner| owner.starts_with("kube-apiserver"));
        assert_eq!(entry.as_deref().map(|entry| &entry[..29]), Some("kube-apiserver Update status:"));
        let namespaces = "/api/v1/namespaces?fieldManager=me";
        let created = raw.post(namespaces, &named(&format!("{}-b", raw.namespace))).await.ok();
        assert_eq!(
            owners(&created),
            [r#"me Update -: {"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/metadata.name":{}}}}"#]
        );
    }
}
