//! The bodies of random requests, right and wrong ones.

use rand::Rng as _;
use serde_json::{Value, json};

use super::generator::Generator;
use super::options::{APPLY, JSON_PATCH};

// === impl Generator ===

impl Generator<'_> {
    /// The object that a subresource takes.
    pub(super) fn part(&mut self, object: Value, subresource: &str) -> Value {
        let metadata = json!({ "name": "@NAME@" });
        match subresource {
            "scale" => json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
                "spec": { "replicas": self.pick(&[json!(2), json!(0), json!(-1), json!("x"), Value::Null]) },
            }),
            "binding" => json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
                "target": self.pick(&[json!({ "kind": "Node", "name": "n" }), json!({ "name": "n" }), json!({}), json!({ "kind": "Pod", "name": "n" })]),
            }),
            "eviction" => json!({
                "apiVersion": self.pick(&["policy/v1", "policy/v1", "policy/v1beta1", "v1"]), "kind": "Eviction", "metadata": metadata,
                "deleteOptions": self.pick(&[Value::Null, json!({}), json!({ "gracePeriodSeconds": 0 }), json!({ "dryRun": ["All"] }), json!({ "dryRun": ["x"] }), json!({ "propagationPolicy": "x" })]),
            }),
            "token" => json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": self.pick(&[json!({}), metadata.clone(), json!({ "name": "x" })]),
                "spec": self.pick(&[json!({}), json!({ "audiences": ["a"] }), json!({ "expirationSeconds": 600 }), json!({ "expirationSeconds": 1 }), json!({ "audiences": [""] })]),
            }),
            "status" => {
                let mut object = object;
                object["status"] = self.pick(&[
                    json!({}),
                    Value::Null,
                    json!({ "replicas": 1 }),
                    json!({ "phase": "Running" }),
                    json!([]),
                    json!("x"),
                    json!({ "unknown": 1 }),
                    json!({ "conditions": [] }),
                ]);
                object
            }
            "approval" => {
                let mut object = object;
                object["status"] = json!({ "conditions": [{
                    "type": self.pick(&["Approved", "Denied", "Failed", "x", ""]),
                    "status": self.pick(&["True", "False", "x", ""]),
                }] });
                object
            }
            "ephemeralcontainers" => {
                let mut object = object;
                object["spec"]["ephemeralContainers"] = self.pick(&[
                    json!([{ "name": "debug", "image": "a" }]),
                    json!([]),
                    json!([{ "name": "" }]),
                    json!([{ "name": "debug" }]),
                    Value::Null,
                ]);
                object
            }
            "finalize" => {
                let mut object = object;
                object["spec"]["finalizers"] = self.pick(&[
                    json!(["kubernetes"]),
                    json!([]),
                    json!(["x"]),
                    json!(["x.io/y"]),
                    Value::Null,
                ]);
                object
            }
            _ => object,
        }
    }

    /// The options of a deletion as a body.
    pub(super) fn deletion(&mut self) -> String {
        let choices = [
            "{}",
            r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#,
            "null",
            "[]",
            "1",
            "\"x\"",
            "{",
            "",
            "x: y",
            " ",
            r#"{"gracePeriodSeconds":0}"#,
            r#"{"gracePeriodSeconds":-1}"#,
            r#"{"gracePeriodSeconds":"1"}"#,
            r#"{"gracePeriodSeconds":1.5}"#,
            r#"{"gracePeriodSeconds":null}"#,
            r#"{"propagationPolicy":"Foreground"}"#,
            r#"{"propagationPolicy":"Orphan"}"#,
            r#"{"propagationPolicy":"x"}"#,
            r#"{"propagationPolicy":""}"#,
            r#"{"propagationPolicy":null}"#,
            r#"{"orphanDependents":true}"#,
            r#"{"orphanDependents":false}"#,
            r#"{"orphanDependents":true,"propagationPolicy":"Background"}"#,
            r#"{"orphanDependents":"x"}"#,
            r#"{"dryRun":["All"]}"#,
            r#"{"dryRun":[]}"#,
            r#"{"dryRun":["x"]}"#,
            r#"{"dryRun":["All","All"]}"#,
            r#"{"dryRun":"All"}"#,
            r#"{"dryRun":[""]}"#,
            r#"{"dryRun":[1]}"#,
            r#"{"preconditions":{"uid":"@UID@"}}"#,
            r#"{"preconditions":{"uid":"x"}}"#,
            r#"{"preconditions":{"resourceVersion":"@VERSION@"}}"#,
            r#"{"preconditions":{"resourceVersion":"1"}}"#,
            r#"{"preconditions":{"resourceVersion":"x"}}"#,
            r#"{"preconditions":{}}"#,
            r#"{"preconditions":null}"#,
            r#"{"preconditions":[]}"#,
            r#"{"preconditions":{"uid":""}}"#,
            r#"{"preconditions":{"unknown":1}}"#,
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            r#"{"kind":"DeleteOptions"}"#,
            r#"{"apiVersion":"x/y/z"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"x"}"#,
            r#"{"kind":1}"#,
            r#"{"kind":"x"}"#,
            r#"{"kind":"Status","apiVersion":"v1"}"#,
            r#"{"unknown":1}"#,
            r#"{"gracePeriodSeconds":0,"gracePeriodSeconds":5}"#,
            r#"{"GracePeriodSeconds":0}"#,
            r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"apps/v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"v1","metadata":{"name":"x"}}"#,
        ];
        self.pick(&choices).to_owned()
    }

    /// A patch of the media type `kind`, for an object or the object of a subresource.
    #[expect(clippy::too_many_lines, reason = "one line for each patch")]
    pub(super) fn patch(&mut self, kind: &str, object: Value) -> String {
        let metadata =
            |name: &str, value: Value| json!({ "metadata": { name: value } }).to_string();
        if kind == JSON_PATCH {
            let choices = [
                r#"[{"op":"add","path":"/metadata/labels","value":{"k":"v"}}]"#,
                r#"[{"op":"test","path":"/metadata/name","value":"x"}]"#,
                r#"[{"op":"test","path":"/metadata/name","value":"@NAME@"}]"#,
                r#"[{"op":"remove","path":"/metadata/absent"}]"#,
                r#"[{"op":"replace","path":"/metadata/annotations","value":{"a":"b"}}]"#,
                r#"[{"op":"copy","from":"/metadata/name","path":"/metadata/annotations/a"}]"#,
                r#"[{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]"#,
                r#"[{"op":"x","path":"/metadata/name"}]"#,
                r#"[{"path":"/metadata/name"}]"#,
                r#"[{"op":"add","path":"metadata","value":1}]"#,
                r#"[{"op":"add","path":"/metadata/labels"}]"#,
                r#"[{"op":"add","path":"","value":{}}]"#,
                r#"[{"op":"replace","path":"/metadata","value":null}]"#,
                r#"[{"op":"remove","path":"/metadata"}]"#,
                r#"[{"op":"remove","path":"/metadata/name"}]"#,
                r#"[{"op":"remove","path":"/kind"}]"#,
                r#"[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]"#,
                r#"[{"op":"replace","path":"/metadata/uid","value":"x"}]"#,
                r#"[{"op":"replace","path":"/spec","value":null}]"#,
                r#"[{"op":"add","path":"/spec/replicas","value":3}]"#,
                r#"[{"op":"add","path":"/unknown","value":3}]"#,
                r#"[{"op":"add","path":"/status","value":{}}]"#,
                "[]",
                "{}",
                "null",
                "1",
                "\"x\"",
                "[1]",
                "[null]",
                "[{}]",
                "[",
                "",
                "[[]]",
                r#"[{"op":1}]"#,
                r#"[{"op":"add","path":1,"value":1}]"#,
                r#"{"op":"add","path":"/metadata/labels","value":{}}"#,
            ];
            return self.pick(&choices).to_owned();
        }
        if kind == APPLY && self.chance(0.7) {
            return self.mutated(object);
        }
        let choices = [
            metadata("labels", json!({ "k": "v" })),
            metadata("labels", json!({ "k": null })),
            metadata("labels", Value::Null),
            metadata("labels", json!([])),
            metadata("labels", json!({ "k": 1 })),
            metadata("annotations", json!({ "k": "v" })),
            metadata("name", json!("other")),
            metadata("name", Value::Null),
            metadata("namespace", json!("other")),
            metadata("namespace", Value::Null),
            metadata("uid", json!("other")),
            metadata("uid", json!("@UID@")),
            metadata("resourceVersion", json!("1")),
            metadata("resourceVersion", json!("@VERSION@")),
            metadata("resourceVersion", json!("x")),
            metadata("resourceVersion", json!("")),
            metadata("resourceVersion", json!("0")),
            metadata("resourceVersion", Value::Null),
            metadata("generation", json!(7)),
            metadata("creationTimestamp", Value::Null),
            metadata("creationTimestamp", json!("2020-01-01T00:00:00Z")),
            metadata("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            metadata("finalizers", json!(["a.io/b"])),
            metadata("finalizers", json!(["a"])),
            metadata("ownerReferences", json!([{}])),
            metadata("managedFields", json!([])),
            metadata("managedFields", json!([{}])),
            metadata("managedFields", Value::Null),
            metadata("unknown", json!(1)),
            metadata("generateName", json!("x")),
            metadata("selfLink", json!("x")),
            r#"{"metadata":null}"#.into(),
            r#"{"metadata":[]}"#.into(),
            r#"{"kind":"Other"}"#.into(),
            r#"{"apiVersion":"v9"}"#.into(),
            r#"{"kind":1}"#.into(),
            r#"{"unknown":{"a":1}}"#.into(),
            r#"{"spec":null}"#.into(),
            r#"{"spec":{}}"#.into(),
            r#"{"spec":[]}"#.into(),
            r#"{"spec":"x"}"#.into(),
            r#"{"spec":{"unknown":1}}"#.into(),
            r#"{"spec":{"replicas":2}}"#.into(),
            r#"{"spec":{"replicas":-1}}"#.into(),
            r#"{"spec":{"replicas":"2"}}"#.into(),
            r#"{"status":{}}"#.into(),
            r#"{"status":null}"#.into(),
            r#"{"status":{"unknown":1}}"#.into(),
            r#"{"status":[]}"#.into(),
            r#"{"$patch":"replace"}"#.into(),
            r#"{"$patch":"delete"}"#.into(),
            r#"{"$patch":"x"}"#.into(),
            r#"{"metadata":{"$patch":"replace"}}"#.into(),
            r#"{"data":{"k":"v"}}"#.into(),
            r#"{"data":{"k":1}}"#.into(),
            r#"{"data":null}"#.into(),
            "{}".into(),
            "null".into(),
            "[]".into(),
            "1".into(),
            "\"x\"".into(),
            "{".into(),
            String::new(),
            "a: b".into(),
            "x".into(),
            "true".into(),
            r#"{"metadata":{"labels":{"a":"b","a":"c"}}}"#.into(),
            object.to_string(),
        ];
        self.pick(&choices)
    }

    /// The text of an object, mostly with a fault.
    #[expect(clippy::too_many_lines, reason = "one line for each fault")]
    pub(super) fn mutated(&mut self, mut object: Value) -> String {
        let mut set = |pointer: &str, value: Value| {
            let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
            if let Some(parent) = object.pointer_mut(parent)
                && parent.is_object()
            {
                parent[last] = value;
            }
        };
        match self.random.random_range(0..90) {
            0 => set("/kind", json!("Other")),
            1 => set("/kind", Value::Null),
            2 => set("/kind", json!("")),
            3 => set("/kind", json!(1)),
            4 => set("/apiVersion", json!("v9")),
            5 => set("/apiVersion", Value::Null),
            6 => set("/apiVersion", json!("a/b/c")),
            7 => set("/apiVersion", json!("apps/v1")),
            8 => set("/metadata/name", json!("other-@NAME@")),
            9 => set("/metadata/name", json!("")),
            10 => set("/metadata/name", Value::Null),
            11 => set("/metadata/name", json!("A_B")),
            12 => set("/metadata/name", json!(1)),
            13 => set("/metadata/namespace", json!("other")),
            14 => set("/metadata/namespace", json!("")),
            15 => set("/metadata/namespace", json!("A_B")),
            16 => set("/metadata/namespace", json!("@NAMESPACE@")),
            17 => set("/metadata/namespace", json!(1)),
            18 => set("/metadata/resourceVersion", json!("1")),
            19 => set("/metadata/resourceVersion", json!("@VERSION@")),
            20 => set("/metadata/resourceVersion", json!("x")),
            21 => set("/metadata/resourceVersion", json!("0")),
            22 => set("/metadata/uid", json!("x")),
            23 => set("/metadata/uid", json!("@UID@")),
            24 => set("/metadata/labels", json!({ "a": 1 })),
            25 => set("/metadata/labels", json!({ "A B": "x" })),
            26 => set("/metadata/labels", json!([])),
            27 => set("/metadata/annotations", json!({ "A B": "x" })),
            28 => set("/metadata/finalizers", json!(["x"])),
            29 => set("/metadata/finalizers", json!("x")),
            30 => set("/metadata/ownerReferences", json!([{}])),
            31 => set(
                "/metadata/ownerReferences",
                json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1" }]),
            ),
            32 => set("/metadata/generateName", json!("x-")),
            33 => set("/metadata/creationTimestamp", json!("x")),
            34 => set("/metadata/deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            35 => set("/metadata/managedFields", json!([{}])),
            36 => set(
                "/metadata/managedFields",
                json!([{ "manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {} }]),
            ),
            37 => set("/metadata/unknown", json!(1)),
            38 => set("/metadata/generation", json!(5)),
            39 => set("/metadata/selfLink", json!("x")),
            40 => set("/metadata", Value::Null),
            41 => set("/metadata", json!([])),
            42 => set("/metadata", json!({})),
            43 => set("/unknown", json!({ "a": 1 })),
            44 => set("/spec", Value::Null),
            45 => set("/spec", json!([])),
            46 => set("/spec", json!({})),
            47 => set("/spec/unknown", json!(1)),
            48 => set("/status", json!("x")),
            49 => set("/status", json!({ "unknown": 1 })),
            50 => set("/data", json!({ "k": 1 })),
            51 => set("/spec/replicas", json!("1")),
            52 => set("/metadata/annotations", json!({ "a": "b" })),
            53 => set("/metadata/deletionGracePeriodSeconds", json!(5)),
            54 => return "null".to_owned(),
            55 => return "[]".to_owned(),
            56 => return "{}".to_owned(),
            57 => return String::new(),
            58 => return "x".to_owned(),
            59 => return "1".to_owned(),
            60 => return "\"x\"".to_owned(),
            61 => {
                let text = object.to_string();
                return text[..text.len() / 2].to_owned();
            }
            62 => return format!("{object}{object}"),
            63 => return format!("{object} x"),
            64 => return json!([object]).to_string(),
            65 => {
                return json!({ "apiVersion": "v1", "kind": "List", "items": [object] })
                    .to_string();
            }
            66 => return object.to_string().replacen('{', r#"{"kind":"Other","#, 1),
            67 => {
                return object
                    .to_string()
                    .replacen('{', r#"{"unknown":1,"unknown":2,"#, 1);
            }
            68 => {
                return object.to_string().replacen(
                    "\"metadata\":{",
                    r#""metadata":{"name":"other","#,
                    1,
                );
            }
            69 => {
                return object.to_string().replacen(
                    "\"metadata\":{",
                    r#""metadata":{"labels":{"a":"b","a":"c"},"labels":{"a":"d"},"#,
                    1,
                );
            }
            70 => return object.to_string().replace("\"kind\"", "\"Kind\""),
            71 => return object.to_string().replace("\"metadata\"", "\"Metadata\""),
            72 => return serde_yaml_ng::to_string(&object).expect("YAML"),
            73 => return json!({ "kind": "Status", "apiVersion": "v1" }).to_string(),
            74 => return json!({ "kind": "DeleteOptions", "apiVersion": "v1" }).to_string(),
            75 => return "{\"metadata\":".to_owned(),
            76 => return "\u{feff}{}".to_owned(),
            _ => {}
        }
        object.to_string()
    }
}
