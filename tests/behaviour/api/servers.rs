//! What a server does as a process: its features, its certificates, its slow clients and its end.

use std::num::NonZeroUsize;
use std::time::Duration;

use http::Method;
use kube::{Client, Config, config::KubeConfigOptions, config::Kubeconfig};
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_apiserver::{ApiServer, ApiServerBuilder, Listening, Profile};

use super::incomplete::IncompleteCreate;
use super::raw::{Raw, named, version};
use crate::{cluster::Cluster, real::RealServer};

/// A server that one test has for itself, on a port.
enum OwnServer {
    Embedded(Listening),
    Real(Box<RealServer>),
}

// === impl OwnServer ===

impl OwnServer {
    /// Starts the embedded server of `builder`, or the real one with these flags of kube-apiserver.
    async fn start(cluster: &Cluster, builder: ApiServerBuilder, flags: &[&str]) -> Self {
        if cluster.is_embedded() {
            let listening = builder.start().listen(([127, 0, 0, 1], 0)).await;
            return Self::Embedded(listening.expect("a port"));
        }
        let real = RealServer::own(flags);
        Self::Real(real.into())
    }

    async fn config(&self) -> Config {
        match self {
            Self::Embedded(listening) => config(&listening.kubeconfig()).await,
            Self::Real(real) => real.config().await,
        }
    }

    /// The token of the administrator, if the server requires one.
    fn token(&self) -> Option<String> {
        let Self::Real(real) = self else { return None };
        let kubeconfig = serde_json::to_value(&real.kubeconfig).expect("it has a JSON form");
        let token = kubeconfig["users"][0]["user"]["token"].as_str();
        Some(token.expect("a token").to_owned())
    }

    async fn raw(&self) -> Raw {
        Raw::of(client(self.config().await), "default")
    }

    async fn stop(self) {
        match self {
            Self::Embedded(listening) => listening.stop().await,
            Self::Real(real) => {
                let stopped = tokio::task::spawn_blocking(|| real.stop()).await;
                stopped.expect("it does not panic");
            }
        }
    }
}

async fn config(kubeconfig: &str) -> Config {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.expect("a complete kubeconfig")
}

/// A client that sends each request once.
fn client(mut config: Config) -> Client {
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

on_both_servers! {
    /// docs/apiserver.md: rows 62, 129.
    async fn a_server_without_streamed_lists_rejects_them(cluster: Cluster) {
        let builder = ApiServer::builder().profile(Profile::V1_33);
        let server = OwnServer::start(&cluster, builder, &["--feature-gates=WatchList=false"]).await;
        let raw = server.raw().await;
        let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let why = raw.get(&format!("{}?{query}", raw.maps())).await.refused(422, "Invalid");
        let expected = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the \
                    WatchList feature gate is enabled";
        assert!(why.ends_with(expected), "{why}");
    }

    /// docs/apiserver.md: row 68.
    async fn a_watch_that_is_not_read_is_closed_without_an_error(cluster: Cluster) {
        /// More than the buffers of a connection and of the watch take.
        const UPDATES: usize = 60;
        let history = NonZeroUsize::new(8 << 20).expect("not zero");
        let builder = ApiServer::builder().history_bytes(history);
        let server = OwnServer::start(&cluster, builder, &[]).await;
        let raw = server.raw().await;
        let created = raw.post(&raw.maps(), &named("large")).await.ok();
        let from = created["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        let mut events = raw.watch(&format!("{}?watch=1&resourceVersion={from}", raw.maps())).await;
        for number in 0..UPDATES {
            let text = format!("{number} {}", "x".repeat(900_000));
            raw.merge(&format!("{}/large", raw.maps()), &json!({ "data": { "k": text } })).await.ok();
        }
        let mut received = 0;
        while let Some(event) = events.next().await {
            assert_eq!(event["type"], "MODIFIED");
            let text = event["object"]["data"]["k"].as_str().expect("a text");
            assert!(text.starts_with(&format!("{received} ")), "no event is missing before the end");
            received += 1;
        }
        assert!(received < UPDATES, "all {UPDATES} events were sent to a client that did not read");
    }

    /// docs/apiserver.md: row 13.
    async fn a_write_above_the_limit_is_refused_with_plain_text(cluster: Cluster) {
        let builder = ApiServer::builder().max_mutating_requests(NonZeroUsize::MIN);
        let flags = ["--max-mutating-requests-inflight=1", "--enable-priority-and-fairness=false"];
        let server = OwnServer::start(&cluster, builder, &flags).await;
        let raw = server.raw().await;
        let user = [("impersonate-user", "jane")];
        let none = format!("{}/none", raw.maps());
        let (config, token) = (server.config().await, server.token());
        let create =
            IncompleteCreate::occupy(&config, token.as_deref(), &raw, &none, &user).await;
        for (method, path) in [
            (Method::DELETE, none.as_str()),
            (Method::POST, &raw.maps()),
            (Method::PUT, &none),
            (Method::PATCH, &none),
            (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
            (Method::POST, "/nowhere"),
            (Method::POST, "/healthz"),
        ] {
            let yaml = [user[0], ("accept", "application/yaml")];
            let answer = raw.ask(method.clone(), path, &yaml, "{}").await;
            let is = (answer.code, answer.text.as_str());
            assert_eq!(is, (429, "Too many requests, please try again later.\n"), "{method} {path}");
            assert_eq!(answer.content_type, "text/plain; charset=utf-8");
            assert_eq!(answer.retry_after, "1");
        }
        for (method, path) in [
            (Method::GET, raw.maps()),
            (Method::GET, "/version".to_owned()),
            (Method::POST, raw.at("/api/v1", "pods/none/exec?command=a")),
        ] {
            let answer = raw.ask(method.clone(), &path, &user, "").await;
            assert_ne!(answer.code, 429, "{method} {path}: not limited");
        }
        // The client is a member of `system:masters`.
        raw.delete(&none).await.refused(404, "NotFound");
        assert_eq!(create.finish().await, 201);
        while raw.ask(Method::DELETE, &none, &user, "").await.code == 429 {}
    }

    /// docs/apiserver.md: row 103.
    async fn an_event_is_deleted_when_its_time_to_live_is_over(cluster: Cluster) {
        let builder = ApiServer::builder().event_ttl(Duration::from_secs(2));
        let server = OwnServer::start(&cluster, builder, &["--event-ttl=2s"]).await;
        let raw = server.raw().await;
        let events = raw.at("/api/v1", "events");
        let event = json!({
            "metadata": { "name": "a" },
            "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default" },
        });
        let created = raw.post(&events, &event).await.ok();
        raw.post(&raw.maps(), &named("a")).await.ok();
        let from = version(&created);
        let mut watch = raw.watch(&format!("{events}?watch=1&resourceVersion={from}")).await;
        // The embedded server deletes it within a request.
        let deleted = loop {
            raw.get(&events).await.ok();
            if let Ok(event) = timeout(Duration::from_millis(100), watch.event()).await {
                break event;
            }
        };
        raw.get(&format!("{events}/a")).await.refused(404, "NotFound");
        assert_eq!(deleted["type"], "DELETED");
        assert_eq!(deleted["object"]["metadata"]["uid"], created["metadata"]["uid"]);
        assert!(version(&deleted["object"]) > from);
        raw.get(&format!("{}/a", raw.maps())).await.ok();
    }

    /// docs/apiserver.md: row 71.
    async fn the_watches_of_a_server_that_stops_end_and_it_accepts_no_requests(cluster: Cluster) {
        // Without this flag, the real server closes the connections of watches after 60 s.
        let flags = ["--shutdown-watch-termination-grace-period=30s"];
        let server = OwnServer::start(&cluster, ApiServer::builder(), &flags).await;
        let raw = server.raw().await;
        let mut events = raw.watch(&format!("{}?watch=1", raw.maps())).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        while events.next_line().await != "ADDED a" {}
        let rest = async {
            while let Some(event) = events.next().await {
                assert_ne!(event["type"], "ERROR", "{event}");
            }
        };
        tokio::join!(rest, server.stop());
        let refused = raw.try_get(&raw.maps()).await;
        assert!(refused.is_none_or(|code| code == 503), "{refused:?}");
    }

    /// docs/apiserver.md: row 127.
    async fn a_client_accepts_only_the_certificate_authority_of_its_kubeconfig(cluster: Cluster) {
        let (kubeconfig, _listening) = if cluster.is_embedded() {
            let server = ApiServer::builder().tls(true).start();
            let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
            (listening.kubeconfig(), Some(listening))
        } else {
            cluster.kubeconfig().await
        };
        let config = config(&kubeconfig).await;
        assert_eq!(config.cluster_url.scheme_str(), Some("https"));
        let answer = Raw::of(client(config.clone()), "default").get("/api/v1/namespaces").await.ok();
        assert_eq!(answer["kind"], "NamespaceList");
        let mut stranger = config;
        stranger.root_cert = None;
        assert_eq!(Raw::of(client(stranger), "default").try_get("/api/v1/namespaces").await, None);
    }

    /// docs/apiserver.md: row 17.
    async fn an_unknown_token_is_unauthorized(cluster: Cluster) {
        let path = "/api/v1/namespaces";
        let answer = if let Some(client) = cluster.with_token("unknown").await {
            Raw::of(client, "default").get(path).await
        } else {
            let headers = [("authorization", "Bearer unknown")];
            Raw::new(&cluster).await.ask(http::Method::GET, path, &headers, "").await
        };
        assert_eq!(answer.body["kind"], "Status");
        assert_eq!(answer.refused(401, "Unauthorized"), "Unauthorized");
    }

    /// docs/apiserver.md: row 59.
    async fn a_watch_without_a_version_says_when_the_current_objects_end(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        for query in ["watch=true", "watch=true&resourceVersion=0"] {
            let path = format!("{}?{query}&allowWatchBookmarks=true", raw.maps());
            let mut events = raw.watch(&path).await;
            assert_eq!(events.next_line().await, "ADDED a", "{query}");
            let bookmark = events.event().await;
            assert_eq!(bookmark["type"], "BOOKMARK", "{query}");
            let annotations: &Value = &bookmark["object"]["metadata"]["annotations"];
            assert_eq!(annotations["k8s.io/initial-events-end"], "true", "{query}");
        }
    }
}
