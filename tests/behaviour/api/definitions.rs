//! Custom resource definitions: validation, registration and deletion.

use serde_json::{Value, json};

use super::{
    raw::{Raw, names, pause, version},
    widget::{DEFINITIONS, Widget},
};

on_both_servers! {
    /// docs/apiserver.md: row 106.
    async fn a_definition_is_accepted_and_then_established(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let created = raw.post(DEFINITIONS, &widget.definition(&any())).await.ok();
        let names = &created["spec"]["names"];
        assert_eq!((&names["singular"], &names["listKind"]), (&json!("widget"), &json!("WidgetList")));
        assert_eq!(created["spec"]["conversion"]["strategy"], "None");
        assert_eq!(created["status"]["storedVersions"], json!(["v1"]));

        let path = format!("{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3D{}", widget.name());
        let mut events = raw.watch(&path).await;
        let status = loop {
            let status = events.event().await["object"]["status"].clone();
            if condition(&status, "Established") == "True InitialNamesAccepted" {
                break status;
            }
        };
        assert_eq!(condition(&status, "NamesAccepted"), "True NoConflicts");
        let accepted = &status["acceptedNames"];
        assert_eq!((&accepted["plural"], &accepted["kind"]), (&json!("widgets"), &json!("Widget")));
    }

    /// docs/apiserver.md: rows 8, 116.
    async fn a_definition_with_invalid_parts_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let spec = json!({ "type": "object", "properties": {
            "n": { "type": "integer" }, "s": { "type": "string" }, "o": { "type": "object" },
        } });
        let column = |part: Value| json!([part]);
        let version = "/spec/versions/0";
        let mut first = widget.definition(&spec)["spec"]["versions"][0].clone();
        first["selectableFields"] = json!([{ "jsonPath": ".spec.s" }]);
        let mut second = first.clone();
        second["name"] = "v2".into();
        second["storage"] = false.into();
        second["schema"]["openAPIV3Schema"]["description"] = "another schema".into();
        let different = json!([first, second]);
        for (at, part, value, expected) in [
            ("/metadata", "name", json!("widgets.other.io"), "must be spec.names.plural"),
            ("/spec/names", "listKind", json!("Widget"), "spec.names.listKind: Invalid value: \"Widget\": kind and listKind may not be the same"),
            ("/spec/names", "singular", json!("Wd"), "spec.names.singular: Invalid value: \"Wd\": a DNS-1035 label"),
            ("/spec/names", "shortNames", json!(["W"]), "spec.names.shortNames[0]: Invalid value: \"W\": a DNS-1035 label"),
            (version, "additionalPrinterColumns", column(json!({ "type": "string", "jsonPath": ".spec.s" })), "spec.additionalPrinterColumns[0].name: Required value"),
            (version, "additionalPrinterColumns", column(json!({ "name": "a", "type": "thing", "jsonPath": ".spec.s" })), "spec.additionalPrinterColumns[0].type: Invalid value: \"thing\": must be one of boolean,date,integer,number,string"),
            (version, "additionalPrinterColumns", column(json!({ "name": "a", "type": "string", "jsonPath": "spec.s" })), "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec.s\": must be a simple json path starting with ."),
            (version, "subresources", json!({ "scale": { "specReplicasPath": ".spec.n" } }), "spec.subresources.scale.statusReplicasPath: Required value"),
            (version, "subresources", json!({ "scale": { "specReplicasPath": ".status.n", "statusReplicasPath": ".status.n" } }), "spec.subresources.scale.specReplicasPath: Invalid value: \".status.n\": should be a json path under .spec"),
            (version, "selectableFields", json!([{ "jsonPath": ".spec.none" }]), "spec.selectableFields[0].jsonPath: Invalid value: \".spec.none\": is an invalid path: does not refer to a valid field"),
            (version, "selectableFields", json!([{ "jsonPath": ".spec.o" }]), "spec.selectableFields[0].jsonPath: Invalid value: \".spec.o\": must point to a field of type string, boolean or integer."),
            ("/spec", "versions", different.clone(), "spec.selectableFields: Invalid value: \"\": may only be set when validations.schema is included"),
            (version, "deprecationWarning", json!("old"), "spec.versions[0].deprecationWarning: Invalid value: \"old\": can only be set for deprecated versions"),
            ("/spec", "conversion", json!({ "strategy": "Magic" }), "spec.conversion.strategy: Unsupported value: \"Magic\": supported values: \"None\", \"Webhook\""),
        ] {
            let mut definition = widget.definition(&spec);
            definition.pointer_mut(at).expect("it is there")[part] = value;
            let path = format!("{DEFINITIONS}?dryRun=All");
            let message = raw.post(&path, &definition).await.refused(422, "Invalid");
            assert!(message.contains(expected), "{message}\nlacks\n{expected}");
        }
        let mut protected = widget.definition(&spec);
        protected["metadata"]["name"] = "widgets.ex.k8s.io".into();
        protected["spec"]["group"] = "ex.k8s.io".into();
        let path = format!("{DEFINITIONS}?dryRun=All");
        let message = raw.post(&path, &protected).await.refused(422, "Invalid");
        assert!(message.contains("protected groups must have approval annotation"), "{message}");
        protected["metadata"]["annotations"] = json!({ "api-approved.kubernetes.io": "unapproved, a test" });
        raw.post(&path, &protected).await.ok();
        let mut letters = widget.definition(&json!({ "type": "object", "properties": {
            "s": { "type": "string", "pattern": r"^\p{L}+$" },
        } }));
        letters["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            ["definitions"] = json!({});
        raw.post(&path, &letters).await.ok();
    }

    /// docs/apiserver.md: rows 5, 107.
    async fn an_undefined_kind_is_not_served(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        assert_eq!(raw.get(&widget.all()).await.code, 404);
        widget.define(&widget.definition(&any())).await;
        for path in [
            raw.at(&format!("/apis/{}/v2", widget.group), "widgets"),
            raw.at(&format!("/apis/{}/v1", widget.group), "gadgets"),
            format!("{}/scale", widget.one("w")),
        ] {
            assert_eq!(raw.get(&path).await.code, 404, "{path}");
        }
        // It lives in namespaces.
        let nowhere = format!("/apis/{}/v1/widgets", widget.group);
        assert_eq!(raw.get(&nowhere).await.ok()["items"], json!([]));
        assert_eq!(raw.post(&nowhere, &widget.object("w", &json!({}))).await.code, 404);
    }

    /// docs/apiserver.md: row 108.
    async fn a_schema_must_be_structural(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        for (spec, expected) in [
            (json!({ "properties": {} }), "properties[spec].type: Required value: must not be empty for specified object fields"),
            (json!({ "type": "object", "properties": { "a": {} } }), "properties[spec].properties[a].type: Required value: must not be empty for specified object fields"),
            (json!({ "type": "array" }), "properties[spec].items: Required value: must be specified"),
            (json!({ "type": "integer", "default": "x" }), "properties[spec].default: Invalid value: \"string\":  in body must be of type integer: \"string\""),
            (json!({ "type": "thing" }), "properties[spec].type: Unsupported value: \"thing\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""),
        ] {
            let message = raw.post(DEFINITIONS, &widget.definition(&spec)).await.refused(422, "Invalid");
            let about = format!("CustomResourceDefinition.apiextensions.k8s.io \"{}\" is invalid: ", widget.name());
            assert!(message.starts_with(&about) && message.contains(expected), "{message}");
        }
        let mut none = widget.definition(&any());
        none["spec"]["versions"][0].as_object_mut().expect("a version").remove("schema");
        raw.post(DEFINITIONS, &none).await.refused(422, "Invalid");
        assert_eq!(raw.get(&widget.own_path()).await.code, 404);
    }

    /// docs/apiserver.md: row 106.
    async fn the_name_of_a_definition_is_its_plural_and_group(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&any());
        let other = format!("gadgets.{}", widget.group);
        definition["metadata"]["name"] = other.into();
        let message = raw.post(DEFINITIONS, &definition).await.refused(422, "Invalid");
        assert!(message.contains("must be spec.names.plural+\".\"+spec.group"), "{message}");
    }

    /// docs/apiserver.md: rows 113, 115.
    async fn a_definition_with_a_name_of_another_one_is_not_established(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &any()).await;
        for (names, reason, message) in [
            (json!({ "plural": "wd", "kind": "Gadget" }), "PluralConflict", "\"wd\" is already in use"),
            (json!({ "plural": "gadgets", "kind": "Gadget", "singular": "widget" }), "SingularConflict", "\"widget\" is already in use"),
            (json!({ "plural": "gadgets", "kind": "Gadget", "shortNames": ["g", "wd"] }), "ShortNamesConflict", "\"wd\" is already in use"),
            (json!({ "plural": "gadgets", "kind": "Gadget", "shortNames": ["widget", "wd", "wd"] }), "ShortNamesConflict", "[\"widget\" is already in use, \"wd\" is already in use]"),
            (json!({ "plural": "gadgets", "kind": "Widget", "singular": "gadget" }), "ListKindConflict", "\"WidgetList\" is already in use"),
            (json!({ "plural": "gadgets", "kind": "Widget", "singular": "gadget", "listKind": "GadgetList" }), "KindConflict", "\"Widget\" is already in use"),
            (json!({ "plural": "gadgets", "kind": "WidgetList" }), "KindConflict", "\"WidgetList\" is already in use"),
            (json!({ "plural": "gadgets", "kind": "Gadget", "listKind": "Widget" }), "ListKindConflict", "\"Widget\" is already in use"),
        ] {
            let definition = renamed(&widget, &names);
            let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().expect("a name"));
            raw.post(DEFINITIONS, &definition).await.ok();
            let read = raw.until(&path, |answer| !condition(&answer.body["status"], "Established").is_empty()).await;
            let status = &read["status"];
            assert_eq!(condition(status, "NamesAccepted"), format!("False {reason}"), "{names}");
            assert_eq!(condition(status, "Established"), "False NotAccepted", "{names}");
            let accepted = status["conditions"].as_array().expect("conditions");
            let accepted = accepted.iter().find(|it| it["type"] == "NamesAccepted");
            assert_eq!(accepted.expect("it is there")["message"], message, "{names}");
            let (spec, accepted) = (&read["spec"]["names"], &status["acceptedNames"]);
            let field = match reason {
                "PluralConflict" => "plural",
                "SingularConflict" => "singular",
                "ShortNamesConflict" => "shortNames",
                "KindConflict" => "kind",
                _ => "listKind",
            };
            for (name, value) in spec.as_object().expect("names") {
                let is_taken = name == field || names["kind"] == "Widget" && name == "kind";
                assert_eq!(accepted.get(name) == Some(value), !is_taken, "{name}: {read}");
            }
            let plural = names["plural"].as_str().expect("a plural");
            let all = raw.at(&format!("/apis/{}/v1", widget.group), plural);
            assert_eq!(raw.get(&all).await.code, 404, "{names}");
            raw.delete(&path).await.ok();
            raw.until(&path, |answer| answer.code == 404).await;
        }
    }

    /// docs/apiserver.md: rows 113, 115.
    async fn a_definition_is_established_when_its_names_are_free(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &any()).await;
        let gadget = renamed(&widget, &json!({ "plural": "gadgets", "kind": "Gadget", "shortNames": ["wd"] }));
        let path = format!("{DEFINITIONS}/gadgets.{}", widget.group);
        raw.post(DEFINITIONS, &gadget).await.ok();
        let refused = raw.until(&path, |answer| !condition(&answer.body["status"], "Established").is_empty()).await;
        assert_eq!(condition(&refused["status"], "NamesAccepted"), "False ShortNamesConflict");
        // An established definition keeps its name if it asks for one of another definition.
        let change = json!({ "spec": { "names": { "singular": "gadgets" } } });
        raw.merge(&widget.own_path(), &change).await.ok();
        let read = raw.until(&widget.own_path(), |answer| {
            condition(&answer.body["status"], "NamesAccepted") == "False SingularConflict"
        }).await;
        assert_eq!(condition(&read["status"], "Established"), "True InitialNamesAccepted");
        assert_eq!(read["status"]["acceptedNames"]["singular"], "widget");
        raw.get(&widget.all()).await.ok();
        let change = json!({ "spec": { "names": { "singular": "widget", "shortNames": [] } } });
        raw.merge(&widget.own_path(), &change).await.ok();
        raw.until(&path, |answer| condition(&answer.body["status"], "Established") == "True InitialNamesAccepted").await;
        let all = raw.at(&format!("/apis/{}/v1", widget.group), "gadgets");
        raw.until(&all, |answer| answer.code == 200).await;
        raw.delete(&path).await.ok();
        raw.until(&path, |answer| answer.code == 404).await;

        let change = json!({ "spec": { "names": { "shortNames": ["wd"] } } });
        raw.merge(&widget.own_path(), &change).await.ok();
        raw.until(&widget.own_path(), |answer| answer.body["status"]["acceptedNames"]["shortNames"] == json!(["wd"])).await;
        raw.post(DEFINITIONS, &gadget).await.ok();
        raw.until(&path, |answer| condition(&answer.body["status"], "Established") == "False NotAccepted").await;
        raw.delete(&widget.own_path()).await.ok();
        let read = raw.until(&path, |answer| condition(&answer.body["status"], "Established") == "True InitialNamesAccepted").await;
        assert_eq!(condition(&read["status"], "NamesAccepted"), "True NoConflicts");
        raw.until(&all, |answer| answer.code == 200).await;
    }

    /// docs/apiserver.md: row 114.
    async fn the_objects_of_a_kind_are_deleted_with_its_definition(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &any()).await;
        widget.create("a", &json!({})).await;
        let mut events = raw.watch(&format!("{}?watch=1", widget.all())).await;
        assert_eq!(events.next_line().await, "ADDED a");
        raw.delete(&widget.own_path()).await.ok();
        assert_eq!(events.next_line().await, "DELETED a");
        raw.until(&widget.own_path(), |answer| answer.code == 404).await;
        raw.until(&widget.all(), |answer| answer.code == 404).await;
        widget.define(&widget.definition(&any())).await;
        assert_eq!(names(&raw.get(&widget.all()).await.ok()), "", "deleted objects do not reappear");
    }

    /// docs/apiserver.md: row 114.
    async fn a_definition_waits_for_objects_with_finalizers(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &any()).await;
        let mut held = widget.object("held", &json!({}));
        held["metadata"]["finalizers"] = json!(["a.b/c"]);
        raw.post(&widget.all(), &held).await.ok();
        widget.create("free", &json!({})).await;
        let mut events = raw.watch(&format!("{}?watch=1", widget.all())).await;
        assert_eq!(events.next_line().await, "ADDED free");
        assert_eq!(events.next_line().await, "ADDED held");
        let deleted = raw.delete(&widget.own_path()).await.ok();
        assert_eq!(deleted["kind"], "CustomResourceDefinition");
        let path = widget.own_path();
        let dying = raw.until(&path, |answer| {
            condition(&answer.body["status"], "Terminating") == "True InstanceDeletionInProgress"
        }).await;
        assert!(dying["metadata"]["deletionTimestamp"].is_string(), "{dying}");
        assert_eq!(dying["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
        assert_eq!(condition(&dying["status"], "Established"), "True InitialNamesAccepted");
        let mut lines = [events.next_line().await, events.next_line().await];
        lines.sort();
        assert_eq!(lines, ["DELETED free", "MODIFIED held"]);
        let left = raw.get(&widget.one("held")).await.ok();
        assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left}");
        raw.get(&widget.one("free")).await.refused(404, "NotFound");

        // What exists can still be written; nothing can be created.
        let new = widget.object("new", &json!({}));
        let message = format!(
            "widgets.{} \"new\" is forbidden: create not allowed while custom resource definition is terminating",
            widget.group
        );
        for path in [widget.all(), format!("{}?dryRun=All", widget.all())] {
            assert_eq!(raw.post(&path, &new).await.refused(403, "Forbidden"), message);
        }
        assert_eq!(raw.apply(&widget.one("new"), "me", &new).await.refused(403, "Forbidden"), message);
        let changed = raw.merge(&widget.one("held"), &json!({ "spec": { "a": 1 } })).await.ok();
        assert_eq!(changed["spec"], json!({ "a": 1 }));
        assert_eq!(events.next_line().await, "MODIFIED held");
        let again = raw.delete(&path).await.ok();
        let mut expected = dying.clone();
        expected["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        expected["metadata"]["resourceVersion"] = again["metadata"]["resourceVersion"].clone();
        assert_eq!(again, expected);
        assert!(version(&again) > version(&dying));
        assert_eq!(raw.delete(&path).await.ok(), again, "the third deletion changes nothing");
        let entries = dying["metadata"]["managedFields"].as_array().expect("entries");
        let owner = entries.iter().find(|entry| entry["subresource"] == "status").expect("an owner");
        let terminating = &owner["fieldsV1"]["f:status"]["f:conditions"][r#"k:{"type":"Terminating"}"#];
        assert_eq!(*terminating, json!({ "f:message": {}, "f:reason": {} }), "{owner}");
        raw.merge(&widget.one("held"), &json!({ "metadata": { "finalizers": null } })).await.ok();
        assert_eq!(events.next_line().await, "DELETED held");
        raw.until(&path, |answer| answer.code == 404).await;
        raw.until(&widget.all(), |answer| answer.code == 404).await;
    }

    /// docs/apiserver.md: row 114.
    async fn a_finalizer_of_a_definition_keeps_it_without_its_objects(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&any());
        definition["metadata"]["finalizers"] = json!(["a.b/c"]);
        widget.define(&definition).await;
        widget.create("a", &json!({})).await;
        raw.delete(&widget.own_path()).await.ok();
        let left = raw.until(&widget.own_path(), |answer| {
            answer.body["metadata"]["finalizers"] == json!(["a.b/c"])
        }).await;
        let status = &left["status"];
        assert_eq!(condition(status, "Terminating"), "False InstanceDeletionCompleted");
        assert_eq!(condition(status, "Established"), "True InitialNamesAccepted");
        let conditions = status["conditions"].as_array().expect("conditions");
        let ended = conditions.iter().find(|condition| condition["type"] == "Terminating");
        assert_eq!(ended.expect("it is there")["message"], "removed all instances");
        // Objects can be created again.
        let dry = format!("{}?dryRun=All", widget.all());
        raw.until(&widget.all(), |answer| answer.body["items"] == json!([])).await;
        let new = widget.object("b", &json!({}));
        while raw.post(&dry, &new).await.code != 201 {
            pause().await;
        }
        let again = raw.delete(&widget.own_path()).await.ok();
        assert_eq!(again["metadata"]["deletionGracePeriodSeconds"], 0);
        assert_eq!(again["metadata"]["finalizers"], json!(["a.b/c"]));
        raw.merge(&widget.own_path(), &json!({ "metadata": { "finalizers": null } })).await.ok();
        raw.until(&widget.own_path(), |answer| answer.code == 404).await;
    }
}

/// A definition of the group of `widget` with other names.
fn renamed(widget: &Widget<'_>, names: &Value) -> Value {
    let mut definition = widget.definition(&any());
    let plural = names["plural"].as_str().expect("a plural");
    definition["metadata"]["name"] = format!("{plural}.{}", widget.group).into();
    definition["spec"]["names"] = names.clone();
    definition
}

/// Takes anything.
fn any() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Status and reason of a condition.
fn condition(status: &Value, name: &str) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|condition| condition["type"] == name);
    found.next().map_or_else(String::new, |condition| {
        format!("{} {}", condition["status"], condition["reason"]).replace('"', "")
    })
}
