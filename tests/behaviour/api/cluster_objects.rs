//! What lives in a cluster beside plain objects: the deletion of namespaces by policy, and requests
//! for certificates that are approved.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::raw::{Answer, Raw, named};

const SIGNING: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request for a certificate that a client can have, in PEM and base64. Its key was thrown away.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISU1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWRH\
     VnpkREJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQkFHcms1b0ljdGVoMjZEa3lMVENJdlY0bFpj\
     ZXNmQkZocnVLblNZKy9Tc25zelVJQ0JOYTlHMUR0UzJnClpEbmRTNUluSFFFWitnZTBsTUlhdzNzbXR3K2dBREFL\
     QmdncWhrak9QUVFEQWdOSEFEQkVBaUJCbVcvYVdxRHUKalJBZnF3YzNhQVZvd1oxaXJ2ME9iWWpDakNpNThmRmlv\
     QUlnSE5vMzdhdWJRUnZmTUZBSzRpL0pUMmYyRlg5TApNcHM0RFpjR2hlVU90UUE9Ci0tLS0tRU5EIENFUlRJRklD\
     QVRFIFJFUVVFU1QtLS0tLQo=";

/// Creates a request for a certificate, and gives its path.
async fn request(raw: &Raw, name: &str) -> (String, Value) {
    let name = format!("{name}-{}", raw.namespace);
    let mut object = named(&name);
    object["spec"] = json!({
        "request": REQUEST,
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "username": "another-user",
    });
    let created = raw.post(SIGNING, &object).await.ok();
    (format!("{SIGNING}/{name}"), created)
}

fn condition(kind: &str, status: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": "Tested", "message": "by a test" })
}

/// Sends a merge patch with these conditions.
async fn decide(raw: &Raw, path: &str, conditions: &[Value]) -> Answer {
    raw.merge(path, &json!({ "status": { "conditions": conditions } }))
        .await
}

/// The objects that the server creates when it starts, without what differs between two servers.
async fn initial(raw: &Raw) -> Vec<Value> {
    let mut objects = Vec::new();
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        objects.push(
            raw.get(&format!("/api/v1/namespaces/{namespace}"))
                .await
                .ok(),
        );
    }
    for name in ["system-cluster-critical", "system-node-critical"] {
        let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
        objects.push(raw.get(&path).await.ok());
    }
    let mut service = raw
        .get("/api/v1/namespaces/default/services/kubernetes")
        .await
        .ok();
    for field in ["clusterIP", "clusterIPs"] {
        assert!(service["spec"][field].take() != Value::Null, "{service}");
    }
    assert!(
        service["spec"]["ports"][0]["targetPort"].take().is_u64(),
        "{service}"
    );
    objects.push(service);
    for object in &mut objects {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            assert!(
                object["metadata"][field].take() != Value::Null,
                "{field} of {object}"
            );
        }
    }
    objects
}

on_both_servers! {
    /// docs/apiserver.md: row 100.
    async fn the_initial_objects_are_those_of_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let theirs = Raw::new(&cluster).await;
        let ours = Raw::of(ApiServer::new().client(), "default");
        assert_eq!(initial(&theirs).await, initial(&ours).await);
    }

    /// docs/apiserver.md: rows 94, 99.
    async fn a_namespace_is_deleted_with_the_finalizer_of_its_policy(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (at, policy, finalizer) in [
            ("f", "Foreground", Some("foregroundDeletion")), ("o", "Orphan", Some("orphan")),
            ("b", "Background", None),
        ] {
            let name = format!("{}-{at}", raw.namespace);
            raw.post("/api/v1/namespaces", &named(&name)).await.ok();
            let path = format!("/api/v1/namespaces/{name}");
            let trial = json!({ "propagationPolicy": policy, "dryRun": ["All"] });
            let trial = raw.delete_so(&path, &trial).await.ok();
            let options = json!({ "propagationPolicy": policy });
            let deleted = raw.delete_so(&path, &options).await.ok();
            for namespace in [&trial, &deleted] {
                assert_eq!(namespace["metadata"]["finalizers"].as_array().map(|list| list[0].as_str()), finalizer.map(Some));
                assert_eq!(namespace["status"]["phase"], "Terminating");
            }
        }
    }

    /// docs/apiserver.md: "Subresources".
    async fn a_request_for_a_certificate_is_approved_or_denied(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let (path, created) = request(&raw, "a").await;
        let me = raw.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.ok();
        assert_eq!(created["spec"]["username"], me["status"]["userInfo"]["username"]);
        assert_eq!(created["spec"]["groups"], me["status"]["userInfo"]["groups"]);
        assert_eq!(created["status"], json!({}));
        assert_eq!(created["metadata"]["managedFields"], Value::Null, "not before the first apply");

        let approval = format!("{path}/approval");
        let mut sent = raw.get(&approval).await.ok();
        assert_eq!(sent["kind"], "CertificateSigningRequest");
        sent["status"] = json!({ "conditions": [condition("Approved", "True")], "certificate": "bm8=" });
        sent["spec"]["signerName"] = json!("ex.io/other");
        let approved = raw.put(&approval, &sent).await.ok();
        let condition_of = |object: &Value| object["status"]["conditions"][0].clone();
        let first = condition_of(&approved);
        assert!(first["lastUpdateTime"].is_string() && first["lastTransitionTime"].is_string(), "{first}");
        assert_eq!(approved["status"].get("certificate"), None, "only the conditions change");
        assert_eq!(approved["spec"]["signerName"], "kubernetes.io/kube-apiserver-client");

        let mut stolen = approved.clone();
        stolen["spec"]["username"] = json!("another");
        stolen["metadata"]["labels"] = json!({ "a": "b" });
        let updated = raw.put(&path, &stolen).await.ok();
        assert_eq!(updated["spec"], approved["spec"]);
        assert_eq!(updated["metadata"]["labels"]["a"], "b");

        let why = decide(&raw, &approval, &[]).await.refused(422, "Invalid");
        let expected = "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"";
        assert!(why.ends_with(expected), "{why}");
        let both = [condition("Approved", "True"), condition("Denied", "True")];
        let why = decide(&raw, &approval, &both).await.refused(422, "Invalid");
        let expected = "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are \
                        mutually exclusive";
        assert!(why.ends_with(expected), "{why}");

        let mut changed = condition("Approved", "True");
        changed["message"] = json!("another");
        let status = format!("{path}/status");
        let kept = decide(&raw, &status, &[changed, condition("Failed", "True")]).await.ok();
        assert_eq!(condition_of(&kept), first, "the status does not change a decision");
        assert_eq!(kept["status"]["conditions"][1]["type"], "Failed");
        assert!(kept["status"]["conditions"][1]["lastTransitionTime"].is_string());
    }

    /// docs/apiserver.md: "Subresources".
    async fn a_certificate_is_approved_only_through_its_subresource(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let (path, _) = request(&raw, "b").await;
        let status = format!("{path}/status");
        let why = decide(&raw, &status, &[condition("Denied", "True")]).await.refused(422, "Invalid");
        let expected = "status.conditions: Forbidden: updates may not add a condition of type \"Denied\"";
        assert!(why.ends_with(expected), "{why}");
        let why = decide(&raw, &format!("{path}/approval"), &[condition("Denied", "False")]).await;
        let why = why.refused(422, "Invalid");
        let expected = "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"";
        assert!(why.ends_with(expected), "{why}");
        let main = decide(&raw, &path, &[condition("Denied", "True")]).await.ok();
        assert_eq!(main["status"], json!({}));
        let answer = raw.ask(Method::DELETE, &format!("{path}/approval"), &[], "").await;
        answer.refused(405, "MethodNotAllowed");
    }
}
