//! Webhooks, called without a socket.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::{DeserializeGuard, Status, admission::AdmissionRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_operator::{
    AdmissionError, Conversion, Denied, Operator, OperatorError, Route as _, RouteError,
    WebhookServer, http::Request,
};

const SECRET: &str = "hunter2";

#[tokio::test]
async fn no_content_of_an_object_is_logged() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_target(false)
        .with_ansi(false)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let webhooks = server()
        .validate("/deny", |request: AdmissionRequest<ConfigMap>| async move {
            Err::<(), _>(Denied::new(format!("{:?}", request.object)))
        })
        .and_then(|it| {
            it.validate("/fail", |_: AdmissionRequest<ConfigMap>| async {
                let status = Status::failure(SECRET, "Invalid").with_code(422);
                Err::<(), AdmissionError>(kube::Error::Api(status.boxed()).into())
            })
        })
        .and_then(|it| it.convert("/convert", Conversion::<ConfigMap>::new()))
        .expect("different paths");
    let object = config(&json!({ "key": SECRET }));
    let (status, denied) = post(&webhooks, "/deny", &review(&object, &Value::Null)).await;
    assert!(status == 200 && denied.contains("403"), "{denied}");
    let undecodable = config(&json!({ "key": [SECRET] }));
    let (status, denied) = post(&webhooks, "/deny", &review(&undecodable, &Value::Null)).await;
    assert!(status == 200 && denied.contains("data.key: "), "{denied}");
    assert!(!denied.contains(SECRET), "{denied}");
    let (status, failed) = post(&webhooks, "/fail", &review(&object, &Value::Null)).await;
    assert!(status == 500 && !failed.contains(SECRET), "{failed}");
    let conversion = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": { "uid": "1", "desiredAPIVersion": "v2", "objects": [undecodable] },
    });
    let (status, failed) = post(&webhooks, "/convert", &conversion).await;
    assert!(
        status == 200 && failed.contains("cannot convert ConfigMap ns/blog from v1 to v2"),
        "{failed}"
    );
    let mut lengthy = undecodable.clone();
    lengthy["metadata"]["name"] = "x\n".repeat(100_000).into();
    let mut other = conversion.clone();
    other["request"]["objects"] = json!([lengthy, lengthy]);
    post(&webhooks, "/convert", &other).await;
    let log = log.text();
    assert!(log.contains("an admission webhook failed"), "{log}");
    // One for each review.
    assert_eq!(log.matches("WARN a conversion failed").count(), 2, "{log}");
    assert!(
        log.contains("object=\"ns/blog\" from=\"v1\" to=\"v2\""),
        "{log}"
    );
    assert!(log.len() < 4096 && !log.contains(SECRET), "{log}");
}

/// A delete has no object that the webhook could change.
#[tokio::test]
async fn a_mutating_webhook_allows_the_delete_of_an_object_that_does_not_decode() {
    let webhooks = server()
        .mutate("/mutate", |it: ConfigMap, _| async { Ok::<_, Denied>(it) })
        .expect("a path");
    let (good, bad) = (config(&json!({})), config(&json!(7)));
    for (object, old, is_allowed) in [
        (&Value::Null, &bad, true),
        (&good, &bad, false),
        (&bad, &good, false),
    ] {
        let (_, answer) = post(&webhooks, "/mutate", &review(object, old)).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["response"]["allowed"], is_allowed, "{answer}");
    }
}

/// Objects that were stored before a change of the type can be deleted and corrected.
#[tokio::test]
async fn a_handler_can_decide_about_objects_that_do_not_decode() {
    let webhooks = server()
        .validate(
            "/check",
            |request: AdmissionRequest<DeserializeGuard<ConfigMap>>| async move {
                match request.object {
                    Some(DeserializeGuard(Err(error))) => Err(Denied::new(error)),
                    _ => Ok("unchecked"),
                }
            },
        )
        .expect("a path");
    let (good, bad) = (config(&json!({})), config(&json!(7)));
    for (object, old, is_allowed) in [
        (&Value::Null, &bad, true),
        (&good, &bad, true),
        (&bad, &good, false),
    ] {
        let (_, answer) = post(&webhooks, "/check", &review(object, old)).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["response"]["allowed"], is_allowed, "{answer}");
        assert_eq!(
            answer["response"]["warnings"][0] == "unchecked",
            is_allowed,
            "{answer}"
        );
    }
}

/// `serde_json` reads at most 128 levels. A field that the type does not have may have more.
#[tokio::test]
async fn an_object_with_more_levels_than_are_read_is_denied_and_named() {
    #[derive(kube::CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.io", version = "v1", kind = "Tree", namespaced)]
    struct TreeSpec {
        #[serde(default)]
        tree: Value,
    }

    let allow = |_: AdmissionRequest<Tree>| async { Ok::<_, Denied>(()) };
    let allow_config = |_: AdmissionRequest<ConfigMap>| async { Ok::<_, Denied>(()) };
    let webhooks = server()
        .validate("/tree", allow)
        .and_then(|it| it.validate("/config", allow_config))
        .and_then(|it| it.mutate("/keep", |it: ConfigMap, _| async { Ok::<_, Denied>(it) }))
        .and_then(|it| {
            it.mutate("/change", |mut it: ConfigMap, _| async {
                it.immutable = Some(true);
                Ok::<_, Denied>(it)
            })
        })
        .and_then(|it| it.convert("/convert", Conversion::<Tree>::new()))
        .expect("different paths");
    let deep = |text: &str| {
        let levels = format!("{}{}", "[".repeat(200), "]".repeat(200));
        text.replace("\"deep\"", &levels)
    };
    let tree = json!({
        "apiVersion": "example.io/v1",
        "kind": "Tree",
        "metadata": { "name": "oak", "namespace": "ns" },
        "spec": { "tree": "deep" },
    });
    let mut map = config(&json!({}));
    map["unknown"] = "deep".into();
    for (path, object, is_allowed) in [
        ("/tree", &tree, false),
        ("/config", &map, true),
        ("/keep", &map, true),
        ("/change", &map, false),
    ] {
        let review = deep(&review(object, &Value::Null).to_string());
        let (status, answer) = post_text(&webhooks, path, review).await;
        assert_eq!(status, 200, "{path}: {answer}");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let response = &answer["response"];
        assert_eq!(response["allowed"], is_allowed, "{path}: {answer}");
        if !is_allowed {
            assert_eq!(response["status"]["code"], 400, "{path}: {answer}");
        }
    }
    let conversion = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": { "uid": "1", "desiredAPIVersion": "example.io/v2", "objects": [tree] },
    });
    let (status, failed) = post_text(&webhooks, "/convert", deep(&conversion.to_string())).await;
    assert!(
        status == 200 && failed.contains("cannot convert Tree ns/oak from example.io/v1"),
        "{failed}"
    );
}

#[tokio::test]
async fn the_log_lines_of_a_handler_are_in_a_span_that_names_the_object() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let webhooks = server()
        .validate("/check", |_: AdmissionRequest<ConfigMap>| async {
            tracing::info!("checked");
            Ok::<_, Denied>(())
        })
        .and_then(|it| {
            it.mutate("/change", |_: ConfigMap, _| async {
                tracing::info!("changed");
                Err::<ConfigMap, AdmissionError>(AdmissionError::Failed("no".into()))
            })
        })
        .expect("different paths");
    let review = review(&config(&json!({})), &Value::Null);
    for (path, lines) in [
        ("/check", &["checked"][..]),
        ("/change", &["changed", "an admission webhook failed"]),
    ] {
        post(&webhooks, path, &review).await;
        for line in lines {
            let text = log.text();
            let found = text.lines().find(|it| it.contains(line));
            let span = format!(
                "webhook{{webhook=\"{path}\" uid=\"1\" kind=\"ConfigMap\" object=ns/blog}}"
            );
            assert!(found.is_some_and(|it| it.contains(&span)), "{line}: {text}");
        }
    }
}

/// The definitions of kubebuilder have one path for all kinds.
#[tokio::test]
async fn kinds_share_the_path_of_a_conversion() {
    let webhooks = server()
        .convert("/convert", Conversion::<ConfigMap>::new())
        .and_then(|it| it.convert("/convert", Conversion::<Secret>::new()))
        .expect("different kinds");
    let object =
        |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "blog" } });
    let converted = json!([object("ConfigMap"), object("Secret")]);
    let pod = json!([object("Pod")]);
    let failure = "cannot convert Pod blog from v1 to v2: this webhook converts ConfigMap, Secret";
    for (objects, desired, expected) in [
        (&converted, "v1", "\"Success\""),
        (
            &json!([object("ConfigMap")]),
            "v2",
            "ConfigMap blog from v1 to v2: this webhook has",
        ),
        (
            &json!([object("Secret")]),
            "v2",
            "Secret blog from v1 to v2: this webhook has",
        ),
        (&pod, "v2", failure),
    ] {
        let conversion = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": { "uid": "1", "desiredAPIVersion": desired, "objects": objects },
        });
        let (status, answer) = post(&webhooks, "/convert", &conversion).await;
        assert!(status == 200 && answer.contains(expected), "{answer}");
    }
    let twice = webhooks.convert("/convert", Conversion::<Secret>::new());
    assert!(matches!(twice, Err(RouteError::Taken { path }) if path == "/convert"));
    let other = server()
        .validate("/a", |_: AdmissionRequest<ConfigMap>| async {
            Ok::<_, Denied>(())
        })
        .and_then(|it| it.convert("/a", Conversion::<Secret>::new()));
    assert!(matches!(other, Err(RouteError::Taken { .. })));
}

#[tokio::test]
async fn a_path_has_one_webhook_and_others_are_not_found() {
    let allow = |_: AdmissionRequest<ConfigMap>| async { Ok::<_, Denied>(()) };
    let webhooks = server().validate("/a", allow).expect("a path");
    let (status, text) = post(&webhooks, "/b", &json!({})).await;
    assert_eq!((status, &*text), (404, "not found; this port serves /a\n"));
    let taken = webhooks.mutate("/a", |it: ConfigMap, _| async { Ok::<_, Denied>(it) });
    assert!(matches!(taken, Err(RouteError::Taken { path }) if path == "/a"));
    let no_path = server().convert("a", Conversion::<ConfigMap>::new());
    assert!(matches!(no_path, Err(RouteError::NoPath { .. })));
}

#[tokio::test]
async fn a_server_without_its_certificate_does_not_start() {
    let operator = Operator::builder().webhook_server(server()).build();
    let error = operator.run_until(CancellationToken::new()).await;
    match error.expect_err("there is no file") {
        OperatorError::Webhooks { source } => {
            assert!(source.to_string().contains("tls.crt"), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

/// A server that does not run.
fn server() -> WebhookServer {
    WebhookServer::new(([127, 0, 0, 1], 0), "tls.crt", "tls.key")
}

fn config(data: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "blog", "namespace": "ns" },
        "data": data,
    })
}

fn review(object: &Value, old: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": { "group": "", "version": "v1", "kind": "ConfigMap" },
            "resource": { "group": "", "version": "v1", "resource": "configmaps" },
            "name": "blog",
            "namespace": "ns",
            "operation": "UPDATE",
            "userInfo": {},
            "object": object,
            "oldObject": old,
        },
    })
}

async fn post(webhooks: &WebhookServer, path: &str, review: &Value) -> (u16, String) {
    post_text(webhooks, path, review.to_string()).await
}

async fn post_text(webhooks: &WebhookServer, path: &str, review: String) -> (u16, String) {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(review.into())
        .expect("a request");
    let response = webhooks.answer(request).await;
    let status = response.status().as_u16();
    let text = String::from_utf8(response.into_body().to_vec());
    (status, text.expect("text"))
}

/// The lines of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("text")
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
