//! A server, an operator behind a proxy, and the random work on their objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{
    Kind, Memory,
    child::{FINALIZER, SEEN},
    faults::Faults,
    process::Process,
    proxy::Proxy,
    real::RealServer,
};

/// The most live objects.
const OBJECTS: usize = 300;

/// The timeout for the output of a child.
const LIMIT: Duration = Duration::from_secs(60);

/// A server, an operator, and the record of the work.
pub(crate) struct Cluster {
    server: Server,
    operator: Process,
    /// The address of its admin server.
    admin: String,
    proxy: Proxy,
    faults: Faults,
    configs: Api<ConfigMap>,
    /// The newest value of each live object, by name.
    live: BTreeMap<String, u64>,
    /// The uids of objects that were deleted.
    deleted: BTreeSet<String>,
    /// The number of clean-ups of each uid.
    cleaned: BTreeMap<String, usize>,
    steps: u64,
}

enum Server {
    Embedded(Process),
    Real(&'static RealServer),
}

/// The result of a run.
pub(crate) struct End {
    /// Objects that disappeared without a clean-up.
    pub(crate) lost: usize,
    deleted: usize,
    cleaned_again: usize,
    pub(crate) operator_tasks: usize,
    pub(crate) server_tasks: Option<usize>,
}

// === impl Cluster ===

impl Cluster {
    /// Starts the processes.
    pub(crate) async fn start(kind: Kind, seed: u64) -> Self {
        let (server, config) = match kind {
            Kind::Embedded => {
                let mut server = Process::start("server", "none");
                let (_, url) = timeout(LIMIT, server.wait_for_line(&["url "]))
                    .await
                    .expect("it starts");
                let config = Config::new(url.parse().expect("a URL"));
                (Server::Embedded(server), config)
            }
            Kind::Real => {
                let real = RealServer::shared();
                (Server::Real(real), real.config().await)
            }
        };
        let mut config = config;
        config.default_retry = false;
        let client = Client::try_from(config).expect("a client");
        let faults = Faults::new(StdRng::seed_from_u64(seed));
        let harmed = faults.clone();
        let clock = || Duration::ZERO;
        let proxy = Proxy::start(client.clone(), clock, move |parts| harmed.next(parts)).await;
        let mut operator = Process::start("operator", &proxy.url());
        let (_, admin) = timeout(LIMIT, operator.wait_for_line(&["admin "]))
            .await
            .expect("it starts");
        Self {
            server,
            operator,
            admin,
            proxy,
            faults,
            configs: Api::default_namespaced(client),
            live: BTreeMap::new(),
            deleted: BTreeSet::new(),
            cleaned: BTreeMap::new(),
            steps: 0,
        }
    }

    /// The memory of the operator, and of the embedded server.
    pub(crate) fn memory(&self) -> (Memory, Option<Memory>) {
        let server = match &self.server {
            Server::Embedded(process) => Some(Memory::of(process.id())),
            Server::Real(_) => None,
        };
        (Memory::of(self.operator.id()), server)
    }

    /// Works for `length`, and calls `sampled` repeatedly with a line of progress.
    pub(crate) async fn work(
        &mut self,
        rng: &mut StdRng,
        length: Duration,
        mut sampled: impl FnMut(String),
    ) {
        let (began, mut next) = (Instant::now(), Instant::now());
        let pause = (length / 60).max(Duration::from_secs(1));
        while began.elapsed() < length {
            self.step(rng).await;
            while let Some(uid) = self.operator.received_line("cleaned ") {
                *self.cleaned.entry(uid).or_default() += 1;
            }
            if Instant::now() >= next {
                next += pause;
                let (requests, harmed) = self.faults.count();
                sampled(format!(
                    "{:.0?}: {} steps, {} objects, {requests} requests of which {harmed} harmed",
                    began.elapsed(),
                    self.steps,
                    self.live.len(),
                ));
            }
        }
        self.faults.stop();
    }

    /// One random write, compaction or scrape.
    async fn step(&mut self, rng: &mut StdRng) {
        sleep(Duration::from_millis(rng.random_range(5..40))).await;
        self.steps += 1;
        let some = rng.random_range(0..self.live.len().max(1));
        let name = self.live.keys().nth(some).cloned();
        match (rng.random_range(0..1000_u32), name) {
            (0..2, _) => match &mut self.server {
                Server::Embedded(process) => process.send_line("compact"),
                Server::Real(real) => real.compact(),
            },
            (2..50, _) => {
                for path in ["/metrics", "/live", "/ready"] {
                    self.scrape(path).await;
                }
            }
            (50..500, Some(name)) => self.update(name).await,
            (500..700, Some(name)) => self.delete(name).await,
            _ if self.live.len() < OBJECTS => self.create().await,
            (_, Some(name)) => self.delete(name).await,
            (_, None) => {}
        }
    }

    async fn create(&mut self) {
        let name = format!("soak-{}", self.steps);
        let object = json!({
            "metadata": { "name": name, "labels": { "soak": "yes" } },
            "data": { "n": self.steps.to_string(), "filling": "x".repeat(2000) },
        });
        let object = serde_json::from_value(object).expect("a config map");
        let created = self.configs.create(&PostParams::default(), &object).await;
        created.expect("the server is not behind the proxy");
        self.live.insert(name, self.steps);
    }

    async fn update(&mut self, name: String) {
        let patch = Patch::Merge(json!({ "data": { "n": self.steps.to_string() } }));
        let patched = self
            .configs
            .patch(&name, &PatchParams::default(), &patch)
            .await;
        patched.expect("it is live");
        self.live.insert(name, self.steps);
    }

    /// Deletes an object if it has our finalizer: only such objects require a clean-up.
    async fn delete(&mut self, name: String) {
        let object = self.configs.get(&name).await.expect("it is live");
        let finalizers = object.metadata.finalizers.unwrap_or_default();
        if !finalizers.iter().any(|it| it == FINALIZER) {
            return;
        }
        let deleted = self.configs.delete(&name, &DeleteParams::default()).await;
        deleted.expect("it is live");
        self.deleted.extend(object.metadata.uid);
        self.live.remove(&name);
    }

    /// Reads a page of the operator's admin server.
    async fn scrape(&self, path: &str) {
        let mut stream = TcpStream::connect(&self.admin).await.expect("a connection");
        let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
        stream
            .write_all(head.as_bytes())
            .await
            .expect("the request is sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).await.expect("text");
        assert!(page.starts_with("HTTP/1.1 "), "{page}");
    }

    /// Waits until the state is the same as without faults. Returns the required time.
    pub(crate) async fn settle(&mut self, limit: Duration) -> Duration {
        let began = Instant::now();
        loop {
            let wrong = self.wrong().await;
            if wrong.is_empty() {
                return began.elapsed();
            }
            assert!(began.elapsed() < limit, "not settled: {wrong:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// The names of objects that are not in the expected state.
    async fn wrong(&self) -> Vec<String> {
        let params = ListParams::default().labels("soak=yes");
        let there = self
            .configs
            .list(&params)
            .await
            .expect("the server answers");
        let mut wrong = Vec::new();
        let mut missing: BTreeSet<_> = self.live.keys().cloned().collect();
        for object in there.items {
            let name = object.metadata.name.unwrap_or_default();
            missing.remove(&name);
            let number = self.live.get(&name).map(u64::to_string);
            let annotations = object.metadata.annotations.unwrap_or_default();
            let finalizers = object.metadata.finalizers.unwrap_or_default();
            let held = finalizers.iter().any(|it| it == FINALIZER);
            if number.is_none() || number.as_ref() != annotations.get(SEEN) || !held {
                wrong.push(name);
            }
        }
        wrong.extend(missing);
        wrong
    }

    /// Stops the operator, and then the server.
    pub(crate) async fn end(self) -> End {
        let Self {
            server,
            mut operator,
            proxy,
            configs,
            deleted,
            mut cleaned,
            ..
        } = self;
        operator.send_line("stop");
        let operator_tasks = loop {
            let line = timeout(LIMIT, operator.wait_for_line(&["cleaned ", "tasks "])).await;
            match line.expect("it ends") {
                ("cleaned ", uid) => *cleaned.entry(uid).or_default() += 1,
                (_, tasks) => break tasks.parse().expect("a number"),
            }
        };
        drop((proxy, configs));
        let server_tasks = match server {
            Server::Embedded(mut process) => {
                process.send_line("stop");
                let (_, tasks) = timeout(LIMIT, process.wait_for_line(&["tasks "]))
                    .await
                    .expect("it ends");
                Some(tasks.parse().expect("a number"))
            }
            Server::Real(_) => None,
        };
        End {
            lost: deleted
                .iter()
                .filter(|it| !cleaned.contains_key(*it))
                .count(),
            deleted: deleted.len(),
            cleaned_again: cleaned.values().map(|it| it - 1).sum(),
            operator_tasks,
            server_tasks,
        }
    }
}

// === impl End ===

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lost,
            deleted,
            cleaned_again,
            operator_tasks,
            server_tasks,
        } = self;
        write!(
            f,
            "{deleted} deleted, {lost} lost, {cleaned_again} cleaned up again; tasks left: \
             {operator_tasks} of the operator"
        )?;
        match server_tasks {
            Some(tasks) => write!(f, ", {tasks} of the server"),
            None => Ok(()),
        }
    }
}
