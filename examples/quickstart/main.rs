//! A first operator, at work on real objects: `cargo run --example quickstart`.
//!
//! It starts an API server in this process, installs a kind (`Website`), runs an operator
//! for it, and then does what people do: creates two websites, changes one, deletes it. One
//! step fails at first and is retried. At the end it says what was counted, and ends.
//!
//! ```text
//! cargo run --example quickstart                        # all of it, in this process
//! cargo run --example quickstart -- --serve             # leaves it running, for kubectl
//! cargo run --example quickstart -- --kubeconfig FILE   # the same on a cluster of yours
//! ```

mod life;
mod names;
mod publish;
mod summary;
mod website;

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
use tokio_util::sync::CancellationToken;
use windlass::{
    ErrorReport, ExponentialBackoff, FinalizerName, Finalizers, Informer, InformerController,
    ObjectKey, Operator, OpinionatedReconciler, SimpleWatcher,
};
use windlass_apiserver::{ApiServer, Listening};

use crate::{
    life::{Life, Who},
    names::NameService,
    publish::Publish,
    website::{Website, WebsiteSpec},
};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Where the websites of this example live.
const NAMESPACE: &str = "quickstart";

/// The longest that any step of the story may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A first operator, at work on real objects.
#[derive(Debug, Parser)]
struct Arguments {
    /// Leave the server and the operator running, and print a kubeconfig for kubectl.
    #[arg(long, conflicts_with = "kubeconfig")]
    serve: bool,

    /// Run on the cluster that this file names, instead of the server in this process.
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
            eprintln!("quickstart: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything came out as it should.
async fn run(arguments: Arguments) -> Result<bool, Error> {
    let life = Arc::new(Life::new());
    let server = Server::start(&arguments, &life).await?;
    install(&server.client, &life).await?;

    // The operator: an informer of websites, a watcher that looks, a reconciler that acts.
    let names = Arc::new(NameService::default());
    let websites = Informer::new(Api::<Website>::all(server.client.clone()));
    let controller = InformerController::builder()
        .name("websites")
        .retry_policy(ExponentialBackoff::new(Duration::from_millis(200), 5))
        .on_error(report(&life))
        .build()?;
    controller.add_informer("websites", &websites)?;
    controller.add_watcher("websites", watcher(&life))?;
    let publish = Publish {
        client: server.client.clone(),
        names: Arc::clone(&names),
        life: Arc::clone(&life),
    };
    // No delete passes by: the finalizer holds a website until its host name is given back.
    let finalizer = FinalizerName::new("quickstart.windlass.dev/host-name")?;
    let finalizers = Finalizers::new(server.client.clone(), finalizer)?;
    controller.add_reconciler("websites", OpinionatedReconciler::new(finalizers, publish))?;
    let operator = Operator::new();
    operator.add_controller(controller)?;
    let registry = prometheus::Registry::new();
    for collector in operator.prometheus_collectors() {
        registry.register(collector)?;
    }

    let stop = CancellationToken::new();
    let story = async {
        let told = tell_story(&server.client, &websites, &names, &life).await;
        if arguments.serve && told.is_ok() {
            server.invite()?;
            // The operator ends when a signal comes.
            return std::future::pending().await;
        }
        stop.cancel();
        told
    };
    let told = if arguments.serve {
        tokio::select! {
            ended = operator.run() => return ended.map(|()| true).map_err(Into::into),
            told = story => told,
        }
    } else {
        let (ended, told) = tokio::join!(operator.run_until(stop.clone()), story);
        ended?;
        told
    };
    told?;
    summary::print(&registry.gather(), &life);
    server.tidy(&life).await?;
    let left = names.published();
    let well = left == ["shop.example"];
    println!(
        "\n{}: host names published at the end: {} (shop.example is the one that should be)",
        if well {
            "all is well"
        } else {
            "SOMETHING IS WRONG"
        },
        left.join(", "),
    );
    Ok(well)
}

/// What people do to websites, and what comes of it.
async fn tell_story(
    client: &Client,
    websites: &Informer<Website>,
    names: &NameService,
    life: &Life,
) -> Result<(), Error> {
    let sites: Api<Website> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PostParams::default();

    life.heading("A website is created");
    life.tell(Who::You, "create the website blog");
    let blog = website("blog", "blog.example", "<h1>Hello</h1>");
    let blog = sites.create(&params, &blog).await?;
    published(websites, &blog).await?;

    life.heading("It is changed");
    life.tell(Who::You, "change the page of blog, and ask for 3 servers");
    let wish = json!({ "spec": { "page": "<h1>Hello again</h1>", "replicas": 3 } });
    let patch = Patch::Merge(wish);
    let blog = sites.patch("blog", &PatchParams::default(), &patch).await?;
    published(websites, &blog).await?;

    life.heading("A step fails, and is retried");
    names.fail("shop.example", 3);
    life.tell(
        Who::You,
        "create the website shop, while the name service is away",
    );
    let shop = website("shop", "shop.example", "<h1>Buy</h1>");
    let shop = sites.create(&params, &shop).await?;
    published(websites, &shop).await?;

    life.heading("A website is deleted");
    life.tell(Who::You, "delete the website blog");
    sites.delete("blog", &DeleteParams::default()).await?;
    wait(websites, "blog", "to be gone", |site| site.is_none()).await?;
    Ok(())
}

/// Waits until the newest wish for `site` is fulfilled.
async fn published(websites: &Informer<Website>, site: &Website) -> Result<(), Error> {
    let generation = site.meta().generation;
    wait(websites, &site.name_any(), "to be published", |site| {
        site.and_then(|site| site.status.as_ref())
            .is_some_and(|status| status.observed_generation >= generation)
    })
    .await
}

/// Waits until what the informer knows of a website satisfies `is`.
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
                return Err(format!("the informer ended before {name} came {what}").into());
            }
        }
        Ok(())
    };
    let waited = tokio::time::timeout(PATIENCE, satisfied).await;
    waited.map_err(|_| format!("waited {PATIENCE:?} for {name} {what}, in vain"))?
}

/// A watcher that tells what it sees.
fn watcher(life: &Arc<Life>) -> SimpleWatcher<Website> {
    let tell = |what: &'static str| {
        let life = Arc::clone(life);
        move |site: &Website| {
            let version = site.resource_version().unwrap_or_default();
            let news = format!("{:<5} {what} (version {version})", site.name_any());
            life.tell(Who::Watcher, news);
        }
    };
    let (added, updated, deleted) = (tell("is added"), tell("is updated"), tell("is gone"));
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
            async { Ok::<_, Infallible>(()) }
        })
}

/// Tells of calls that failed.
fn report(life: &Arc<Life>) -> impl Fn(&ErrorReport<'_>) + Send + Sync + use<> {
    let life = Arc::clone(life);
    move |report| {
        let calls = report.attempt + 1;
        let next = match report.retry_in {
            Some(wait) => format!("again in {wait:.1?}"),
            None => "given up".to_owned(),
        };
        let error = std::error::Error::source(report.error)
            .map_or_else(|| report.error.to_string(), ToString::to_string);
        let name = report.key.name();
        let news = format!("{name:<5} failed {calls}x: {error}; {next}");
        life.tell(Who::Retry, news);
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

/// Makes the kind and the namespace exist.
async fn install(client: &Client, life: &Life) -> Result<(), Error> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = Website::crd();
    unless_there(crds.create(&PostParams::default(), &crd).await)?;
    let name = crd.name_any();
    let established = await_condition(crds, &name, conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established)
        .await
        .map_err(|_| format!("the kind {name} does not become served"))??;
    life.tell(Who::Server, format!("serves {name}"));
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces = Api::<Namespace>::all(client.clone());
    unless_there(namespaces.create(&PostParams::default(), &namespace).await)
}

fn unless_there<T>(created: Result<T, kube::Error>) -> Result<(), Error> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(|_| ()).map_err(Into::into),
    }
}

/// The API server that the story is told on.
struct Server {
    client: Client,
    embedded: Option<Embedded>,
}

struct Embedded {
    listening: Listening,
    /// Lives as long as it listens.
    _server: ApiServer,
}

// === impl Server ===

impl Server {
    async fn start(arguments: &Arguments, life: &Life) -> Result<Self, Error> {
        if let Some(path) = &arguments.kubeconfig {
            let kubeconfig = Kubeconfig::read_from(path)?;
            let config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            life.tell(Who::Server, format!("is {}", config.cluster_url));
            return Ok(Self {
                client: Client::try_from(config)?,
                embedded: None,
            });
        }
        let server = ApiServer::new();
        let listening = server.listen(([127, 0, 0, 1], 0)).await?;
        life.tell(
            Who::Server,
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

    /// Says how kubectl gets in.
    fn invite(&self) -> Result<(), Error> {
        let Some(embedded) = &self.embedded else {
            return Ok(());
        };
        let kubeconfig = embedded.listening.kubeconfig();
        let name = format!("windlass-quickstart-{}.kubeconfig", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, &kubeconfig)?;
        println!("\n{kubeconfig}\nThis kubeconfig is in a file too. In another terminal:\n");
        println!("  export KUBECONFIG={}", path.display());
        println!("  kubectl -n {NAMESPACE} get websites -w");
        println!("  kubectl -n {NAMESPACE} describe website shop");
        println!("  kubectl -n {NAMESPACE} delete website shop");
        println!("\nCtrl-C ends it.");
        Ok(())
    }

    /// Leaves a cluster as it was, but for the kind.
    async fn tidy(&self, life: &Life) -> Result<(), Error> {
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
        life.heading("The cluster is tidied");
        life.tell(
            Who::You,
            format!(
                "delete the namespace {NAMESPACE}; the kind {} stays",
                Website::crd_name()
            ),
        );
        Ok(())
    }
}
