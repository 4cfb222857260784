//! Raw write requests: rejected writes, responses, and unchanged fields.

use std::sync::{Arc, OnceLock};

use futures::FutureExt as _;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Decision};

mod support;

use support::{answer, client, register, request, widget_definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn create(server: &ApiServer, collection: &str, body: &Value) -> Value {
    let (code, answer) = request(server, Method::POST, collection, Some(body)).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

#[tokio::test(start_paused = true)]
async fn an_error_is_a_status_object() {
    let server = ApiServer::new();
    let (code, status) = request(&server, Method::GET, &format!("{MAPS}/a"), None).await;
    assert_eq!(code, 404);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "configmaps \"a\" not found", "reason": "NotFound", "code": 404,
            "details": { "name": "a", "kind": "configmaps" },
        })
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_is_plain_text_or_a_404_status() {
    let server = ApiServer::new();
    for path in ["/nowhere", "/apis/ex.io/v1/widgets", "/apis/ex.io"] {
        let request = Request::get(path).body(Full::default()).expect("a request");
        let (parts, body) = answer(&server, request).await;
        assert_eq!(
            (parts.status.as_u16(), &*body),
            (404, &b"404 page not found\n"[..]),
            "{path}"
        );
    }
    for path in [
        "/api/v1/widgets",
        "/api/v1/configmaps/a",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/configmaps/a/status",
    ] {
        let (code, status) = request(&server, Method::GET, path, None).await;
        assert_eq!(code, 404, "{path}");
        let message = "the server could not find the requested resource";
        assert_eq!(
            status["message"], message,
            "{path}: where there are built-in kinds"
        );
    }
    let (code, status) = request(&server, Method::PUT, MAPS, Some(&json!({}))).await;
    assert_eq!(
        (code.as_u16(), status["reason"].as_str()),
        (405, Some("MethodNotAllowed"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_must_fit_its_url() {
    let server = ApiServer::new();
    create(&server, MAPS, &named("a")).await;
    let path = format!("{MAPS}/a");
    for (method, path, body) in [
        (
            Method::POST,
            MAPS,
            json!({ "apiVersion": "apps/v1", "metadata": { "name": "b" } }),
        ),
        (
            Method::POST,
            MAPS,
            json!({ "kind": "Secret", "metadata": { "name": "b" } }),
        ),
        (
            Method::POST,
            MAPS,
            json!({ "metadata": { "name": "b", "namespace": "other" } }),
        ),
        (
            Method::POST,
            MAPS,
            json!({ "metadata": { "name": "b", "labels": { "a": 1 } } }),
        ),
        (Method::POST, MAPS, json!([])),
        (
            Method::POST,
            MAPS,
            json!({ "metadata": { "name": "b" }, "data": { "port": 80 } }),
        ),
        (Method::PUT, path.as_str(), named("b")),
    ] {
        let (code, status) = request(&server, method, path, Some(&body)).await;
        assert_eq!(
            (code.as_u16(), status["reason"].as_str()),
            (400, Some("BadRequest")),
            "{body}"
        );
    }
    for (content_type, body, code) in [
        ("application/json", "{", 400),
        ("application/vnd.kubernetes.protobuf", "k8s", 400),
        ("application/x-unknown", "{}", 415),
        ("application/yaml", "metadata: {name: from-yaml}", 201),
        ("application/yaml", ": :", 400),
    ] {
        let request = Request::post(MAPS).header("content-type", content_type);
        let request = request
            .body(Full::from(body.as_bytes()))
            .expect("a request");
        assert_eq!(
            answer(&server, request).await.0.status.as_u16(),
            code,
            "{body}"
        );
    }
    let large = json!({ "metadata": { "name": "b" }, "data": { "a": "x".repeat(3 << 20) } });
    assert_eq!(
        request(&server, Method::POST, MAPS, Some(&large)).await.0,
        413
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_needs_a_resource_version_where_kubernetes_requires_it() -> kube::Result<()> {
    let server = ApiServer::new();
    create(&server, MAPS, &named("a")).await;
    let body = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
    let path = format!("{MAPS}/a");
    assert_eq!(
        request(&server, Method::PUT, &path, Some(&body)).await.0,
        200
    );
    assert_eq!(
        request(
            &server,
            Method::PUT,
            &format!("{MAPS}/b"),
            Some(&named("b"))
        )
        .await
        .0,
        404
    );

    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    create(&server, leases, &named("l")).await;
    let (code, status) = request(
        &server,
        Method::PUT,
        &format!("{leases}/l"),
        Some(&named("l")),
    )
    .await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: \
         0: must be specified for an update"
    );
    register(&client(&server), widget_definition()).await?;
    let widget = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget",
        "metadata": { "name": "w" }, "spec": { "size": 1 },
    });
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    create(&server, widgets, &widget).await;
    let path = format!("{widgets}/w");
    assert_eq!(
        request(&server, Method::PUT, &path, Some(&widget)).await.0,
        422
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn identity_does_not_change() {
    let server = ApiServer::new();
    let created = create(&server, MAPS, &named("a")).await;
    let path = format!("{MAPS}/a");
    let other = json!({ "metadata": { "name": "a", "uid": "other" } });
    let (code, status) = request(&server, Method::PUT, &path, Some(&other)).await;
    assert_eq!(code, 409);
    assert!(status["message"].as_str().is_some_and(|message| {
        message.contains("Precondition failed: UID in precondition: other, UID in object meta: ")
    }));
    let dying = json!({ "metadata": { "deletionTimestamp": "2001-01-01T00:00:00Z" } });
    let (code, status) = request(&server, Method::PATCH, &path, Some(&dying)).await;
    assert_eq!(code, 422);
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|m| m.ends_with("field is immutable"))
    );
    let older = json!({ "metadata": { "creationTimestamp": "2001-01-01T00:00:00Z" } });
    let (code, _) = request(&server, Method::PATCH, &path, Some(&older)).await;
    assert_eq!(code, 200, "the creation time in a patch is ignored");
    let renamed = json!({ "metadata": { "name": "b" } });
    assert_eq!(
        request(&server, Method::PATCH, &path, Some(&renamed))
            .await
            .0,
        400
    );
    let (_, read) = request(&server, Method::GET, &path, None).await;
    assert_eq!(read, created);
}

#[tokio::test(start_paused = true)]
async fn an_update_without_changes_is_not_written() {
    let server = ApiServer::new();
    let created = create(&server, MAPS, &named("a")).await;
    let version = server.resource_version();
    let path = format!("{MAPS}/a");
    request(&server, Method::PUT, &path, Some(&created)).await;
    request(
        &server,
        Method::PATCH,
        &path,
        Some(&json!({ "metadata": { "labels": {} } })),
    )
    .await;
    assert_eq!(server.resource_version(), version);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_answered_without_a_write() {
    let server = ApiServer::new();
    let version = server.resource_version();
    let path = format!("{MAPS}?dryRun=All");
    let (code, shown) = request(&server, Method::POST, &path, Some(&named("a"))).await;
    assert_eq!(
        (code.as_u16(), shown["metadata"]["name"].as_str()),
        (201, Some("a"))
    );
    assert_eq!(server.resource_version(), version);

    create(&server, MAPS, &named("a")).await;
    let version = server.resource_version();
    let path = format!("{MAPS}/a?dryRun=All");
    let change = json!({ "data": { "k": "v" } });
    let (_, shown) = request(&server, Method::PATCH, &path, Some(&change)).await;
    assert_eq!(shown["data"]["k"], "v");
    assert_eq!(request(&server, Method::DELETE, &path, None).await.0, 200);
    assert_eq!(server.resource_version(), version);
    assert_eq!(
        request(
            &server,
            Method::POST,
            &format!("{MAPS}?dryRun=x"),
            Some(&change)
        )
        .await
        .0,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_can_have_preconditions() {
    let server = ApiServer::new();
    let created = create(&server, MAPS, &named("a")).await;
    let path = format!("{MAPS}/a");
    let other = json!({ "preconditions": { "uid": "other" } });
    let (code, status) = request(&server, Method::DELETE, &path, Some(&other)).await;
    assert_eq!(
        (code.as_u16(), status["reason"].as_str()),
        (409, Some("Conflict"))
    );
    let stale = json!({ "preconditions": { "resourceVersion": "1" } });
    assert_eq!(
        request(&server, Method::DELETE, &path, Some(&stale))
            .await
            .0,
        409
    );
    let policy = json!({ "propagationPolicy": "Sometime" });
    assert_eq!(
        request(&server, Method::DELETE, &path, Some(&policy))
            .await
            .0,
        422
    );

    let uid = &created["metadata"]["uid"];
    let meant = json!({ "preconditions": { "uid": uid }, "propagationPolicy": "Background" });
    let (code, status) = request(&server, Method::DELETE, &path, Some(&meant)).await;
    assert_eq!(code, 200);
    assert_eq!(status["status"], "Success");
    assert_eq!(
        status["details"],
        json!({ "name": "a", "kind": "configmaps", "uid": uid })
    );
    assert_eq!(request(&server, Method::DELETE, &path, None).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_selector() {
    let server = ApiServer::new();
    for (name, tier) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let body = json!({ "metadata": { "name": name, "labels": { "tier": tier } } });
        create(&server, MAPS, &body).await;
    }
    let path = format!("{MAPS}?labelSelector=tier%3Dx");
    let (code, gone) = request(&server, Method::DELETE, &path, None).await;
    assert_eq!(
        (code.as_u16(), gone["kind"].as_str()),
        (200, Some("ConfigMapList"))
    );
    assert_eq!(gone["items"].as_array().map(Vec::len), Some(2));
    let (_, left) = request(&server, Method::GET, MAPS, None).await;
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_in_both_groups() {
    let server = ApiServer::new();
    let body = json!({
        "metadata": { "name": "e" }, "note": "hello", "reason": "Said",
        "regarding": { "kind": "Pod", "name": "p" }, "type": "Normal", "action": "Say",
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "ex.io/c", "reportingInstance": "c-0",
    });
    create(
        &server,
        "/apis/events.k8s.io/v1/namespaces/default/events",
        &body,
    )
    .await;
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp";
    let (_, list) = request(&server, Method::GET, path, None).await;
    assert_eq!(list["items"][0]["message"], "hello");
    assert_eq!(list["items"][0]["involvedObject"]["kind"], "Pod");
    let path = "/apis/events.k8s.io/v1/namespaces/default/events/e";
    let (_, event) = request(&server, Method::GET, path, None).await;
    assert_eq!(
        (&event["apiVersion"], &event["note"]),
        (&json!("events.k8s.io/v1"), &json!("hello"))
    );
}

/// A deployment of the name `d`.
fn deployment() -> Value {
    json!({
        "metadata": { "name": "d" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "c", "image": "example.com/c:1" }] },
            },
        },
    })
}

#[tokio::test(start_paused = true)]
async fn an_omitted_default_is_no_change() {
    let server = ApiServer::new();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let body = deployment();
    let created = create(&server, deployments, &body).await;
    assert_eq!(created["spec"]["replicas"], 1);
    let (_, updated) = request(
        &server,
        Method::PUT,
        &format!("{deployments}/d"),
        Some(&body),
    )
    .await;
    assert_eq!(updated, created);
}

#[tokio::test(start_paused = true)]
async fn the_generation_counts_changes_of_the_spec() {
    let server = ApiServer::new();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let mut body = deployment();
    body["status"] = json!({ "replicas": 3 });
    let created = create(&server, deployments, &body).await;
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(
        created["status"],
        json!({}),
        "the status is not for the creator to say"
    );
    let path = format!("{deployments}/d");
    for (part, change, generation) in [
        ("", json!({ "metadata": { "labels": { "a": "b" } } }), 1),
        ("", json!({ "spec": { "paused": true } }), 2),
        (
            "/status",
            json!({ "status": { "replicas": 1 }, "spec": { "paused": false } }),
            2,
        ),
        (
            "",
            json!({ "metadata": { "generation": 9, "finalizers": ["ex.io/a"] } }),
            2,
        ),
        (
            "",
            json!({ "metadata": { "annotations": { "rollout": "1" } } }),
            3,
        ),
    ] {
        let path = format!("{path}{part}");
        let (_, changed) = request(&server, Method::PATCH, &path, Some(&change)).await;
        assert_eq!(changed["metadata"]["generation"], generation, "{change}");
    }
    let (_, dying) = request(&server, Method::DELETE, &path, None).await;
    assert_eq!(dying["metadata"]["generation"], 4);
}

/// Applies a configuration.
async fn apply(server: &ApiServer, path: &str, config: &Value) -> (u16, Value) {
    let request = Request::patch(format!("{path}?fieldManager=me"))
        .header("content-type", "application/apply-patch+yaml")
        .body(Full::from(config.to_string()))
        .expect("a request");
    let (parts, body) = answer(server, request).await;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    (parts.status.as_u16(), body)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_creates_needs_the_right_to_create() {
    let server = ApiServer::builder()
        .authorize(|request| {
            let is_create = request.verb == "create" && request.name == "new";
            if is_create {
                Decision::Deny
            } else {
                Decision::Allow
            }
        })
        .start();
    create(&server, MAPS, &named("old")).await;
    let map = |name: &str, data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
    let new = format!("{MAPS}/new");
    let (code, status) = apply(&server, &new, &map("new", json!({}))).await;
    assert_eq!(code, 403, "{status}");
    assert_eq!(
        status["message"],
        "configmaps \"new\" is forbidden: User \"system:admin\" cannot create resource \
         \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    // The errors of the object are reported first, as on the real server.
    let (code, _) = apply(&server, &new, &map("new", json!({ "/": "" }))).await;
    assert_eq!(code, 422);
    let (code, _) = request(&server, Method::GET, &new, None).await;
    assert_eq!(code, 404);
    let (code, _) = apply(
        &server,
        &format!("{MAPS}/old"),
        &map("old", json!({ "a": "b" })),
    )
    .await;
    assert_eq!(code, 200, "nothing is created");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for (name, expected) in [("new", 403), ("other", 201)] {
        let path = format!("{leases}/{name}");
        let (code, _) = request(&server, Method::PUT, &path, Some(&named(name))).await;
        assert_eq!(code, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_not_stored_after_its_definition_was_deleted() {
    let server = Arc::new(OnceLock::<ApiServer>::new());
    let definition = format!(
        "{DEFINITIONS}/{}",
        widget_definition()["metadata"]["name"]
            .as_str()
            .expect("a name")
    );
    let (handle, path) = (server.clone(), definition.clone());
    let started = ApiServer::builder()
        .authorize(move |attributes| {
            // Between the look-up of the resource and the write.
            if attributes.verb == "create" && attributes.resource == "widgets" {
                let server = handle.get().expect("it has started");
                let gone = request(server, Method::DELETE, &path, None).now_or_never();
                assert!(gone.is_some_and(|(code, _)| code == 200));
            }
            Decision::Allow
        })
        .start();
    let server = server.get_or_init(|| started);
    create(server, DEFINITIONS, &widget_definition()).await;
    let config = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": { "size": 1 },
    });
    let widget = "/apis/ex.io/v1/namespaces/default/widgets/a";
    let (code, body) = apply(server, widget, &config).await;
    assert_eq!(code, 404, "{body}");
    let tables = server.objects().into_iter().map(|(table, _)| table);
    assert_eq!(
        tables.filter(|table| table.starts_with("widgets")).count(),
        0
    );
}

#[tokio::test]
async fn an_object_is_limited_by_its_size_in_etcd() {
    let server = ApiServer::new();
    let definition = support::widget_definition();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    request(&server, Method::POST, definitions, Some(&definition)).await;
    let path = "/apis/ex.io/v1/namespaces/default/widgets";
    let too_large = "etcdserver: request is too large";
    for (text, size, code, message) in [
        ("x", 3 << 19, 500, too_large),
        ("x", (3 << 19) - 1024, 201, ""),
        (
            "x",
            2 << 20,
            500,
            "rpc error: code = ResourceExhausted desc = trying to send message larger",
        ),
        // Go writes it with six characters.
        ("<", 1 << 18, 500, too_large),
        ("<", (1 << 18) - 256, 201, ""),
    ] {
        let widget = json!({
            "apiVersion": "ex.io/v1", "kind": "Widget", "metadata": { "name": format!("w{size}") },
            "spec": { "size": 1, "color": text.repeat(size) },
        });
        let (found, body) = request(&server, Method::POST, path, Some(&widget)).await;
        assert_eq!(found.as_u16(), code, "{size}");
        let found = body["message"].as_str().unwrap_or_default();
        assert!(found.starts_with(message), "{size}: {found}");
    }
}
