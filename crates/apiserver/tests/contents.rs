//! The initial objects of namespaces, the conditions during their deletion, and deeply nested
//! lists.

mod support;

use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use support::{answer, request};

const NAMESPACES: &str = "/api/v1/namespaces";

async fn get(server: &ApiServer, path: &str) -> (StatusCode, Value) {
    request(server, Method::GET, path, None).await
}

async fn create_namespace(server: &ApiServer, name: &str) {
    let namespace = json!({ "metadata": { "name": name } });
    let (code, _) = request(server, Method::POST, NAMESPACES, Some(&namespace)).await;
    assert_eq!(code, 201);
}

#[tokio::test]
async fn a_namespace_has_no_initial_objects_by_default() {
    let server = ApiServer::new();
    for resource in ["serviceaccounts", "configmaps"] {
        let (_, list) = get(&server, &format!("{NAMESPACES}/default/{resource}")).await;
        assert_eq!(list["items"], json!([]));
    }
}

#[tokio::test]
async fn the_initial_objects_of_a_namespace_are_recreated() {
    let server = ApiServer::builder().namespace_contents(true).start();
    create_namespace(&server, "late").await;
    for namespace in ["default", "kube-system", "late"] {
        let account = format!("{NAMESPACES}/{namespace}/serviceaccounts/default");
        let map = format!("{NAMESPACES}/{namespace}/configmaps/kube-root-ca.crt");
        let (_, certificate) = get(&server, &map).await;
        let pem = certificate["data"]["ca.crt"].as_str().expect("a text");
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
        let manager = &certificate["metadata"]["managedFields"][0]["manager"];
        assert_eq!(manager, "kube-controller-manager");
        for path in [&account, &map] {
            let (_, before) = get(&server, path).await;
            let (code, _) = request(&server, Method::DELETE, path, None).await;
            assert_eq!(code, 200);
            let (code, after) = get(&server, path).await;
            assert_eq!(code, 200, "{path}");
            assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
        }
        let change = json!({ "data": { "ca.crt": "mine", "more": "x" } });
        request(&server, Method::PATCH, &map, Some(&change)).await;
        let (_, restored) = get(&server, &map).await;
        assert_eq!(restored["data"], json!({ "ca.crt": pem }));
    }
}

#[tokio::test]
async fn the_initial_objects_of_a_namespace_are_deleted_with_it() {
    let server = ApiServer::builder().namespace_contents(true).start();
    create_namespace(&server, "a").await;
    let path = format!("{NAMESPACES}/a");
    request(&server, Method::DELETE, &path, None).await;
    assert_eq!(get(&server, &path).await.0, 404);
    let left = server.objects().into_iter();
    let left = left.filter(|(_, object)| object["metadata"]["namespace"] == "a");
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn the_conditions_of_a_terminating_namespace_state_its_remaining_contents() {
    let server = ApiServer::new();
    create_namespace(&server, "a").await;
    let maps = format!("{NAMESPACES}/a/configmaps");
    for (name, finalizers) in [
        ("x", json!(["ex.io/hold"])),
        ("y", json!(["ex.io/hold", "ex.io/b"])),
    ] {
        let map = json!({ "metadata": { "name": name, "finalizers": finalizers } });
        request(&server, Method::POST, &maps, Some(&map)).await;
    }
    let namespace = format!("{NAMESPACES}/a");
    request(&server, Method::DELETE, &namespace, None).await;
    let conditions = async || {
        let (_, object) = get(&server, &namespace).await;
        let list = object["status"]["conditions"].as_array().cloned();
        let list = list.expect("conditions").into_iter();
        let conditions = list.map(|it| {
            let text = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
            (text("type"), text("status"), text("message"))
        });
        conditions.collect::<Vec<_>>()
    };
    let condition = |kind: &str, status: &str, message: &str| {
        (kind.to_owned(), status.to_owned(), message.to_owned())
    };
    let found = conditions().await;
    assert_eq!(found.len(), 5);
    assert!(
        found[..3].iter().all(|(_, status, _)| status == "False"),
        "{found:?}"
    );
    let remaining = "Some resources are remaining: configmaps. has 2 resource instances";
    assert_eq!(
        found[3],
        condition("NamespaceContentRemaining", "True", remaining)
    );
    let finalizers = "Some content in the namespace has finalizers remaining: ex.io/b in 1 resource \
                      instances, ex.io/hold in 2 resource instances";
    assert_eq!(
        found[4],
        condition("NamespaceFinalizersRemaining", "True", finalizers)
    );

    let free = json!({ "metadata": { "finalizers": null } });
    request(&server, Method::PATCH, &format!("{maps}/y"), Some(&free)).await;
    let remaining = "Some resources are remaining: configmaps. has 1 resource instances";
    assert_eq!(conditions().await[3].2, remaining);
    request(&server, Method::PATCH, &format!("{maps}/x"), Some(&free)).await;
    assert_eq!(get(&server, &namespace).await.0, 404);
}

#[tokio::test]
async fn a_namespace_is_removed_after_its_contents_with_any_policy() {
    for policy in ["Foreground", "Orphan", "Background"] {
        let server = ApiServer::new();
        create_namespace(&server, "a").await;
        let map = json!({ "metadata": { "name": "x" } });
        request(
            &server,
            Method::POST,
            &format!("{NAMESPACES}/a/configmaps"),
            Some(&map),
        )
        .await;
        let path = format!("{NAMESPACES}/a");
        let options = json!({ "propagationPolicy": policy });
        request(&server, Method::DELETE, &path, Some(&options)).await;
        assert_eq!(get(&server, &path).await.0, 404, "{policy}");
    }
}

#[tokio::test]
async fn an_object_that_nests_deeply_is_listed_as_yaml() {
    let server = ApiServer::new();
    support::register(&support::client(&server), support::widget_definition())
        .await
        .expect("a definition");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.io";
    let open = json!([{
        "op": "add",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-preserve-unknown-fields",
        "value": true,
    }]);
    let patch = Request::patch(definitions)
        .header("content-type", "application/json-patch+json")
        .body(Full::from(open.to_string()))
        .expect("a request");
    assert_eq!(answer(&server, patch).await.0.status, 200);
    // With the object and its spec, as deep as a body may nest.
    let deep = (0..124).fold(json!(1), |inner, _| json!([inner]));
    let widget = json!({ "apiVersion": "ex.io/v1", "kind": "Widget", "metadata": { "name": "w" },
        "spec": { "size": 1, "deep": deep } });
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    let (code, created) = request(&server, Method::POST, widgets, Some(&widget)).await;
    assert_eq!(code, 201, "{created}");
    for path in [widgets.to_owned(), format!("{widgets}/w")] {
        let get = Request::get(&path)
            .header("accept", "application/yaml")
            .body(Full::default())
            .expect("a request");
        let (parts, body) = answer(&server, get).await;
        assert_eq!(parts.headers["content-type"], "application/yaml", "{path}");
        assert!(String::from_utf8_lossy(&body).contains("name: w"));
    }
}

#[tokio::test]
async fn a_body_in_yaml_that_nests_too_deeply_is_refused() {
    let server = ApiServer::new();
    let maps = format!("{NAMESPACES}/default/configmaps");
    // A reader without a limit would take hours for the last one.
    for depth in [200, 10_000, 500_000] {
        for text in [
            "[".repeat(depth),
            format!("\n{}", "- ".repeat(depth)),
            "{a: ".repeat(depth),
        ] {
            let post = Request::post(&maps)
                .header("content-type", "application/yaml")
                .body(Full::from(format!("metadata: {text}")))
                .expect("a request");
            let (parts, _) = answer(&server, post).await;
            assert_eq!(parts.status, 400, "{depth}");
        }
    }
}

#[tokio::test]
async fn a_long_body_in_yaml_is_read() {
    let server = ApiServer::new();
    let filler = (0..2_000).fold(String::new(), |text, at| {
        text + &format!("    k{at}: \"v\"\n")
    });
    let widget = format!(
        "apiVersion: ex.io/v1\nkind: Widget\nmetadata:\n  name: w # [[[\n  annotations:\n    a: 'it''s'\n    \
         b: |\n      [[[ {{{{{{ \"\n{filler}spec: {{size: 1}}\n"
    );
    support::register(&support::client(&server), support::widget_definition())
        .await
        .expect("a definition");
    let post = Request::post("/apis/ex.io/v1/namespaces/default/widgets")
        .header("content-type", "application/yaml")
        .body(Full::from(widget))
        .expect("a request");
    let (parts, body) = answer(&server, post).await;
    assert_eq!(parts.status, 201, "{body:?}");
    let created: Value = serde_json::from_slice(&body).expect("JSON");
    let annotations = &created["metadata"]["annotations"];
    assert_eq!(annotations["a"], "it's");
    assert_eq!(annotations["b"], "[[[ {{{ \"\n");
    assert_eq!(annotations["k1999"], "v");
}
