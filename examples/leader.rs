//! Leader election between three replicas of one operator: `cargo run --example leader`.
//!
//! The replicas and the API server run in this process. The first replica leads, is stopped, and
//! releases the lease, so that the second one leads at once. The second one crashes, so the third
//! one leads only after the lease has expired. The program also reads `/ready` of the standbys,
//! as a kubelet's probe does.

use std::{
    net::{SocketAddr, TcpListener},
    process::ExitCode,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use windlass::{
    AdminServer, Context, Controller, Failure, LeaderElection, Operator, Outcome, Watch,
    operator::OperatorError,
};
use windlass_apiserver::ApiServer;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A replica of the operator: on a cluster, a pod.
struct Replica {
    name: &'static str,
    admin: SocketAddr,
    stop: CancellationToken,
    run: JoinHandle<Result<(), OperatorError>>,
}

/// Prints the lines of the replicas, with the time since the start.
struct Output {
    began: Instant,
    lines: mpsc::Receiver<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leader: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let client = ApiServer::new().client();
    let (send, lines) = mpsc::channel(64);
    let began = Instant::now();
    let mut output = Output { began, lines };
    let sites: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let set = async |price: &str| {
        let site = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "price": price } });
        let params = PatchParams::default();
        match sites.patch("shop", &params, &Patch::Merge(&site)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                let mut site: ConfigMap = serde_json::from_value(site)?;
                site.metadata.name = Some("shop".to_owned());
                sites.create(&PostParams::default(), &site).await?;
            }
            patched => _ = patched?,
        }
        Ok::<_, Error>(())
    };

    println!("The first replica acquires the lease, the second one is a standby");
    set("1").await?;
    let first = Replica::start("first", &client, &send)?;
    output.until("first handles price 1").await?;
    let second = Replica::start("second", &client, &send)?;
    second
        .wait_until_ready_shows("standing by; first holds the lease")
        .await?;
    set("2").await?;
    output.until("first handles price 2").await?;

    println!("\nThe first replica is stopped: it waits for its calls, then releases the lease");
    first.stop.cancel();
    first.run.await??;
    output.print("first has ended");
    set("3").await?;
    output.until("second handles price 3").await?;

    println!("\nThe second replica crashes: no replica leads until its lease has expired");
    let third = Replica::start("third", &client, &send)?;
    third
        .wait_until_ready_shows("standing by; second holds the lease")
        .await?;
    second.run.abort();
    _ = second.run.await;
    output.print("second has crashed");
    set("4").await?;
    output.until("third handles price 4").await?;
    third.stop.cancel();
    third.run.await??;
    output.print("third has ended");
    println!("\nsuccess: one replica handled each price");
    Ok(())
}

// === impl Replica ===

impl Replica {
    fn start(
        name: &'static str,
        client: &Client,
        lines: &mpsc::Sender<String>,
    ) -> Result<Self, Error> {
        // An operator needs these lines. The times are short to keep the example short; on a
        // cluster use `LeaderElection::new`, which has suitable defaults, and pass a `kube::Config`
        // instead of a client: then the lease is renewed on a separate thread.
        let election = LeaderElection::builder(client.clone(), "default", "shop-operator")
            .identity(name)
            .lease_duration(Duration::from_secs(10))
            .renew_deadline(Duration::from_secs(8))
            .retry_period(Duration::from_millis(200))
            .build()?;
        // The writes of its calls are sent only while this replica leads.
        let price = Watch::<ConfigMap>::namespaced("default").fields("metadata.name=shop");
        let lines = lines.clone();
        let controller = Controller::builder(client.clone(), price).name("shop");
        let controller = controller.build(move |cx: Context<ConfigMap>| {
            let lines = lines.clone();
            async move {
                let data = cx.object().data.clone().unwrap_or_default();
                lines
                    .send(format!("{name} handles price {}", data["price"]))
                    .await?;
                Ok::<_, Failure>(Outcome::done())
            }
        })?;

        // Loopback is enough inside this process. In a pod use
        // `AdminServer::new(Listen::port(8080))`: the kubelet's probes come from outside the pod.
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let admin = listener.local_addr()?;
        let operator = Operator::builder()
            .leader_election(election)
            .admin_server(AdminServer::new(listener))
            .build();
        operator.add_controller(controller)?;

        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            // On a cluster: `run`, which returns after SIGTERM.
            async move { operator.run_until(stop).await }
        });
        Ok(Self {
            name,
            admin,
            stop,
            run,
        })
    }

    /// Waits until the response of `/ready` contains `text`, and prints it.
    async fn wait_until_ready_shows(&self, text: &str) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            let page = get(self.admin, "/ready").await?;
            if page.contains(text) {
                println!("  http://{}/ready of {}:", self.admin, self.name);
                let (_, body) = page.split_once("\r\n\r\n").ok_or("not HTTP")?;
                body.lines().for_each(|line| println!("    {line}"));
                return Ok(());
            }
            if began.elapsed() > TIMEOUT {
                return Err(format!("timed out waiting for {text:?} in {page}").into());
            }
            // An HTTP page sends no notification, so poll it.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

// === impl Output ===

impl Output {
    /// Waits until a replica sends `text`.
    async fn until(&mut self, text: &str) -> Result<(), Error> {
        loop {
            let line = timeout(TIMEOUT, self.lines.recv()).await;
            let line = line.map_err(|_| format!("timed out waiting for {text:?}"))?;
            let line = line.ok_or("all replicas have ended")?;
            self.print(&line);
            if line == text {
                return Ok(());
            }
        }
    }

    fn print(&self, line: &str) {
        println!("{:>6.2}s  {line}", self.began.elapsed().as_secs_f64());
    }
}

/// Sends a GET request, as a kubelet or Prometheus does.
async fn get(address: SocketAddr, path: &str) -> Result<String, Error> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}
