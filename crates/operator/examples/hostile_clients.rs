//! Measures the effect of 500 hostile clients of the admin server on `/live`, the lease and the work.
//!
//! `cargo run --release -p windlass-operator --example hostile_clients [SECONDS]` measures an
//! operator first without and then with these clients, and prints both results. The clients run in a
//! separate process with the same priority. Clients on other machines take no CPU time from the
//! operator; so on Linux the operator has the first half of the cores in both measurements, and the
//! clients have the other half. With `--shared-cores` they compete for the same cores. What the
//! clients achieved is printed too: connections, requests, bytes of responses, and CPU time.
//!
//! Of the 500 connections, 200 pipeline requests for `/metrics`, 100 never read, 100 send an
//! incomplete request, and 100 send an incomplete body. They come from five addresses, because the
//! server limits the connections of each one. A closed connection is opened again after 100 ms.

use std::{
    convert::Infallible,
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    ops::Range,
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
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
    net::TcpSocket,
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

/// The option that leaves all cores to both processes.
const SHARED_CORES: &str = "--shared-cores";

const OBJECTS: usize = 500;

/// What the clients have achieved so far.
#[derive(Clone, Copy, Default)]
struct Achieved {
    connections: u64,
    /// The connections that are open now.
    open: u64,
    requests: u64,
    /// Bytes of responses.
    received: u64,
    /// CPU time of the process, in hundredths of a second. 0 if it cannot be read.
    cpu: u64,
}

/// The counters in the process of the clients.
#[derive(Default)]
struct Counters {
    connections: AtomicU64,
    open: AtomicU64,
    requests: AtomicU64,
    received: AtomicU64,
}

/// The measurements of one period.
struct Measured {
    time: Duration,
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

#[expect(clippy::too_many_lines, reason = "one measurement after the other")]
fn measure() -> Result<(), Error> {
    let options: Vec<String> = env::args().skip(1).collect();
    let shared_cores = options.iter().any(|it| it == SHARED_CORES);
    let seconds = options.iter().find(|it| *it != SHARED_CORES);
    let period = Duration::from_secs(seconds.map_or(Ok(10), |it| it.parse())?);
    let cores = thread::available_parallelism()?.get();
    let halves = (!shared_cores && cores > 1).then_some((0..cores / 2, cores / 2..cores));
    if let Some((own, _)) = &halves {
        use_cores(None, own.clone())?;
    }
    let (cluster, operators) = (Runtime::new()?, Runtime::new()?);
    let api = ApiServer::new();
    let listening = cluster.block_on(api.listen(([127, 0, 0, 1], 0)))?;
    let config = kube::Config::new(listening.url().parse()?);
    let election = LeaderElection::new(config, "default", "hostile")?;

    let (script, source) = Scripted::<ConfigMap>::new();
    let done = Arc::new(AtomicU64::new(0));
    let controller = InformerController::new();
    let configs = controller.kind("configs")?;
    controller.add_informer(&configs, &Informer::new(source))?;
    let counted = Arc::clone(&done);
    controller.add_reconciler(
        &configs,
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
    let mut clients = Command::new(env::current_exe()?)
        .env(TARGET, address.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some((_, theirs)) = halves {
        use_cores(Some(clients.id()), theirs)?;
    }
    let achieved = Arc::new(Mutex::new(Achieved::default()));
    let output = clients.stdout.take().ok_or("the output is not piped")?;
    let last = Arc::clone(&achieved);
    let reader = thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let line = Achieved::parse(&line);
            *last.lock().unwrap_or_else(PoisonError::into_inner) = line;
        }
    });
    let so_far = || *achieved.lock().unwrap_or_else(PoisonError::into_inner);
    // All clients have connected after this time.
    thread::sleep(Duration::from_secs(2));
    let before = so_far();
    let attacked = Measured::during(period, address, &done);
    so_far().print(before, attacked.time);
    clients.kill()?;
    clients.wait()?;
    reader.join().map_err(|_| "the reader panicked")?;
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

/// Restricts this thread and the threads that it starts, or the process `pid`, which has one thread,
/// to `cores`. Without effect on systems other than Linux.
fn use_cores(pid: Option<u32>, cores: Range<usize>) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    {
        use rustix::{process::Pid, thread::CpuSet};

        let pid = pid.map(i32::try_from).transpose()?.and_then(Pid::from_raw);
        let mut set = CpuSet::new();
        cores.for_each(|core| set.set(core));
        rustix::thread::sched_setaffinity(pid, &set)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pid, cores);
    Ok(())
}

/// Keeps 500 connections open.
fn attack(target: &str) -> Result<(), Error> {
    let address: SocketAddr = target.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let counters = &Counters::default();
    let client = |number: u32| async move {
        loop {
            _ = hold(address, number, counters).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let clients = futures::future::join_all((0..500).map(client));
    let report = async {
        loop {
            println!("{}", counters.line());
            sleep(Duration::from_millis(100)).await;
        }
    };
    let _never: (Vec<()>, ()) = runtime.block_on(async { tokio::join!(clients, report) });
    Ok(())
}

/// One connection, until it is closed.
async fn hold(address: SocketAddr, number: u32, counters: &Counters) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    if cfg!(target_os = "linux") {
        // Five clients, because an admin server limits the connections of each address.
        let host = u8::try_from(number % 5).unwrap_or_default();
        socket.bind(([127, 0, 0, 2 + host], 0).into())?;
    }
    let stream = socket.connect(address).await?;
    counters.connections.fetch_add(1, Ordering::Relaxed);
    counters.open.fetch_add(1, Ordering::Relaxed);
    let ended = use_connection(stream, number, counters).await;
    counters.open.fetch_sub(1, Ordering::Relaxed);
    ended
}

/// Sends what the client with this `number` sends, until the server closes the connection.
async fn use_connection(
    mut stream: tokio::net::TcpStream,
    number: u32,
    counters: &Counters,
) -> std::io::Result<()> {
    let sent = |requests| counters.requests.fetch_add(requests, Ordering::Relaxed);
    let received = |bytes: usize| {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        counters.received.fetch_add(bytes, Ordering::Relaxed);
    };
    let scrape = "GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n";
    let mut buffer = vec![0; 64 * 1024];
    match number % 5 {
        0 | 1 => loop {
            stream.write_all(scrape.repeat(16).as_bytes()).await?;
            sent(16);
            match stream.read(&mut buffer).await? {
                0 => return Ok(()),
                bytes => received(bytes),
            }
        },
        // Until the server closes the connection.
        2 => loop {
            stream.write_all(scrape.as_bytes()).await?;
            sent(1);
        },
        3 => stream.write_all(b"GET /live HT").await?,
        _ => {
            let half = b"POST /echo HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nhal";
            stream.write_all(half).await?;
            sent(1);
        }
    }
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            bytes => received(bytes),
        }
    }
}

// === impl Counters ===

impl Counters {
    /// A line for [`Achieved::parse`].
    fn line(&self) -> String {
        let [connections, open, requests, received] = [
            &self.connections,
            &self.open,
            &self.requests,
            &self.received,
        ]
        .map(|it| it.load(Ordering::Relaxed));
        // The user and system time are fields 14 and 15; the name before them may contain spaces.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let times = fields.split_whitespace().skip(11).take(2);
        let cpu: u64 = times.filter_map(|it| it.parse::<u64>().ok()).sum();
        format!("{connections} {open} {requests} {received} {cpu}")
    }
}

// === impl Achieved ===

impl Achieved {
    fn parse(line: &str) -> Self {
        let mut numbers = line.split(' ').map(|it| it.parse().unwrap_or_default());
        let mut next = || numbers.next().unwrap_or_default();
        Self {
            connections: next(),
            open: next(),
            requests: next(),
            received: next(),
            cpu: next(),
        }
    }

    fn print(self, before: Self, time: Duration) {
        let rate = |now: u64, before: u64| {
            let count = u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
            f64::from(count) / time.as_secs_f64()
        };
        println!(
            "clients: {} connections open, {:.0} new ones/s, {:.0} requests/s, {:.0} KB/s received, {:.0} % of a core",
            self.open,
            rate(self.connections, before.connections),
            rate(self.requests, before.requests),
            rate(self.received / 1000, before.received / 1000),
            rate(self.cpu, before.cpu),
        );
    }
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
        let time = began.elapsed();
        Self {
            time,
            rate: f64::from(work) / time.as_secs_f64(),
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
