//! Watches that break: resuming, relisting, and deletes during a gap.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass::{Event, ObjectKey};

use crate::{
    kinds::{config, value},
    watched::{Watched, quick},
};

on_both_servers! {
    /// Rows: BO-02
    async fn a_watch_that_ends_resumes_where_it_was(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<ConfigMap>();
        create(&others, "a", "1").await;
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert_eq!(watched.first_list().await, ["added a"]);
        watched.following().await;
        let lists = lists(&cluster);

        cluster.connection().hold();
        cluster.connection().cut();
        set(&others, "a", "2").await;
        create(&others, "b", "1").await;
        others.delete("a", &DeleteParams::default()).await.expect("there");
        cluster.connection().release();

        assert_eq!(watched.next().await, "updated a");
        assert_eq!(watched.next().await, "added b");
        assert_eq!(watched.next().await, "deleted a");
        assert_eq!(lists, self::lists(&cluster), "nothing was listed again");
        watched.stop().await;
    }

    /// D21. An informer that lags behind others of its kind is asked for another list.
    async fn a_requested_list_is_applied_and_the_watch_continues(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<ConfigMap>();
        create(&others, "a", "1").await;
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert_eq!(watched.first_list().await, ["added a"]);
        watched.following().await;
        let (lists, version) = (lists(&cluster), watched.informer.list_version());

        watched.informer.relist();
        assert_eq!(watched.next().await, "synced", "a has not changed, and is not delivered");
        assert_eq!(lists + 1, self::lists(&cluster));
        create(&others, "b", "1").await;
        assert_eq!(watched.next().await, "added b");
        watched.informer.relist();
        assert_eq!(watched.next().await, "synced");
        assert_ne!(watched.informer.list_version(), version);
        watched.stop().await;
    }

    /// Rows: BO-01, BO-02, CK-29
    async fn changes_during_a_gap_are_found_by_a_list(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        for name in ["a", "b", "c"] {
            create(&others, name, "1").await;
        }
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert_eq!(watched.first_list().await, ["added a", "added b", "added c"]);
        watched.following().await;

        cluster.connection().hold();
        cluster.connection().cut();
        others.delete("a", &DeleteParams::default()).await.expect("there");
        set(&others, "b", "2").await;
        create(&others, "d", "1").await;
        cluster.forget_history().await;
        cluster.connection().release();

        let mut changes = Vec::new();
        for _ in 0..3 {
            changes.push(watched.next().await);
        }
        changes.sort();
        assert_eq!(changes, ["added d", "missed a", "updated b"], "and c is not reported");
        let store = watched.informer.store();
        let mut there: Vec<_> = store.keys().iter().map(|key| key.name().to_owned()).collect();
        there.sort();
        assert_eq!(there, ["b", "c", "d"]);
        let problems = watched.problems.lock().expect("no thread panics while it holds the lock").join("\n");
        assert!(problems.contains("has expired"), "{problems}");
        watched.stop().await;
    }

    async fn an_object_deleted_during_a_gap_is_reported_with_its_last_state(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        create(&others, "a", "known").await;
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        watched.first_list().await;
        watched.following().await;

        cluster.connection().hold();
        cluster.connection().cut();
        others.delete("a", &DeleteParams::default()).await.expect("there");
        cluster.forget_history().await;
        cluster.connection().release();

        match watched.events.next().await {
            Some(Event::Deleted { last, missed: true }) => assert_eq!(value(&last), "known"),
            other => panic!("{other:?}"),
        }
        watched.stop().await;
    }

    async fn a_recreated_object_is_reported_as_a_delete_and_an_add(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        let first = create(&others, "a", "first").await;
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        watched.first_list().await;
        watched.following().await;

        cluster.connection().hold();
        cluster.connection().cut();
        others.delete("a", &DeleteParams::default()).await.expect("there");
        let second = create(&others, "a", "second").await;
        cluster.forget_history().await;
        cluster.connection().release();

        match watched.events.next().await {
            Some(Event::Deleted { last, .. }) => assert_eq!(last.uid(), first.uid()),
            other => panic!("{other:?}"),
        }
        match watched.events.next().await {
            Some(Event::Added(object)) => assert_eq!(object.uid(), second.uid()),
            other => panic!("{other:?}"),
        }
        watched.stop().await;
    }

    async fn a_delete_event_has_the_last_state_and_the_version_of_the_delete(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        let created = create(&others, "a", "last").await;
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        watched.first_list().await;
        watched.following().await;

        others.delete("a", &DeleteParams::default()).await.expect("there");
        match watched.events.next().await {
            Some(Event::Deleted { last, missed: false }) => {
                assert_eq!(value(&last), "last");
                assert_eq!(last.uid(), created.uid());
                assert!(version(&last) > version(&created));
                assert!(place(&watched) >= version(&last));
            }
            other => panic!("{other:?}"),
        }
        assert!(watched.informer.store().is_empty());
        watched.stop().await;
    }

    /// Rows: CK-09
    async fn a_watch_resumes_after_the_last_received_event(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<ConfigMap>();
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert!(watched.first_list().await.is_empty());
        watched.following().await;
        let created = create(&others, "a", "1").await;
        assert_eq!(watched.next().await, "added a");
        // A bookmark may have come since, so it is this version or a newer one.
        let place = place(&watched);
        assert!(place >= version(&created), "{place}");

        cluster.connection().cut();
        let updated = set(&others, "a", "2").await;
        assert_eq!(watched.next().await, "updated a");
        assert!(self::place(&watched) >= version(&updated));
        let resumed = cluster.connection().requests().pop().expect("a watch");
        let (_, after) = resumed.split_once("resourceVersion=").expect("it resumes");
        let after: u64 = after.split('&').next().expect("a version").parse().expect("a number");
        assert!(after >= version(&created), "{resumed}");
        watched.stop().await;
    }

    async fn an_object_is_in_the_store_before_its_event_is_delivered(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        watched.first_list().await;
        watched.following().await;
        let store = watched.informer.store();
        let key = ObjectKey::new("a").within(cluster.namespace());

        create(&others, "a", "1").await;
        assert_eq!(watched.next().await, "added a");
        assert_eq!(value(&store.get(&key).expect("in the store")), "1");
        set(&others, "a", "2").await;
        match watched.events.next().await {
            Some(Event::Updated { old, new }) => {
                let old = old.get().expect("it has decoded");
                assert_eq!((value(&old), value(&new)), ("1", "2"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(value(&store.get(&key).expect("in the store")), "2");
        watched.stop().await;
    }
}

async fn create(configs: &Api<ConfigMap>, name: &str, value: &str) -> ConfigMap {
    let object = config(name, value);
    configs
        .create(&PostParams::default(), &object)
        .await
        .expect("a new object")
}

async fn set(configs: &Api<ConfigMap>, name: &str, value: &str) -> ConfigMap {
    let patch = Patch::Merge(json!({ "data": { "value": value } }));
    configs
        .patch(name, &PatchParams::default(), &patch)
        .await
        .expect("an object that is there")
}

fn version(object: &ConfigMap) -> u64 {
    let version = object.resource_version().expect("stored");
    version.parse().expect("a number")
}

/// The version up to which nothing was missed.
fn place(watched: &Watched<ConfigMap>) -> u64 {
    let version = watched.informer.last_sync_resource_version();
    version.expect("synced").parse().expect("a number")
}

/// How many pictures were asked for.
fn lists(cluster: &crate::cluster::Cluster) -> usize {
    let requests = cluster.connection().requests();
    let resumes = |url: &&String| url.contains("watch=true") && url.contains("resourceVersion=");
    requests.len() - requests.iter().filter(resumes).count()
}
