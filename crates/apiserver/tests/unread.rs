//! Watches over a port that no client reads. In a binary of its own, because it measures the
//! memory of the process.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;
use windlass_apiserver::ApiServer;

mod support;

use support::request;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// How many watches there are; `WINDLASS_WATCHES` sets another number.
fn watches() -> usize {
    let number = std::env::var("WINDLASS_WATCHES").ok();
    number.and_then(|text| text.parse().ok()).unwrap_or(100)
}

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

/// Opens a watch that is not read.
async fn open(address: SocketAddr, query: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    // The kernel is to take little, so that the server has to keep the rest.
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(address).await.expect("a connection");
    let head = format!("GET {MAPS}?watch=1{query} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("it listens");
    // The first byte says that the watch runs.
    let mut first = [0];
    stream.read_exact(&mut first).await.expect("an answer");
    stream
}

/// Opens `count` watches that are not read, writes, and closes them again. Returns what the process
/// held at the peak and after all connections are closed, in bytes.
async fn round(server: &ApiServer, count: usize, prefix: &str) -> (usize, usize) {
    let port = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let from = server.resource_version();
    let mut watches = Vec::new();
    for _ in 0..count {
        watches.push(open(port.addr(), &format!("&resourceVersion={from}")).await);
    }
    write(server, prefix).await;
    let peak = resident().unwrap_or_default();
    drop(watches);
    // Waits until each connection is closed.
    port.stop().await;
    (peak, resident().unwrap_or_default())
}

/// The tests of this binary measure the same process, so they run one after the other.
static MEASURES: Mutex<()> = Mutex::const_new(());

/// Between two watches each object is written, so that each watch begins with other states.
#[tokio::test]
async fn watches_that_begin_with_the_objects_hold_no_states_of_their_own() {
    const HISTORY: NonZeroUsize = NonZeroUsize::new(1024 * 1024).expect("not zero");
    const OBJECTS: usize = 200;
    let _alone = MEASURES.lock().await;
    let server = ApiServer::builder().history_bytes(HISTORY).start();
    let write = async |method: Method, number: usize| {
        for object in 0..OBJECTS {
            let name = format!("a-{object}");
            let text = number.to_string().repeat(20_000);
            let map = json!({ "metadata": { "name": name }, "data": { "text": text } });
            let path = match method {
                Method::POST => MAPS.to_owned(),
                _ => format!("{MAPS}/{name}"),
            };
            let (code, _) = request(&server, method.clone(), &path, Some(&map)).await;
            assert!(code.is_success());
        }
    };
    write(Method::POST, 0).await;
    let port = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let mut watches = vec![open(port.addr(), "").await];
    write(Method::PUT, 1).await;
    let Some(before) = resident() else {
        println!("not run: this system does not tell the memory of a process");
        return;
    };
    for number in 0..9 {
        watches.push(open(port.addr(), "").await);
        write(Method::PUT, number).await;
    }
    let held = resident().unwrap_or_default().saturating_sub(before) / 9;
    println!("{held} bytes for each watch");
    assert!(
        held < 1024 * 1024,
        "{held} bytes for each watch, whose objects are 4 MB"
    );
}

#[tokio::test]
async fn watches_that_are_never_read_hold_a_bounded_number_of_bytes() {
    let _alone = MEASURES.lock().await;
    let server = ApiServer::new();
    let Some(start) = resident() else {
        println!("not run: this system does not tell the memory of a process");
        return;
    };
    let count = watches();
    write(&server, "before").await;
    // What the objects and their history take.
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
    // What the allocator keeps of the first round is used again by the second one.
    let left = second_closed.saturating_sub(closed).saturating_sub(objects) / count;
    assert!(
        left < 20 * 1024,
        "{left} bytes are left of each watch that was closed"
    );
}
