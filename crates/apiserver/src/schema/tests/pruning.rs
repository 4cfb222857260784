//! Tests of pruning.

use serde_json::{Value, json};

use super::widget;
use crate::schema::Schema;

#[test]
fn unknown_fields_are_dropped_and_their_paths_returned() {
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
fn open_objects_keep_unknown_fields_except_below_known_ones() {
    check(
        &json!({"spec": {"free": {"any": {"thing": [1]}, "known": {"gone": 1}}}}),
        &json!({"spec": {"free": {"any": {"thing": [1]}, "known": {}}}}),
        &["spec.free.known.gone"],
    );
    let pod = json!({"spec": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}}});
    check(&pod, &pod, &[]);
}

#[track_caller]
fn check(object: &Value, pruned: &Value, expected: &[&str]) {
    let schema = Schema::compile(&widget()).expect("the schema is structural");
    let mut object = object.clone();
    assert_eq!(schema.prune(&mut object), expected);
    assert_eq!(object, *pruned);
    assert!(
        schema.prune(&mut object).is_empty(),
        "pruning twice does no more"
    );
}
