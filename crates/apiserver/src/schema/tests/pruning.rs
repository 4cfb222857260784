//! Tests of pruning.

use serde_json::{Value, json};

use super::widget;
use crate::schema::Schema;

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
