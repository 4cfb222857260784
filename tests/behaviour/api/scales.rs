//! Scales: how the number of replicas is read and written, and who owns it.

use serde_json::{Value, json};

use super::raw::{Answer, Raw};
use super::widget::Widget;

/// A deployment with two servers, as a configuration.
fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "web" }] },
            },
        },
    })
}

/// The scale of the deployment as a configuration.
fn scale(replicas: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": { "name": "web" },
        "spec": { "replicas": replicas },
    })
}

/// The managers of the number of replicas of an object, sorted.
async fn owners(raw: &Raw, path: &str) -> Vec<String> {
    let object = raw.get(path).await.ok();
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .expect("entries")
        .iter();
    let owners = entries.filter(|entry| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some());
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("-").to_owned();
    let owners = owners.map(|entry| {
        let fields = ["manager", "operation", "subresource", "apiVersion"];
        fields.map(|field| text(entry, field)).join(" ")
    });
    let mut owners: Vec<_> = owners.collect();
    owners.sort();
    owners
}

/// The number of replicas in a scale, and its kind.
#[track_caller]
fn replicas(answer: Answer) -> (String, Value) {
    let scale = answer.ok();
    (
        format!("{}/{}", scale["apiVersion"], scale["kind"]).replace('"', ""),
        scale["spec"]["replicas"].clone(),
    )
}

on_both_servers! {
    /// docs/apiserver.md: row 77.
    async fn a_scale_is_read_updated_and_patched(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let all = raw.at("/apis/apps/v1", "deployments");
        let (one, path) = (format!("{all}/web"), format!("{all}/web/scale"));
        raw.post(&all, &deployment()).await.ok();
        let read = raw.get(&path).await.ok();
        assert_eq!((&read["apiVersion"], &read["kind"]), (&json!("autoscaling/v1"), &json!("Scale")));
        assert_eq!(read["spec"], json!({ "replicas": 2 }));
        assert_eq!(read["status"], json!({ "replicas": 0, "selector": "app=web" }));

        let mut more = read.clone();
        more["spec"]["replicas"] = 3.into();
        assert_eq!(replicas(raw.put(&path, &more).await), ("autoscaling/v1/Scale".to_owned(), json!(3)));
        assert_eq!(raw.get(&one).await.ok()["spec"]["replicas"], 3);
        raw.put(&path, &more).await.refused(409, "Conflict");

        let four = json!({ "spec": { "replicas": 4 } });
        assert_eq!(replicas(raw.merge(&path, &four).await).1, 4);
        let five = json!([{ "op": "replace", "path": "/spec/replicas", "value": 5 }]);
        assert_eq!(replicas(raw.patch(&path, "json", &five.to_string()).await).1, 5);
        assert_eq!(raw.get(&one).await.ok()["spec"]["replicas"], 5);
        let negative = raw.merge(&path, &json!({ "spec": { "replicas": -1 } })).await;
        let why = negative.refused(422, "Invalid");
        assert!(why.ends_with("spec.replicas: Invalid value: -1: must be greater than or equal to 0"), "{why}");
        let why = raw.merge(&path, &json!({ "spec": [] })).await.refused(422, "Invalid");
        let list = "json: cannot unmarshal array into Go struct field Scale.spec of type v1.ScaleSpec";
        assert!(why.ends_with(list), "{why}");
        raw.get(&format!("{all}/none/scale")).await.refused(404, "NotFound");
        // The name in the body is checked before the object is read.
        let message = raw.put(&format!("{all}/none/scale"), &json!({})).await.refused(400, "BadRequest");
        assert_eq!(message, "the name of the object (none based on URL) was undeterminable: name must be provided");
    }

    /// docs/apiserver.md: rows 77, 83, 84.
    async fn a_scale_is_applied_and_its_manager_owns_the_replicas(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let all = raw.at("/apis/apps/v1", "deployments");
        let (one, path) = (format!("{all}/web"), format!("{all}/web/scale"));
        raw.apply(&path, "scaler", &scale(&json!(3))).await.refused(404, "NotFound");
        raw.apply(&one, "owner", &deployment()).await.ok();

        let why = raw.apply(&path, "scaler", &scale(&json!(3))).await.refused(409, "Conflict");
        assert_eq!(why, r#"Apply failed with 1 conflict: conflict with "owner": .spec.replicas"#);
        let forced = format!("{path}?force=true");
        let taken = raw.apply(&forced, "scaler", &scale(&json!(3))).await;
        assert_eq!(replicas(taken), ("autoscaling/v1/Scale".to_owned(), json!(3)));
        assert_eq!(owners(&raw, &one).await, ["scaler Apply scale apps/v1"]);

        let before = raw.get(&one).await.ok();
        raw.apply(&path, "scaler", &scale(&json!(3))).await.ok();
        assert_eq!(raw.get(&one).await.ok(), before, "a second apply changes nothing");
        let why = raw.apply(&one, "owner", &deployment()).await.refused(409, "Conflict");
        let expected = r#"conflict with "scaler" with subresource "scale": .spec.replicas"#;
        assert!(why.ends_with(expected), "{why}");

        let mut more = raw.get(&path).await.ok();
        more["spec"]["replicas"] = 5.into();
        raw.put(&format!("{path}?fieldManager=updater"), &more).await.ok();
        assert_eq!(owners(&raw, &one).await, ["updater Update scale apps/v1"]);
        let why = raw.apply(&path, "scaler", &scale(&json!(6))).await.refused(409, "Conflict");
        let expected = r#"conflict with "updater" with subresource "scale" using autoscaling/v1: .spec.replicas"#;
        assert!(why.ends_with(expected), "{why}");
        raw.apply(&path, "scaler", &scale(&json!(5))).await.ok();
        let both = ["scaler Apply scale apps/v1", "updater Update scale apps/v1"];
        assert_eq!(owners(&raw, &one).await, both, "the same number is shared");
        let mut empty = scale(&Value::Null);
        empty.as_object_mut().expect("an object").remove("spec");
        assert_eq!(replicas(raw.apply(&path, "scaler", &empty).await).1, 5);
        assert_eq!(owners(&raw, &one).await, both[1..], "the manager gave it up");
        let tried = raw.apply(&format!("{forced}&dryRun=All"), "scaler", &scale(&json!(9))).await;
        assert_eq!(replicas(tried).1, 9);
        assert_eq!(raw.get(&one).await.ok()["spec"]["replicas"], 5, "a dry run stores nothing");
    }

    /// docs/apiserver.md: rows 77, 81.
    async fn a_wrong_scale_is_not_applied(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let all = raw.at("/apis/apps/v1", "deployments");
        let path = format!("{all}/web/scale");
        raw.apply(&format!("{all}/web"), "owner", &deployment()).await.ok();
        let forced = format!("{path}?force=true");

        let mut other = scale(&json!(3));
        other["apiVersion"] = "apps/v1".into();
        let why = raw.apply(&path, "scaler", &other).await.refused(400, "BadRequest");
        assert_eq!(why, "invalid object type: apps/v1, Kind=Scale");
        let why = raw.apply(&forced, "scaler", &scale(&json!(-1))).await.refused(422, "Invalid");
        assert!(why.ends_with("Invalid value: -1: must be greater than or equal to 0"), "{why}");
        let why = raw.apply(&forced, "scaler", &scale(&json!("x"))).await.refused(500, "");
        assert_eq!(
            why,
            "failed to create typed patch object (/web; autoscaling/v1, Kind=Scale): .spec.replicas: \
             expected numeric (int or float), got string",
        );
        let mut unknown = scale(&json!(3));
        unknown["spec"]["size"] = 1.into();
        let why = raw.apply(&forced, "scaler", &unknown).await.refused(500, "");
        assert!(why.ends_with(".spec.size: field not declared in schema"), "{why}");
        let mut old = scale(&json!(3));
        old["metadata"]["resourceVersion"] = "1".into();
        raw.apply(&forced, "scaler", &old).await.refused(409, "Conflict");
        let mut elsewhere = scale(&json!(3));
        elsewhere["metadata"]["name"] = "other".into();
        raw.apply(&forced, "scaler", &elsewhere).await.refused(400, "BadRequest");
        let unnamed = raw.patch_as(&path, "application/apply-patch+yaml", &scale(&json!(3))).await;
        let why = unnamed.refused(422, "Invalid");
        assert!(why.ends_with("fieldManager: Required value: is required for apply patch"), "{why}");
        assert_eq!(raw.get(&path).await.ok()["spec"]["replicas"], 2);
    }

    /// docs/apiserver.md: rows 14, 77, 116.
    async fn a_custom_resource_has_the_scale_of_its_definition(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let spec = json!({ "type": "object", "properties": {
            "replicas": { "type": "integer" }, "selector": { "type": "string" },
        } });
        let mut definition = widget.definition(&spec);
        definition["spec"]["versions"][0]["subresources"]["scale"] = json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".spec.selector",
        });
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
            ["properties"]["replicas"] = json!({ "type": "integer" });
        widget.define(&definition).await;
        let path = format!("{}/scale", widget.one("web"));
        let spec = json!({ "replicas": 2, "selector": "app=web" });
        raw.post(&widget.all(), &widget.object("web", &spec)).await.ok();
        raw.post(&widget.all(), &widget.object("none", &json!({}))).await.ok();
        let none = raw.get(&format!("{}/scale", widget.one("none"))).await;
        let why = "the spec replicas field \".spec.replicas\" does not exist";
        assert_eq!(none.body["details"], json!({ "causes": [{ "message": why }] }));
        assert_eq!(none.refused(500, "InternalError"), format!("Internal error occurred: {why}"));
        let read = raw.get(&path).await.ok();
        assert_eq!(read["spec"]["replicas"], 2);
        assert_eq!(read["status"], json!({ "replicas": 0, "selector": "app=web" }));
        assert_eq!(replicas(raw.merge(&path, &json!({ "spec": { "replicas": 4 } })).await).1, 4);
        assert_eq!(raw.get(&widget.one("web")).await.ok()["spec"]["replicas"], 4);
        let forced = format!("{path}?force=true");
        let why = raw.apply(&forced, "scaler", &scale(&json!(7))).await.refused(500, "");
        assert!(why.ends_with("request to convert CR to an invalid group/version: autoscaling/v1"), "{why}");
        // The scale is not converted if the apply does not change it.
        let applied = raw.apply(&path, "scaler", &scale(&json!(4))).await;
        assert_eq!(replicas(applied).1, 4);
        let version = format!("{}/v1", widget.group);
        assert_eq!(owners(&raw, &widget.one("web")).await, [
            format!("scaler Apply scale {version}"),
            format!("unknown Update scale {version}"),
        ]);
    }

    /// A manager with updates gets an entry for the number alone, without a time.
    ///
    /// docs/apiserver.md: rows 77, 85.
    async fn the_owner_of_a_number_has_an_entry_without_a_time(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let all = raw.at("/apis/apps/v1", "deployments");
        let path = format!("{all}/web/scale");
        let entries = async || {
            let object = raw.get(&format!("{all}/web")).await.ok();
            let entries = object["metadata"]["managedFields"].as_array().expect("entries").clone();
            let entries = entries.iter().map(|entry| {
                let has_number = entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
                let number = if has_number { " number" } else { "" };
                let time = if entry.get("time").is_some() { " time" } else { "" };
                let part = entry["subresource"].as_str().unwrap_or("-");
                format!("{} {part}{number}{time}", entry["manager"].as_str().expect("a name"))
            });
            entries.collect::<Vec<_>>()
        };
        raw.post(&format!("{all}?fieldManager=m1"), &deployment()).await.ok();
        assert_eq!(entries().await, ["m1 - number time"]);
        let number = |replicas: u32| json!({ "spec": { "replicas": replicas } });
        raw.merge(&format!("{path}?fieldManager=m2"), &number(3)).await.ok();
        assert_eq!(entries().await, ["m2 scale number", "m1 - time"]);
        // A scale of zero has no number that could have an owner.
        raw.merge(&format!("{path}?fieldManager=m1"), &number(0)).await.ok();
        assert_eq!(entries().await, ["m1 - time"]);

        // Even a write that changes nothing makes an entry.
        raw.delete(&format!("{all}/web")).await.ok();
        raw.post(&format!("{all}?fieldManager=m1"), &deployment()).await.ok();
        raw.merge(&format!("{path}?fieldManager=m2"), &number(2)).await.ok();
        assert_eq!(entries().await, ["m1 - number", "m1 - time"]);
    }

    /// docs/apiserver.md: rows 77, 111.
    async fn a_scale_sets_the_defaults_beside_its_number(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&json!({ "type": "object", "properties": {
            "replicas": { "type": "integer" }, "name": { "type": "string", "default": "x" },
        } }));
        let version = &mut definition["spec"]["versions"][0];
        version["subresources"]["scale"] =
            json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" });
        let status = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"];
        status["properties"]["replicas"] = json!({ "type": "integer" });
        widget.define(&definition).await;
        let mut object = widget.object("web", &json!({}));
        object.as_object_mut().expect("an object").remove("spec");
        raw.post(&widget.all(), &object).await.ok();
        let path = widget.one("web");
        raw.merge(&format!("{path}/scale"), &json!({ "spec": { "replicas": 3 } })).await.ok();
        assert_eq!(raw.get(&path).await.ok()["spec"], json!({ "replicas": 3, "name": "x" }));
        // A patch with unknown fields.
        let unknown = json!({ "status": { "none": 1 } });
        let strict = format!("{path}/status?fieldValidation=Strict");
        let why = raw.merge(&strict, &unknown).await.refused(422, "Invalid");
        assert!(why.ends_with("strict decoding error: unknown field \"status.none\""), "{why}");
    }
}
