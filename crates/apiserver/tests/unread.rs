//! Watches over a port that no client reads. In a binary of its own, because it measures the
//! memory of the process.

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use windlass_apiserver::ApiServer;

mod support;

use support::request;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCHES: usize = 100;

/// The resident memory of this process, in bytes; nothing where the system does not say.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Writes 6 MB of config maps, more than the kernel takes for a connection, and gives the
/// server time to send them.
async fn write(server: &ApiServer, prefix: &str) {
    for number in 0..1_600 {
        let map = json!({
            "metadata": { "name": format!("{prefix}-{number}") },
            "data": { "text": "x".repeat(3_500) },
        });
        let (code, _) = request(server, Method::POST, MAPS, Some(&map)).await;
        assert_eq!(code, 201);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn watches_that_are_never_read_hold_a_bounded_number_of_bytes() {
    let server = ApiServer::new();
    let port = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let Some(start) = resident() else {
        println!("not run: this system does not tell the memory of a process");
        return;
    };
    write(&server, "before").await;
    // What the objects and their history take.
    let objects = resident().unwrap_or_default().saturating_sub(start);

    let from = server.resource_version();
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let socket = TcpSocket::new_v4().expect("a socket");
        // The kernel is to take little, so that the server has to keep the rest.
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let mut stream = socket.connect(port.addr()).await.expect("a connection");
        let head = format!("GET {MAPS}?watch=1&resourceVersion={from} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("it listens");
        // The first byte says that the watch runs.
        let mut first = [0];
        stream.read_exact(&mut first).await.expect("an answer");
        watches.push(stream);
    }
    let before = resident().unwrap_or_default();
    write(&server, "after").await;
    let grown = resident().unwrap_or_default().saturating_sub(before);
    let held = grown.saturating_sub(objects) / WATCHES;
    println!("{held} bytes a watch");
    assert!(
        held < 100 * 1024,
        "{held} bytes for each watch that is not read"
    );
    drop(watches);
    port.stop().await;
}
