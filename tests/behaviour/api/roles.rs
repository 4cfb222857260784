//! Roles: allowed requests succeed, and all others are rejected.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::raw::{Answer, Raw, pause};
use crate::cluster::Cluster;

pub(super) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The server of the test, whose roles decide.
pub(super) async fn server(cluster: &Cluster) -> Raw {
    if !cluster.is_embedded() {
        return Raw::new(cluster).await;
    }
    let server = ApiServer::builder().rbac(true).start();
    let client = kube::Client::new(server.service(), "default");
    let raw = Raw::of(client, cluster.namespace());
    let namespace = json!({ "metadata": { "name": cluster.namespace() } });
    raw.post("/api/v1/namespaces", &namespace).await.ok();
    raw
}

/// What a user of a group is answered.
async fn ask(raw: &Raw, user: &str, method: Method, path: &str, body: &Value) -> Answer {
    let headers = [
        ("impersonate-user", user),
        ("impersonate-group", "testers"),
        ("content-type", "application/json"),
    ];
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    raw.ask(method, path, &headers, &body).await
}

/// Reads as a user until it is allowed: the real server learns of roles by watching itself.
async fn until_allowed(raw: &Raw, user: &str, path: &str) -> u16 {
    loop {
        let answer = ask(raw, user, Method::GET, path, &Value::Null).await;
        if answer.code != 403 {
            return answer.code;
        }
        pause().await;
    }
}

/// Creates a role with these rules, bound to this subject.
async fn bind(raw: &Raw, name: &str, rules: &Value, subject: &Value) {
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    raw.post(&raw.at(RBAC, "roles"), &role).await.ok();
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [subject],
    });
    raw.post(&raw.at(RBAC, "rolebindings"), &binding).await.ok();
}

on_both_servers! {
    /// docs/apiserver.md: rows 17, 125.
    async fn a_role_allows_only_its_rules(cluster: Cluster) {
        let raw = server(&cluster).await;
        let maps = raw.maps();
        let refused = ask(&raw, "jane", Method::GET, &maps, &Value::Null).await;
        assert_eq!(refused.refused(403, "Forbidden"), format!(
            "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \
             \"\" in the namespace {:?}", raw.namespace,
        ));
        // A user does not learn whether an object or a resource exists.
        for (path, about, scope) in [
            (format!("{maps}/none"), "configmaps \"none\"", format!("in the namespace {:?}", raw.namespace)),
            ("/api/v1/nodes/none".to_owned(), "nodes \"none\"", "at the cluster scope".to_owned()),
            ("/apis/ex.io/v1/things".to_owned(), "things.ex.io", "at the cluster scope".to_owned()),
        ] {
            let message = ask(&raw, "jane", Method::GET, &path, &Value::Null).await.refused(403, "Forbidden");
            assert!(message.starts_with(&format!("{about} is forbidden: User \"jane\" cannot ")), "{message}");
            assert!(message.ends_with(&scope), "{message}");
        }
        let rules = json!([
            { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] },
            {
                "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"],
                "resourceNames": ["mine"],
            },
            { "apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"] },
        ]);
        bind(&raw, "a", &rules, &json!({ "kind": "User", "name": "jane" })).await;
        assert_eq!(until_allowed(&raw, "jane", &maps).await, 200);
        let deployments = raw.at("/apis/apps/v1", "deployments");
        let secrets = raw.at("/api/v1", "secrets");
        for (method, path, code) in [
            (Method::GET, format!("{maps}/none"), 404),
            (Method::POST, maps.clone(), 403),
            (Method::DELETE, format!("{maps}/none"), 403),
            (Method::GET, "/api/v1/configmaps".to_owned(), 403),
            (Method::GET, secrets.clone(), 403),
            (Method::GET, format!("{secrets}/mine"), 404),
            (Method::GET, format!("{secrets}/other"), 403),
            (Method::GET, format!("{deployments}/d"), 403),
            (Method::GET, format!("{deployments}/d/scale"), 404),
            (Method::GET, format!("{deployments}/d/status"), 403),
        ] {
            let body = match method {
                Method::POST => json!({ "metadata": { "name": "m" } }),
                _ => Value::Null,
            };
            let answer = ask(&raw, "jane", method.clone(), &path, &body).await;
            assert_eq!(answer.code, code, "{method} {path}");
            let other = ask(&raw, "joe", method, &path, &body).await;
            assert_eq!(other.code, 403, "{path}");
        }
    }

    /// docs/apiserver.md: rows 2, 125.
    async fn a_role_for_one_name_allows_a_list_and_a_watch_that_select_it(cluster: Cluster) {
        let raw = server(&cluster).await;
        let maps = raw.maps();
        let rules = json!([{
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"],
            "verbs": ["list", "watch", "deletecollection"],
        }]);
        bind(&raw, "a", &rules, &json!({ "kind": "User", "name": "jane" })).await;
        let mine = "fieldSelector=metadata.name%3Dmine";
        assert_eq!(until_allowed(&raw, "jane", &format!("{maps}?{mine}")).await, 200);
        let watch = "watch=1&timeoutSeconds=1";
        for (method, query, code) in [
            (Method::GET, format!("{mine}&{watch}"), 200),
            (Method::GET, format!("{mine},metadata.namespace%3Dother"), 200),
            (Method::GET, format!("{mine}&labelSelector=a"), 200),
            (Method::GET, format!("{mine}&limit=1"), 200),
            // Of several names, the first in alphabetical order counts.
            (Method::GET, format!("{mine},metadata.name%3Dother"), 200),
            (Method::GET, String::new(), 403),
            (Method::GET, watch.to_owned(), 403),
            (Method::GET, "fieldSelector=metadata.name!%3Dmine".to_owned(), 403),
            (Method::GET, "fieldSelector=metadata.name%3Dother".to_owned(), 403),
            (Method::GET, "fieldSelector=metadata.name%3Dother,metadata.name%3Dmine".to_owned(), 200),
            (Method::GET, format!("{mine},metadata.name%3Da"), 403),
            (Method::GET, format!("fieldSelector=metadata.name%3Dother&{watch}"), 403),
            // The name of a deletion is that in its path.
            (Method::DELETE, mine.to_owned(), 403),
        ] {
            let path = format!("{maps}?{query}");
            let answer = ask(&raw, "jane", method.clone(), &path, &Value::Null).await;
            assert_eq!(answer.code, code, "{method} {path}: {}", answer.text);
        }
        let other = format!("{maps}?fieldSelector=metadata.name%3Dother");
        let refused = ask(&raw, "jane", Method::GET, &other, &Value::Null).await;
        assert_eq!(refused.body["details"], json!({ "name": "other", "kind": "configmaps" }));
        assert_eq!(refused.refused(403, "Forbidden"), format!(
            "configmaps \"other\" is forbidden: User \"jane\" cannot list resource \"configmaps\" in \
             API group \"\" in the namespace {:?}", raw.namespace,
        ));
        // The names of a list are those in the path.
        let other = format!("{maps}/mine");
        assert_eq!(ask(&raw, "jane", Method::GET, &other, &Value::Null).await.code, 403);
    }

    /// docs/apiserver.md: row 125.
    async fn groups_and_service_accounts_have_roles(cluster: Cluster) {
        let raw = server(&cluster).await;
        let maps = raw.maps();
        let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }]);
        let account = json!({ "kind": "ServiceAccount", "name": "robot", "namespace": raw.namespace });
        bind(&raw, "accounts", &rules, &account).await;
        let robot = format!("system:serviceaccount:{}:robot", raw.namespace);
        assert_eq!(until_allowed(&raw, &robot, &maps).await, 200);
        let other = "system:serviceaccount:default:robot";
        let refused = ask(&raw, other, Method::GET, &maps, &Value::Null).await;
        assert_eq!(refused.code, 403);
        bind(&raw, "groups", &rules, &json!({ "kind": "Group", "name": "testers" })).await;
        assert_eq!(until_allowed(&raw, other, &maps).await, 200);
    }

    /// docs/apiserver.md: rows 104, 125.
    async fn an_access_review_returns_the_permissions_of_roles(cluster: Cluster) {
        let raw = server(&cluster).await;
        let rules = json!([{ "apiGroups": ["apps"], "resources": ["*"], "verbs": ["get"] }]);
        bind(&raw, "a", &rules, &json!({ "kind": "User", "name": "jane" })).await;
        let path = raw.at("/apis/apps/v1", "deployments/d");
        assert_eq!(until_allowed(&raw, "jane", &path).await, 404);
        for (verb, group, allowed) in [("get", "apps", true), ("list", "apps", false), ("get", "", false)] {
            let review = json!({
                "spec": { "resourceAttributes": {
                    "verb": verb, "group": group, "resource": "deployments",
                    "namespace": raw.namespace,
                } },
            });
            let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            let answer = ask(&raw, "jane", Method::POST, reviews, &review).await.ok();
            assert_eq!(answer["status"]["allowed"], allowed, "{verb} {group}");
        }
        let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let review = json!({ "spec": { "namespace": raw.namespace } });
        let answer = ask(&raw, "jane", Method::POST, reviews, &review).await.ok();
        let found = answer["status"]["resourceRules"].as_array().expect("rules");
        assert!(found.contains(&rules[0]), "{answer}");
    }

    /// The namespaces, priority classes and service that every cluster has.
    ///
    /// docs/apiserver.md: row 100.
    async fn the_initial_objects_are_those_of_the_embedded_server(cluster: Cluster) {
        let theirs = Raw::new(&cluster).await;
        let ours = ApiServer::new();
        let ours = Raw::of(kube::Client::new(ours.service(), "default"), "default");
        for path in [
            "/api/v1/namespaces/default",
            "/api/v1/namespaces/kube-node-lease",
            "/api/v1/namespaces/kube-public",
            "/api/v1/namespaces/kube-system",
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical",
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
            "/api/v1/namespaces/default/services/kubernetes",
        ] {
            // The real server creates some of them after it is ready.
            let left = theirs.until(path, |answer| answer.code == 200).await;
            let [left, right] = [left, ours.get(path).await.ok()].map(|mut object| {
                for field in ["uid", "resourceVersion", "creationTimestamp"] {
                    let value = object["metadata"][field].take();
                    assert!(value.is_string(), "{path}: {field}");
                }
                for entry in object["metadata"]["managedFields"].as_array_mut().expect("entries") {
                    entry["time"].take();
                }
                if object["kind"] == "Service" {
                    // The servers have other networks and ports.
                    let address = object["spec"]["clusterIP"].take();
                    assert_eq!(object["spec"]["clusterIPs"].take()[0], address);
                    assert!(address.as_str().is_some_and(|it| it.ends_with(".0.1")), "{address}");
                    object["spec"]["ports"][0]["targetPort"].take();
                }
                object
            });
            assert_eq!(left, right, "{path}");
        }
        let class = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
        let why = theirs.delete(class).await.refused(403, "Forbidden");
        assert!(why.ends_with("this is a system priority class and cannot be deleted"), "{why}");
    }

    /// The roles and bindings that every cluster has.
    ///
    /// docs/apiserver.md: row 100.
    async fn the_initial_roles_are_those_of_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let theirs = server(&cluster).await;
        let ours = ApiServer::builder().rbac(true).start();
        let ours = Raw::of(kube::Client::new(ours.service(), "default"), "default");
        for resource in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
            let path = format!("{RBAC}/{resource}?labelSelector=kubernetes.io/bootstrapping=rbac-defaults");
            let [left, right] = [theirs.get(&path).await.ok(), ours.get(&path).await.ok()].map(|mut list| {
                let items = list["items"].as_array_mut().expect("items");
                for item in items.iter_mut() {
                    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
                        item["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
                    }
                }
                std::mem::take(items)
            });
            assert!(left.len() >= 7, "{resource}: {}", left.len());
            for (left, right) in left.iter().zip(&right) {
                assert_eq!(left, right, "{resource}");
            }
            assert_eq!(left.len(), right.len(), "{resource}");
        }
    }
}
