//! The commands of `docs/deploying.md`, run with kubectl on both servers.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Namespace};
use kube::{
    Api, CustomResource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, PostParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::process::Command;
use windlass_apiserver::Listening;

use crate::{cluster::Cluster, kubectl::KUBECTL, trial::ignore};

const PAGE: &str = include_str!("../../docs/deploying.md");

/// The namespace of the manifests.
const NAMESPACE: &str = "greeter";

/// The kind of the page.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(group = "example.io", version = "v1", kind = "Website", namespaced)]
struct WebsiteSpec {
    image: String,
}

/// A shell whose kubectl uses the server of a test.
struct Shell {
    folder: PathBuf,
    /// Keeps the port of an embedded server open.
    _listening: Option<Listening>,
}

on_both_servers! {
    async fn the_commands_of_the_page_about_deploying_do_what_it_says(cluster: Cluster) {
        let shell = Shell::new(&cluster).await;
        cluster.install(&<Website as kube::CustomResourceExt>::crd()).await;
        let commands: Vec<_> = blocks(PAGE).collect();
        let [apply, leader, upgrade, rollback, stop, release, remove] = commands.as_slice() else {
            panic!("the page has other commands: {commands:#?}");
        };
        shell.run(apply).await;
        let deployments: Api<Deployment> = Api::namespaced(cluster.aside(), NAMESPACE);
        let greeter = async || deployments.get("greeter").await.expect("there").spec.expect("a spec");
        let image = async || greeter().await.template.spec.expect("a pod").containers[0].image.clone();

        lease(&cluster, "pod-a").await;
        assert_eq!(shell.run(leader).await, "pod-a");
        shell.run(upgrade).await;
        assert_eq!(image().await.as_deref(), Some("registry.example/greeter:1.1.0"));
        shell.run(rollback).await;
        assert_eq!(image().await.as_deref(), Some("registry.example/greeter:1.0.0"));
        shell.run(stop).await;
        assert_eq!(greeter().await.replicas, Some(0));

        let websites: Api<Website> = cluster.api_aside();
        for (name, finalizers) in [
            ("held", &["others.io/first", "example.io/cleanup", "others.io/last"][..]),
            ("begun", &["example.io/cleanup.in-progress"]),
            ("dying", &["example.io/cleanup"]),
            ("free", &[]),
            ("other", &["example.io/cleanup-of-another"]),
        ] {
            let mut website = Website::new(name, WebsiteSpec { image: "a".to_owned() });
            website.metadata.finalizers = Some(finalizers.iter().map(|it| (*it).to_owned()).collect());
            websites.create(&PostParams::default(), &website).await.expect("new");
        }
        websites.delete("dying", &DeleteParams::default()).await.expect("it waits");
        shell.run(release).await;
        let left = async |name: &str| {
            let website = websites.get_opt(name).await.expect("an answer");
            website.map(|it| it.finalizers().join(" "))
        };
        assert_eq!(left("held").await.as_deref(), Some("others.io/first others.io/last"));
        assert_eq!(left("begun").await.as_deref(), Some(""));
        assert_eq!(left("dying").await, None, "it is deleted");
        assert_eq!(left("free").await.as_deref(), Some(""));
        assert_eq!(left("other").await.as_deref(), Some("example.io/cleanup-of-another"));

        shell.run(remove).await;
        let deployment = deployments.get_opt("greeter").await.expect("an answer");
        assert!(deployment.is_none(), "{deployment:?}");
        let namespaces: Api<Namespace> = Api::all(cluster.aside());
        let namespace = namespaces.get_opt(NAMESPACE).await.expect("an answer");
        // The real server runs without the controller that removes the namespace.
        assert!(namespace.is_none_or(|it| it.metadata.deletion_timestamp.is_some()));
        let definitions = kube::discovery::ApiResource::erase::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(&());
        let definitions: Api<DynamicObject> = Api::all_with(cluster.aside(), &definitions);
        definitions.delete("websites.example.io", &DeleteParams::default()).await.expect("there");
    }
}

/// The commands of a page: its blocks for a shell.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("\n```sh\n").skip(1);
    blocks.filter_map(|block| block.split_once("```").map(|(block, _)| block.trim()))
}

/// Creates the lease of the operator, as its leader does.
async fn lease(cluster: &Cluster, holder: &str) {
    let lease = json!({
        "metadata": { "name": "greeter" },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
    });
    let lease: Lease = serde_json::from_value(lease).expect("a lease");
    let leases: Api<Lease> = Api::namespaced(cluster.aside(), NAMESPACE);
    leases
        .create(&PostParams::default(), &lease)
        .await
        .expect("new");
}

// === impl Shell ===

impl Shell {
    /// Ends the test as ignored where kubectl or jq is missing.
    async fn new(cluster: &Cluster) -> Self {
        let Some(kubectl) = std::env::var_os(KUBECTL.variable) else {
            ignore(format!(
                "{} does not name a kubectl: run `cargo xtask test`",
                KUBECTL.variable
            ));
        };
        if Command::new("jq").arg("--version").output().await.is_err() {
            ignore("jq is not installed");
        }
        let name = format!("windlass-{}-deploying", cluster.namespace());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let (kubeconfig, listening) = cluster.kubeconfig().await;
        fs::write(folder.join("kubeconfig"), kubeconfig).expect("a file");
        symlink(kubectl, folder.join("kubectl")).expect("a link");
        Self {
            folder,
            _listening: listening,
        }
    }

    /// Runs a command beside the manifests; returns what it prints.
    async fn run(&self, command: &str) -> String {
        let path = std::env::var("PATH").expect("a PATH");
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/examples/production/deploy"
            ))
            .env("PATH", format!("{}:{path}", self.folder.display()))
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .env("KUBECACHEDIR", self.folder.join("cache"))
            .kill_on_drop(true)
            .output()
            .await
            .expect("there is a shell");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // What is left of it is in the folder for temporary files.
        _ = fs::remove_dir_all(&self.folder);
    }
}
