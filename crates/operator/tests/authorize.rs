//! Scrapes that the API server authorizes.

use std::{
    convert::Infallible,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use windlass_operator::{AdminServer, Operator};

/// Scrapes with these tokens, and checks the status of each response.
async fn check(client: Client, scrapes: &[(Option<&str>, u16)]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = AdminServer::new(listener).authorize_metrics(client);
    let operator = Operator::builder().admin_server(server).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    for (token, status) in scrapes {
        // At most ten reviews per second are sent.
        sleep(Duration::from_millis(150)).await;
        assert_eq!(get(address, "/metrics", *token).await, *status, "{token:?}");
    }
    assert_eq!(
        get(address, "/live", None).await,
        200,
        "probes need no token"
    );
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn only_a_token_that_is_valid_and_allowed_reads_the_metrics() {
    let asked = Arc::new(AtomicUsize::new(0));
    let scrapes = [
        (None, 401),
        (Some("unknown"), 401),
        (Some("known"), 403),
        (Some("prometheus"), 200),
        (Some("prometheus"), 200),
        (Some("known"), 403),
    ];
    check(api_server(&asked), &scrapes).await;
    // The reviews of three tokens, one of them invalid. The last two scrapes used cached decisions.
    assert_eq!(asked.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn metrics_are_refused_while_the_api_server_makes_no_decision() {
    let refuses = tower::service_fn(|_: http::Request<Body>| async {
        let mut answer = http::Response::new(Full::from("token: canary"));
        *answer.status_mut() = http::StatusCode::FORBIDDEN;
        Ok::<_, Infallible>(answer)
    });
    check(
        Client::new(refuses, "default"),
        &[(Some("prometheus"), 503)],
    )
    .await;
    let garbled = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::from("<html>")))
    });
    check(
        Client::new(garbled, "default"),
        &[(Some("prometheus"), 503)],
    )
    .await;
}

#[tokio::test]
async fn reviews_of_unknown_tokens_are_rate_limited() {
    let asked = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = AdminServer::new(listener).authorize_metrics(api_server(&asked));
    let operator = Operator::builder().admin_server(server).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    let tokens: Vec<_> = (0..50).map(|number| format!("invented-{number}")).collect();
    let scrapes = tokens.iter().map(|it| get(address, "/metrics", Some(it)));
    let answers = futures::future::join_all(scrapes).await;
    assert!(answers.contains(&429), "{answers:?}");
    assert!(
        answers.iter().all(|it| matches!(it, 401 | 429)),
        "{answers:?}"
    );
    assert!(asked.load(Ordering::SeqCst) < 25, "{asked:?}");
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// Responds to reviews: the tokens `known` and `prometheus` are valid, and `prometheus` is allowed.
fn api_server(asked: &Arc<AtomicUsize>) -> Client {
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        asked.fetch_add(1, Ordering::SeqCst);
        async move {
            let path = request.uri().path().to_owned();
            let body = request
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes();
            let mut review: Value = serde_json::from_slice(&body).expect("JSON");
            review["status"] = if path.ends_with("/tokenreviews") {
                let name = review["spec"]["token"]
                    .as_str()
                    .expect("a token")
                    .to_owned();
                let valid = ["known", "prometheus"].contains(&&*name);
                json!({ "authenticated": valid, "user": { "username": name } })
            } else {
                let spec = &review["spec"];
                let attributes = json!({ "path": "/metrics", "verb": "get" });
                assert_eq!(spec["nonResourceAttributes"], attributes);
                json!({ "allowed": spec["user"] == "prometheus" })
            };
            let answer = serde_json::to_vec(&review).expect("JSON");
            Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::from(answer)))
        }
    });
    Client::new(service, "default")
}

async fn get(address: SocketAddr, path: &str, token: Option<&str>) -> u16 {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let token = token.map_or_else(String::new, |it| format!("authorization: Bearer {it}\r\n"));
    let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{token}\r\n");
    stream
        .write_all(head.as_bytes())
        .await
        .expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}
