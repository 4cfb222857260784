//! The end state of a run, masked so that the states of two runs can be compared. *(pure)*

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::mask::{Mask, identity};

/// The state of the cluster and of the external resources at the end of a run.
///
/// Values that differ between runs are masked: versions, times, and generations are removed.
/// Uids, generated names, and the addresses and ports of services are replaced by placeholders, also
/// within longer texts, in names and in keys. An `observedGeneration` is `current` or `old`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndState {
    objects: BTreeMap<String, Value>,
    external: BTreeMap<String, String>,
}

/// The fields of an end state, each with its path.
pub(crate) type Fields = BTreeMap<String, String>;

// === impl EndState ===

impl EndState {
    pub(crate) fn new(
        objects: &[(String, Value)],
        external: BTreeMap<String, String>,
        ignored: &BTreeSet<String>,
    ) -> Self {
        let mask = Mask::new(objects);
        let mut state = Self::default();
        for (name, value) in external {
            let (name, value) = (mask.text(&name), mask.text(&value));
            state.external.insert(name, value);
        }
        for (resource, object) in objects {
            if ignored.contains(resource) {
                continue;
            }
            let key = mask.text(&identity(resource, object));
            let masked = mask.object(object);
            // Several objects can have one generated name.
            let mut same: Vec<_> = vec![masked];
            for number in 1.. {
                let key = format!("{key}#{number}");
                match state.objects.remove(&key) {
                    Some(other) => same.push(other),
                    None => break,
                }
            }
            same.sort_by_key(ToString::to_string);
            for (index, object) in same.into_iter().enumerate() {
                state.objects.insert(format!("{key}#{}", index + 1), object);
            }
        }
        state
    }

    /// The objects of a resource, such as `configmaps` or `websites.example.io`, masked.
    pub fn objects<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a Value> {
        let of_resource = self.objects.iter().filter(move |(key, _)| {
            let name = key.split_once(' ').map(|(name, _)| name);
            name == Some(resource)
        });
        of_resource.map(|(_, object)| object)
    }

    /// The external resources, by name.
    #[must_use]
    pub const fn external(&self) -> &BTreeMap<String, String> {
        &self.external
    }

    /// All fields, each with its path.
    pub(crate) fn fields(&self) -> Fields {
        let mut fields = Fields::new();
        for (key, object) in &self.objects {
            fields.insert(key.clone(), "exists".to_owned());
            flatten(key, object, &mut fields);
        }
        for (name, value) in &self.external {
            fields.insert(format!("external {name}"), value.clone());
        }
        fields
    }
}

/// The lines in which two states differ, without the fields in `masked`.
pub(crate) fn difference(
    expected: &Fields,
    actual: &Fields,
    masked: &BTreeSet<String>,
) -> Vec<String> {
    let names: BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
    let mut lines = Vec::new();
    let mut missing = String::new();
    for name in names {
        let (before, now) = (expected.get(name), actual.get(name));
        if before == now || masked.contains(name) {
            continue;
        }
        // For a missing or additional object, one line is enough.
        if !missing.is_empty() && name.starts_with(&missing) {
            continue;
        }
        if before.or(now).is_some_and(|it| it == "exists") {
            missing.clone_from(name);
        }
        lines.push(match (before, now) {
            (Some(before), Some(now)) => format!("{name}: {now:?} instead of {before:?}"),
            (Some(before), None) => format!("{name}: missing, {before:?} without faults"),
            (_, now) => format!(
                "{name}: {:?}, missing without faults",
                now.map_or("", |it| it)
            ),
        });
    }
    lines
}

/// The names of the fields in which two states differ.
pub(crate) fn differing(one: &Fields, other: &Fields) -> BTreeSet<String> {
    let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name));
    differing.cloned().collect()
}

fn flatten(path: &str, value: &Value, fields: &mut Fields) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                flatten(&format!("{path} .{key}"), value, fields);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                flatten(&format!("{path} [{index}]"), value, fields);
            }
        }
        Value::Null => {}
        Value::String(text) => _ = fields.insert(path.to_owned(), text.clone()),
        other => _ = fields.insert(path.to_owned(), other.to_string()),
    }
}
