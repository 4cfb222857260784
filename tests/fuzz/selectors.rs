//! Label selectors: several requirements select what each of them selects.

use std::collections::BTreeSet;

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::{edits::Edits, in_virtual_time, requests::send};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    one: Edits,
    other: Edits,
}

const REQUIREMENTS: [&str; 10] = [
    "a=b",
    "a==b",
    "a!=b",
    "a in (b,c)",
    "a notin (b)",
    "a",
    "!a",
    "n>1",
    "n<3",
    "x.io/y=",
];

/// The labels of the objects that are selected from.
const LABELS: [&str; 6] = [
    "{}",
    r#"{"a":"b"}"#,
    r#"{"a":"c","n":"2"}"#,
    r#"{"n":"4","x.io/y":""}"#,
    r#"{"a":"","n":"x"}"#,
    r#"{"a":"b","n":"1","x.io/y":"z"}"#,
];

pub(crate) fn check(input: &Input) {
    let one = input.one.text_of(&REQUIREMENTS);
    let other = input.other.text_of(&REQUIREMENTS);
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        for (number, labels) in LABELS.iter().enumerate() {
            let labels: Value = serde_json::from_str(labels).expect("labels");
            let object = json!({ "metadata": { "name": format!("m{number}"), "labels": labels } });
            let request = Request::post("/api/v1/namespaces/default/configmaps")
                .body(object.to_string().into_bytes());
            let (status, _) = send(&server, request.expect("a request")).await;
            assert_eq!(status, StatusCode::CREATED);
        }
        let first = selected(&server, &one).await;
        let second = selected(&server, &other).await;
        let both = selected(&server, &format!("{one},{other}")).await;
        if let (Some(first), Some(second)) = (first, second) {
            // An empty selector selects everything, and is no requirement.
            if !one.trim().is_empty() && !other.trim().is_empty() {
                let common = first.intersection(&second).cloned().collect();
                assert_eq!(both, Some(common), "{one:?} and {other:?}");
            }
        }
    });
}

/// The names of the objects that a selector selects; none if it is refused.
async fn selected(server: &ApiServer, selector: &str) -> Option<BTreeSet<String>> {
    let query: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("labelSelector", selector)
        .finish();
    let path = format!("/api/v1/namespaces/default/configmaps?{query}");
    let request = Request::get(path).body(Vec::new()).expect("a request");
    let (status, body) = send(server, request).await;
    if status == StatusCode::BAD_REQUEST {
        return None;
    }
    assert_eq!(status, StatusCode::OK, "{selector:?}");
    let list: Value = serde_json::from_slice(&body).expect("a list");
    let items = list["items"].as_array().expect("items");
    let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
    Some(items.iter().filter_map(name).collect())
}
