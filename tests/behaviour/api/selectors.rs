//! Label and field selectors of lists.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::raw::{Raw, named, names};

/// A valid request for a certificate, as base64 of its PEM.
const SIGNING: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIRk1HNENBUUF3RERFS01BZ0dBMVVFQXd3QllUQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCSVg0bEVuZitJWlJFNEVFallRSFJFRTdHRnFuR1Uwc3RHdFI4WkcrQlVtaXRLZFVVNk9ISXo4ai9uL1VaZGtBCjNUYlVTeityc1AzV2lyMTZEbVhrUmV1Z0FEQUtCZ2dxaGtqT1BRUURBZ05IQURCRUFpQVg2QzF5MjhXNWd2dEUKblFOQlJ4Q2R3d2FHTHptbXVHRVorb29UNUtkaDZnSWdiUkVmaDFwQStGR3ZNaERxOGoxN2ZqVlBJQ0Z0REl1YQp5TUl3TzYrMG9JST0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// What the real server says about a text that is no value of a label.
const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Objects `a` and `b`, and which of them have a value in a field.
struct Selectable {
    /// Where they are created.
    place: String,
    /// Where they are selected.
    selected: String,
    /// The contents of the new objects.
    objects: Vec<Value>,
    /// A field, a value, and the objects that have it.
    cases: &'static [(&'static str, &'static str, &'static str)],
}

// === impl Selectable ===

impl Selectable {
    /// Creates the objects, and compares what is selected. The names begin with that of the
    /// namespace, because some kinds are cluster-scoped.
    async fn check(&self, raw: &Raw) {
        for (name, object) in ["a", "b"].into_iter().zip(&self.objects) {
            let name = format!("{}-{name}", raw.namespace);
            let mut object = object.clone();
            object["metadata"] = json!({ "name": name });
            raw.post(&self.place, &object).await.ok();
            if let Some(status) = object.get("status") {
                let path = format!("{}/{name}/status", self.place);
                raw.merge(&path, &json!({ "status": status })).await.ok();
            }
        }
        for (field, value, found) in self.cases {
            let others = match *found {
                "a" => "b",
                "b" => "a",
                _ => "",
            };
            for (selector, found) in [
                (format!("{field}={value}"), *found),
                (format!("{field}=={value}"), *found),
                (format!("{field}!={value}"), others),
            ] {
                let path = format!("{}?fieldSelector={}", self.selected, encoded(&selector));
                let list = raw.get(&path).await.ok();
                let own = format!("{}-", raw.namespace);
                let names = names(&list);
                let names: Vec<_> = names
                    .split(' ')
                    .filter_map(|name| name.strip_prefix(&own))
                    .collect();
                assert_eq!(names.join(" "), found, "{} {selector}", self.selected);
            }
        }
    }
}

/// A text in the query of a URL.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b".-_,".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

/// The fields of every kind that has more than those of the metadata, except those of the tests
/// below, which `docs/apiserver.md` lists with each kind.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn selectable(raw: &Raw) -> Vec<Selectable> {
    let template = json!({
        "metadata": { "labels": { "a": "b" } },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let here = |place: String, objects: Vec<Value>, cases| Selectable {
        selected: place.clone(),
        place,
        objects,
        cases,
    };
    let replicas = json!({ "selector": { "a": "b" }, "template": template });
    let slice = |driver: &str| {
        json!({
            "driver": driver,
            "pool": { "name": "p", "generation": 1, "resourceSliceCount": 1 },
        })
    };
    let mut slices = [slice("a.ex.io"), slice("b.ex.io")];
    slices[0]["nodeName"] = "n".into();
    slices[1]["allNodes"] = true.into();
    let events = raw.at("/api/v1", "events");
    vec![
        here(
            raw.at("/api/v1", "pods"),
            vec![
                json!({
                    "spec": {
                        "nodeName": "n", "restartPolicy": "Never", "schedulerName": "s",
                        "serviceAccountName": "x", "hostNetwork": true,
                        "containers": [{ "name": "c", "image": "i" }],
                    },
                    "status": { "phase": "Running" },
                }),
                json!({
                    "spec": { "containers": [{ "name": "c", "image": "i" }] },
                    "status": { "nominatedNodeName": "m" },
                }),
            ],
            &[
                ("spec.nodeName", "n", "a"),
                ("spec.nodeName", "", "b"),
                ("spec.host", "n", "a"),
                ("spec.restartPolicy", "Never", "a"),
                ("spec.restartPolicy", "Always", "b"),
                ("spec.schedulerName", "s", "a"),
                ("spec.schedulerName", "default-scheduler", "b"),
                ("spec.serviceAccountName", "x", "a"),
                ("spec.serviceAccountName", "", "b"),
                ("spec.hostNetwork", "true", "a"),
                ("spec.hostNetwork", "false", "b"),
                ("status.phase", "Running", "a"),
                ("status.phase", "Pending", "b"),
                ("status.nominatedNodeName", "m", "b"),
                ("status.nominatedNodeName", "", "a"),
            ],
        ),
        here(
            "/api/v1/nodes".to_owned(),
            vec![json!({ "spec": { "unschedulable": true } }), json!({})],
            &[
                ("spec.unschedulable", "true", "a"),
                ("spec.unschedulable", "false", "b"),
            ],
        ),
        here(
            raw.at("/api/v1", "services"),
            vec![
                json!({ "spec": { "clusterIP": "None" } }),
                json!({ "spec": { "type": "ExternalName", "externalName": "ex.io" } }),
            ],
            &[
                ("spec.clusterIP", "None", "a"),
                ("spec.clusterIP", "", "b"),
                ("spec.type", "ClusterIP", "a"),
                ("spec.type", "ExternalName", "b"),
            ],
        ),
        here(
            raw.at("/api/v1", "replicationcontrollers"),
            vec![
                json!({ "spec": replicas, "status": { "replicas": 2 } }),
                json!({ "spec": replicas }),
            ],
            &[("status.replicas", "2", "a"), ("status.replicas", "0", "b")],
        ),
        here(
            "/apis/resource.k8s.io/v1/resourceslices".to_owned(),
            slices.map(|spec| json!({ "spec": spec })).into(),
            &[
                ("spec.driver", "a.ex.io", "a"),
                ("spec.driver", "b.ex.io", "b"),
                ("spec.nodeName", "n", "a"),
                ("spec.nodeName", "", "b"),
            ],
        ),
        here(
            raw.at("/apis/batch/v1", "jobs"),
            vec![
                json!({ "spec": { "template": once }, "status": { "succeeded": 1 } }),
                json!({ "spec": { "template": once } }),
            ],
            &[
                ("status.successful", "1", "a"),
                ("status.successful", "0", "b"),
            ],
        ),
        here(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(),
            vec![
                json!({ "spec": { "request": SIGNING, "usages": ["client auth"], "signerName": "ex.io/a" } }),
                json!({ "spec": { "request": SIGNING, "usages": ["client auth"], "signerName": "ex.io/b" } }),
            ],
            &[
                ("spec.signerName", "ex.io/a", "a"),
                ("spec.signerName", "ex.io/b", "b"),
            ],
        ),
        here(
            events.clone(),
            vec![
                json!({
                    "involvedObject": {
                        "apiVersion": "v1", "kind": "Pod", "namespace": raw.namespace, "name": "p",
                        "uid": "u", "resourceVersion": "7", "fieldPath": "spec.containers{c}",
                    },
                    "reason": "r", "type": "Warning",
                    "source": { "component": "s" }, "reportingComponent": "c",
                }),
                json!({
                    "involvedObject": { "namespace": raw.namespace },
                    "type": "Normal", "reportingComponent": "d",
                }),
            ],
            &[
                ("involvedObject.apiVersion", "v1", "a"),
                ("involvedObject.kind", "Pod", "a"),
                ("involvedObject.name", "p", "a"),
                ("involvedObject.uid", "u", "a"),
                ("involvedObject.resourceVersion", "7", "a"),
                ("involvedObject.fieldPath", "spec.containers{c}", "a"),
                ("involvedObject.fieldPath", "", "b"),
                ("reason", "r", "a"),
                ("type", "Warning", "a"),
                ("reportingComponent", "c", "a"),
                ("source", "s", "a"),
                ("source", "d", "b"),
            ],
        ),
        // The same events.
        Selectable {
            place: events,
            selected: raw.at("/apis/events.k8s.io/v1", "events"),
            objects: Vec::new(),
            cases: &[
                ("regarding.apiVersion", "v1", "a"),
                ("regarding.kind", "Pod", "a"),
                ("regarding.name", "p", "a"),
                ("regarding.uid", "u", "a"),
                ("regarding.resourceVersion", "7", "a"),
                ("regarding.fieldPath", "spec.containers{c}", "a"),
                ("reason", "r", "a"),
                ("type", "Warning", "a"),
                ("reportingController", "c", "a"),
            ],
        },
    ]
}

on_both_servers! {
    /// docs/apiserver.md: row 49.
    async fn lists_are_filtered_by_labels(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (name, labels) in [
            ("a", json!({ "tier": "x", "n": "5" })),
            ("b", json!({ "tier": "y", "n": "10" })),
            ("c", json!({ "n": "x", "e": "" })),
        ] {
            let body = json!({ "metadata": { "name": name, "labels": labels } });
            raw.post(&raw.maps(), &body).await.ok();
        }
        for (selector, found) in [
            ("tier", "a b"),
            ("!tier", "c"),
            ("! tier", "c"),
            ("tier=x", "a"),
            ("tier==x", "a"),
            ("tier = x", "a"),
            ("tier!=x", "b c"),
            ("tier in (x,z)", "a"),
            ("tier in(x, y)", "a b"),
            ("tier notin (x,z)", "b c"),
            ("tier in (x),tier notin (y)", "a"),
            ("tier,tier!=y", "a"),
            ("e=", "c"),
            ("e in ()", "c"),
            ("e in (,a)", "c"),
            ("e in (a,,)", "c"),
            ("e in (,,)", "c"),
            ("tier in (x,,,y)", "a b"),
            ("tier=", ""),
            // Numbers are compared as such, and not as texts.
            ("n>5", "b"),
            ("n > 4", "a b"),
            ("n<10", "a"),
            ("n>4,n<6", "a"),
            ("n>04", "a b"),
            ("tier>1", ""),
        ] {
            let list = raw.get(&format!("{}?labelSelector={}", raw.maps(), encoded(selector))).await.ok();
            assert_eq!(names(&list), found, "{selector}");
        }
        for (query, found) in [
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
        let requirement = "unable to parse requirement: ";
        let operators = "expected: in, notin, =, ==, !=, gt, lt";
        let integer = "for 'Gt', 'Lt' operators, the value must be an integer";
        for (selector, error) in [
            ("a b", format!("{requirement}found 'b', {operators}")),
            ("a gt 5", format!("{requirement}found 'gt', {operators}")),
            ("a!b", format!("{requirement}found '!', {operators}")),
            ("a(b)", format!("{requirement}found '(', {operators}")),
            ("a in x", format!("{requirement}found 'x' expected: '('")),
            ("a in", format!("{requirement}found '' expected: '('")),
            ("a in (", format!("{requirement}found '', expected: ',', ')' or identifier")),
            ("a in (=)", format!("{requirement}found '=', expected: ',', ')' or identifier")),
            ("a in (x", format!("{requirement}found '', expected: ',' or ')'")),
            ("a in (x y)", format!("{requirement}found 'y', expected: ',' or ')'")),
            ("a in (x,", format!("{requirement}found '', expected: ',', or identifier")),
            ("a in (x,=)", format!("{requirement}found '=', expected: ',', or identifier")),
            ("a,,b", "found ',', expected: identifier after ','".to_owned()),
            ("a, ", "found '', expected: identifier after ','".to_owned()),
            (",a", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
            ("=b", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
            ("(a)", "found '(', expected: !, identifier, or 'end of string'".to_owned()),
            ("!", format!("{requirement}found '', expected: identifier")),
            ("!!a", format!("{requirement}found '!', expected: identifier")),
            ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("!a in (b)", "found 'in', expected: ',' or 'end of string'".to_owned()),
            ("a=b=c", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
            ("a===b", format!("{requirement}found '=', expected: identifier")),
            ("a=!b", format!("{requirement}found '!', expected: identifier")),
            ("a>=1", format!("{requirement}found '=', expected: identifier")),
            ("a>(1)", format!("{requirement}found '(', expected: identifier")),
            ("a>", format!("{requirement}values[0]: Invalid value: \"\": {integer}")),
            ("a>x", format!("{requirement}values[0]: Invalid value: \"x\": {integer}")),
            ("a<1.5", format!("{requirement}values[0]: Invalid value: \"1.5\": {integer}")),
            ("a>9999999999999999999", format!(
                "{requirement}values[0]: Invalid value: \"9999999999999999999\": {integer}"
            )),
            ("a>-1", format!("{requirement}values[0][a]: Invalid value: \"-1\": {LABEL}")),
            ("a<_", format!(
                "{requirement}[values[0]: Invalid value: \"_\": {integer}, values[0][a]: Invalid value: \"_\": {LABEL}]"
            )),
            ("a=_b", format!("{requirement}values[0][a]: Invalid value: \"_b\": {LABEL}")),
            ("a in (b,_c)", format!("{requirement}values[0][a]: Invalid value: \"_c\": {LABEL}")),
            ("a in (B,_c)", format!("{requirement}values[1][a]: Invalid value: \"_c\": {LABEL}")),
        ] {
            let answer = raw.get(&format!("{}?labelSelector={}", raw.maps(), encoded(selector))).await;
            assert_eq!(answer.refused(400, "BadRequest"), error, "{selector}");
        }
        for selector in ["-a=b", "a/b/c", "!_"] {
            let answer = raw.get(&format!("{}?labelSelector={}", raw.maps(), encoded(selector))).await;
            let message = answer.refused(400, "BadRequest");
            let beginning = format!("{requirement}<nil>: Invalid value: ");
            assert!(message.starts_with(&beginning), "{message}");
        }
        let pods = raw.at("/api/v1", "pods");
        let syntax = |selector: &str| format!("invalid selector: '{selector}'; can't understand '{selector}'");
        for (selector, error) in [
            ("a", syntax("a")),
            ("metadata.name in (a)", syntax("metadata.name in (a)")),
            ("metadata.name>a", syntax("metadata.name>a")),
            ("metadata.name!a", syntax("metadata.name!a")),
            ("none=1,a", "invalid selector: 'none=1,a'; can't understand 'a'".to_owned()),
            ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61".to_owned()),
            ("metadata.name=a\\x", "invalid field selector: invalid escape sequence: \\x".to_owned()),
            ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\".to_owned()),
            ("=a", "field label not supported: ".to_owned()),
            ("data.x=1", "field label not supported: data.x".to_owned()),
        ] {
            let answer = raw.get(&format!("{pods}?fieldSelector={}", encoded(selector))).await;
            assert_eq!(answer.refused(400, "BadRequest"), error, "{selector}");
        }
        assert_eq!(raw.get(&format!("{pods}?fieldSelector=,")).await.ok()["items"], json!([]));
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

    /// docs/apiserver.md: row 50.
    async fn objects_are_selected_by_the_fields_of_their_kinds(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for kind in selectable(&raw) {
            kind.check(&raw).await;
        }
    }

    /// docs/apiserver.md: rows 9, 50.
    async fn unknown_fields_of_each_kind_are_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (place, kind) in every_list(&raw).await {
            let message = raw.get(&format!("{place}?fieldSelector=none%3D1")).await.refused(400, "BadRequest");
            let expected = match kind.as_str() {
                "CertificateSigningRequest" | "Event" | "Namespace" | "Node" | "Pod" | "ReplicationController"
                | "Secret" | "Service" => "field label not supported: none",
                "Job" => "field label \"none\" not supported for Job",
                "ResourceSlice" => {
                    "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: none"
                }
                _ => "\"none\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            };
            assert_eq!(message, expected, "{place}");
            // Kinds without fields of their own support it even if they are cluster-scoped.
            let namespace = raw.get(&format!("{place}?fieldSelector=metadata.namespace%3Dx")).await.code;
            let is_rejected = ["CertificateSigningRequest", "Namespace", "Node", "ResourceSlice"];
            let expected = if is_rejected.contains(&kind.as_str()) { 400 } else { 200 };
            assert_eq!(namespace, expected, "{place}");
        }
    }
}

/// Where the objects of each built-in kind are listed, and the kind.
pub(super) async fn every_list(raw: &Raw) -> Vec<(String, String)> {
    let server = ApiServer::new();
    let ours = Raw::of(kube::Client::new(server.service(), "default"), "default");
    let groups = ours.get("/apis").await.ok();
    let groups = groups["groups"].as_array().expect("groups").iter();
    let versions = groups.flat_map(|group| group["versions"].as_array().into_iter().flatten());
    let mut roots: Vec<_> = versions
        .filter_map(|version| version["groupVersion"].as_str())
        .map(|version| format!("/apis/{version}"))
        .collect();
    roots.push("/api/v1".to_owned());
    let mut lists = Vec::new();
    for root in roots {
        let found = ours.get(&root).await.ok();
        for resource in found["resources"].as_array().expect("resources") {
            let verbs = resource["verbs"].as_array().expect("verbs");
            if !verbs.contains(&json!("list")) {
                continue;
            }
            let text = |field: &str| resource[field].as_str().expect("a text").to_owned();
            let place = match resource["namespaced"] {
                Value::Bool(true) => raw.at(&root, &text("name")),
                _ => format!("{root}/{}", text("name")),
            };
            lists.push((place, text("kind")));
        }
    }
    lists
}
