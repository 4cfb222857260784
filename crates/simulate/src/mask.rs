//! Placeholders for the values of objects that differ between two runs. *(pure)*

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Placeholders for uids, generated names and addresses.
pub(crate) struct Mask {
    names: BTreeMap<String, String>,
}

/// Fields of `metadata` that differ in every run, or that only the server writes.
const LEFT_OUT: [&str; 6] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
];

/// The length of a uid.
const UID: usize = 36;

// === impl Mask ===

impl Mask {
    pub(crate) fn new(objects: &[(String, Value)]) -> Self {
        let mut names = BTreeMap::new();
        for (resource, object) in objects {
            let metadata = &object["metadata"];
            let identity = without_uids(&identity(resource, object));
            if let Some(uid) = metadata["uid"].as_str() {
                names.insert(uid.to_owned(), format!("uid of {identity}"));
            }
            if let (Some(prefix), Some(name)) =
                (metadata["generateName"].as_str(), metadata["name"].as_str())
            {
                names.insert(name.to_owned(), format!("{prefix}*"));
            }
            // The server allocates addresses in the order of the requests.
            let addresses = object["spec"]["clusterIPs"].as_array();
            for address in addresses.into_iter().flatten().filter_map(Value::as_str) {
                if resource == "services" && address != "None" {
                    names.insert(address.to_owned(), format!("address of {identity}"));
                }
            }
        }
        Self { names }
    }

    pub(crate) fn object(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let generation = object["metadata"]["generation"].clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
        }
        self.value(&mut object, &generation);
        // Finalizers are a set: their order only shows which one was added first.
        let finalizers = object.pointer_mut("/metadata/finalizers");
        if let Some(finalizers) = finalizers.and_then(Value::as_array_mut) {
            finalizers.sort_by_key(ToString::to_string);
        }
        object
    }

    fn value(&self, value: &mut Value, generation: &Value) {
        match value {
            Value::Object(members) => {
                for (key, value) in members.iter_mut() {
                    if key == "observedGeneration" {
                        let word = if value == generation {
                            "current"
                        } else {
                            "old"
                        };
                        *value = word.into();
                    }
                    if key == "nodePort" {
                        *value = "port".into();
                    }
                    self.value(value, generation);
                }
                self.keys(members);
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.value(it, generation)),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    /// Masks the keys of an object. Equal ones get numbers, in the order of their values.
    fn keys(&self, members: &mut Map<String, Value>) {
        if members.keys().all(|key| self.text(key) == *key) {
            return;
        }
        let masked = std::mem::take(members).into_iter();
        let mut masked: Vec<_> = masked
            .map(|(key, value)| (self.text(&key), value))
            .collect();
        masked.sort_by_cached_key(|(key, value)| (key.clone(), value.to_string()));
        for (key, value) in masked {
            let free = (1..).map(|number| match number {
                1 => key.clone(),
                number => format!("{key}#{number}"),
            });
            let mut free = free.filter(|key| !members.contains_key(key));
            members.insert(free.next().unwrap_or_default(), value);
        }
    }

    /// Replaces the uids, generated names, addresses and times in a text.
    pub(crate) fn text(&self, text: &str) -> String {
        if let Some(known) = self.names.get(text) {
            return known.clone();
        }
        if is_time(text) {
            return "time".to_owned();
        }
        let mut masked = text.to_owned();
        for (name, placeholder) in &self.names {
            if masked.contains(name.as_str()) {
                masked = replaced(&masked, name, placeholder);
            }
        }
        without_uids(&masked)
    }
}

/// Replaces each uid in a text.
pub(crate) fn without_uids(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.get(..UID).is_some_and(is_uid) {
            masked.push_str("uid of no object");
            rest = &rest[UID..];
        } else {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    masked
}

/// Replaces `name` in a text, except as a part of a longer word or number.
fn replaced(text: &str, name: &str, placeholder: &str) -> String {
    let is_part = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    let mut masked = String::new();
    let mut end = 0;
    for (start, _) in text.match_indices(name) {
        let after = start + name.len();
        if is_part(text[..start].chars().next_back()) || is_part(text[after..].chars().next()) {
            continue;
        }
        masked.push_str(&text[end..start]);
        masked.push_str(placeholder);
        end = after;
    }
    masked + &text[end..]
}

/// Whether a text has the form of a uid.
fn is_uid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == UID
        && text.bytes().enumerate().all(|(at, byte)| {
            if dashes.contains(&at) {
                byte == b'-'
            } else {
                byte.is_ascii_hexdigit()
            }
        })
}

/// Whether a text has the form of a time, as in `2026-01-02T03:04:05Z`.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    (20..=30).contains(&bytes.len())
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && bytes.ends_with(b"Z")
}

/// The resource, namespace and name of an object, without the generated part of the name.
pub(crate) fn identity(resource: &str, object: &Value) -> String {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    if let Some(prefix) = metadata["generateName"].as_str() {
        return format!("{resource} {namespace}/{prefix}*");
    }
    let name = metadata["name"].as_str().unwrap_or_default();
    format!("{resource} {namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Mask, without_uids};

    const ONE: &str = "0b0a8e3c-6f0e-4c2e-9a51-0d5f5b1f2c3d";
    const TWO: &str = "1c1b9f4d-7a1f-4d3f-8b62-1e6a6c2a3d4e";

    #[test]
    fn values_that_differ_are_masked_within_longer_texts_in_names_and_as_keys() {
        let objects = vec![
            (
                "sites".to_owned(),
                json!({ "metadata": { "name": "blog", "uid": ONE } }),
            ),
            (
                "pods".to_owned(),
                json!({ "metadata": { "generateName": "web-", "name": "web-x7k2p", "uid": TWO } }),
            ),
            (
                "services".to_owned(),
                json!({ "metadata": { "name": "web" }, "spec": { "clusterIPs": ["10.0.0.1"] } }),
            ),
        ];
        let mask = Mask::new(&objects);
        let check = |value: Value, masked: Value| {
            let object = mask.object(&json!({ "data": value }));
            assert_eq!(object["data"], masked);
        };
        check(
            json!(format!("owner={ONE};")),
            json!("owner=uid of sites /blog;"),
        );
        check(json!(format!("pod-{TWO}")), json!("pod-uid of pods /web-*"));
        check(
            json!({ ONE: 1, "other": 2 }),
            json!({ "uid of sites /blog": 1, "other": 2 }),
        );
        let unknown = "99999999-9999-4999-8999-999999999999";
        let other = "88888888-8888-4888-8888-888888888888";
        check(
            json!({ unknown: "b", other: "a" }),
            json!({ "uid of no object": "a", "uid of no object#2": "b" }),
        );
        check(
            json!("http://web-x7k2p.default"),
            json!("http://web-*.default"),
        );
        check(
            json!("10.0.0.1:80 10.0.0.12"),
            json!("address of services /web:80 10.0.0.12"),
        );
        check(json!("2026-01-02T03:04:05Z"), json!("time"));
        assert_eq!(without_uids(&format!("é {ONE}")), "é uid of no object");
    }
}
