//! Random requests to the embedded API server: each response is valid, none is an internal error,
//! and the server continues to run.

use bolero::TypeGenerator;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;

use crate::{edits::Edits, in_virtual_time};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    #[generator(bolero::generator::produce::<Vec<Call>>().with().len(1_usize..6))]
    calls: Vec<Call>,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Call {
    method: u8,
    path: Edits,
    query: Edits,
    content_type: u8,
    accept: u8,
    body: Edits,
}

const METHODS: [Method; 6] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::HEAD,
];

const PATHS: [&str; 16] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/configmaps",
    "/api/v1/namespaces/n",
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/pods/p/status",
    "/apis/apps/v1/namespaces/default/deployments/d",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/api",
    "/apis",
    "/openapi/v3",
    "/openapi/v2",
    "/version",
];

const QUERIES: [&str; 12] = [
    "",
    "limit=1",
    "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJkZWZhdWx0L2EifQ",
    "watch=true&timeoutSeconds=5&allowWatchBookmarks=true",
    "watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "labelSelector=a%3Db%2C!c%2Cd+in+(e%2Cf)",
    "fieldSelector=metadata.name%3Da",
    "dryRun=All&fieldValidation=Strict&fieldManager=m",
    "fieldManager=m&force=true",
    "propagationPolicy=Foreground&gracePeriodSeconds=0",
    "pretty=true&watch=0&timeoutSeconds=2",
];

const CONTENT_TYPES: [&str; 8] = [
    "application/json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain;charset=utf-8",
];

const ACCEPT: [&str; 6] = [
    "*/*",
    "application/json",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;q=0.5",
    "application/yaml",
];

const BODIES: [&str; 9] = [
    "",
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"},"finalizers":["x.io/a"]},"data":{"k":"v"}}"#,
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    r#"[{"op":"test","path":"/metadata/name","value":"a"},{"op":"add","path":"/data","value":{"x":"y"}},{"op":"copy","from":"/data","path":"/metadata/annotations"}]"#,
    r#"{"metadata":{"finalizers":null,"labels":{"$patch":"replace","c":"d"}},"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"c"}]}}}}"#,
    r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan","preconditions":{"uid":"u","resourceVersion":"1"}}"#,
    "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ns\n  labels: {a: b}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: &m {name: a, ? labels : {<<: &l {1: !!str 014, y: \"\\x41\"}, '1': b}}\ndata:\n  <<: [*l, {.5: !!binary aGk=}]\n  a: |+2\n    b\n  c: >-\n    d\n---\nb: .inf\n",
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.ex.io"},"spec":{"group":"ex.io","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer","default":1}}}}}}}]}}"#,
];

/// A file has a method, a path, a query, a content type and a body.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    let [method, path, query, content_type, body] = parts else {
        panic!("five parts, not {parts:?}");
    };
    let place = |is_there: Option<usize>| {
        let place = is_there.and_then(|place| u8::try_from(place).ok());
        place.unwrap_or_else(|| panic!("{method} with {content_type} is not in the lists"))
    };
    let method = place(METHODS.iter().position(|it| it.as_str() == *method));
    let content_type = place(CONTENT_TYPES.iter().position(|it| it == content_type));
    let call = |accept| Call {
        method,
        path: Edits::none(path),
        query: Edits::none(query),
        content_type,
        accept,
        body: Edits::none(body),
    };
    let input = |accept| Input {
        calls: vec![call(accept), call(accept)],
    };
    (0_u8..).take(ACCEPT.len()).map(input).collect()
}

pub(crate) fn check(input: &Input) {
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        for call in &input.calls {
            let path = call.path.text_of(&PATHS);
            let query = call.query.text_of(&QUERIES);
            let request = Request::builder()
                .method(METHODS[usize::from(call.method) % METHODS.len()].clone())
                .uri(format!("{path}?{query}"))
                .header(
                    "content-type",
                    CONTENT_TYPES[usize::from(call.content_type) % CONTENT_TYPES.len()],
                )
                .header("accept", ACCEPT[usize::from(call.accept) % ACCEPT.len()])
                .body(call.body.of(&BODIES));
            // What is no request does not reach the server.
            if let Ok(request) = request {
                let (status, answer) = send(&server, request).await;
                let message = String::from_utf8_lossy(&answer);
                assert!(!is_failure(status, &message), "{call:?} {message}");
            }
        }
        let request = Request::get("/api/v1/configmaps").body(Vec::new());
        let (status, body) = send(&server, request.expect("a request")).await;
        assert_eq!(status, StatusCode::OK);
        let list: Value = serde_json::from_slice(&body).expect("a list is JSON");
        assert!(list["items"].is_array());
    });
}

/// Whether an answer is a failure of the server, and not one of those with which the real server,
/// too, answers a patch that it can't apply.
pub(crate) fn is_failure(status: StatusCode, message: &str) -> bool {
    const KNOWN: [&str; 6] = [
        "failed to create typed patch object",
        "unknown patch type: ",
        "strconv.ParseUint: ",
        "doesn't match $setElementOrder list",
        "expected a []interface {}, but received a ",
        "list element types are not identical: ",
    ];
    status == StatusCode::INTERNAL_SERVER_ERROR && !KNOWN.iter().any(|it| message.contains(it))
}

/// The status and the whole body of an answer. A watch ends by itself, in virtual time.
pub(crate) async fn send(server: &ApiServer, request: Request<Vec<u8>>) -> (StatusCode, Vec<u8>) {
    let request = request.map(Full::<Bytes>::from);
    let Ok(response) = server.service().oneshot(request).await;
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(std::time::Duration::from_secs(24 * 3600), body.collect());
    let body = body.await.expect("an answer ends");
    let body = body.map(|body| body.to_bytes().to_vec());
    (parts.status, body.unwrap_or_default())
}
