//! Metrics and webhooks over TLS.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};
use tokio_util::sync::CancellationToken;
use windlass_operator::{AdminError, AdminLimits, AdminServer, Operator, OperatorError};

#[path = "tls/webhooks.rs"]
mod webhooks;

type Run = JoinHandle<Result<(), OperatorError>>;

#[tokio::test]
async fn metrics_are_served_with_tls_and_probes_on_a_separate_port_without_tls() {
    let (probes, metrics) = (listener(), listener());
    let (probe, scrape) = (address(&probes), address(&metrics));
    let server = AdminServer::new(probes)
        .metrics_on(metrics)
        .tls(file("first.pem"), file("first-key.pem"));
    let (stop, run) = start(server);
    assert_eq!(
        get_over_tls(scrape, "/metrics", "first.pem")
            .await
            .expect("trusted"),
        200
    );
    let other = get_over_tls(scrape, "/metrics", "second.pem").await;
    other.expect_err("another certificate");
    assert_eq!(get(probe, "/live").await, Some(200));
    assert_eq!(get(scrape, "/metrics").await, None, "not without TLS");
    // A client that never starts its handshake does not delay the stop.
    let _silent = TcpStream::connect(scrape).await.expect("a connection");
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// A handshake takes processor time, and a client can begin many.
#[tokio::test]
async fn handshakes_run_on_another_thread_than_probes_without_tls() {
    let events = Events::default();
    let _logging = tracing::subscriber::set_default(events.subscriber(tracing::Level::DEBUG));
    let (probes, metrics) = (listener(), listener());
    let (probe, scrape) = (address(&probes), address(&metrics));
    let server = AdminServer::new(probes)
        .metrics_on(metrics)
        .tls(file("first.pem"), file("first-key.pem"));
    let (stop, run) = start(server);
    // Neither a handshake nor a request: both connections fail.
    for port in [probe, scrape] {
        let mut stream = TcpStream::connect(port).await.expect("a connection");
        stream.write_all(b"no request\r\n\r\n").await.expect("sent");
        _ = stream.read_to_end(&mut Vec::new()).await;
    }
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    let events = events.text();
    let thread = |message| {
        let line = events.lines().find(|line| line.contains(message));
        let line = line.unwrap_or_else(|| panic!("no {message:?} in {events}"));
        let thread = line
            .split_whitespace()
            .find(|word| word.starts_with("windlass-admin"));
        thread
            .unwrap_or_else(|| panic!("no thread in {line}"))
            .to_owned()
    };
    assert_eq!(thread("a TLS handshake failed"), "windlass-admin-tls");
    assert_eq!(
        thread("a connection of the server failed"),
        "windlass-admin"
    );
}

/// Otherwise an API server that trusts another authority leaves no trace.
#[tokio::test]
async fn a_client_that_rejects_the_certificate_is_logged_once_a_minute() {
    let events = Events::default();
    let _logging = tracing::subscriber::set_default(events.subscriber(tracing::Level::INFO));
    let listener = listener();
    let address = address(&listener);
    let server = AdminServer::new(listener).tls(file("first.pem"), file("first-key.pem"));
    let (stop, run) = start(server);
    // The probe of a port sends nothing.
    drop(TcpStream::connect(address).await.expect("a connection"));
    for _ in 0..2 {
        let rejected = get_over_tls(address, "/metrics", "second.pem").await;
        rejected.expect_err("another certificate");
    }
    let trusted = get_over_tls(address, "/metrics", "first.pem").await;
    assert_eq!(trusted.expect("trusted"), 200);
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    let events = events.text();
    let warnings: Vec<_> = (events.lines())
        .filter(|line| line.contains("a TLS handshake failed"))
        .collect();
    assert_eq!(warnings.len(), 1, "{events}");
    let expected = "client=127.0.0.1 error=received fatal alert";
    assert!(
        warnings[0].contains(expected) && warnings[0].contains("WARN"),
        "{events}"
    );
}

#[tokio::test]
async fn on_a_single_port_all_pages_are_served_with_tls() {
    let listener = listener();
    let address = address(&listener);
    let server = AdminServer::new(listener).tls(file("first.pem"), file("first-key.pem"));
    let (stop, run) = start(server);
    assert_eq!(
        get_over_tls(address, "/metrics", "first.pem")
            .await
            .expect("trusted"),
        200
    );
    assert_eq!(get(address, "/live").await, None);
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// Runs on paused time, which advances while the test waits.
#[tokio::test(start_paused = true)]
async fn a_renewed_certificate_is_used_and_an_invalid_one_is_ignored() {
    let folder = std::env::temp_dir().join(format!("windlass-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let install = |name: &str| {
        fs::copy(file(&format!("{name}.pem")), &certificate).expect("a copy");
        fs::copy(file(&format!("{name}-key.pem")), &key).expect("a copy");
    };
    install("first");
    let listener = listener();
    let address = address(&listener);
    let (stop, run) = start(AdminServer::new(listener).tls(&certificate, &key));
    let first = get_over_tls(address, "/metrics", "first.pem").await;
    assert_eq!(first.expect("trusted"), 200);
    let minute = std::time::Duration::from_secs(61);

    install("second");
    tokio::time::advance(minute).await;
    let second = get_over_tls(address, "/metrics", "second.pem").await;
    assert_eq!(second.expect("the renewed one"), 200);

    fs::write(&key, "no key").expect("a file");
    tokio::time::advance(minute).await;
    let second = get_over_tls(address, "/metrics", "second.pem").await;
    assert_eq!(second.expect("the last one stays"), 200);
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    _ = fs::remove_dir_all(folder);
}

/// A file that blocks: a named pipe that no process writes to.
#[cfg(unix)]
#[tokio::test]
async fn handshakes_and_probes_are_answered_while_a_tls_file_blocks() {
    let folder = std::env::temp_dir().join(format!("windlass-tls-pipe-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let certificate = folder.join("tls.crt");
    fs::copy(file("first.pem"), &certificate).expect("a copy");
    let (probes, metrics) = (listener(), listener());
    let (probe, scrape) = (address(&probes), address(&metrics));
    // The limit of a handshake, also while a file blocks.
    let limits = AdminLimits {
        read_timeout: std::time::Duration::from_secs(5),
        ..AdminLimits::default()
    };
    let server = AdminServer::new(probes)
        .metrics_on(metrics)
        .limits(limits)
        .tls(&certificate, file("first-key.pem"));
    let (stop, run) = start(server);
    assert_eq!(get(probe, "/live").await, Some(200), "the files were read");
    fs::remove_file(&certificate).expect("a file");
    let pipe = std::process::Command::new("mkfifo")
        .arg(&certificate)
        .status();
    assert!(pipe.expect("mkfifo runs").success());

    for _ in 0..3 {
        let status = get_over_tls(scrape, "/metrics", "first.pem").await;
        assert_eq!(status.expect("the previous certificate"), 200);
        assert_eq!(get(probe, "/live").await, Some(200));
    }
    stop.cancel();
    run.await.expect("no panic").expect("no error");
    _ = fs::remove_dir_all(folder);
}

#[tokio::test]
async fn an_invalid_tls_file_is_named_in_the_error_at_the_start() {
    for (certificate, key, named) in [
        ("first.pem", "no-such-key.pem", "no-such-key.pem"),
        ("README.md", "first-key.pem", "README.md"),
        ("first.pem", "second-key.pem", "first.pem"),
    ] {
        let server = AdminServer::new(listener()).tls(file(certificate), file(key));
        let (_stop, run) = start(server);
        match run.await.expect("no panic") {
            Err(OperatorError::Admin { source }) => {
                assert!(matches!(source, AdminError::Tls { .. }), "{source:?}");
                assert!(source.to_string().contains(named), "{source}");
                let reason = std::error::Error::source(&source)
                    .expect("a reason")
                    .to_string();
                let is_empty = reason == "the file has no certificate";
                assert_eq!(is_empty, certificate == "README.md", "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The text of all events.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<u8>>>);

impl Events {
    /// A subscriber that writes here.
    fn subscriber(&self, level: tracing::Level) -> impl tracing::Subscriber + Send + Sync {
        let events = self.clone();
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_thread_names(true)
            .with_ansi(false)
            .with_writer(move || events.clone())
            .finish()
    }

    fn text(&self) -> String {
        let events = self.0.lock().expect("no panic").clone();
        String::from_utf8(events).expect("text")
    }
}

impl std::io::Write for Events {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn start(server: AdminServer) -> (CancellationToken, Run) {
    let operator = Operator::builder().admin_server(server).build();
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    (stop, run)
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("an address")
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The status of `/metrics` over TLS, if the server has the certificate `trusted`.
async fn get_over_tls(
    address: SocketAddr,
    path: &str,
    trusted: &'static str,
) -> std::io::Result<u16> {
    let mut stream = connect_over_tls(address, trusted).await?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(status(&answer).expect("a response"))
}

async fn connect_over_tls(
    address: SocketAddr,
    trusted: &'static str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(file(trusted)).expect("a certificate");
    roots.add(certificate).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::IpAddress(address.ip().into());
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await
}

/// The status of a page without TLS. None without an HTTP response.
async fn get(address: SocketAddr, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    stream
        .write_all(head.as_bytes())
        .await
        .expect("the request is sent");
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer).await;
    status(&answer)
}

fn status(answer: &[u8]) -> Option<u16> {
    let answer = String::from_utf8_lossy(answer);
    let rest = answer.strip_prefix("HTTP/1.1 ")?;
    rest.split(' ').next()?.parse().ok()
}
