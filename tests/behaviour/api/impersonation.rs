//! Impersonation: each attribute of the other user is authorized separately.

use http::Method;
use serde_json::{Value, json};

use super::{
    raw::{Answer, Raw, pause},
    roles::{RBAC, server},
};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A token of a new service account that may do what `rules` say in the whole cluster.
async fn token(raw: &Raw, rules: &Value) -> String {
    let accounts = raw.at("/api/v1", "serviceaccounts");
    raw.post(&accounts, &json!({ "metadata": { "name": "actor" } }))
        .await
        .ok();
    let name = format!("actor-{}", raw.namespace);
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    raw.post(&format!("{RBAC}/clusterroles"), &role).await.ok();
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": "actor", "namespace": raw.namespace }],
    });
    raw.post(&format!("{RBAC}/clusterrolebindings"), &binding)
        .await
        .ok();
    let body = json!({ "spec": { "expirationSeconds": 600 } });
    let issued = raw
        .post(&format!("{accounts}/actor/token"), &body)
        .await
        .ok();
    issued["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

/// Asks who the request is from, as another user.
async fn act(raw: &Raw, token: &str, headers: &[(&str, &str)]) -> Answer {
    let authorization = format!("Bearer {token}");
    let mut all = vec![
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("impersonate-user", "jane"),
    ];
    all.extend_from_slice(headers);
    raw.ask(Method::POST, WHO, &all, "{}").await
}

on_both_servers! {
    /// docs/apiserver.md: row 126.
    async fn a_uid_and_each_extra_field_of_another_user_are_allowed_by_themselves(cluster: Cluster) {
        let raw = server(&cluster).await;
        let rules = json!([
            { "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"] },
            {
                "apiGroups": ["authentication.k8s.io"], "resources": ["uids"],
                "verbs": ["impersonate"], "resourceNames": ["u1"],
            },
            {
                "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"],
                "verbs": ["impersonate"], "resourceNames": ["read"],
            },
        ]);
        let token = token(&raw, &rules).await;
        // The client of the real server has credentials of its own, which come first.
        let other = cluster.with_token(&token).await;
        let raw = other.map_or(raw, |client| Raw::of(client, cluster.namespace()));
        // The real server learns of roles by watching itself.
        while act(&raw, &token, &[]).await.code == 403 {
            pause().await;
        }
        let allowed = [("impersonate-uid", "u1"), ("impersonate-extra-scopes", "read")];
        let who = act(&raw, &token, &allowed).await.ok();
        let user = &who["status"]["userInfo"];
        assert_eq!((&user["username"], &user["uid"]), (&json!("jane"), &json!("u1")));
        assert_eq!(user["extra"], json!({ "scopes": ["read"] }));
        let actor = format!("system:serviceaccount:{}:actor", raw.namespace);
        for (header, resource, name) in [
            (("impersonate-uid", "u2"), "uids", "u2"),
            (("impersonate-extra-scopes", "write"), "userextras/scopes", "write"),
            (("impersonate-extra-teams", "read"), "userextras/teams", "read"),
        ] {
            let why = act(&raw, &token, &[header]).await.refused(403, "Forbidden");
            let (kind, _) = resource.split_once('/').unwrap_or((resource, ""));
            let expected = format!(
                "{kind}.authentication.k8s.io \"{name}\" is forbidden: User \"{actor}\" cannot impersonate \
                 resource \"{resource}\" in API group \"authentication.k8s.io\" at the cluster scope"
            );
            assert_eq!(why, expected);
        }
    }
}
