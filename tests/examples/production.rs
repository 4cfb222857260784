//! The example `production`: its manifests are valid, and grant what it needs.

use std::{
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::{client::legacy::Client as HttpClient, rt::TokioExecutor};
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    coordination::v1::Lease,
    core::v1::{ConfigMap, ServiceAccount},
};
use kube::{Api, Client, api::PostParams, runtime::wait::await_condition};
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_apiserver::{ApiServer, Listening, Profile, read_manifest};

const OPERATOR: &str = include_str!("../../examples/production/deploy/operator.yaml");
const MONITOR: &str = include_str!("../../examples/production/deploy/service-monitor.yaml");
const LIMIT: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "greeter";

/// The example, which is killed when this is dropped.
struct Operator {
    process: Child,
    admin: SocketAddr,
    log: Receiver<String>,
}

// The operator waits for the server while the test waits for the operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_runs_with_exactly_its_role_and_stops_at_sigterm() {
    let (server, listening) = cluster(None, Profile::V1_36).await;
    let mut operator = Operator::start(&server, &listening, &[]).await;
    greet(&server).await;
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), NAMESPACE);
    let greeted = |config: Option<&ConfigMap>| {
        let data = config.and_then(|config| config.data.as_ref());
        data.is_some_and(|data| data.get("greeting").is_some_and(|it| it == "Hello, world!"))
    };
    let greeted = timeout(LIMIT, await_condition(configs, "world", greeted)).await;
    greeted.expect("it greets in time").expect("no error");
    // The pages that the manifests name.
    for (page, part) in [
        ("/live", "ok"),
        ("/ready", "ok"),
        ("/metrics", "controller_runtime_reconcile_total"),
    ] {
        let (code, body) = operator.page(page).await;
        assert!(code == 200 && body.contains(part), "{page}: {code} {body}");
    }
    let pid = operator.process.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("there is a kill").success());
    operator.line("released the lease");
    assert!(operator.process.wait().expect("a child").success());
}

#[test]
fn an_error_at_the_start_is_one_line_with_its_causes() {
    for example in ["production", "cronjob", "issues"] {
        for (arguments, expected) in [
            (
                ["--leader-election=false", "--identity=me"],
                "error: the setting `identity` (`--identity`) has no effect in this operator, because it \
                 uses no leader election: remove it\n",
            ),
            (
                ["--lease-duration=1s", "--lease-name=web"],
                "error: the settings of the leader election are invalid: ",
            ),
        ] {
            let mut command = Command::new(super::built(example));
            // A kubeconfig, so that the example does not look for a service account.
            let kubeconfig = std::env::temp_dir().join("windlass-no-cluster.yaml");
            let config = json!({
                "current-context": "none",
                "clusters": [{ "name": "none", "cluster": { "server": "http://127.0.0.1:1" } }],
                "contexts": [{ "name": "none", "context": { "cluster": "none", "user": "none" } }],
                "users": [{ "name": "none", "user": {} }],
            });
            std::fs::write(&kubeconfig, config.to_string()).expect("a file");
            let output = command
                .args(arguments)
                .env("KUBECONFIG", kubeconfig)
                .output();
            let output = output.expect("the example runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.starts_with(expected), "{example}: {errors}");
            assert_eq!(errors.lines().count(), 1, "{example}: {errors}");
            assert_eq!(output.status.code(), Some(1), "{example}");
        }
    }
}

/// Rows: BO-56
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_obeys_settings_from_each_source() {
    let (server, listening) = cluster(None, Profile::V1_36).await;
    let port = listening.addr().port();
    let file = std::env::temp_dir().join(format!("windlass-production-{port}.yaml"));
    let settings = json!({
        "operator": { "leaseDuration": "40s", "identity": "of-the-file", "diagnostics": true },
        "controller": { "concurrency": 3 },
        "watch": { "labelSelector": "greeter.windlass.dev/greet=no" },
    });
    std::fs::write(&file, settings.to_string()).expect("a file");
    let config = format!("--config={}", file.display());
    let arguments = [
        &*config,
        "--lease-name=other",
        "--identity=of-the-arguments",
        "--shards=1",
        // Blank, as a chart may leave it: the namespace of the pod, and not all of them.
        "--namespaces=",
    ];
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/greeter/roles/greeter";
    let rule = json!([{ "op": "replace", "path": "/rules", "value": [
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
    ] }]);
    let request = http::Request::patch(roles)
        .header("content-type", "application/json-patch+json")
        .body(rule.to_string().into_bytes())
        .expect("a request");
    server
        .client()
        .request_text(request)
        .await
        .expect("the role is there");
    let operator = Operator::start(&server, &listening, &arguments).await;
    let leases: Api<Lease> = Api::namespaced(server.client(), NAMESPACE);
    let held = |lease: Option<&Lease>| lease.is_some_and(|it| it.spec.is_some());
    let lease = timeout(LIMIT, await_condition(leases, "other-0", held)).await;
    let lease = lease
        .expect("it leads in time")
        .expect("no error")
        .expect("there");
    let lease = lease.spec.expect("a spec");
    assert_eq!(lease.holder_identity.as_deref(), Some("of-the-arguments"));
    assert_eq!(lease.lease_duration_seconds, Some(40));

    greet(&server).await;
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), NAMESPACE);
    let other = json!({ "metadata": { "name": "other", "labels": { "greeter.windlass.dev/greet": "no" } } });
    let other = serde_json::from_value(other).expect("a config map");
    configs
        .create(&PostParams::default(), &other)
        .await
        .expect("it is new");
    let greeted = |config: Option<&ConfigMap>| config.is_some_and(|it| it.data.is_some());
    let greeted = timeout(LIMIT, await_condition(configs.clone(), "other", greeted)).await;
    greeted.expect("it greets in time").expect("no error");
    assert_eq!(
        configs.get("world").await.expect("there").data,
        None,
        "not selected"
    );
    let (code, metrics) = operator.page("/metrics").await;
    let workers = "controller_runtime_max_concurrent_reconciles{controller=\"greeter\"} 3";
    assert!(code == 200 && metrics.contains(workers), "{metrics}");
    assert_eq!(operator.page("/debug/windlass").await.0, 200);
    std::fs::remove_file(file).expect("written above");
}

// The operator waits for the server while the test waits for the operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_names_the_verb_that_its_role_lacks() {
    let informer = "must grant `list` and `watch` on configmaps";
    let lease = |verb: &str| format!("cannot {verb} the lease greeter/greeter: forbidden");
    for (resource, verb, message) in [
        ("configmaps", "list", informer.to_owned()),
        ("configmaps", "watch", informer.to_owned()),
        (
            "configmaps",
            "patch",
            "cannot patch resource \"configmaps\"".to_owned(),
        ),
        ("leases", "get", lease("get")),
        ("leases", "create", lease("create")),
        ("leases", "update", lease("update")),
    ] {
        // A streamed list needs the verb `watch` alone, so that nothing fails without `list` on a
        // server that streams.
        let profile = match verb {
            "list" => Profile::V1_33,
            _ => Profile::V1_36,
        };
        let (server, listening) = cluster(Some((resource, verb)), profile).await;
        greet(&server).await;
        let operator = Operator::start(&server, &listening, &[]).await;
        operator.line(&message);
    }
}

#[test]
fn the_manifests_of_production_are_hardened_and_refer_to_each_other() {
    let documents = read_manifest(OPERATOR).expect("valid YAML");
    let of = |kind: &str| {
        let found = documents.iter().find(|it| it["kind"] == kind);
        found.unwrap_or_else(|| panic!("there is no {kind}"))
    };
    let pod = &of("Deployment")["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true);
    let security = &container["securityContext"];
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/live");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/ready");
    // The drain timeout, and 3 s.
    assert!(pod["spec"]["terminationGracePeriodSeconds"].as_u64() >= Some(28));
    let labels = &pod["metadata"]["labels"];
    for selector in [
        &of("Deployment")["spec"]["selector"]["matchLabels"],
        &of("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &of("Service")["spec"]["selector"],
    ] {
        assert_eq!(selector, labels);
    }
    let monitor = &read_manifest(MONITOR).expect("valid YAML")[0]["spec"];
    assert_eq!(
        monitor["selector"]["matchLabels"],
        of("Service")["metadata"]["labels"]
    );
    assert_eq!(
        monitor["endpoints"][0]["port"],
        of("Service")["spec"]["ports"][0]["name"]
    );
}

/// A server whose roles decide, with the manifests. `without` is a resource and a verb that the role
/// does not grant.
async fn cluster(without: Option<(&str, &str)>, profile: Profile) -> (ApiServer, Listening) {
    let server = ApiServer::builder().rbac(true).profile(profile).start();
    let client = server.client();
    for mut document in read_manifest(OPERATOR).expect("valid YAML") {
        if let (Some((resource, verb)), "Role") =
            (without, document["kind"].as_str().unwrap_or_default())
        {
            let rules = document["rules"].as_array_mut().expect("rules");
            for rule in rules
                .iter_mut()
                .filter(|rule| rule["resources"][0] == resource)
            {
                let verbs = rule["verbs"].as_array_mut().expect("verbs");
                verbs.retain(|it| it != verb);
            }
            rules.retain(|rule| rule["verbs"] != json!([]));
        }
        create(&client, &document).await;
    }
    let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    (server, listening)
}

/// Creates the object of a manifest. All of these kinds have a regular plural.
async fn create(client: &Client, document: &Value) {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let version = text(&document["apiVersion"]);
    let root = if version == "v1" { "/api" } else { "/apis" };
    let namespace = document["metadata"]["namespace"].as_str();
    let namespace = namespace.map_or_else(String::new, |it| format!("/namespaces/{it}"));
    let plural = text(&document["kind"]).to_lowercase();
    let request = http::Request::post(format!("{root}/{version}{namespace}/{plural}s"))
        .header("content-type", "application/json")
        .body(document.to_string().into_bytes())
        .expect("a request");
    let created = client.request_text(request).await;
    created.unwrap_or_else(|error| panic!("{document}: {error}"));
}

/// Creates an object that the operator greets.
async fn greet(server: &ApiServer) {
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), NAMESPACE);
    let world = json!({ "metadata": {
        "name": "world", "labels": { "greeter.windlass.dev/greet": "yes" },
    } });
    let world = serde_json::from_value(world).expect("a config map");
    let created = configs.create(&PostParams::default(), &world).await;
    created.expect("it is new");
}

// === impl Operator ===

impl Operator {
    /// Runs the example with the service account of the manifests.
    async fn start(server: &ApiServer, listening: &Listening, arguments: &[&str]) -> Self {
        let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), NAMESPACE);
        let token = accounts
            .create_token_request("greeter", &PostParams::default(), &TokenRequest::default())
            .await
            .expect("a token");
        let token = token.status.expect("a status").token;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "a", "cluster": { "server": listening.url() } }],
            "users": [{ "name": "a", "user": { "token": token } }],
            "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
            "current-context": "a",
        });
        let port = listening.addr().port();
        let path = std::env::temp_dir().join(format!("windlass-production-{port}.json"));
        std::fs::write(&path, kubeconfig.to_string()).expect("a file");
        // Before a port is chosen, which is free only until another process binds it.
        let program = super::built("production");
        let admin = TcpListener::bind("127.0.0.1:0").expect("a port");
        let admin = admin.local_addr().expect("an address");
        let mut process = Command::new(program)
            .env("KUBECONFIG", &path)
            .env("POD_NAMESPACE", NAMESPACE)
            .env("POD_NAME", "greeter-0")
            .env("OPERATOR_ADMIN_ADDRESS", admin.to_string())
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let (send, log) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                _ = send.send(line);
            }
        });
        Self {
            process,
            admin,
            log,
        }
    }

    /// Requests a page of the admin server.
    async fn page(&self, path: &str) -> (u16, String) {
        let client: HttpClient<_, Full<Bytes>> =
            HttpClient::builder(TokioExecutor::new()).build_http();
        let url = format!("http://{}{path}", self.admin);
        let response = client
            .get(url.parse().expect("a URL"))
            .await
            .expect("a response");
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body");
        (code, String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }

    /// Waits for a log line that contains `part`.
    #[track_caller]
    fn line(&self, part: &str) -> String {
        let mut lines = Vec::new();
        while let Ok(line) = self.log.recv_timeout(LIMIT) {
            if line.contains(part) {
                return line;
            }
            lines.push(line);
        }
        panic!("no {part:?} in\n{}", lines.join("\n"));
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
