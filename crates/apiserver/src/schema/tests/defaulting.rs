//! Tests of defaults.

use serde_json::{Value, json};

use super::widget;
use crate::schema::Schema;

#[test]
fn missing_fields_get_their_defaults() {
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
fn null_is_accepted_only_if_nullable() {
    check(
        &json!({"color": null, "note": null, "size": null, "nested": null}),
        &json!({"color": "red", "note": null, "nested": {"deep": true}}),
    );
}

#[track_caller]
fn check(spec: &Value, filled: &Value) {
    let schema = Schema::compile(&widget()).expect("the schema is structural");
    let mut object = json!({"spec": spec});
    schema.default(&mut object).expect("small defaults");
    assert_eq!(object["spec"], *filled);
}
