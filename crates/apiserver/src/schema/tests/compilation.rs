//! Tests of the errors of invalid schemas.

use serde_json::{Value, json};

use crate::schema::Schema;

#[test]
fn every_schema_node_requires_a_type() {
    check(
        &json!({}),
        &["type: Required value: must not be empty at the root"],
    );
    check(
        &json!({"type": "string"}),
        &[r#"type: Invalid value: "string": must be object at the root"#],
    );
    check(
        &json!({"type": "object", "properties": {"spec": {}}}),
        &["properties[spec].type: Required value: must not be empty for specified object fields"],
    );
    check(
        &json!({"type": "object", "properties": {"spec": {"type": "array", "items": {}}}}),
        &[
            "properties[spec].items.type: Required value: must not be empty for specified array items",
        ],
    );
    check(
        &json!({"type": "object", "properties": {"spec": {"type": "array"}}}),
        &["properties[spec].items: Required value: must be specified"],
    );
    check(
        &json!({"type": "object", "properties": {"spec": {"type": "map"}}}),
        &[
            r#"properties[spec].type: Unsupported value: "map": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
}

#[test]
fn unknown_keywords_are_accepted_and_forbidden_ones_rejected() {
    check(&json!({"type": "object", "x-mine": 1, "example": {}}), &[]);
    check(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "$ref": "#/x"}}}),
        &["properties[spec].$ref: Forbidden: $ref is not supported"],
    );
    check(
        &json!({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true,
            "items": {"type": "string"}}}}),
        &[
            "properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    );
    check(
        &json!({"type": "object", "properties": {"a": {"type": "object",
            "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}),
        &[
            "properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ],
    );
    check(
        &json!({"type": 3}),
        &[
            "type: Invalid value: 3: must be a string",
            "type: Required value: must not be empty at the root",
        ],
    );
}

#[test]
fn clauses_contain_rules_and_no_types() {
    check(
        &json!({"type": "object", "properties": {"a": {"type": "string",
            "anyOf": [{"type": "string", "pattern": "^a"}, {"default": "x"}]}}}),
        &[
            "properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
            "properties[a].anyOf[1].default: Forbidden: must be undefined to be structural",
        ],
    );
    check(
        &json!({"type": "object", "anyOf": [{"properties": {"x": {"minLength": 1}}}]}),
        &["properties[x]: Required value: because it is defined in anyOf[0].properties[x]"],
    );
}

#[test]
fn integer_or_string_can_be_written_as_any_of() {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    check(
        &json!({"type": "object", "properties": {
            "a": {"x-kubernetes-int-or-string": true, "anyOf": either},
            "b": {"x-kubernetes-int-or-string": true,
                  "allOf": [{"anyOf": either}, {"pattern": "^a"}]},
        }}),
        &[],
    );
    check(
        &json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true,
            "oneOf": either}}}),
        &[
            "properties[a].oneOf[0].type: Forbidden: must be empty to be structural",
            "properties[a].oneOf[1].type: Forbidden: must be empty to be structural",
        ],
    );
}

#[test]
fn the_schema_of_metadata_is_restricted() {
    let named =
        json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}});
    check(
        &json!({"type": "object", "properties": {"metadata": named}}),
        &[],
    );
    check(
        &json!({"type": "object", "properties": {"metadata": {"type": "object",
            "properties": {"labels": {"type": "object"}}}}}),
        &[
            "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ],
    );
}

#[test]
fn lists_with_keys_have_them() {
    let items = json!({"type": "object", "properties": {"k": {"type": "string"}}});
    check(
        &json!({"type": "object", "properties": {"a": {"type": "array", "items": items,
            "x-kubernetes-list-type": "map"}}}),
        &[
            "properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ],
    );
    check(
        &json!({"type": "object", "properties": {"a": {"type": "array", "items": items,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}}),
        &[
            "properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    );
    check(
        &json!({"type": "object", "properties": {"a": {"type": "string",
            "x-kubernetes-list-type": "bag"}}}),
        &[
            r#"properties[a].type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
            r#"properties[a].x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#,
        ],
    );
}

#[test]
fn a_pattern_that_does_not_compile_is_a_fault() {
    check(
        &json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(a"}}}),
        &[
            r#"properties[a].pattern: Invalid value: "(a": must be a valid regular expression, but isn't: unclosed group"#,
        ],
    );
}

#[test]
fn a_default_is_a_valid_and_known_value() {
    check(
        &json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
        &[
            r#"properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ],
    );
    check(
        &json!({"type": "object", "properties": {"a": {"type": "object", "default": {"b": 1}}}}),
        &[r#"properties[a].default: Invalid value: {"b":1}: must not have unknown fields"#],
    );
}

#[test]
fn a_validation_requires_a_rule() {
    check(
        &json!({"type": "object", "x-kubernetes-validations": [{"message": "x"}]}),
        &["x-kubernetes-validations[0].rule: Required value: rule is not specified"],
    );
}

/// Rows of docs/apiserver.md: 108. The CRDs of the Gateway API are structural.
#[test]
fn the_crds_of_the_gateway_api_compile() {
    let crds = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/data/gateway-api/crds"
    );
    let Ok(files) = std::fs::read_dir(crds) else {
        // A published crate comes without the examples of its workspace.
        return;
    };
    let mut compiled = 0;
    for file in files {
        let path = file.expect("the directory is readable").path();
        let text = std::fs::read_to_string(&path).expect("the file is readable");
        for document in serde_yaml_ng::Deserializer::from_str(&text) {
            let object: Value = serde::Deserialize::deserialize(document).expect("it is YAML");
            if object["kind"] != "CustomResourceDefinition" {
                continue;
            }
            for version in object["spec"]["versions"].as_array().into_iter().flatten() {
                let schema = &version["schema"]["openAPIV3Schema"];
                Schema::compile(schema).unwrap_or_else(|faults| {
                    panic!("{} {}: {faults:?}", path.display(), version["name"])
                });
                compiled += 1;
            }
        }
    }
    assert!(compiled >= 10, "compiled {compiled}");
}

#[track_caller]
fn check(schema: &Value, expected: &[&str]) {
    let faults = Schema::compile(schema).err().unwrap_or_default();
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, expected, "{schema}");
}
