//! Objects that are paused by their annotation.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::{
    api::{
        authorization::v1::SelfSubjectAccessReview,
        core::v1::{ConfigMap, Secret},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{
    Context, ControllerBuilder, Desired, Failure, ObjectReconciler, Outcome,
    conditions::{Conditions as _, NewCondition},
    level::{Deleted, Mode, PAUSED, Watchable},
};

use super::rig::{Rig, builder, create, patch, say, secret, watch};
use crate::{
    cluster::await_condition,
    kinds::{Gadget, GadgetSpec, GadgetStatus},
};

/// A kind whose status has conditions.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "test.windlass.dev",
    version = "v1",
    kind = "Pipeline",
    namespaced,
    status = "PipelineStatus"
)]
struct PipelineSpec {
    size: u32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct PipelineStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

on_both_servers! {
    /// Rows: BO-44
    async fn calls_for_a_paused_object_write_its_status_and_nothing_else(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let (gadgets, configs) = (cluster.api_aside::<Gadget>(), cluster.api_aside::<ConfigMap>());
        let (sender, receiver) = mpsc::channel(64);
        let mut builder = builder::<Gadget>(&cluster).await;
        let children = builder.owns(watch::<ConfigMap>(&cluster).await);
        let reconciler = move |cx: Context<Gadget>| {
            let (children, sender) = (children.clone(), sender.clone());
            async move {
                let (mode, size) = (cx.mode(), cx.object().spec.size);
                let desired = || Desired::json(json!({ "data": { "size": size.to_string() } }));
                let child = children.apply(&cx, desired()).await?;
                if size % 2 == 0 {
                    children.apply(&cx, desired().named("extra")).await?;
                }
                let pruned = children.prune(&cx).await?;
                if mode == Mode::Paused {
                    assert_eq!(children.delete(&cx, &child).await?, Deleted::Skipped);
                }
                cx.write_status(GadgetStatus { ready: child.metadata.uid.is_some() }).await?;
                say(&sender, format!("{mode:?} {size} pruned {pruned}")).await;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let (builder, failures) = counting_failures(builder);
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        let size = async |name| {
            let config = configs.get_opt(name).await.expect("a response")?;
            config.data?.remove("size")
        };
        let reaches = async |ready| {
            let has = |gadget: Option<&Gadget>| {
                gadget.and_then(|it| it.status.as_ref()).is_some_and(|status| status.ready == ready)
            };
            await_condition(gadgets.clone(), "a", has).await.expect("a status");
        };

        let mut gadget = Gadget::new("a", GadgetSpec { size: 1 });
        gadget.annotations_mut().insert(PAUSED.to_owned(), "true".to_owned());
        create(&gadgets, gadget).await;
        assert_eq!(rig.next().await, "Paused 1 pruned 0");
        reaches(false).await;
        assert_eq!(size("a").await, None);
        patch(&gadgets, "a", json!({ "spec": { "size": 2 } })).await;
        assert_eq!(rig.next().await, "Paused 2 pruned 0");

        patch(&gadgets, "a", json!({ "metadata": { "annotations": { PAUSED: null } } })).await;
        assert_eq!(rig.next().await, "Normal 2 pruned 0");
        reaches(true).await;
        assert_eq!(size("a").await.as_deref(), Some("2"));

        patch(&gadgets, "a", json!({ "metadata": { "annotations": { PAUSED: "true" } } })).await;
        assert_eq!(rig.next().await, "Paused 2 pruned 0");
        patch(&gadgets, "a", json!({ "spec": { "size": 3 } })).await;
        assert_eq!(rig.next().await, "Paused 3 pruned 0");
        patch(&configs, "a", json!({ "data": { "size": "9" } })).await;
        assert_eq!(rig.next().await, "Paused 3 pruned 0", "a change of a child is seen");
        assert_eq!(size("a").await.as_deref(), Some("9"), "and is not reverted");
        assert_eq!(size("extra").await.as_deref(), Some("2"));

        patch(&gadgets, "a", json!({ "metadata": { "annotations": { PAUSED: "false" } } })).await;
        assert_eq!(rig.next().await, "Normal 3 pruned 1");
        assert_eq!(size("a").await.as_deref(), Some("3"));
        assert_eq!(size("extra").await, None);
        rig.stop().await;
        assert_eq!(failures.load(Ordering::SeqCst), 0);
    }

    /// Rows: BO-44
    async fn a_write_for_a_paused_object_is_refused_and_ends_the_call_without_an_error(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let (gadgets, secrets) = (cluster.api_aside::<Gadget>(), cluster.api_aside::<Secret>());
        let (sender, receiver) = mpsc::channel(64);
        let namespace = cluster.namespace().to_owned();
        let reconciler = move |cx: Context<Gadget>| {
            let (sender, namespace) = (sender.clone(), namespace.clone());
            async move {
                say(&sender, format!("{:?} {}", cx.mode(), cx.attempt())).await;
                // A question, in the form of a create.
                let review = json!({ "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } } });
                let review: SelfSubjectAccessReview = serde_json::from_value(review)?;
                let reviews = Api::<SelfSubjectAccessReview>::all(cx.client());
                reviews.create(&PostParams::default(), &review).await?;
                let secrets = Api::<Secret>::namespaced(cx.client(), &namespace);
                let created = secrets.create(&PostParams::default(), &secret("raw")).await;
                if let Err(error) = &created {
                    say(&sender, error.to_string()).await;
                }
                created?;
                Ok::<_, Failure>(Outcome::done())
            }
        };
        let (builder, failures) = counting_failures(builder::<Gadget>(&cluster).await);
        let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
        let mut gadget = Gadget::new("a", GadgetSpec { size: 1 });
        gadget.annotations_mut().insert(PAUSED.to_owned(), "true".to_owned());
        create(&gadgets, gadget).await;
        for size in 2..4 {
            assert_eq!(rig.next().await, "Paused 0", "no attempt has failed");
            let error = rig.next().await;
            assert!(error.contains("paused by its annotation windlass.dev/paused"), "{error}");
            patch(&gadgets, "a", json!({ "spec": { "size": size } })).await;
        }
        rig.next().await;
        rig.next().await;
        assert!(secrets.get_opt("raw").await.expect("a response").is_none());
        patch(&gadgets, "a", json!({ "metadata": { "annotations": { PAUSED: null } } })).await;
        assert_eq!(rig.next().await, "Normal 0");
        await_condition(secrets, "raw", |it: Option<&Secret>| it.is_some()).await.expect("created");
        rig.stop().await;
        assert_eq!(failures.load(Ordering::SeqCst), 0);
    }

    /// Rows: BO-44
    async fn the_clean_up_of_a_paused_object_waits_and_a_condition_says_so(cluster: Cluster) {
        struct Kept(mpsc::Sender<String>);

        impl ObjectReconciler<Pipeline> for Kept {
            type Error = Failure;

            async fn reconcile(&self, cx: Context<Pipeline>) -> Result<Outcome, Failure> {
                let mut status = cx.object().status.clone().unwrap_or_default();
                status.conditions.set(cx.generation(), NewCondition::yes("Ready", "Built"))?;
                cx.write_status(status).await?;
                say(&self.0, format!("reconcile {:?}", cx.mode())).await;
                Ok(Outcome::done())
            }

            async fn cleanup(&self, cx: Context<Pipeline>) -> Result<Outcome, Failure> {
                say(&self.0, format!("clean up {:?}", cx.mode())).await;
                Ok(Outcome::done())
            }
        }

        cluster.install(&Pipeline::crd()).await;
        let pipelines = cluster.api_aside::<Pipeline>();
        let (sender, receiver) = mpsc::channel(64);
        let builder = builder::<Pipeline>(&cluster).await.finalizer("test.windlass.dev/level");
        let mut rig = Rig::start(builder.build(Kept(sender)).expect("good settings"), receiver);
        let mut pipeline = Pipeline::new("a", PipelineSpec { size: 1 });
        pipeline.annotations_mut().insert(PAUSED.to_owned(), "true".to_owned());
        create(&pipelines, pipeline).await;
        assert_eq!(rig.next().await, "reconcile Paused");
        pipelines.delete("a", &DeleteParams::default()).await.expect("there");
        let conditions = |pipeline: &Pipeline| {
            let status = pipeline.status.clone().unwrap_or_default();
            let shown = status.conditions.iter().map(|it| format!("{} {}", it.type_, it.status));
            shown.collect::<Vec<_>>()
        };
        let waits = move |pipeline: Option<&Pipeline>| {
            pipeline.is_some_and(|it| conditions(it) == ["Ready True", "Paused True"])
        };
        await_condition(pipelines.clone(), "a", waits).await.expect("a condition");
        patch(&pipelines, "a", json!({ "metadata": { "labels": { "any": "event" } } })).await;
        patch(&pipelines, "a", json!({ "metadata": { "annotations": { PAUSED: null } } })).await;
        assert_eq!(rig.next().await, "clean up Normal", "only after the pause");
        let gone = |pipeline: Option<&Pipeline>| pipeline.is_none();
        await_condition(pipelines, "a", gone).await.expect("deleted");
        rig.stop().await;
    }
}

/// Counts the failed calls.
fn counting_failures<K: Watchable>(
    builder: ControllerBuilder<K>,
) -> (ControllerBuilder<K>, Arc<AtomicUsize>) {
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failures);
    let builder = builder.on_error(move |_| _ = counted.fetch_add(1, Ordering::SeqCst));
    (builder, failures)
}
