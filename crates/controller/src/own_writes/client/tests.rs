//! Tests of `client.rs`.

use std::{convert::Infallible, time::Duration};

use serde_json::{Value, json};

use super::*;

const PATH: &str = "/api/v1/namespaces/shop/configmaps";

/// Sends one request, and shows what was recorded of its response.
async fn recorded(
    request: http::request::Builder,
    body: Value,
    status: u16,
    answer: Value,
) -> String {
    let recorder = CallRecorder {
        lane: ObjectKey::new("blog").within("shop"),
        writes: Arc::new(Mutex::new(OwnWrites::new(Duration::from_secs(5)))),
        answers: Arc::default(),
        paused: None,
    };
    let server = tower::service_fn(move |_: Request<Body>| {
        let answer = answer.to_string().into_bytes();
        async move {
            let response = Response::builder().status(status).body(Body::from(answer));
            Ok::<_, Infallible>(response.expect("a response"))
        }
    });
    let client = recording_client(Client::new(server, "shop"), recorder.clone());
    let body = Body::from(body.to_string().into_bytes());
    let sent = client.send(request.body(body).expect("a request")).await;
    let response = sent.expect("the response is passed on");
    assert_eq!(response.status().as_u16(), status);

    let mut writes = recorder.writes.lock();
    let Some(lane) = writes.lanes.remove(&recorder.lane) else {
        return "nothing".to_owned();
    };
    let mut shown: Vec<_> = (lane.writes.iter())
        .map(|it| {
            let effect = match it.effect {
                WriteEffect::Version(version) => version.to_string(),
                WriteEffect::Gone => "gone".to_owned(),
            };
            let proven = if it.is_proven { " proven" } else { "" };
            format!("{} {} {} {effect}{proven}", it.resource, it.key, it.uid)
        })
        .collect();
    shown.extend(
        lane.unknown
            .iter()
            .map(|it| format!("unknown {}", it.scope.resource)),
    );
    shown.join(", ")
}

fn answer(version: &str) -> Value {
    json!({ "kind": "ConfigMap", "metadata": {
        "namespace": "shop", "name": "web", "uid": "c", "resourceVersion": version,
    } })
}

fn guard(version: &str) -> Value {
    json!({ "metadata": { "resourceVersion": version } })
}

#[tokio::test]
async fn a_create_and_a_guarded_write_that_changed_something_are_proven() {
    let named = format!("{PATH}/web");
    let created = recorded(Request::post(PATH), json!({}), 201, answer("7")).await;
    assert_eq!(created, "configmaps shop/web c 7 proven");
    let applied = recorded(Request::patch(&named), json!({}), 201, answer("7")).await;
    assert_eq!(applied, "configmaps shop/web c 7 proven");

    for (before, expected) in [
        (json!({}), "configmaps shop/web c 7"),
        (guard("6"), "configmaps shop/web c 7 proven"),
        // The write changed nothing: 7 may be the version of another writer.
        (guard("7"), "configmaps shop/web c 7"),
    ] {
        for request in [Request::put(&named), Request::patch(&named)] {
            let shown = recorded(request, before.clone(), 200, answer("7")).await;
            assert_eq!(shown, expected, "{before}");
        }
    }
    let test = json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": "6" }]);
    let json_patch = || {
        let header = "application/json-patch+json";
        Request::patch(&named).header(header::CONTENT_TYPE, header)
    };
    let shown = recorded(json_patch(), test, 200, answer("7")).await;
    assert_eq!(shown, "configmaps shop/web c 7 proven");
    let status = Request::put(format!("{named}/status"));
    let shown = recorded(status, guard("6"), 200, answer("7")).await;
    assert_eq!(shown, "configmaps shop/web c 7 proven");
}

#[tokio::test]
async fn a_delete_removes_the_object_or_marks_it() {
    let delete = || Request::delete(format!("{PATH}/web"));
    let status = json!({ "kind": "Status", "details": { "name": "web", "uid": "c" } });
    let shown = recorded(delete(), json!({}), 200, status).await;
    assert_eq!(shown, "configmaps shop/web c gone");
    let shown = recorded(delete(), json!({}), 200, answer("7")).await;
    assert_eq!(shown, "configmaps shop/web c gone");
    let mut marked = answer("7");
    marked["metadata"]["deletionTimestamp"] = "2026-11-25T00:00:00Z".into();
    marked["metadata"]["finalizers"] = json!(["a/b"]);
    let guarded = json!({ "preconditions": { "resourceVersion": "6" } });
    let shown = recorded(delete(), guarded, 200, marked).await;
    assert_eq!(shown, "configmaps shop/web c 7 proven");
}

#[tokio::test]
async fn refused_writes_dry_runs_reads_and_reviews_are_not_recorded() {
    let named = format!("{PATH}/web");
    for status in [400, 403, 404, 409, 422, 429] {
        let shown = recorded(Request::put(&named), json!({}), status, json!({})).await;
        assert_eq!(shown, "nothing", "{status}");
    }
    let dry_run = Request::put(format!("{named}?dryRun=All"));
    assert_eq!(
        recorded(dry_run, json!({}), 200, answer("7")).await,
        "nothing"
    );
    let read = Request::get(&named);
    assert_eq!(recorded(read, json!({}), 200, answer("7")).await, "nothing");
    let review = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    let reviewed = json!({ "kind": "SelfSubjectAccessReview", "status": {} });
    assert_eq!(recorded(review, json!({}), 201, reviewed).await, "nothing");
}

#[tokio::test]
async fn a_failed_or_unreadable_response_is_unknown() {
    let named = format!("{PATH}/web");
    for status in [302, 500, 503] {
        let shown = recorded(Request::put(&named), json!({}), status, json!({})).await;
        assert_eq!(shown, "unknown configmaps", "{status}");
    }
    let evicted = Request::post("/api/v1/namespaces/shop/pods/web/eviction");
    let status = json!({ "kind": "Status" });
    let shown = recorded(evicted, json!({}), 201, status.clone()).await;
    assert_eq!(shown, "unknown pods");
    let all = recorded(Request::delete(PATH), json!({}), 200, status).await;
    assert_eq!(all, "unknown configmaps");
}

#[tokio::test]
async fn a_write_that_is_dropped_is_unknown() {
    let recorder = CallRecorder {
        lane: ObjectKey::new("blog"),
        writes: Arc::new(Mutex::new(OwnWrites::new(Duration::from_secs(5)))),
        answers: Arc::default(),
        paused: None,
    };
    let server = tower::service_fn(|_: Request<Body>| {
        futures::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let client = recording_client(Client::new(server, "shop"), recorder.clone());
    let request = Request::put(format!("{PATH}/web")).body(Body::empty());
    let sent = client.send(request.expect("a request"));
    let timeout = tokio::time::timeout(Duration::from_millis(20), sent).await;
    assert!(timeout.is_err());
    // The task of the client drops the request after its caller.
    while recorder.writes.lock().len() == 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn the_target_of_a_write_is_in_its_path() {
    let shown = |path: &str| {
        let target = Target::of(path)?;
        let or_dash = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        Some(format!(
            "{} {} {} {}",
            target.resource,
            or_dash(target.namespace),
            or_dash(target.name),
            or_dash(target.subresource),
        ))
    };
    for (path, expected) in [
        (
            "/api/v1/namespaces/shop/pods/web/status",
            "pods shop web status",
        ),
        ("/api/v1/namespaces/shop", "namespaces - shop -"),
        (
            "/api/v1/namespaces/shop/finalize",
            "namespaces - shop finalize",
        ),
        ("/api/v1/namespaces", "namespaces - - -"),
        ("/api/v1/nodes/one", "nodes - one -"),
        (
            "/apis/apps/v1/namespaces/a/deployments",
            "deployments.apps a - -",
        ),
        (
            "/apis/example.io/v1/clusters/x/scale",
            "clusters.example.io - x scale",
        ),
    ] {
        assert_eq!(shown(path).as_deref(), Some(expected), "{path}");
    }
    for path in ["/version", "/", "/apis/apps", "/healthz/etcd"] {
        assert_eq!(shown(path), None, "{path}");
    }
}
