//! An election as others see it: on the page `/ready`, in the requests of its client, and in the
//! log.

use std::{
    convert::Infallible,
    io,
    net::TcpListener,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::{Client, Config, client::Body};
use prometheus::{Registry, TextEncoder};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::ServiceExt as _;
use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::fmt::MakeWriter;
use windlass_apiserver::ApiServer;
use windlass_controller::Runnable;
use windlass_operator::{AdminServer, Fence, LeaderElection, Operator, OperatorError};

const MINUTE: Duration = Duration::from_secs(60);

/// A controller that ends when it is stopped.
struct Idle;

impl Runnable for Idle {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        "idle"
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.cancelled().await;
        Ok(())
    }
}

fn run(operator: &Operator) -> AbortOnDropHandle<Result<(), OperatorError>> {
    operator.add_controller(Idle).expect("it is not running");
    let operator = operator.clone();
    let run = async move { operator.run_until(CancellationToken::new()).await };
    AbortOnDropHandle::new(tokio::spawn(run))
}

/// A replica whose lease has expired is not ready, also before any of its timers has fired.
#[tokio::test]
async fn a_replica_whose_lease_has_expired_is_not_ready() {
    let server = ApiServer::new();
    let jumped = Arc::new(Mutex::new(Duration::ZERO));
    let clock = {
        let (jumped, began) = (Arc::clone(&jumped), Instant::now());
        move || began.elapsed() + *jumped.lock().expect("no panic")
    };
    let election = LeaderElection::builder(server.client(), "default", "web")
        .fence(Fence::with_clock(clock))
        .lease_duration(60 * MINUTE)
        .renew_deadline(50 * MINUTE)
        .retry_period(10 * MINUTE)
        .build()
        .expect("valid settings");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let operator = Operator::builder()
        .admin_server(AdminServer::new(listener))
        .leader_election(election.clone())
        .build();
    let _run = run(&operator);
    let leads = async {
        while !election.is_leader() {
            // Poll: another task changes it.
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(MINUTE, leads).await.expect("it leads");
    let page = ready(address).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");

    *jumped.lock().expect("no panic") += 2 * 60 * MINUTE;
    let page = ready(address).await;
    assert!(page.starts_with("HTTP/1.1 503"), "{page}");
    assert!(page.contains("[-] leader election"), "{page}");
}

async fn ready(address: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = b"GET /ready HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    stream.write_all(head).await.expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    answer
}

/// kube's client repeats a request by itself when the response is 503. Then the election would not
/// know that it failed, and a request would take longer than the election allows.
#[tokio::test]
async fn the_client_of_an_election_repeats_no_request_by_itself() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (asked, mut requests) = mpsc::channel(1);
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = [0; 4096];
            let read = stream.read(&mut head).await.expect("a request");
            assert!(read > 0);
            // The second request is not answered before the test has looked.
            asked.send(()).await.expect("the test runs");
            let refusal = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            _ = stream.write_all(refusal.as_bytes()).await;
        }
    });
    let _server = AbortOnDropHandle::new(server);
    let config = Config::new(url.parse().expect("a URL"));
    let election = LeaderElection::new(config, "default", "web").expect("names");
    let operator = Operator::builder().leader_election(election).build();
    let _run = run(&operator);
    for _ in 0..2 {
        let request = timeout(MINUTE, requests.recv());
        request.await.expect("a request").expect("the server runs");
    }
    let registry = Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector).expect("no name twice");
    }
    let text = TextEncoder::new().encode_to_string(&registry.gather());
    let text = text.expect("text");
    let failures = text
        .lines()
        .filter(|line| line.starts_with("leader_election_failures_total{"))
        .map(|line| {
            line.rsplit(' ')
                .next()
                .and_then(|count| count.parse::<u64>().ok())
        })
        .map(|count| count.expect("a number"));
    assert!(failures.sum::<u64>() >= 1, "it was reported: {text}");
}

/// Captured log lines. All clones share them.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Captures what this thread logs.
    fn capture(&self) -> DefaultGuard {
        // While there is just one subscriber, `tracing` asks that of the thread that reaches a
        // message first, and keeps the answer: another test's may be that there is no subscriber.
        static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&ANOTHER);
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(self.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }

    /// The number of lines that contain `part`.
    fn count(&self, part: &str) -> usize {
        let log = self.0.lock().expect("no panic");
        let log = String::from_utf8_lossy(&log);
        log.lines().filter(|line| line.contains(part)).count()
    }
}

/// Logs each change of the state of a replica once, and no renewal and no read.
#[tokio::test(start_paused = true)]
async fn each_change_of_a_replica_is_logged_once() {
    let log = Log::default();
    let _guard = log.capture();
    let server = ApiServer::new();
    let replica = |identity: &str| {
        let election = LeaderElection::builder(server.client(), "default", "web");
        let election = election.identity(identity).seed(7).build();
        let operator = Operator::builder().leader_election(election.expect("valid settings"));
        operator.build()
    };
    let (first, second) = (replica("first"), replica("second"));
    let stop = CancellationToken::new();
    let run_first = tokio::spawn({
        let stop = stop.clone();
        async move { first.run_until(stop).await }
    });
    // On paused time: until the first one leads.
    sleep(Duration::from_secs(10)).await;
    let _run = run(&second);
    // On paused time: many renewals and reads.
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        log.count(r#"leading lease=default/web identity="first""#),
        1
    );
    assert_eq!(
        log.count(r#"standing by lease=default/web holder="first""#),
        1
    );
    stop.cancel();
    run_first.await.expect("no panic").expect("no error");
    // On paused time: until the second one leads.
    sleep(Duration::from_secs(60)).await;
    assert_eq!(log.count("released the lease lease=default/web"), 1);
    assert_eq!(log.count("could not release the lease"), 0);
    assert_eq!(
        log.count(r#"leading lease=default/web identity="second""#),
        1
    );
}

/// The first failure of each outage is a warning; the others of an outage are not.
#[tokio::test(start_paused = true)]
async fn each_outage_is_logged_with_one_warning() {
    let log = Log::default();
    let _guard = log.capture();
    let server = ApiServer::new();
    let fails = Arc::new(AtomicBool::new(false));
    let (service, failing) = (server.service(), Arc::clone(&fails));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (answer, failing) = (service.clone().oneshot(request), Arc::clone(&failing));
        async move {
            if failing.load(Ordering::SeqCst) {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
            }
            answer
                .await
                .map_err(Into::<Box<dyn std::error::Error + Send + Sync>>::into)
        }
    });
    let election = LeaderElection::builder(Client::new(service, "default"), "default", "web")
        .seed(7)
        .build()
        .expect("valid settings");
    let operator = Operator::builder()
        .leader_election(election.clone())
        .build();
    let _run = run(&operator);
    let warnings = || log.count("WARN");
    sleep(Duration::from_secs(30)).await;
    assert!(election.is_leader());
    let before = warnings();
    for outage in 1..=2 {
        fails.store(true, Ordering::SeqCst);
        // In virtual time: several requests fail, and the lease is still held.
        sleep(Duration::from_secs(6)).await;
        assert_eq!(warnings(), before + outage);
        fails.store(false, Ordering::SeqCst);
        sleep(Duration::from_secs(30)).await;
        assert!(election.is_leader());
    }
}
