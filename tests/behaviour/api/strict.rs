//! The order of the fields in the error of a strict decoder.

use http::Method;
use serde_json::json;

use super::raw::Raw;
use super::widget::Widget;

on_both_servers! {
    /// docs/apiserver.md: row 82.
    async fn strict_errors_name_fields_in_the_order_of_the_body(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let refused = async |path: &str, body: &str| {
            let strict = format!("{path}?fieldValidation=Strict");
            let json = [("content-type", "application/json")];
            let message = raw.ask(Method::POST, &strict, &json, body).await.refused(400, "BadRequest");
            let (_, fields) = message.split_once(": strict decoding error: ").expect(&message);
            fields.replace(" field ", " ").replace('"', "")
        };
        let pods = raw.at("/api/v1", "pods");
        for (path, body, fields) in [
            (
                raw.maps(),
                r#"{"metadata":{"name":"a"},"extra":1,"data":{"a":"1"},"data":{"a":"2"}}"#,
                "unknown extra, duplicate data",
            ),
            (
                raw.maps(),
                r#"{"metadata":{"name":"a"},"data":{"a":"1"},"data":{"a":"2"},"extra":1}"#,
                "duplicate data, unknown extra",
            ),
            (
                raw.maps(),
                r#"{"z":1,"metadata":{"z":1,"name":"a","name":"b","a":1},"data":{"a":"1","a":"2"},"e":1,"z":2}"#,
                "unknown z, unknown metadata.z, duplicate metadata.name, unknown metadata.a, duplicate data.a, unknown e",
            ),
            (
                pods,
                r#"{"metadata":{"name":"a"},"z":1,"spec":{"y":1,"containers":[{"name":"a","b":1},
                    {"name":"x","name":"y","a":1}],"b":1},"a":1,"metadata":{"q":1}}"#,
                "unknown z, unknown spec.y, unknown spec.containers[0].b, duplicate spec.containers[1].name, \
                    unknown spec.containers[1].a, unknown spec.b, unknown a, duplicate metadata, unknown metadata.q",
            ),
        ] {
            assert_eq!(refused(&path, body).await, fields, "{body}");
        }
        // Duplicate fields of a custom resource are found before its schema is known.
        let schema = json!({
            "type": "object",
            "properties": {
                "alpha": { "type": "string" },
                "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            },
        });
        let widgets = Widget::with_schema(&raw, &schema).await;
        let head = format!(r#"{{"apiVersion":"{}/v1","kind":"Widget","#, widgets.group);
        for (body, fields) in [
            (
                r#""metadata":{"name":"a","z":1,"b":2},"z":1,"spec":{"m":"1","m":"2"},"e":1,"alpha":"1","alpha":"2"}"#,
                "duplicate spec.m, duplicate alpha, unknown metadata.b, unknown metadata.z, unknown e, unknown z",
            ),
            (
                r#""metadata":{"name":"a"},"spec":{"x":{"q":1,"q":2},"x":{"r":1,"r":2}},"spec":{"b":"1","b":"2"}}"#,
                "duplicate spec.x.q, duplicate spec.x, duplicate spec.x.r, duplicate spec, duplicate spec.b",
            ),
        ] {
            assert_eq!(refused(&widgets.all(), &format!("{head}{body}")).await, fields, "{body}");
        }
    }
}
