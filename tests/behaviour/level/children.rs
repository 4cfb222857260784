//! Children of several kinds and namespaces, and children that others recreate.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use windlass::{Context, Desired, Failure, Outcome, Watch, level::Deleted};

use super::rig::{Rig, builder, create, patch, say, secret, watch};
use crate::{
    cluster::create_namespace,
    kinds::{config, value},
    watched::quick,
};

on_both_servers! {
    /// Rows: BO-14
    async fn children_of_all_kinds_and_namespaces_are_pruned_and_those_of_others_are_not(cluster: Cluster) {
        let other = format!("{}-more", cluster.namespace());
        create_namespace(cluster.aside(), &other).await;
        let configs = cluster.api_aside::<ConfigMap>();
        let (here, there) = (cluster.api_aside::<Secret>(), Api::<Secret>::namespaced(cluster.aside(), &other));
        let services = cluster.api_aside::<Service>();
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let namespaces = [cluster.namespace(), &other];
        let secrets = builder.owns(Watch::<Secret>::in_namespaces(namespaces).settings(quick));
        let ports = builder.owns(watch::<Service>(&cluster).await);
        let elsewhere = other.clone();
        let reconciler = move |cx: Context<ConfigMap>| {
            let (secrets, ports, sender, other) =
                (secrets.clone(), ports.clone(), sender.clone(), elsewhere.clone());
            async move {
                if cx.key().name() == "kube-root-ca.crt" {
                    return Ok(Outcome::done());
                }
                for child in value(cx.object()).split_whitespace() {
                    match child {
                        "port" => {
                            let port = json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } });
                            ports.apply(&cx, Desired::json(port).named("port")).await?;
                        }
                        "there" => {
                            let secret = json!({ "metadata": { "namespace": other } });
                            let desired = Desired::json(secret).named("there").untracked_owner();
                            secrets.apply(&cx, desired).await?;
                        }
                        name => {
                            secrets.apply(&cx, Desired::json(json!({})).named(name)).await?;
                        }
                    }
                }
                let pruned = (secrets.prune(&cx).await?, ports.prune(&cx).await?);
                say(&sender, format!("{pruned:?}")).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&here, secret("foreign")).await;
        create(&configs, config("a", "here there port kept")).await;
        assert_eq!(rig.next().await, "(0, 0)");
        let annotations = json!({ "metadata": { "annotations": { "windlass.dev/keep": "true" } } });
        patch(&here, "kept", annotations).await;
        rig.next().await;
        // An object with the identity of a child of another kind is no child of this kind.
        let port = services.get("port").await.expect("applied");
        let mut copied = secret("copied");
        copied.metadata.labels = port.metadata.labels;
        copied.metadata.annotations = port.metadata.annotations;
        create(&here, copied).await;

        patch(&configs, "a", json!({ "data": { "value": "" } })).await;
        let mut pruned = rig.next().await;
        while pruned == "(0, 0)" {
            pruned = rig.next().await;
        }
        assert_eq!(pruned, "(2, 1)");
        let names = async |secrets: &Api<Secret>| {
            let left = secrets.list(&ListParams::default()).await.expect("a list");
            let mut names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
            names.sort();
            names
        };
        assert_eq!(names(&here).await, ["copied", "foreign", "kept"]);
        assert!(names(&there).await.is_empty());
        assert!(services.get_opt("port").await.expect("a response").is_none());
        rig.stop().await;
    }

    /// Rows: BO-48
    async fn a_child_that_was_recreated_is_not_deleted_by_a_call_that_saw_the_old_one(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let children = builder.owns(watch::<Secret>(&cluster).await);
        let gate = Arc::new(Semaphore::new(0));
        let reconciler = {
            let gate = Arc::clone(&gate);
            move |cx: Context<ConfigMap>| {
                let (children, sender, gate) = (children.clone(), sender.clone(), Arc::clone(&gate));
                async move {
                    if cx.key().name() == "kube-root-ca.crt" || !children.of(&cx).is_empty() {
                        return Ok(Outcome::done());
                    }
                    let child = children.apply(&cx, Desired::json(json!({}))).await?;
                    say(&sender, "applied".to_owned()).await;
                    gate.acquire().await.expect("open").forget();
                    let deleted = children.delete(&cx, &child).await?;
                    say(&sender, format!("{deleted:?}")).await;
                    Ok::<_, Failure>(Outcome::done())
                }
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "applied");
        let old = secrets.get("a").await.expect("applied");
        secrets.delete("a", &DeleteParams::default()).await.expect("there");
        let recreated = create(&secrets, Secret {
            metadata: kube::api::ObjectMeta {
                owner_references: old.metadata.owner_references,
                labels: old.metadata.labels,
                annotations: old.metadata.annotations,
                ..secret("a").metadata
            },
            ..Secret::default()
        }).await;
        gate.add_permits(1);
        assert_eq!(rig.next().await, format!("{:?}", Deleted::AlreadyGone));
        let left = secrets.get("a").await.expect("not deleted");
        assert_eq!(left.metadata.uid, recreated.metadata.uid);
        // A call between the events of the delete and of the new child applies it once more.
        gate.add_permits(100);
        rig.stop().await;
    }

    /// Rows: BO-53
    async fn an_existing_object_is_adopted_only_if_that_is_allowed_and_it_has_no_other_controller(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await.on_error(|_| ());
        let children = builder.owns(watch::<Secret>(&cluster).await);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                if cx.key().name() == "kube-root-ca.crt" {
                    return Ok(Outcome::done());
                }
                let desired = Desired::json(json!({})).named("s");
                let desired = if value(cx.object()) == "adopt" { desired.adopt() } else { desired };
                let applied = children.apply(&cx, desired).await.map_err(|failure| failure.to_string());
                let line = match applied {
                    Ok(child) => format!("{} owners", child.owner_references().len()),
                    // The store did not show the adoption yet.
                    Err(error) if error.contains("meanwhile") => return Err(error.into()),
                    Err(error) => error,
                };
                say(&sender, format!("{}: {line}", cx.key().name())).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        let before = create(&secrets, secret("s")).await;
        create(&configs, config("a", "")).await;
        let refused = rig.next().await;
        assert!(refused.contains("exists already and was not changed"), "{refused}");
        patch(&configs, "a", json!({ "data": { "value": "adopt" } })).await;
        assert_eq!(rig.next().await, "a: 1 owners");
        let adopted = secrets.get("s").await.expect("there");
        assert_eq!(adopted.metadata.uid, before.metadata.uid);
        assert_eq!(adopted.owner_references()[0].name, "a");
        create(&configs, config("b", "adopt")).await;
        let refused = rig.next().await;
        assert!(refused.starts_with("b: ") && refused.contains("belongs to ConfigMap a"), "{refused}");
        rig.stop().await;
    }
}
