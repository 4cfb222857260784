//! `metadata.managedFields`: one entry for each manager, operation and subresource.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields_v1;
use super::set::Set;
use crate::json;

/// The field of an entry with the paths. In a stored object, it is a string.
const FIELDS: &str = "fieldsV1";

/// The operation of an entry. The order is that of the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// A server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// The identity of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// The version of an update; empty for an apply, because the applies of a manager in all versions
    /// share one entry.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

/// The fields that a manager owns.
#[derive(Debug, Clone)]
pub(super) struct Ownership {
    pub(super) set: Set,
    /// The version of the paths.
    pub(super) api_version: String,
    /// The time of the last change, in the format of the entry.
    pub(super) time: Option<String>,
}

/// All entries of an object.
pub(super) type Managers = BTreeMap<ManagerId, Ownership>;

// === impl ManagerId ===

impl ManagerId {
    pub(super) fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> Self {
        Self {
            manager: if manager.is_empty() {
                "unknown".to_owned()
            } else {
                manager.to_owned()
            },
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: subresource.to_owned(),
        }
    }

    /// Returns the name of the manager in messages about conflicts.
    pub(super) fn shown(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            name => format!(" with subresource {name:?}"),
        };
        let version = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => format!(" using {}", self.api_version),
        };
        format!("{:?}{subresource}{version}", self.manager)
    }
}

/// Decodes the entries of a stored object.
///
/// # Errors
///
/// The error of the first invalid entry.
pub(super) fn stored(list: Option<&Value>) -> Result<Managers, String> {
    decode(list, |fields| match fields {
        Value::String(text) => fields_v1::parse(text),
        fields => fields_v1::decode(fields),
    })
}

/// Decodes the entries that a client has sent.
///
/// # Errors
///
/// The error of the first invalid entry.
pub(super) fn sent(list: Option<&Value>) -> Result<Managers, String> {
    decode(list, fields_v1::decode)
}

fn decode(
    list: Option<&Value>,
    fields_v1: impl Fn(&Value) -> Result<Set, String>,
) -> Result<Managers, String> {
    let mut managers = Managers::new();
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    for (at, entry) in entries.enumerate() {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
            other => {
                return Err(format!(
                    "invalid fieldsType {other:?} in managed fields entry {at}"
                ));
            }
        }
        let empty = Value::Object(Map::new());
        let fields = entry.get("fieldsV1").filter(|fields| !fields.is_null());
        let id = ManagerId {
            // An empty name stays empty when it is decoded.
            manager: text("manager").to_owned(),
            ..ManagerId::new("", operation, api_version, text("subresource"))
        };
        let ownership = Ownership {
            set: fields_v1(fields.unwrap_or(&empty))?,
            api_version: api_version.to_owned(),
            time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
        };
        managers.insert(id, ownership);
    }
    Ok(managers)
}

/// Encodes the entries as a list, in the order of the real server; `None` if there are no entries.
pub(super) fn encode(managers: &Managers) -> Option<Value> {
    let mut sorted: Vec<_> = managers.iter().collect();
    sorted.sort_by_key(|(id, ownership)| {
        let time = ownership.time.clone().unwrap_or_default();
        (id.operation, time, *id)
    });
    let entries = sorted.into_iter().map(|(id, ownership)| {
        let fields = fields_v1::encode(&ownership.set);
        let time = ownership.time.as_deref().unwrap_or_default();
        entry(id, &ownership.api_version, time, fields)
    });
    let entries: Vec<_> = entries.collect();
    (!entries.is_empty()).then(|| entries.into())
}

/// Returns one entry of a stored object; `fields_v1` is the text of its fields.
pub(super) fn entry(id: &ManagerId, api_version: &str, time: &str, fields_v1: String) -> Value {
    let operation = match id.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    let texts = [
        ("operation", operation),
        ("apiVersion", api_version),
        ("fieldsType", "FieldsV1"),
        ("manager", &id.manager),
        ("subresource", &id.subresource),
        ("time", time),
    ];
    let mut entry = Map::new();
    entry.insert(FIELDS.to_owned(), fields_v1.into());
    for (field, text) in texts {
        if !text.is_empty() {
            entry.insert(field.to_owned(), text.into());
        }
    }
    entry.into()
}

/// Converts the entries of a stored object to their form in the API.
pub(crate) fn expand(object: &mut Value) {
    let metadata = object.get_mut("metadata");
    let list = metadata.and_then(|metadata| metadata.get_mut("managedFields"));
    for entry in list.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = entry.get_mut(FIELDS)
            && let Some(text) = fields.as_str()
            && let Ok(object) = serde_json::from_str(text)
        {
            *fields = object;
        }
    }
}

/// Writes the entries of a stored object in their form in the API.
pub(crate) fn write(out: &mut Vec<u8>, list: &Value) {
    out.push(b'[');
    let entries = list.as_array().into_iter().flatten();
    for (at, entry) in entries.filter_map(Value::as_object).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.push(b'{');
        json::write_members(out, entry, |out, field, value| match value {
            Value::String(text) if field == FIELDS => out.extend_from_slice(text.as_bytes()),
            value => json::write(out, value),
        });
        out.push(b'}');
    }
    out.push(b']');
}

/// Returns whether a list of entries requests that all entries are dropped: it is empty, or has one
/// empty entry.
pub(super) fn is_reset(list: Option<&Value>) -> bool {
    match list.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Returns whether two lists of entries are equal except for their times.
pub(crate) fn same_but_for_times(before: &Value, after: &Value) -> bool {
    let timeless = |list: &Value| {
        let mut list = list.clone();
        for entry in list.as_array_mut().into_iter().flatten() {
            entry.as_object_mut().map(|entry| entry.remove("time"));
        }
        list
    };
    before == after || timeless(before) == timeless(after)
}
