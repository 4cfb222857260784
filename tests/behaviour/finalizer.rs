//! Finalizers: how they are added, how they keep an object, and how they are removed.

use std::{convert::Infallible, fmt::Debug, future::ready, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{
    Event, FinalizerName, Finalizers, Informer, InformerController, ListWatch, OpinionatedWatcher,
    SimpleWatcher, source::Trim,
};

use crate::{
    cluster::{Cluster, await_condition},
    kinds::config,
    running::Running,
    watched::{Watched, quick},
};

const FINALIZER: &str = "test.windlass.dev/clean-up";

on_both_servers! {
    /// Rows: GA-90
    async fn an_object_with_a_finalizer_is_marked_and_removed_after_its_finalizer(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        create(&configs, "a", &[FINALIZER, "other.dev/one"]).await;
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert_eq!(watched.first_list().await, ["added a"]);
        watched.following().await;

        let answer = configs.delete("a", &DeleteParams::default()).await.expect("there");
        let marked = answer.left().expect("the object, for it is still there");
        let time = marked.meta().deletion_timestamp.clone().expect("marked");
        match watched.events.next().await {
            Some(Event::Updated { new, .. }) => {
                assert_eq!(new.meta().deletion_timestamp.as_ref(), Some(&time));
            }
            other => panic!("a mark is an update: {other:?}"),
        }
        // Once more changes nothing.
        let again = configs.delete("a", &DeleteParams::default()).await.expect("there");
        let again = again.left().expect("still there");
        assert_eq!(again.meta().deletion_timestamp.as_ref(), Some(&time));

        let answer = set(&configs, "a", &["other.dev/one"]).await.expect("one less");
        assert_eq!(answer.finalizers(), ["other.dev/one"]);
        assert_eq!(watched.next().await, "updated a");
        let answer = set(&configs, "a", &[]).await.expect("the last");
        assert!(answer.finalizers().is_empty(), "the answer is what was asked for");
        match watched.events.next().await {
            Some(Event::Deleted { last, missed: false }) => {
                assert_eq!(last.finalizers(), ["other.dev/one"], "the last stored state");
            }
            other => panic!("the last finalizer goes without an update: {other:?}"),
        }
        assert!(configs.get_opt("a").await.expect("answered").is_none());
        watched.stop().await;
    }

    /// docs/apiserver.md: row 36.
    async fn a_terminating_object_gets_no_new_finalizer(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        create(&configs, "a", &[FINALIZER]).await;
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        let error = set(&configs, "a", &[FINALIZER, "late.dev/one"]).await;
        let error = error.expect_err("it is dying");
        let kube::Error::Api(status) = error else {
            panic!("{error}");
        };
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
        assert!(status.message.contains("no new finalizers can be added"), "{}", status.message);
        assert!(status.message.contains("late.dev/one"), "{}", status.message);
        set(&configs, "a", &[]).await.expect("the last");
    }

    async fn a_finalizer_that_kubernetes_rejects_is_named_in_the_error(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        for finalizer in ["not a name", "-a", "example.com/", "Example.com/a"] {
            let mut object = config("a", "1");
            object.finalizers_mut().push(finalizer.to_owned());
            let error = configs.create(&PostParams::default(), &object).await;
            let error = error.expect_err(finalizer);
            let kube::Error::Api(status) = error else {
                panic!("{error}");
            };
            assert_eq!(status.code, 422, "{}", status.message);
            assert!(status.message.contains("metadata.finalizers"), "{}", status.message);
            assert!(status.message.contains(finalizer), "{}", status.message);
        }
    }

    async fn a_delete_with_another_uid_deletes_nothing(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let created = create(&configs, "a", &[]).await;
        let stale = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some("00000000-0000-0000-0000-000000000000".to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let error = configs.delete("a", &stale).await.expect_err("another life");
        let kube::Error::Api(status) = error else {
            panic!("{error}");
        };
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert!(status.message.contains("UID in the precondition"), "{}", status.message);
        let still = configs.get("a").await.expect("still there");
        assert_eq!(still.uid(), created.uid());
    }

    /// An object that left the selector while no operator ran is found, and released if its uid
    /// is still the same.
    async fn an_unwatched_object_is_found_by_its_finalizer(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let name = FinalizerName::new(FINALIZER).expect("a good name");
        let guard = name.in_progress().as_str().to_owned();
        let finalizers = Finalizers::new(configs.clone(), name).expect("it fits the kind");
        for (name, finalizer) in [
            ("foreign", "other.dev/one"),
            ("guarded", guard.as_str()),
            ("held", FINALIZER),
            ("reborn", FINALIZER),
            ("shown", FINALIZER),
        ] {
            create(&configs, name, &[finalizer]).await;
        }
        configs.delete("held", &DeleteParams::default()).await.expect("there");

        let found = finalizers.unwatched(&configs, |key| key.name() == "shown").await;
        let found = found.expect("a list");
        let names = found.iter().map(|it| (it.key.name(), it.terminating));
        assert_eq!(
            names.collect::<Vec<_>>(),
            [("guarded", false), ("held", true), ("reborn", false)]
        );

        // The finalizer of a successor of the same name stays.
        set(&configs, "reborn", &[]).await.expect("the last");
        configs.delete("reborn", &DeleteParams::default()).await.expect("there");
        create(&configs, "reborn", &[FINALIZER]).await;
        let mut released = Vec::new();
        for object in &found {
            released.push(finalizers.release_unwatched(object).await.expect("answered"));
        }
        assert_eq!(released, [true, true, false]);
        assert!(configs.get_opt("held").await.expect("answered").is_none(), "it could go");
        let left = configs.get("guarded").await.expect("there");
        assert!(left.finalizers().is_empty());
        let successor = configs.get("reborn").await.expect("there");
        assert_eq!(successor.finalizers(), [FINALIZER]);
    }

    /// The answers to finalizer patches have the fields that the watch has: otherwise the next event
    /// would look like a change by another writer.
    async fn an_object_of_a_trimmed_watch_is_added_once_and_not_updated(cluster: Cluster) {
        let trim = Trim::default().field(["metadata", "annotations"]);
        let configs = cluster.api::<ConfigMap>().await;
        let watch = quick(configs.clone()).trim(trim);
        let calls = calls_for_one_object(&cluster, watch, configs).await;
        assert_eq!(calls, ["add 0 annotations", "update 0 annotations step=2", "delete"]);
    }

    /// The answers to finalizer patches have only metadata too.
    async fn an_object_of_a_metadata_watch_is_added_once_and_not_updated(cluster: Cluster) {
        let configs = cluster.api::<ConfigMap>().await;
        let metadata = cluster.api::<PartialObjectMeta<ConfigMap>>().await;
        let watch = quick(configs).metadata();
        let calls = calls_for_one_object(&cluster, watch, metadata).await;
        assert_eq!(calls, ["add 1 annotations", "update 1 annotations step=2", "delete"]);
    }
}

/// Creates, labels and deletes an object with an annotation. Returns the calls of a watcher with a
/// finalizer.
async fn calls_for_one_object<K>(
    cluster: &Cluster,
    watch: ListWatch<K>,
    patches: Api<K>,
) -> Vec<String>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    K: Send + Sync + 'static,
{
    let (sender, mut calls) = mpsc::channel(1024);
    let say = move |line: String| {
        sender.try_send(line).expect("the test receives");
        ready(Ok::<_, Infallible>(()))
    };
    let annotations = |object: &K| format!("{} annotations", object.annotations().len());
    let watcher = SimpleWatcher::<K>::new()
        .on_add({
            let say = say.clone();
            move |new: Arc<K>| say(format!("add {}", annotations(&new)))
        })
        .on_update({
            let say = say.clone();
            move |_, new: Arc<K>| {
                let step = new.labels().get("step").cloned().unwrap_or_default();
                say(format!("update {} step={step}", annotations(&new)))
            }
        })
        .on_delete(move |_: Arc<K>| say("delete".to_owned()));
    let name = FinalizerName::new(FINALIZER).expect("a name");
    let finalizers = Finalizers::new(patches, name).expect("a finalizer");
    let controller = InformerController::new();
    let kind = controller.kind::<K>("configs").expect("a new kind");
    controller
        .add_informer(&kind, &Informer::new(watch))
        .expect("added");
    controller
        .add_watcher(&kind, OpinionatedWatcher::new(finalizers, watcher))
        .expect("added");
    let running = Running::start(&controller);

    let configs = cluster.api_aside::<ConfigMap>();
    let mut object = config("a", "1");
    object
        .annotations_mut()
        .insert("test.windlass.dev/note".to_owned(), "long".to_owned());
    configs
        .create(&PostParams::default(), &object)
        .await
        .expect("a new object");
    let mut lines = vec![calls.recv().await.expect("it runs")];
    await_condition(configs.clone(), "a", |object: Option<&ConfigMap>| {
        object.is_some_and(|object| object.finalizers() == [FINALIZER])
    })
    .await
    .expect("a watch");
    // Events are dispatched in order: an update by a patch would be received before.
    let label = Patch::Merge(json!({ "metadata": { "labels": { "step": "2" } } }));
    let labelled = configs.patch("a", &PatchParams::default(), &label).await;
    labelled.expect("there");
    lines.push(calls.recv().await.expect("it runs"));
    configs
        .delete("a", &DeleteParams::default())
        .await
        .expect("there");
    lines.push(calls.recv().await.expect("it runs"));
    running.stop().await.expect("no error");
    lines.extend(calls.try_recv());
    lines
}

async fn create(configs: &Api<ConfigMap>, name: &str, finalizers: &[&str]) -> ConfigMap {
    let mut object = config(name, "1");
    for finalizer in finalizers {
        object.finalizers_mut().push((*finalizer).to_owned());
    }
    configs
        .create(&PostParams::default(), &object)
        .await
        .expect("a new object")
}

async fn set(
    configs: &Api<ConfigMap>,
    name: &str,
    finalizers: &[&str],
) -> Result<ConfigMap, kube::Error> {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    configs.patch(name, &PatchParams::default(), &patch).await
}
