//! Tests of the status of resource quotas. In a cluster a controller writes it; here the server does.

mod support;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use support::{client, register, request, widget_definition};

const NAMESPACE: &str = "/api/v1/namespaces/default";

async fn post(server: &ApiServer, path: &str, object: &Value) -> (StatusCode, Value) {
    request(server, Method::POST, path, Some(object)).await
}

async fn delete(server: &ApiServer, path: &str) {
    let (code, gone) = request(server, Method::DELETE, path, None).await;
    assert_eq!(code, 200, "{gone}");
}

/// Creates a quota called `q`.
async fn quota(server: &ApiServer, hard: &Value) {
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": hard } });
    let (code, created) = post(server, &format!("{NAMESPACE}/resourcequotas"), &quota).await;
    assert_eq!(code, 201, "{created}");
}

async fn status(server: &ApiServer) -> Value {
    let path = format!("{NAMESPACE}/resourcequotas/q");
    let (_, mut quota) = request(server, Method::GET, &path, None).await;
    quota["status"].take()
}

fn pod(name: &str) -> Value {
    let resources = json!({ "requests": { "cpu": "300m" } });
    let container = json!({ "name": "main", "image": "i:1", "resources": resources });
    json!({ "metadata": { "name": name }, "spec": { "containers": [container] } })
}

#[tokio::test]
async fn a_quota_counts_existing_and_deleted_objects() {
    let server = ApiServer::new();
    let pods = format!("{NAMESPACE}/pods");
    post(&server, &pods, &pod("a")).await;
    let hard = json!({ "pods": "2", "requests.cpu": "1", "secrets": "5" });
    quota(&server, &hard).await;
    let used = |pods: &str, cpu: &str| json!({ "pods": pods, "requests.cpu": cpu, "secrets": "0" });
    let expected = json!({ "hard": hard, "used": used("1", "300m") });
    assert_eq!(status(&server).await, expected);
    assert_eq!(post(&server, &pods, &pod("b")).await.0, 201);
    assert_eq!(status(&server).await["used"], used("2", "600m"));
    let (code, refused) = post(&server, &pods, &pod("c")).await;
    assert_eq!(code, 403);
    let expected = "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, \
                    limited: pods=2";
    assert_eq!(refused["message"], expected);

    let done = json!({ "status": { "phase": "Succeeded" } });
    let path = format!("{pods}/a/status");
    request(&server, Method::PATCH, &path, Some(&done)).await;
    assert_eq!(
        status(&server).await["used"],
        used("1", "300m"),
        "a finished pod uses nothing"
    );
    delete(&server, &format!("{pods}/b")).await;
    assert_eq!(status(&server).await["used"], used("0", "0"));
}

#[tokio::test]
async fn a_quota_follows_its_spec() {
    let server = ApiServer::new();
    quota(&server, &json!({ "configmaps": "1" })).await;
    let change = json!({ "spec": { "hard": { "configmaps": "0", "services": "1" } } });
    let path = format!("{NAMESPACE}/resourcequotas/q");
    request(&server, Method::PATCH, &path, Some(&change)).await;
    let expected = json!({
        "hard": { "configmaps": "0", "services": "1" },
        // The service `kubernetes`.
        "used": { "configmaps": "0", "services": "1" },
    });
    assert_eq!(status(&server).await, expected);
}

#[tokio::test]
async fn a_quota_counts_custom_resources() {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, widget_definition())
        .await
        .expect("registered");
    quota(&server, &json!({ "count/widgets.ex.io": "1" })).await;
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    let widget = |name: &str| {
        json!({
            "apiVersion": "ex.io/v1", "kind": "Widget",
            "metadata": { "name": name }, "spec": { "size": 1 },
        })
    };
    assert_eq!(post(&server, widgets, &widget("a")).await.0, 201);
    let (code, refused) = post(&server, widgets, &widget("b")).await;
    assert_eq!(code, 403, "{refused}");
    delete(&server, &format!("{widgets}/a")).await;
    assert_eq!(post(&server, widgets, &widget("b")).await.0, 201);
}

#[tokio::test]
async fn a_quota_without_a_status_has_no_limits() {
    let server = ApiServer::builder().quota_status(false).start();
    quota(&server, &json!({ "configmaps": "0" })).await;
    let map = json!({ "metadata": { "name": "a" } });
    assert_eq!(
        post(&server, &format!("{NAMESPACE}/configmaps"), &map)
            .await
            .0,
        201
    );
    assert_eq!(status(&server).await, json!({}));
}

#[tokio::test]
async fn an_exhausted_quota_prevents_initial_objects() {
    let server = ApiServer::builder().namespace_contents(true).start();
    quota(&server, &json!({ "configmaps": "0" })).await;
    let path = format!("{NAMESPACE}/configmaps/kube-root-ca.crt");
    delete(&server, &path).await;
    assert_eq!(request(&server, Method::GET, &path, None).await.0, 404);
}
