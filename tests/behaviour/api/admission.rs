//! Admission of pods and claims: limit ranges, resource quotas, priorities and service accounts.

use libtest_mimic::Trial;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::garbage::Collected;
use super::raw::{Answer, Raw, named, pause};
use crate::{real::RealServer, trial::trial};

const TRIAL: &str = "?dryRun=All";

/// A pod with one container, of these requests and limits.
fn pod(name: &str, requests: &Value, limits: &Value) -> Value {
    let mut pod = named(name);
    let resources = json!({ "requests": requests, "limits": limits });
    let container = json!({ "name": "main", "image": "i:1", "resources": resources });
    pod["spec"] = json!({ "containers": [container] });
    pod
}

/// A claim of this size.
fn claim(name: &str, size: &str) -> Value {
    let mut claim = named(name);
    claim["spec"] = json!({
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": { "requests": { "storage": size } },
    });
    claim
}

/// Creates a limit range with one item.
async fn limit(raw: &Raw, name: &str, item: &Value) {
    let mut range = named(name);
    range["spec"] = json!({ "limits": [item] });
    raw.post(&raw.at("/api/v1", "limitranges"), &range)
        .await
        .ok();
}

/// Tries to create an object until the server refuses it: the real server learns of limits and
/// quotas by watching itself.
async fn until_refused(raw: &Raw, resource: &str, object: &Value) -> String {
    let path = raw.at("/api/v1", resource) + TRIAL;
    loop {
        let answer = raw.post(&path, object).await;
        if answer.code == 403 {
            return answer.refused(403, "Forbidden");
        }
        answer.ok();
        pause().await;
    }
}

/// Creates a quota, whose status a client writes in the place of a controller.
async fn quota(raw: &Raw, name: &str, spec: &Value, used: &Value) -> String {
    let mut quota = named(name);
    quota["spec"] = spec.clone();
    let quotas = raw.at("/api/v1", "resourcequotas");
    raw.post(&quotas, &quota).await.ok();
    let path = format!("{quotas}/{name}");
    let status = json!({ "status": { "hard": spec["hard"], "used": used } });
    raw.merge(&format!("{path}/status"), &status).await.ok();
    path
}

async fn used(raw: &Raw, quota: &str) -> Value {
    raw.get(quota).await.ok()["status"]["used"].clone()
}

fn prefixed(resource: &str, name: &str, rest: &str) -> String {
    format!("{resource} {name:?} is forbidden: {rest}")
}

on_both_servers! {
    /// docs/apiserver.md: "Admission".
    async fn a_limit_range_fills_in_the_resources_of_containers(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let item = json!({
            "type": "Container",
            "default": { "cpu": "500m", "memory": "1Gi" },
            "defaultRequest": { "cpu": "100m" },
        });
        limit(&raw, "defaults", &item).await;
        let pods = raw.at("/api/v1", "pods");
        let mut sent = pod("a", &json!({ "cpu": "200m" }), &json!({}));
        sent["spec"]["initContainers"] = json!([{ "name": "first", "image": "i:1" }]);
        let trial = format!("{pods}{TRIAL}");
        let annotation = |pod: &Value| pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"].clone();
        while raw.post(&trial, &sent).await.ok()["metadata"]["annotations"].is_null() {
            pause().await;
        }
        let created = raw.post(&pods, &sent).await.ok();
        assert_eq!(
            annotation(&created),
            "LimitRanger plugin set: memory request for container main; cpu, memory limit for \
             container main; cpu, memory request for init container first; cpu, memory limit for \
             init container first"
        );
        let resources = |list: &str| created["spec"][list][0]["resources"].clone();
        let expected = json!({
            "limits": { "cpu": "500m", "memory": "1Gi" },
            "requests": { "cpu": "200m", "memory": "1Gi" },
        });
        assert_eq!(resources("containers"), expected);
        assert_eq!(resources("initContainers")["requests"]["cpu"], "100m");
        assert_eq!(created["status"]["qosClass"], "Burstable");
    }

    /// docs/apiserver.md: "Admission".
    async fn a_limit_range_refuses_pods_outside_its_limits(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let item = json!({
            "type": "Container",
            "min": { "cpu": "100m" }, "max": { "cpu": "1" },
            "default": { "cpu": "1" }, "defaultRequest": { "cpu": "1" },
            "maxLimitRequestRatio": { "cpu": "2" },
        });
        limit(&raw, "limits", &item).await;
        let cpu = |amount: &str| json!({ "cpu": amount });
        for (request, limit, why) in [
            ("2", "2", "maximum cpu usage per Container is 1, but limit is 2"),
            ("50m", "60m", "minimum cpu usage per Container is 100m, but request is 50m"),
            ("100m", "1", "cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000"),
        ] {
            let object = pod("a", &cpu(request), &cpu(limit));
            let found = until_refused(&raw, "pods", &object).await;
            assert_eq!(found, prefixed("pods", "a", why));
        }
        let right = pod("a", &cpu("500m"), &cpu("1"));
        raw.post(&raw.at("/api/v1", "pods"), &right).await.ok();
    }

    /// docs/apiserver.md: "Admission".
    async fn a_limit_range_counts_whole_pods_and_claims(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let item = json!({ "type": "Pod", "max": { "memory": "1Gi" }, "min": { "memory": "64Mi" } });
        limit(&raw, "pods", &item).await;
        let memory = |amount: &str| json!({ "memory": amount });
        let mut two = pod("a", &memory("600Mi"), &memory("600Mi"));
        let mut second = two["spec"]["containers"][0].clone();
        second["name"] = json!("second");
        two["spec"]["containers"].as_array_mut().expect("a list").push(second);
        let why = until_refused(&raw, "pods", &two).await;
        let expected = "maximum memory usage per Pod is 1Gi, but limit is 1200Mi";
        assert_eq!(why, prefixed("pods", "a", expected));
        let none = pod("b", &json!({}), &json!({}));
        let why = until_refused(&raw, "pods", &none).await;
        let expected = "[minimum memory usage per Pod is 64Mi.  No request is specified, maximum \
                        memory usage per Pod is 1Gi.  No limit is specified]";
        assert_eq!(why, prefixed("pods", "b", expected));

        let item = json!({
            "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "2Gi" },
        });
        limit(&raw, "claims", &item).await;
        for (size, rest) in [
            ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
            ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
        ] {
            let why = until_refused(&raw, "persistentvolumeclaims", &claim("c", size)).await;
            assert_eq!(why, prefixed("persistentvolumeclaims", "c", rest));
        }
    }

    /// docs/apiserver.md: "Admission".
    async fn a_quota_limits_the_number_of_objects(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let hard = json!({ "configmaps": "2", "count/deployments.apps": "0", "services.nodeports": "1" });
        let none = json!({ "configmaps": "0", "count/deployments.apps": "0", "services.nodeports": "0" });
        let path = quota(&raw, "q", &json!({ "hard": hard }), &none).await;
        let mut service = named("s");
        let port = |number: u16| json!({ "name": format!("p{number}"), "port": number });
        service["spec"] = json!({ "type": "NodePort", "ports": [port(1), port(2)] });
        let why = until_refused(&raw, "services", &service).await;
        let expected = "exceeded quota: q, requested: services.nodeports=2, used: \
                        services.nodeports=0, limited: services.nodeports=1";
        assert_eq!(why, prefixed("services", "s", expected));

        let maps = raw.maps();
        raw.post(&maps, &named("a")).await.ok();
        raw.post(&format!("{maps}{TRIAL}"), &named("b")).await.ok();
        assert_eq!(used(&raw, &path).await["configmaps"], "1", "a dry run uses nothing");
        raw.post(&maps, &named("b")).await.ok();
        let why = raw.post(&maps, &named("c")).await.refused(403, "Forbidden");
        let expected = "exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: \
                        configmaps=2";
        assert_eq!(why, prefixed("configmaps", "c", expected));
        raw.merge(&format!("{maps}/a"), &json!({ "data": { "a": "b" } })).await.ok();

        service["spec"]["ports"] = json!([port(1)]);
        let services = raw.at("/api/v1", "services");
        raw.post(&services, &service).await.ok();
        let more = json!({ "spec": { "ports": [port(1), port(2)] } });
        let why = raw.merge(&format!("{services}/s"), &more).await.refused(403, "Forbidden");
        let expected = "exceeded quota: q, requested: services.nodeports=1, used: \
                        services.nodeports=1, limited: services.nodeports=1";
        assert_eq!(why, prefixed("services", "s", expected));
        assert_eq!(used(&raw, &path).await["services.nodeports"], "1");
        let entries = raw.get(&path).await.ok()["metadata"]["managedFields"].clone();
        let managers = entries.as_array().into_iter().flatten();
        let mut managers = managers.filter(|entry| entry["manager"] == "kube-apiserver");
        assert_eq!(managers.next().expect("an entry")["subresource"], "status");
    }

    /// docs/apiserver.md: "Admission".
    async fn a_quota_limits_what_pods_and_claims_request(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let hard = json!({ "pods": "2", "requests.cpu": "1", "limits.memory": "1Gi" });
        let none = json!({ "pods": "0", "requests.cpu": "0", "limits.memory": "0" });
        let path = quota(&raw, "q", &json!({ "hard": hard }), &none).await;
        let empty = pod("a", &json!({}), &json!({}));
        let why = until_refused(&raw, "pods", &empty).await;
        let expected = "failed quota: q: must specify limits.memory for: main; requests.cpu for: main";
        assert_eq!(why, prefixed("pods", "a", expected));
        let pods = raw.at("/api/v1", "pods");
        let memory = json!({ "memory": "512Mi" });
        let first = pod("a", &json!({ "cpu": "600m" }), &memory);
        raw.post(&pods, &first).await.ok();
        let expected = json!({ "pods": "1", "requests.cpu": "600m", "limits.memory": "512Mi" });
        assert_eq!(used(&raw, &path).await, expected);
        let second = pod("b", &json!({ "cpu": "500m" }), &json!({ "memory": "768Mi" }));
        let why = raw.post(&pods, &second).await.refused(403, "Forbidden");
        let expected = "exceeded quota: q, requested: limits.memory=768Mi,requests.cpu=500m, used: \
                        limits.memory=512Mi,requests.cpu=600m, limited: limits.memory=1Gi,requests.cpu=1";
        assert_eq!(why, prefixed("pods", "b", expected));

        let hard = json!({ "requests.storage": "5Gi", "fast.storageclass.storage.k8s.io/requests.storage": "1Gi" });
        let none = json!({ "requests.storage": "0", "fast.storageclass.storage.k8s.io/requests.storage": "0" });
        quota(&raw, "storage", &json!({ "hard": hard }), &none).await;
        let why = until_refused(&raw, "persistentvolumeclaims", &claim("c", "2Gi")).await;
        let expected = "exceeded quota: storage, requested: \
                        fast.storageclass.storage.k8s.io/requests.storage=2Gi, used: \
                        fast.storageclass.storage.k8s.io/requests.storage=0, limited: \
                        fast.storageclass.storage.k8s.io/requests.storage=1Gi";
        assert_eq!(why, prefixed("persistentvolumeclaims", "c", expected));
    }

    /// docs/apiserver.md: "Admission".
    async fn a_quota_with_scopes_is_about_some_pods_only(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let spec = |scope: &str| json!({ "hard": { "pods": "0" }, "scopes": [scope] });
        quota(&raw, "best-effort", &spec("BestEffort"), &json!({ "pods": "0" })).await;
        quota(&raw, "bounded", &spec("Terminating"), &json!({ "pods": "0" })).await;
        let requirement = json!({ "scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"] });
        let critical = json!({ "hard": { "pods": "0" }, "scopeSelector": { "matchExpressions": [requirement] } });
        quota(&raw, "critical", &critical, &json!({ "pods": "0" })).await;
        let refused = |quota: &str| {
            format!("pods \"a\" is forbidden: exceeded quota: {quota}, requested: pods=1, used: pods=0, limited: pods=0")
        };
        let best_effort = pod("a", &json!({}), &json!({}));
        assert_eq!(until_refused(&raw, "pods", &best_effort).await, refused("best-effort"));
        let cpu = json!({ "cpu": "1" });
        let mut bounded = pod("a", &cpu, &cpu);
        bounded["spec"]["activeDeadlineSeconds"] = json!(5);
        assert_eq!(until_refused(&raw, "pods", &bounded).await, refused("bounded"));
        let mut critical = pod("a", &cpu, &cpu);
        critical["spec"]["priorityClassName"] = json!("system-node-critical");
        assert_eq!(until_refused(&raw, "pods", &critical).await, refused("critical"));
        raw.post(&raw.at("/api/v1", "pods"), &pod("a", &cpu, &cpu)).await.ok();
    }

    /// docs/apiserver.md: "Admission".
    async fn the_priority_of_a_pod_is_that_of_its_class(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let name = format!("high-{}", raw.namespace);
        let mut class = named(&name);
        class["value"] = json!(1000);
        class["preemptionPolicy"] = json!("Never");
        raw.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.ok();
        let pods = raw.at("/api/v1", "pods");
        let mut high = pod("a", &json!({}), &json!({}));
        high["spec"]["priorityClassName"] = name.as_str().into();
        let created = raw.post(&pods, &high).await.ok();
        assert_eq!(created["spec"]["priority"], 1000);
        assert_eq!(created["spec"]["preemptionPolicy"], "Never");
        let plain = raw.post(&pods, &pod("b", &json!({}), &json!({}))).await.ok();
        assert_eq!(plain["spec"]["priority"], 0);
        let mut wrong = pod("c", &json!({}), &json!({}));
        wrong["spec"]["priorityClassName"] = json!("none");
        let why = raw.post(&pods, &wrong).await.refused(403, "Forbidden");
        assert_eq!(why, prefixed("pods", "c", "no PriorityClass with name none was found"));
        high["metadata"]["name"] = json!("d");
        high["spec"]["priority"] = json!(7);
        let why = raw.post(&pods, &high).await.refused(403, "Forbidden");
        let expected = "the integer value of priority (7) must not be provided in pod spec; \
                        priority admission controller computed 1000 from the given PriorityClass name";
        assert_eq!(why, prefixed("pods", "d", expected));
    }

    /// On a server whose other tests create no such objects: they would get the class too.
    async fn an_object_without_a_class_gets_the_newest_default_class(cluster: Cluster) {
        let Collected { raw } = Collected::new(&cluster, "").await;
        let ingress = |name: &str| {
            let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
            json!({ "metadata": { "name": name }, "spec": { "defaultBackend": backend } })
        };
        let claim = |name: &str| json!({ "metadata": { "name": name }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        } });
        for case in [
            ClassCase {
                classes: "/apis/networking.k8s.io/v1/ingressclasses",
                class: json!({ "spec": { "controller": "ex.io/c" } }),
                mark: "ingressclass.kubernetes.io/is-default-class",
                objects: raw.at("/apis/networking.k8s.io/v1", "ingresses"),
                object: &ingress,
                field: "ingressClassName",
                annotation: "kubernetes.io/ingress.class",
            },
            ClassCase {
                classes: "/apis/storage.k8s.io/v1/storageclasses",
                class: json!({ "provisioner": "ex.io/p" }),
                mark: "storageclass.kubernetes.io/is-default-class",
                objects: raw.at("/api/v1", "persistentvolumeclaims"),
                object: &claim,
                field: "storageClassName",
                annotation: "volume.beta.kubernetes.io/storage-class",
            },
        ] {
            case.check(&raw).await;
        }
    }
}

/// docs/apiserver.md: "Admission". Both servers run with the plugin for service accounts.
async fn a_pod_gets_its_account(raw: Raw) {
    let pods = raw.at("/api/v1", "pods");
    let create = async |pod: &Value| -> Answer { raw.post(&pods, pod).await };
    let mut unknown = pod("a", &json!({}), &json!({}));
    unknown["spec"]["serviceAccountName"] = json!("none");
    let why = create(&unknown).await.refused(403, "Forbidden");
    let expected = format!(
        "error looking up service account {}/none: serviceaccount \"none\" not found",
        raw.namespace
    );
    assert_eq!(why, prefixed("pods", "a", &expected));

    let mut created = create(&pod("a", &json!({}), &json!({}))).await.ok();
    let spec = &mut created["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    let name = spec["volumes"][0]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let end = name
        .strip_prefix("kube-api-access-")
        .expect("a generated name");
    assert_eq!(end.len(), 5);
    let mount = json!({
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": name, "readOnly": true,
    });
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
    let expected = json!([
        { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
        { "configMap": {
            "items": [{ "key": "ca.crt", "path": "ca.crt" }], "name": "kube-root-ca.crt",
        } },
        { "downwardAPI": { "items": [{
            "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
            "path": "namespace",
        }] } },
    ]);
    let projected = json!({ "defaultMode": 420, "sources": expected });
    assert_eq!(
        spec["volumes"],
        json!([{ "name": name, "projected": projected }])
    );

    let mut quiet = named("quiet");
    quiet["automountServiceAccountToken"] = json!(false);
    quiet["imagePullSecrets"] = json!([{ "name": "registry" }]);
    raw.post(&raw.at("/api/v1", "serviceaccounts"), &quiet)
        .await
        .ok();
    let mut other = pod("b", &json!({}), &json!({}));
    other["spec"]["serviceAccountName"] = json!("quiet");
    let without = create(&other).await.ok();
    assert_eq!(without["spec"].get("volumes"), None);
    assert_eq!(
        without["spec"]["imagePullSecrets"],
        json!([{ "name": "registry" }])
    );
    other["metadata"]["name"] = json!("c");
    other["spec"]["automountServiceAccountToken"] = json!(true);
    other["spec"]["imagePullSecrets"] = json!([{ "name": "own" }]);
    other["spec"]["initContainers"] = json!([{
        "name": "first", "image": "i:1",
        "volumeMounts": [{ "name": "mine", "mountPath": mount["mountPath"] }],
    }]);
    other["spec"]["volumes"] = json!([{ "name": "mine", "emptyDir": {} }]);
    let with = create(&other).await.ok();
    assert_eq!(with["spec"]["imagePullSecrets"], json!([{ "name": "own" }]));
    assert_eq!(
        with["spec"]["initContainers"][0]["volumeMounts"][0]["name"],
        "mine"
    );
    assert_eq!(with["spec"]["volumes"].as_array().map(Vec::len), Some(2));
    let mount = &with["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], with["spec"]["volumes"][1]["name"]);
}

/// Runs [`a_pod_gets_its_account`] in a namespace with the account `default`. The real server runs
/// until then.
fn run_with_accounts(server: impl AsyncFnOnce() -> (Raw, Option<RealServer>)) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (raw, _server) = server().await;
        a_pod_gets_its_account(raw).await;
    });
}

/// The tests of [`a_pod_gets_its_account`], each on a server of its own.
pub(crate) fn trials_with_accounts() -> [Trial; 2] {
    let of = |name, body: fn()| trial(module_path!(), name, body);
    [
        of(
            "a_pod_gets_its_account_on_the_embedded_server",
            a_pod_gets_its_account_on_the_embedded_server,
        ),
        of(
            "a_pod_gets_its_account_on_kube_apiserver",
            a_pod_gets_its_account_on_kube_apiserver,
        ),
    ]
}

fn a_pod_gets_its_account_on_the_embedded_server() {
    run_with_accounts(async || {
        let server = ApiServer::builder().namespace_contents(true).start();
        let client = kube::Client::new(server.service(), "default");
        (Raw::of(client, "default"), None)
    });
}

fn a_pod_gets_its_account_on_kube_apiserver() {
    run_with_accounts(async || {
        let real = RealServer::with_accounts();
        let client = kube::Client::try_from(real.config().await).expect("a client");
        let raw = Raw::of(client, "default");
        let accounts = raw.at("/api/v1", "serviceaccounts");
        raw.post(&accounts, &named("default")).await.ok();
        (raw, Some(real))
    });
}

/// A kind of classes, and the kind whose objects get the default one.
struct ClassCase<'a> {
    classes: &'static str,
    class: Value,
    mark: &'static str,
    objects: String,
    object: &'a dyn Fn(&str) -> Value,
    field: &'static str,
    annotation: &'static str,
}

// === impl ClassCase ===

impl ClassCase<'_> {
    async fn check(&self, raw: &Raw) {
        let trial = format!("{}{TRIAL}", self.objects);
        let plain = raw.post(&trial, &(self.object)("a")).await.ok();
        assert_eq!(
            plain["spec"].get(self.field),
            None,
            "no class is the default: {plain}"
        );
        let name = |suffix: &str| format!("{}-{suffix}", raw.namespace);
        // Created in the same second or not: the second name is the first by its order.
        for suffix in ["b", "a"] {
            let mut class = self.class.clone();
            class["metadata"] = json!({
                "name": name(suffix), "annotations": { self.mark: "true" },
            });
            raw.post(self.classes, &class).await.ok();
        }
        // The real server learns of classes by watching itself.
        loop {
            let answer = raw.post(&trial, &(self.object)("a")).await.ok();
            if answer["spec"][self.field] == name("a") {
                break;
            }
            pause().await;
        }
        let created = raw.post(&self.objects, &(self.object)("a")).await.ok();
        assert_eq!(created["spec"][self.field], name("a"));
        let fields = &created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
        assert_eq!(fields.get(format!("f:{}", self.field)), None, "{created}");
        let mut chosen = (self.object)("b");
        chosen["spec"][self.field] = "mine".into();
        assert_eq!(
            raw.post(&trial, &chosen).await.ok()["spec"][self.field],
            "mine"
        );
        let mut annotated = (self.object)("c");
        annotated["metadata"]["annotations"] = json!({ self.annotation: "mine" });
        let annotated = raw.post(&trial, &annotated).await.ok();
        assert_eq!(annotated["spec"].get(self.field), None, "{annotated}");
        for suffix in ["a", "b"] {
            raw.delete(&format!("{}/{}", self.classes, name(suffix)))
                .await
                .ok();
        }
        // Other tests create such objects too.
        loop {
            let answer = raw.post(&trial, &(self.object)("d")).await.ok();
            if answer["spec"].get(self.field).is_none() {
                break;
            }
            pause().await;
        }
    }
}
