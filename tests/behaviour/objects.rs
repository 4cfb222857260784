//! Writes of objects: conflicts, writes without a change, status, generations.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, CustomResourceExt as _, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    kinds::{Gadget, GadgetSpec, config, value},
    watched::{Watched, quick},
};

on_both_servers! {
    async fn an_update_of_an_older_version_is_rejected(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let first = configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let mut mine = first.clone();
        let mut theirs = first;
        theirs.data.as_mut().expect("data").insert("value".to_owned(), "theirs".to_owned());
        configs.replace("a", &PostParams::default(), &theirs).await.expect("the first to write");
        mine.data.as_mut().expect("data").insert("value".to_owned(), "mine".to_owned());
        let error = configs.replace("a", &PostParams::default(), &mine).await;
        let kube::Error::Api(status) = error.expect_err("the second") else {
            panic!("no status");
        };
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert_eq!(
            status.message,
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
             please apply your changes to the latest version and try again"
        );
        assert_eq!(value(&configs.get("a").await.expect("there")), "theirs");
    }

    async fn a_write_without_a_change_sends_no_event(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let first = configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        watched.first_list().await;
        watched.following().await;
        let patch = |value: &str| Patch::Merge(json!({ "data": { "value": value } }));
        let same = configs.patch("a", &PatchParams::default(), &patch("1")).await.expect("there");
        assert_eq!(same.resource_version(), first.resource_version());
        let other = configs.patch("a", &PatchParams::default(), &patch("2")).await.expect("there");
        assert_ne!(other.resource_version(), first.resource_version());
        assert_eq!(watched.next().await, "updated a");
        let store = watched.informer.store().list();
        assert_eq!(store[0].resource_version(), other.resource_version(), "one event, not two");
        watched.stop().await;
    }

    async fn spec_and_status_are_written_separately(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let mut gadget = Gadget::new("a", GadgetSpec { size: 1 });
        gadget.status = Some(crate::kinds::GadgetStatus { ready: true });
        let created = gadgets.create(&PostParams::default(), &gadget).await.expect("new");
        assert!(created.status.is_none(), "a create sets no status");
        assert_eq!(created.metadata.generation, Some(1));

        let both = Patch::Merge(json!({ "spec": { "size": 2 }, "status": { "ready": true } }));
        let params = PatchParams::default();
        let after = gadgets.patch("a", &params, &both).await.expect("there");
        assert_eq!((after.spec.size, after.status.is_none()), (2, true));
        assert_eq!(after.metadata.generation, Some(2));
        let both = Patch::Merge(json!({ "spec": { "size": 3 }, "status": { "ready": true } }));
        let after = gadgets.patch_status("a", &params, &both).await.expect("there");
        assert_eq!(after.spec.size, 2);
        assert!(after.status.expect("written").ready);
        assert_eq!(after.metadata.generation, Some(2), "a status is no wish");
        let labels = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
        let after = gadgets.patch("a", &params, &labels).await.expect("there");
        assert_eq!(after.metadata.generation, Some(2), "nor is a label");
    }

    async fn a_manifest_of_the_wrong_type_is_refused_with_the_field(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let gadgets: Api<kube::api::DynamicObject> = Api::namespaced_with(
            cluster.aside(),
            cluster.namespace(),
            &kube::api::ApiResource::erase::<Gadget>(&()),
        );
        for (spec, expected) in [
            (json!({ "size": "big" }), "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""),
            (json!({}), "spec.size: Required value"),
        ] {
            let resource = kube::api::ApiResource::erase::<Gadget>(&());
            let object = kube::api::DynamicObject::new("a", &resource).data(json!({ "spec": spec }));
            let error = gadgets.create(&PostParams::default(), &object).await.expect_err(expected);
            let kube::Error::Api(status) = error else {
                panic!("{error}");
            };
            assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
            assert_eq!(status.message, format!("Gadget.test.windlass.dev \"a\" is invalid: {expected}"));
        }
    }

    async fn fields_that_the_schema_does_not_know_are_pruned(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let resource = kube::api::ApiResource::erase::<Gadget>(&());
        let gadgets: Api<kube::api::DynamicObject> =
            Api::namespaced_with(cluster.aside(), cluster.namespace(), &resource);
        let object = kube::api::DynamicObject::new("a", &resource)
            .data(json!({ "spec": { "size": 1, "colour": "red" } }));
        let created = gadgets.create(&PostParams::default(), &object).await.expect("new");
        assert_eq!(created.data["spec"], json!({ "size": 1 }));
    }

    async fn a_json_patch_whose_test_fails_changes_nothing(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let first = configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let patch = |expected: &str| -> Patch<ConfigMap> {
            let patch = json!([
                { "op": "test", "path": "/data/value", "value": expected },
                { "op": "replace", "path": "/data/value", "value": "2" },
            ]);
            Patch::Json(serde_json::from_value(patch).expect("a patch"))
        };
        let params = PatchParams::default();
        let error = configs.patch("a", &params, &patch("0")).await.expect_err("it is not 0");
        let kube::Error::Api(status) = error else {
            panic!("{error}");
        };
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
        let still = configs.get("a").await.expect("there");
        assert_eq!(still.resource_version(), first.resource_version());
        let after = configs.patch("a", &params, &patch("1")).await.expect("it is 1");
        assert_eq!(value(&after), "2");
    }

    async fn a_missing_object_and_a_missing_kind_have_different_errors(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let kube::Error::Api(status) = configs.get("none").await.expect_err("not there") else {
            panic!("no status");
        };
        assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
        assert_eq!(status.message, "configmaps \"none\" not found");

        configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let error = configs.create(&PostParams::default(), &config("a", "1")).await;
        let kube::Error::Api(status) = error.expect_err("twice") else {
            panic!("no status");
        };
        assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
        assert_eq!(status.message, "configmaps \"a\" already exists");

        let nowhere: Api<ConfigMap> = Api::namespaced(cluster.aside(), "nowhere");
        let error = nowhere.create(&PostParams::default(), &config("a", "1")).await;
        let kube::Error::Api(status) = error.expect_err("no namespace") else {
            panic!("no status");
        };
        assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
        assert_eq!(status.message, "namespaces \"nowhere\" not found");
    }
}
