//! What the test suites of other projects, and the controllers of Kubernetes, require of the server.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::garbage::Collected;
use super::raw::{Answer, Raw, named, pause};
use super::roles::{self, RBAC};
use super::widget::Widget;
use crate::cluster::Cluster;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// The embedded server on a port, or the real one: tokens and hosts are those of HTTP.
async fn with_token(cluster: &Cluster, server: Option<&ApiServer>, token: &str) -> Answer {
    let client = match server {
        Some(server) => kube::Client::new(server.service(), "default"),
        None => cluster.with_token(token).await.expect("the real server"),
    };
    let raw = Raw::of(client, cluster.namespace());
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    // The client of the real server sends its token itself.
    let headers = if server.is_some() { &headers[..] } else { &[] };
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let json = [("content-type", "application/json")];
    let headers = [headers, &json].concat();
    raw.ask(Method::POST, reviews, &headers, "{}").await
}

async fn as_jane(raw: &Raw, method: Method, path: &str) -> Answer {
    let headers = [
        ("impersonate-user", "jane"),
        ("impersonate-group", "testers"),
    ];
    raw.ask(method, path, &headers, "").await
}

on_both_servers! {
    /// The real deployment controller writes its revision so.
    async fn a_write_to_the_status_of_a_deployment_keeps_its_annotations(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let deployments = raw.at("/apis/apps/v1", "deployments");
        let labels = json!({ "app": "a" });
        let mut deployment = json!({
            "metadata": { "name": "a", "labels": labels, "annotations": { "old": "1" } },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "a", "image": "a" }] },
                },
            },
        });
        deployment = raw.post(&deployments, &deployment).await.ok();
        deployment["metadata"]["annotations"] = json!({ "revision": "1" });
        deployment["metadata"]["labels"] = json!({ "app": "other", "more": "x" });
        deployment["spec"]["replicas"] = 7.into();
        deployment["status"] = json!({ "observedGeneration": 1 });
        let path = format!("{deployments}/a/status");
        let written = raw.put(&path, &deployment).await.ok();
        assert_eq!(written["metadata"]["annotations"], json!({ "revision": "1" }));
        assert_eq!(written["metadata"]["labels"], labels);
        assert_eq!(written["spec"]["replicas"], 1);
        assert_eq!(written["status"]["observedGeneration"], 1);
        let change = json!({ "metadata": { "annotations": { "patched": "1" }, "labels": { "x": "y" } } });
        let patched = raw.merge(&path, &change).await.ok();
        assert_eq!(patched["metadata"]["annotations"], json!({ "patched": "1", "revision": "1" }));
        assert_eq!(patched["metadata"]["labels"], labels);
        let applied = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "a", "annotations": { "applied": "1" }, "labels": { "x": "y" } },
            "status": { "observedGeneration": 1 },
        });
        let applied = raw.apply(&format!("{path}?force=true"), "me", &applied).await.ok();
        assert_eq!(applied["metadata"]["annotations"]["applied"], "1");
        assert_eq!(applied["metadata"]["labels"], labels);
        let entries = applied["metadata"]["managedFields"].as_array().expect("entries");
        let mine = entries.iter().find(|it| it["manager"] == "me").expect("an entry");
        assert_eq!(mine["fieldsV1"]["f:metadata"], json!({ "f:annotations": { "f:applied": {} } }));
    }

    /// docs/apiserver.md: row 99.
    async fn the_pods_of_a_namespace_are_deleted_before_its_other_objects(cluster: Cluster) {
        cluster.require_the_default_version();
        let collected = Collected::new(&cluster, "-ordered").await;
        let raw = &collected.raw;
        let map = format!("{}/m", raw.maps());
        raw.post(&raw.maps(), &named("m")).await.ok();
        let pods = raw.at("/api/v1", "pods");
        let pod = json!({
            "metadata": { "name": "a", "finalizers": ["example.io/wait"] },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "a", "image": "a" }],
            },
        });
        raw.post(&pods, &pod).await.ok();
        let namespace = format!("/api/v1/namespaces/{}", raw.namespace);
        raw.delete(&namespace).await.ok();
        let is_dying = |answer: &Answer| answer.body["metadata"]["deletionTimestamp"].is_string();
        raw.until(&format!("{pods}/a"), is_dying).await;
        let has_conditions = |answer: &Answer| answer.body["status"]["conditions"].is_array();
        let dying = raw.until(&namespace, has_conditions).await;
        let conditions = dying["status"]["conditions"].as_array().expect("conditions");
        let remaining = conditions.iter().find(|it| it["type"] == "NamespaceContentRemaining");
        let remaining = remaining.expect("a condition");
        assert_eq!(remaining["status"], "False", "{remaining}");
        assert_eq!(remaining["message"], "All content successfully removed");
        let waiting = raw.get(&map).await.ok();
        assert!(waiting["metadata"]["deletionTimestamp"].is_null(), "{waiting}");
        raw.merge(&format!("{pods}/a"), &json!({ "metadata": { "finalizers": null } })).await.ok();
        raw.until(&namespace, |answer| answer.code == 404).await;
        raw.get(&map).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: rows 17, 104.
    async fn a_token_authenticates_for_its_audiences_only(cluster: Cluster) {
        let server = cluster.is_embedded().then(ApiServer::new);
        let raw = match &server {
            Some(server) => {
                let client = kube::Client::new(server.service(), "default");
                let namespace = json!({ "metadata": { "name": cluster.namespace() } });
                let raw = Raw::of(client, cluster.namespace());
                raw.post("/api/v1/namespaces", &namespace).await.ok();
                raw
            }
            None => Raw::new(&cluster).await,
        };
        let accounts = raw.at("/api/v1", "serviceaccounts");
        raw.post(&accounts, &named("robot")).await.ok();
        let issue = async |audiences: Value| {
            let request = json!({ "spec": { "audiences": audiences } });
            let issued = raw.post(&format!("{accounts}/robot/token"), &request).await.ok();
            let audience = issued["spec"]["audiences"][0].as_str().expect("an audience").to_owned();
            (issued["status"]["token"].as_str().expect("a token").to_owned(), audience)
        };
        let review = async |token: &str, audiences: Value| {
            let review = json!({ "spec": { "token": token, "audiences": audiences } });
            raw.post(REVIEWS, &review).await.ok()["status"].clone()
        };
        let (own, server_itself) = issue(json!([])).await;
        let (foreign, _) = issue(json!(["ex.io", "other.io"])).await;

        let status = review(&own, json!([])).await;
        assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!([server_itself])));
        let ids = &status["user"]["extra"]["authentication.kubernetes.io/credential-id"];
        let id = ids[0].as_str().expect("a credential id");
        assert!(id.starts_with("JTI="), "{status}");
        let status = review(&foreign, json!(["third.io", "ex.io"])).await;
        assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["ex.io"])));
        for (token, audiences) in [(&foreign, json!([])), (&own, json!(["ex.io"]))] {
            let status = review(token, audiences).await;
            assert_eq!((&status["authenticated"], &status["audiences"]), (&Value::Null, &Value::Null));
            let error = status["error"].as_str().unwrap_or_default();
            assert!(error.contains("is invalid for the target audiences"), "{status}");
        }

        let own = with_token(&cluster, server.as_ref(), &own).await.ok();
        let name = format!("system:serviceaccount:{}:robot", cluster.namespace());
        assert_eq!(own["status"]["userInfo"]["username"], name);
        with_token(&cluster, server.as_ref(), &foreign).await.refused(401, "Unauthorized");
    }

    /// docs/apiserver.md: row 125.
    async fn roles_decide_about_paths_that_are_no_resources(cluster: Cluster) {
        let raw = roles::server(&cluster).await;
        let refused = as_jane(&raw, Method::GET, "/metrics").await;
        assert_eq!(refused.body["details"], json!({}));
        assert_eq!(refused.refused(403, "Forbidden"), "forbidden: User \"jane\" cannot get path \"/metrics\"");
        // Each authenticated user can read the documents about the server.
        assert_eq!(as_jane(&raw, Method::GET, "/version").await.code, 200);
        assert_eq!(as_jane(&raw, Method::GET, "/apis").await.code, 200);

        let name = format!("{}-paths", raw.namespace);
        let rules = json!([{ "nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"] }]);
        let role = json!({ "metadata": { "name": name }, "rules": rules });
        raw.post(&format!("{RBAC}/clusterroles"), &role).await.ok();
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [{ "kind": "User", "name": "jane" }],
        });
        raw.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.ok();
        // The real server learns of roles by watching itself.
        while as_jane(&raw, Method::GET, "/metrics").await.code == 403 {
            pause().await;
        }
        for (method, path, code) in [
            (Method::GET, "/debug/none", 404),
            (Method::GET, "/debug", 403),
            (Method::POST, "/metrics", 403),
            (Method::GET, "/metrics/slis", 403),
        ] {
            assert_eq!(as_jane(&raw, method.clone(), path).await.code, code, "{method} {path}");
        }
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        for (path, verb, allowed) in [
            ("/debug/x", "get", true),
            ("/debug/x", "post", false),
            ("/other", "get", false),
        ] {
            let review = json!({ "spec": {
                "user": "jane", "groups": ["testers"],
                "nonResourceAttributes": { "path": path, "verb": verb },
            } });
            let review = raw.post(reviews, &review).await.ok();
            assert_eq!(review["status"]["allowed"], allowed, "{verb} {path}");
            let review = json!({ "spec": { "nonResourceAttributes": { "path": path, "verb": verb } } });
            let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            let headers = [
                ("impersonate-user", "jane"),
                ("impersonate-group", "testers"),
                ("content-type", "application/json"),
            ];
            let review = raw.ask(Method::POST, own, &headers, &review.to_string()).await.ok();
            assert_eq!(review["status"]["allowed"], allowed, "her own review: {verb} {path}");
        }
        for (plural, name) in [("clusterrolebindings", &name), ("clusterroles", &name)] {
            raw.delete(&format!("{RBAC}/{plural}/{name}")).await.ok();
        }
    }

    /// docs/apiserver.md: row 123.
    async fn the_old_document_has_an_object_for_a_kind_with_unknown_fields(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widgets = Widget::new(&raw);
        let mut definition = widgets.definition(&json!({ "type": "object" }));
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        let schema = definition.pointer_mut(schema).expect("a schema");
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
        widgets.define(&definition).await;
        let group = widgets.group.clone();
        let of_widget = move |document: &Value| {
            let mut definitions = document["definitions"].as_object()?.values();
            let is_it = |it: &&Value| {
                let kind = &it["x-kubernetes-group-version-kind"][0];
                kind["group"] == *group && kind["kind"] == "Widget"
            };
            definitions.find(is_it).cloned()
        };
        let document = raw.until("/openapi/v2", |answer| of_widget(&answer.body).is_some()).await;
        let schema = of_widget(&document).expect("it is there");
        assert_eq!(schema, json!({
            "type": "object",
            "x-kubernetes-group-version-kind": [
                { "group": widgets.group, "kind": "Widget", "version": "v1" },
            ],
        }));
    }

    /// docs/apiserver.md: the admission plugin `RuntimeClass`.
    async fn a_pod_gets_the_overhead_and_the_nodes_of_its_runtime_class(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        let name = raw.namespace.clone();
        let class = json!({
            "metadata": { "name": name }, "handler": "x",
            "overhead": { "podFixed": { "cpu": "250m", "memory": "64Mi" } },
            "scheduling": {
                "nodeSelector": { "kind": "sandbox" },
                "tolerations": [{ "key": "sandbox", "operator": "Exists", "effect": "NoSchedule" }],
            },
        });
        raw.post(classes, &class).await.ok();
        let pods = raw.at("/api/v1", "pods");
        let pod = |name: &str, class: Value, more: Value| {
            let mut spec = json!({ "containers": [{ "name": "a", "image": "a" }] });
            spec["runtimeClassName"] = class;
            for (field, value) in more.as_object().into_iter().flatten() {
                spec[field] = value.clone();
            }
            json!({ "metadata": { "name": name }, "spec": spec })
        };
        let created = raw.post(&pods, &pod("a", json!(name), json!({
            "nodeSelector": { "zone": "a" },
            "tolerations": [{ "key": "sandbox", "operator": "Exists" }],
        }))).await.ok();
        let spec = &created["spec"];
        assert_eq!(spec["overhead"], json!({ "cpu": "250m", "memory": "64Mi" }));
        assert_eq!(spec["nodeSelector"], json!({ "kind": "sandbox", "zone": "a" }));
        let tolerations = spec["tolerations"].as_array().expect("tolerations");
        let of_sandbox: Vec<_> = tolerations.iter().filter(|it| it["key"] == "sandbox").collect();
        assert_eq!(of_sandbox, [&json!({ "key": "sandbox", "operator": "Exists" })], "the wider one");
        let same = json!({ "overhead": { "cpu": "0.25", "memory": "64Mi" } });
        raw.post(&pods, &pod("same", json!(name), same)).await.ok();

        let other = json!({ "overhead": { "cpu": "1" } });
        for (class, more, why) in [
            (json!(name), json!({ "nodeSelector": { "kind": "metal" } }), "conflict: \
                runtimeClass.scheduling.nodeSelector[kind] = sandbox; pod.spec.nodeSelector[kind] = metal"),
            (json!(name), other.clone(), "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
            (Value::Null, other, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        ] {
            let message = raw.post(&pods, &pod("b", class, more)).await.refused(403, "Forbidden");
            assert_eq!(message, format!("pods \"b\" is forbidden: {why}"));
        }
        raw.delete(&format!("{classes}/{name}")).await.ok();
    }

    async fn the_metrics_of_the_server_are_text(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let metrics = raw.get("/metrics").await;
        assert_eq!(metrics.code, 200);
        assert!(metrics.content_type.starts_with("text/plain; version=0.0.4"), "{}", metrics.content_type);
        assert!(metrics.text.starts_with("# HELP "), "{}", metrics.text);
        assert!(metrics.text.contains("\n# TYPE apiserver_resource_objects gauge\n"));
        assert!(metrics.text.contains("apiserver_resource_objects{group=\"\",resource=\"namespaces\"} "));
    }

    /// docs/apiserver.md: rows 3, 51.
    async fn members_of_json_have_the_order_of_go_and_a_newline_ends_it(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let widgets = Widget::with_schema(&raw, &open).await;
        widgets.create("w", &json!({})).await;
        let mut object = widgets.object("sorted", &json!({}));
        object["zeta"] = json!({ "d": 1, "c": { "b": 2, "a": 3 } });
        object["data"] = 1.into();
        object["alpha"] = 2.into();
        raw.post(&widgets.all(), &object).await.ok();
        let group = &widgets.group;
        for (path, begin) in [
            (format!("{}/a", raw.maps()), r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#.to_owned()),
            (raw.maps(), r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"#.to_owned()),
            (widgets.one("w"), format!(r#"{{"apiVersion":"{group}/v1","kind":"Widget","metadata":{{"#)),
            (widgets.all(), format!(r#"{{"apiVersion":"{group}/v1","items":[{{"alpha":"#)),
            ("/api/v1".to_owned(), r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"#.to_owned()),
            ("/apis/apps".to_owned(), concat!(
                r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","#,
                r#""version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}"#,
            ).to_owned()),
            ("/apis".to_owned(), r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"#.to_owned()),
        ] {
            let text = raw.get(&path).await.text;
            assert!(text.starts_with(&begin), "{path}: {text:.200}");
            assert!(text.ends_with("}\n"), "{path}");
            assert!(!text[..text.len() - 1].contains('\n'), "{path}");
        }
        let resources = raw.get("/api/v1").await.text;
        let maps = r#",{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["#;
        assert!(resources.replace(":[{", ":[,{").contains(maps), "{resources}");
        let end = raw.get(&widgets.all()).await.text;
        assert!(end.contains(r#"],"kind":"WidgetList","metadata":{"#), "{end}");
        let sorted = raw.get(&widgets.one("sorted")).await.text;
        let begin = format!(r#"{{"alpha":2,"apiVersion":"{group}/v1","data":1,"kind":"Widget","metadata":{{"creationTimestamp":"#);
        assert!(sorted.starts_with(&begin), "{sorted}");
        assert!(sorted.ends_with("},\"zeta\":{\"c\":{\"a\":3,\"b\":2},\"d\":1}}\n"), "{sorted}");
        assert!(end.contains(&begin[..begin.len() - 1]), "{end}");
        let watch = format!("{}?watch=true&timeoutSeconds=5", widgets.all());
        let events = raw.get(&watch).await.text;
        assert!(events.contains(&format!(r#""object":{begin}"#)), "{events}");
        let missing = raw.get(&format!("{}/none", raw.maps())).await.text;
        assert_eq!(missing, concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"configmaps \"none\" not found","reason":"NotFound","#,
            r#""details":{"name":"none","kind":"configmaps"},"code":404}"#, "\n",
        ));
        let wrong = raw.post(&raw.maps(), &named("A")).await.text;
        assert!(wrong.contains(r#""details":{"name":"A","kind":"ConfigMap","causes":[{"reason":"#), "{wrong}");
    }

    /// docs/apiserver.md: row 19.
    async fn json_is_indented_for_people(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        let get = async |query: &str, agent: &str| {
            let path = format!("{path}{query}");
            raw.ask(Method::GET, &path, &[("user-agent", agent)], "").await.text
        };
        for (query, agent, is_pretty) in [
            ("", "other/1", false),
            ("?pretty=true", "other/1", true),
            ("?pretty=1", "other/1", true),
            ("?pretty=yes", "other/1", false),
            ("", "curl/8.0", true),
            ("", "Mozilla/5.0 (X11)", true),
            ("?pretty=false", "curl/8.0", false),
        ] {
            let text = get(query, agent).await;
            let begin = "{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"";
            assert_eq!(text.starts_with(begin), is_pretty, "{query} {agent}: {text}");
            assert_eq!(text.ends_with("\n}"), is_pretty, "{query} {agent}: {text}");
        }
        let missing = raw.get(&format!("{}/none?pretty=true", raw.maps())).await.text;
        assert!(missing.starts_with("{\n  \"kind\": \"Status\",\n"), "{missing}");
        let version = raw.get("/version").await.text;
        assert!(version.starts_with("{\n  \""), "{version}");
    }
}
