//! The annotation of client-side apply, which kubectl's server-side apply migrates.

use serde_json::Value;

use super::compare::Comparison;
use super::owned;
use super::path::escape_html;
use super::set::Set;
use super::types::Shape;
use crate::metadata;

/// The manager whose applies migrate the annotation.
pub(super) const KUBECTL: &str = "kubectl";

/// The annotation with the last configuration of client-side apply.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the fields of the last client-side configuration that have not changed since; `None` if
/// there is no such configuration in this version.
pub(super) fn unchanged(live: &Value, shape: Shape<'_>, api_version: &str) -> Option<Set> {
    let text = annotation(live)?;
    let mut last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    if let Some(last) = last.as_object_mut() {
        last.remove("apiVersion");
        last.remove("kind");
    }
    let set = owned::fields(&last, shape);
    let (written, removed) = Comparison::of(&last, live, shape).into_written_and_removed();
    Some(set.difference(&written).difference(&removed))
}

/// Sets the annotation, if the object has it, to the applied configuration, so that a later
/// client-side apply starts from it.
pub(super) fn renew(object: &mut Value, config: &Value, kind: (&str, &str)) {
    if annotation(object).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    let annotations = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove(ANNOTATION);
    }
    config["apiVersion"] = kind.0.into();
    config["kind"] = kind.1.into();
    let text = escape_html(&config.to_string()) + "\n";
    let annotations = metadata::of(object).get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION.to_owned(), text.into());
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str()
}
