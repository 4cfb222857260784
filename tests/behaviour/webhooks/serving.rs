//! When, where and with which certificate webhooks are served.

use std::{
    convert::Infallible,
    net::{SocketAddr, TcpListener},
    sync::{Arc, mpsc},
    time::Duration,
};

use http::Request;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ObjectMeta, PostParams};
use libtest_mimic::Trial;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass::{
    AdminServer, LeaderElection, Operator,
    controller::Runnable,
    webhook::{AdmissionRequest, Denied, WebhookServer},
};

use super::{
    VALIDATE,
    program::v1,
    rig::{Certificate, Rig, TlsFolder, admission, post, send, website},
};
use crate::cluster::{self, Cluster};

/// A controller that calls the webhooks of its operator at its start and after its stop.
struct Caller {
    address: SocketAddr,
    certificate: Certificate,
    calls: Arc<Mutex<Vec<bool>>>,
}

// === impl Caller ===

impl Caller {
    async fn call(&self) {
        let answer = send(self.address, &self.certificate, post(VALIDATE, review())).await;
        self.calls.lock().push(answer.is_ok_and(|it| it.0 == 200));
    }
}

impl Runnable for Caller {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        "caller"
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Infallible> {
        self.call().await;
        stop.cancelled().await;
        self.call().await;
        Ok(())
    }
}

on_both_servers! {
    /// Rows: BO-64
    async fn a_replica_that_does_not_lead_serves_webhooks_and_says_so(cluster: Cluster) {
        let lease = Lease {
            metadata: ObjectMeta { name: Some("websites".to_owned()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some("other".to_owned()),
                lease_duration_seconds: Some(3600),
                ..LeaseSpec::default()
            }),
        };
        cluster.api_aside::<Lease>().create(&PostParams::default(), &lease).await.expect("new");
        let election = LeaderElection::builder(cluster.aside(), cluster.namespace(), "websites");
        let election = election.identity("standby").build().expect("good settings");
        let admin = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let pages = admin.local_addr().expect("an address");
        let builder = Operator::builder()
            .leader_election(election)
            .admin_server(AdminServer::new(admin));
        let (rig, certificate) = Rig::start(&cluster, builder).await;
        let site = website(&json!({ "title": "" }));
        let answer = rig.post(&certificate, VALIDATE, &admission("CREATE", &site, &Value::Null)).await;
        assert_eq!(answer["response"]["allowed"], false);
        let line = format!("[+] webhooks: listening on [{}]", rig.address);
        loop {
            let page = get(&format!("http://{pages}"), "/ready").await;
            if page.contains("other holds the lease") {
                assert!(page.starts_with("ok\n") && page.contains(&line), "{page}");
                break;
            }
            // Between two reads of the page, until the lease was read.
            sleep(Duration::from_millis(5)).await;
        }
        rig.stop().await;
    }
    /// Rows: BO-64
    async fn webhooks_start_before_the_controllers_and_stop_after_them(cluster: Cluster) {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (rig, certificate) = Rig::start_with(&cluster, Operator::builder(), |operator, address, certificate| {
            let (certificate, calls) = (certificate.clone(), Arc::clone(&calls));
            operator.add_controller(Caller { address, certificate, calls }).expect("new");
        })
        .await;
        while calls.lock().is_empty() {
            // Between two looks, until the controller has called.
            sleep(Duration::from_millis(5)).await;
        }
        let address = rig.address;
        rig.stop().await;
        assert_eq!(*calls.lock(), [true, true]);
        let answer = send(address, &certificate, post(VALIDATE, review())).await;
        answer.expect_err("it has ended with its operator");
    }

    /// Rows: BO-64
    async fn a_renewed_certificate_is_loaded_while_the_operator_runs(cluster: Cluster) {
        let (rig, first) = Rig::start(&cluster, Operator::builder()).await;
        let call = async |certificate| rig.send(certificate, post(VALIDATE, review())).await;
        assert_eq!(call(&first).await.expect("it trusts the first").0, 200);
        let second = rig.tls.renew();
        // The operator looks at the files every 10 seconds.
        while call(&second).await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
        call(&first).await.expect_err("it is no longer used");
        rig.stop().await;
    }
}

/// A test without a cluster.
pub(super) fn on_a_blocked_runtime() -> Trial {
    let name = "webhooks_are_answered_in_time_on_a_blocked_runtime";
    let body = webhooks_are_answered_in_time_on_a_blocked_runtime;
    let [embedded, _] = cluster::trials(module_path!(), name, body);
    embedded
}

/// Rows: BO-64
async fn webhooks_are_answered_in_time_on_a_blocked_runtime(_: Cluster) {
    let (tls, listener) = (TlsFolder::new(), TcpListener::bind("127.0.0.1:0"));
    let (certificate, listener) = (tls.renew(), listener.expect("a port"));
    let address = listener.local_addr().expect("an address");
    let (unblock, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let (certificate_file, key) = (tls.0.join("tls.crt"), tls.0.join("tls.key"));
    let webhooks = WebhookServer::new(listener, certificate_file, key)
        .validate(VALIDATE, move |_: AdmissionRequest<v1::Website>| {
            let blocked = Arc::clone(&blocked);
            async move {
                _ = blocked.lock().recv();
                Ok::<_, Denied>(())
            }
        })
        .expect("a path");
    let operator = Operator::builder().webhook_server(webhooks).build();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    // Its only thread, which the handler blocks.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .expect("a runtime")
            .block_on(operator.run_until(stopped))
    });
    for _ in 0..2 {
        let request = post(&format!("{VALIDATE}?timeout=1s"), review());
        let (status, text) = send(address, &certificate, request)
            .await
            .expect("a response");
        assert!(
            status == 500 && text.contains("did not answer within 500ms"),
            "{status} {text}"
        );
    }
    drop(unblock);
    stop.cancel();
    thread.join().expect("no panic").expect("no error");
}

fn review() -> String {
    admission("CREATE", &website(&json!({ "title": "a" })), &Value::Null).to_string()
}

/// The text of a page.
async fn get(url: &str, page: &str) -> String {
    let config = kube::Config::new(url.parse().expect("a URL"));
    let client = kube::Client::try_from(config).expect("a client");
    let request = Request::get(page).body(Vec::new()).expect("a request");
    client
        .request_text(request)
        .await
        .unwrap_or_else(|error| error.to_string())
}
