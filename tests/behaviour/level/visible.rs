//! Which state of its object a call gets, and own writes that the watch shows late.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{
    Context, Desired, Failure, Informer, ObjectKey, ObjectReconciler, Outcome, Watch,
    controller::{ErrorReport, HandlerError},
    level::{Related, Retry, Trigger},
    source::{Changes, Scripted, Source, WatchError},
};

use super::rig::{Rig, build, builder, create, patch, say, secret, watch};
use crate::{
    kinds::{config, value},
    watched::quick,
};

/// Writes nothing new into a secret that affects each object, and fails. It is not repeated.
struct FailsOnce {
    secrets: Related<ConfigMap, Secret>,
    sender: mpsc::Sender<String>,
    retry: Retry,
}

/// A scripted watch that names its resource, as the events of own writes are recognized by it.
struct OfSecrets(Scripted<Secret>);

impl Source<Secret> for OfSecrets {
    fn resource(&self) -> String {
        "secrets".to_owned()
    }

    async fn run(&mut self, changes: Changes<Secret>) -> Result<(), WatchError> {
        self.0.run(changes).await
    }
}

impl ObjectReconciler<ConfigMap> for FailsOnce {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
        if cx.key().name() != "web" {
            return Ok(Outcome::done());
        }
        let secrets = Api::<Secret>::namespaced(cx.client(), cx.key().namespace().expect("one"));
        let same = Patch::Merge(json!({ "metadata": { "labels": { "by": "another" } } }));
        secrets
            .patch("shared", &PatchParams::default(), &same)
            .await?;
        let key = ObjectKey::new("shared").within(cx.key().namespace().expect("one"));
        let shown = self.secrets.informers().get(&key);
        let is_labelled = shown.is_some_and(|it| it.labels().contains_key("by"));
        say(&self.sender, format!("shown: {is_labelled}")).await;
        Err(Failure::new("on purpose"))
    }

    async fn failed(&self, _: &Context<ConfigMap>, _: &HandlerError) -> Retry {
        self.retry
    }
}

on_both_servers! {
    /// An object that is reconciled again is read from the cache of its informer.
    async fn an_object_that_is_reconciled_again_is_not_decoded_again(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        create(&configs, config("web", "0")).await;
        let (sender, receiver) = mpsc::channel(64);
        let (handle, trigger) = Trigger::handle();
        let mut builder = builder::<ConfigMap>(&cluster).await;
        builder.trigger(trigger);
        let last = Mutex::new(None);
        let controller = build(builder, sender, move |cx| {
            let object = Arc::clone(cx.object());
            let mut last = last.lock().expect("no thread panics here");
            let is_same = last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &object));
            let line = format!("{} {}", value(&object), if is_same { "again" } else { "decoded" });
            *last = Some(object);
            line
        });
        let mut rig = Rig::start(controller, receiver);
        while !rig.next().await.starts_with("0 ") {}
        for round in 1..4 {
            patch(&configs, "web", json!({ "data": { "value": round.to_string() } })).await;
            assert_eq!(rig.next().await, format!("{round} decoded"));
            // The first repetition may decode it.
            handle.reconcile([ObjectKey::new("web").within(cluster.namespace())]);
            rig.next().await;
            for _ in 0..3 {
                handle.reconcile([ObjectKey::new("web").within(cluster.namespace())]);
                assert_eq!(rig.next().await, format!("{round} again"));
            }
        }
        rig.stop().await;
    }

    /// Rows: BO-06, BO-47
    async fn a_call_waits_until_the_write_of_an_earlier_one_is_visible_or_the_time_is_over(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        for (name, timeout) in [("seen", Duration::from_secs(60)), ("unseen", Duration::from_millis(500))] {
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
                    let (before, stale) = (children.of(&cx).len(), cx.is_stale());
                    if before == 0 && !stale {
                        children.apply(&cx, Desired::json(json!({}))).await?;
                    }
                    let after = children.of(&cx).len();
                    say(&sender, format!("{} {before} {after} stale={stale}", value(cx.object()))).await;
                    Ok::<_, Failure>(Outcome::done())
                }
            };
            let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
            script.list([]).await.expect("it runs");
            create(&configs, config(name, "1")).await;
            assert_eq!(rig.next().await, "1 0 1 stale=false", "the call reads its own write");
            patch(&configs, name, json!({ "data": { "value": "2" } })).await;
            if name == "seen" {
                let early = tokio::time::timeout(Duration::from_millis(300), rig.next()).await;
                assert!(early.is_err(), "{early:?}, before the child was visible");
                let child = secrets.get(name).await.expect("applied");
                script.apply(child).await.expect("it runs");
                assert_eq!(rig.next().await, "2 1 1 stale=false");
            } else {
                assert_eq!(rig.next().await, "2 0 0 stale=true");
            }
            rig.stop().await;
        }
    }

    /// A shared informer of another namespace, and one of another cluster, never show the writes of this
    /// controller.
    ///
    /// Rows: BO-06
    async fn a_call_does_not_wait_for_a_watch_that_cannot_show_the_write(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let elsewhere = kube::Api::<Secret>::namespaced(cluster.client().await, "kube-system");
        let (script, source) = Scripted::<Secret>::new();
        let remote = Informer::new(source);
        let mut builder = builder::<ConfigMap>(&cluster).await.own_write_timeout(Duration::from_secs(60));
        let children = builder.owns(watch::<Secret>(&cluster).await);
        let others = builder.watches(Watch::from(Informer::new(quick(elsewhere))), |_: &Secret| None);
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                if cx.key().name() == "a" {
                    children.apply(&cx, Desired::json(json!({}))).await?;
                    say(&sender, format!("{} {}", value(cx.object()), cx.is_stale())).await;
                }
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        let remote = Watch::from(remote).of_another_cluster();
        others.informers().add(remote).expect("the controller runs");
        let mut old = secret("old");
        old.metadata.resource_version = Some("1".to_owned());
        script.list([old]).await.expect("it runs");
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "1 false");
        patch(&configs, "a", json!({ "data": { "value": "2" } })).await;
        assert_eq!(rig.next().await, "2 false");
        rig.stop().await;
    }

    /// The object of this cluster with the same name is another one.
    ///
    /// Rows: BO-36
    async fn a_write_to_this_cluster_does_not_show_in_the_objects_of_another(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let (script, source) = Scripted::<Secret>::new();
        let remote = Watch::from(Informer::new(source)).of_another_cluster();
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let related = builder.watches(remote, |_: &Secret| None);
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (related, sender) = (related.clone(), sender.clone());
            async move {
                let namespace = cx.key().namespace().expect("one").to_owned();
                let secrets = Api::<Secret>::namespaced(cx.client(), &namespace);
                secrets.create(&PostParams::default(), &secret("shared")).await?;
                let read = |name: &str| related.get(&cx, &ObjectKey::new(name).within(&*namespace));
                let of = |it: Arc<Secret>| it.uid().unwrap_or_default();
                say(&sender, format!("{:?}", read("shared").map(of))).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let controller = builder.build(reconciler).expect("good settings");
        let mut rig = Rig::start(controller, receiver);
        let mut other = secret("shared");
        other.metadata.namespace = Some(cluster.namespace().to_owned());
        other.metadata.resource_version = Some("1".to_owned());
        other.metadata.uid = Some("remote".to_owned());
        script.list([other]).await.expect("it runs");
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, r#"Some("remote")"#);
        rig.stop().await;
    }

    /// The deferred call asks for its turn several times.
    ///
    /// Rows: BO-22
    async fn a_call_that_waits_for_own_writes_does_not_use_the_rate_limit(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let (script, source) = Scripted::<Secret>::new();
        let minute = Duration::from_secs(60);
        let two = NonZeroU32::new(2).expect("not zero");
        let builder = builder::<ConfigMap>(&cluster).await.own_write_timeout(10 * minute);
        let mut builder = builder.rate_limit(two, 2 * minute);
        let children = builder.owns(Watch::from(Informer::new(source)));
        let (sender, receiver) = mpsc::channel(64);
        let reconciler = move |cx: Context<ConfigMap>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                if cx.key().name() == "a" {
                    children.apply(&cx, Desired::json(json!({}))).await?;
                    say(&sender, value(cx.object()).to_owned()).await;
                }
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        script.list([]).await.expect("it runs");
        create(&configs, config("a", "1")).await;
        assert_eq!(rig.next().await, "1");
        patch(&configs, "a", json!({ "data": { "value": "2" } })).await;
        // Real time, in which the call is deferred more than once.
        let early = tokio::time::timeout(Duration::from_millis(300), rig.next()).await;
        assert!(early.is_err(), "{early:?}, before the child was visible");
        script.apply(secrets.get("a").await.expect("applied")).await.expect("it runs");
        let second = tokio::time::timeout(minute / 2, rig.next()).await;
        assert_eq!(second.as_deref(), Ok("2"), "within the limit");
        rig.stop().await;
    }

    /// The change of another writer has the version that our write without an effect got. The events of
    /// a failed call wait for its retry; here there is none.
    ///
    /// Rows: BO-07
    async fn a_change_by_others_causes_a_call_if_the_failed_call_is_not_repeated(cluster: Cluster) {
        let secrets = cluster.api_aside::<Secret>();
        create(&secrets, secret("shared")).await;
        create(&cluster.api_aside(), config("web", "1")).await;
        // The second policy does not say beforehand that it repeats nothing.
        for retry in [Retry::Never, Retry::Policy] {
            let (script, source) = Scripted::<Secret>::new();
            let informer = Informer::new(OfSecrets(source));
            let builder = builder::<ConfigMap>(&cluster).await.name(format!("{retry:?}").to_lowercase());
            let mut builder = builder.retry_policy(|_: &ErrorReport<'_>| None);
            let web = ObjectKey::new("web").within(cluster.namespace());
            let related = builder.watches(Watch::from(&informer), move |_: &Secret| [web.clone()]);
            let (sender, receiver) = mpsc::channel(64);
            let controller = builder.build(FailsOnce { secrets: related, sender, retry });
            let controller = controller.expect("good settings");
            let mut rig = Rig::start(controller, receiver);
            patch(&secrets, "shared", json!({ "metadata": { "labels": { "by": null } } })).await;
            let first = secrets.get("shared").await.expect("there");
            patch(&secrets, "shared", json!({ "metadata": { "labels": { "by": "another" } } })).await;
            script.list([first]).await.expect("it runs");
            assert_eq!(rig.next().await, "shown: false");
            script.apply(secrets.get("shared").await.expect("there")).await.expect("it runs");
            // The event of the first list can cause a call too.
            while rig.next().await != "shown: true" {}
            rig.stop().await;
        }
    }
}
