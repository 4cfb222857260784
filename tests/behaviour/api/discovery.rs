//! Discovery documents, version and health.

use http::Method;
use serde_json::{Value, json};

use super::{
    raw::{Answer, Raw, pause},
    widget::Widget,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

on_both_servers! {
    /// docs/apiserver.md: row 117.
    async fn the_core_group_is_discovered_at_api(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let versions = raw.get("/api").await.ok();
        assert_eq!((&versions["kind"], &versions["versions"]), (&json!("APIVersions"), &json!(["v1"])));
        let list = raw.get("/api/v1").await.ok();
        assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
        let maps = resource(&list, "configmaps");
        assert_eq!((&maps["kind"], &maps["singularName"], &maps["namespaced"], &maps["shortNames"]),
            (&json!("ConfigMap"), &json!("configmap"), &json!(true), &json!(["cm"])));
        assert_eq!(maps["verbs"], json!([
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
        ]));
        assert_eq!(resource(&list, "namespaces")["namespaced"], false);
        assert_eq!(resource(&list, "pods/status")["kind"], "Pod");
        assert_eq!(resource(&list, "pods")["categories"], json!(["all"]));
    }

    /// docs/apiserver.md: row 117.
    async fn a_group_lists_its_versions(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let groups = raw.get("/apis").await.ok();
        assert_eq!(groups["kind"], "APIGroupList");
        let version = json!({ "groupVersion": "coordination.k8s.io/v1", "version": "v1" });
        let group = groups["groups"].as_array().expect("groups").iter()
            .find(|group| group["name"] == "coordination.k8s.io").expect("it is served");
        assert_eq!(group["preferredVersion"], version);
        assert!(group["versions"].as_array().expect("versions").contains(&version));
        let alone = raw.get("/apis/coordination.k8s.io").await.ok();
        assert_eq!((&alone["kind"], &alone["preferredVersion"]), (&json!("APIGroup"), &version));
        let list = raw.get("/apis/coordination.k8s.io/v1").await.ok();
        assert_eq!(resource(&list, "leases")["kind"], "Lease");
    }

    /// docs/apiserver.md: rows 116, 117.
    async fn a_custom_kind_is_discovered_like_any_other(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        let list = raw.until(&format!("/apis/{}/v1", widget.group), |answer| answer.code == 200).await;
        let found = resource(&list, "widgets");
        for (member, value) in [
            ("kind", json!("Widget")),
            ("singularName", json!("widget")),
            ("namespaced", json!(true)),
            ("shortNames", json!(["wd"])),
            ("categories", json!(["all"])),
            ("verbs", json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"])),
        ] {
            assert_eq!(found[member], value, "{member}");
        }
        assert_eq!(resource(&list, "widgets/status")["verbs"], json!(["get", "patch", "update"]));
        let here = |answer: &super::raw::Answer| {
            let groups = answer.body["groups"].as_array().into_iter().flatten();
            groups.into_iter().any(|group| group["name"] == widget.group.as_str())
        };
        raw.until("/apis", here).await;
    }

    /// docs/apiserver.md: row 118.
    async fn aggregated_discovery_has_all_resources(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let answer = raw.get_as("/api", AGGREGATED).await;
        for part in AGGREGATED.split(';') {
            assert!(answer.content_type.contains(part), "{}", answer.content_type);
        }
        let list = answer.ok();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2")));
        let resources = list["items"][0]["versions"][0]["resources"].as_array().expect("resources");
        let maps = resources.iter().find(|found| found["resource"] == "configmaps").expect("served");
        assert_eq!(maps["responseKind"]["kind"], "ConfigMap");
        assert_eq!((&maps["scope"], &maps["shortNames"]), (&json!("Namespaced"), &json!(["cm"])));
        let list = raw.get_as("/apis", AGGREGATED).await.ok();
        let groups = list["items"].as_array().expect("groups");
        let apps = groups.iter().find(|group| group["metadata"]["name"] == "apps").expect("served");
        let resources = apps["versions"][0]["resources"].as_array().expect("resources");
        let sets = resources.iter().find(|found| found["resource"] == "replicasets").expect("served");
        let parts = sets["subresources"].as_array().expect("subresources").iter();
        let parts: Vec<_> = parts.map(|part| json!([part["subresource"], part["responseKind"]])).collect();
        assert_eq!(json!(parts), json!([
            ["scale", { "group": "autoscaling", "kind": "Scale", "version": "v1" }],
            ["status", { "group": "", "kind": "ReplicaSet", "version": "" }],
        ]));
        // An older client asks for a version that is no more, and gets the plain document.
        let old = AGGREGATED.replace("v=v2;", "v=v2beta1;");
        let plain = raw.get_as("/api", &format!("{old},application/json")).await.ok();
        assert_eq!(plain["kind"], "APIVersions");
    }

    /// docs/apiserver.md: row 118.
    async fn an_unchanged_aggregated_document_is_not_sent_again(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let ask = async |path: &str, accept: &str, known: &str| {
            let mut headers = vec![("accept", accept)];
            if !known.is_empty() {
                headers.push(("if-none-match", known));
            }
            raw.ask(Method::GET, path, &headers, "").await
        };
        let all = |answer: &Answer, name: &str| {
            let values = answer.headers.get_all(name).iter();
            let values = values.map(|value| value.to_str().expect("text").to_owned());
            values.collect::<Vec<_>>()
        };
        let first = ask("/api", AGGREGATED, "").await;
        let tag = all(&first, "etag").pop().expect("a tag");
        let digits = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).expect("quotes");
        assert_eq!(digits.len(), 128, "{tag}");
        assert!(digits.bytes().all(|digit| digit.is_ascii_digit() || (b'A'..=b'F').contains(&digit)), "{tag}");
        assert_eq!(all(&first, "vary"), ["Accept"]);
        assert_eq!(ask("/api", AGGREGATED, "").await.headers["etag"], tag.as_str());
        for (known, code) in [
            (tag.clone(), 304),
            (digits.to_owned(), 200),
            (format!("W/{tag}"), 200),
            (format!("\"x\", {tag}"), 200),
            ("*".to_owned(), 200),
            ("\"x\"".to_owned(), 200),
        ] {
            let answer = ask("/api", AGGREGATED, &known).await;
            assert_eq!(answer.code, code, "{known}");
            assert_eq!(answer.text.is_empty(), code == 304, "{known}");
            assert_eq!((all(&answer, "etag"), all(&answer, "vary")), (vec![tag.clone()], vec!["Accept".to_owned()]), "{known}");
        }
        let plain = ask("/api", "application/json", &tag).await;
        assert_eq!((plain.code, all(&plain, "etag"), all(&plain, "vary")), (200, Vec::new(), Vec::new()));
        // A new kind changes the document of the groups.
        let before = ask("/apis", AGGREGATED, "").await.headers["etag"].clone();
        let widget = Widget::served(&raw, &json!({ "type": "object" })).await;
        loop {
            let answer = ask("/apis", AGGREGATED, before.to_str().expect("text")).await;
            if answer.text.contains(&widget.group) {
                assert_ne!(answer.headers["etag"], before);
                break;
            }
            pause().await;
        }
    }

    /// docs/apiserver.md: row 122.
    async fn the_new_document_describes_writes_and_types(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let index = raw.get("/openapi/v3").await.ok();
        let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
        assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="), "{url}");
        let document = raw.get(url).await.ok();
        let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
        let operation = &document["paths"][path]["patch"];
        let kind = json!({ "group": "apps", "kind": "Deployment", "version": "v1" });
        assert_eq!(operation["x-kubernetes-group-version-kind"], kind);
        let parameters = operation["parameters"].as_array().expect("parameters").iter();
        let names: Vec<_> = parameters.filter_map(|it| it["name"].as_str()).collect();
        for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        let deployment = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(deployment["x-kubernetes-group-version-kind"], json!([kind]));
        let spec = &document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"];
        assert_eq!(spec["properties"]["replicas"]["type"], "integer");
        assert_eq!(spec["required"], json!(["selector", "template"]));
    }

    /// docs/apiserver.md: rows 120, 121, 129.
    async fn the_server_returns_its_version_and_health(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let version = raw.get("/version").await.ok();
        assert_eq!(version["major"], "1");
        assert_eq!(version["minor"], crate::cluster::Cluster::minor(), "the profile is that of the real server");
        if cluster.has_the_default_version() {
            let names: Vec<_> = version.as_object().expect("an object").keys().collect();
            assert_eq!(names, [
                "buildDate", "compiler", "emulationMajor", "emulationMinor", "gitCommit", "gitTreeState",
                "gitVersion", "goVersion", "major", "minCompatibilityMajor", "minCompatibilityMinor",
                "minor", "platform",
            ]);
            assert_eq!(version["minCompatibilityMinor"], "35");
        }
        assert!(version["gitVersion"].as_str().is_some_and(|version| version.starts_with("v1.")), "{version}");
        let core = raw.get("/api/v1").await.ok();
        assert_eq!((&core["kind"], core.get("apiVersion")), (&json!("APIResourceList"), None));
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = raw.get(path).await;
            assert_eq!((answer.code, answer.text.as_str()), (200, "ok"), "{path}");
            assert!(answer.content_type.starts_with("text/plain"), "{path}");
        }
    }

    /// docs/apiserver.md: row 121.
    async fn health_checks_are_listed_and_can_be_excluded(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for endpoint in ["healthz", "livez", "readyz"] {
            let answer = raw.get(&format!("/{endpoint}?verbose")).await;
            assert_eq!(answer.code, 200, "{endpoint}");
            assert!(answer.text.starts_with("[+]ping ok\n[+]log ok\n"), "{}", answer.text);
            assert!(answer.text.contains("\n[+]etcd ok\n"), "{}", answer.text);
            assert!(answer.text.ends_with(&format!("\n{endpoint} check passed\n")), "{}", answer.text);
            let is_ready = endpoint == "readyz";
            assert_eq!(answer.text.contains("\n[+]shutdown ok\n"), is_ready, "{}", answer.text);

            let excluded = format!("/{endpoint}?verbose=&exclude=ping&exclude=b%22&exclude=a");
            let answer = raw.get(&excluded).await;
            assert!(answer.text.starts_with("[+]ping excluded: ok\n[+]log ok\n"), "{}", answer.text);
            let end = format!(
                "\nwarn: some health checks cannot be excluded: no matches for \"a\",\"b\\\"\"\n\
                 {endpoint} check passed\n"
            );
            assert!(answer.text.ends_with(&end), "{}", answer.text);

            for check in ["ping", "etcd"] {
                let answer = raw.get(&format!("/{endpoint}/{check}?verbose")).await;
                assert_eq!((answer.code, answer.text.as_str()), (200, "ok"), "{endpoint}/{check}");
            }
            assert_eq!(raw.get(&format!("/{endpoint}/none")).await.code, 404, "{endpoint}");
        }
    }
}

/// One entry of an `APIResourceList`.
#[track_caller]
fn resource<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut resources = list["resources"].as_array().expect("resources").iter();
    resources
        .find(|resource| resource["name"] == name)
        .expect("it is served")
}
