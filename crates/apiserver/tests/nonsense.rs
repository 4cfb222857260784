//! The server responds to any malformed request, and continues to run.

use http::{Method, Request};
use http_body_util::Full;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_apiserver::ApiServer;

mod support;

use support::{answer, request, widget_definition};

const WIDGETS: &str = "/apis/ex.io/v1/namespaces/default/widgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The words that mean something to the server.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "apiVersion",
            "kind",
            "metadata",
            "name",
            "namespace",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "resourceVersion",
            "managedFields",
            "manager",
            "operation",
            "fieldsV1",
            "f:spec",
            "f:size",
            "uid",
            "deletionTimestamp",
            "generateName",
            "spec",
            "status",
            "names",
            "versions",
            "schema",
            "plural",
            "group",
            "conditions",
            "storedVersions",
            "data",
            "stringData",
            "size",
            "color",
            "ready",
            "regarding",
            "$patch",
            "$retainKeys",
            "containers",
            "phase",
            "generation",
        ])
        .prop_map(str::to_owned),
        ".{0,4}",
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word(), inner), 0..5)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn place() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        WIDGETS,
        "/apis/ex.io/v1/namespaces/default/widgets/w",
        "/apis/ex.io/v1/namespaces/default/widgets/w/status",
        DEFINITIONS,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.io",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.io/status",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/status",
        "/api/v1/namespaces/default/finalize",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default/secrets/s",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/apps/v1/namespaces/default/deployments/d",
    ])
}

fn method() -> impl Strategy<Value = Method> {
    proptest::sample::select(vec![
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ])
}

async fn populated() -> ApiServer {
    let server = ApiServer::builder().seed(1).start();
    let named = |name: &str| json!({ "metadata": { "name": name }, "spec": {} });
    let widget = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget",
        "metadata": { "name": "w" }, "spec": { "size": 1 },
    });
    let mut deployment = named("d");
    deployment["spec"] = json!({
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "example.com/c:1" }] },
        },
    });
    for (path, body) in [
        (DEFINITIONS, widget_definition()),
        (WIDGETS, widget),
        ("/api/v1/namespaces/default/secrets", named("s")),
        ("/apis/apps/v1/namespaces/default/deployments", deployment),
    ] {
        let (code, answer) = request(&server, Method::POST, path, Some(&body)).await;
        assert_eq!(code, 201, "{answer}");
    }
    server
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_request_body_causes_a_panic(
        calls in proptest::collection::vec((method(), place(), json_value(), 0..6_usize), 1..12)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let server = populated().await;
            for (method, path, body, form) in calls {
                let content_type = [
                    "application/json",
                    "application/merge-patch+json",
                    "application/strategic-merge-patch+json",
                    "application/json-patch+json",
                    "application/apply-patch+yaml",
                    "application/apply-patch+yaml",
                ][form];
                // A body that is nearly right gets further than one that is all wrong.
                let body = match body {
                    Value::Object(mut members) if method != Method::PATCH => {
                        members.entry("metadata").or_insert_with(|| json!({ "name": "w" }));
                        Value::from(members)
                    }
                    Value::Object(mut members) if form == 5 => {
                        // A configuration of the right kind is merged.
                        members.insert("apiVersion".to_owned(), "ex.io/v1".into());
                        members.insert("kind".to_owned(), "Widget".into());
                        Value::from(members)
                    }
                    body => body,
                };
                let path = match form {
                    4 | 5 => format!("{path}?fieldManager=m&force=true"),
                    _ => path.to_owned(),
                };
                let request = Request::builder()
                    .method(method)
                    .uri(&path)
                    .header("content-type", content_type)
                    .body(Full::from(body.to_string()))
                    .expect("a request");
                let (parts, body) = answer(&server, request).await;
                assert!(parts.status.as_u16() != 500 || body.starts_with(b"{"), "{path}");
            }
            let (code, _) = request(&server, Method::GET, "/api/v1/pods", None).await;
            assert_eq!(code, 200);
        });
    }

    #[test]
    fn no_url_causes_a_panic(path in "(/(api|apis|v1|namespaces|default|%|%2[Ff]|pods|\\.\\.|status|~|[a-z]{0,3})){0,8}",
            query in "((watch|limit|continue|resourceVersion|fieldSelector|labelSelector|timeoutSeconds)=([a-z0-9%=!,]{0,5}|[0-9]{18,20})&){0,4}") {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let server = ApiServer::new();
            let request = Request::get(format!("/{path}?{query}")).body(Full::default());
            // Invalid URLs do not reach the server.
            if let Ok(request) = request {
                // A watch ends by itself, in virtual time.
                answer(&server, request).await;
            }
        });
    }
}
