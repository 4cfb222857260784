//! The compared API servers, each in a separate process.

use std::{io::Read as _, path::Path, process::Stdio};

use bytes::Bytes;
use futures::{TryStreamExt as _, future::try_join_all, stream};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};
use windlass_apiserver::ApiServer;

use crate::{
    Result,
    measure::{Measured, float, monotonic, resident},
    objects::{FIRST_VERSION, Kind, Template},
};

/// The load of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The number of objects that are created one after the other, and then concurrently.
    pub(crate) creates: usize,
    /// The number of objects that are created while all watches are open.
    pub(crate) events: usize,
    /// The number of objects in the server when its memory is measured.
    pub(crate) objects: usize,
}

/// A running server. It ends when its stdin is closed, so also when this is dropped.
struct Server {
    client: Client,
    child: Child,
}

/// The line that a server prints when it is ready, with the fields that are used here.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Ready {
    server: String,
    /// The kubeconfig, if the server requires credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    kubeconfig: Option<String>,
}

/// The number of concurrent watches.
const WATCHERS: usize = 100;

/// The number of concurrent creates.
const AT_ONCE: usize = 32;

pub(crate) const NAMESPACE: &str = "shop";

/// Runs the embedded API server with the interface of `tests/kube-apiserver`.
pub(crate) fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let listening = runtime.block_on(ApiServer::new().listen(([127, 0, 0, 1], 0)))?;
    let ready = Ready {
        server: listening.url(),
        kubeconfig: None,
    };
    println!("{}", serde_json::to_string(&ready)?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Starts the server `program`, sends the load, and returns the measurements.
pub(crate) async fn measure(program: &Path, arguments: &[&str], load: Load) -> Result<Measured> {
    let mut measured = Measured::default();
    let begun = monotonic();
    let server = Server::start(program, arguments).await?;
    measured.set("ready_us", float(monotonic() - begun) / 1e3);

    server.create_namespace().await?;
    let empty = server.resident();
    let mut numbers = 0..;
    let mut batch = |count| bodies(numbers.by_ref().take(count));

    let one_by_one = batch(load.creates);
    let rate = server.create(one_by_one, 1).await?;
    measured.set("creates_per_second", rate);

    let at_once = batch(load.creates);
    let rate = server.create(at_once, AT_ONCE).await?;
    measured.set("creates_at_once_per_second", rate);

    let rate = server.deliver(batch(load.events)).await?;
    measured.set("events_per_second", rate);

    let created = load.creates * 2 + load.events;
    let more = batch(load.objects.saturating_sub(created));
    server.create(more, AT_ONCE).await?;
    if let (Some(empty), Some(full)) = (empty, server.resident()) {
        let objects = created.max(load.objects) as u64;
        let bytes = float(full.saturating_sub(empty)) / float(objects);
        measured.set("resident_bytes", bytes);
    }
    server.stop().await?;
    Ok(measured)
}

// === impl Server ===

impl Server {
    /// Starts the server, and returns after its first response.
    async fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("stdout is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let client = Ready::read(&line)?.client().await?;
        let server = Self { client, child };
        server.send(Method::GET, "/readyz", Bytes::new()).await?;
        Ok(server)
    }

    fn resident(&self) -> Option<u64> {
        resident(self.child.id()?)
    }

    /// Stops the server, so that it takes no CPU time from the next one.
    async fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait().await?;
        Ok(())
    }

    async fn create_namespace(&self) -> Result<()> {
        let namespace = format!(r#"{{"metadata":{{"name":"{NAMESPACE}"}}}}"#);
        let path = "/api/v1/namespaces";
        self.send(Method::POST, path, Bytes::from(namespace)).await
    }

    /// Creates all objects with this concurrency. Returns the creates per second.
    async fn create(&self, bodies: Vec<Bytes>, at_once: usize) -> Result<f64> {
        let (count, path) = (bodies.len(), path());
        let begun = monotonic();
        stream::iter(bodies.into_iter().map(Ok))
            .try_for_each_concurrent(at_once, |body| self.send(Method::POST, &path, body))
            .await?;
        Ok(per_second(count, begun))
    }

    /// Creates all objects while many watches are open. Returns the events per second.
    async fn deliver(&self, bodies: Vec<Bytes>) -> Result<f64> {
        let version = self.version().await?;
        let watches = (0..WATCHERS).map(|_| self.watch(&version));
        let watches = try_join_all(watches).await?;
        let events = bodies.len();
        let begun = monotonic();
        let received = watches.into_iter().map(|watch| {
            let received = tokio::spawn(receive(watch, events));
            async { received.await? }
        });
        let (created, received) =
            tokio::join!(self.create(bodies, AT_ONCE), try_join_all(received));
        created?;
        received?;
        Ok(per_second(events * WATCHERS, begun))
    }

    async fn version(&self) -> Result<String> {
        #[derive(Deserialize)]
        struct List {
            metadata: kube::core::ListMeta,
        }
        let request = Request::get(format!("{}?limit=1", path())).body(Vec::new())?;
        let list: List = self.client.request(request).await?;
        let version = list.metadata.resource_version;
        Ok(version.ok_or("a list has a version")?)
    }

    async fn watch(&self, version: &str) -> Result<Body> {
        let url = format!("{}?watch=true&resourceVersion={version}", path());
        let answer = self.client.send(Request::get(url).body(Body::empty())?);
        Ok(answer.await?.into_body())
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<()> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_vec()))?;
        let answer = self.client.send(request).await?;
        let status = answer.status();
        // Read the complete response, so that the connection can be reused.
        let text = answer.into_body().collect().await?.to_bytes();
        if status.is_success() {
            Ok(())
        } else {
            Err(format!("{path}: {}", String::from_utf8_lossy(&text)).into())
        }
    }
}

// === impl Ready ===

impl Ready {
    fn read(line: &str) -> Result<Self> {
        serde_json::from_str(line).map_err(|_| "the server did not start".into())
    }

    async fn client(&self) -> Result<Client> {
        let config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
            }
            None => Config::new(self.server.parse()?),
        };
        Ok(Client::try_from(config)?)
    }
}

/// Reads a watch until it has delivered this number of events.
async fn receive(mut watch: Body, events: usize) -> Result<()> {
    let mut received = 0;
    while received < events {
        let frame = watch.frame().await.ok_or("the watch ended")??;
        if let Ok(chunk) = frame.into_data() {
            received += chunk.split(|byte| *byte == b'\n').count() - 1;
        }
    }
    Ok(())
}

/// `ConfigMap`s without the fields that only a server sets.
pub(crate) fn bodies(numbers: impl Iterator<Item = usize>) -> Vec<Bytes> {
    let template = Template::whole(Kind::Configmap);
    let body = |number| {
        let mut json = Vec::new();
        template.render(number, FIRST_VERSION, 0, &mut json);
        let mut object: serde_json::Value = serde_json::from_slice(&json).expect("it is JSON");
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| ["name", "labels", "annotations"].contains(&&**field));
        }
        Bytes::from(object.to_string())
    };
    numbers.map(body).collect()
}

/// The path of the created objects.
pub(crate) fn path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

fn per_second(count: usize, begun: u64) -> f64 {
    float(count as u64) / (float(monotonic() - begun) / 1e9)
}

#[cfg(test)]
mod tests {
    use super::{Ready, bodies};

    #[test]
    fn a_created_object_has_no_fields_that_only_a_server_sets() {
        let bodies = bodies(7..9);
        let body: serde_json::Value = serde_json::from_slice(&bodies[1]).expect("JSON");
        assert_eq!(body["metadata"]["name"], "settings-00000008");
        assert_eq!(body["metadata"].get("resourceVersion"), None, "{body}");
        assert_eq!(body["metadata"].get("managedFields"), None, "{body}");
        assert!(body["data"].is_object(), "{body}");
    }

    #[test]
    fn a_server_prints_its_address_and_credentials() {
        let real = r#"{"server":"https://127.0.0.1:1","ca":"..","kubeconfig":"/k","version":"v1"}"#;
        let real = Ready::read(real).expect("ready");
        assert_eq!(real.kubeconfig.as_deref(), Some("/k"));
        let embedded = Ready::read(r#"{"server":"http://127.0.0.1:1"}"#).expect("ready");
        assert_eq!(embedded.kubeconfig, None);
        assert!(Ready::read("").is_err());
    }
}
