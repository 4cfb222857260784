//! Moves fields of earlier managers to the entry of our applies in `metadata.managedFields`. *(pure)*
//!
//! A program that wrote a child with creates and updates has an `Update` entry. An apply of the same
//! fields shares them with that entry, so that a field which a later apply does not have would stay.
//!
//! Source: client-go, its package `csaupgrade`, for the rules.

use serde_json::{Map, Value};

/// The entries of `object`, after the fields that the managers `from` have set with creates and
/// updates were moved to the entry of the applies of `manager`. `None` if there are no such fields.
///
/// `subresource` is that of the applies, empty for the object itself. An entry of another version of the
/// API stays: its fields may have other names.
pub(crate) fn moved(
    object: &Value,
    manager: &str,
    from: &[String],
    subresource: &str,
) -> Option<Value> {
    let mut entries = object
        .pointer("/metadata/managedFields")?
        .as_array()?
        .clone();
    let is_of_subresource =
        |entry: &Value| entry["subresource"].as_str().unwrap_or_default() == subresource;
    let is_ours = |entry: &Value| {
        entry["operation"] == "Apply" && entry["manager"] == manager && is_of_subresource(entry)
    };
    let at = entries.iter().position(is_ours)?;
    let version = entries[at]["apiVersion"].clone();
    let is_earlier = |entry: &Value| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        entry["operation"] == "Update"
            && from.iter().any(|it| it == manager)
            && entry["apiVersion"] == version
            && is_of_subresource(entry)
    };
    let mut fields = entries[at]["fieldsV1"].take();
    let before = entries.len();
    for entry in entries.iter().filter(|entry| is_earlier(entry)) {
        add(&mut fields, &entry["fieldsV1"]);
    }
    entries[at]["fieldsV1"] = fields;
    entries.retain(|entry| !is_earlier(entry));
    (entries.len() < before).then_some(Value::Array(entries))
}

/// Adds the fields of `more` to the set `fields`: both are maps, of the fields below each field.
fn add(fields: &mut Value, more: &Value) {
    let Some(more) = more.as_object() else {
        return;
    };
    if !fields.is_object() {
        *fields = Value::Object(Map::new());
    }
    for (name, below) in more {
        add(&mut fields[name.as_str()], below);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    fn moved(entries: &[Value]) -> Option<Value> {
        let object = json!({ "metadata": { "managedFields": entries } });
        super::moved(&object, "ours", &["old".to_owned(), "older".to_owned()], "")
    }

    #[test]
    fn the_fields_of_earlier_managers_are_added_to_those_of_our_applies() {
        let ours = json!({ "f:data": { "f:a": {} }, "f:metadata": { "f:labels": { ".": {} } } });
        let old = json!({ "f:data": { ".": {}, "f:a": {}, "f:b": {} } });
        let older = json!({ "f:data": { "f:c": {} }, "f:immutable": {} });
        let theirs = entry("theirs", "Update", &json!({ "f:data": { "f:d": {} } }));
        let found = moved(&[
            entry("old", "Update", &old),
            theirs.clone(),
            entry("ours", "Apply", &ours),
            entry("older", "Update", &older),
        ]);
        let all = json!({
            "f:data": { ".": {}, "f:a": {}, "f:b": {}, "f:c": {} },
            "f:immutable": {},
            "f:metadata": { "f:labels": { ".": {} } },
        });
        assert_eq!(found, Some(json!([theirs, entry("ours", "Apply", &all)])));
    }

    #[test]
    fn other_entries_stay() {
        let fields = json!({ "f:data": { "f:a": {} } });
        let ours = entry("ours", "Apply", &fields);
        let mut of_status = entry("old", "Update", &fields);
        of_status["subresource"] = "status".into();
        let mut of_another_version = entry("old", "Update", &fields);
        of_another_version["apiVersion"] = "v1beta1".into();
        for stays in [
            of_status,
            of_another_version,
            entry("old", "Apply", &fields),
            entry("theirs", "Update", &fields),
            // The creates and updates of this program itself.
            entry("ours", "Update", &fields),
        ] {
            assert_eq!(moved(&[ours.clone(), stays.clone()]), None, "{stays}");
            assert_eq!(moved(&[stays]), None, "there is no apply of ours");
        }
        assert_eq!(super::moved(&json!({}), "ours", &[], ""), None);
    }
}
