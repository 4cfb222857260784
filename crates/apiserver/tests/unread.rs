//! Watches over a port that no client reads. In a binary of its own, because it measures the
//! memory of the process.

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass_apiserver::ApiServer;

mod support;

use support::request;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCHES: usize = 200;

/// The resident memory of this process, in bytes; nothing where the system does not say.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Writes `count` config maps of `size` bytes, and waits until the server had time to send.
async fn write(server: &ApiServer, prefix: &str, count: usize, size: usize) {
    for number in 0..count {
        let map = json!({
            "metadata": { "name": format!("{prefix}-{number}") },
            "data": { "text": "x".repeat(size) },
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
    write(&server, "before", 200, 1_000).await;
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let mut stream = TcpStream::connect(port.addr()).await.expect("a connection");
        let head = format!("GET {MAPS}?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("it listens");
        // The first byte says that the watch runs.
        let mut first = [0];
        stream.read_exact(&mut first).await.expect("an answer");
        watches.push(stream);
    }
    let Some(before) = resident() else {
        println!("not run: this system does not tell the memory of a process");
        return;
    };
    // More than the kernel takes for a connection, in small and in large objects.
    write(&server, "small", 1_500, 2_000).await;
    write(&server, "large", 12, 900_000).await;
    // The objects themselves are the same whether anybody watches.
    let written = (1_500 * 2_000 + 12 * 900_000) * 4;
    let after = resident().unwrap_or_default();
    let held = after.saturating_sub(before).saturating_sub(written) / WATCHES;
    println!("{held} bytes a watch");
    assert!(
        held < 100 * 1024,
        "{held} bytes for each watch that is not read"
    );
    drop(watches);
    port.stop().await;
}
