//! Tests of watches over a WebSocket. The expected bytes are the response of kube-apiserver v1.36.3 to
//! the same request.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use windlass_apiserver::{ApiServer, Listening};

mod support;

use support::request;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The key of the example in RFC 6455, and the answer to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ANSWER: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// No test hangs for longer.
const LIMIT: Duration = Duration::from_secs(60);

/// A connection, and the head of the response.
async fn open(port: &Listening, path: &str, headers: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(port.addr()).await.expect("it listens");
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("it reads");
    let mut response = Vec::new();
    let read = async {
        while !response.ends_with(b"\r\n\r\n") {
            response.push(stream.read_u8().await.expect("a response"));
        }
    };
    timeout(LIMIT, read).await.expect("a response in time");
    let response = String::from_utf8(response).expect("text");
    (stream, response.to_ascii_lowercase())
}

/// The next message: its opcode and its content.
async fn message(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let read = read_message(stream);
    timeout(LIMIT, read).await.expect("a message in time")
}

async fn read_message(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let first = stream.read_u8().await.expect("a frame");
    assert_eq!(first & 0x80, 0x80, "each message is one frame");
    let length = match stream.read_u8().await.expect("a length") {
        126 => u64::from(stream.read_u16().await.expect("a length")),
        127 => stream.read_u64().await.expect("a length"),
        length => u64::from(length),
    };
    let mut content = vec![0; usize::try_from(length).expect("it fits")];
    stream.read_exact(&mut content).await.expect("content");
    (first & 0x0f, content)
}

async fn server() -> (ApiServer, Listening) {
    let server = ApiServer::new();
    let map = json!({ "metadata": { "name": "a" } });
    request(&server, Method::POST, MAPS, Some(&map)).await;
    let port = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    (server, port)
}

#[tokio::test]
async fn each_event_of_a_watch_is_a_message_and_the_end_closes_the_connection() {
    let (server, port) = server().await;
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let (mut stream, head) = open(&port, &watch, "Origin: http://localhost\r\n").await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let answer = format!("sec-websocket-accept: {}", ANSWER.to_ascii_lowercase());
    assert!(head.contains(&answer), "{head}");

    for name in ["a", "b"] {
        if name == "b" {
            let map = json!({ "metadata": { "name": "b" }, "data": { "t": "x".repeat(100_000) } });
            request(&server, Method::POST, MAPS, Some(&map)).await;
        }
        let (opcode, content) = message(&mut stream).await;
        let event: Value = serde_json::from_slice(&content).expect("JSON");
        assert_eq!(
            (opcode, content.last()),
            (1, Some(&b'\n')),
            "a text with the end of its line"
        );
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!(name))
        );
    }
    server.close_watches();
    assert_eq!(
        message(&mut stream).await,
        (8, vec![0x03, 0xe8]),
        "closed normally"
    );
    drop(stream);
    // It waits for the task of the watch.
    port.stop().await;
}

#[tokio::test]
async fn a_watch_in_protobuf_is_sent_as_bytes() {
    let (_server, port) = server().await;
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let headers = "Origin: http://localhost\r\nAccept: application/vnd.kubernetes.protobuf\r\n";
    let (mut stream, _) = open(&port, &watch, headers).await;
    let (opcode, content) = message(&mut stream).await;
    assert_eq!(
        (opcode, &content[..7]),
        (2, &b"\n\x05ADDED"[..]),
        "without a length before it"
    );
}

#[tokio::test]
async fn a_watch_ends_when_the_client_closes_the_connection() {
    let (_server, port) = server().await;
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let (mut stream, _) = open(&port, &watch, "Origin: http://localhost\r\n").await;
    message(&mut stream).await;
    // A frame that closes, masked with zeros.
    stream
        .write_all(&[0x88, 0x80, 0, 0, 0, 0])
        .await
        .expect("it reads");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("the end");
    assert_eq!(rest.first(), Some(&0x88), "the answer");
}

#[tokio::test]
async fn requests_other_than_watches_are_answered_without_a_websocket() {
    let (_server, port) = server().await;
    let origin = "Origin: http://localhost\r\n";
    for (path, headers, code) in [
        (format!("{MAPS}/a"), origin, "200"),
        (MAPS.to_owned(), origin, "200"),
        (
            format!("{MAPS}?watch=true&resourceVersion=x"),
            origin,
            "500",
        ),
        // Go's library wants to know where a browser comes from.
        (format!("{MAPS}?watch=true"), "", "403"),
        // A page of another site, which the real server lets in.
        (
            format!("{MAPS}?watch=true"),
            "Origin: http://pages.example\r\n",
            "403",
        ),
    ] {
        let (_, head) = open(&port, &path, headers).await;
        assert!(
            head.starts_with(&format!("http/1.1 {code} ")),
            "{path}: {head}"
        );
    }
}
