//! A tour of an operator, step by step: `cargo run --example tour`.
//!
//! It starts an API server in this process, installs the kind `Website`, and runs an operator
//! for it. Then it plays the part of a user: it creates two websites, changes one and deletes
//! it. One step fails three times and is retried. Each step is printed with its time, and the
//! metrics are printed at the end. To begin your own operator, copy the example `quickstart`.
//!
//! ```text
//! cargo run --example tour                        # in this process
//! cargo run --example tour -- --serve             # keeps running, for kubectl
//! cargo run --example tour -- --kubeconfig FILE   # the same on your cluster
//! ```

mod names;
mod printer;
mod publish;
mod summary;
mod website;

// The operator under every fault.
#[cfg(test)]
mod simulation;

use std::{convert::Infallible, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, CustomResourceExt as _, Resource, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::wait::{await_condition, conditions},
};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass::{
    Controller, ExponentialBackoff, Informer, InformerController, ObjectKey, ObjectReconciler,
    Operator, SimpleWatcher, Watch, controller::ErrorReport,
};
use windlass_apiserver::{ApiServer, Listening};

use crate::{
    names::InMemory,
    printer::{Actor, Printer},
    publish::{Children, Publish},
    website::{Website, WebsiteSpec},
};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The namespace of the websites.
const NAMESPACE: &str = "tour";

/// Timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A tour of an operator, step by step.
#[derive(Debug, Parser)]
struct Arguments {
    /// Leave the server and the operator running, and print a kubeconfig for kubectl.
    #[arg(long, conflicts_with = "kubeconfig")]
    serve: bool,

    /// Run on the cluster of this kubeconfig, instead of the server in this process.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tour: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs the tour. Returns whether the end state is the expected one.
async fn run(arguments: Arguments) -> Result<bool, Error> {
    let printer = Arc::new(Printer::new());
    let server = Server::start(&arguments, &printer).await?;
    install(&server.client, &printer).await?;

    // The operator: one informer of websites, a controller that writes, and a watcher that prints.
    let names = InMemory::default();
    let websites = Informer::new(Api::<Website>::all(server.client.clone()));
    let gone = Arc::new(Notify::new());
    let controller = controller(&server.client, &websites, &printer, |children| Publish {
        children,
        names: names.clone(),
        printer: Arc::clone(&printer),
    })?;
    let operator = Operator::new();
    operator.add_controller(controller)?;
    operator.add_controller(printing(&websites, watcher(&printer, &gone))?)?;
    let registry = prometheus::Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector)?;
    }

    let stop = CancellationToken::new();
    let scenario = async {
        let done = run_scenario(&server.client, &websites, &names, &printer, &gone).await;
        if arguments.serve && done.is_ok() {
            server.print_kubeconfig()?;
            // The operator runs until a signal arrives.
            return std::future::pending().await;
        }
        stop.cancel();
        done
    };
    let done = if arguments.serve {
        tokio::select! {
            ended = operator.run() => return ended.map(|()| true).map_err(Into::into),
            done = scenario => done,
        }
    } else {
        let (ended, done) = tokio::join!(operator.run_until(stop.clone()), scenario);
        ended?;
        done
    };
    done?;
    summary::print(&registry.gather(), &printer);
    server.remove_objects(&printer).await?;
    let published = names.published();
    let is_expected = published == ["shop.example"];
    println!(
        "\n{}: published host names at the end: {} (expected: shop.example)",
        if is_expected { "success" } else { "FAILURE" },
        published.join(", "),
    );
    Ok(is_expected)
}

/// Builds the controller: the result of `publish` reconciles `websites` and what they own.
fn controller<R: ObjectReconciler<Website>>(
    client: &Client,
    websites: &Informer<Website>,
    printer: &Arc<Printer>,
    publish: impl FnOnce(Children) -> R,
) -> Result<Controller<Website>, Error> {
    let mut builder = Controller::builder(client.clone(), Watch::from(websites.clone()));
    let children = Children::watched_by(&mut builder);
    // Without end: an outage of any length leaves no website behind.
    let backoff = ExponentialBackoff::forever(Duration::from_millis(200));
    let controller = builder
        .name("websites")
        // The finalizer keeps a deleted website until its host name is withdrawn.
        .finalizer("tour.windlass.dev/host-name")
        .retry_policy(backoff.cap(Duration::from_secs(30)))
        .on_error(report(printer))
        .build(publish(children))?;
    Ok(controller)
}

/// Builds a controller that calls `watcher` for each change of a website.
fn printing(
    websites: &Informer<Website>,
    watcher: SimpleWatcher<Website>,
) -> Result<InformerController, Error> {
    let controller = InformerController::builder().name("printer").build()?;
    let kind = controller.kind("websites")?;
    controller.add_informer(&kind, websites)?;
    controller.add_watcher(&kind, watcher)?;
    Ok(controller)
}

/// Creates, changes and deletes websites as users would, and waits for each result.
async fn run_scenario(
    client: &Client,
    websites: &Informer<Website>,
    names: &InMemory,
    printer: &Printer,
    gone: &Notify,
) -> Result<(), Error> {
    let sites: Api<Website> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PostParams::default();

    printer.heading("A website is created");
    printer.print(Actor::You, "create the website blog");
    let blog = website("blog", "blog.example", "<h1>Hello</h1>");
    let blog = sites.create(&params, &blog).await?;
    published(websites, &blog).await?;

    printer.heading("It is changed");
    printer.print(Actor::You, "change the page of blog, and ask for 3 servers");
    let change = json!({ "spec": { "page": "<h1>Hello again</h1>", "replicas": 3 } });
    let patch = Patch::Merge(change);
    let blog = sites.patch("blog", &PatchParams::default(), &patch).await?;
    published(websites, &blog).await?;

    printer.heading("A step fails, and is retried");
    names.fail("shop.example", 3);
    printer.print(
        Actor::You,
        "create the website shop, while the name service is not available",
    );
    let shop = website("shop", "shop.example", "<h1>Buy</h1>");
    let shop = sites.create(&params, &shop).await?;
    published(websites, &shop).await?;

    printer.heading("A website is deleted");
    printer.print(Actor::You, "delete the website blog");
    sites.delete("blog", &DeleteParams::default()).await?;
    // Wait for the watcher, not for the store: the store is ahead of the handlers.
    let watched = tokio::time::timeout(TIMEOUT, gone.notified()).await;
    watched.map_err(|_| format!("timed out after {TIMEOUT:?} waiting for blog to be deleted"))?;
    Ok(())
}

/// Waits until the status of `site` reports the newest generation.
async fn published(websites: &Informer<Website>, site: &Website) -> Result<(), Error> {
    let generation = site.meta().generation;
    wait(websites, &site.name_any(), "to be published", |site| {
        site.and_then(|site| site.status.as_ref())
            .is_some_and(|status| status.observed_generation >= generation)
    })
    .await
}

/// Waits until the website in the store satisfies `is`. `what` completes "waiting for NAME".
async fn wait(
    websites: &Informer<Website>,
    name: &str,
    what: &str,
    is: impl Fn(Option<&Website>) -> bool,
) -> Result<(), Error> {
    let key = ObjectKey::new(name).within(NAMESPACE);
    let store = websites.store();
    let mut events = websites.subscribe();
    let satisfied = async {
        while !is(store.get(&key).as_deref()) {
            if events.next().await.is_none() {
                return Err(format!("the informer ended while waiting for {name} {what}").into());
            }
        }
        Ok(())
    };
    let waited = tokio::time::timeout(TIMEOUT, satisfied).await;
    waited.map_err(|_| format!("timed out after {TIMEOUT:?} waiting for {name} {what}"))?
}

/// A watcher that prints each event.
fn watcher(printer: &Arc<Printer>, gone: &Arc<Notify>) -> SimpleWatcher<Website> {
    let gone = Arc::clone(gone);
    let print = |what: &'static str| {
        let printer = Arc::clone(printer);
        move |site: &Website| {
            let version = site.resource_version().unwrap_or_default();
            let line = format!("{:<5} {what} (version {version})", site.name_any());
            printer.print(Actor::Watcher, line);
        }
    };
    let (added, updated, deleted) = (print("is added"), print("is updated"), print("is deleted"));
    SimpleWatcher::new()
        .on_add(move |site: Arc<Website>| {
            added(&site);
            async { Ok::<_, Infallible>(()) }
        })
        .on_update(move |_, site: Arc<Website>| {
            updated(&site);
            async { Ok::<_, Infallible>(()) }
        })
        .on_delete(move |site: Arc<Website>| {
            deleted(&site);
            gone.notify_one();
            async { Ok::<_, Infallible>(()) }
        })
}

/// Prints failed calls.
fn report(printer: &Arc<Printer>) -> impl Fn(&ErrorReport<'_>) + Send + Sync + use<> {
    let printer = Arc::clone(printer);
    move |report| {
        let calls = report.attempt + 1;
        let next = match report.retry_in {
            Some(wait) => format!("retry in {wait:.1?}"),
            None => "no more retries".to_owned(),
        };
        let error = std::error::Error::source(report.error)
            .map_or_else(|| report.error.to_string(), ToString::to_string);
        let name = report.key.name();
        let line = format!("{name:<5} failed {calls}x: {error}; {next}");
        printer.print(Actor::Retry, line);
    }
}

fn website(name: &str, host: &str, page: &str) -> Website {
    Website::new(
        name,
        WebsiteSpec {
            host: host.to_owned(),
            page: page.to_owned(),
            replicas: 1,
        },
    )
}

/// Installs the kind and creates the namespace.
async fn install(client: &Client, printer: &Printer) -> Result<(), Error> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = Website::crd();
    ignore_existing(crds.create(&PostParams::default(), &crd).await)?;
    let name = crd.name_any();
    let established = await_condition(crds, &name, conditions::is_crd_established());
    tokio::time::timeout(TIMEOUT, established)
        .await
        .map_err(|_| {
            format!("timed out after {TIMEOUT:?} waiting for the CRD {name} to be established")
        })??;
    printer.print(Actor::Server, format!("serves {name}"));
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces = Api::<Namespace>::all(client.clone());
    ignore_existing(namespaces.create(&PostParams::default(), &namespace).await)
}

/// Treats "already exists" as success.
fn ignore_existing<T>(created: Result<T, kube::Error>) -> Result<(), Error> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(|_| ()).map_err(Into::into),
    }
}

/// The API server of this run: embedded, or a cluster.
struct Server {
    client: Client,
    embedded: Option<Embedded>,
}

struct Embedded {
    listening: Listening,
    /// Dropping the server would close the port.
    _server: ApiServer,
}

// === impl Server ===

impl Server {
    async fn start(arguments: &Arguments, printer: &Printer) -> Result<Self, Error> {
        if let Some(path) = &arguments.kubeconfig {
            let kubeconfig = Kubeconfig::read_from(path)?;
            let config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            printer.print(Actor::Server, format!("is {}", config.cluster_url));
            return Ok(Self {
                client: Client::try_from(config)?,
                embedded: None,
            });
        }
        let server = ApiServer::new();
        let listening = server.listen(([127, 0, 0, 1], 0)).await?;
        printer.print(
            Actor::Server,
            format!("in this process, at {}, in memory", listening.url()),
        );
        Ok(Self {
            client: Client::new(server.service(), NAMESPACE),
            embedded: Some(Embedded {
                listening,
                _server: server,
            }),
        })
    }

    /// Writes a kubeconfig, and prints commands for kubectl.
    fn print_kubeconfig(&self) -> Result<(), Error> {
        let Some(embedded) = &self.embedded else {
            return Ok(());
        };
        let kubeconfig = embedded.listening.kubeconfig();
        let name = format!("windlass-tour-{}.kubeconfig", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, &kubeconfig)?;
        println!(
            "\n{kubeconfig}\nThe same kubeconfig is in the file below. In another terminal:\n"
        );
        println!("  export KUBECONFIG={}", path.display());
        println!("  kubectl -n {NAMESPACE} get websites -w");
        println!("  kubectl -n {NAMESPACE} describe website shop");
        println!("  kubectl -n {NAMESPACE} delete website shop");
        println!("\nPress Ctrl-C to stop.");
        Ok(())
    }

    /// Deletes everything that the tour created in a cluster, except the CRD.
    async fn remove_objects(&self, printer: &Printer) -> Result<(), Error> {
        if self.embedded.is_some() {
            return Ok(());
        }
        let sites: Api<Website> = Api::namespaced(self.client.clone(), NAMESPACE);
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        sites.patch("shop", &PatchParams::default(), &free).await?;
        let namespaces = Api::<Namespace>::all(self.client.clone());
        namespaces
            .delete(NAMESPACE, &DeleteParams::default())
            .await?;
        printer.heading("The tour removes its objects");
        printer.print(
            Actor::You,
            format!(
                "delete the namespace {NAMESPACE}; the CRD {} stays",
                Website::crd_name()
            ),
        );
        Ok(())
    }
}
