//! Measures the effect of 500 hostile clients of the admin server on `/live`, the lease and the work.
//!
//! `cargo run --release -p windlass-operator --example hostile_clients [SECONDS]` measures an
//! operator first without and then with these clients, and prints both results. The clients run in a
//! separate process with the lowest priority, so that the result is their effect on the operator and
//! not their own CPU time. Of the 500 connections, 200 pipeline requests for `/metrics`, 100 never
//! read, 100 send an incomplete request, and 100 send an incomplete body. A closed connection is
//! opened again after 100 ms.

use std::{
    convert::Infallible,
    env,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::ApiServer;
use windlass_controller::{InformerController, Outcome};
use windlass_informer::{Informer, Scripted};
use windlass_operator::{AdminServer, LeaderElection, Operator};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The environment variable with the address, for the process of the clients.
const TARGET: &str = "HOSTILE_CLIENTS_OF";

const OBJECTS: usize = 500;

/// The measurements of one period.
struct Measured {
    /// Reconciles per second.
    rate: f64,
    /// The response times of `/live`, sorted.
    latencies: Vec<Duration>,
    failed: usize,
}

fn main() -> ExitCode {
    let ran = match env::var(TARGET) {
        Ok(target) => attack(&target),
        Err(_) => measure(),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostile_clients: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Error> {
    let seconds = env::args().nth(1).map_or(Ok(10), |it| it.parse())?;
    let period = Duration::from_secs(seconds);
    let (cluster, operators) = (Runtime::new()?, Runtime::new()?);
    let api = ApiServer::new();
    let listening = cluster.block_on(api.listen(([127, 0, 0, 1], 0)))?;
    let config = kube::Config::new(listening.url().parse()?);
    let election = LeaderElection::new(config, "default", "hostile")?;

    let (script, source) = Scripted::<ConfigMap>::new();
    let done = Arc::new(AtomicU64::new(0));
    let controller = InformerController::new();
    controller.add_informer("configs", &Informer::new(source))?;
    let counted = Arc::clone(&done);
    controller.add_reconciler(
        "configs",
        move |_: windlass_controller::Request<ConfigMap>| {
            counted.fetch_add(1, Ordering::Relaxed);
            // CPU-bound work in a loop.
            let sum = (0..20_000_u64).fold(0, |sum: u64, it| std::hint::black_box(sum ^ it));
            let outcome = Outcome::requeue_after(Duration::from_micros(100 + sum % 2));
            async move { Ok::<_, Infallible>(outcome) }
        },
    )?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let admin = AdminServer::new(listener)
        .route("/echo", |request: Request<Bytes>| async move {
            Response::new(request.into_body())
        })?;
    let operator = Operator::builder()
        .leader_election(election.clone())
        .admin_server(admin)
        .build();
    operator.add_controller(controller)?;
    let stop = CancellationToken::new();
    let run = operators.spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    let objects = (0..OBJECTS).map(|number| {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(format!("object-{number}"));
        object
    });
    operators.block_on(script.list(objects.collect::<Vec<_>>()))?;
    while !election.is_leader() {
        thread::sleep(Duration::from_millis(10));
    }

    let calm = Measured::during(period, address, &done);
    calm.print("calm");
    let mut clients = Command::new("nice")
        .args(["-n", "19"])
        .arg(env::current_exe()?)
        .env(TARGET, address.to_string())
        .spawn()?;
    // All clients have connected after this time.
    thread::sleep(Duration::from_secs(2));
    let attacked = Measured::during(period, address, &done);
    clients.kill()?;
    clients.wait()?;
    attacked.print("500 hostile connections");
    println!(
        "work lost: {:.1} %",
        100.0 * (1.0 - attacked.rate / calm.rate)
    );
    println!(
        "lease: {}",
        if election.is_leader() { "kept" } else { "lost" }
    );
    stop.cancel();
    operators.block_on(run)??;
    drop(script);
    Ok(())
}

/// Keeps 500 connections open.
fn attack(target: &str) -> Result<(), Error> {
    let address: SocketAddr = target.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let client = |number: u32| async move {
        loop {
            _ = hold(address, number).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let clients = futures::future::join_all((0..500).map(client));
    let _never: Vec<()> = runtime.block_on(clients);
    Ok(())
}

/// One connection, until it is closed.
async fn hold(address: SocketAddr, number: u32) -> std::io::Result<()> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let scrape = "GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n";
    let mut buffer = vec![0; 64 * 1024];
    match number % 5 {
        0 | 1 => loop {
            stream.write_all(scrape.repeat(16).as_bytes()).await?;
            if stream.read(&mut buffer).await? == 0 {
                return Ok(());
            }
        },
        // Until the server closes the connection.
        2 => loop {
            stream.write_all(scrape.as_bytes()).await?;
        },
        3 => stream.write_all(b"GET /live HT").await?,
        _ => {
            let half = b"POST /echo HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nhal";
            stream.write_all(half).await?;
        }
    }
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

// === impl Measured ===

impl Measured {
    /// Probes `/live` every 20 ms on new connections, as a kubelet does.
    fn during(period: Duration, address: SocketAddr, done: &AtomicU64) -> Self {
        let (began, before) = (Instant::now(), done.load(Ordering::Relaxed));
        let (mut latencies, mut failed) = (Vec::new(), 0);
        while began.elapsed() < period {
            let sent = Instant::now();
            match probe(address) {
                Ok(()) => latencies.push(sent.elapsed()),
                Err(_) => failed += 1,
            }
            thread::sleep(Duration::from_millis(20));
        }
        let work = u32::try_from(done.load(Ordering::Relaxed) - before).unwrap_or(u32::MAX);
        latencies.sort_unstable();
        Self {
            rate: f64::from(work) / began.elapsed().as_secs_f64(),
            latencies,
            failed,
        }
    }

    fn print(&self, name: &str) {
        let at = |percent: usize| {
            let at = self.latencies.len() * percent / 100;
            let at = self
                .latencies
                .get(at.min(self.latencies.len().saturating_sub(1)));
            at.copied().unwrap_or_default()
        };
        println!(
            "{name}: {:.0} reconciles/s; {} probes of /live, {} failed, p50 {:?}, p99 {:?}, most {:?}",
            self.rate,
            self.latencies.len(),
            self.failed,
            at(50),
            at(99),
            at(100),
        );
    }
}

fn probe(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    // The default of a kubelet.
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET /live HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(())
    } else {
        Err(std::io::Error::other("not ok"))
    }
}
