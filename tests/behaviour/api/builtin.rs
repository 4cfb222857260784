//! The special rules of namespaces and events.

use http::Method;
use serde_json::{Value, json};

use super::raw::{Raw, named, names};

on_both_servers! {
    /// docs/apiserver.md: row 97.
    async fn nothing_is_created_in_a_missing_namespace(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let nowhere = "/api/v1/namespaces/nowhere/configmaps";
        let answer = raw.post(nowhere, &named("a")).await;
        assert_eq!(answer.body["details"], json!({ "name": "nowhere", "kind": "namespaces" }));
        assert_eq!(answer.refused(404, "NotFound"), "namespaces \"nowhere\" not found");
        assert_eq!(raw.get(nowhere).await.ok()["items"], json!([]), "but one may look");
    }

    /// docs/apiserver.md: rows 98, 99.
    async fn nothing_is_created_in_a_terminating_namespace(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let name = format!("{}-dying", raw.namespace);
        let created = raw.post("/api/v1/namespaces", &named(&name)).await.ok();
        assert_eq!(created["status"], json!({ "phase": "Active" }));
        assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
        let maps = format!("/api/v1/namespaces/{name}/configmaps");
        let body = json!({ "metadata": { "name": "a", "finalizers": ["test.windlass.dev/a"] } });
        raw.post(&maps, &body).await.ok();

        raw.delete(&format!("/api/v1/namespaces/{name}")).await.ok();
        let dying = raw.get(&format!("/api/v1/namespaces/{name}")).await.ok();
        assert_eq!(dying["status"]["phase"], "Terminating");
        let refused = raw.post(&maps, &named("b")).await;
        let cause = &refused.body["details"]["causes"][0];
        assert_eq!(cause["reason"], "NamespaceTerminating");
        assert_eq!(refused.refused(403, "Forbidden"), format!(
            "configmaps \"b\" is forbidden: unable to create new content in namespace {name} because \
             it is being terminated"
        ));
        // What is there may change, and go.
        raw.merge(&format!("{maps}/a"), &json!({ "data": { "k": "v" } })).await.ok();
        raw.merge(&format!("{maps}/a"), &json!({ "metadata": { "finalizers": null } })).await.ok();
    }

    /// docs/apiserver.md: rows 1, 10, 99.
    async fn finalize_changes_the_finalizers_of_a_namespace(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let name = format!("{}-held", raw.namespace);
        let path = format!("/api/v1/namespaces/{name}");
        let finalize = format!("{path}/finalize");
        let created = raw.post("/api/v1/namespaces", &named(&name)).await.ok();

        let mut sent = created.clone();
        sent["spec"]["finalizers"] = json!(["kubernetes", "test.windlass.dev/a"]);
        let updated = raw.put(&path, &sent).await.ok();
        assert_eq!(updated["spec"], created["spec"], "not by an update");
        sent["metadata"]["resourceVersion"] = updated["metadata"]["resourceVersion"].clone();
        sent["metadata"]["labels"]["a"] = "b".into();
        sent["status"]["phase"] = "Terminating".into();
        let changed = raw.put(&finalize, &sent).await.ok();
        assert_eq!(changed["spec"], sent["spec"]);
        assert_eq!(changed["status"], json!({ "phase": "Active" }));
        assert_eq!(changed["metadata"]["labels"], sent["metadata"]["labels"]);
        assert_eq!(raw.get(&path).await.ok(), changed);
        raw.put(&finalize, &created).await.refused(409, "Conflict");

        let mut invalid = changed.clone();
        invalid["spec"]["finalizers"] = json!(["a"]);
        let message = raw.put(&finalize, &invalid).await.refused(422, "Invalid");
        assert_eq!(message, format!(
            "Namespace {name:?} is invalid: spec.finalizers[0]: Invalid value: \"a\": name is neither a \
             standard finalizer name nor is it fully qualified"
        ));
        for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE] {
            let headers = [("content-type", "application/merge-patch+json")];
            let answer = raw.ask(method.clone(), &finalize, &headers, "{}").await;
            let message = answer.refused(405, "MethodNotAllowed");
            assert_eq!(message, "the server does not allow this method on the requested resource");
        }
        let nowhere = "/api/v1/namespaces/nowhere/finalize";
        let message = raw.put(nowhere, &named("nowhere")).await.refused(404, "NotFound");
        assert_eq!(message, "namespaces \"nowhere\" not found");

        raw.delete(&path).await.ok();
        let mut dying = raw.get(&path).await.ok();
        assert_eq!(dying["status"]["phase"], "Terminating");
        let held = dying["spec"]["finalizers"].as_array().expect("finalizers");
        assert!(held.contains(&json!("test.windlass.dev/a")), "{dying}");
        dying["spec"]["finalizers"] = json!([]);
        let gone = raw.put(&finalize, &dying).await.ok();
        assert_eq!(gone["spec"], json!({}));
        raw.get(&path).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: rows 9, 79.
    async fn a_list_of_labels_is_refused(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let all = raw.at("/api/v1", "replicationcontrollers");
        let containers = json!([{ "name": "a", "image": "x" }]);
        let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": containers } });
        let created = json!({ "metadata": { "name": "a" }, "spec": { "template": template } });
        let created = raw.post(&all, &created).await.ok();
        assert_eq!(created["metadata"]["labels"], json!({ "a": "b" }));
        let why = raw.merge(&format!("{all}/a"), &json!({ "metadata": { "labels": [] } })).await;
        let why = why.refused(422, "Invalid");
        assert!(why.contains("cannot unmarshal array into Go struct field"), "{why}");
    }

    /// docs/apiserver.md: row 9.
    async fn a_list_of_numbers_is_decoded_as_bytes(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}?dryRun=All", raw.at("/api/v1", "secrets"));
        let secret = |value: Value| json!({ "metadata": { "name": "a" }, "data": { "k": value } });
        for (list, stored) in [(json!([]), ""), (json!([1]), "AQ=="), (json!([97, null, 255]), "YQD/")] {
            let created = raw.post(&path, &secret(list)).await.ok();
            assert_eq!(created["data"]["k"], stored);
        }
        for (list, found) in [
            (json!([1, 256]), "number 256"),
            (json!([-1]), "number -1"),
            (json!([1.5]), "number 1.5"),
            (json!(["a"]), "string"),
            (json!([[]]), "array"),
        ] {
            let why = raw.post(&path, &secret(list)).await.refused(400, "BadRequest");
            let expected = format!("cannot unmarshal {found} into Go struct field Secret.data of type uint8");
            assert!(why.ends_with(&expected), "{why}");
        }
    }

    /// docs/apiserver.md: row 99.
    async fn a_new_namespace_keeps_its_finalizers(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = "/api/v1/namespaces?dryRun=All";
        let name = format!("{}-new", raw.namespace);
        let namespace = |finalizers: &[&str]| json!({
            "metadata": { "name": name }, "spec": { "finalizers": finalizers },
        });
        for (sent, stored) in [
            (&[][..], &["kubernetes"][..]),
            (&["ex.io/a"], &["ex.io/a", "kubernetes"]),
            (&["kubernetes", "ex.io/a"], &["kubernetes", "ex.io/a"]),
            (&["ex.io/a", "ex.io/a"], &["ex.io/a", "ex.io/a", "kubernetes"]),
        ] {
            let created = raw.post(path, &namespace(sent)).await.ok();
            assert_eq!(created["spec"], json!({ "finalizers": stored }));
        }
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        let message = raw.post(path, &namespace(&["x", "y"])).await.refused(422, "Invalid");
        assert_eq!(message, format!(
            "Namespace {name:?} is invalid: [spec.finalizers: Invalid value: \"x\": {why}, \
             spec.finalizers: Invalid value: \"y\": {why}]"
        ));
    }

    /// docs/apiserver.md: row 99.
    async fn the_initial_namespaces_cannot_be_deleted(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for name in ["default", "kube-system", "kube-public"] {
            let message = raw.delete(&format!("/api/v1/namespaces/{name}")).await.refused(403, "Forbidden");
            assert_eq!(message, format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"));
        }
    }

    /// docs/apiserver.md: rows 50, 103.
    async fn the_events_of_an_object_are_found_by_its_fields(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let events = raw.at("/api/v1", "events");
        for (name, about) in [("e", "p"), ("f", "q")] {
            raw.post(&events, &json!({
                "metadata": { "name": name },
                "involvedObject": {
                    "kind": "Pod", "name": about, "namespace": raw.namespace, "uid": format!("uid-{about}"),
                },
                "reason": "Said", "message": "hello", "type": "Normal",
                "source": { "component": "test" },
            })).await.ok();
        }
        // As `kubectl describe` asks.
        let selector = format!(
            "involvedObject.name%3Dp,involvedObject.namespace%3D{},involvedObject.kind%3DPod,involvedObject.uid%3Duid-p",
            raw.namespace
        );
        let list = raw.get(&format!("{events}?fieldSelector={selector}")).await.ok();
        assert_eq!((list["kind"].as_str(), names(&list).as_str()), (Some("EventList"), "e"));
        for (selector, found) in [
            ("reason%3DSaid", "e f"),
            ("reason!%3DSaid", ""),
            ("type%3DNormal,involvedObject.name!%3Dp", "f"),
            ("type%3DWarning", ""),
        ] {
            let list = raw.get(&format!("{events}?fieldSelector={selector}")).await.ok();
            assert_eq!(names(&list), found, "{selector}");
        }
    }

    /// docs/apiserver.md: row 103.
    async fn an_event_is_in_both_groups(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.at("/api/v1", "events"), &json!({
            "metadata": { "name": "e" },
            "involvedObject": { "kind": "Pod", "name": "p", "namespace": raw.namespace },
            "reason": "Said", "message": "hello", "type": "Normal",
        })).await.ok();
        let event = raw.get(&raw.at("/apis/events.k8s.io/v1", "events/e")).await.ok();
        assert_eq!((&event["apiVersion"], &event["kind"]), (&json!("events.k8s.io/v1"), &json!("Event")));
        assert_eq!((&event["note"], &event["regarding"]["name"]), (&json!("hello"), &json!("p")));
        assert_eq!(event["metadata"]["uid"], created["metadata"]["uid"]);
    }

    /// docs/apiserver.md: "built-in kinds".
    async fn a_limit_range_without_a_name_gets_one(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = raw.at("/api/v1", "limitranges");
        let created = raw.post(&path, &json!({ "metadata": {}, "spec": { "limits": [] } })).await.ok();
        // It has the form of a uid.
        let name = created["metadata"]["name"].as_str().expect("a name");
        assert_eq!(name.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        raw.get(&format!("{path}/{name}")).await.ok();
    }

    /// As a job does that was read from a cluster and is created again.
    ///
    /// docs/apiserver.md: "built-in kinds".
    async fn a_job_cannot_have_the_selector_of_another_job(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = raw.at("/apis/batch/v1", "jobs");
        let job = json!({
            "metadata": { "name": "a" },
            "spec": { "template": { "spec": {
                "restartPolicy": "Never", "containers": [{ "name": "a", "image": "x" }],
            } } },
        });
        let created = raw.post(&path, &job).await.ok();
        let uid = created["metadata"]["uid"].clone();
        let spec = &created["spec"];
        assert_eq!(spec["selector"], json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid } }));
        let mut again = created.clone();
        again["metadata"] = json!({ "name": "b" });
        let refused = raw.post(&path, &again).await;
        let causes = refused.body["details"]["causes"].as_array().expect("causes").iter();
        let mut fields: Vec<_> = causes.map(|cause| cause["field"].as_str().expect("a field")).collect();
        fields.sort_unstable();
        assert_eq!(fields, [
            "spec.selector",
            "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]",
            "spec.template.metadata.labels[batch.kubernetes.io/job-name]",
            "spec.template.metadata.labels[controller-uid]",
            "spec.template.metadata.labels[job-name]",
        ]);
        refused.refused(422, "Invalid");
        let mut selected = job;
        selected["metadata"]["name"] = "c".into();
        selected["spec"]["selector"] = spec["selector"].clone();
        let why = raw.post(&path, &selected).await.refused(422, "Invalid");
        assert!(why.contains("`selector` not auto-generated"), "{why}");
    }

    /// docs/apiserver.md: "built-in kinds".
    async fn the_pods_of_a_job_with_indexes_need_valid_names(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = raw.at("/apis/batch/v1", "jobs");
        let job = |name: &str, completions: i64| json!({
            "metadata": { "name": name },
            "spec": {
                "completionMode": "Indexed", "completions": completions,
                "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "a", "image": "x" }] } },
            },
        });
        let long = "a".repeat(61);
        raw.post(&path, &job(&long, 10)).await.ok();
        for (name, last) in [(format!("b{}", &long[1..]), 10), ("a.b".to_owned(), 0)] {
            let message = raw.post(&path, &job(&name, last + 1)).await.refused(422, "Invalid");
            let why = format!("will not able to create pod with invalid DNS label: {name}-{last}");
            assert!(message.contains(&why), "{message}");
        }
    }
}
