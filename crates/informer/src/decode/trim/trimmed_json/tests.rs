//! Tests of `trimmed_json.rs`.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Cuts, TrimmedJson, find_cuts};
use crate::{DecodeError, ObjectIdentity as _, Trim, decode::RawJson};

#[test]
fn a_removed_field_is_removed_with_one_comma() {
    check(r#"{"a":1,"x":[{}],"b":2}"#, r#"{"a":1,"b":2}"#);
    check(r#"{"x":1,"a":1}"#, r#"{"a":1}"#);
    check(r#"{"a":1,"x":{"x":1}}"#, r#"{"a":1}"#);
    check(r#"{"x":1}"#, "{}");
    check(r#"{"x":1,"x":2,"a":1,"x":3}"#, r#"{"a":1}"#);
    check(
        r#"{ "a" : 1 , "x" : "," , "b" : 2 }"#,
        r#"{ "a" : 1 , "b" : 2 }"#,
    );
}

#[test]
fn only_the_field_at_the_path_is_removed() {
    check(r#"{"m":{"y":1,"a":2},"y":3}"#, r#"{"m":{"a":2},"y":3}"#);
    check(
        r#"{"m":[{"y":1}],"l":{"x":1}}"#,
        r#"{"m":[{"y":1}],"l":{"x":1}}"#,
    );
}

#[test]
fn json_that_is_not_an_object_is_an_error() {
    for json in ["", "7", "{", r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":{}"#] {
        let raw = RawJson::of(json.as_bytes());
        assert!(find_cuts(raw, &Trim::nothing().root).is_err(), "{json}");
    }
}

#[test]
fn the_identity_is_in_the_remaining_json() {
    let whole = r#"{"x":[1],"metadata":{"managedFields":[{"a":"b"}],"name":"web","namespace":"shop","resourceVersion":"7","uid":"u"},"spec":{}}"#;
    let trimmed = trimmed(whole).expect("an object");
    assert_eq!(
        trimmed.json(),
        r#"{"metadata":{"name":"web","namespace":"shop","resourceVersion":"7","uid":"u"},"spec":{}}"#
    );
    assert_eq!(identity(&trimmed), "shop/web u 7");
}

#[test]
fn a_name_with_escapes_is_kept_without_them() {
    let json = r#"{"metadata":{"name":"a\u003cb\"é","uid":"\u0075","x":1}}"#;
    let trimmed = trimmed(json).expect("an object");
    assert_eq!(trimmed.json(), json);
    assert_eq!(trimmed.key().to_string(), "a<b\"é");
    assert_eq!((trimmed.uid(), trimmed.namespace()), (Some("u"), None));
}

#[test]
fn json_without_a_name_is_refused() {
    let check = |json: &str, error: &str| {
        let refused = trimmed(json).expect_err(json);
        assert_eq!(refused.to_string(), error, "{json}");
    };
    check(r#"{"kind":"Pod"}"#, "metadata: missing field `metadata`");
    check(r#"{"metadata":{}}"#, "metadata.name: missing field `name`");
    check(
        r#"{"metadata":{"name":null}}"#,
        "metadata.name: missing field `name`",
    );
    check(
        r#"{"metadata":{"name":"a","uid":7}}"#,
        "metadata.uid: invalid type, expected a string",
    );
    check(
        r#"{"kind":"Secret","metadata":{"name":"a"}}"#,
        r#"expected an object of kind "Pod", found "Secret""#,
    );
}

#[test]
fn an_invalid_utf_8_error_has_its_position_in_the_whole_text() {
    let json = b"{\"x\":1,\"metadata\":{\"name\":\"\xff\"}}";
    let trim = Trim::nothing().field(["x"]);
    let error = trim.apply(RawJson::of(json), "Pod").expect_err("no UTF-8");
    assert_eq!(error.to_string(), "not valid JSON at line 1, column 28");
}

proptest! {
    #[test]
    fn the_fields_are_removed_from_any_object(
        metadata in fields(), spec in fields(), order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
    ) {
        let mut metadata = metadata;
        metadata.insert("name".to_owned(), json!("web"));
        let parts = [
            ("kind", json!("Pod")),
            ("metadata", Value::from(metadata.clone())),
            ("spec", Value::from(spec)),
            ("x", json!({"x": [1]})),
        ];
        let parts: Vec<String> = order
            .iter()
            .map(|part| format!("{}:{}", Value::from(parts[*part].0), parts[*part].1))
            .collect();
        let json = format!("{{{}}}", parts.join(","));
        let trimmed = trimmed(&json).expect("an object");
        let mut left: Value = serde_json::from_str(&json).expect("JSON");
        left.as_object_mut().map(|object| object.remove("x"));
        left["metadata"].as_object_mut().map(|object| object.remove("managedFields"));
        prop_assert_eq!(serde_json::from_str::<Value>(trimmed.json()).expect("JSON"), left);
        prop_assert_eq!(trimmed.name(), "web");
        let version = metadata.get("resourceVersion").and_then(Value::as_str);
        prop_assert_eq!(trimmed.resource_version(), version);
        for end in 0..json.len() {
            prop_assert!(self::trimmed(json.get(..end).unwrap_or("{")).is_err(), "{}", &json[..end]);
        }
    }
}

fn fields() -> impl Strategy<Value = Map<String, Value>> {
    let name = prop_oneof![
        Just("managedFields".to_owned()),
        Just("resourceVersion".to_owned()),
        r#"[\\"{}a,é]{0,40}"#,
    ];
    let text = r#"[\\"{}a\[\],é]{0,60}"#;
    prop::collection::btree_map(name, text.prop_map(Value::from), 0..5)
        .prop_map(|fields| fields.into_iter().collect())
}

fn trimmed(json: &str) -> Result<TrimmedJson, DecodeError> {
    let trim = Trim::default().field(["x"]);
    trim.apply(RawJson::of(json.as_bytes()), "Pod")
}

fn identity(trimmed: &TrimmedJson) -> String {
    let version = trimmed.resource_version().unwrap_or_default();
    format!(
        "{} {} {version}",
        trimmed.key(),
        trimmed.uid().unwrap_or_default()
    )
}

#[track_caller]
fn check(json: &str, expected: &str) {
    let trim = Trim::nothing().field(["x"]).field(["m", "y"]);
    let (_, cuts) = find_cuts(RawJson::of(json.as_bytes()), &trim.root).expect(json);
    assert_eq!(left(json, &cuts), expected, "{json}");
}

fn left(json: &str, cuts: &Cuts) -> String {
    let mut left = json.to_owned();
    for cut in cuts.all().collect::<Vec<_>>().into_iter().rev() {
        left.replace_range(cut.clone(), "");
    }
    left
}
