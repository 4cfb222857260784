//! Schemas of custom resources: validation, defaults and pruning.

use http::Method;
use kube::Client;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::{
    raw::{Answer, Raw, named, names, pause, version},
    recorded::Recorded,
    widget::{DEFINITIONS, Widget},
};
use crate::cluster::create_namespace;

on_both_servers! {
    /// docs/apiserver.md: row 110.
    async fn an_unchanged_part_may_violate_a_newer_schema(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&loose());
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        definition.pointer_mut(status).expect("properties")["note"] = json!({ "type": "string" });
        widget.define(&definition).await;
        widget.create("w", &json!({
            "size": 9, "host": "NO", "tags": ["long", "b"], "twice": [1, 1], "sub": { "a": 1 }, "by": { "k": 9 },
            "either": { "x": 9 },
            "ports": [{ "name": "a", "port": 900, "text": "t" }, { "name": "b", "port": 900 }],
        })).await;
        let status = format!("{}/status", widget.one("w"));
        raw.merge(&status, &json!({ "status": { "note": "long", "ready": true } })).await.ok();

        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
        let spec = format!("{schema}/spec/properties");
        let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
        let change = json!([
            add(&format!("{spec}/size/maximum"), json!(5)),
            add(&format!("{spec}/host/pattern"), json!("^[a-z]+$")),
            add(&format!("{spec}/tags/items/maxLength"), json!(2)),
            add(&format!("{spec}/twice/x-kubernetes-list-type"), json!("set")),
            add(&format!("{spec}/sub/required"), json!(["b"])),
            add(&format!("{spec}/by/additionalProperties/maximum"), json!(5)),
            add(&format!("{spec}/either/anyOf"), json!([{ "properties": { "x": { "maximum": 5 } } }, { "required": ["z"] }])),
            add(&format!("{spec}/ports/items/properties/port/maximum"), json!(100)),
            add(&format!("{schema}/status/properties/note/maxLength"), json!(2)),
            add("/spec/versions/0/schema/openAPIV3Schema/required", json!(["extra"])),
            add(&format!("{schema}/extra"), json!({ "type": "string" })),
        ]);
        raw.patch(&widget.own_path(), "json", &change.to_string()).await.ok();
        let dry = format!("{}?dryRun=All", widget.all());
        let invalid = widget.object("x", &json!({ "size": 9 }));
        while raw.post(&dry, &invalid).await.code != 422 {
            pause().await;
        }
        // What the whole object lacks is an error even if nothing changes.
        let same = raw.get(&widget.one("w")).await.ok();
        let message = raw.put(&widget.one("w"), &same).await.refused(422, "Invalid");
        assert!(message.contains("is invalid: extra: Required value"), "{message}");
        raw.merge(&widget.one("w"), &json!({ "metadata": { "labels": { "a": "b" } }, "extra": "x" })).await.ok();
        for (spec, expected) in [
            (json!({ "size": 3 }), ""),
            (json!({ "size": 8 }), "spec.size: Invalid value: 8"),
            (json!({ "host": "N" }), "spec.host: Invalid value"),
            (json!({ "tags": ["long", "c"] }), "spec.tags[0]: Too long"),
            (json!({ "twice": [1, 1, 1] }), ""),
            (json!({ "sub": { "a": 2 } }), "spec.sub.b: Required value"),
            (json!({ "sub": { "a": 2, "b": 3 } }), ""),
            (json!({ "by": { "l": 1 } }), ""),
            (json!({ "by": { "l": 8 } }), "spec.by.l: Invalid value: 8"),
            (json!({ "either": { "x": 8 } }), "must validate at least one schema (anyOf)"),
            (json!({ "either": { "y": 1 } }), "spec.either.x: Invalid value: 9"),
            (json!({ "ports": [{ "name": "a", "port": 900, "text": "u" }, { "name": "b", "port": 900 }] }), ""),
            (json!({ "ports": [{ "name": "b", "port": 900 }, { "name": "a", "port": 900 }] }), ""),
            (json!({ "ports": [{ "name": "c", "port": 900 }] }), "spec.ports[0].port: Invalid value: 900"),
        ] {
            let path = format!("{}?dryRun=All", widget.one("w"));
            let answer = raw.merge(&path, &json!({ "spec": spec })).await;
            if expected.is_empty() {
                answer.ok();
            } else {
                let message = answer.refused(422, "Invalid");
                assert!(message.contains(expected), "{spec}: {message}");
            }
        }
        raw.merge(&status, &json!({ "status": { "ready": false } })).await.ok();
        let change = json!({ "status": { "note": "longer" } });
        let message = raw.merge(&status, &change).await.refused(422, "Invalid");
        assert!(message.contains("status.note: Too long"), "{message}");
    }

    /// docs/apiserver.md: row 109.
    async fn a_rule_that_does_not_parse_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let dry = format!("{DEFINITIONS}?dryRun=All");
        let syntax = "compilation failed: ERROR: <input>:1:";
        for (rule, field, expected) in [
            (json!({}), "rule", "Required value: rule is not specified"),
            (json!({ "rule": "  " }), "rule", "Required value: rule is not specified"),
            (json!({ "rule": "self.a >" }), "rule", syntax),
            (json!({ "rule": "self.a > 1 2" }), "rule", syntax),
            (json!({ "rule": "self.a > (1" }), "rule", syntax),
            (json!({ "rule": "self.a = 1" }), "rule", syntax),
            (json!({ "rule": "self.a > 1 & true" }), "rule", syntax),
            (json!({ "rule": "'\\q' == ''" }), "rule", syntax),
            (json!({ "rule": "has(self)" }), "rule", syntax),
            (json!({ "rule": "[1].all(1, true)" }), "rule", syntax),
            (json!({ "rule": "true\n&&", "message": "m" }), "rule", "compilation failed: ERROR: <input>:2:"),
            (json!({ "rule": "true\n&& true" }), "message", "Required value: message must be specified if rule contains line breaks"),
            (json!({ "rule": "true", "message": " " }), "message", r#"Invalid value: " ": must be non-empty if specified"#),
            (json!({ "rule": "true", "message": "a\nb" }), "message", r#"Invalid value: "a\nb": must not contain line breaks"#),
            (json!({ "rule": "true", "messageExpression": " " }), "messageExpression", "Required value: messageExpression must be non-empty if specified"),
            (json!({ "rule": "true", "messageExpression": "'a" }), "messageExpression", "messageExpression compilation failed: ERROR: <input>:1:"),
            (json!({ "rule": "true", "reason": "Odd" }), "reason", r#"Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#),
            (json!({ "rule": "true", "fieldPath": " " }), "fieldPath", r#"Invalid value: " ": must be non-empty if specified"#),
            (json!({ "rule": "true", "fieldPath": ".b" }), "fieldPath", r#"Invalid value: ".b": must be a valid path"#),
            (json!({ "rule": "true", "fieldPath": "a" }), "fieldPath", r#"Invalid value: "a": must be a valid path"#),
            (json!({ "rule": "true", "fieldPath": ".m['x'" }), "fieldPath", "must be a valid path"),
            (json!({ "rule": "true", "fieldPath": ".m[x]" }), "fieldPath", "must be a valid path"),
            (json!({ "rule": "true", "fieldPath": ".a\n" }), "fieldPath", r#"Invalid value: ".a\n": must not contain line breaks"#),
        ] {
            let definition = widget.definition(&ruled(&rule));
            let message = raw.post(&dry, &definition).await.refused(422, "Invalid");
            let place = format!("spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].{field}: ");
            assert!(message.contains(&place) && message.contains(expected), "{rule}: {message}\nlacks\n{expected}");
        }
        for rule in [
            json!({ "rule": "self.a > 1", "message": " m ", "reason": "FieldValueForbidden", "fieldPath": ".a" }),
            json!({ "rule": "self.?a.orValue(1) == 1 || self.m[?'x'].hasValue()" }),
            json!({ "rule": "has(self.m) && self.m.all(k, k == r'\\q') // text" }),
            json!({ "rule": "true\n&& true", "message": "m", "messageExpression": "'a' + 'b'" }),
            json!({ "rule": "true", "fieldPath": ".m['x\\'.y']" }),
            json!({ "rule": "true", "fieldPath": "['m'].x" }),
        ] {
            raw.post(&dry, &widget.definition(&ruled(&rule))).await.ok();
        }
        // The rules of an update too.
        widget.define(&widget.definition(&ruled(&json!({ "rule": "true" })))).await;
        let change = json!([{ "op": "add", "value": "self.",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0/rule" }]);
        raw.patch(&widget.own_path(), "json", &change.to_string()).await.refused(422, "Invalid");
    }

    /// docs/apiserver.md: rows 8, 108, 112.
    async fn schema_violations_are_reported_with_path_and_reason(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        for (spec, expected) in [
            (json!({}), "spec.size: Required value"),
            (json!({ "size": "3" }), r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#),
            (json!({ "size": 0 }), "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
            (json!({ "size": 11 }), "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
            (json!({ "size": 1, "colour": "blue" }), r#"spec.colour: Unsupported value: "blue": supported values: "grey", "red""#),
            (json!({ "size": 1, "host": "No!" }), r#"spec.host: Invalid value: "No!": spec.host in body should match '^[a-z.]+$'"#),
            (json!({ "size": 1, "host": "abcdefghi" }), "spec.host: Too long: may not be more than 8 bytes"),
            (json!({ "size": 1, "since": "now" }), r#"spec.since: Invalid value: "now": spec.since in body must be of type date-time: "now""#),
            (json!({ "size": 1, "limit": true }), r#"spec.limit: Invalid value: "boolean": spec.limit in body must be of type integer,string: "boolean""#),
            (json!({ "size": 1, "tags": ["a", "b", "a"] }), r#"spec.tags[2]: Duplicate value: "a""#),
            (json!({ "size": 1, "ports": [{ "name": "a" }, { "name": "b" }, { "name": "c" }] }), "spec.ports: Too many: 3: must have at most 2 items"),
            (json!({ "size": 1, "ports": [{ "name": "a" }, { "name": "a", "port": 1 }] }), r#"spec.ports[1]: Duplicate value: {"name":"a"}"#),
            (json!({ "size": 1, "ports": [{ "port": 1 }] }), "spec.ports[0].name: Required value"),
        ] {
            let message = raw.post(&widget.all(), &widget.object("w", &spec)).await.refused(422, "Invalid");
            let about = format!("Widget.{} \"w\" is invalid: ", widget.group);
            assert_eq!(message.strip_prefix(&about), Some(expected), "{spec}: {message}");
        }
    }

    /// docs/apiserver.md: row 112.
    async fn items_of_sets_and_maps_are_unique(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let set = |items: Value| json!({ "type": "array", "x-kubernetes-list-type": "set", "items": items });
        let pair = json!({ "type": "object", "x-kubernetes-map-type": "atomic", "properties": {
            "a": { "type": "string" }, "b": { "type": "integer" },
        } });
        let port = json!({ "type": "object", "required": ["port"], "properties": {
            "port": { "type": "integer" },
            "protocol": { "type": "string", "default": "TCP" },
            "tags": set(json!({ "type": "string" })),
        } });
        let spec = json!({ "type": "object", "properties": {
            "numbers": set(json!({ "type": "integer" })),
            "flags": set(json!({ "type": "boolean" })),
            "pairs": set(pair),
            "lists": set(json!({ "type": "array", "x-kubernetes-list-type": "atomic", "items": { "type": "integer" } })),
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port,
            },
            "free": { "type": "array", "items": { "type": "integer" } },
        } });
        let widget = Widget::served(&raw, &spec).await;
        let created = widget.create("w", &json!({ "free": [1, 1], "numbers": [1, 2] })).await;
        assert_eq!(created["spec"]["free"], json!([1, 1]), "other lists may repeat items");
        for (spec, expected) in [
            (json!({ "numbers": [1, 2, 1, 1] }), "spec.numbers[2] Duplicate value: 1"),
            (json!({ "flags": [true, false, true] }), "spec.flags[2] Duplicate value: true"),
            (json!({ "pairs": [{ "a": "x", "b": 1 }, { "a": "x" }, { "b": 1, "a": "x" }] }), r#"spec.pairs[2] Duplicate value: {"a":"x","b":1}"#),
            (json!({ "lists": [[1, 2], [2, 1], [1, 2]] }), "spec.lists[2] Duplicate value: [1,2]"),
            (json!({ "ports": [{ "port": 1 }, { "port": 1, "protocol": "UDP" }, { "port": 1, "protocol": "TCP" }] }), r#"spec.ports[2] Duplicate value: {"port":1,"protocol":"TCP"}"#),
            (json!({ "ports": [{ "port": 1, "tags": ["a", "a"] }] }), r#"spec.ports[0].tags[1] Duplicate value: "a""#),
        ] {
            let path = widget.one("w");
            let mut object = raw.get(&path).await.ok();
            object["spec"] = spec.clone();
            let change = json!({ "spec": spec });
            let answers = [
                raw.post(&widget.all(), &widget.object("v", &spec)).await,
                raw.put(&path, &object).await,
                raw.merge(&path, &change).await,
            ];
            for answer in answers {
                let causes = answer.body["details"]["causes"].as_array().into_iter().flatten();
                let causes = causes.map(|cause| {
                    assert_eq!(cause["reason"], "FieldValueDuplicate", "{spec}");
                    let word = |field: &str| cause[field].as_str().unwrap_or_default();
                    format!("{} {}", word("field"), word("message"))
                });
                assert_eq!(causes.collect::<Vec<_>>().join("; "), expected, "{spec}");
                answer.refused(422, "Invalid");
            }
        }
    }

    /// docs/apiserver.md: rows 3, 8, 108.
    async fn every_fault_is_a_cause_with_its_field(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let object = widget.object("w", &json!({ "colour": "blue", "host": 3 }));
        let answer = raw.post(&widget.all(), &object).await;
        let details = &answer.body["details"];
        assert_eq!((&details["kind"], &details["group"]), (&json!("Widget"), &json!(widget.group)));
        let causes = details["causes"].as_array().expect("causes");
        let mut causes: Vec<_> = causes.iter()
            .map(|cause| format!("{} {}", cause["field"], cause["reason"]).replace('"', "")).collect();
        causes.sort();
        assert_eq!(causes, [
            "spec.colour FieldValueNotSupported",
            "spec.host FieldValueTypeInvalid",
            "spec.size FieldValueRequired",
        ]);
        answer.refused(422, "Invalid");
    }

    /// docs/apiserver.md: row 111.
    async fn nullable_nulls_stay_and_others_get_the_default(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let nullable = json!({ "type": "string", "nullable": true, "default": "x" });
        let plain = json!({ "type": "string", "default": "x" });
        let spec = json!({ "type": "object", "properties": {
            "may": nullable, "not": plain,
            "without": { "type": "string", "nullable": true },
            "map": { "type": "object", "additionalProperties": nullable },
            "plain": { "type": "object", "additionalProperties": plain },
            "list": { "type": "array", "items": nullable },
            "plains": { "type": "array", "items": plain },
        } });
        let widget = Widget::served(&raw, &spec).await;
        let created = widget.create("w", &json!({
            "may": null, "not": null, "without": null, "map": { "a": null }, "plain": { "a": null },
            "list": [null], "plains": [null],
        })).await;
        assert_eq!(created["spec"], json!({
            "may": null, "not": "x", "without": null, "map": { "a": null }, "plain": { "a": "x" },
            "list": [null], "plains": ["x"],
        }));
        let created = widget.create("v", &json!({})).await;
        assert_eq!(created["spec"], json!({ "may": "x", "not": "x" }));
    }

    /// docs/apiserver.md: row 111.
    async fn elements_of_an_open_list_keep_unknown_fields(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let item = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        let spec = json!({ "type": "object", "properties": {
            "open": { "type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": item },
            "closed": { "type": "array", "items": item },
            "typeless": { "x-kubernetes-preserve-unknown-fields": true },
        } });
        let widget = Widget::served(&raw, &spec).await;
        let items = json!([{ "a": "1", "b": { "c": 1 } }]);
        let sent = json!({ "open": items, "closed": items, "typeless": items });
        let created = widget.create("w", &sent).await;
        let kept = json!({ "open": items, "closed": [{ "a": "1" }], "typeless": items });
        assert_eq!(created["spec"], kept);
    }

    /// docs/apiserver.md: row 108.
    async fn an_update_must_fit_the_schema_too(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let created = widget.create("w", &json!({ "size": 1 })).await;
        let change = json!({ "spec": { "size": 0 } });
        raw.merge(&widget.one("w"), &change).await.refused(422, "Invalid");
        let mut whole = created.clone();
        whole["spec"] = json!({});
        raw.put(&widget.one("w"), &whole).await.refused(422, "Invalid");
        let wrong = json!({ "status": { "ready": "yes" } });
        raw.merge(&format!("{}/status", widget.one("w")), &wrong).await.refused(422, "Invalid");
        assert_eq!(raw.get(&widget.one("w")).await.ok(), created);
    }

    /// docs/apiserver.md: row 111.
    async fn unknown_fields_are_pruned(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let mut object = widget.object("w", &json!({
            "size": 1, "colour": "red", "unknown": 1,
            "ports": [{ "name": "a", "port": 1, "speed": 3 }],
            "free": { "any": { "thing": 1 }, "known": { "a": "b", "unknown": 1 } },
        }));
        object["top"] = 1.into();
        object["metadata"]["unknown"] = 1.into();
        let created = raw.post(&widget.all(), &object).await.ok();
        let kept = json!({
            "size": 1, "colour": "red",
            "ports": [{ "name": "a", "port": 1 }],
            "free": { "any": { "thing": 1 }, "known": { "a": "b" } },
        });
        assert_eq!(created["spec"], kept);
        assert_eq!(created.get("top"), None);
        assert_eq!(created["metadata"].get("unknown"), None);
        let change = json!({ "spec": { "later": 1 } });
        let patched = raw.merge(&widget.one("w"), &change).await.ok();
        assert_eq!(patched["spec"], kept);
        assert_eq!(patched["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    }

    /// docs/apiserver.md: row 111.
    async fn defaults_are_filled_in(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let spec = json!({ "size": 1, "colour": null, "host": null, "ports": [{ "name": "a" }] });
        let created = widget.create("w", &spec).await;
        // `host` may not be null and has no default: it is as if it weren't said.
        assert_eq!(created["spec"], json!({
            "size": 1, "colour": "grey", "ports": [{ "name": "a", "port": 80 }],
        }));
        let change = json!({ "spec": { "colour": "red" } });
        raw.merge(&widget.one("w"), &change).await.ok();
        let change = json!({ "spec": { "colour": null } });
        let patched = raw.merge(&widget.one("w"), &change).await.ok();
        assert_eq!(patched["spec"]["colour"], "grey");
    }

    /// docs/apiserver.md: row 111.
    async fn a_new_default_applies_to_stored_objects(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut without = schema();
        without["properties"]["colour"].as_object_mut().expect("a schema").remove("default");
        widget.define(&widget.definition(&without)).await;
        let created = widget.create("w", &json!({ "size": 1 })).await;
        assert_eq!(created["spec"], json!({ "size": 1 }));
        let change = json!([{
            "op": "add",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour/default",
            "value": "red",
        }]);
        raw.patch(&widget.own_path(), "json", &change.to_string()).await.ok();
        let seen = raw.until(&widget.one("w"), |answer| answer.body["spec"]["colour"] == "red").await;
        assert_eq!(seen["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    }

    /// docs/apiserver.md: row 108.
    async fn a_number_or_a_string_may_be_either(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        for (name, limit) in [("number", json!(80)), ("string", json!("80%"))] {
            let created = widget.create(name, &json!({ "size": 1, "limit": limit })).await;
            assert_eq!(created["spec"]["limit"], limit);
        }
    }

    /// docs/apiserver.md: rows 108, 111.
    async fn a_null_stays_in_a_nullable_field(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let created = widget.create("w", &json!({ "size": 1, "note": null })).await;
        assert_eq!(created["spec"]["note"], Value::Null);
        assert!(created["spec"].as_object().expect("a spec").contains_key("note"));
    }

    /// docs/apiserver.md: rows 20, 82.
    async fn unknown_fields_are_reported_on_request(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let object = widget.object("w", &json!({ "size": 1, "unknown": 1 }));
        let strict = format!("{}?fieldValidation=Strict", widget.all());
        let message = raw.post(&strict, &object).await.refused(400, "BadRequest");
        assert!(message.ends_with("strict decoding error: unknown field \"spec.unknown\""), "{message}");
        let ignored = raw.post(&format!("{}?fieldValidation=Ignore&dryRun=All", widget.all()), &object).await;
        assert_eq!((ignored.code, ignored.warning.as_str()), (201, ""));
        let warned = raw.post(&widget.all(), &object).await;
        assert_eq!((warned.code, warned.warning.as_str()), (201, "299 - \"unknown field \\\"spec.unknown\\\"\""));
    }

    /// docs/apiserver.md: row 82.
    async fn duplicate_objects_of_built_in_kinds_are_merged(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let pods = raw.at("/api/v1", "pods");
        let pod = |spec: &str| format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"containers":[{{"name":"a","image":"b"}}]}},{spec}}}"#);
        let json = [("content-type", "application/json")];
        for (path, body, pointer, expected) in [
            (raw.maps(), r#"{"metadata":{"name":"a","labels":{"a":"1"}},"metadata":{"labels":{"b":"2"}}}"#.to_owned(),
                "/metadata/labels", json!({ "a": "1", "b": "2" })),
            (raw.maps(), r#"{"metadata":{"name":"a","labels":{"a":"1"},"labels":{"a":"2","b":"2"}}}"#.to_owned(),
                "/metadata/labels", json!({ "a": "2", "b": "2" })),
            (raw.maps(), r#"{"metadata":{"name":"a"},"data":{"a":"1"},"data":{"b":"2"},"data":{}}"#.to_owned(),
                "/data", json!({ "a": "1", "b": "2" })),
            (raw.maps(), r#"{"metadata":{"name":"a"},"data":{"a":"1"},"data":null,"data":{"b":"1"}}"#.to_owned(),
                "/data", json!({ "b": "1" })),
            (raw.maps(), r#"{"metadata":{"name":"a"},"metadata":null,"metadata":{"name":null}}"#.to_owned(),
                "/metadata/name", json!("a")),
            (raw.maps(), r#"{"metadata":{"name":"a","finalizers":["a.b/c","a.b/d"],"finalizers":["a.b/e"]}}"#.to_owned(),
                "/metadata/finalizers", json!(["a.b/e"])),
            (raw.maps(), r#"{"metadata":{"name":"a"},"immutable":true,"immutable":null}"#.to_owned(),
                "/immutable", Value::Null),
            (pods.clone(), pod(r#""spec":{"containers":[{"name":"c"}]}"#),
                "/spec/containers/0/image", json!("b")),
            (pods.clone(), pod(r#""spec":{"containers":[{"name":"c"},{"name":"d","image":"e"}]}"#),
                "/spec/containers/1/image", json!("e")),
            (pods.clone(), pod(r#""spec":{"containers":[{"env":[{"name":"A","value":"1"}],"env":[{"name":"B"}]}]}"#),
                "/spec/containers/0/env", json!([{ "name": "B", "value": "1" }])),
            (pods.clone(), pod(r#""spec":{"securityContext":{"runAsUser":1}},"spec":{"securityContext":{"runAsGroup":2}}"#),
                "/spec/securityContext", json!({ "runAsUser": 1, "runAsGroup": 2 })),
            (pods.clone(), pod(r#""spec":{"securityContext":{"runAsUser":1}},"spec":{"securityContext":null}"#),
                "/spec/securityContext", json!({})),
            (pods.clone(), pod(r#""spec":{"containers":[{"resources":{"limits":{"cpu":"1"}},"resources":{"limits":{"memory":"1"}}}]}"#),
                "/spec/containers/0/resources/limits", json!({ "cpu": "1", "memory": "1" })),
        ] {
            let created = raw.ask(Method::POST, &format!("{path}?dryRun=All"), &json, &body).await;
            let value = created.ok().pointer(pointer).cloned().unwrap_or_default();
            assert_eq!(value, expected, "{body}");
        }
        for body in [
            r#"{"metadata":{"name":"a"},"data":{"a":1},"data":{"a":"1"}}"#,
            r#"{"metadata":{"name":"a"},"data":{"a":"1"},"data":{"a":1}}"#,
            r#"{"metadata":{"name":"a"},"data":[],"data":{"a":"1"}}"#,
            r#"{"metadata":{"name":"a"},"immutable":"x","immutable":true}"#,
        ] {
            raw.ask(Method::POST, &raw.maps(), &json, body).await.refused(400, "BadRequest");
        }
        // A patch and a body in YAML are read as maps.
        let yaml = [("content-type", "application/yaml")];
        let body = r#"{"metadata":{"name":"a","labels":{"a":"1"}},"metadata":{"name":"a","labels":{"b":"2"}}}"#;
        let created = raw.ask(Method::POST, &raw.maps(), &yaml, body).await.ok();
        assert_eq!(created["metadata"]["labels"], json!({ "b": "2" }));
        let patch = r#"{"data":{"a":"1"},"data":{"b":"1"}}"#;
        for kind in ["merge", "strategic-merge"] {
            let patched = raw.patch(&format!("{}/a?dryRun=All", raw.maps()), kind, patch).await.ok();
            assert_eq!(patched["data"], json!({ "b": "1" }), "{kind}");
        }
        let version = &created["metadata"]["resourceVersion"];
        let body = format!(r#"{{"metadata":{{"name":"a","resourceVersion":{version}}},{}"#, &patch[1..]);
        let updated = raw.ask(Method::PUT, &format!("{}/a", raw.maps()), &json, &body).await.ok();
        assert_eq!(updated["data"], json!({ "a": "1", "b": "1" }));
    }

    /// docs/apiserver.md: rows 20, 82.
    async fn duplicate_fields_are_reported_on_request(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        })).await;
        let maps = raw.maps();
        let map = r#"{"foo":1,"foo":2,"metadata":{"name":"a","name":"m","labels":{"x":"1","x":"2"}},
            "data":{"k":"1","k":"2","k":"3"}}"#;
        let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","image":"j",
            "env":[{"name":"A","value":"1","value":"2"}]}],"nodeSelector":{"a":"b","a":"c"}}}"#;
        let custom = format!(
            r#"{{"apiVersion":"{}/v1","kind":"Widget","metadata":{{"name":"w"}},
            "spec":{{"n":1,"n":2,"l":[{{"a":1,"a":2}}]}},"spec":{{"n":4}},"bar":1,"bar":2}}"#,
            widget.group,
        );
        for (path, body, expected) in [
            (&maps, map, [
                r#"unknown field "foo""#, r#"duplicate field "metadata.name""#,
                r#"duplicate field "metadata.labels.x""#, r#"duplicate field "data.k""#,
            ].as_slice()),
            (&raw.at("/api/v1", "pods"), pod, &[
                r#"duplicate field "spec.containers[0].image""#,
                r#"duplicate field "spec.containers[0].env[0].value""#,
                r#"duplicate field "spec.nodeSelector.a""#,
            ]),
            (&widget.all(), &custom, &[
                r#"duplicate field "spec.n""#, r#"duplicate field "spec.l[0].a""#,
                r#"duplicate field "spec""#, r#"duplicate field "bar""#, r#"unknown field "bar""#,
            ]),
        ] {
            let json = [("content-type", "application/json")];
            let post = async |query: &str| raw.ask(Method::POST, &format!("{path}?{query}"), &json, body).await;
            let why = post("fieldValidation=Strict").await.refused(400, "BadRequest");
            let (_, reported) = why.split_once("strict decoding error: ").expect("the fields");
            assert_eq!(reported, expected.join(", "));
            let ignored = post("fieldValidation=Ignore&dryRun=All").await;
            assert_eq!((ignored.code, ignored.warnings.len()), (201, 0));
            let warned = post("dryRun=All").await;
            assert_eq!(warned.code, 201, "{}", warned.text);
            let expected: Vec<_> = expected.iter().map(|text| format!("299 - \"{}\"", text.replace('"', "\\\""))).collect();
            assert_eq!(warned.warnings, expected);
        }

        raw.post(&maps, &named("m")).await.ok();
        let one = format!("{maps}/m");
        for (kind, body, expected) in [
            ("merge", r#"{"data":{"k":"5","k":"6"}}"#, r#"duplicate field "data.k""#),
            ("strategic-merge", r#"{"data":{"k":"5","k":"7"}}"#, r#"duplicate field "data.k""#),
            (
                "json", r#"[{"op":"add","op":"add","path":"/data","value":{"x":"1"}}]"#,
                r#"json patch duplicate field "[0].op""#,
            ),
        ] {
            let why = raw.patch(&format!("{one}?fieldValidation=Strict"), kind, body).await.refused(422, "Invalid");
            assert!(why.ends_with(&format!("strict decoding error: {expected}")), "{why}");
            let warned = raw.patch(&one, kind, body).await;
            assert_eq!(warned.code, 200, "{}", warned.text);
            assert_eq!(warned.warning, format!("299 - \"{}\"", expected.replace('"', "\\\"")));
        }
        let apply = "application/apply-patch+yaml";
        let config = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"j":"5","j":"6"}}"#;
        let path = format!("{one}?fieldManager=x");
        let headers = [("content-type", apply)];
        let strict = format!("{path}&fieldValidation=Strict");
        let why = raw.ask(Method::PATCH, &strict, &headers, config).await.refused(400, "BadRequest");
        assert!(why.starts_with("error strict decoding YAML: "), "{why}");
        let warned = raw.ask(Method::PATCH, &path, &headers, config).await;
        assert_eq!((warned.code, warned.warnings.len()), (200, 1), "{}", warned.text);
        assert_eq!(warned.body["data"]["j"], "6");
    }

    /// docs/apiserver.md: rows 20, 82.
    async fn unknown_fields_of_the_metadata_are_reported_and_dropped(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let mut object = widget.object("w", &json!({ "size": 1, "unknown": 1 }));
        object["metadata"]["label"] = json!({ "a": "b" });
        object["metadata"]["alpha"] = Value::Null;
        object["metadata"]["ownerReferences"] = json!([
            { "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "colour": "red" },
        ]);
        let strict = format!("{}?fieldValidation=Strict", widget.all());
        let message = raw.post(&strict, &object).await.refused(400, "BadRequest");
        let (_, fields) = message.split_once("strict decoding error: ").expect("the fields");
        assert_eq!(
            fields,
            "unknown field \"metadata.alpha\", unknown field \"metadata.label\", unknown field \
             \"metadata.ownerReferences[0].colour\", unknown field \"spec.unknown\"",
        );
        let created = raw.post(&widget.all(), &object).await;
        let reported = created.warnings.join("\n");
        let names = ["metadata.alpha", "metadata.label", "metadata.ownerReferences[0].colour", "spec.unknown"];
        let warnings = names.map(|name| format!("299 - \"unknown field \\\"{name}\\\"\""));
        assert_eq!(reported, warnings.join("\n"));
        let created = created.ok();
        assert_eq!(created["metadata"].get("label"), None);
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u" });
        assert_eq!(created["metadata"]["ownerReferences"], json!([owner]));
    }

    /// docs/apiserver.md: row 111.
    async fn a_write_begins_with_the_object_in_the_current_schema(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let spec = |fields: Value| json!({ "type": "object", "properties": fields });
        let text = json!({ "type": "string" });
        widget.define(&widget.definition(&spec(json!({ "a": text, "old": text })))).await;
        for name in ["a", "b", "c", "d"] {
            widget.create(name, &json!({ "a": "1", "old": "2" })).await;
        }
        let fields = json!({ "a": text, "new": { "type": "string", "default": "n" } });
        let change = json!([{
            "op": "replace",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties",
            "value": fields,
        }]);
        raw.patch(&widget.own_path(), "json", &change.to_string()).await.ok();
        let old = raw.until(&widget.one("a"), |answer| answer.body["spec"]["new"] == "n").await;
        assert_eq!(old["spec"], json!({ "a": "1", "new": "n" }));

        // What was read is written back: that is a write, but nothing is new.
        let strict = |name: &str| format!("{}?fieldValidation=Strict", widget.one(name));
        let put = raw.put(&strict("a"), &old).await.ok();
        assert_eq!(put["metadata"]["generation"], 1);
        assert!(version(&put) > version(&old));
        assert_eq!(put["metadata"]["managedFields"], old["metadata"]["managedFields"]);
        let again = raw.put(&strict("a"), &put).await.ok();
        assert_eq!(again, put);
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let patched = raw.merge(&strict("b"), &label).await.ok();
        assert_eq!((&patched["metadata"]["generation"], &patched["spec"]), (&json!(1), &old["spec"]));
        let change = json!([
            { "op": "test", "path": "/spec/new", "value": "n" },
            { "op": "test", "path": "/spec/old", "value": null },
            { "op": "replace", "path": "/spec/a", "value": "3" },
        ]);
        let patched = raw.patch(&widget.one("c"), "json", &change.to_string()).await.ok();
        assert_eq!((&patched["metadata"]["generation"], &patched["spec"]["a"]), (&json!(2), &json!("3")));
        let config = widget.object("d", &json!({ "a": "1" }));
        let applied = raw.apply(&widget.one("d"), "me", &config).await.ok();
        assert_eq!((&applied["metadata"]["generation"], &applied["spec"]), (&json!(1), &old["spec"]));
    }

    /// docs/apiserver.md: row 111.
    async fn a_new_object_has_the_defaults_of_its_status(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        widget.define(&with_phase(&widget)).await;
        let pending = json!({ "phase": "Pending", "replicas": 3 });
        let mut object = widget.object("w", &json!({ "replicas": 1 }));
        // A create ignores the status of its body, and a read fills in what is not stored.
        object["status"] = json!({ "phase": "Running", "note": "x" });
        let tried = raw.post(&format!("{}?dryRun=All", widget.all()), &object).await.ok();
        assert_eq!(tried["status"], pending, "dry run");
        let mut events = raw.watch(&format!("{}?watch=1", widget.all())).await;
        let created = raw.post(&widget.all(), &object).await.ok();
        assert_eq!(created["status"], pending, "create");
        assert_eq!(raw.get(&widget.one("w")).await.ok(), created);
        assert_eq!(raw.get(&format!("{}/status", widget.one("w"))).await.ok(), created);
        assert_eq!(raw.get(&widget.all()).await.ok()["items"], json!([created]));
        let event = events.event().await;
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &created));
        let mut later = raw.watch(&format!("{}?watch=1", widget.all())).await;
        assert_eq!(later.event().await["object"], created);
        let mut applied = widget.object("x", &json!({ "replicas": 1 }));
        let tried = raw.apply(&format!("{}?dryRun=All", widget.one("x")), "me", &applied).await.ok();
        assert_eq!(tried["status"], pending, "dry run of an apply");
        applied["status"] = json!({ "phase": "Running" });
        let applied = raw.apply(&widget.one("x"), "me", &applied).await.ok();
        assert_eq!(applied["status"], pending, "apply");

        for (query, found) in [("Pending", "w x"), ("Running", ""), ("", "")] {
            let path = format!("{}?fieldSelector=status.phase%3D{query}", widget.all());
            assert_eq!(names(&raw.get(&path).await.ok()), found, "{query}");
            if !found.is_empty() {
                let mut selected = raw.watch(&format!("{path}&watch=1")).await;
                assert_eq!(selected.next_line().await, "ADDED w");
            }
        }
        let scale = raw.get(&format!("{}/scale", widget.one("w"))).await.ok();
        assert_eq!(scale["status"]["replicas"], 3);
        let table = raw.get_as(&widget.one("w"), "application/json;as=Table;v=v1;g=meta.k8s.io").await.ok();
        assert_eq!(table["rows"][0]["cells"], json!(["w", "Pending"]));

        // The first write stores the defaults, even if it changes nothing else.
        let same = raw.put(&widget.one("w"), &created).await.ok();
        assert!(version(&same) > version(&created));
        assert_eq!(without_version(&same), without_version(&created));
        let again = raw.put(&widget.one("w"), &same).await.ok();
        assert_eq!(again, same);
        let change = json!({ "spec": { "replicas": 2 } });
        let merged = raw.merge(&widget.one("x"), &change).await.ok();
        assert_eq!((&merged["status"], &merged["metadata"]["generation"]), (&pending, &json!(2)));

        // Defaults replace what a write to the status drops.
        let status = format!("{}/status", widget.one("w"));
        let mut running = same.clone();
        running["status"] = json!({ "phase": "Running", "note": "n" });
        let running = raw.put(&status, &running).await.ok();
        assert_eq!(running["status"], json!({ "phase": "Running", "note": "n", "replicas": 3 }));
        for dropped in [Some(json!({ "note": "n" })), Some(json!({})), Some(Value::Null), None] {
            let mut body = raw.merge(&status, &json!({ "status": { "phase": "Running", "note": "m" } })).await.ok();
            let sent = dropped.clone().unwrap_or(json!("no status"));
            match &dropped {
                Some(dropped) => body["status"] = dropped.clone(),
                None => _ = body.as_object_mut().expect("an object").remove("status"),
            }
            let written = raw.put(&status, &body).await.ok();
            let mut expected = pending.clone();
            if let Some(note) = sent.get("note") {
                expected["note"] = note.clone();
            }
            assert_eq!(written["status"], expected, "{sent}");
            assert_eq!(raw.get(&widget.one("w")).await.ok(), written, "{sent}");
        }
        let patched = raw.merge(&status, &json!({ "status": { "phase": null } })).await.ok();
        assert_eq!(patched["status"], pending);
        let deleted = raw.delete(&widget.one("w")).await.ok();
        assert_eq!(deleted["status"], "Success");
        let last = loop {
            let event = events.event().await;
            if event["type"] == "DELETED" {
                break event;
            }
        };
        assert_eq!(last["object"]["status"], pending);
    }

    /// docs/apiserver.md: row 111.
    async fn a_status_without_a_default_is_absent_from_a_new_object(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = with_phase(&widget);
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status";
        let status = definition.pointer_mut(status).and_then(Value::as_object_mut);
        status.expect("a schema").remove("default");
        widget.define(&definition).await;
        let created = widget.create("w", &json!({})).await;
        assert_eq!(created.get("status"), None);
        assert_eq!(raw.put(&widget.one("w"), &created).await.ok(), created);
        // The defaults within the status need a status.
        let status = format!("{}/status", widget.one("w"));
        let mut body = created.clone();
        body["status"] = json!({});
        let written = raw.put(&status, &body).await.ok();
        assert_eq!(written["status"], json!({ "phase": "Pending", "replicas": 3 }));
        let mut body = written.clone();
        body.as_object_mut().expect("an object").remove("status");
        let written = raw.put(&status, &body).await.ok();
        assert_eq!(written.get("status"), None);
        assert_eq!(raw.get(&widget.one("w")).await.ok(), written);
    }

    /// docs/apiserver.md: row 111.
    async fn a_status_that_is_no_subresource_is_stored_with_its_defaults(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = with_phase(&widget);
        definition["spec"]["versions"][0].as_object_mut().expect("a version").remove("subresources");
        widget.define(&definition).await;
        for (sent, expected) in [
            (Value::Null, json!({ "phase": "Pending", "replicas": 3 })),
            (json!({ "phase": "Running" }), json!({ "phase": "Running", "replicas": 3 })),
        ] {
            let mut object = widget.object("w", &json!({}));
            object["status"] = sent;
            let tried = raw.post(&format!("{}?dryRun=All", widget.all()), &object).await.ok();
            assert_eq!(tried["status"], expected);
            let created = raw.post(&widget.all(), &object).await.ok();
            assert_eq!(created["status"], expected);
            assert_eq!(raw.get(&widget.one("w")).await.ok(), created);
            assert_eq!(raw.put(&widget.one("w"), &created).await.ok(), created);
            raw.delete(&widget.one("w")).await.ok();
        }
    }

    /// docs/apiserver.md: rows 111, 113.
    async fn the_defaults_of_a_new_status_are_those_of_the_stored_version(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = with_phase(&widget);
        let mut beta = definition["spec"]["versions"][0].clone();
        beta["name"] = "v1beta1".into();
        beta["storage"] = false.into();
        // Versions with different schemas cannot have the same selectable fields.
        beta.as_object_mut().expect("a version").remove("selectableFields");
        let status = beta.pointer_mut("/schema/openAPIV3Schema/properties/status").expect("a schema");
        status["properties"]["phase"]["default"] = "Beta".into();
        status["properties"]["beta"] = json!({ "type": "string", "default": "b" });
        definition["spec"]["versions"].as_array_mut().expect("versions").push(beta);
        widget.define(&definition).await;
        let all = raw.at(&format!("/apis/{}/v1beta1", widget.group), "widgets");
        raw.until(&all, |answer| answer.code == 200).await;
        let mut object = widget.object("w", &json!({}));
        object["apiVersion"] = format!("{}/v1beta1", widget.group).into();
        let pending = json!({ "phase": "Pending", "replicas": 3 });
        let tried = raw.post(&format!("{all}?dryRun=All"), &object).await.ok();
        assert_eq!(tried["status"], pending);
        let created = raw.post(&all, &object).await.ok();
        assert_eq!(created["status"], pending);
        assert_eq!(raw.get(&format!("{all}/w")).await.ok(), created);
        assert_eq!(raw.get(&widget.one("w")).await.ok()["status"], pending);
    }

    /// docs/apiserver.md: row 111.
    async fn floats_are_written_like_go_writes_them(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let widget = Widget::served(&raw, &free).await;
        let sent = "[1e20,1e21,-1.2e19,0.00001,0.0000015,1.5e-7,1e-10,1.5,1e3,0.1e1]";
        let object = format!(
            r#"{{"apiVersion":"{}/v1","kind":"Widget","metadata":{{"name":"a"}},"spec":{{"list":{sent}}}}}"#,
            widget.group
        );
        let headers = [("content-type", "application/json")];
        let created = raw.ask(http::Method::POST, &widget.all(), &headers, &object).await;
        let written = "[100000000000000000000,1e+21,-12000000000000000000,0.00001,0.0000015,\
                       1.5e-7,1e-10,1.5,1000,1]";
        assert!(created.text.contains(written), "{}", created.text);
        let read = raw.get(&format!("{}/a", widget.all())).await;
        assert!(read.text.contains(written), "{}", read.text);
    }

    /// docs/apiserver.md: rows 82, 108.
    async fn the_metadata_of_embedded_objects_is_decoded_and_validated(cluster: Cluster) {
        cluster.require_the_default_version();
        let raw = Raw::new(&cluster).await;
        let object = json!({
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        });
        let closed = json!({
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": { "a": { "type": "integer" } },
        });
        let spec = json!({ "type": "object", "properties": {
            "one": object, "closed": closed, "many": { "type": "array", "items": object },
            "by": { "type": "object", "additionalProperties": object },
        } });
        let widget = Widget::served(&raw, &spec).await;
        let pod = |metadata: Value| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata });
        let cases = [
            json!({ "one": pod(json!({ "name": "a/b" })) }),
            json!({ "one": pod(json!({ "name": "A_b", "generateName": "a%" })) }),
            json!({ "one": pod(json!({ "labels": { "a b": "c" } })) }),
            json!({ "one": pod(json!({ "labels": { "a": "b c" }, "namespace": "A_" })) }),
            json!({ "one": pod(json!({ "labels": { "a": 1 } })) }),
            json!({ "one": pod(json!({ "labels": null, "annotations": {}, "creationTimestamp": null })) }),
            json!({ "one": pod(json!({ "generation": "x" })) }),
            json!({ "one": pod(json!({ "creationTimestamp": 1 })) }),
            json!({ "one": pod(json!({ "deletionTimestamp": "2026-01-02T03:04:05.5+01:00" })) }),
            json!({ "one": pod(json!({ "creationTimestamp": "x" })) }),
            json!({ "one": pod(json!({ "creationTimestamp": "2026-01-02T03:04:05Z", "more": 1 })) }),
            json!({ "one": pod(json!({ "finalizers": ["a"], "annotations": { "a b": "c" } })) }),
            json!({ "one": pod(json!({ "ownerReferences": [{ "name": "x", "more": 1 }] })) }),
            json!({ "one": pod(json!(5)) }),
            json!({ "one": pod(json!({})) }),
            json!({ "one": { "apiVersion": 1, "kind": "Pod" } }),
            json!({ "one": { "apiVersion": "v1", "kind": {} } }),
            json!({ "one": { "apiVersion": "v1" } }),
            json!({ "many": [pod(json!({})), pod(json!({ "name": "a/b", "x": 1 }))] }),
            json!({ "by": { "k": pod(json!({ "name": "a/b", "x": 1 })) } }),
            json!({ "closed": { "apiVersion": "v1", "kind": "Pod", "metadata": { "x": 1 }, "b": 1 } }),
        ];
        let server = ApiServer::new();
        let embedded = Raw::of(Client::new(server.service(), "default"), &raw.namespace);
        create_namespace(Client::new(server.service(), "default"), &raw.namespace).await;
        Widget::served(&embedded, &spec).await;
        let mut recorded = Recorded::new("embedded_objects", &cluster);
        for validation in ["Ignore", "Warn", "Strict"] {
            let path = format!("{}?dryRun=All&fieldValidation={validation}", widget.all());
            for case in &cases {
                let object = widget.object("a", case);
                let (theirs, ours) = (raw.post(&path, &object).await, embedded.post(&path, &object).await);
                let shown = |answer: &Answer| json!({
                    "code": answer.code, "message": answer.body["message"],
                    "spec": answer.body["spec"],
                    "warnings": answer.warnings,
                });
                assert_eq!(shown(&theirs), shown(&ours), "the server, and the embedded one: {case}");
                recorded.add(&format!("{validation} {case}"), &shown(&ours));
            }
        }
        recorded.check();
    }
}

/// A definition whose status has defaults.
fn with_phase(widget: &Widget<'_>) -> Value {
    let spec = json!({ "type": "object", "properties": { "replicas": { "type": "integer" } } });
    let mut definition = widget.definition(&spec);
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"]["scale"] = json!({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
    });
    version["selectableFields"] = json!([{ "jsonPath": ".status.phase" }]);
    version["additionalPrinterColumns"] =
        json!([{ "name": "Phase", "type": "string", "jsonPath": ".status.phase" }]);
    let status = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"];
    *status = json!({
        "type": "object",
        "default": {},
        "properties": {
            "phase": { "type": "string", "default": "Pending" },
            "replicas": { "type": "integer", "default": 3 },
            "note": { "type": "string" },
        },
    });
    definition
}

/// An object without its version.
fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}

/// A schema with something of everything.
fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": { "type": "integer", "minimum": 1, "maximum": 10 },
            "colour": { "type": "string", "enum": ["grey", "red"], "default": "grey" },
            "host": { "type": "string", "pattern": "^[a-z.]+$", "maxLength": 8 },
            "since": { "type": "string", "format": "date-time" },
            "limit": { "x-kubernetes-int-or-string": true },
            "note": { "type": "string", "nullable": true },
            "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "ports": {
                "type": "array", "maxItems": 2,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {
                        "name": { "type": "string" },
                        "port": { "type": "integer", "default": 80 },
                    },
                },
            },
            "free": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "known": { "type": "object", "properties": { "a": { "type": "string" } } },
                },
            },
        },
    })
}

/// A schema with a rule.
fn ruled(rule: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "a": { "type": "integer" },
            "m": { "type": "object", "maxProperties": 3, "additionalProperties": { "type": "string", "maxLength": 9 } },
        },
        "x-kubernetes-validations": [rule],
    })
}

/// A schema that a test makes stricter.
fn loose() -> Value {
    let number = json!({ "type": "integer" });
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "size": number, "host": text,
            "tags": { "type": "array", "items": text },
            "twice": { "type": "array", "items": number },
            "sub": { "type": "object", "properties": { "a": number, "b": number } },
            "by": { "type": "object", "additionalProperties": number },
            "either": { "type": "object", "properties": { "x": number, "y": number, "z": number } },
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object", "required": ["name"], "properties": { "name": text, "port": number, "text": text } },
            },
        },
    })
}
