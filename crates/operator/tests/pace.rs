//! Limits on one connection to the admin server: its total time, and the pace of its responses.
//!
//! On paused time, with sockets whose both ends are in this process.

use std::{net::TcpListener, time::Duration};

use http::Response;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use windlass_operator::{AdminLimits, AdminServer, Operator, OperatorError};

/// The defaults, with a connection timeout of 20 s.
fn limits() -> AdminLimits {
    AdminLimits {
        connection_timeout: Duration::from_secs(20),
        ..AdminLimits::default()
    }
}

/// The size of the page `/large`: far more than the buffers of the kernel.
const LARGE: usize = 64 * 1024 * 1024;

/// A running operator, and a connection to its admin server.
struct Connected {
    stream: TcpStream,
    stop: CancellationToken,
    run: JoinHandle<Result<(), OperatorError>>,
}

/// It makes progress all the time, so that only the total limit ends it.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_forever_is_disconnected_at_the_total_limit() {
    let mut connected = Connected::new().await;
    connected
        .send("GET /large HTTP/1.1\r\nhost: here\r\n\r\n")
        .await;
    let began = Instant::now();
    let mut received = 0;
    // Enough for the kernel to let the server write again each time.
    let mut buffer = vec![0; 1024 * 1024];
    // An error means that the server has reset the connection.
    while let Ok(read @ 1..) = connected.stream.read(&mut buffer).await {
        received += read;
        sleep(Duration::from_secs(1)).await;
    }
    assert!(received < LARGE, "the page was sent as a whole");
    // What the kernel had buffered is read after the end.
    let took = began.elapsed();
    assert!((20..60).contains(&took.as_secs()), "{took:?}");
    connected.stop().await;
}

/// A client that sends a request now and then.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_requests_forever_is_disconnected_at_the_total_limit() {
    let mut connected = Connected::new().await;
    let began = Instant::now();
    let mut responses = 0;
    while responses < 1000 {
        connected
            .send("GET /live HTTP/1.1\r\nhost: here\r\n\r\n")
            .await;
        match connected.stream.read(&mut [0; 1024]).await {
            Ok(1..) => responses += 1,
            Ok(0) | Err(_) => break,
        }
        sleep(Duration::from_secs(3)).await;
    }
    let took = began.elapsed();
    assert!(responses >= 5, "{responses} in {took:?}");
    assert!(took < Duration::from_secs(30), "{responses} in {took:?}");
    connected.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_gets_at_most_four_responses_a_second() {
    let mut connected = Connected::new().await;
    let began = Instant::now();
    let scrapes = "GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n".repeat(39);
    let last = "GET /metrics HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    connected.send(&format!("{scrapes}{last}")).await;
    let mut responses = String::new();
    let read = connected.stream.read_to_string(&mut responses).await;
    read.expect("text");
    assert_eq!(responses.matches("HTTP/1.1 200").count(), 40, "{responses}");
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(9), "40 responses in {took:?}");
    connected.stop().await;
}

// === impl Connected ===

impl Connected {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let large = |_| async { Response::new(vec![b'x'; LARGE].into()) };
        let server = AdminServer::new(listener).limits(limits());
        let server = server.route("/large", large).expect("a path");
        let operator = Operator::builder().admin_server(server).build();
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { operator.run_until(stop).await }
        });
        let stream = TcpStream::connect(address).await.expect("a connection");
        Self { stream, stop, run }
    }

    /// Sends `text`. The server may have closed the connection; then the next read fails.
    async fn send(&mut self, text: &str) {
        _ = self.stream.write_all(text.as_bytes()).await;
    }

    async fn stop(self) {
        drop(self.stream);
        self.stop.cancel();
        self.run.await.expect("no panic").expect("no error");
    }
}
