//! Lists: selectors, pages, versions and media types.

use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Decision};

mod support;

use support::{answer, client, register, request, widget_definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(server: &ApiServer, collection: &str, body: Value) -> Value {
    let (code, answer) = request(server, Method::POST, collection, Some(&body)).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

async fn maps(server: &ApiServer, names: &[&str]) {
    for name in names {
        create(server, MAPS, json!({ "metadata": { "name": name } })).await;
    }
}

/// The code of the answer, and its list, in short.
async fn list(server: &ApiServer, path: &str) -> (u16, Value, String) {
    let (code, list) = request(server, Method::GET, path, None).await;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let names: Vec<_> = items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap_or_default())
        .collect();
    let names = names.join(" ");
    (code.as_u16(), list, names)
}

#[tokio::test(start_paused = true)]
async fn lists_are_filtered_by_label_and_field_selectors() -> kube::Result<()> {
    let server = ApiServer::new();
    create(
        &server,
        MAPS,
        json!({ "metadata": { "name": "a", "labels": { "tier": "x" } } }),
    )
    .await;
    create(
        &server,
        MAPS,
        json!({ "metadata": { "name": "b", "labels": { "tier": "y" } } }),
    )
    .await;
    maps(&server, &["c"]).await;
    for (query, names) in [
        ("labelSelector=tier", "a b"),
        ("labelSelector=%21tier", "c"),
        ("labelSelector=tier+in+(x,z)", "a"),
        ("labelSelector=tier%21%3Dx", "b c"),
        ("fieldSelector=metadata.name%3Db", "b"),
        ("fieldSelector=metadata.name!%3Db", "a c"),
        ("fieldSelector=metadata.namespace%3Dother", ""),
        ("labelSelector=tier&fieldSelector=metadata.name!%3Db", "a"),
    ] {
        let (code, _, found) = list(&server, &format!("{MAPS}?{query}")).await;
        assert_eq!((code, found.as_str()), (200, names), "{query}");
    }
    let (code, status, _) = list(&server, &format!("{MAPS}?fieldSelector=data.x%3D1")).await;
    assert_eq!(
        (code, &status["message"]),
        (
            400,
            &json!(
                r#""data.x" is not a known field selector: only "metadata.name", "metadata.namespace""#
            )
        )
    );
    assert_eq!(
        list(&server, &format!("{MAPS}?labelSelector=a+b")).await.0,
        400
    );

    let path = "/api/v1/pods?fieldSelector=data.x%3D1";
    let (code, status, _) = list(&server, path).await;
    assert_eq!(
        (code, &status["message"]),
        (400, &json!("field label not supported: data.x"))
    );

    register(&client(&server), widget_definition()).await?;
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    for (name, color) in [("r", "red"), ("g", "green")] {
        let body = json!({
            "apiVersion": "ex.io/v1", "kind": "Widget",
            "metadata": { "name": name }, "spec": { "size": 1, "color": color },
        });
        create(&server, widgets, body).await;
    }
    let (_, _, found) = list(
        &server,
        &format!("{widgets}?fieldSelector=spec.color%3Dred"),
    )
    .await;
    assert_eq!(found, "r", "as the definition says");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_page_shows_the_state_of_the_first() {
    let server = ApiServer::new();
    maps(&server, &["a", "b", "c", "d", "e"]).await;
    let (_, first, names) = list(&server, &format!("{MAPS}?limit=2")).await;
    assert_eq!(names, "a b");
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let token = first["metadata"]["continue"]
        .as_str()
        .expect("there is more")
        .to_owned();

    maps(&server, &["bb"]).await;
    request(&server, Method::DELETE, &format!("{MAPS}/d"), None).await;
    let path = format!("{MAPS}?limit=2&continue={token}");
    let (_, second, names) = list(&server, &path).await;
    assert_eq!(names, "c d", "neither bb, nor without d");
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let last = second["metadata"]["continue"]
        .as_str()
        .expect("there is more");
    let (_, third, names) = list(&server, &format!("{MAPS}?limit=2&continue={last}")).await;
    assert_eq!(
        (names.as_str(), third["metadata"].get("continue")),
        ("e", None)
    );

    assert_eq!(
        list(&server, &format!("{path}&resourceVersion=3")).await.0,
        400
    );
    assert_eq!(
        list(&server, &format!("{MAPS}?continue=nonsense")).await.0,
        400
    );

    server.compact(server.resource_version());
    let (code, gone, _) = list(&server, &path).await;
    assert_eq!((code, &gone["reason"]), (410, &json!("Expired")));
    let fresh = gone["metadata"]["continue"]
        .as_str()
        .expect("a token to continue");
    let (_, _, names) = list(&server, &format!("{MAPS}?limit=2&continue={fresh}")).await;
    assert_eq!(names, "bb c", "from the newest state, behind b");
}

#[tokio::test(start_paused = true)]
async fn a_list_can_request_a_version() {
    let server = ApiServer::new();
    maps(&server, &["a", "b"]).await;
    let then = server.resource_version();
    maps(&server, &["c"]).await;
    let now = server.resource_version();
    for (query, names, version) in [
        (String::new(), "a b c", now),
        ("resourceVersion=0".to_owned(), "a b c", now),
        ("resourceVersion=0&limit=1".to_owned(), "a b c", now),
        (format!("resourceVersion={then}"), "a b c", now),
        (format!("resourceVersion={then}&limit=5"), "a b", then),
        (
            format!("resourceVersion={then}&resourceVersionMatch=Exact"),
            "a b",
            then,
        ),
        (
            format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan"),
            "a b c",
            now,
        ),
    ] {
        let (code, found, names_found) = list(&server, &format!("{MAPS}?{query}")).await;
        assert_eq!((code, names_found.as_str()), (200, names), "{query}");
        assert_eq!(
            found["metadata"]["resourceVersion"],
            version.to_string(),
            "{query}"
        );
    }
    let (code, status, _) = list(&server, &format!("{MAPS}?resourceVersion=999")).await;
    assert_eq!(code, 504);
    assert_eq!(
        status["message"],
        format!("Timeout: Too large resource version: 999, current: {now}")
    );
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    server.compact(now);
    let query = format!("resourceVersion={then}&resourceVersionMatch=Exact");
    assert_eq!(list(&server, &format!("{MAPS}?{query}")).await.0, 410);
    assert_eq!(
        list(&server, &format!("{MAPS}?resourceVersion=x")).await.0,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_future_version_waits_for_it() {
    let server = ApiServer::new();
    let version = server.resource_version() + 1;
    let path = format!("{MAPS}?resourceVersion={version}");
    let (found, ()) = tokio::join!(list(&server, &path), maps(&server, &["a"]));
    assert_eq!((found.0, found.2.as_str()), (200, "a"));
}

#[tokio::test(start_paused = true)]
async fn list_items_have_a_kind_only_where_kubernetes_sends_it() -> kube::Result<()> {
    let server = ApiServer::new();
    let (_, empty, _) = list(&server, MAPS).await;
    assert_eq!(
        (&empty["kind"], &empty["items"]),
        (&json!("ConfigMapList"), &json!([]))
    );
    maps(&server, &["a"]).await;
    assert_eq!(list(&server, MAPS).await.1["items"][0].get("kind"), None);

    register(&client(&server), widget_definition()).await?;
    let body = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget",
        "metadata": { "name": "w" }, "spec": { "size": 1 },
    });
    create(&server, "/apis/ex.io/v1/namespaces/default/widgets", body).await;
    let (_, widgets, _) = list(&server, "/apis/ex.io/v1/widgets").await;
    assert_eq!(widgets["kind"], "WidgetList");
    assert_eq!(widgets["items"][0]["kind"], "Widget");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_accepted_media_type() {
    let server = ApiServer::new();
    maps(&server, &["a"]).await;
    for (accept, code, kind) in [
        ("application/json", 200, "ConfigMapList"),
        (
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            200,
            "PartialObjectMetadataList",
        ),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", 200, "Table"),
        ("application/cbor", 406, "Status"),
    ] {
        let request = Request::get(MAPS)
            .header("accept", accept)
            .body(Full::default());
        let (parts, body) = answer(&server, request.expect("a request")).await;
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            (parts.status.as_u16(), body["kind"].as_str()),
            (code, Some(kind)),
            "{accept}"
        );
        assert!(parts.headers.contains_key("x-windlass-apiserver"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_authorizer_receives_rbac_attributes() {
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = asked.clone();
    let server = ApiServer::builder()
        .authorize(move |request| {
            let line = format!(
                "{} {} {:?} {:?} {:?}",
                request.verb,
                request.resource,
                request.subresource,
                request.namespace,
                request.name
            );
            log.lock().expect("no test panics with it").push(line);
            if request.resource == "secrets" {
                Decision::Deny
            } else {
                Decision::Allow
            }
        })
        .start();
    let path = "/api/v1/namespaces/default/secrets?watch=1";
    let (code, status) = request(&server, Method::GET, path, None).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "secrets is forbidden: User \"system:admin\" cannot watch resource \"secrets\" in API \
         group \"\" in the namespace \"default\""
    );
    list(&server, &format!("{MAPS}?fieldSelector=metadata.name%3Dx")).await;
    request(
        &server,
        Method::PATCH,
        "/api/v1/namespaces/n/status",
        Some(&json!({})),
    )
    .await;
    assert_eq!(
        *asked.lock().expect("no test panics with it"),
        [
            r#"watch secrets "" "default" """#,
            r#"list configmaps "" "default" "x""#,
            r#"patch namespaces "status" "n" "n""#,
        ]
    );
}
