//! The requests of finalizers over kube's clients, and what is kept of a refusal.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Node},
    rbac::v1::ClusterRole,
};
use kube::{Api, Client, client::Body, core::Status};
use serde_json::{Value, json};
use windlass_controller::{FinalizerError, FinalizerName, FinalizerPatch, Finalizers, PatchClient};
use windlass_informer::{ErrorChain, ObjectKey};

const OWN: &str = "example.io/own";
const SECRET: &str = "hunter2";

/// A client whose requests get the response of `answer`, and the requests so far.
fn client(
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + 'static,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let requests = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let line = format!("{} {}", request.method(), request.uri().path());
        let (code, body) = answer(&line);
        requests.lock().expect("no panic").push(line);
        let mut response = Response::new(Full::<Bytes>::from(body.to_string()));
        *response.status_mut() = StatusCode::from_u16(code).expect("a status");
        async move { Ok::<_, Infallible>(response) }
    });
    (Client::new(service, "default"), asked)
}

#[tokio::test]
async fn an_api_without_a_namespace_uses_that_of_the_object() {
    let (client, asked) = client(|_| (200, json!({ "metadata": { "name": "web" } })));
    let inside = ObjectKey::new("web").within("shop");
    let all = Api::<ConfigMap>::all(client.clone());
    PatchClient::get(&all, &inside).await.expect("an object");
    let same = Api::<ConfigMap>::namespaced(client.clone(), "shop");
    PatchClient::get(&same, &inside).await.expect("an object");
    let nodes = Api::<Node>::all(client.clone());
    let outside = ObjectKey::new("web");
    PatchClient::get(&nodes, &outside).await.expect("an object");
    assert_eq!(
        *asked.lock().expect("no panic"),
        [
            "GET /api/v1/namespaces/shop/configmaps/web",
            "GET /api/v1/namespaces/shop/configmaps/web",
            "GET /api/v1/nodes/web",
        ]
    );
}

/// Otherwise the answer is 404, as if the object were deleted.
#[tokio::test]
async fn an_api_of_another_namespace_is_an_error_that_names_both() {
    let (client, asked) = client(|_| (200, json!({ "metadata": { "name": "web" } })));
    let other = Api::<ConfigMap>::namespaced(client, "other");
    let inside = ObjectKey::new("web").within("shop");
    let patch = FinalizerPatch::empty();
    let patched = PatchClient::patch(&other, &inside, &patch).await;
    for refused in [PatchClient::get(&other, &inside).await, patched] {
        let refused = refused.expect_err("another namespace");
        assert_eq!(
            ErrorChain::new(&refused).to_string(),
            "ServiceError: the finalizers of shop/web cannot be written with an `Api` of the namespace \
             `other`; create the `Finalizers` with `Api::all`"
        );
    }
    assert_eq!(*asked.lock().expect("no panic"), [""; 0]);
}

/// Names of RBAC objects can have all characters except `/` and `%`.
#[tokio::test]
async fn a_name_is_encoded_as_one_segment_of_the_path() {
    let (client, asked) = client(|_| (200, json!({ "metadata": { "name": "web" } })));
    let roles = Api::<ClusterRole>::all(client);
    for name in ["q?x=1", "h#y", "a b", "ü", "system:node@1"] {
        let key = ObjectKey::new(name);
        PatchClient::get(&roles, &key).await.expect("an object");
        let patched = PatchClient::patch(&roles, &key, &FinalizerPatch::empty()).await;
        patched.expect("an object");
    }
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let expected = ["q%3Fx=1", "h%23y", "a%20b", "%C3%BC", "system:node@1"]
        .map(|name| [format!("GET {path}/{name}"), format!("PATCH {path}/{name}")]);
    assert_eq!(*asked.lock().expect("no panic"), expected.concat());
}

/// The manager of the fields is the domain of the finalizer.
#[tokio::test]
async fn a_patch_names_its_writer_and_a_read_does_not() {
    let metadata = json!({ "name": "web", "uid": "u", "finalizers": [OWN] });
    let queries = Arc::<Mutex<Vec<String>>>::default();
    let asked = Arc::clone(&queries);
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let line = format!("{} {query}", request.method());
        asked.lock().expect("no panic").push(line);
        let body = match request.uri().path() {
            "/api/v1/nodes" => json!({ "metadata": {}, "items": [{ "metadata": metadata }] }),
            _ if request.method() == "PATCH" => {
                json!({ "metadata": { "name": "web", "uid": "u" } })
            }
            _ => json!({ "metadata": metadata }),
        };
        async move { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(body.to_string()))) }
    });
    let client = Client::new(service, "default");
    let name = FinalizerName::new(OWN).expect("a name");
    let api = Api::<Node>::all(client.clone());
    let of_client = Finalizers::<Node>::new(client, name.clone()).expect("a finalizer");
    let of_api = Finalizers::<Node>::new(api.clone(), name).expect("a finalizer");
    for finalizers in [of_client, of_api] {
        let found = finalizers.unwatched(&api, |_| false).await.expect("a list");
        let released = finalizers.release_unwatched(&found[0]).await;
        assert!(released.expect("it is processed"));
        let queries = std::mem::take(&mut *queries.lock().expect("no panic"));
        assert_eq!(queries[1..], ["GET ", "PATCH fieldManager=example.io"]);
    }
}

/// The refusal of a request with `code` and with this demanded wait.
async fn refusal(code: u16, wait: Value) -> Status {
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": SECRET,
        "reason": "Refused",
        "code": code,
        "details": {
            "causes": [{ "reason": "FieldValueInvalid", "message": SECRET, "field": "spec.a" }],
            "retryAfterSeconds": wait,
        },
    });
    let (client, _) = client(move |_| (code, body.clone()));
    let read: Result<ConfigMap, _> = PatchClient::get(&client, &ObjectKey::new("web")).await;
    match read.expect_err("it is refused") {
        kube::Error::Api(status) => *status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_refusal_that_may_quote_the_object_is_kept_without_its_message() {
    for (code, message) in [
        (400, SECRET),
        (403, SECRET),
        (409, SECRET),
        (422, ""),
        (499, SECRET),
        (500, ""),
        (503, ""),
    ] {
        let refused = refusal(code, Value::Null).await;
        assert_eq!((refused.code, &*refused.message), (code, message));
        assert_eq!(refused.reason, "Refused");
        let causes = refused.details.expect("details").causes;
        assert_eq!(causes.len(), 1);
        assert_eq!((&*causes[0].field, &*causes[0].message), ("spec.a", ""));
    }
}

#[tokio::test]
async fn a_demanded_wait_is_rounded_up_to_seconds_and_limited() {
    for (wait, seconds) in [
        (Value::Null, 0),
        (json!(0), 0),
        (json!(20), 20),
        (json!(1.5), 2),
        (json!(299.5), 300),
        (json!(86_400), 300),
    ] {
        let refused = refusal(429, wait.clone()).await;
        let details = refused.details.clone().expect("details");
        assert_eq!(details.retry_after_seconds, seconds, "{wait}");
        let error = FinalizerError::Write {
            change: windlass_controller::FinalizerChange::Add,
            finalizer: FinalizerName::new(OWN).expect("a name"),
            key: ObjectKey::new("web"),
            source: kube::Error::Api(Box::new(refused)),
        };
        let expected = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        assert_eq!(error.retry_after(), expected, "{wait}");
    }
}

#[test]
fn a_finalizer_name_is_a_string() {
    let name = FinalizerName::new(OWN).expect("a name");
    assert_eq!(AsRef::<str>::as_ref(&name), OWN);
}

/// Whether the object exists is in the response to the patch.
#[tokio::test]
async fn the_release_of_an_unwatched_object_shows_whether_it_still_existed() {
    for (code, reason, existed) in [(200, "", true), (404, "NotFound", false)] {
        let metadata = json!({
            "name": "web",
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": "7",
            "finalizers": [OWN],
        });
        let (client, asked) = client(move |line| match line {
            "GET /api/v1/configmaps" => {
                let item = json!({ "metadata": metadata });
                (200, json!({ "metadata": {}, "items": [item] }))
            }
            line if line.starts_with("PATCH") && code != 200 => {
                (code, json!({ "code": code, "reason": reason }))
            }
            line if line.starts_with("PATCH") => {
                let released = json!({ "name": "web", "namespace": "shop", "uid": "u" });
                (200, json!({ "metadata": released }))
            }
            _ => (200, json!({ "metadata": metadata })),
        });
        let name = FinalizerName::new(OWN).expect("a name");
        let finalizers = Finalizers::<ConfigMap>::new(client.clone(), name).expect("a finalizer");
        let found = finalizers.unwatched(&Api::all(client), |_| false).await;
        let found = found.expect("a list");
        assert_eq!(found.len(), 1);
        let released = finalizers.release_unwatched(&found[0]).await;
        assert_eq!(released.expect("it is processed"), existed);
        let asked = asked.lock().expect("no panic");
        assert_eq!(
            asked[1..],
            [
                "GET /api/v1/namespaces/shop/configmaps/web",
                "PATCH /api/v1/namespaces/shop/configmaps/web",
            ]
        );
    }
}
