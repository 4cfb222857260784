//! The page `/debug/windlass` of the admin server.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    AdminServer, Context, Controller, Failure, LeaderElection, Operator, Outcome, Watch,
    admin::HealthDetails, operator::OperatorError,
};

use crate::{
    cluster::Cluster,
    kinds::{config, labelled},
    watched::quick,
};

/// One replica of the program of a user, and the address of its admin server.
struct Replica {
    address: SocketAddr,
    stop: CancellationToken,
    run: AbortOnDropHandle<Result<(), OperatorError>>,
}

/// The election of the replica with this identity. Its lease is long, so that a busy machine loses
/// none.
fn election(cluster: &Cluster, identity: &str) -> LeaderElection {
    let election = LeaderElection::builder(cluster.aside(), cluster.namespace(), "web");
    let election = election
        .identity(identity)
        .retry_period(Duration::from_millis(100));
    let election = election.lease_duration(Duration::from_secs(120));
    let election = election.renew_deadline(Duration::from_secs(60));
    election.build().expect("good settings")
}

// === impl Replica ===

impl Replica {
    /// The program of a user: a controller of config maps with their secrets.
    fn start(
        cluster: &Cluster,
        client: Client,
        election: Option<LeaderElection>,
        pages: impl FnOnce(AdminServer) -> AdminServer,
    ) -> Self {
        let namespace = cluster.namespace();
        let configs = Api::<ConfigMap>::namespaced(client.clone(), namespace);
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let mut builder = Controller::builder(client, Watch::from(configs).settings(quick));
        builder.owns(Watch::from(secrets).settings(quick));
        let controller = builder
            .name("web")
            .build(|_: Context<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) });

        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let admin = pages(AdminServer::new(listener));
        let operator = Operator::builder().admin_server(admin);
        let operator = match election {
            Some(election) => operator.leader_election(election),
            None => operator,
        };
        let operator = operator.build();
        operator
            .add_controller(controller.expect("good settings"))
            .expect("it does not run");
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { operator.run_until(stop).await }
        });
        Self {
            address,
            stop,
            run: AbortOnDropHandle::new(run),
        }
    }

    /// The status line and the body of the page.
    async fn text(&self) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        let request = "GET /debug/windlass HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n";
        stream
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .await
            .expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a response");
        (head.to_lowercase(), body.to_owned())
    }

    async fn page(&self) -> Value {
        let (head, body) = self.text().await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Waits until the page is as `wanted`.
    async fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let page = self.page().await;
            if wanted(&page) {
                return page;
            }
            // Between two requests: the port has no notification.
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.run.await.expect("no panic").expect("no error");
    }
}

/// The informer of `kind` in a page.
fn informer<'a>(page: &'a Value, kind: &str) -> &'a Value {
    let informers = page["controllers"][0]["informers"].as_array();
    let mut informers = informers.expect("a list").iter();
    let found = informers.find(|informer| informer["kind"] == kind);
    found.unwrap_or_else(|| panic!("no informer of {kind}: {page}"))
}

fn last_event(informer: &Value) -> Timestamp {
    let text = informer["last_event"].as_str().expect("an event");
    text.parse().expect("a time")
}

on_both_servers! {
    /// Rows: BO-50
    async fn a_page_shows_what_each_informer_has_done_and_who_holds_the_lease(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        for name in ["name-a", "name-b"] {
            let config = labelled(config(name, "content-of-a-config"), "test.windlass.dev/label", "labelled");
            configs.create(&PostParams::default(), &config).await.expect("new");
        }
        let secret = json!({ "metadata": { "name": "name-c" }, "stringData": { "key": "hush" } });
        let secret = serde_json::from_value(secret).expect("a secret");
        secrets.create(&PostParams::default(), &secret).await.expect("new");

        // The leader; a replica that watches too, by another connection; a standby.
        let pages = AdminServer::diagnostics;
        let history = cluster.remember_history().await;
        let leader = Replica::start(&cluster, cluster.client().await, Some(election(&cluster, "one")), pages);
        let leads = |page: &Value| page["lease"]["holder"] == "one";
        let page = leader.until(leads).await;
        assert_eq!(page["lease"], json!({
            "name": format!("{}/web", cluster.namespace()), "holder": "one", "identity": "one",
        }));
        let other = Replica::start(&cluster, cluster.aside(), None, pages);
        let standby = Replica::start(&cluster, cluster.aside(), Some(election(&cluster, "two")), pages);
        let page = standby.until(leads).await;
        assert_eq!(page["lease"]["identity"], "two");
        let idle = informer(&page, "configmaps");
        assert_eq!(idle["state"], "not started");
        assert_eq!((&idle["lists"], &idle["objects"], &idle["last_event"]), (&json!(0), &json!(0), &Value::Null));
        standby.stop().await;

        // Both have the same objects, which they received in any order.
        let count = configs.list(&ListParams::default()).await.expect("a list").items.len();
        let has_all = |page: &Value| {
            informer(page, "configmaps")["objects"] == count && informer(page, "secrets")["objects"] == 1
        };
        let (mine, theirs) = (leader.until(has_all).await, other.until(has_all).await);
        assert_eq!(theirs["lease"], Value::Null, "without an election");
        assert_eq!(mine["controllers"][0]["name"], "web");
        for kind in ["configmaps", "secrets"] {
            let (mine, theirs) = (informer(&mine, kind), informer(&theirs, kind));
            assert_eq!(mine["checksum"], theirs["checksum"], "{kind}");
            assert_eq!((&mine["synced"], &mine["lists"], &mine["error"]), (&json!(true), &json!(1), &Value::Null));
            assert_eq!(mine["restarts"], json!({}));
            assert!(last_event(mine) <= Timestamp::now());
        }
        assert_ne!(informer(&mine, "configmaps")["checksum"], informer(&mine, "secrets")["checksum"]);

        // The watches of the leader break: it does not see a change, and cannot list.
        let before = informer(&mine, "configmaps").clone();
        drop(history);
        cluster.connection().refuse();
        cluster.connection().cut();
        let patch = Patch::Merge(json!({ "data": { "value": "content-of-a-change" } }));
        configs.patch("name-a", &PatchParams::default(), &patch).await.expect("there");
        cluster.forget_history().await;
        let theirs = other.until(|page| informer(page, "configmaps")["checksum"] != before["checksum"]).await;
        let changed = informer(&theirs, "configmaps");
        assert_eq!(changed["objects"], before["objects"]);
        assert!(last_event(changed) > last_event(&before));
        let is_down = |page: &Value| {
            let informer = informer(page, "configmaps");
            informer["state"] == "down" && informer["restarts"]["connection"].as_u64() > Some(1)
        };
        let mine = leader.until(is_down).await;
        let broken = informer(&mine, "configmaps");
        assert_eq!(broken["error"], "connection");
        assert_eq!((&broken["checksum"], &broken["last_event"]), (&before["checksum"], &before["last_event"]));

        // It lists again.
        cluster.connection().accept();
        let has_relisted = |page: &Value| {
            let informer = informer(page, "configmaps");
            informer["checksum"] == changed["checksum"] && informer["lists"].as_u64() > Some(1)
        };
        let mine = leader.until(has_relisted).await;
        let relisted = informer(&mine, "configmaps");
        assert!(relisted["restarts"]["expired"].as_u64() >= Some(1), "{relisted}");
        assert_eq!((&relisted["state"], &relisted["error"]), (&json!("watching"), &Value::Null));
        assert!(last_event(relisted) > last_event(&before));

        // No content of an object, and no text of an error.
        let (_, text) = leader.text().await;
        for hidden in ["name-", "content", "label", "hush", "aHVzaA", "refused"] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
        leader.stop().await;
        other.stop().await;
    }

    /// Rows: BO-50
    async fn the_page_is_off_by_default_and_only_for_clients_that_see_reasons(cluster: Cluster) {
        for (status, is_on) in [(404, false), (403, true)] {
            let pages = |server: AdminServer| {
                if is_on {
                    server.diagnostics().health_details(HealthDetails::None)
                } else {
                    server
                }
            };
            let replica = Replica::start(&cluster, cluster.aside(), None, pages);
            let (head, body) = replica.text().await;
            assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
            assert!(!body.contains("configmaps"), "{body}");
            replica.stop().await;
        }
    }
}
