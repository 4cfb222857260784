//! An HTTP server for the metrics of a registry, and a client that reads them.

use std::{convert::Infallible, net::SocketAddr};

use http::{Response, StatusCode, header::CONTENT_TYPE};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::Error;

/// The printed metrics. The page has more.
const SHOWN: [&str; 8] = [
    "informer_events_total",
    "reconciler_errors_total",
    "watcher_errors_total",
    "retries_exhausted_total",
    "pending_retries",
    "workqueue_retries_total",
    "controller_runtime_reconcile_total",
    "reconciler_process_duration_seconds_count",
];

/// Serves the metrics of `registry` on a free port, which it returns.
pub(crate) async fn serve(registry: Registry) -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let registry = registry.clone();
            let answer = service_fn(move |request: http::Request<Incoming>| {
                let response = answer(request.uri().path(), &registry);
                async move { Ok::<_, Infallible>(response) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), answer));
        }
    });
    Ok(address)
}

fn answer(path: &str, registry: &Registry) -> Response<String> {
    let respond = |status, text| {
        let mut response = Response::new(text);
        *response.status_mut() = status;
        response
    };
    if path != "/metrics" {
        return respond(
            StatusCode::NOT_FOUND,
            "not found; the metrics are at /metrics\n".to_owned(),
        );
    }
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(text) => {
            let mut response = respond(StatusCode::OK, text);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(TEXT_FORMAT));
            response
        }
        Err(error) => respond(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Reads the page `/metrics`, as Prometheus does.
pub(crate) async fn get(address: SocketAddr) -> Result<String, Error> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    match response.split_once("\r\n\r\n") {
        Some((head, text)) if head.starts_with("HTTP/1.1 200") => Ok(text.to_owned()),
        _ => Err(format!("unexpected response of /metrics: {response}").into()),
    }
}

/// Prints the series of [`SHOWN`] in `text` that are not zero, and `pending_retries` in any case.
pub(crate) fn print(text: &str) {
    let series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for name in SHOWN {
        for line in &series {
            let is_named = line.split(['{', ' ']).next() == Some(name);
            if is_named && (!line.ends_with(" 0") || name == "pending_retries") {
                println!("  {line}");
            }
        }
    }
    println!("  and others: {} series in total", series.len());
}
