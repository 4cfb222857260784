//! Operators of kube-rs, with their own imports and with those of `windlass::runtime`.
//!
//! Each file of `operators` is compiled twice, with another `runtime` in its parent module. A test
//! runs both forms through the same scenario, and compares the objects at the end and the writes.

#[expect(clippy::duplicate_mod, reason = "the same files, with other imports")]
mod after;
mod before;
mod record;
mod scenario;

use futures::channel::mpsc;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::CustomResourceExt as _;
use serde_json::json;

use self::scenario::{Form, Scenario, same};
use crate::kinds::Gadget;

on_both_servers! {
    /// Methods: `new`, `with_config`, `owns`, `shutdown_on_signal`, `run`.
    async fn an_operator_with_owned_configs_moves(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        same(&cluster, async |test: Scenario, form| {
            let (client, namespace) = test.operator();
            let script = async {
                test.create::<Gadget>(json!({ "metadata": { "name": "a" }, "spec": { "size": 1 } })).await;
                test.until::<ConfigMap>("a-size", |it| it["data"]["size"] == "1").await;
                test.create::<Gadget>(json!({ "metadata": { "name": "b" }, "spec": { "size": 2 } })).await;
                test.until::<ConfigMap>("b-size", |it| it["data"]["size"] == "2").await;
                test.merge::<ConfigMap>("a-size", json!({ "data": { "size": "9" } })).await;
                test.until::<ConfigMap>("a-size", |it| it["data"]["size"] == "1").await;
                test.delete::<ConfigMap>("b-size").await;
                test.until::<ConfigMap>("b-size", |it| it["data"]["size"] == "2").await;
                test.merge::<Gadget>("a", json!({ "spec": { "size": 3 } })).await;
                test.until::<ConfigMap>("a-size", |it| it["data"]["size"] == "3").await;
            };
            match form {
                Form::Before => test.run(before::configs::run(client, namespace), script).await,
                Form::After => test.run(after::configs::run(client, namespace), script).await,
            }
        })
        .await;
    }

    /// Methods: `store`, `trigger_backoff`, `watches`.
    async fn an_operator_with_a_watched_secret_moves(cluster: Cluster) {
        same(&cluster, async |test: Scenario, form| {
            let (client, namespace) = test.operator();
            let keys = |keys: &'static str| move |it: &serde_json::Value| it["data"]["keys"] == keys;
            let named = |name: &str, secret: &str| json!({ "metadata": {
                "name": name, "labels": { "shows": "secret" },
                "annotations": { "test.windlass.dev/secret": secret },
            }});
            let script = async {
                test.create::<ConfigMap>(named("a", "s")).await;
                test.until::<ConfigMap>("a", keys("missing")).await;
                test.create::<ConfigMap>(named("b", "other")).await;
                test.until::<ConfigMap>("b", keys("missing")).await;
                test.create::<Secret>(json!({ "metadata": { "name": "s" }, "stringData": { "x": "1" } })).await;
                test.until::<ConfigMap>("a", keys("x")).await;
                test.merge::<Secret>("s", json!({ "stringData": { "y": "2" } })).await;
                test.until::<ConfigMap>("a", keys("x,y")).await;
                test.delete::<Secret>("s").await;
                test.until::<ConfigMap>("a", keys("missing")).await;
            };
            match form {
                Form::Before => test.run(before::secrets::run(client, namespace), script).await,
                Form::After => test.run(after::secrets::run(client, namespace), script).await,
            }
        })
        .await;
    }

    /// Functions: `finalizer`, `reflector::store`, and the methods of `WatchStreamExt`.
    async fn an_operator_with_a_finalizer_moves(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        same(&cluster, async |test: Scenario, form| {
            let (client, namespace) = test.operator();
            let script = async {
                test.create::<Gadget>(json!({ "metadata": { "name": "a" }, "spec": { "size": 1 } })).await;
                test.until::<Gadget>("a", |it| it["metadata"]["finalizers"][0] == "test.windlass.dev/moved").await;
                test.create::<Secret>(json!({ "metadata": { "name": "shared" }, "stringData": { "x": "1" } })).await;
                test.until::<ConfigMap>("a-kept", |it| it["data"]["size"] == "1").await;
                test.create::<Gadget>(json!({ "metadata": { "name": "b", "finalizers": ["other.dev/x"] }, "spec": { "size": 2 } })).await;
                test.until::<ConfigMap>("b-kept", |it| it["data"]["size"] == "2").await;
                test.delete::<Gadget>("a").await;
                test.until_gone::<Gadget>("a").await;
                test.delete::<Gadget>("b").await;
                test.until::<Gadget>("b", |it| it["metadata"]["finalizers"] == json!(["other.dev/x"])).await;
            };
            match form {
                Form::Before => test.run(before::finalized::run(client, namespace), script).await,
                Form::After => test.run(after::finalized::run(client, namespace), script).await,
            }
        })
        .await;
    }

    /// Methods: `new_with`, `owns_with`, `watches_with`.
    ///
    /// Rows: KR-10, KR-16, KR-19, KR-35
    async fn an_operator_of_a_discovered_kind_moves(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        same(&cluster, async |test: Scenario, form| {
            let (client, namespace) = test.operator();
            let script = async {
                test.create::<Gadget>(json!({ "metadata": { "name": "a" }, "spec": { "size": 1 } })).await;
                test.until::<ConfigMap>("a", |it| it["data"]["secret"] == "false").await;
                test.create::<Secret>(json!({ "metadata": { "name": "a" } })).await;
                test.until::<ConfigMap>("a", |it| it["data"]["secret"] == "true").await;
                test.delete::<ConfigMap>("a").await;
                test.until::<ConfigMap>("a", |it| it["data"]["size"] == "1").await;
                test.merge::<Gadget>("a", json!({ "spec": { "size": 3 } })).await;
                test.until::<ConfigMap>("a", |it| it["data"]["size"] == "3").await;
            };
            match form {
                Form::Before => test.run(before::discovered::run(client, namespace), script).await,
                Form::After => test.run(after::discovered::run(client, namespace), script).await,
            }
        })
        .await;
    }

    /// Methods: `for_shared_stream`, `owns_shared_stream`, `watches_shared_stream`, and those with
    /// the suffix `_with`.
    async fn an_operator_with_shared_streams_moves(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        same(&cluster, async |test: Scenario, form| {
            let (client, namespace) = test.operator();
            let script = async {
                test.create::<Gadget>(json!({ "metadata": { "name": "a" }, "spec": { "size": 1 } })).await;
                test.until::<ConfigMap>("a-one", |it| it["data"]["size"] == "1").await;
                test.until::<ConfigMap>("a-two", |it| it["data"]["size"] == "1").await;
                test.until::<Gadget>("a", |it| it["status"]["ready"] == false).await;
                test.merge::<ConfigMap>("a-one", json!({ "data": { "size": "9" } })).await;
                test.until::<ConfigMap>("a-one", |it| it["data"]["size"] == "1").await;
                test.create::<Secret>(json!({ "metadata": { "name": "a" } })).await;
                test.until::<Gadget>("a", |it| it["status"]["ready"] == true).await;
                test.merge::<Gadget>("a", json!({ "spec": { "size": 3 } })).await;
                test.until::<ConfigMap>("a-one", |it| it["data"]["size"] == "3").await;
                test.until::<ConfigMap>("a-two", |it| it["data"]["size"] == "3").await;
            };
            match form {
                Form::Before => test.run(before::shared::run(client, namespace), script).await,
                Form::After => test.run(after::shared::run(client, namespace), script).await,
            }
        })
        .await;
    }

    /// Methods: `reconcile_on`, `reconcile_all_on`, `graceful_shutdown_on`.
    async fn an_operator_with_triggers_and_a_graceful_shutdown_moves(cluster: Cluster) {
        same(&cluster, async |test: Scenario, form| {
            let (client, namespace) = test.operator();
            let (names, receiver) = mpsc::unbounded();
            let config = |name: &str| json!({ "metadata": { "name": name, "labels": { "counts": "true" } } });
            let counts = |own: &'static str, all: &'static str| {
                move |it: &serde_json::Value| it["data"] == json!({ "own": own, "all": all })
            };
            let script = async {
                test.create::<ConfigMap>(config("a")).await;
                test.until::<ConfigMap>("a", counts("0", "0")).await;
                test.create::<ConfigMap>(config("b")).await;
                test.until::<ConfigMap>("b", counts("0", "0")).await;
                names.unbounded_send("a".to_owned()).expect("it runs");
                test.until::<ConfigMap>("a", counts("1", "0")).await;
                names.unbounded_send("nothing".to_owned()).expect("it runs");
                names.unbounded_send(String::new()).expect("it runs");
                test.until::<ConfigMap>("a", counts("1", "1")).await;
                test.until::<ConfigMap>("b", counts("0", "1")).await;
                names.close_channel();
            };
            match form {
                Form::Before => test.run_to_end(before::triggered::run(client, namespace, receiver), script).await,
                Form::After => test.run_to_end(after::triggered::run(client, namespace, receiver), script).await,
            }
        })
        .await;
    }

    /// Methods: `for_stream`, `owns_stream`, `watches_stream`, and those with the suffix `_with`.
    async fn an_operator_with_predicates_moves(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        same(&cluster, async |test: Scenario, form| {
            let (client, namespace) = test.operator();
            let gadget = |name: &str, part: &str| json!({
                "metadata": { "name": name, "labels": { "part": part } }, "spec": { "size": 1 },
            });
            let script = async {
                for (name, part) in [("a", "small"), ("b", "large")] {
                    test.create::<Gadget>(gadget(name, part)).await;
                    test.until::<ConfigMap>(name, |it| it["data"]["size"] == "1").await;
                    // Neither changes a label of the `ConfigMap` nor the generation of the gadget.
                    test.merge::<ConfigMap>(name, json!({ "data": { "other": "kept" } })).await;
                    test.merge::<Gadget>(name, json!({ "metadata": { "annotations": { "x": "y" } } })).await;
                    test.create::<Secret>(json!({ "metadata": { "name": name, "labels": { "color": "red" } } })).await;
                    test.until::<ConfigMap>(name, |it| it["data"]["color"] == "red").await;
                    test.merge::<ConfigMap>(name, json!({ "metadata": { "labels": { "kept": "no" } } })).await;
                    test.until::<ConfigMap>(name, |it| it["metadata"]["labels"]["kept"] == "true").await;
                    test.merge::<Gadget>(name, json!({ "spec": { "size": 2 } })).await;
                    test.until::<ConfigMap>(name, |it| it["data"]["size"] == "2").await;
                }
            };
            match form {
                Form::Before => test.run(before::filtered::run(client, namespace), script).await,
                Form::After => test.run(after::filtered::run(client, namespace), script).await,
            }
        })
        .await;
    }

    /// Closures that borrow, and are not `Send`.
    async fn an_operator_that_borrows_its_client_moves(cluster: Cluster) {
        same(&cluster, async |test: Scenario, form| {
            let (client, namespace) = test.operator();
            let script = async {
                test.create::<ConfigMap>(json!({ "metadata": { "name": "a" }, "data": { "copy": "target" } })).await;
                test.until::<Secret>("target", |it| it["data"]["from"] == "YQ==").await;
                test.create::<ConfigMap>(json!({ "metadata": { "name": "b" }, "data": { "copy": "NOT-A-NAME" } })).await;
                test.until_refused("secrets/NOT-A-NAME").await;
                test.merge::<ConfigMap>("b", json!({ "data": { "copy": "other" } })).await;
                test.until::<Secret>("other", |it| it["data"]["from"] == "Yg==").await;
            };
            match form {
                Form::Before => test.run(before::borrowed::run(client, namespace), script).await,
                Form::After => test.run(after::borrowed::run(client, namespace), script).await,
            }
        })
        .await;
    }
}
