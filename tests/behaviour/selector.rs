//! Selectors: objects that start and stop matching.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use windlass::{Event, ListWatch};

use crate::{
    kinds::{config, labelled, value},
    watched::{Watched, quick},
};

on_both_servers! {
    /// Rows: GA-42
    async fn an_object_enters_and_leaves_with_its_labels(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<ConfigMap>();
        let web = labelled(config("web", "1"), "app", "web");
        let db = labelled(config("db", "1"), "app", "db");
        for object in [&web, &db] {
            others.create(&PostParams::default(), object).await.expect("new");
        }
        let source = quick(cluster.api::<ConfigMap>().await).labels("app=web").expect("a selector");
        let mut watched = Watched::start(source);
        assert_eq!(watched.first_list().await, ["added web"]);
        watched.following().await;

        let relabel = |app: &str, value: &str| {
            Patch::Merge(json!({ "metadata": { "labels": { "app": app } }, "data": { "value": value } }))
        };
        let params = PatchParams::default();
        others.patch("db", &params, &relabel("web", "2")).await.expect("there");
        assert_eq!(watched.next().await, "added db");
        others.patch("web", &params, &relabel("db", "2")).await.expect("there");
        match watched.events.next().await {
            Some(Event::Deleted { last, .. }) => assert_eq!(value(&last), "1", "as it was last seen"),
            other => panic!("{other:?}"),
        }
        others.patch("web", &params, &relabel("db", "3")).await.expect("there");
        others.patch("db", &params, &relabel("web", "3")).await.expect("there");
        assert_eq!(watched.next().await, "updated db", "changes outside of the selector are not reported");
        watched.stop().await;
    }

    async fn sets_of_labels_select(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        for (name, tier) in [("a", "front"), ("b", "back"), ("c", "other")] {
            let object = labelled(config(name, "1"), "tier", tier);
            others.create(&PostParams::default(), &object).await.expect("new");
        }
        others.create(&PostParams::default(), &config("d", "1")).await.expect("new");
        for (selector, expected) in [
            ("tier in (front, back)", &["added a", "added b"][..]),
            ("tier notin (front,back)", &["added c", "added d"]),
            ("!tier", &["added d"]),
            ("tier,tier!=other", &["added a", "added b"]),
        ] {
            let source = quick(cluster.api::<ConfigMap>().await).labels(selector).expect(selector);
            // The real server keeps a config map of its own in each namespace, if its
            // controllers run.
            let mut watched = Watched::start(source);
            assert_eq!(watched.first_list().await, expected, "{selector}");
            watched.stop().await;
        }
    }

    async fn an_object_enters_and_leaves_with_its_fields(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let others = cluster.api_aside::<Pod>();
        let pod = serde_json::from_value(json!({
            "metadata": { "name": "web" },
            "spec": { "containers": [{ "name": "web", "image": "web" }] },
        }));
        let source = quick(cluster.api::<Pod>().await)
            .fields("status.phase=Running")
            .expect("a selector");
        let mut watched = Watched::start(source);
        assert!(watched.first_list().await.is_empty());
        watched.following().await;

        others.create(&PostParams::default(), &pod.expect("a pod")).await.expect("new");
        for (phase, expected) in [("Running", "added web"), ("Succeeded", "deleted web")] {
            let status = Patch::Merge(json!({ "status": { "phase": phase } }));
            others.patch_status("web", &PatchParams::default(), &status).await.expect("there");
            assert_eq!(watched.next().await, expected);
        }
        let now = DeleteParams::default().grace_period(0);
        others.delete("web", &now).await.expect("there");
        watched.stop().await;
    }

    async fn a_malformed_selector_is_rejected_before_it_is_sent(cluster: Cluster) {
        for selector in ["", " ", "tier in (front", "a\nb"] {
            let source = ListWatch::new(cluster.api::<ConfigMap>().await);
            let error = source.labels(selector).expect_err(selector).to_string();
            assert!(error.contains("label selector"), "{error}");
        }
        for selector in ["metadata.name", "a=b,metadata.name", r"metadata.name\,a=b,c"] {
            let source = ListWatch::new(cluster.api::<ConfigMap>().await);
            let error = source.fields(selector).expect_err("no value").to_string();
            assert!(error.contains("field selector") && error.contains("metadata.name"), "{error}");
        }
        for selector in ["metadata.name=a,", r"metadata.name=a\,b"] {
            let source = ListWatch::new(cluster.api::<ConfigMap>().await);
            assert!(source.fields(selector).is_ok(), "{selector}");
        }
    }
}
