//! The controller manager and the scheduler of Kubernetes, unchanged, on both servers: Deployments and
//! Jobs work. A test stands in for the kubelet.
//!
//! The program is `tests/kube-controllers`, which `cargo xtask test` builds where Go is installed; its
//! path is in `WINDLASS_KUBE_CONTROLLERS`. `docs/apiserver.md` has the recipe for the released binaries.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use windlass_apiserver::{ApiServer, Listening};

use crate::{
    cluster::{Cluster, await_condition, create_namespace, profile},
    real::RealServer,
    trial::ignore,
};

const VARIABLE: &str = "WINDLASS_KUBE_CONTROLLERS";

/// A server with the controllers of Kubernetes, which end with it.
struct Controlled {
    client: Client,
    namespace: String,
    folder: PathBuf,
    _programs: [Child; 2],
    _listening: Option<Listening>,
    _real: Option<RealServer>,
}

// === impl Controlled ===

impl Controlled {
    /// Ends the test as ignored where the program is missing.
    async fn start(cluster: &Cluster) -> Self {
        let Some(program) = std::env::var_os(VARIABLE) else {
            ignore("no controllers of Kubernetes: run `cargo xtask test` where Go is installed");
        };
        // A server of its own: the controllers act on all namespaces.
        let (kubeconfig, client, listening, real) = if cluster.is_embedded() {
            let server = ApiServer::builder()
                .profile(profile())
                .tls(true)
                .rbac(true)
                .garbage_collection(false)
                .start();
            let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
            let kubeconfig = listening.kubeconfig();
            (kubeconfig, server.client(), Some(listening), None)
        } else {
            let real = RealServer::own(&[]);
            let kubeconfig = serde_yaml_ng::to_string(&real.kubeconfig).expect("a kubeconfig");
            let client = Client::try_from(real.config().await).expect("a client");
            (kubeconfig, client, None, Some(real))
        };
        let name = format!("windlass-{}-controllers", cluster.namespace());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("kubeconfig");
        fs::write(&path, kubeconfig).expect("a file");
        let start = |name: &str, flags: &[&str]| {
            Command::new(&program)
                .arg(name)
                .arg("--kubeconfig")
                .arg(&path)
                .args(["--leader-elect=false", "--secure-port=0"])
                .args(flags)
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .expect("it starts")
        };
        let programs = [
            start(
                "kube-controller-manager",
                &[
                    "--controllers=deployment-controller,replicaset-controller,job-controller,garbage-collector-controller",
                ],
            ),
            start("kube-scheduler", &[]),
        ];
        create_namespace(client.clone(), cluster.namespace()).await;
        let controlled = Self {
            client,
            namespace: cluster.namespace().to_owned(),
            folder,
            _programs: programs,
            _listening: listening,
            _real: real,
        };
        controlled.add_node().await;
        controlled
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Adds a node that is ready, as a kubelet does.
    async fn add_node(&self) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({
            "metadata": { "name": "node" },
            "status": {
                "capacity": { "cpu": "8", "memory": "16Gi", "pods": "110" },
                "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        let node = serde_json::from_value(node).expect("a node");
        nodes
            .create(&PostParams::default(), &node)
            .await
            .expect("new");
        // No controller of nodes runs, which would remove the taint of a node that is ready.
        let untainted = Patch::Merge(json!({ "spec": { "taints": null } }));
        nodes
            .patch("node", &PatchParams::default(), &untainted)
            .await
            .expect("there");
    }

    /// Waits for `count` pods with a node, and writes their status as a kubelet does.
    async fn run_pods(&self, label: &str, count: usize, status: &Value) {
        let pods = self.pods();
        let of_label = kube::api::ListParams::default().labels(label);
        // Ends: the pods are scheduled, or the time of the test is over.
        let scheduled = loop {
            let listed = pods.list(&of_label).await.expect("a list").items;
            let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|it| it.node_name.is_some());
            if listed.len() == count && listed.iter().all(is_bound) {
                break listed;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        for pod in scheduled {
            let patch = Patch::Merge(json!({ "status": status }));
            let name = pod.name_any();
            pods.patch_status(&name, &PatchParams::default(), &patch)
                .await
                .expect("there");
        }
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        // What is left of it is in the folder for temporary files.
        _ = fs::remove_dir_all(&self.folder);
    }
}

on_both_servers! {
    async fn the_controllers_of_kubernetes_run_deployments_and_jobs(cluster: Cluster) {
        let controlled = Controlled::start(&cluster).await;
        let containers = json!([{ "name": "a", "image": "a" }]);
        let deployment = json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": containers },
                },
            },
        });
        let deployments: Api<Deployment> = Api::namespaced(controlled.client.clone(), &controlled.namespace);
        let deployment = serde_json::from_value(deployment).expect("a deployment");
        deployments.create(&PostParams::default(), &deployment).await.expect("new");
        controlled.run_pods("app=web", 2, &json!({
            "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
        })).await;
        let is_available = |it: Option<&Deployment>| {
            let status = it.and_then(|it| it.status.as_ref());
            status.and_then(|it| it.available_replicas) == Some(2)
        };
        let available = await_condition(deployments, "web", is_available).await;
        let available = available.expect("no error").expect("it exists");
        let revision = &available.annotations()["deployment.kubernetes.io/revision"];
        assert_eq!(revision, "1");

        let jobs: Api<Job> = Api::namespaced(controlled.client.clone(), &controlled.namespace);
        let job = json!({
            "metadata": { "name": "once" },
            "spec": { "template": { "spec": { "containers": containers, "restartPolicy": "Never" } } },
        });
        let job = serde_json::from_value(job).expect("a job");
        jobs.create(&PostParams::default(), &job).await.expect("new");
        controlled.run_pods("job-name=once", 1, &json!({ "phase": "Succeeded" })).await;
        let is_complete = |it: Option<&Job>| {
            let status = it.and_then(|it| it.status.as_ref());
            let conditions = status.and_then(|it| it.conditions.as_ref());
            conditions.is_some_and(|it| it.iter().any(|it| it.type_ == "Complete" && it.status == "True"))
        };
        let complete = await_condition(jobs, "once", is_complete).await;
        complete.expect("no error").expect("it exists");
    }
}
