//! Lists, watches and deletions in one namespace and in all namespaces.

use serde_json::{Value, json};

use super::raw::{Raw, named, names, version};
use super::widget::Widget;

/// Creates a second namespace, and the same config map in both.
async fn two_namespaces(raw: &Raw) -> String {
    let second = format!("{}-b", raw.namespace);
    raw.post("/api/v1/namespaces", &named(&second)).await.ok();
    for namespace in [&raw.namespace, &second] {
        raw.post(&maps_of(namespace), &labelled("a", &raw.namespace))
            .await
            .ok();
    }
    second
}

fn maps_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A config map that carries the name of the test's namespace as a label.
fn labelled(name: &str, label: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "test": label } } })
}

fn places(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let places = items.filter_map(|item| item["metadata"]["namespace"].as_str());
    places.map(str::to_owned).collect()
}

on_both_servers! {
    /// The order is that of the texts `namespace/name`, in which `a-b` comes before `a`.
    ///
    /// docs/apiserver.md: rows 1, 2, 46.
    async fn a_list_is_of_one_namespace_or_of_all(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let second = two_namespaces(&raw).await;
        let all = format!("/api/v1/configmaps?labelSelector=test={}", raw.namespace);
        assert_eq!(places(&raw.get(&all).await.ok()), [second.clone(), raw.namespace.clone()]);
        for namespace in [&raw.namespace, &second] {
            let list = raw.get(&format!("{}?labelSelector=test", maps_of(namespace))).await.ok();
            assert_eq!((places(&list), names(&list).as_str()), (vec![namespace.clone()], "a"));
        }
        let one = format!("{all}&fieldSelector=metadata.namespace={second}");
        assert_eq!(places(&raw.get(&one).await.ok()), [second]);
    }

    /// docs/apiserver.md: rows 56, 58.
    async fn a_watch_is_of_one_namespace_or_of_all(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let _history = cluster.remember_history().await;
        let second = two_namespaces(&raw).await;
        let selector = format!("labelSelector=test={}", raw.namespace);
        let from = version(&raw.get(&format!("/api/v1/configmaps?{selector}")).await.ok());
        let selector = format!("watch=1&{selector}");
        let mut all = raw.watch(&format!("/api/v1/configmaps?{selector}&resourceVersion={from}")).await;
        let mut one = raw.watch(&format!("{}?{selector}&resourceVersion={from}", raw.maps())).await;
        let mut first = raw.watch(&format!("{}?{selector}", maps_of(&second))).await;
        assert_eq!(first.next_line().await, "ADDED a");
        raw.post(&maps_of(&second), &labelled("there", &raw.namespace)).await.ok();
        raw.post(&raw.maps(), &labelled("here", &raw.namespace)).await.ok();
        assert_eq!([all.next_line().await, all.next_line().await], ["ADDED there", "ADDED here"]);
        assert_eq!(one.next_line().await, "ADDED here");
        assert_eq!(first.next_line().await, "ADDED there");
    }

    /// docs/apiserver.md: rows 10, 95.
    async fn a_collection_is_deleted_in_one_namespace_and_never_in_all(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let second = two_namespaces(&raw).await;
        let all = format!("/api/v1/configmaps?labelSelector=test={}", raw.namespace);
        raw.delete(&all).await.refused(405, "MethodNotAllowed");
        assert_eq!(places(&raw.get(&all).await.ok()).len(), 2, "nothing is deleted");
        let deleted = raw.delete(&format!("{}?labelSelector=test", raw.maps())).await.ok();
        assert_eq!(names(&deleted), "a");
        assert_eq!(places(&raw.get(&all).await.ok()), [second]);

        let widgets = Widget::served(&raw, &json!({ "type": "object" })).await;
        widgets.create("w", &json!({})).await;
        let answer = raw.delete(&format!("/apis/{}/v1/widgets", widgets.group)).await;
        assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"));
        raw.get(&widgets.one("w")).await.ok();
    }

    /// docs/apiserver.md: rows 88, 94.
    async fn the_propagation_policy_is_a_finalizer_until_garbage_is_collected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = format!("{}/a", raw.maps());
        for (policy, finalizer) in [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")] {
            raw.post(&raw.maps(), &named("a")).await.ok();
            let kept = raw.delete_so(&path, &json!({ "propagationPolicy": policy })).await.ok();
            assert_eq!(kept["metadata"]["finalizers"], json!([finalizer]));
            assert!(kept["metadata"]["deletionTimestamp"].is_string());
            assert_eq!(raw.delete(&path).await.ok()["metadata"]["finalizers"], json!([finalizer]));
            let gone = raw.delete_so(&path, &json!({ "propagationPolicy": "Background" })).await.ok();
            assert_eq!(gone["status"], "Success");
        }
        let mut held = named("held");
        held["metadata"]["finalizers"] = json!(["ex.io/clean"]);
        raw.post(&raw.maps(), &held).await.ok();
        let path = format!("{}/held", raw.maps());
        let answer = raw.delete_so(&path, &json!({ "orphanDependents": false })).await;
        assert_eq!(answer.code, 202, "{}", answer.text);
        raw.merge(&path, &json!({ "metadata": { "finalizers": null } })).await.ok();
    }

    /// docs/apiserver.md: row 35.
    async fn duplicate_owners_are_dropped_and_an_event_cannot_be_an_owner(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let owner = |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "name": "p", "uid": "1" });
        let mut twice = named("a");
        twice["metadata"]["ownerReferences"] = json!([owner("Pod"), owner("Pod")]);
        let created = raw.post(&raw.maps(), &twice).await;
        assert!(created.warning.contains("duplicate UID(s) observed: 1"), "{}", created.warning);
        assert_eq!(created.ok()["metadata"]["ownerReferences"], json!([owner("Pod")]));
        let path = format!("{}/a", raw.maps());
        let patched = raw.merge(&path, &json!({ "metadata": { "ownerReferences": [owner("Node"), owner("Node")] } })).await;
        assert!(patched.warning.contains("after mutating admission"), "{}", patched.warning);
        assert_eq!(patched.ok()["metadata"]["ownerReferences"], json!([owner("Node")]));
        let mut event = named("b");
        event["metadata"]["ownerReferences"] = json!([owner("Event")]);
        let message = raw.post(&raw.maps(), &event).await.refused(422, "Invalid");
        assert!(message.ends_with("/v1, Kind=Event is disallowed from being an owner"), "{message}");
    }
}
