//! The kinds that requests are about.

use serde_json::{Value, json};

use super::super::super::raw::Raw;

/// A resource, with one object of it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// A valid object.
    pub(super) object: Value,
    /// Such as `/apis/apps/v1`.
    pub(super) root: String,
    pub(super) plural: String,
    pub(super) namespaced: bool,
    /// Its subresources, such as `status`.
    pub(super) subresources: Vec<String>,
    pub(super) custom: bool,
    /// Whether objects are stored: reviews are not.
    pub(super) stored: bool,
}

/// Kinds whose names follow from other fields, or whose objects a controller of the real server
/// changes.
const LEFT_OUT: [&str; 5] = [
    "APIService",
    "CustomResourceDefinition",
    "IPAddress",
    "ResourceSlice",
    "MutatingAdmissionPolicy",
];

/// Kinds with subresources and rules of their own, which are chosen more often.
pub(super) const FREQUENT: [&str; 14] = [
    "ConfigMap",
    "Pod",
    "Deployment",
    "Widget",
    "Gadget",
    "ServiceAccount",
    "Service",
    "Job",
    "CertificateSigningRequest",
    "Namespace",
    "Node",
    "ClusterRole",
    "ReplicationController",
    "SelfSubjectAccessReview",
];

// === impl Target ===

impl Target {
    /// The path of the objects in `namespace`.
    pub(super) fn collection(&self, namespace: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}", self.root, self.plural)
        } else {
            format!("{}/{}", self.root, self.plural)
        }
    }

    pub(super) fn kind(&self) -> &str {
        self.object["kind"].as_str().expect("a kind")
    }
}

/// Reviews, which are answered and not stored.
fn reviews() -> [Value; 6] {
    let attributes = json!({ "verb": "get", "resource": "pods", "namespace": "@NAMESPACE@" });
    let metadata = json!({});
    let review = |group: &str, kind: &str, spec: Value| json!({ "apiVersion": format!("{group}.k8s.io/v1"), "kind": kind, "metadata": metadata, "spec": spec });
    let authorization = "authorization";
    [
        review(
            authorization,
            "SelfSubjectAccessReview",
            json!({ "resourceAttributes": attributes }),
        ),
        review(
            authorization,
            "SubjectAccessReview",
            json!({
                "resourceAttributes": attributes, "user": "system:admin", "groups": ["system:masters"],
            }),
        ),
        review(
            authorization,
            "LocalSubjectAccessReview",
            json!({
                "resourceAttributes": attributes, "user": "system:admin", "groups": ["system:masters"],
            }),
        ),
        review(
            authorization,
            "SelfSubjectRulesReview",
            json!({ "namespace": "@NAMESPACE@" }),
        ),
        review("authentication", "TokenReview", json!({ "token": "x" })),
        review("authentication", "SelfSubjectReview", json!({})),
    ]
}

/// The targets for these objects, one of each kind, with what the embedded server serves.
pub(super) async fn all(raw: &Raw, objects: Vec<Value>, customs: [Value; 2]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for object in objects.into_iter().chain(reviews()).chain(customs) {
        let text = |field: &str| object[field].as_str().expect("a text").to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let is_known =
            |it: &Target| it.object["kind"] == *kind && it.object["apiVersion"] == *version;
        if LEFT_OUT.contains(&kind.as_str()) || targets.iter().any(is_known) {
            continue;
        }
        let root = match version.as_str() {
            "v1" => "/api/v1".to_owned(),
            version => format!("/apis/{version}"),
        };
        let document = raw.get(&root).await.ok();
        let resources = document["resources"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let name = |it: &Value| it["name"].as_str().unwrap_or_default().to_owned();
        let resource = resources
            .iter()
            .find(|it| it["kind"] == *kind && !name(it).contains('/'));
        let resource = resource.unwrap_or_else(|| panic!("{version} {kind} is not served"));
        let plural = name(resource);
        let prefix = format!("{plural}/");
        let subresources = resources
            .iter()
            .filter_map(|it| Some(name(it).strip_prefix(&prefix)?.to_owned()));
        let verbs = resource["verbs"].as_array();
        targets.push(Target {
            subresources: subresources.collect(),
            custom: version.contains("windlass"),
            stored: verbs.is_some_and(|verbs| verbs.contains(&json!("get"))),
            namespaced: resource["namespaced"] == true,
            object,
            root,
            plural,
        });
    }
    targets
}
