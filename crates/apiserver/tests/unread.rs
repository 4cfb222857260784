//! Tests watches on a port whose clients do not read. This binary has one test, because the test
//! measures the memory of the process.

use http::Method;
use serde_json::json;
use windlass_apiserver::ApiServer;

mod support;

use support::{open_unread, request, resident};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The number of watches. `WINDLASS_WATCHES` sets another number.
fn watches() -> usize {
    let number = std::env::var("WINDLASS_WATCHES").ok();
    number.and_then(|text| text.parse().ok()).unwrap_or(100)
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

/// Opens `count` watches that are not read, writes, and closes them again. Returns what the process
/// held at the peak and after all connections are closed, in bytes.
async fn round(server: &ApiServer, count: usize, prefix: &str) -> (usize, usize) {
    let port = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let from = server.resource_version();
    let mut watches = Vec::new();
    for _ in 0..count {
        let path = format!("{MAPS}?watch=1&resourceVersion={from}");
        watches.push(open_unread(port.addr(), &path).await);
    }
    write(server, prefix).await;
    let peak = resident().unwrap_or_default();
    drop(watches);
    // Waits until each connection is closed.
    port.stop().await;
    (peak, resident().unwrap_or_default())
}

#[tokio::test]
async fn watches_that_are_never_read_hold_a_bounded_number_of_bytes() {
    let server = ApiServer::new();
    let Some(start) = resident() else {
        println!("not run: this system does not tell the memory of a process");
        return;
    };
    let count = watches();
    write(&server, "before").await;
    // The memory of the objects and their history.
    let before = resident().unwrap_or_default();
    let objects = before.saturating_sub(start);

    let (peak, closed) = round(&server, count, "first").await;
    let (second_peak, second_closed) = round(&server, count, "second").await;
    let mib = |bytes: usize| bytes / (1024 * 1024);
    println!(
        "{count} watches; objects {} MiB per round; before {}, peak {}, closed {}, second peak {}, closed {} MiB",
        mib(objects),
        mib(before),
        mib(peak),
        mib(closed),
        mib(second_peak),
        mib(second_closed),
    );
    let held = peak.saturating_sub(before).saturating_sub(objects) / count;
    println!("{held} bytes for each watch");
    assert!(
        held < 100 * 1024,
        "{held} bytes for each watch that is not read"
    );
    // The second round reuses the memory that the allocator kept after the first round.
    let left = second_closed.saturating_sub(closed).saturating_sub(objects) / count;
    assert!(
        left < 20 * 1024,
        "{left} bytes are left of each watch that was closed"
    );
}
