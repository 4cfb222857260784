//! The two data source fields of a persistent volume claim.
//!
//! Source: `pkg/api/persistentvolumeclaim/util.go` of Kubernetes v1.36.3.

use serde_json::{Map, Value};

/// Drops a data source of a kind that only the newer field supports, and copies the field that is
/// set to the other one.
pub(super) fn fill_sources(before: Option<&Value>, claim: &mut Value) {
    let had_one = before.is_some_and(|before| {
        let spec = &before["spec"];
        !spec["dataSource"].is_null() || !spec["dataSourceRef"].is_null()
    });
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if !had_one && !is_set(spec, "dataSourceRef") && !spec.get("dataSource").is_some_and(is_classic)
    {
        spec.remove("dataSource");
    }
    let is_elsewhere = spec
        .get("dataSourceRef")
        .and_then(|source| source["namespace"].as_str())
        .is_some_and(|namespace| !namespace.is_empty());
    if is_set(spec, "dataSource") && !is_set(spec, "dataSourceRef") {
        let source = spec["dataSource"].clone();
        spec.insert("dataSourceRef".to_owned(), source);
    } else if is_set(spec, "dataSourceRef") && !is_set(spec, "dataSource") && !is_elsewhere {
        let source = spec["dataSourceRef"].clone();
        spec.insert("dataSource".to_owned(), source);
    }
}

fn is_set(spec: &Map<String, Value>, field: &str) -> bool {
    spec.get(field).is_some_and(|value| !value.is_null())
}

/// Whether the older field supports this data source: it is a claim or a snapshot.
fn is_classic(source: &Value) -> bool {
    let text = |field: &str| source[field].as_str().unwrap_or_default();
    matches!(
        (text("apiGroup"), text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}
