//! What a schema does to objects, as tables of schema, object and outcome.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Schema;

/// A schema with a bit of everything.
fn widget() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
                    "ratio": {"type": "number", "exclusiveMinimum": true, "minimum": 0, "multipleOf": 0.5},
                    "port": {"x-kubernetes-int-or-string": true},
                    "since": {"type": "string", "format": "date-time"},
                    "note": {"type": "string", "nullable": true},
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 2,
                             "items": {"type": "string"}},
                    "rules": {
                        "type": "array", "minItems": 1,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name", "port"],
                        "items": {
                            "type": "object", "required": ["name"],
                            "properties": {
                                "name": {"type": "string"},
                                "port": {"type": "integer", "default": 80},
                            },
                        },
                    },
                    "labels": {"type": "object", "maxProperties": 2,
                               "additionalProperties": {"type": "string"}},
                    "nested": {
                        "type": "object", "default": {},
                        "properties": {"deep": {"type": "boolean", "default": true}},
                    },
                    "either": {
                        "type": "object",
                        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                             "properties": {"known": {"type": "object", "properties": {}}}},
                    "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                                 "x-kubernetes-preserve-unknown-fields": true},
                },
                "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "grow"}],
            },
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
    })
}

mod validation {
    use super::*;

    #[test]
    fn a_value_of_another_type_is_told_with_both_types() {
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
            &[
                r#"spec.size: Invalid value: "null": spec.size in body must be of type integer: "null""#,
            ],
        );
        check(&json!({"size": 1, "port": "http", "note": null}), &[]);
        check(&json!({"size": 1.0, "port": 80, "ratio": 1}), &[]);
    }

    #[test]
    fn a_value_of_another_type_is_told_by_its_format_if_there_is_one() {
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
        let faults = schema.validate(&json!({"metadata": {}}));
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].to_string(), "spec: Required value");
        assert_eq!(faults[0].reason(), "FieldValueRequired");
    }

    #[test]
    fn numbers_stay_within_their_limits() {
        check(
            &json!({"size": 0}),
            &[
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            ],
        );
        check(
            &json!({"size": 11}),
            &["spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"],
        );
        check(
            &json!({"size": 1, "ratio": 0}),
            &["spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"],
        );
        check(
            &json!({"size": 1, "ratio": 0.3}),
            &["spec.ratio: Invalid value: 0.3: spec.ratio in body should be a multiple of 0.5"],
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
            &[
                r#"spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#,
            ],
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
    fn an_embedded_object_says_what_it_is() {
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
    fn the_status_is_validated_by_itself() {
        let schema = Schema::compile(&widget()).expect("the schema is structural");
        let faults = schema.validate_status(&json!({"spec": 3, "status": {"ready": "no"}}));
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                r#"status.ready: Invalid value: "string": ready in body must be of type integer: "string""#
            ]
        );
        assert!(schema.validate_status(&json!({"spec": 3})).is_empty());
    }

    /// Validates a widget with this `spec`.
    #[track_caller]
    fn check(spec: &Value, told: &[&str]) {
        let schema = Schema::compile(&widget()).expect("the schema is structural");
        let faults = schema.validate(&json!({"spec": spec}));
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults, told, "{spec}");
    }
}

mod compilation {
    use super::*;

    #[test]
    fn every_place_has_a_type() {
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
            &[
                "properties[spec].type: Required value: must not be empty for specified object fields",
            ],
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
    fn keywords_of_others_are_tolerated_and_forbidden_ones_are_not() {
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
    fn clauses_say_rules_and_not_shapes() {
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
            &[&format!(
                "properties[x]: Required value: because it is defined in anyOf[0].properties[x]"
            )],
        );
    }

    #[test]
    fn integer_or_string_may_be_spelled_out() {
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
    fn metadata_is_left_to_kubernetes() {
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
    fn rules_in_cel_are_kept() {
        let schema = Schema::compile(&widget()).expect("the schema is structural");
        assert_eq!(schema.expressions(), 1);
        check(
            &json!({"type": "object", "x-kubernetes-validations": [{"message": "x"}]}),
            &["x-kubernetes-validations[0].rule: Required value: rule is not specified"],
        );
    }

    /// Rows of apiserver.md: 108. The CRDs of the Gateway API are structural.
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
    fn check(schema: &Value, told: &[&str]) {
        let faults = Schema::compile(schema).err().unwrap_or_default();
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults, told, "{schema}");
    }
}

mod pruning {
    use super::*;

    #[test]
    fn unknown_fields_go_and_their_paths_are_told() {
        check(
            &json!({"apiVersion": "x/v1", "kind": "Widget", "metadata": {"any": {"thing": 1}},
                    "extra": 1, "spec": {"size": 1, "shape": {"deep": 1},
                    "rules": [{"name": "a", "color": "red"}], "labels": {"a": "b"}}}),
            &json!({"apiVersion": "x/v1", "kind": "Widget", "metadata": {"any": {"thing": 1}},
                    "spec": {"size": 1, "rules": [{"name": "a"}], "labels": {"a": "b"}}}),
            &["extra", "spec.rules[0].color", "spec.shape"],
        );
    }

    #[test]
    fn what_is_open_keeps_what_is_unknown_but_not_below_what_is_known() {
        check(
            &json!({"spec": {"free": {"any": {"thing": [1]}, "known": {"gone": 1}}}}),
            &json!({"spec": {"free": {"any": {"thing": [1]}, "known": {}}}}),
            &["spec.free.known.gone"],
        );
        let pod = json!({"spec": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}}});
        check(&pod, &pod, &[]);
    }

    #[track_caller]
    fn check(object: &Value, pruned: &Value, told: &[&str]) {
        let schema = Schema::compile(&widget()).expect("the schema is structural");
        let mut object = object.clone();
        assert_eq!(schema.prune(&mut object), told);
        assert_eq!(object, *pruned);
        assert!(
            schema.prune(&mut object).is_empty(),
            "pruning twice does no more"
        );
    }
}

mod defaulting {
    use super::*;

    #[test]
    fn what_is_missing_comes() {
        check(
            &json!({}),
            &json!({"color": "red", "nested": {"deep": true}}),
        );
        check(
            &json!({"color": "blue", "nested": {"deep": false}}),
            &json!({"color": "blue", "nested": {"deep": false}}),
        );
        check(
            &json!({"rules": [{"name": "a"}], "color": "blue", "nested": {}}),
            &json!({"rules": [{"name": "a", "port": 80}], "color": "blue", "nested": {"deep": true}}),
        );
    }

    #[test]
    fn null_is_a_value_only_where_it_is_allowed() {
        check(
            &json!({"color": null, "note": null, "size": null, "nested": null}),
            &json!({"color": "red", "note": null, "nested": {"deep": true}}),
        );
    }

    #[track_caller]
    fn check(spec: &Value, filled: &Value) {
        let schema = Schema::compile(&widget()).expect("the schema is structural");
        let mut object = json!({"spec": spec});
        schema.default(&mut object);
        assert_eq!(object["spec"], *filled);
    }
}

/// Any JSON, with field names that the widget knows more often than not.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..20).prop_map(Value::from),
        (-2.0..2.0_f64).prop_map(Value::from),
        prop_oneof![
            Just("red"),
            Just("abc"),
            Just(""),
            Just("2024-01-02T03:04:05Z")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_name(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "spec", "size", "color", "name", "ratio", "port", "note", "tags", "rules", "labels",
        "nested", "deep", "either", "a", "b", "free", "known", "template", "metadata", "kind",
        "unknown",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn pruning_is_idempotent(spec in any_value()) {
        let schema = Schema::compile(&widget()).expect("the schema is structural");
        let mut once = json!({"spec": spec});
        schema.prune(&mut once);
        let mut twice = once.clone();
        let dropped = schema.prune(&mut twice);
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(dropped, Vec::<String>::new());
    }

    #[test]
    fn defaulting_is_idempotent(spec in any_value()) {
        let schema = Schema::compile(&widget()).expect("the schema is structural");
        let mut once = json!({"spec": spec});
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_valid_object_stays_valid_when_it_is_pruned_and_defaulted(spec in any_value()) {
        let schema = Schema::compile(&widget()).expect("the schema is structural");
        let mut object = json!({"spec": spec});
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        // Without this, hardly any random object would be valid.
        object["spec"]["size"] = 1.into();
        schema.prune(&mut object);
        if schema.validate(&object).is_empty() {
            schema.default(&mut object);
            prop_assert_eq!(schema.validate(&object), vec![]);
        }
    }

    #[test]
    fn no_schema_makes_the_compiler_panic(schema in any_value()) {
        let _ = Schema::compile(&json!({"type": "object", "properties": schema}));
    }
}
