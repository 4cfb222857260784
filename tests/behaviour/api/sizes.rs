//! The limits on the size of stored objects.

use serde_json::{Value, json};

use super::raw::{Answer, Raw, named};
use super::widget::Widget;

/// etcd's default limit of a request.
const LIMIT: usize = 1536 * 1024;

/// Far more than what a request to etcd has besides the text.
const MARGIN: usize = 4096;

const TOO_LARGE: &str = "etcdserver: request is too large";

/// A schema with a text and a map of texts.
fn schema() -> Value {
    let text = json!({ "type": "string" });
    let map = json!({ "type": "object", "additionalProperties": text });
    json!({ "type": "object", "properties": { "text": text, "map": map } })
}

/// A map whose JSON has about 14 bytes for each of `entries`, and its managed fields as many.
fn map(entries: u32) -> Value {
    let entries = (0..entries).map(|number| (format!("k{number:05}"), "v".into()));
    Value::Object(entries.collect())
}

on_both_servers! {
    /// docs/apiserver.md: row 12.
    async fn an_object_that_etcd_cannot_store_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let text = |size: usize| json!({ "text": "x".repeat(size) });
        widget.create("fits", &text(LIMIT - MARGIN)).await;

        let rejected = |answer: Answer| answer.refused(500, "");
        let large = widget.object("large", &text(LIMIT));
        assert_eq!(rejected(raw.post(&widget.all(), &large).await), TOO_LARGE);
        let dry_run = format!("{}?dryRun=All", widget.all());
        raw.post(&dry_run, &large).await.ok();
        let change = json!({ "spec": text(LIMIT) });
        assert_eq!(rejected(raw.merge(&widget.one("fits"), &change).await), TOO_LARGE);
        assert_eq!(rejected(raw.apply(&widget.one("large"), "me", &large).await), TOO_LARGE);

        // Go writes this character as `\u003c`.
        widget.create("escaped", &json!({ "text": "<".repeat((LIMIT - MARGIN) / 6) })).await;
        let escaped = widget.object("large", &json!({ "text": "<".repeat(LIMIT / 6) }));
        assert_eq!(rejected(raw.post(&widget.all(), &escaped).await), TOO_LARGE);

        // From 2 MiB, the client of etcd rejects it.
        let larger = widget.object("large", &text(2 << 20));
        let message = rejected(raw.post(&widget.all(), &larger).await);
        let beginning = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (";
        assert!(message.starts_with(beginning) && message.ends_with(" vs. 2097152)"), "{message}");
        assert_eq!(raw.get(&widget.one("large")).await.code, 404);
        assert_eq!(raw.get(&widget.one("fits")).await.ok()["spec"], text(LIMIT - MARGIN));
    }

    /// docs/apiserver.md: row 12.
    async fn managed_fields_are_dropped_if_etcd_could_not_store_the_object_with_them(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &schema()).await;
        let spec = json!({ "map": map(70_000) });
        let created = widget.create("created", &spec).await;
        assert_eq!(created["metadata"]["managedFields"], Value::Null);
        assert_eq!(created["spec"], spec);

        widget.create("changed", &json!({})).await;
        let changed = raw.merge(&widget.one("changed"), &json!({ "spec": spec })).await.ok();
        assert_eq!(changed["metadata"]["managedFields"], Value::Null);
        let mut small = changed.clone();
        small["spec"] = json!({ "map": map(1) });
        let updated = raw.put(&widget.one("changed"), &small).await.ok();
        assert_eq!(updated["metadata"]["managedFields"], Value::Null, "as after a reset");

        // An applied object is never stored without its managers.
        let applied = widget.object("applied", &spec);
        let message = raw.apply(&widget.one("applied"), "me", &applied).await.refused(500, "");
        assert_eq!(message, TOO_LARGE);
    }

    /// docs/apiserver.md: row 12.
    async fn the_size_of_a_built_in_kind_is_that_of_its_protobuf(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let pods = raw.at("/api/v1", "pods");
        // As JSON, each argument has three bytes more than its text, and as protobuf two.
        let pod = |arguments: usize| {
            let mut pod = named("large");
            let args = vec!["x"; arguments];
            pod["spec"] = json!({ "containers": [{ "name": "a", "image": "a", "args": args }] });
            pod
        };
        let message = raw.post(&pods, &pod(LIMIT / 3)).await.refused(500, "");
        assert_eq!(message, TOO_LARGE);
        raw.post(&pods, &pod(LIMIT / 4 + MARGIN)).await.ok();
    }

    /// docs/apiserver.md: row 12.
    async fn a_json_patch_has_a_limited_number_of_operations(cluster: Cluster) {
        /// Of kube-apiserver.
        const MAX_OPERATIONS: usize = 10_000;
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        let operation = json!({ "op": "test", "path": "/metadata/name", "value": "a" });
        let of_length = |operations: usize| json!(vec![operation.clone(); operations]).to_string();
        raw.patch(&path, "json", &of_length(MAX_OPERATIONS)).await.ok();
        let answer = raw.patch(&path, "json", &of_length(MAX_OPERATIONS + 1)).await;
        assert_eq!(answer.body.get("details"), None);
        assert_eq!(answer.refused(413, "RequestEntityTooLarge"), "Request entity too large: The \
            allowed maximum operations in a JSON patch is 10000, got 10001");
    }
}
