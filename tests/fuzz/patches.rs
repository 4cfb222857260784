//! Patches of an object: a response must equal the stored object, and writing it back must not
//! change it.

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::Value;
use windlass_apiserver::ApiServer;

use crate::{
    edits::Edits,
    in_virtual_time,
    requests::{is_failure, send},
};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    object: Edits,
    #[generator(bolero::generator::produce::<Vec<Patch>>().with().len(1_usize..4))]
    patches: Vec<Patch>,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Patch {
    form: u8,
    text: Edits,
}

const OBJECTS: [&str; 2] = [
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","labels":{"a":"b"}},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"E","value":"1"}],"ports":[{"containerPort":80}]},{"name":"x","image":"j"}]}}}}"#,
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","annotations":{"k":"v"}},"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"tolerations":[{"key":"t"}],"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","emptyDir":{}}]}}}}"#,
];

/// The content type of each form, with patches.
const FORMS: [(&str, [&str; 3]); 4] = [
    (
        "application/json-patch+json",
        [
            r#"[{"op":"replace","path":"/spec/replicas","value":3},{"op":"remove","path":"/metadata/labels"}]"#,
            r#"[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"n","image":"k"}},{"op":"move","from":"/metadata/labels/a","path":"/metadata/labels/c~1d"}]"#,
            r#"[{"op":"copy","from":"/spec/template","path":"/metadata/annotations"},{"op":"test","path":"/kind","value":"Deployment"}]"#,
        ],
    ),
    (
        "application/merge-patch+json",
        [
            r#"{"spec":{"replicas":null,"template":{"spec":{"containers":[{"name":"only","image":"i"}]}}}}"#,
            r#"{"metadata":{"labels":{"x":null,"y":"z"},"finalizers":["x.io/a"]}}"#,
            r#"{"metadata":{"resourceVersion":"1","name":"d"},"spec":{"paused":true}}"#,
        ],
    ),
    (
        "application/strategic-merge-patch+json",
        [
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"},{"name":"z","image":"l"}],"$setElementOrder/containers":[{"name":"z"},{"name":"x"}]}}}}"#,
            r#"{"metadata":{"labels":{"$patch":"replace","q":"r"},"$deleteFromPrimitiveList/finalizers":["x.io/a"],"finalizers":["y.io/b"]}}"#,
            r#"{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"},"template":{"spec":{"tolerations":[{"key":"u"}],"volumes":[{"name":"v","$retainKeys":["name"]}]}}}}"#,
        ],
    ),
    (
        "application/apply-patch+yaml",
        [
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","labels":{"a":"c"}},"spec":{"replicas":5}}"#,
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  template:\n    spec:\n      containers:\n      - {name: c, image: k, ports: [{containerPort: 80, protocol: TCP}]}\n",
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","finalizers":["z.io/c"]},"spec":{"selector":{"matchLabels":{"a":"b"}}}}"#,
        ],
    ),
];

const ALL: &str = "/apis/apps/v1/namespaces/default/deployments";
const ONE: &str = "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=m&force=true";
const PLAIN: &str = "/apis/apps/v1/namespaces/default/deployments/d";

/// A file has an object, and the content type and the text of each patch.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    let (patches, rest) = parts[1..].as_chunks::<2>();
    assert!(rest.is_empty() && !patches.is_empty(), "{parts:?}");
    let patch = |[content_type, text]: &[&str; 2]| {
        let form = FORMS.iter().position(|(form, _)| form == content_type);
        Patch {
            form: u8::try_from(form.expect("a type of patches")).expect("four types"),
            text: Edits::none(text),
        }
    };
    vec![Input {
        object: Edits::none(parts[0]),
        patches: patches.iter().map(patch).collect(),
    }]
}

pub(crate) fn check(input: &Input) {
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        let call = |method: &str, path: &str, content_type: &str, body: Vec<u8>| {
            Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", content_type)
                .body(body)
                .expect("a request")
        };
        let json = "application/json";
        let object = input.object.of(&OBJECTS);
        let (created, _) = send(&server, call("POST", ALL, json, object)).await;
        assert_ne!(created, StatusCode::INTERNAL_SERVER_ERROR);
        for patch in &input.patches {
            let (content_type, texts) = FORMS[usize::from(patch.form) % FORMS.len()];
            // Only an apply has a manager that is forced.
            let path = if content_type.contains("apply") {
                ONE
            } else {
                PLAIN
            };
            let text = patch.text.of(&texts);
            let (status, answer) = send(&server, call("PATCH", path, content_type, text)).await;
            let message = String::from_utf8_lossy(&answer);
            assert!(!is_failure(status, &message), "{patch:?} {message}");
            if !status.is_success() {
                let refused: Value = serde_json::from_slice(&answer).expect("a status");
                assert_eq!(refused["kind"], "Status", "{message}");
                continue;
            }
            let (found, stored) = send(&server, call("GET", PLAIN, json, Vec::new())).await;
            if found == StatusCode::NOT_FOUND {
                continue;
            }
            let stored_value: Value = serde_json::from_slice(&stored).expect("an object");
            let answered: Value = serde_json::from_slice(&answer).expect("an object");
            assert_eq!(answered, stored_value, "{patch:?}");
            // What is stored is valid, and to write it back changes nothing.
            let (again, written) = send(&server, call("PUT", PLAIN, json, stored)).await;
            let message = String::from_utf8_lossy(&written);
            assert_eq!(again, StatusCode::OK, "{patch:?} {message}");
            let written: Value = serde_json::from_slice(&written).expect("an object");
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            assert_eq!(version(&written), version(&stored_value), "{patch:?}");
        }
    });
}
