//! Tests of RBAC that on a real cluster require a controller in addition to kube-apiserver.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The status of a request of `user`; of the administrator without one.
async fn ask(server: &ApiServer, user: &str, method: Method, path: &str, body: &Value) -> u16 {
    let mut request = Request::builder().method(method).uri(path);
    if !user.is_empty() {
        request = request.header("impersonate-user", user);
    }
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = request.body(Full::<Bytes>::from(body)).expect("a request");
    let Ok(response) = server.service().oneshot(request).await;
    let status = response.status().as_u16();
    response.into_body().collect().await.expect("a body");
    status
}

async fn bind(server: &ApiServer, user: &str, role: &str) {
    let binding = json!({
        "metadata": { "name": format!("{user}-{role}") },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    let status = ask(server, "", Method::POST, BINDINGS, &binding).await;
    assert_eq!(status, StatusCode::CREATED);
}

/// `admin` aggregates `edit`, which aggregates `view`.
#[tokio::test]
async fn a_role_has_the_rules_of_the_roles_that_it_aggregates_through_others() {
    let server = ApiServer::builder().rbac(true).start();
    for (user, writes) in [("admin", true), ("edit", true), ("view", false)] {
        bind(&server, user, user).await;
        let read = ask(&server, user, Method::GET, MAPS, &Value::Null).await;
        assert_eq!(read, 200, "{user} reads");
        let map = json!({ "metadata": { "name": user } });
        let written = ask(&server, user, Method::POST, MAPS, &map).await;
        assert_eq!(written == 201, writes, "{user} writes: {written}");
    }
}

#[tokio::test]
async fn roles_that_aggregate_each_other_cause_no_endless_loop() {
    let server = ApiServer::builder().rbac(true).start();
    for name in ["a", "b"] {
        let role = json!({
            "metadata": { "name": name, "labels": { "test": "cycle" } },
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "test": "cycle" } }] },
        });
        assert_eq!(ask(&server, "", Method::POST, ROLES, &role).await, 201);
    }
    bind(&server, "jane", "a").await;
    assert_eq!(
        ask(&server, "jane", Method::GET, MAPS, &Value::Null).await,
        403
    );
}

/// A field selector names the object of a list, a watch and a delete of a collection, and of
/// nothing else.
#[tokio::test]
async fn a_field_selector_does_not_name_the_object_of_a_create() {
    let server = ApiServer::builder().rbac(true).start();
    let role = json!({
        "metadata": { "name": "mine" },
        "rules": [{
            "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list"],
            "resourceNames": ["mine"],
        }],
    });
    assert_eq!(ask(&server, "", Method::POST, ROLES, &role).await, 201);
    bind(&server, "jane", "mine").await;
    let path = format!("{MAPS}?fieldSelector=metadata.name=mine");
    assert_eq!(
        ask(&server, "jane", Method::GET, &path, &Value::Null).await,
        200
    );
    let map = json!({ "metadata": { "name": "other" } });
    assert_eq!(ask(&server, "jane", Method::POST, &path, &map).await, 403);
}

/// A namespace lies in itself; nothing else that is in no namespace does.
#[tokio::test]
async fn a_binding_in_a_namespace_is_about_this_namespace_alone() {
    let server = ApiServer::builder().rbac(true).start();
    let role = json!({
        "metadata": { "name": "reader" },
        "rules": [{
            "apiGroups": [""], "resources": ["configmaps", "namespaces", "nodes"], "verbs": ["get"],
        }],
    });
    assert_eq!(ask(&server, "", Method::POST, ROLES, &role).await, 201);
    bind(&server, "jane", "reader").await;
    for (path, status) in [
        ("/api/v1/namespaces/default", 200),
        ("/api/v1/namespaces/kube-system", 403),
        ("/api/v1/namespaces/default/configmaps/none", 404),
        ("/api/v1/namespaces/kube-system/configmaps/none", 403),
        ("/api/v1/nodes/default", 403),
    ] {
        let answer = ask(&server, "jane", Method::GET, path, &Value::Null).await;
        assert_eq!(answer, status, "{path}");
    }
}
