//! Dependents that are paused, kept, elsewhere, or not shown by the store: secrets of a config map.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{
    Context, Desired, Failure, Informer, Outcome, Watch,
    level::{Dependents, PAUSED},
    source::Scripted,
};

use super::{
    dependents::names_of,
    rig::{Rig, builder, create, patch, say, secret, watch},
};
use crate::{
    cluster::create_namespace,
    kinds::{config, value},
    watched::quick,
};

on_both_servers! {
    /// Rows: BO-38
    async fn dependents_are_kept_paused_pruned_and_elsewhere_as_other_children_are(cluster: Cluster) {
        let other = format!("{}-more", cluster.namespace());
        create_namespace(cluster.aside(), &other).await;
        let configs = cluster.api_aside::<ConfigMap>();
        let (here, there) = (cluster.api_aside::<Secret>(), Api::<Secret>::namespaced(cluster.aside(), &other));
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let namespaces = [cluster.namespace(), &other];
        let secrets = builder.owns(Watch::<Secret>::in_namespaces(namespaces).settings(quick));
        let elsewhere = other.clone();
        let reconciler = move |cx: Context<ConfigMap>| {
            let (secrets, sender, other) = (secrets.clone(), sender.clone(), elsewhere.clone());
            async move {
                if cx.key().name() == "kube-root-ca.crt" {
                    return Ok(Outcome::done());
                }
                let has = |word| value(cx.object()).contains(word);
                let mut plan = Dependents::new();
                let first = json!({ "metadata": { "name": "first", "namespace": other } });
                let first = secrets.dependent(Desired::json(first).untracked_owner());
                let is_ready = |it: &Secret| it.annotations().contains_key("ready");
                let first = plan.add(first.when(has("first")).ready(is_ready));
                let second = secrets.dependent(Desired::json(json!({})).named("second"));
                let second = plan.add(second.after([first]).when(has("second")));
                if has("old") {
                    secrets.apply(&cx, Desired::json(json!({})).named("old")).await?;
                }
                let states = plan.apply(&cx).await?;
                assert_eq!(Dependents::<ConfigMap>::new().apply(&cx).await?.get(first), None);
                let states = [first, second].map(|it| states.get(it).expect("of this plan"));
                let pruned = secrets.prune(&cx).await?;
                say(&sender, format!("{:?} {states:?} {pruned}", cx.mode())).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        let change = async |value: &str, paused: &str| {
            let annotations = json!({ PAUSED: paused });
            let change = json!({ "data": { "value": value }, "metadata": { "annotations": annotations } });
            patch(&configs, "a", change).await;
        };
        let annotate = |name: &str, value: Option<&str>| {
            json!({ "metadata": { "annotations": { name: value } } })
        };
        create(&configs, config("a", "first second old")).await;
        while rig.next().await != "Normal [NotReady, Waiting] 0" {}
        patch(&there, "first", annotate("ready", Some("yes"))).await;
        while rig.next().await != "Normal [Ready, Ready] 0" {}
        patch(&there, "first", annotate("ready", None)).await;
        while rig.next().await != "Normal [NotReady, Waiting] 0" {}
        change("first second", "false").await;
        // What waits is not pruned.
        while rig.next().await != "Normal [NotReady, Waiting] 1" {}
        assert_eq!(names_of(&here).await, ["second"]);

        change("", "true").await;
        while rig.next().await != "Paused [Deleting, Deleting] 0" {}
        assert_eq!((names_of(&here).await, names_of(&there).await), (vec!["second".into()], vec!["first".into()]));
        patch(&here, "second", annotate("windlass.dev/keep", Some("true"))).await;
        while rig.next().await != "Paused [Deleting, Deleting] 0" {}
        change("", "false").await;
        while rig.next().await != "Normal [Deleted, Deleted] 0" {}
        assert_eq!((names_of(&here).await, names_of(&there).await), (vec!["second".into()], vec![]));
        rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_deletion_is_confirmed_for_a_child_that_the_store_does_not_show(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        // A watch that shows nothing.
        let (script, source) = Scripted::<Secret>::new();
        let informer = Informer::new(source);
        let builder = builder::<ConfigMap>(&cluster).await;
        let mut builder = builder.own_write_timeout(Duration::from_millis(500));
        let children = builder.owns(Watch::from(&informer));
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                if cx.key().name() == "a" {
                    let mut plan = Dependents::new();
                    let child = children.dependent(Desired::json(json!({})));
                    let child = plan.add(child.when(value(cx.object()) == "1"));
                    let state = plan.apply(&cx).await?.get(child).expect("of this plan");
                    say(&sender, format!("{} {state:?} {}", value(cx.object()), cx.is_stale())).await;
                }
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        script.list([]).await.expect("it runs");
        create(&configs, config("a", "1")).await;
        while rig.next().await != "1 Ready false" {}
        // Another writer has removed its labels and its owner.
        let bare = json!({ "labels": null, "annotations": null, "ownerReferences": null });
        patch(&secrets, "a", json!({ "metadata": bare })).await;
        patch(&configs, "a", json!({ "data": { "value": "2" } })).await;
        while rig.next().await != "2 Deleting true" {}
        assert_eq!(names_of(&secrets).await, ["a"], "a stale call deletes nothing");
        // The watch passes the write, and does not show the child, which its selector does not match.
        let other = create(&secrets, secret("other")).await;
        script.apply(other).await.expect("it runs");
        patch(&configs, "a", json!({ "data": { "value": "3" } })).await;
        while rig.next().await != "3 Deleting false" {}
        assert_eq!(names_of(&secrets).await, ["other"]);
        // The call is repeated without an event.
        while rig.next().await != "3 Deleted false" {}
        rig.stop().await;
    }

    /// With no timeout a call does not wait for the watch, and is never stale.
    ///
    /// Rows: BO-38
    async fn what_an_old_store_shows_is_not_ready(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        for (name, timeout) in [("a", Duration::from_millis(500)), ("b", Duration::ZERO)] {
            // A watch that shows what the test says.
            let (script, source) = Scripted::<Secret>::new();
            let informer = Informer::new(source);
            let builder = builder::<ConfigMap>(&cluster).await;
            let mut builder = builder.name(name).own_write_timeout(timeout);
            let children = builder.owns(Watch::from(&informer));
            let (sender, receiver) = mpsc::channel(64);
            let reconciler = move |cx: Context<ConfigMap>| {
                let (children, sender) = (children.clone(), sender.clone());
                async move {
                    if cx.key().name() != name {
                        return Ok(Outcome::done());
                    }
                    let version = value(cx.object());
                    let child = json!({ "metadata": { "annotations": { "version": version } } });
                    let child = |number: u32| {
                        children.dependent(Desired::json(child.clone()).named(format!("{name}-{number}")))
                    };
                    let is_ready = |it: &Secret| it.annotations().get("ready") == it.annotations().get("version");
                    let mut plan = Dependents::new();
                    let first = plan.add(child(1).ready(is_ready));
                    let second = plan.add(child(2).after([first]));
                    let states = plan.apply(&cx).await?;
                    let states = [first, second].map(|it| states.get(it).expect("of this plan"));
                    say(&sender, format!("{version} {states:?} {}", cx.is_stale())).await;
                    Ok::<_, Failure>(Outcome::done())
                }
            };
            let (first, second) = (&*format!("{name}-1"), &*format!("{name}-2"));
            let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
            script.list([]).await.expect("it runs");
            create(&configs, config(name, "1")).await;
            while rig.next().await != "1 [NotReady, Waiting] false" {}
            patch(&secrets, first, json!({ "metadata": { "annotations": { "ready": "1" } } })).await;
            script.apply(secrets.get(first).await.expect("applied")).await.expect("it runs");
            while rig.next().await != "1 [Ready, Ready] false" {}
            script.apply(secrets.get(second).await.expect("applied")).await.expect("it runs");

            patch(&configs, name, json!({ "data": { "value": "2" } })).await;
            while rig.next().await != "2 [NotReady, Waiting] false" {}
            // The store still has the first version, which was ready.
            patch(&configs, name, json!({ "metadata": { "labels": { "any": "event" } } })).await;
            let line = format!("2 [NotReady, Waiting] {}", !timeout.is_zero());
            assert_eq!(rig.next().await, line);
            let second = secrets.get(second).await.expect("applied");
            assert_eq!(second.annotations()["version"], "1");
            rig.stop().await;
        }
    }

    /// Rows: BO-41
    async fn children_that_an_old_store_does_not_show_are_not_updated_all_at_once(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        // A watch that shows nothing.
        let (script, source) = Scripted::<Secret>::new();
        let informer = Informer::new(source);
        let builder = builder::<ConfigMap>(&cluster).await;
        let mut builder = builder.own_write_timeout(Duration::from_millis(500));
        let children = builder.owns(Watch::from(&informer));
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                if cx.key().name() == "a" {
                    let version = value(cx.object());
                    let desired = json!({ "metadata": { "annotations": { "version": version } } });
                    let shards = (0..3).map(|it| Desired::json(desired.clone()).named(format!("shard-{it}")));
                    let is_ready = |it: &Secret| it.annotations().get("ready") == it.annotations().get("version");
                    let mut plan = Dependents::new();
                    let shards = plan.add(children.rolling(shards).at_most(1).ready(is_ready));
                    let state = plan.apply(&cx).await?.get(shards).expect("of this plan");
                    say(&sender, format!("{version} {state:?} {}", cx.is_stale())).await;
                }
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        script.list([]).await.expect("it runs");
        create(&configs, config("a", "1")).await;
        while rig.next().await != "1 NotReady false" {}
        patch(&configs, "a", json!({ "data": { "value": "2" } })).await;
        while rig.next().await != "2 NotReady true" {}
        let versions = async || {
            let all = secrets.list(&kube::api::ListParams::default()).await.expect("a list");
            let shards = all.items.iter().filter_map(|it| it.annotations().get("version").cloned());
            shards.collect::<String>()
        };
        assert_eq!(versions().await, "111");
        for shard in secrets.list(&kube::api::ListParams::default()).await.expect("a list") {
            script.apply(shard).await.expect("it runs");
        }
        while rig.next().await != "2 NotReady false" {}
        assert_eq!(versions().await, "211", "one at a time");
        rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_dependent_cannot_depend_on_one_of_another_plan(cluster: Cluster) {
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let secrets = builder.owns(watch::<Secret>(&cluster).await);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (secrets, sender) = (secrets.clone(), sender.clone());
            async move {
                let secret = |name: &str| secrets.dependent(Desired::json(json!({})).named(name));
                let other = Dependents::new().add(secret("other"));
                let mut plan = Dependents::new();
                plan.add(secret("first"));
                plan.add(secret("second").after([other]));
                let refused = plan.apply(&cx).await.expect_err("two plans");
                say(&sender, refused.to_string()).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&cluster.api_aside(), config("a", "")).await;
        let refused = rig.next().await;
        assert!(refused.contains("ids that `add` of the same `Dependents` has returned"), "{refused}");
        assert!(names_of(&cluster.api_aside::<Secret>()).await.is_empty());
        rig.stop().await;
    }

    /// Rows: BO-38
    async fn a_check_that_panics_fails_its_dependent_alone_and_the_failure_has_all_states(cluster: Cluster) {
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let secrets = builder.owns(watch::<Secret>(&cluster).await);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (secrets, sender) = (secrets.clone(), sender.clone());
            async move {
                if cx.key().name() != "a" {
                    return Ok(Outcome::done());
                }
                let secret = |name: &str| secrets.dependent(Desired::json(json!({})).named(name));
                let mut plan = Dependents::new();
                let first = plan.add(secret("first").ready(|_| panic!("a bug")));
                let second = plan.add(secret("second").after([first]));
                let third = plan.add(secret("third"));
                let refused = plan.apply(&cx).await.expect_err("a check panicked");
                let states = refused.states().expect("the others were tried");
                let found = [first, second, third].map(|it| states.get(it).expect("of this plan"));
                say(&sender, format!("{found:?} | {states} | {refused}")).await;
                Err::<Outcome, Failure>(refused.into())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        create(&cluster.api_aside(), config("a", "")).await;
        let refused = rig.next().await;
        let first = format!("secrets {}/first", cluster.namespace());
        let states = format!("[NotReady, Waiting, Ready] | {first} is not ready; ");
        assert!(refused.starts_with(&states), "{refused}");
        let message = format!("| the check whether {first} is ready panicked; the log has the message");
        assert!(refused.ends_with(&message), "{refused}");
        assert_eq!(names_of(&cluster.api_aside::<Secret>()).await, ["first", "third"]);
        rig.stop().await;
    }
}
