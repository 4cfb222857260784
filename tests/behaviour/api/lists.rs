//! Lists: pages, versions, selectors and media types.

use http::Method;
use serde_json::{Value, json};

use super::raw::{Raw, named, names, version};
use super::widget::Widget;

const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// No server comes so far.
const FUTURE: &str = "1000000000000";

on_both_servers! {
    /// docs/apiserver.md: row 46.
    async fn every_page_shows_the_state_of_the_first(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        for name in ["e", "d", "c", "b", "a"] {
            raw.post(&maps, &named(name)).await.ok();
        }
        let first = raw.get(&format!("{maps}?limit=2")).await.ok();
        assert_eq!(names(&first), "a b");
        assert_eq!(first["metadata"]["remainingItemCount"], 3);

        raw.post(&maps, &named("bb")).await.ok();
        raw.delete(&format!("{maps}/d")).await.ok();
        let token = first["metadata"]["continue"].as_str().expect("there is more");
        let second = raw.get(&format!("{maps}?limit=2&continue={token}")).await.ok();
        assert_eq!(names(&second), "c d", "neither bb, nor without d");
        assert_eq!(version(&second), version(&first));
        let token = second["metadata"]["continue"].as_str().expect("there is more");
        let third = raw.get(&format!("{maps}?limit=2&continue={token}")).await.ok();
        assert_eq!(names(&third), "e");
        assert_eq!(version(&third), version(&first));
        assert!(third["metadata"]["continue"].as_str().is_none_or(str::is_empty));
        assert_eq!(third["metadata"].get("remainingItemCount"), None);
    }

    /// docs/apiserver.md: row 46.
    async fn remaining_items_are_not_counted_with_a_selector(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for name in ["a", "b"] {
            let body = json!({ "metadata": { "name": name, "labels": { "a": "b" } } });
            raw.post(&raw.maps(), &body).await.ok();
        }
        let page = raw.get(&format!("{}?limit=1&labelSelector=a%3Db", raw.maps())).await.ok();
        assert_eq!(names(&page), "a");
        assert!(page["metadata"]["continue"].is_string());
        assert_eq!(page["metadata"].get("remainingItemCount"), None);
    }

    /// docs/apiserver.md: row 47.
    async fn a_malformed_continue_token_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        for name in ["a", "b"] {
            raw.post(&maps, &named(name)).await.ok();
        }
        raw.get(&format!("{maps}?continue=nonsense")).await.refused(400, "BadRequest");
        for (token, at) in [("ab!c", 2), ("abcde", 4)] {
            let why = raw.get(&format!("{maps}?continue={token}")).await.refused(400, "BadRequest");
            assert!(why.ends_with(&format!("illegal base64 data at input byte {at}")), "{why}");
        }
        let page = raw.get(&format!("{maps}?limit=1")).await.ok();
        let token = page["metadata"]["continue"].as_str().expect("there is more");
        let both = format!("{maps}?continue={token}&resourceVersion={}", version(&page));
        let message = raw.get(&both).await.refused(400, "BadRequest");
        assert_eq!(message, "specifying resource version is not allowed when using continue");
    }

    /// docs/apiserver.md: rows 16, 48.
    async fn an_expired_token_comes_with_a_fresh_one(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        for name in ["a", "b", "c"] {
            raw.post(&maps, &named(name)).await.ok();
        }
        let page = raw.get(&format!("{maps}?limit=1")).await.ok();
        let token = page["metadata"]["continue"].as_str().expect("there is more");
        raw.post(&maps, &named("aa")).await.ok();
        cluster.forget_history().await;
        let _history = cluster.remember_history().await;
        let gone = raw.get(&format!("{maps}?limit=1&continue={token}")).await;
        let fresh = gone.body["metadata"]["continue"].as_str().expect("a token to continue").to_owned();
        gone.refused(410, "Expired");
        let next = raw.get(&format!("{maps}?limit=1&continue={fresh}")).await.ok();
        assert_eq!(names(&next), "aa", "from the newest state, behind a");
    }

    /// docs/apiserver.md: rows 38, 39, 40, 41, 42.
    async fn a_list_can_request_a_version(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        raw.post(&maps, &named("a")).await.ok();
        let then = version(&raw.post(&maps, &named("b")).await.ok());
        let now = version(&raw.post(&maps, &named("c")).await.ok());
        for query in [
            String::new(),
            "resourceVersion=0".to_owned(),
            format!("resourceVersion={then}"),
            format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan"),
            format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan&limit=5"),
        ] {
            let list = raw.get(&format!("{maps}?{query}")).await.ok();
            assert_eq!(names(&list), "a b c", "{query}");
            assert!(version(&list) >= now, "{query}");
        }
        for query in [
            format!("resourceVersion={then}&limit=5"),
            format!("resourceVersion={then}&resourceVersionMatch=Exact"),
        ] {
            let list = raw.get(&format!("{maps}?{query}")).await.ok();
            assert_eq!((names(&list).as_str(), version(&list)), ("a b", then), "{query}");
        }
    }

    /// docs/apiserver.md: row 37.
    async fn a_get_can_request_a_version(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        for query in ["", "resourceVersion=0", &format!("resourceVersion={}", version(&created))] {
            let read = raw.get(&format!("{}/a?{query}", raw.maps())).await.ok();
            assert_eq!(read, created, "{query}");
        }
    }

    /// docs/apiserver.md: rows 16, 42.
    async fn a_compacted_version_has_expired(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        let then = version(&raw.post(&maps, &named("a")).await.ok());
        raw.post(&maps, &named("b")).await.ok();
        cluster.forget_history().await;
        let exact = format!("{maps}?resourceVersion={then}&resourceVersionMatch=Exact");
        raw.get(&exact).await.refused(410, "Expired");
        let later = raw.get(&format!("{maps}?resourceVersion={then}")).await.ok();
        assert_eq!(names(&later), "a b", "not older than that is still to be had");
    }

    /// docs/apiserver.md: rows 42, 43, 45.
    async fn invalid_combinations_of_version_and_match_are_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        for query in [
            "resourceVersionMatch=Exact",
            "resourceVersionMatch=NotOlderThan",
            "resourceVersion=1&resourceVersionMatch=Nearly",
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersionMatch=Exact&continue=abc",
        ] {
            let message = raw.get(&format!("{maps}?{query}")).await.refused(422, "Invalid");
            assert!(message.contains("resourceVersionMatch"), "{query}: {message}");
        }
        let message = raw.get(&format!("{maps}?resourceVersion=x")).await.refused(400, "BadRequest");
        assert!(message.to_lowercase().contains("invalid resource version"), "{message}");
    }

    /// docs/apiserver.md: rows 15, 44.
    async fn a_future_version_times_out(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let answer = raw.get(&format!("{}?resourceVersion={FUTURE}", raw.maps())).await;
        let cause = &answer.body["details"]["causes"][0];
        assert_eq!(cause["reason"], "ResourceVersionTooLarge");
        let message = answer.refused(504, "Timeout");
        let expected = format!("Timeout: Too large resource version: {FUTURE}, current: ");
        assert!(message.starts_with(&expected), "{message}");
    }

    /// docs/apiserver.md: row 51.
    async fn an_empty_list_has_an_empty_items_field(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let empty = raw.get(&raw.maps()).await.ok();
        assert_eq!((&empty["apiVersion"], &empty["kind"]), (&json!("v1"), &json!("ConfigMapList")));
        assert_eq!(empty["items"], json!([]));
        version(&empty);
        raw.post(&raw.maps(), &named("a")).await.ok();
        let list = raw.get(&raw.maps()).await.ok();
        assert_eq!(list["items"][0].get("kind"), None, "the list has said it");
        assert_eq!(list["items"][0].get("apiVersion"), None);
    }

    /// docs/apiserver.md: row 49.
    async fn lists_are_filtered_by_labels(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (name, labels) in [("a", json!({ "tier": "x" })), ("b", json!({ "tier": "y" })), ("c", json!({}))] {
            let body = json!({ "metadata": { "name": name, "labels": labels } });
            raw.post(&raw.maps(), &body).await.ok();
        }
        for (query, found) in [
            ("labelSelector=tier", "a b"),
            ("labelSelector=%21tier", "c"),
            ("labelSelector=tier%3Dx", "a"),
            ("labelSelector=tier%3D%3Dx", "a"),
            ("labelSelector=tier%21%3Dx", "b c"),
            ("labelSelector=tier+in+(x,z)", "a"),
            ("labelSelector=tier+notin+(x,z)", "b c"),
            ("labelSelector=tier,tier%21%3Dy", "a"),
            ("fieldSelector=metadata.name%3Db", "b"),
            ("fieldSelector=metadata.name!%3Db", "a c"),
            ("fieldSelector=metadata.namespace%3Dother", ""),
            ("labelSelector=tier&fieldSelector=metadata.name!%3Db", "a"),
        ] {
            let list = raw.get(&format!("{}?{query}", raw.maps())).await.ok();
            assert_eq!(names(&list), found, "{query}");
        }
    }

    /// docs/apiserver.md: rows 9, 49, 50.
    async fn a_malformed_selector_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let pods = raw.at("/api/v1", "pods");
        raw.get(&format!("{pods}?labelSelector=a+b")).await.refused(400, "BadRequest");
        raw.get(&format!("{pods}?fieldSelector=a")).await.refused(400, "BadRequest");
        let message = raw.get(&format!("{pods}?fieldSelector=data.x%3D1")).await.refused(400, "BadRequest");
        assert_eq!(message, "field label not supported: data.x");
    }

    /// docs/apiserver.md: row 50.
    async fn kinds_have_specific_selectable_fields(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let secrets = raw.at("/api/v1", "secrets");
        for (name, kind) in [("a", "test.windlass.dev/x"), ("b", "Opaque")] {
            let body = json!({ "metadata": { "name": name }, "type": kind });
            raw.post(&secrets, &body).await.ok();
        }
        let list = raw.get(&format!("{secrets}?fieldSelector=type%3DOpaque")).await.ok();
        assert_eq!(names(&list), "b");
        let path = format!("/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D{}", cluster.namespace());
        assert_eq!(names(&raw.get(&path).await.ok()), cluster.namespace());
    }

    /// docs/apiserver.md: row 50.
    async fn the_addresses_of_a_pod_are_an_empty_field(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let pods = raw.at("/api/v1", "pods");
        let mut pod = named("a");
        pod["spec"] = json!({ "containers": [{ "name": "c", "image": "i" }] });
        raw.post(&pods, &pod).await.ok();
        let status = json!({ "status": { "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }] } });
        raw.merge(&format!("{pods}/a/status"), &status).await.ok();
        for (selector, found) in [
            ("status.podIP%3D10.0.0.1", "a"),
            ("status.podIPs%3D10.0.0.1", ""),
            ("status.podIPs!%3D10.0.0.1", "a"),
            ("status.podIPs%3D", "a"),
        ] {
            let list = raw.get(&format!("{pods}?fieldSelector={selector}")).await.ok();
            assert_eq!(names(&list), found, "{selector}");
        }
    }

    /// docs/apiserver.md: row 52.
    async fn a_list_of_metadata_can_be_requested(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let body = json!({ "metadata": { "name": "a", "labels": { "a": "b" } }, "data": { "k": "v" } });
        let created = raw.post(&raw.maps(), &body).await.ok();
        let one = raw.get_as(&format!("{}/a", raw.maps()), METADATA).await.ok();
        assert_eq!(one, json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": created["metadata"],
        }));
        let list = raw.get_as(&raw.maps(), METADATA_LIST).await.ok();
        assert_eq!(list["kind"], "PartialObjectMetadataList");
        assert_eq!(list["items"][0]["metadata"], created["metadata"]);
        assert_eq!(list["items"][0].get("data"), None);
    }

    /// docs/apiserver.md: row 53.
    async fn a_list_can_be_requested_as_a_table(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let body = json!({ "metadata": { "name": "a" }, "data": { "k": "v", "l": "w" } });
        let created = raw.post(&raw.maps(), &body).await.ok();
        let table = raw.get_as(&raw.maps(), TABLE).await.ok();
        assert_eq!((&table["apiVersion"], &table["kind"]), (&json!("meta.k8s.io/v1"), &json!("Table")));
        let columns: Vec<_> = table["columnDefinitions"].as_array().expect("columns").iter()
            .map(|column| (&column["name"], &column["type"], &column["format"])).collect();
        assert_eq!(json!(columns), json!([
            ["Name", "string", "name"], ["Data", "string", ""], ["Age", "string", ""],
        ]));
        let row = &table["rows"][0];
        assert_eq!((&row["cells"][0], row["cells"][1].to_string()), (&json!("a"), "2".to_owned()));
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(row["object"]["metadata"]["uid"], created["metadata"]["uid"]);
        let whole = raw.get_as(&format!("{}?includeObject=Object", raw.maps()), TABLE).await.ok();
        assert_eq!(whole["rows"][0]["object"]["data"]["k"], "v");
        let bare = raw.get_as(&format!("{}?includeObject=None", raw.maps()), TABLE).await.ok();
        assert!(bare["rows"][0]["object"].is_null());
    }

    /// docs/apiserver.md: rows 11, 52, 53.
    async fn tables_and_metadata_can_be_requested_in_their_older_version(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        widget.create("a", &json!({})).await;
        let map = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
        let created = raw.post(&raw.maps(), &map).await.ok();
        let beta = |accept: &str| accept.replace("v=v1;", "v=v1beta1;");
        for all in [raw.maps(), widget.all()] {
            let whole = format!("{all}?includeObject=Object");
            let none = format!("{all}?includeObject=None");
            let one = format!("{all}/a");
            for (path, accept, kind) in [
                (&all, TABLE, "Table"),
                (&whole, TABLE, "Table"),
                (&none, TABLE, "Table"),
                (&one, TABLE, "Table"),
                (&all, METADATA_LIST, "PartialObjectMetadataList"),
                (&one, METADATA, "PartialObjectMetadata"),
            ] {
                let new = raw.get_as(path, accept).await;
                let old = raw.get_as(path, &beta(accept)).await;
                assert_eq!((old.code, &old.content_type), (200, &new.content_type), "{path}");
                assert_eq!(old.body["apiVersion"], "meta.k8s.io/v1beta1", "{path}");
                assert_eq!(old.body["kind"], kind, "{path}");
                // Other tests write to the same server.
                let (mut expected, mut old) = (new.text.replace("meta.k8s.io/v1", "meta.k8s.io/v1beta1"), old.text);
                if path != &one {
                    (expected, old) = (without_list_version(&expected), without_list_version(&old));
                }
                assert_eq!(old, expected, "{path}");
            }
            let refused = raw.get_as(&all, &TABLE.replace("v=v1;", "v=v2;")).await;
            assert_eq!(refused.code, 406, "{}", refused.text);
            let first = raw.get_as(&all, &format!("{},{TABLE}", beta(TABLE))).await.ok();
            assert_eq!(first["apiVersion"], "meta.k8s.io/v1beta1");

            let watch = format!("{all}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
            for (accept, kind) in [(TABLE, "Table"), (METADATA, "PartialObjectMetadata")] {
                let mut events = raw.watch_as(&watch, &beta(accept)).await;
                for kind_of_event in ["ADDED", "BOOKMARK"] {
                    let event = events.event().await;
                    assert_eq!(event["type"], kind_of_event, "{event}");
                    let object = &event["object"];
                    let is = (&object["apiVersion"], &object["kind"]);
                    assert_eq!(is, (&json!("meta.k8s.io/v1beta1"), &json!(kind)), "{event}");
                    if kind == "Table" {
                        assert_eq!(object["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1", "{event}");
                    }
                }
            }
        }
        // A write has a response too.
        let headers = [("accept", &*beta(METADATA)), ("content-type", "application/merge-patch+json")];
        let answer = raw.ask(Method::PATCH, &format!("{}/a", raw.maps()), &headers, "{}").await.ok();
        assert_eq!(answer, json!({
            "apiVersion": "meta.k8s.io/v1beta1", "kind": "PartialObjectMetadata",
            "metadata": created["metadata"],
        }));
    }
}

/// A list without its version.
fn without_list_version(list: &str) -> String {
    let mut list: Value = serde_json::from_str(list).expect("JSON");
    list["metadata"]["resourceVersion"] = Value::Null;
    list.to_string()
}
