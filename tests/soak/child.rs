//! The measured processes: an operator, and the embedded server.

use std::{env, future::Future, io, net::TcpListener, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{runtime::Handle, sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;
use windlass::{informer::ErrorChain, operator::RequestBudget, prelude::*};
use windlass_apiserver::ApiServer;

/// Environment variables of child processes: `operator` or `server`, and the URL of the server.
pub(crate) const CHILD: &str = "WINDLASS_SOAK_CHILD";
pub(crate) const URL: &str = "WINDLASS_SOAK_URL";

pub(crate) const FINALIZER: &str = "soak.windlass.dev/cleaner";
pub(crate) const SEEN: &str = "soak.windlass.dev/seen";

/// The main function of the child process called `name`.
pub(crate) fn run(name: &str) -> ! {
    match name {
        "operator" => run_child(run_operator),
        "server" => run_child(run_server),
        other => panic!("{CHILD} is {other}, not operator or server"),
    }
}

fn run_child<F: Future<Output = ()>>(child: fn(String, mpsc::Receiver<String>) -> F) -> ! {
    let url = env::var(URL).expect("set by the test");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let (send, orders) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            _ = send.blocking_send(line);
        }
        // The test process has ended.
        std::process::exit(1);
    });
    runtime.block_on(async {
        child(url, orders).await;
        println!("\ntasks {}", tasks_left().await);
    });
    std::process::exit(0);
}

/// The number of remaining tasks of this runtime, after closed connections have ended.
async fn tasks_left() -> usize {
    for _ in 0..200 {
        if Handle::current().metrics().num_alive_tasks() == 0 {
            return 0;
        }
        sleep(Duration::from_millis(50)).await;
    }
    Handle::current().metrics().num_alive_tasks()
}

async fn run_server(_: String, mut orders: mpsc::Receiver<String>) {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    println!("\nurl {}", listening.url());
    while let Some(order) = orders.recv().await {
        match &*order {
            "compact" => server.compact(server.resource_version()),
            _ => break,
        }
    }
    listening.stop().await;
}

async fn run_operator(url: String, mut orders: mpsc::Receiver<String>) {
    let config = Config::new(url.parse().expect("a URL"));
    let election = LeaderElection::new(config.clone(), "default", "soak").expect("a name");
    let client = Client::try_from(config).expect("a client");
    let client = election
        .fence()
        .client(RequestBudget::default().client(client));

    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let watched = ListWatch::new(configs.clone())
        .labels("soak=yes")
        .expect("a selector");
    let controller = InformerController::builder().name("soak").build();
    let controller = controller.expect("valid settings");
    let configs_kind = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&configs_kind, &Informer::new(watched))
        .expect("new");
    let name = FinalizerName::new(FINALIZER).expect("a name");
    let finalizers = Finalizers::<ConfigMap>::new(client, name).expect("valid");
    let reconciler = move |request: Request<ConfigMap>| {
        let configs = configs.clone();
        async move { reconcile(&configs, &request).await }
    };
    let reconciler = OpinionatedReconciler::new(finalizers, reconciler);
    controller
        .add_reconciler(&configs_kind, reconciler)
        .expect("a name");

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("\nadmin {}", listener.local_addr().expect("an address"));
    let operator = Operator::builder()
        .leader_election(election)
        .admin_server(AdminServer::new(listener))
        .build();
    operator
        .add_controller(controller)
        .expect("the operator is not running");
    let stop = CancellationToken::new();
    let ended = tokio::select! {
        ended = operator.run_until(stop.clone()) => ended,
        // Stop the operator as by a signal, instead of dropping it.
        ended = async {
            _ = orders.recv().await;
            stop.cancel();
            std::future::pending().await
        } => ended,
    };
    if let Err(error) = ended {
        println!("\nended {}", ErrorChain::new(&error));
    }
}

/// Writes the seen value into an annotation, and prints the uids of cleaned-up objects.
async fn reconcile(
    configs: &Api<ConfigMap>,
    request: &Request<ConfigMap>,
) -> Result<Outcome, Failure> {
    let object = request.object();
    if request.action() == Action::Deleted {
        println!(
            "\ncleaned {}",
            object.metadata.uid.as_deref().unwrap_or_default()
        );
        return Ok(Outcome::done());
    }
    let number = object
        .data
        .iter()
        .flatten()
        .find(|it| it.0 == "n")
        .map(|it| it.1);
    let seen = object
        .metadata
        .annotations
        .iter()
        .flatten()
        .find(|it| it.0 == SEEN);
    if number != seen.map(|it| it.1) {
        let patch = json!({ "metadata": {
            "uid": object.metadata.uid, "annotations": { SEEN: number },
        } });
        let params = PatchParams::default();
        match configs
            .patch(request.key().name(), &params, &Patch::Merge(patch))
            .await
        {
            // The object was deleted or recreated; the next event shows it.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {}
            written => _ = written?,
        }
    }
    Ok(Outcome::done())
}
