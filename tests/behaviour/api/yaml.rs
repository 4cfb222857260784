//! Bodies in YAML, which the real server reads as YAML 1.1.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use super::raw::{Answer, Raw};
use super::widget::Widget;

/// Scalars, and the values that a custom resource has after a create with them.
fn scalars() -> Vec<(&'static str, Value)> {
    vec![
        ("yes", true.into()),
        ("Yes", true.into()),
        ("YES", true.into()),
        ("yEs", "yEs".into()),
        ("no", false.into()),
        ("on", true.into()),
        ("Off", false.into()),
        ("y", true.into()),
        ("N", false.into()),
        ("TRUE", true.into()),
        ("tRue", "tRue".into()),
        ("~", Value::Null),
        ("Null", Value::Null),
        ("nULL", "nULL".into()),
        ("014", 12.into()),
        ("-014", (-12).into()),
        ("0o14", 12.into()),
        ("08", 8.into()),
        ("09.5", json!(9.5)),
        ("0b11", 3.into()),
        ("-0b11", (-3).into()),
        ("0b2", "0b2".into()),
        ("0x1F", 31.into()),
        ("0xG", "0xG".into()),
        ("1_000", 1000.into()),
        ("_1", "_1".into()),
        ("1_", 1.into()),
        ("+1", 1.into()),
        ("+-1", "+-1".into()),
        ("1.", 1.into()),
        (".5", json!(0.5)),
        (".5_0", json!(0.5)),
        ("._5", "._5".into()),
        ("+.5", json!(0.5)),
        (".", ".".into()),
        ("1e3", 1000.into()),
        ("1.5e-3", json!(0.0015)),
        ("1e400", "1e400".into()),
        ("1.0", 1.into()),
        ("-0.0", 0.into()),
        ("1:30", "1:30".into()),
        ("2001-12-14", "2001-12-14".into()),
        ("2001-12-14T21:59:43Z", "2001-12-14T21:59:43Z".into()),
        ("=", "=".into()),
        ("<<", "<<".into()),
        ("infinity", "infinity".into()),
        ("9223372036854775807", i64::MAX.into()),
        ("-9223372036854775808", i64::MIN.into()),
        ("1e18", 1_000_000_000_000_000_000_i64.into()),
        ("'yes'", "yes".into()),
        ("\"014\"", "014".into()),
        ("''", "".into()),
        ("!!str yes", "yes".into()),
        ("!!str", "".into()),
        ("!!int '12'", 12.into()),
        ("!!bool 'on'", true.into()),
        ("!!float 3", 3.into()),
        ("!!null ''", Value::Null),
        ("!!binary aGk=", "hi".into()),
        ("!!timestamp 2001-12-14", "2001-12-14".into()),
        ("! 12", "12".into()),
        ("!local 12", "12".into()),
        ("|\n    yes", "yes".into()),
        ("&anchor yes", true.into()),
        ("{1: a}", json!({ "1": "a" })),
        ("{yes: a}", json!({ "true": "a" })),
        ("{1.50: a}", json!({ "1.5": "a" })),
        ("{1e6: a}", json!({ "1e+06": "a" })),
        ("{.inf: a}", json!({ ".inf": "a" })),
        ("{0x10: a}", json!({ "16": "a" })),
        ("{'014': a}", json!({ "014": "a" })),
        ("{<<: {a: 1, b: 2}, b: 3}", json!({ "a": 1, "b": 3 })),
        ("{b: 3, <<: {a: 1, b: 2}}", json!({ "a": 1, "b": 2 })),
        ("{<<: [{a: 1}, {a: 2, b: 2}]}", json!({ "a": 1, "b": 2 })),
        ("{'<<': {a: 1}}", json!({ "<<": { "a": 1 } })),
    ]
}

/// Scalars and keys that are errors, and the messages that are the same on both servers.
const WRONG: &[(&str, &str)] = &[
    (".inf", "json: unsupported value: +Inf"),
    ("-.Inf", "json: unsupported value: -Inf"),
    (".nan", "json: unsupported value: NaN"),
    ("!!int yes", "yaml: cannot decode !!bool `yes` as a !!int"),
    ("!!bool 1", "yaml: cannot decode !!int `1` as a !!bool"),
    ("!!float x", "yaml: cannot decode !!str `x` as a !!float"),
    ("!!null x", "yaml: cannot decode !!str `x` as a !!null"),
    (
        "!!binary =",
        "yaml: !!binary value contains invalid base64 data",
    ),
    (
        "!!timestamp 2001-02-30",
        "yaml: cannot decode !!str `2001-02-30` as a !!timestamp",
    ),
    ("*unknown", ""),
    ("{null: a}", ""),
    ("{~: a}", ""),
    ("{[a]: b}", ""),
    ("{18446744073709551615: a}", ""),
    (
        "{<<: 1}",
        "yaml: map merge requires map or sequence of maps as the value",
    ),
    (
        "{<<: [1]}",
        "yaml: map merge requires map or sequence of maps as the value",
    ),
    ("\"\\ud83d\\ude00\"", ""),
    ("\"\\/\"", "yaml: line 6: found unknown escape character"),
    ("\u{7}", "yaml: control characters are not allowed"),
];

/// A kind whose `spec` has any fields.
async fn free_widget(raw: &Raw) -> Widget<'_> {
    let spec = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Widget::served(raw, &spec).await
}

fn widget_yaml(widget: &Widget<'_>, name: &str, scalar: &str) -> String {
    let group = &widget.group;
    format!("apiVersion: {group}/v1\nkind: Widget\nmetadata:\n  name: {name}\nspec:\n  a: {scalar}")
}

async fn create(raw: &Raw, path: &str, yaml: &str) -> Answer {
    let headers = [("content-type", "application/yaml")];
    raw.ask(Method::POST, path, &headers, yaml).await
}

async fn apply(raw: &Raw, path: &str, yaml: &str) -> Answer {
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{path}?fieldManager=test");
    raw.ask(Method::PATCH, &path, &headers, yaml).await
}

on_both_servers! {
    /// docs/apiserver.md: row 22.
    async fn scalars_have_the_types_of_yaml_1_1(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = free_widget(&raw).await;
        let path = widget.all();
        let (mut expected, mut actual) = (BTreeMap::new(), BTreeMap::new());
        for (number, (scalar, value)) in scalars().into_iter().enumerate() {
            expected.insert(scalar, (value.clone(), value));
            let name = format!("c{number}");
            let created = create(&raw, &path, &widget_yaml(&widget, &name, scalar)).await;
            let name = format!("a{number}");
            let text = widget_yaml(&widget, &name, scalar);
            let applied = apply(&raw, &format!("{path}/{name}"), &text).await;
            let value = |answer: &Answer| match answer.code {
                201 => answer.body["spec"]["a"].clone(),
                code => format!("{code} {}", answer.body["message"]).into(),
            };
            actual.insert(scalar, (value(&created), value(&applied)));
        }
        for (scalar, values) in &actual {
            assert_eq!(values, &expected[scalar], "{scalar}");
        }
    }

    /// docs/apiserver.md: row 22.
    async fn scalars_without_a_value_in_json_are_errors(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = free_widget(&raw).await;
        for (scalar, message) in WRONG {
            let text = widget_yaml(&widget, "a", scalar);
            let created = create(&raw, &widget.all(), &text).await;
            let applied = apply(&raw, &format!("{}/a", widget.all()), &text).await;
            created.refused(400, "BadRequest");
            let refused = applied.refused(400, "BadRequest");
            let prefix = "error decoding YAML: error converting YAML to JSON: ";
            let why = refused.strip_prefix(prefix).expect("the prefix of an apply");
            assert!(message.is_empty() || why == *message, "{scalar}: {why}");
        }
    }

    /// docs/apiserver.md: row 22.
    async fn scalars_must_have_the_type_of_their_field(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (number, (entry, data, expected)) in [
            ("a: 2001-12-14", json!({ "a": "2001-12-14" }), ""),
            ("a: '014'", json!({ "a": "014" }), ""),
            ("a: 1.2.3", json!({ "a": "1.2.3" }), ""),
            ("a: ~", json!({ "a": "" }), ""),
            ("1: 'a'", json!({ "1": "a" }), ""),
            ("yes: b", json!({ "true": "b" }), ""),
            ("1.50: c", json!({ "1.5": "c" }), ""),
            ("a: !!str 12", json!({ "a": "12" }), ""),
            ("a: !!binary aGk=", json!({ "a": "hi" }), ""),
            ("a: |\n    b", json!({ "a": "b" }), ""),
            ("a: |\n    b\n", json!({ "a": "b\n" }), ""),
            ("a: yes", json!("bool"), "true"),
            ("a: 014", json!("number"), "12"),
            ("a: 1.5", json!("number"), "1.5"),
            ("a: 1.0", json!("number"), "1"),
            ("a: [b]", json!("array"), r#"[]interface {}{"b"}"#),
        ].into_iter().enumerate() {
            let text = format!("metadata:\n  name: c{number}\ndata:\n  {entry}");
            let created = create(&raw, &raw.maps(), &text).await;
            let name = format!("a{number}");
            let text = text.replace(&format!("c{number}"), &name);
            let text = format!("apiVersion: v1\nkind: ConfigMap\n{text}");
            let applied = apply(&raw, &format!("{}/{name}", raw.maps()), &text).await;
            if expected.is_empty() {
                assert_eq!((&created.ok()["data"], &applied.ok()["data"]), (&data, &data), "{entry}");
                continue;
            }
            let wrong_type = data.as_str().expect("a type");
            assert_eq!(created.code, 400);
            assert_eq!(created.body["message"], format!(
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal \
                 {wrong_type} into Go struct field ConfigMap.data of type string"
            ));
            assert_eq!(applied.code, 500);
            assert_eq!(applied.body["message"], format!(
                "failed to create typed patch object (/{name}; /v1, Kind=ConfigMap): .data.a: expected \
                 string, got &value.valueUnstructured{{Value:{expected}}}"
            ));
        }
    }

    /// docs/apiserver.md: row 22.
    async fn only_the_first_document_is_read(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (number, text) in [
            "metadata: {name: NAME}\n---\nmetadata: {name: other}",
            "metadata: {name: NAME}\n---\n[",
            "---\nmetadata: {name: NAME}\n...\n",
            "# a comment\n--- # another\nmetadata: {name: NAME} # the last one",
            "%YAML 1.1\n---\nmetadata: {name: NAME}",
        ].into_iter().enumerate() {
            let name = format!("a{number}");
            let created = create(&raw, &raw.maps(), &text.replace("NAME", &name)).await.ok();
            assert_eq!(created["metadata"]["name"], name.as_str(), "{text}");
        }
        for (text, create_code, apply_message) in [
            ("", 422, "invalid object type: /, Kind="),
            ("# a comment", 422, "invalid object type: /, Kind="),
            ("~", 422, "invalid object type: /, Kind="),
            ("a", 400, "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: \
                cannot unmarshal string into Go value of type map[string]interface {}"),
            ("[a]", 400, "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: \
                cannot unmarshal array into Go value of type map[string]interface {}"),
            ("%YAML 1.2\n---\nmetadata: {name: a}", 400, "error decoding YAML: error converting \
                YAML to JSON: yaml: found incompatible YAML document"),
        ] {
            let created = create(&raw, &raw.maps(), text).await;
            let applied = apply(&raw, &format!("{}/a", raw.maps()), text).await;
            assert_eq!((created.code, applied.code), (create_code, 400), "{text}");
            assert_eq!(applied.body["message"], apply_message, "{text}");
        }
    }

    /// docs/apiserver.md: rows 22, 82, 84.
    async fn a_conflict_is_reported_before_duplicate_keys(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n";
        apply(&raw, &path, text).await.ok();
        let headers = [("content-type", "application/apply-patch+yaml")];
        let path = format!("{path}?fieldManager=other&fieldValidation=Strict");
        let other = text.replace("a: b", "a: c, b: d, b: d");
        raw.ask(Method::PATCH, &path, &headers, &other).await.refused(409, "Conflict");
        let undeclared = format!("{text}x: 1\nx: 2\n");
        let undeclared = raw.ask(Method::PATCH, &path, &headers, &undeclared).await;
        assert_eq!(undeclared.code, 500, "{}", undeclared.text);
        let twice = text.replace("a: b", "b: d, b: d");
        raw.ask(Method::PATCH, &path, &headers, &twice).await.refused(400, "BadRequest");
    }

    /// docs/apiserver.md: rows 22, 82.
    async fn duplicate_keys_are_reported_with_their_lines(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let head = "apiVersion: v1\nkind: ConfigMap\n";
        for (number, (text, lines)) in [
            ("metadata: {name: NAME, labels: {a: b, a: c}}", vec![r#"line 3: key "a" already set in map"#]),
            ("metadata: {name: NAME}\nmetadata: {name: NAME, labels: {a: c}}",
                vec![r#"line 4: key "metadata" already set in map"#]),
            ("metadata:\n  name: NAME\n  labels: &x {a: c}\n  annotations: {<<: *x, a: d}",
                vec![r#"line 6: key "a" already set in map"#]),
            ("metadata:\n  name: NAME\n  labels:\n    a: b\n    a:\n      c\n    a: |-\n      c\n",
                vec![r#"line 8: key "a" already set in map"#, r#"line 9: key "a" already set in map"#]),
            ("metadata: {name: NAME, labels: {a: c, 1: b, '1': b}}", Vec::new()),
        ].into_iter().enumerate() {
            let name = format!("a{number}");
            let text = format!("{head}{}", text.replace("NAME", &name));
            for validation in ["Ignore", "Warn", "Strict"] {
                let options = format!("dryRun=All&fieldValidation={validation}");
                let created = create(&raw, &format!("{}?{options}", raw.maps()), &text).await;
                let path = format!("{}/{name}?{options}&fieldManager=test", raw.maps());
                let headers = [("content-type", "application/apply-patch+yaml")];
                let applied = raw.ask(Method::PATCH, &path, &headers, &text).await;
                let report = format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "));
                for (answer, prefix) in [
                    (created, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict \
                        decoding error: "),
                    (applied, "error strict decoding YAML: error converting YAML to JSON: "),
                ] {
                    if validation == "Strict" && !lines.is_empty() {
                        assert_eq!(answer.refused(400, "BadRequest"), format!("{prefix}{report}"));
                        continue;
                    }
                    let warnings = if validation == "Warn" { lines.as_slice() } else { &[] };
                    let warning = |line: &&str| format!("299 - \"{}\"", line.replace('"', "\\\""));
                    let warnings: Vec<_> = warnings.iter().map(warning).collect();
                    assert_eq!(answer.warnings, warnings, "{text}");
                    assert_eq!(answer.ok()["metadata"]["labels"]["a"], "c", "{text}");
                }
            }
        }
    }
}
