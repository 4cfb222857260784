//! Responses to finalizer writes must not bring contents of objects into the log.

use std::{
    convert::Infallible,
    fmt::{self, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, client::Body};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use windlass_controller::{
    ExponentialBackoff, Failure, FinalizerName, Finalizers, InformerController,
    OpinionatedReconciler, Outcome, Request as Call,
};
use windlass_informer::{ErrorChain, Informer, Scripted};

const CANARY: &str = "hunter2-canary";

/// Everything that is logged, at every level, spans included.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

/// A scripted response.
#[derive(Clone)]
struct Answer {
    status: u16,
    body: String,
}

/// The responses to the requests of a finalizer.
#[derive(Clone)]
struct Script {
    patch: Answer,
    get: Answer,
}

#[tokio::test(start_paused = true)]
async fn responses_to_finalizer_writes_are_logged_without_contents_of_objects() {
    let object = object().to_string();
    let undecodable = [
        object
            .replace("\"value\"", "7")
            .replace("{\"k\":7}", &format!("[\"{CANARY}\"]")),
        object.replace('}', ""),
        CANARY.to_owned(),
        String::new(),
    ];
    for status in [
        400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504,
    ] {
        for body in [refusal(status), CANARY.repeat(10_000)] {
            let refused = Answer { status, body };
            let conflict = Answer {
                status: 409,
                body: refusal(409),
            };
            check(Script {
                patch: refused.clone(),
                get: refused.clone(),
            })
            .await;
            check(Script {
                patch: conflict,
                get: refused,
            })
            .await;
        }
    }
    for body in undecodable {
        let garbled = Answer { status: 200, body };
        let conflict = Answer {
            status: 409,
            body: refusal(409),
        };
        check(Script {
            patch: garbled.clone(),
            get: garbled.clone(),
        })
        .await;
        check(Script {
            patch: conflict,
            get: garbled,
        })
        .await;
    }
}

/// The list of unwatched objects is read in pages of metadata; a release reads the object and
/// patches it.
#[tokio::test(start_paused = true)]
async fn responses_to_requests_for_unwatched_objects_are_logged_without_contents_of_objects() {
    let mut held = object();
    held["metadata"]["finalizers"] = json!(["example.io/publisher"]);
    held["metadata"]["annotations"] = json!({ "password": CANARY });
    let whole = json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": { "resourceVersion": "7" }, "items": [held],
    });
    let answer = |status, body: String| Answer { status, body };
    let list = answer(200, whole.to_string());
    let get = answer(200, held.to_string());
    let garbled = |text: &str| {
        [
            answer(
                200,
                text.replace(&format!("\"{CANARY}\""), &format!("[\"{CANARY}\"]")),
            ),
            answer(200, text.replace('}', "")),
            answer(200, CANARY.to_owned()),
        ]
    };
    let refused = [400, 401, 403, 409, 410, 413, 422, 429, 500, 502, 503, 504]
        .into_iter()
        .flat_map(|status| {
            let bodies = [refusal(status), CANARY.repeat(10_000)];
            bodies.map(|body| answer(status, body))
        });
    let refused: Vec<_> = refused.collect();
    let failed = |text: &str| {
        refused
            .iter()
            .cloned()
            .chain(garbled(text))
            .collect::<Vec<_>>()
    };
    for bad in failed(&list.body) {
        check_unwatched([bad, get.clone(), get.clone()], "list").await;
    }
    for bad in failed(&get.body) {
        check_unwatched([list.clone(), bad.clone(), get.clone()], "release").await;
        check_unwatched([list.clone(), get.clone(), bad], "release").await;
    }
}

/// Lists unwatched objects and releases them, where the list, the requests for an object, and the
/// patches have these `answers`. Logs the error, which must be one of `step`.
async fn check_unwatched(answers: [Answer; 3], step: &str) {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let status = answers.each_ref().map(|it| it.status);
    let service = tower::service_fn(move |request: Request<Body>| {
        let [list, get, patch] = &answers;
        let is_list = request.uri().path().ends_with("/configmaps");
        let answer = match *request.method() {
            Method::PATCH => patch,
            _ if is_list => list,
            _ => get,
        };
        let mut response = Response::new(Full::from(answer.body.clone()));
        *response.status_mut() = StatusCode::from_u16(answer.status).expect("a status");
        async { Ok::<_, Infallible>(response) }
    });
    let client = Client::new(service, "default");
    let name = FinalizerName::new("example.io/publisher").expect("a name");
    let finalizers = Finalizers::<ConfigMap>::new(client.clone(), name).expect("valid");
    let failed: (&str, Box<dyn std::error::Error>) =
        match finalizers.unwatched(&Api::all(client), |_| false).await {
            Err(error) => ("list", Box::new(error)),
            Ok(found) => {
                assert_eq!(found.len(), 1);
                let released = finalizers.release_unwatched(&found[0]).await;
                ("release", Box::new(released.expect_err("it fails")))
            }
        };
    let (at, error) = failed;
    assert_eq!(at, step, "{status:?}: {error}");
    tracing::error!(error = %ErrorChain::new(&*error), "cannot release unwatched objects");
    let logged = log.0.lock().expect("no panic").clone();
    assert!(
        logged.contains("cannot release unwatched objects"),
        "{logged}"
    );
    assert!(!logged.contains(CANARY), "{status:?}: {logged}");
    let longest = logged.lines().map(str::len).max();
    assert!(longest < Some(2500), "{longest:?}: {logged}");
}

/// A refusal says what is missing.
#[tokio::test(start_paused = true)]
async fn a_forbidden_finalizer_write_names_the_missing_permission() {
    let refused = Answer {
        status: 403,
        body: refusal(403),
    };
    let log = check(Script {
        patch: refused.clone(),
        get: refused,
    })
    .await;
    let hint = "cannot patch configmaps default/web for finalizer example.io/publisher: forbidden; \
                a Role or ClusterRole must grant `get` and `patch` on configmaps: \
                the API server answered 403 Forbidden (configmaps \"web\" is forbidden: ";
    assert!(log.contains(hint), "{log}");
    assert!(!log.contains("Status {"), "{log}");
}

/// Kubernetes itself allows line breaks and any length in names of some kinds, such as `ClusterRole`.
#[tokio::test(start_paused = true)]
async fn a_call_is_logged_in_one_short_line_whatever_name_uid_and_version_its_object_has() {
    for strange in ["a\nFORGED".to_owned(), "F".repeat(1024 * 1024)] {
        let log = Log::default();
        let _guard = tracing::subscriber::set_default(log.clone());
        let controller = InformerController::builder()
            .retry_policy(ExponentialBackoff::new(Duration::from_secs(1), 2))
            .on_exhausted(|_| async { panic!("exhausted") })
            .build()
            .expect("valid settings");
        let (objects, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::new(source);
        let configs = controller.kind("configs").expect("a new kind");
        (controller.add_informer(&configs, &informer)).expect("new");
        let fails = |_: Call<ConfigMap>| async { Err::<Outcome, _>(fmt::Error) };
        controller.add_reconciler(&configs, fails).expect("a name");
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        let mut object = ConfigMap::default();
        object.metadata.name = Some(strange.clone());
        object.metadata.namespace = Some(strange.clone());
        object.metadata.uid = Some(strange.clone());
        object.metadata.resource_version = Some(strange);
        objects.list(vec![object]).await.expect("it runs");
        // Longer than all retries.
        sleep(Duration::from_secs(60)).await;
        stop.cancel();
        let ended = timeout(Duration::from_secs(60), run).await;
        ended.expect("it ends").expect("no panic").expect("well");
        let logged = log.0.lock().expect("no panic").clone();
        let parts = [
            "controller-event-add",
            "controller-retry",
            "retries exhausted",
            "panicked",
        ];
        for part in parts {
            assert!(logged.contains(part), "{part}: {logged:.9999}");
        }
        assert!(
            !logged.lines().any(|line| line.starts_with("FORGED")),
            "{logged}"
        );
        let longest = logged.lines().map(str::len).max();
        assert!(longest < Some(2000), "{longest:?}");
    }
}

/// Runs a reconciler with a finalizer against `script`, and returns what was logged, without a
/// canary.
async fn check(script: Script) -> String {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let answer = script.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let Answer { status, body } = match *request.method() {
            Method::PATCH => answer.patch.clone(),
            _ => answer.get.clone(),
        };
        async move {
            let mut answer = Response::new(Full::from(body));
            *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
            Ok::<_, Infallible>(answer)
        }
    });
    let name = FinalizerName::new("example.io/publisher").expect("a name");
    let finalizers = Finalizers::<ConfigMap>::new(Client::new(service, "default"), name);
    let reconciler = |_: Call<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
    let reconciler = OpinionatedReconciler::new(finalizers.expect("valid"), reconciler);
    let (objects, source) = Scripted::<ConfigMap>::new();
    let controller = InformerController::builder()
        .retry_policy(ExponentialBackoff::new(Duration::from_secs(1), 2))
        .build()
        .expect("valid settings");
    let configs = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs, &Informer::new(source))
        .expect("new");
    controller
        .add_reconciler(&configs, reconciler)
        .expect("a name");
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    let object = serde_json::from_value(object()).expect("a config map");
    objects.list(vec![object]).await.expect("it runs");
    // Longer than all of its retries.
    sleep(Duration::from_secs(60)).await;
    stop.cancel();
    timeout(Duration::from_secs(60), run)
        .await
        .expect("it ends")
        .expect("no panic")
        .expect("well");
    let logged = log.0.lock().expect("no panic").clone();
    assert!(
        !logged.contains(CANARY),
        "{}: {logged}",
        script.patch.status
    );
    let longest = logged.lines().map(str::len).max();
    assert!(longest < Some(2500), "{longest:?}: {logged}");
    logged
}

fn object() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1" },
        "data": { "k": "value" },
    })
}

/// A refusal in the words of the API server: 422 and 5xx can quote the object in the message.
/// Others quote it only in details, or at the end of the message.
fn refusal(code: u16) -> String {
    let quotes = code == 422 || code >= 500;
    let message = if quotes {
        format!("data[k]: Invalid value: \"{CANARY}\"")
    } else {
        format!(
            "configmaps \"web\" is forbidden: {}{CANARY}",
            "why not? ".repeat(50)
        )
    };
    let cause = json!({ "field": "data[k]", "reason": "FieldValueInvalid", "message": CANARY });
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": if code == 403 { "Forbidden" } else { "Other" }, "message": message,
        "details": { "name": CANARY, "causes": [cause] },
    })
    .to_string()
}

// === impl Log ===

impl Log {
    fn line(&self, what: &str, fields: impl FnOnce(&mut dyn Visit)) {
        struct Line<'a>(&'a mut String);

        impl Visit for Line<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                _ = write!(self.0, " {field}={value:?}");
            }

            fn record_str(&mut self, field: &Field, value: &str) {
                _ = write!(self.0, " {field}={value}");
            }
        }

        let mut log = self.0.lock().expect("no panic");
        log.push_str(what);
        fields(&mut Line(&mut log));
        log.push('\n');
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.line(span.metadata().name(), |line| span.record(line));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        self.line("record", |line| values.record(line));
    }

    fn event(&self, event: &Event<'_>) {
        let level = event.metadata().level().to_string();
        self.line(&level, |line| event.record(line));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
