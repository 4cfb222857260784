//! The wait for installed definitions, while the API server fails or does not respond.

use std::{
    future::pending,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_controller::{InstallError, install_crds};

const TIMEOUT: Duration = Duration::from_secs(5);

/// How the API server responds to one request.
#[derive(Clone, Copy)]
enum Answer {
    Code(u16),
    Body(bool),
    Disconnects,
    Hangs,
}

/// Installs a definition at a server that answers the requests with `answers`, the last one again and
/// again. The result, and the time that it took.
async fn install(answers: &'static [Answer]) -> (Result<(), String>, Duration) {
    let asked = Arc::<AtomicUsize>::default();
    let service = tower::service_fn(move |_: Request<Body>| {
        let index = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let answer = answers[index];
        async move {
            let (code, body) = match answer {
                Answer::Code(code) => (code, status(code)),
                Answer::Body(is_served) => (200, definition(is_served)),
                Answer::Disconnects => return Err(io::Error::other("connection reset")),
                Answer::Hangs => pending().await,
            };
            let mut response = Response::new(Full::<Bytes>::from(body.to_string()));
            *response.status_mut() = StatusCode::from_u16(code).expect("a status");
            Ok(response)
        }
    });
    let mut definition = CustomResourceDefinition::default();
    definition.metadata.name = Some("shops.example.io".to_owned());
    let client = Client::new(service, "default");
    let began = Instant::now();
    let installed = install_crds(&client, [definition], TIMEOUT).await;
    let installed = installed.map_err(|error| match error {
        InstallError::NotServed { .. } => error.to_string(),
        other => format!("{other:?}"),
    });
    (installed, began.elapsed())
}

fn status(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "" };
    let message = match code {
        403 => r#"User "u" cannot get resource "customresourcedefinitions" at the cluster scope"#,
        _ => "an error",
    };
    json!({ "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": reason })
}

fn definition(is_served: bool) -> Value {
    let is_served = if is_served { "True" } else { "False" };
    let condition = |name| json!({ "type": name, "status": is_served, "message": "not yet" });
    json!({ "status": { "conditions": [condition("NamesAccepted"), condition("Established")] } })
}

/// The read before the write finds nothing.
const FIRST: Answer = Answer::Code(404);
const WRITTEN: Answer = Answer::Body(false);

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_does_not_end_the_wait() {
    for failure in [
        Answer::Code(429),
        Answer::Code(503),
        Answer::Disconnects,
        Answer::Code(404),
    ] {
        let answers = vec![
            FIRST,
            WRITTEN,
            failure,
            Answer::Body(false),
            failure,
            Answer::Body(true),
        ];
        let (installed, took) = install(answers.leak()).await;
        installed.expect("it is served");
        assert!(took < TIMEOUT, "{took:?}");
    }
    // Waiting helps nothing.
    let (refused, took) = install(&[FIRST, WRITTEN, Answer::Code(403)]).await;
    let refused = refused.expect_err("forbidden");
    assert!(refused.contains("Forbidden"), "{refused}");
    assert!(took < TIMEOUT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_includes_requests_without_a_response() {
    let cases: [(&'static [Answer], &str); 5] = [
        (&[Answer::Hangs], "the API server has not responded"),
        (&[FIRST, Answer::Hangs], "the API server has not responded"),
        (
            &[FIRST, WRITTEN, Answer::Hangs],
            "the API server has not responded",
        ),
        (&[FIRST, WRITTEN, Answer::Code(503), Answer::Hangs], "503"),
        (
            &[FIRST, WRITTEN, Answer::Body(false)],
            "NamesAccepted is not true: not yet",
        ),
    ];
    for (answers, reason) in cases {
        let (error, took) = install(answers).await;
        let error = error.expect_err("it is not served");
        assert!(
            error.starts_with("timed out after 5s waiting for"),
            "{error}"
        );
        assert!(error.contains(reason), "{error}");
        assert!(took >= TIMEOUT && took < TIMEOUT + TIMEOUT / 10, "{took:?}");
    }
}
