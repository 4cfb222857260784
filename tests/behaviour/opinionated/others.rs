//! Writes of other clients: a second operator, a concurrent writer, labels, forced deletes.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use windlass::{
    FinalizerName, Finalizers, ObjectKey, OpinionatedWatcher,
    finalizer::{FinalizerPatch, OnSelectorExit, PatchClient},
};

use super::{
    configs::{GUARD, OWN, THEIRS, create, delete, gone, has, merge, merge_if_there, wait},
    operator::{Log, Running, source},
};
use crate::kinds::{config, labelled};

/// Another writer that is faster, each time that something is added.
struct Racing {
    client: Client,
}

on_both_servers! {
    async fn two_operators_on_one_kind_each_clean_up_once(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let (one, two) = (Log::of("one "), Log::of("two "));
        let watcher = one.opinionated_watcher(cluster.aside(), OWN);
        let first = Running::watch(source(&cluster).await, watcher);
        let reconciler = two.opinionated_reconciler(cluster.aside(), THEIRS);
        let second = Running::reconcile(source(&cluster).await, reconciler);
        let names = ["a", "b", "c", "d", "e"];
        for name in names {
            create(&configs, &config(name, "1")).await;
        }
        for name in names {
            let both = |object: Option<&ConfigMap>| {
                object.is_some_and(|object| {
                    let has = |it: &str| object.finalizers().iter().any(|own| own == it);
                    object.finalizers().len() == 2 && has(OWN) && has(THEIRS)
                })
            };
            wait(&configs, name, both).await;
            delete(&configs, name).await;
        }
        for name in names {
            gone(&configs, name).await;
            assert_eq!(one.count(&format!("one delete {name}=1")), 1);
            assert_eq!(two.count(&format!("two deleted {name}=1")), 1);
        }
        first.stop().await;
        second.stop().await;
    }

    async fn a_recreated_object_inherits_no_calls(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let watcher = log.opinionated_watcher(cluster.aside(), OWN);
        let running = Running::watch(source(&cluster).await, watcher);
        log.fail(3);
        create(&configs, &config("a", "1")).await;
        log.until("add a=1").await;
        // By force: without a clean-up.
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        delete(&configs, "a").await;
        merge_if_there(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        gone(&configs, "a").await;
        log.fail(0);
        create(&configs, &config("a", "2")).await;
        has(&configs, "a", &[OWN]).await;
        let before = log.count("add a=1");
        merge(&configs, "a", json!({ "data": { "value": "3" } })).await;
        log.until("update a=3").await;
        assert_eq!((log.count("add a=1"), log.count("add a=2")), (before, 1));
        running.stop().await;
    }

    async fn a_conflict_is_retried_and_keeps_the_writes_of_others(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let racing = Racing { client: cluster.aside() };
        let watcher = log.opinionated_watcher(racing, OWN);
        let running = Running::watch(source(&cluster).await, watcher);
        create(&configs, &config("a", "1")).await;
        let theirs: Vec<_> = (1..=2).map(|n| format!("{THEIRS}-{n}")).collect();
        has(&configs, "a", &[&theirs[0], OWN, &theirs[1]]).await;
        assert_eq!(log.count("add a=1"), 1);
        delete(&configs, "a").await;
        has(&configs, "a", &[&theirs[0], &theirs[1]]).await;
        assert_eq!(log.count("delete a=1"), 1);
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        gone(&configs, "a").await;
        running.stop().await;
    }

    async fn an_object_that_left_the_selector_can_be_deleted(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        for (leaving, calls) in [
            (OnSelectorExit::Release, &["add"][..]),
            (OnSelectorExit::CleanUp, &["add", "delete"]),
        ] {
            let log = Log::new();
            let watcher = log.opinionated_watcher(cluster.aside(), OWN).on_selector_exit(leaving);
            let source = source(&cluster).await.labels("app=web").expect("a selector");
            let running = Running::watch(source, watcher);
            create(&configs, &labelled(config("a", "1"), "app", "web")).await;
            has(&configs, "a", &[OWN]).await;
            merge(&configs, "a", json!({ "metadata": { "labels": { "app": "db" } } })).await;
            has(&configs, "a", &[]).await;
            let calls: Vec<_> = calls.iter().map(|call| format!("{call} a=1")).collect();
            assert_eq!(log.lines(), calls, "{leaving:?}");
            delete(&configs, "a").await;
            gone(&configs, "a").await;
            running.stop().await;
        }
    }

    async fn a_terminating_object_gets_no_finalizer(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let mut object = config("a", "1");
        object.finalizers_mut().push(THEIRS.to_owned());
        create(&configs, &object).await;
        delete(&configs, "a").await;
        let reconciler = log.opinionated_reconciler(cluster.aside(), OWN);
        let running = Running::reconcile(source(&cluster).await, reconciler);
        create(&configs, &config("z", "1")).await;
        has(&configs, "z", &[OWN]).await;
        assert_eq!(configs.get("a").await.expect("there").finalizers(), [THEIRS]);
        assert_eq!(log.lines(), ["created z=1"]);
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        log.until("deleted a=1").await;
        running.stop().await;
    }

    async fn a_legacy_finalizer_is_replaced_without_a_gap(cluster: Cluster) {
        let (configs, log) = (cluster.api_aside::<ConfigMap>(), Log::new());
        let mut object = config("a", "1");
        object.finalizers_mut().extend([OWN.to_owned(), THEIRS.to_owned()]);
        create(&configs, &object).await;
        let name = |name| FinalizerName::new(name).expect("a name");
        let today = "test.windlass.dev/today";
        let finalizers = Finalizers::new(cluster.aside(), name(today)).expect("a finalizer");
        let watcher = OpinionatedWatcher::new(finalizers.legacy_name(name(OWN)), log.watcher());
        let running = Running::watch(source(&cluster).await, watcher);
        has(&configs, "a", &[today, THEIRS]).await;
        delete(&configs, "a").await;
        has(&configs, "a", &[THEIRS]).await;
        assert_eq!(log.lines(), ["delete a=1"], "it had been added under the former name");
        merge(&configs, "a", json!({ "metadata": { "finalizers": null } })).await;
        running.stop().await;
    }
}

// === impl Racing ===

impl PatchClient<ConfigMap> for Racing {
    async fn patch(
        &self,
        key: &ObjectKey,
        patch: &FinalizerPatch,
    ) -> Result<ConfigMap, kube::Error> {
        let namespace = key.namespace().expect("a namespace");
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let object = configs.get(key.name()).await?;
        let mut finalizers = object.finalizers().to_vec();
        let theirs = finalizers
            .iter()
            .filter(|it| it.starts_with(THEIRS))
            .count();
        // Once before the guard, and once before the finalizer.
        let held = finalizers.iter().any(|it| it == GUARD);
        if theirs == usize::from(held) && theirs < 2 {
            finalizers.push(format!("{THEIRS}-{}", theirs + 1));
            let race = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
            let params = PatchParams::default();
            configs.patch(key.name(), &params, &race).await?;
        }
        PatchClient::patch(&self.client, key, patch).await
    }
}
