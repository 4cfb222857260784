//! Tables of schema, object and outcome: validation, defaults and pruning.

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

mod validation;

mod compilation;

mod pruning;

mod defaulting;

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
        schema.default(&mut once).expect("small defaults");
        let mut twice = once.clone();
        schema.default(&mut twice).expect("small defaults");
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
        if schema.validate(&object, None).is_empty() {
            schema.default(&mut object).expect("small defaults");
            prop_assert_eq!(schema.validate(&object, None), vec![]);
        }
    }

    #[test]
    fn no_schema_makes_the_compiler_panic(schema in any_value()) {
        let _ = Schema::compile(&json!({"type": "object", "properties": schema}));
    }
}
