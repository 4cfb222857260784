//! Random bytes as requests to the admin server: it continues to respond.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::OnceLock,
    thread,
    time::Duration,
};

use bolero::TypeGenerator;
use tokio_util::sync::CancellationToken;
use windlass_operator::{AdminServer, Operator};

use crate::edits::Edits;

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    request: Edits,
}

const REQUESTS: [&str; 4] = [
    "GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: text/plain;version=0.0.4\r\nAccept-Encoding: gzip\r\n\r\nGET /ready?verbose HTTP/1.0\r\n\r\n",
    "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "PUT /other HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
];

/// A file has a request; the ends of its lines become `\r\n`.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    vec![Input {
        request: Edits::none(&parts[0].replace('\n', "\r\n")),
    }]
}

pub(crate) fn check(input: &Input) {
    let address = server();
    let mut stream = TcpStream::connect(address).expect("the server accepts connections");
    let timeout = Some(Duration::from_secs(60));
    stream.set_read_timeout(timeout).expect("a timeout");
    // A server may close a connection that makes no sense before it has read all.
    if stream.write_all(&input.request.of(&REQUESTS)).is_ok() {
        _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1."),
            "{answer:?}"
        );
    }
    drop(stream);

    let mut stream = TcpStream::connect(address).expect("the server accepts connections");
    stream.set_read_timeout(timeout).expect("a timeout");
    stream
        .write_all(REQUESTS[0].as_bytes())
        .expect("the server reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("the server answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The address of an admin server that runs as long as the process.
fn server() -> SocketAddr {
    static SERVER: OnceLock<SocketAddr> = OnceLock::new();
    *SERVER.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let admin = AdminServer::new(listener);
            let operator = Operator::builder().admin_server(admin).build();
            runtime.block_on(operator.run_until(CancellationToken::new()))
        });
        address
    })
}
