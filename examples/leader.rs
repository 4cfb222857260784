//! Replicas of one operator, of which one works: `cargo run --example leader`.
//!
//! Three replicas run in this process, with an API server that holds their lease. The first one is
//! stopped and hands over. The second one crashes, and its lease has to expire before the third
//! one leads. In between the program sends the request of a kubelet's probe, and then it ends.

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
    AdminServer, Failure, Informer, InformerController, LeaderElection, ListWatch, Operator,
    Outcome, Request, operator::OperatorError,
};
use windlass_apiserver::ApiServer;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The longest that any step may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A replica of the operator: on a cluster, a pod.
struct Replica {
    name: &'static str,
    admin: SocketAddr,
    stop: CancellationToken,
    run: JoinHandle<Result<(), OperatorError>>,
}

/// The lines that replicas write, and when.
struct Diary {
    began: Instant,
    said: mpsc::Receiver<String>,
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
    let (say, said) = mpsc::channel(64);
    let began = Instant::now();
    let mut diary = Diary { began, said };
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

    println!("The first replica takes the lease, the second one is a standby");
    set("1").await?;
    let first = Replica::start("first", &client, &say)?;
    diary.until("first sells at 1").await?;
    let second = Replica::start("second", &client, &say)?;
    second.shows("standing by; first holds the lease").await?;
    set("2").await?;
    diary.until("first sells at 2").await?;

    println!("\nThe first one is stopped: its calls end, and then it releases the lease");
    first.stop.cancel();
    first.run.await??;
    diary.print("first has ended");
    set("3").await?;
    diary.until("second sells at 3").await?;

    println!("\nThe second one crashes: no replica leads before its lease has expired");
    let third = Replica::start("third", &client, &say)?;
    third.shows("standing by; second holds the lease").await?;
    second.run.abort();
    _ = second.run.await;
    diary.print("second has crashed");
    set("4").await?;
    diary.until("third sells at 4").await?;
    third.stop.cancel();
    third.run.await??;
    diary.print("third has ended");
    println!("\nall is well: each price was set by one replica");
    Ok(())
}

// === impl Replica ===

impl Replica {
    fn start(
        name: &'static str,
        client: &Client,
        say: &mpsc::Sender<String>,
    ) -> Result<Self, Error> {
        // These lines are what an operator needs. The times are short so that this ends soon;
        // `LeaderElection::new` has those that suit a cluster. There, give it a `kube::Config`
        // instead of a client: it then renews on a thread of its own.
        let election = LeaderElection::builder(client.clone(), "default", "shop-operator")
            .identity(name)
            .lease_duration(Duration::from_secs(3))
            .renew_deadline(Duration::from_secs(2))
            .retry_period(Duration::from_millis(200))
            .build()?;
        // It sends no write unless this replica leads. On a cluster: `connect(config)`.
        let client = election.fence().client(client.clone());

        let controller = InformerController::builder().name("shop").build()?;
        let sites: Api<ConfigMap> = Api::default_namespaced(client);
        let informer = Informer::new(ListWatch::new(sites).fields("metadata.name=shop")?);
        controller.add_informer("sites", &informer)?;
        let say = say.clone();
        controller.add_reconciler("sites", move |request: Request<ConfigMap>| {
            let say = say.clone();
            async move {
                let data = request.object().data.clone().unwrap_or_default();
                say.send(format!("{name} sells at {}", data["price"]))
                    .await?;
                Ok::<_, Failure>(Outcome::done())
            }
        })?;

        // Loopback, for this process only. In a pod it is `AdminServer::new(([0, 0, 0, 0], 8080))`:
        // the kubelet's probes come from outside of the pod.
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
            // `run` instead ends with SIGTERM.
            async move { operator.run_until(stop).await }
        });
        Ok(Self {
            name,
            admin,
            stop,
            run,
        })
    }

    /// Waits until `/ready` contains `text`, and prints it.
    async fn shows(&self, text: &str) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            let page = get(self.admin, "/ready").await?;
            if page.contains(text) {
                println!("  http://{}/ready of {}:", self.admin, self.name);
                let (_, body) = page.split_once("\r\n\r\n").ok_or("not HTTP")?;
                body.lines().for_each(|line| println!("    {line}"));
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("timed out waiting for {text:?} in {page}").into());
            }
            // A page has no event for its change.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

// === impl Diary ===

impl Diary {
    /// Waits until a replica writes `text`.
    async fn until(&mut self, text: &str) -> Result<(), Error> {
        loop {
            let line = timeout(PATIENCE, self.said.recv()).await;
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

/// Sends the request of a kubelet or Prometheus.
async fn get(address: SocketAddr, path: &str) -> Result<String, Error> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
