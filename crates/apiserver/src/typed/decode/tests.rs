//! The errors of wrong types, unknown fields, and bad base64 equal those of Go.

use serde_json::{Value, json};

use super::super::table::{kind, kinds};
use super::bytes::first_bad_byte;
use super::decode;

#[track_caller]
fn refused(name: &str, object: Value) -> String {
    let mut object = object;
    let found = kind("v1", name).expect("a kind");
    decode(found, &mut object).expect_err("it has a wrong type")
}

#[test]
fn the_error_of_a_wrong_type_equals_that_of_go() {
    let container =
        |field: &str, value: Value| json!({ "spec": { "containers": [{ field: value }] } });
    for (object, expected) in [
        (
            json!({ "spec": 7 }),
            "number into Go struct field Pod.spec of type v1.PodSpec",
        ),
        (
            container("env", json!([{ "value": 1 }])),
            "number into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (
            container("resources", json!({ "limits": [] })),
            "array into Go struct field ResourceRequirements.spec.containers.resources.limits \
             of type v1.ResourceList",
        ),
        (
            container("livenessProbe", json!({ "grpc": { "port": "x" } })),
            "string into Go struct field \
             GRPCAction.spec.containers.livenessProbe.ProbeHandler.grpc.port of type int32",
        ),
        (
            json!({ "metadata": { "labels": { "a": 1 } } }),
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
    ] {
        assert_eq!(
            refused("Pod", object),
            format!("json: cannot unmarshal {expected}")
        );
    }
    // The labels of the template become the labels of the job as well. The error names the
    // template.
    let template = json!({ "metadata": { "labels": { "a": 1 } }, "spec": {} });
    let mut job = json!({ "metadata": {}, "spec": { "template": template } });
    let found = kind("batch/v1", "Job").expect("a kind");
    assert_eq!(
        decode(found, &mut job).expect_err("it has a wrong type"),
        "json: cannot unmarshal number into Go struct field \
         ObjectMeta.spec.template.metadata.labels of type string"
    );
    assert_eq!(
        refused("Secret", json!({ "data": { "a": "%%" } })),
        "illegal base64 data at input byte 0"
    );
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let mut object = json!({ "x": 1, "spec": { "containers": [{ "name": "a", "y": null }] } });
    let pod = kind("v1", "Pod").expect("a kind");
    let dropped = decode(pod, &mut object).expect("its fields have the right types");
    assert_eq!(dropped, ["spec.containers[0].y", "x"]);
    assert_eq!(object.get("x"), None);
    assert_eq!(object["spec"]["containers"][0].get("y"), None);
}

#[test]
fn decoding_is_idempotent() {
    for (version, name) in kinds() {
        let found = kind(version, name).expect("a kind");
        let mut object =
            json!({ "metadata": { "name": "a" }, "spec": {}, "data": {}, "status": {} });
        if decode(found, &mut object).is_err() {
            continue;
        }
        let mut again = object.clone();
        let dropped = decode(found, &mut again).expect("it has been decoded before");
        assert_eq!((again, dropped), (object, Vec::new()), "{version} {name}");
    }
}

#[test]
fn the_position_of_bad_base64_equals_that_of_go() {
    for (text, at) in [
        ("%%", 0),
        ("YWJj=A", 4),
        ("YWJ", 0),
        ("YWJjY", 4),
        ("YQ=A", 2),
        ("YQ=", 3),
    ] {
        assert_eq!(first_bad_byte(text.as_bytes()), at, "{text}");
    }
}
