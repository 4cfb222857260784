//! Patches of an object without a schema: the server must return the result of the RFCs.

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::{
    in_virtual_time,
    reference::{json_patch, merge_patch},
    requests::send,
};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    #[generator(bolero::generator::produce::<Vec<Patch>>().with().len(1_usize..5))]
    patches: Vec<Patch>,
}

#[derive(Clone, Debug, TypeGenerator)]
enum Patch {
    Json(
        #[generator(bolero::generator::produce::<Vec<Operation>>().with().len(1_usize..4))]
        Vec<Operation>,
    ),
    /// The bytes of which [`tree`] makes a patch.
    Merge(#[generator(bolero::generator::produce::<Vec<u8>>().with().len(1_usize..24))] Vec<u8>),
}

#[derive(Clone, Debug, TypeGenerator)]
struct Operation {
    op: u8,
    path: u8,
    from: u8,
    value: u8,
}

const OPERATIONS: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];

/// Places in the `spec`, of which some are missing at first.
const PATHS: [&str; 16] = [
    "/a",
    "/b",
    "/a/k",
    "/a/k/l",
    "/list",
    "/list/0",
    "/list/1",
    "/list/2",
    "/list/-",
    "/list/0/k",
    "/m~1n",
    "/t~0u",
    "/deep/x",
    "/deep/x/y",
    "/deep/x/y/0",
    "/none/z",
];

/// The server has rules of its own for `null`, which merge patches use.
fn value(number: u8) -> Value {
    let values = [
        json!(1),
        json!("x"),
        json!(true),
        json!({}),
        json!({ "k": 1 }),
        json!([]),
        json!([1, { "k": "x" }]),
    ];
    values[usize::from(number) % values.len()].clone()
}

/// A value made of `bytes`. In a list there is no `null`.
fn tree(bytes: &mut impl Iterator<Item = u8>, depth: u8) -> Value {
    let names = ["a", "b", "k", "list", "m/n", "t~u", "deep", "x", "y"];
    let byte = bytes.next().unwrap_or_default();
    if depth > 0 && (depth > 4 || byte % 4 > 1) {
        return match byte % 4 {
            2 => Value::Null,
            _ => value(byte / 4),
        };
    }
    let members = (0..=byte % 3).map(|_| {
        let name = names[usize::from(bytes.next().unwrap_or_default()) % names.len()];
        (name.to_owned(), tree(bytes, depth + 1))
    });
    Value::Object(members.collect())
}

// === impl Patch ===

impl Patch {
    /// The content type and the body for the server, and the `spec` that the RFC makes of `spec`.
    fn applied(&self, spec: &Value) -> (&'static str, Value, Option<Value>) {
        match self {
            Self::Json(operations) => {
                let with = |prefix: &str| {
                    let operations = operations.iter().map(|it| it.with(prefix));
                    operations.collect::<Vec<_>>()
                };
                let result = json_patch(spec.clone(), &with(""));
                ("application/json-patch+json", with("/spec").into(), result)
            }
            Self::Merge(bytes) => {
                let patch = tree(&mut bytes.iter().copied(), 0);
                let result = merge_patch(spec.clone(), &patch);
                let body = json!({ "spec": patch });
                ("application/merge-patch+json", body, Some(result))
            }
        }
    }
}

// === impl Operation ===

impl Operation {
    /// This operation, with `prefix` before its paths.
    fn with(&self, prefix: &str) -> Value {
        let path = |number: u8| format!("{prefix}{}", PATHS[usize::from(number) % PATHS.len()]);
        json!({
            "op": OPERATIONS[usize::from(self.op) % OPERATIONS.len()],
            "path": path(self.path),
            "from": path(self.from),
            "value": value(self.value),
        })
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ALL: &str = "/apis/x.io/v1/frees";
const ONE: &str = "/apis/x.io/v1/frees/f";

pub(crate) fn check(input: &Input) {
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        let call = async |method: &str, path: &str, content_type: &str, body: &Value| {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", content_type)
                .body(body.to_string().into_bytes())
                .expect("a request");
            let (status, answer) = send(&server, request).await;
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            (status, answer)
        };
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let definition = json!({
            "metadata": { "name": "frees.x.io" },
            "spec": {
                "group": "x.io", "scope": "Cluster", "names": { "plural": "frees", "kind": "Free" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": open } } },
                }],
            },
        });
        let json = "application/json";
        let (status, answer) = call("POST", DEFINITIONS, json, &definition).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        let mut spec = json!({
            "a": { "k": 1 }, "list": [{ "k": 1 }, "x"], "m/n": 1, "t~u": "x", "deep": { "x": {} },
        });
        let object = json!({
            "apiVersion": "x.io/v1", "kind": "Free", "metadata": { "name": "f" }, "spec": spec,
        });
        let (status, answer) = call("POST", ALL, json, &object).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        for patch in &input.patches {
            let (content_type, body, expected) = patch.applied(&spec);
            let (status, answer) = call("PATCH", ONE, content_type, &body).await;
            if let Some(expected) = expected {
                assert_eq!(status, StatusCode::OK, "{body} of {spec}: {answer}");
                assert_eq!(answer["spec"], expected, "{body} of {spec}");
                spec = expected;
            } else {
                assert_eq!(
                    status,
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "{body} of {spec}: {answer}"
                );
                let (_, stored) = call("GET", ONE, json, &Value::Null).await;
                assert_eq!(
                    stored["spec"], spec,
                    "a refused patch changes nothing: {body}"
                );
            }
        }
    });
}
