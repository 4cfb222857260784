//! The selector and the pod labels of a job.

use serde_json::{Map, Value, json};

use crate::metadata;

/// Generates the selector and the pod labels of a job from its uid, unless `manualSelector` is set.
/// Those that the client has set stay: the validation rejects them if they are of another job.
pub(super) fn select_own_pods(job: &mut Value) {
    if job.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let uid = metadata::text(job, "uid").to_owned();
    let name = metadata::text(job, "name").to_owned();
    let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let mut pod_labels = (Value::Null, Value::Null);
    if let Some(template) = spec.get_mut("template") {
        pod_labels.0 = template["metadata"]["labels"].clone();
        let labels = metadata::of(template)
            .entry("labels")
            .or_insert_with(|| Map::new().into());
        if let Some(labels) = labels.as_object_mut() {
            for (label, value) in [
                ("batch.kubernetes.io/controller-uid", &uid),
                ("batch.kubernetes.io/job-name", &name),
                ("controller-uid", &uid),
                ("job-name", &name),
            ] {
                labels.entry(label).or_insert_with(|| value.as_str().into());
            }
        }
        pod_labels.1 = template["metadata"]["labels"].clone();
    }
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if selector.get("matchLabels").is_none() {
        selector["matchLabels"] = json!({});
    }
    if let Some(labels) = selector["matchLabels"].as_object_mut() {
        labels
            .entry("batch.kubernetes.io/controller-uid")
            .or_insert_with(|| uid.into());
    }
    // A job without labels gets those of its pods.
    let (before, after) = pod_labels;
    let metadata = metadata::of(job);
    if metadata
        .get("labels")
        .is_none_or(|labels| *labels == before)
    {
        metadata.insert("labels".to_owned(), after);
    }
}
