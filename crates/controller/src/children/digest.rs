//! Digests of JSON, and the comparison of an object with what was desired of it. *(pure)*
//!
//! A desired object is never compared with the one in the cluster: the API server adds defaults,
//! writes `1000m` as `1`, drops nulls, and sorts lists. Two responses of the server are compared
//! instead, each cut to the fields of the desired object.

use std::fmt;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// A digest of JSON that does not depend on the order of keys. The same in each process, because an
/// annotation of a child contains it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest([u8; 16]);

/// The digest of `answer`, cut to the fields of `desired`: fields and entries of maps that `desired`
/// does not have are left out, lists are complete. The status is left out, and so are the version
/// and the other fields that the server changes.
pub(super) fn of_fields(answer: &Value, desired: &Value) -> Digest {
    let mut hasher = Sha256::new();
    let (Value::Object(answer), Value::Object(desired)) = (answer, desired) else {
        return Digest::of(answer);
    };
    for key in sorted(desired) {
        if key != "status" {
            add_key(&mut hasher, key);
            add_cut(&mut hasher, answer.get(key), &desired[key]);
        }
    }
    Digest::finish(hasher)
}

/// The digest of the metadata of `answer`, for stores that have nothing else: the generation stands
/// for the rest.
pub(super) fn of_metadata(answer: &Value, desired: &Value) -> Digest {
    let mut hasher = Sha256::new();
    add_cut(&mut hasher, answer.get("metadata"), &desired["metadata"]);
    let generation = answer.pointer("/metadata/generation");
    add(&mut hasher, generation.unwrap_or(&Value::Null));
    Digest::finish(hasher)
}

/// `answer` without the fields that `desired` does not have. Lists are complete.
pub(super) fn cut(answer: &Value, desired: &Value) -> Value {
    let (Value::Object(answer), Value::Object(desired)) = (answer, desired) else {
        return answer.clone();
    };
    let fields = desired.iter().filter_map(|(key, desired)| {
        let answer = answer.get(key)?;
        Some((key.clone(), cut(answer, desired)))
    });
    Value::Object(fields.collect())
}

/// Whether `observed` has everything that `part` has: maps by key, lists of items with names by
/// name, other lists by position.
pub(super) fn contains(observed: &Value, part: &Value) -> bool {
    has(observed, part, &|observed, part| observed == part)
}

/// Whether `observed` has each field that `part` has, with any value, like [`contains`].
pub(super) fn has_fields(observed: &Value, part: &Value) -> bool {
    has(observed, part, &|observed, part| {
        part.is_null() || !observed.is_null()
    })
}

fn has(observed: &Value, part: &Value, is_same: &dyn Fn(&Value, &Value) -> bool) -> bool {
    match (observed, part) {
        (Value::Object(observed), Value::Object(part)) => part.iter().all(|(key, part)| {
            let observed = observed.get(key).unwrap_or(&Value::Null);
            has(observed, part, is_same)
        }),
        (Value::Array(observed), Value::Array(part)) => {
            part.iter().enumerate().all(|(index, part)| {
                let name = part.get("name");
                let same_name = observed.iter().find(|it| it.get("name") == name);
                let observed = match name {
                    Some(_) => same_name,
                    None => observed.get(index),
                };
                observed.is_some_and(|observed| has(observed, part, is_same))
            })
        }
        _ => is_same(observed, part),
    }
}

/// Adds `answer` without the fields that `desired` does not have.
fn add_cut(hasher: &mut Sha256, answer: Option<&Value>, desired: &Value) {
    match (answer, desired) {
        (None, _) => hasher.update(b"-"),
        (Some(Value::Object(answer)), Value::Object(desired)) => {
            hasher.update(b"{");
            for key in sorted(desired) {
                add_key(hasher, key);
                add_cut(hasher, answer.get(key), &desired[key]);
            }
            hasher.update(b"}");
        }
        (Some(answer), _) => add(hasher, answer),
    }
}

fn add(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Null => hasher.update(b"0"),
        Value::Bool(true) => hasher.update(b"t"),
        Value::Bool(false) => hasher.update(b"f"),
        Value::Number(number) => {
            hasher.update(b"n");
            add_key(hasher, &number.to_string());
        }
        Value::String(text) => {
            hasher.update(b"s");
            add_key(hasher, text);
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                add(hasher, item);
            }
            hasher.update(b"]");
        }
        Value::Object(fields) => {
            hasher.update(b"{");
            for key in sorted(fields) {
                add_key(hasher, key);
                add(hasher, &fields[key]);
            }
            hasher.update(b"}");
        }
    }
}

/// Adds `text` with its length, so that two texts are not confused with two others.
fn add_key(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text);
}

/// The keys in order: with a feature of `serde_json` that another crate may enable, maps keep the
/// order in which keys were added.
fn sorted(map: &Map<String, Value>) -> Vec<&String> {
    let mut keys: Vec<_> = map.keys().collect();
    keys.sort_unstable();
    keys
}

// === impl Digest ===

impl Digest {
    /// The digest of no object.
    pub(super) const fn none() -> Self {
        Self([0; 16])
    }

    /// The digest of all of `value`.
    pub(super) fn of(value: &Value) -> Self {
        let mut hasher = Sha256::new();
        add(&mut hasher, value);
        Self::finish(hasher)
    }

    fn finish(hasher: Sha256) -> Self {
        let digest = hasher.finalize();
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }
}

/// In hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether two answers are equal in the fields of `desired`.
    #[track_caller]
    fn check(desired: &Value, first: &Value, second: &Value, equal: bool) {
        let same = of_fields(first, desired) == of_fields(second, desired);
        assert_eq!(same, equal, "{desired}: {first} and {second}");
    }

    #[test]
    fn only_the_fields_of_the_desired_object_count() {
        let desired = json!({ "spec": { "replicas": 1, "paused": null, "list": [], "map": {} } });
        let answer = json!({ "spec": { "replicas": 1, "list": [], "map": {} } });
        let changed = |pointer: &str, value: Value| {
            let mut changed = answer.clone();
            json_patch::merge(&mut changed, &json!({ "spec": { pointer: value } }));
            changed
        };
        check(&desired, &answer, &answer, true);
        check(&desired, &answer, &changed("other", json!(7)), true);
        check(
            &desired,
            &answer,
            &changed("map", json!({ "theirs": 1 })),
            true,
        );
        check(&desired, &answer, &changed("replicas", json!(2)), false);
        check(&desired, &answer, &changed("paused", json!(true)), false);
        check(&desired, &answer, &changed("list", json!([1])), false);
        check(&desired, &answer, &changed("map", Value::Null), false);
    }

    #[test]
    fn the_status_and_the_version_never_count() {
        let desired = json!({ "metadata": { "name": "a" }, "status": { "ready": true } });
        let first = json!({ "metadata": { "name": "a", "resourceVersion": "1" } });
        let second = json!({
            "metadata": { "name": "a", "resourceVersion": "2" }, "status": { "ready": false },
        });
        check(&desired, &first, &second, true);
    }

    #[test]
    fn texts_numbers_and_lists_are_not_confused() {
        let values = [
            json!("1"),
            json!(1),
            json!([1]),
            json!([[1]]),
            json!(["a", "b"]),
            json!(["ab"]),
            json!(["", "ab"]),
            json!({ "a": "b" }),
            json!({ "ab": "" }),
            json!(null),
            json!(true),
            json!({}),
            json!([]),
        ];
        for (first, value) in values.iter().enumerate() {
            for (second, other) in values.iter().enumerate() {
                let same = Digest::of(value) == Digest::of(other);
                assert_eq!(same, first == second, "{value} and {other}");
            }
        }
    }

    #[test]
    fn the_metadata_stand_for_the_content_by_their_generation() {
        let desired = json!({ "metadata": { "labels": { "a": "1" } }, "spec": { "replicas": 1 } });
        let of = |metadata: Value| of_metadata(&json!({ "metadata": metadata }), &desired);
        let answer = of(json!({ "labels": { "a": "1" }, "generation": 1 }));
        let same = of(json!({ "labels": { "a": "1", "b": "2" }, "generation": 1 }));
        assert_eq!(answer, same);
        assert_ne!(
            answer,
            of(json!({ "labels": { "a": "1" }, "generation": 2 }))
        );
        assert_ne!(
            answer,
            of(json!({ "labels": { "a": "2" }, "generation": 1 }))
        );
    }

    #[test]
    fn injected_fields_and_items_do_not_hide_what_is_contained() {
        let part = json!({ "containers": [{ "name": "app", "image": "a" }], "args": ["x"] });
        let injected = json!({
            "containers": [{ "name": "proxy" }, { "name": "app", "image": "a", "more": 1 }],
            "args": ["x", "y"], "node": "n",
        });
        assert!(contains(&injected, &part));
        assert!(!contains(&part, &injected));
        let other = json!({ "containers": [{ "name": "app", "image": "b" }], "args": ["x"] });
        assert!(!contains(&other, &part));
    }

    #[test]
    fn a_digest_is_the_same_in_each_process_and_version() {
        let digest = Digest::of(&json!({ "b": [1, "x"], "a": null }));
        assert_eq!(digest.to_string().len(), 32);
        assert_eq!(digest, Digest::of(&json!({ "a": null, "b": [1, "x"] })));
    }
}
