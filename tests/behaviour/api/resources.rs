//! The rules of custom resources that differ from those of built-in kinds.

use serde_json::{Value, json};

use super::{
    raw::{Raw, names, version},
    widget::Widget,
};

on_both_servers! {
    /// docs/apiserver.md: row 74.
    async fn an_update_must_have_a_version(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &sized()).await;
        let created = widget.create("w", &json!({ "size": 1 })).await;
        let blind = widget.object("w", &json!({ "size": 2 }));
        let message = raw.put(&widget.one("w"), &blind).await.refused(422, "Invalid");
        assert!(message.contains("metadata.resourceVersion: Invalid value: 0"), "{message}");
        assert!(message.ends_with("must be specified for an update"), "{message}");
        let mut seen = blind;
        seen["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
        assert_eq!(raw.put(&widget.one("w"), &seen).await.ok()["spec"]["size"], 2);
        raw.put(&widget.one("w"), &seen).await.refused(409, "Conflict");
    }

    /// docs/apiserver.md: rows 11, 78.
    async fn there_is_no_strategic_patch_of_a_custom_resource(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &sized()).await;
        widget.create("w", &json!({ "size": 1 })).await;
        raw.patch(&widget.one("w"), "strategic-merge", "{}").await.refused(415, "UnsupportedMediaType");
    }

    /// docs/apiserver.md: rows 3, 4, 6, 9.
    async fn an_error_names_the_group(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &sized()).await;
        let group = &widget.group;
        let none = raw.get(&widget.one("w")).await;
        assert_eq!(none.body["details"], json!({ "name": "w", "group": group, "kind": "widgets" }));
        assert_eq!(none.refused(404, "NotFound"), format!("widgets.{group} \"w\" not found"));
        widget.create("w", &json!({ "size": 1 })).await;
        let twice = raw.post(&widget.all(), &widget.object("w", &json!({ "size": 1 }))).await;
        assert_eq!(twice.refused(409, "AlreadyExists"), format!("widgets.{group} \"w\" already exists"));
        let mut other = widget.object("v", &json!({ "size": 1 }));
        other["apiVersion"] = format!("{group}/v2").into();
        let message = raw.post(&widget.all(), &other).await.refused(400, "BadRequest");
        assert!(message.contains(&format!("the API version in the data ({group}/v2) does not match the expected API version ({group}/v1)")), "{message}");
    }

    /// docs/apiserver.md: rows 31, 76.
    async fn status_and_spec_are_separate_subresources(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &sized()).await;
        let mut object = widget.object("w", &json!({ "size": 1 }));
        object["status"] = json!({ "ready": true });
        object["metadata"]["generation"] = 7.into();
        let created = raw.post(&widget.all(), &object).await.ok();
        assert_eq!(created.get("status"), None);
        assert_eq!(created["metadata"]["generation"], 1);

        let path = format!("{}/status", widget.one("w"));
        let mut written = created.clone();
        written["status"] = json!({ "ready": true });
        written["spec"]["size"] = 5.into();
        written["metadata"]["labels"] = json!({ "a": "b" });
        let ready = raw.put(&path, &written).await.ok();
        assert_eq!(ready["status"], json!({ "ready": true }));
        assert_eq!(ready["spec"], json!({ "size": 1 }));
        assert_eq!(ready["metadata"].get("labels"), None);
        assert_eq!(ready["metadata"]["generation"], 1);
        raw.put(&path, &written).await.refused(409, "Conflict");
        assert_eq!(raw.get(&path).await.ok(), ready);

        let mut changed = ready.clone();
        changed["status"] = json!({ "ready": false });
        changed["spec"]["size"] = 2.into();
        let changed = raw.put(&widget.one("w"), &changed).await.ok();
        assert_eq!((&changed["spec"], &changed["status"]), (&json!({ "size": 2 }), &json!({ "ready": true })));
        assert_eq!(changed["metadata"]["generation"], 2);
    }

    /// docs/apiserver.md: rows 31, 76.
    async fn without_a_subresource_the_status_is_part_of_the_object(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&sized());
        definition["spec"]["versions"][0].as_object_mut().expect("a version").remove("subresources");
        widget.define(&definition).await;
        let mut object = widget.object("w", &json!({ "size": 1 }));
        object["status"] = json!({ "ready": false });
        let created = raw.post(&widget.all(), &object).await.ok();
        assert_eq!(created["status"], json!({ "ready": false }));
        let ready = json!({ "status": { "ready": true } });
        let changed = raw.merge(&widget.one("w"), &ready).await.ok();
        assert_eq!((&changed["status"]["ready"], &changed["metadata"]["generation"]), (&json!(true), &json!(2)));
        assert_eq!(raw.merge(&format!("{}/status", widget.one("w")), &ready).await.code, 404);
    }

    /// docs/apiserver.md: rows 31, 91, 92.
    async fn a_deletion_mark_is_a_new_generation(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &sized()).await;
        let mut object = widget.object("w", &json!({ "size": 1 }));
        object["metadata"]["finalizers"] = json!(["test.windlass.dev/a"]);
        raw.post(&widget.all(), &object).await.ok();
        let dying = raw.delete(&widget.one("w")).await.ok();
        assert_eq!(dying["metadata"]["generation"], 2);
        let mut events = raw.watch(&format!("{}?watch=1", widget.all())).await;
        assert_eq!(events.next_line().await, "ADDED w");
        raw.merge(&widget.one("w"), &json!({ "metadata": { "finalizers": null } })).await.ok();
        let gone = events.event().await;
        assert_eq!(gone["type"], "DELETED", "without a MODIFIED before it");
        assert_eq!(gone["object"]["metadata"]["finalizers"], json!(["test.windlass.dev/a"]));
        assert!(version(&gone["object"]) > version(&dying));
    }

    /// docs/apiserver.md: row 51.
    async fn list_items_have_api_version_and_kind(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &sized()).await;
        let empty = raw.get(&widget.all()).await.ok();
        assert_eq!((&empty["kind"], &empty["items"]), (&json!("WidgetList"), &json!([])));
        let created = widget.create("w", &json!({ "size": 1 })).await;
        let list = raw.get(&widget.all()).await.ok();
        assert_eq!(list["items"], json!([created]));
    }

    /// docs/apiserver.md: rows 50, 116.
    async fn objects_are_selected_by_the_selectable_fields_of_the_definition(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&sized());
        definition["spec"]["versions"][0]["selectableFields"] = json!([{ "jsonPath": ".spec.colour" }]);
        widget.define(&definition).await;
        widget.create("g", &json!({ "size": 1, "colour": "green" })).await;
        widget.create("r", &json!({ "size": 1, "colour": "red" })).await;
        widget.create("n", &json!({ "size": 1 })).await;
        for (selector, found) in [("spec.colour%3Dred", "r"), ("spec.colour!%3Dred", "g n"), ("spec.colour%3D", "n")] {
            let list = raw.get(&format!("{}?fieldSelector={selector}", widget.all())).await.ok();
            assert_eq!(names(&list), found, "{selector}");
        }
        let other = format!("{}?fieldSelector=spec.size%3D1", widget.all());
        raw.get(&other).await.refused(400, "BadRequest");
    }

    /// docs/apiserver.md: rows 53, 54, 116.
    async fn a_table_has_the_columns_of_the_definition(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&sized());
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
            { "name": "Size", "type": "integer", "jsonPath": ".spec.size" },
            { "name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1 },
        ]);
        widget.define(&definition).await;
        widget.create("w", &json!({ "size": 3 })).await;
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = raw.get_as(&widget.all(), accept).await.ok();
        let columns: Vec<_> = table["columnDefinitions"].as_array().expect("columns").iter()
            .map(|column| (&column["name"], &column["type"], &column["priority"])).collect();
        assert_eq!(json!(columns), json!([
            ["Name", "string", 0], ["Size", "integer", 0], ["Colour", "string", 1],
        ]));
        assert_eq!(table["rows"][0]["cells"], json!(["w", 3, null]));
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    }

    /// docs/apiserver.md: row 54.
    async fn the_cells_of_a_table_have_the_types_of_its_columns(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let mut definition = widget.definition(&free);
        widget.define(&definition).await;
        widget.create("w", &json!({})).await;
        let table = raw.get_as(&widget.all(), accept).await.ok();
        let columns: Vec<_> = table["columnDefinitions"].as_array().expect("columns").iter()
            .map(|column| (&column["name"], &column["type"], &column["format"], &column["priority"])).collect();
        assert_eq!(json!(columns), json!([["Name", "string", "name", 0], ["Age", "date", "", 0]]));
        assert_eq!(table["metadata"].get("continue"), None);
        let cells = &table["rows"][0]["cells"];
        let age = cells[1].as_str().and_then(|age| age.strip_suffix('s'));
        let age = age.and_then(|age| age.parse::<u32>().ok());
        assert!(cells[0] == "w" && age.is_some_and(|age| age < 120), "{cells}");

        raw.delete(&widget.own_path()).await.ok();
        raw.until(&widget.own_path(), |answer| answer.code == 404).await;
        let columns = ["integer", "number", "boolean", "string", "date"]
            .map(|kind| json!({ "name": kind, "type": kind, "jsonPath": ".spec.value" }));
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!(columns);
        widget.define(&definition).await;
        for (number, (value, cells)) in [
            (json!(3), json!([3, 3, null, "3", null])),
            (json!(3.7), json!([3, 3.7, null, "3.7", null])),
            (json!(-2.5), json!([-2, -2.5, null, "-2.5", null])),
            (json!(12_345_678_901_i64), json!([12_345_678_901_i64, 12_345_678_901_i64, null, "12345678901", null])),
            (json!("3"), json!([null, null, null, "3", "<invalid>"])),
            (json!(""), json!([null, null, null, "", "<unknown>"])),
            (json!("2999-01-01T00:00:00Z"), json!([null, null, null, "2999-01-01T00:00:00Z", "<invalid>"])),
            (json!(true), json!([null, null, true, "true", null])),
            (json!("true"), json!([null, null, null, "true", "<invalid>"])),
            (json!(["a", 1]), json!([null, null, null, "[\"a\",1]", null])),
            (json!({ "a": 1 }), json!([null, null, null, "{\"a\":1}", null])),
            (json!([]), json!([null, null, null, "[]", null])),
            (Value::Null, json!([null, null, null, "<no value>", null])),
        ].into_iter().enumerate() {
            let name = format!("w{number}");
            widget.create(&name, &json!({ "value": value })).await;
            let table = raw.get_as(&widget.one(&name), accept).await.ok();
            let shown = table["rows"][0]["cells"].as_array().expect("cells");
            // A float without a fraction is the same number.
            let text = serde_json::to_string(&shown[1..]).expect("JSON");
            assert_eq!(text, cells.to_string(), "{value}");
        }
    }
}

fn sized() -> Value {
    json!({
        "type": "object",
        "required": ["size"],
        "properties": { "size": { "type": "integer" }, "colour": { "type": "string" } },
    })
}
