//! Tests of the errors of values that violate their schema.

use serde_json::{Value, json};

use super::widget;
use crate::schema::Schema;

#[test]
fn a_value_of_another_type_is_reported_with_both_types() {
    check(
        &json!({"size": "string"}),
        &[
            r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
        ],
    );
    check(
        &json!({"size": 1, "color": 3}),
        &[
            r#"spec.color: Invalid value: "integer": spec.color in body must be of type string: "integer""#,
            r#"spec.color: Unsupported value: 3: supported values: "red", "blue""#,
        ],
    );
    check(
        &json!({"size": 1, "port": true}),
        &[
            r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
        ],
    );
    check(
        &json!({"size": null}),
        &[r#"spec.size: Invalid value: "null": spec.size in body must be of type integer: "null""#],
    );
    check(&json!({"size": 1, "port": "http", "note": null}), &[]);
    check(&json!({"size": 1.0, "port": 80, "ratio": 1.5}), &[]);
}

#[test]
fn a_value_of_another_type_is_reported_with_its_format() {
    check(
        &json!({"size": true}),
        &[r#"spec.size: Invalid value: "": spec.size in body must be of type int32: """#],
    );
    check(
        &json!({"size": 1, "since": "yesterday"}),
        &[
            r#"spec.since: Invalid value: "yesterday": spec.since in body must be of type date-time: "yesterday""#,
        ],
    );
}

#[test]
fn a_missing_field_is_required() {
    check(&json!({}), &["spec.size: Required value"]);
    let schema = Schema::compile(&widget()).expect("the schema is structural");
    let faults = schema.validate(&json!({"metadata": {}}), None);
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].to_string(), "spec: Required value");
    assert_eq!(faults[0].reason(), "FieldValueRequired");
}

#[test]
fn numbers_stay_within_their_limits() {
    check(
        &json!({"size": 0}),
        &["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"],
    );
    check(
        &json!({"size": 11}),
        &["spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"],
    );
    check(
        &json!({"size": 1, "ratio": 0.0}),
        &["spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"],
    );
    check(
        &json!({"size": 1, "ratio": 0.3}),
        &["spec.ratio: Invalid value: 0.3: spec.ratio in body should be a multiple of 0.5"],
    );
    // An integer is compared with the integer part of the factor, which is no factor.
    check(
        &json!({"size": 1, "ratio": 1}),
        &[
            "spec.ratio: Invalid value: 0: factor MultipleOf declared for spec.ratio must be positive: 0",
        ],
    );
    check(
        &json!({"size": 3_000_000_000_u64}),
        &[
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.size"#,
            "spec.size: Invalid value: 3000000000: spec.size in body should be less than or equal to 10",
        ],
    );
}

#[test]
fn strings_are_measured_then_matched() {
    check(
        &json!({"size": 1, "name": "a"}),
        &[r#"spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#],
    );
    check(
        &json!({"size": 1, "name": "abcdef"}),
        &["spec.name: Too long: may not be more than 5 bytes"],
    );
    check(
        &json!({"size": 1, "name": "A1"}),
        &[r#"spec.name: Invalid value: "A1": spec.name in body should match '^[a-z]+$'"#],
    );
    check(
        &json!({"size": 1, "color": "green"}),
        &[r#"spec.color: Unsupported value: "green": supported values: "red", "blue""#],
    );
}

#[test]
fn lists_and_maps_are_counted() {
    check(
        &json!({"size": 1, "tags": ["a", "b", "c"]}),
        &["spec.tags: Too many: 3: must have at most 2 items"],
    );
    check(
        &json!({"size": 1, "rules": []}),
        &["spec.rules: Invalid value: 0: spec.rules in body should have at least 1 items"],
    );
    check(
        &json!({"size": 1, "labels": {"a": "", "b": "", "c": ""}}),
        &["spec.labels: Too many: 3: must have at most 2 items"],
    );
    check(
        &json!({"size": 1, "labels": {"a": 1}}),
        &[
            r#"spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer""#,
        ],
    );
}

#[test]
fn sets_and_maps_hold_each_element_once() {
    check(
        &json!({"size": 1, "tags": ["a", "a"]}),
        &[r#"spec.tags[1]: Duplicate value: "a""#],
    );
    check(
        &json!({"size": 1, "rules": [
            {"name": "a", "port": 80}, {"name": "a", "port": 81}, {"name": "a", "port": 80},
        ]}),
        &[r#"spec.rules[2]: Duplicate value: {"name":"a","port":80}"#],
    );
}

#[test]
fn one_of_the_clauses_holds() {
    check(&json!({"size": 1, "either": {"a": "x"}}), &[]);
    check(
        &json!({"size": 1, "either": {"a": "x", "b": "y"}}),
        &[
            r#"<nil>: Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    check(
        &json!({"size": 1, "either": {}}),
        &[
            r#"<nil>: Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.either.a: Required value",
        ],
    );
}

#[test]
fn an_embedded_object_needs_api_version_and_kind() {
    check(
        &json!({"size": 1, "template": {"kind": 3}}),
        &[
            "spec.template.apiVersion: Required value",
            "spec.template.kind: Invalid value: 3: must be a string",
        ],
    );
    check(
        &json!({"size": 1, "template": {"apiVersion": "v1", "kind": "Pod"}}),
        &[],
    );
}

#[test]
fn the_status_is_validated_separately() {
    let schema = Schema::compile(&widget()).expect("the schema is structural");
    let faults = schema.validate_status(&json!({"spec": 3, "status": {"ready": "no"}}), None);
    let messages: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            r#"status.ready: Invalid value: "string": ready in body must be of type integer: "string""#
        ]
    );
    assert!(schema.validate_status(&json!({"spec": 3}), None).is_empty());
}

/// Validates a widget with this `spec`.
#[track_caller]
fn check(spec: &Value, messages: &[&str]) {
    let schema = Schema::compile(&widget()).expect("the schema is structural");
    let faults = schema.validate(&json!({"spec": spec}), None);
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, messages, "{spec}");
}
