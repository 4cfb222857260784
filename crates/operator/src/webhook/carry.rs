//! Keeps the fields of a converted object that the Rust types of its versions do not have. *(pure)*

use serde_json::Value;

/// A field of the object that the converted one does not have.
struct Missing<'a> {
    path: Vec<&'a str>,
    value: &'a Value,
}

/// The most values that are tried one by one, because each needs a decode of the object.
const MOST_TRIED: usize = 32;

/// Copies the fields of `raw` that `known` lacks to the same paths of `converted`, which is `known` in
/// another version. `known` is `raw` as the type reads and writes it, and `read` does the same with an
/// object of the other version.
///
/// Not within lists, because elements can have other indexes in the other version. A value that a type
/// may omit because it is its default is copied only if the type of the other version reads the same
/// object with it: otherwise it may have a field with this name and another meaning.
pub(super) fn carry(
    raw: &Value,
    known: &Value,
    converted: &mut Value,
    read: impl Fn(&Value) -> Option<Value>,
) {
    let mut missing = Vec::new();
    find(raw, known, converted, &mut Vec::new(), &mut missing);
    let (defaults, others): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|it| is_default(it.value));
    let unknown = unknown(&defaults, converted, read);
    for field in unknown.into_iter().chain(&others) {
        field.insert(converted);
    }
}

/// Those of `defaults` that the type of `converted` does not know.
fn unknown<'a, 'b>(
    defaults: &'b [Missing<'a>],
    converted: &Value,
    read: impl Fn(&Value) -> Option<Value>,
) -> Vec<&'b Missing<'a>> {
    if defaults.is_empty() {
        return Vec::new();
    }
    let Some(expected) = read(converted) else {
        return Vec::new();
    };
    let reads_the_same = |fields: &[Missing<'a>]| {
        let mut tried = converted.clone();
        for field in fields {
            field.insert(&mut tried);
        }
        read(&tried).as_ref() == Some(&expected)
    };
    if reads_the_same(defaults) {
        return defaults.iter().collect();
    }
    let tried = defaults.chunks(1).take(MOST_TRIED);
    tried.filter(|it| reads_the_same(it)).flatten().collect()
}

fn find<'a>(
    raw: &'a Value,
    known: &Value,
    converted: &Value,
    path: &mut Vec<&'a str>,
    missing: &mut Vec<Missing<'a>>,
) {
    let (Some(raw), Some(known), Some(converted)) =
        (raw.as_object(), known.as_object(), converted.as_object())
    else {
        return;
    };
    for (name, value) in raw {
        path.push(name);
        match (known.get(name), converted.get(name)) {
            (Some(known), Some(converted)) => find(value, known, converted, path, missing),
            (None, None) if !value.is_null() => {
                let path = path.clone();
                missing.push(Missing { path, value });
            }
            // The conversion has removed it, or has set the field itself.
            (Some(_), None) | (None, Some(_) | None) => {}
        }
        path.pop();
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

// === impl Missing ===

impl Missing<'_> {
    fn insert(&self, object: &mut Value) {
        let Some((name, parents)) = self.path.split_last() else {
            return;
        };
        let mut parents = parents.iter();
        let parent = parents.try_fold(object, |object, name| object.get_mut(*name));
        if let Some(Value::Object(fields)) = parent {
            fields.insert((*name).to_owned(), self.value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MOST_TRIED, carry};

    const DEFAULTS: [&str; 5] = ["[]", "{}", "0", "\"\"", "false"];

    #[test]
    fn a_default_is_carried_if_the_type_of_the_other_version_does_not_know_it() {
        for value in DEFAULTS {
            let value: Value = serde_json::from_str(value).expect("JSON");
            let raw = json!({ "spec": { "hosts": value } });
            let check = |read: &dyn Fn(&Value) -> Option<Value>, expected: &Value| {
                let mut converted = json!({ "spec": {} });
                carry(&raw, &json!({ "spec": {} }), &mut converted, read);
                assert_eq!(&converted, expected, "{value}");
            };
            check(&|_| Some(json!({ "spec": {} })), &raw);
            // The type knows the field, or does not decode the value.
            check(&|object| Some(object.clone()), &json!({ "spec": {} }));
            let empty = json!({ "spec": {} });
            check(&|it| (*it == empty).then(|| empty.clone()), &empty);
        }
        let raw = json!({ "spec": { "hosts": null } });
        let mut converted = json!({ "spec": {} });
        carry(&raw, &json!({ "spec": {} }), &mut converted, |_| {
            Some(json!(1))
        });
        assert_eq!(converted, json!({ "spec": {} }));
    }

    /// Each try decodes the object.
    #[test]
    fn a_default_that_the_type_knows_does_not_stop_the_others() {
        let raw: Value = (0..1000).map(|it| (it.to_string(), json!(0))).collect();
        let tries = std::cell::Cell::new(0);
        let read = |object: &Value| {
            tries.set(tries.get() + 1);
            // The type knows one of the fields.
            Some(object.get("0").cloned().unwrap_or_default())
        };
        let mut converted = json!({});
        carry(&raw, &json!({}), &mut converted, read);
        assert_eq!(
            converted.as_object().map(serde_json::Map::len),
            Some(MOST_TRIED - 1)
        );
        assert_eq!((converted.get("0"), tries.get()), (None, MOST_TRIED + 2));
    }

    #[test]
    fn fields_that_the_type_does_not_have_are_carried_to_the_other_version() {
        let raw = json!({
            "spec": { "size": 1, "newer": { "a": 1 }, "both": 1, "list": [{ "more": 1 }], "old": 1 },
            "status": { "ready": true },
        });
        let known = json!({ "spec": { "size": 1, "list": [{}], "old": 1 } });
        let mut converted = json!({ "spec": { "replicas": 1, "both": 2, "list": [{}] } });
        carry(&raw, &known, &mut converted, |it| Some(it.clone()));
        let spec = json!({ "replicas": 1, "newer": { "a": 1 }, "both": 2, "list": [{}] });
        assert_eq!(
            converted,
            json!({ "spec": spec, "status": { "ready": true } })
        );
    }
}
