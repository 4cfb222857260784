//! Objects in the protobuf form of client-go, controller-runtime and Helm.

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use windlass_protobuf::MEDIA_TYPE;
use windlass_protobuf::watch::{self, Frames, WatchEvent};

use super::raw::{Raw, named};
use super::widget::Widget;
use crate::cluster::Cluster;

/// What client-go accepts by default.
const DEFAULT: &str = "application/vnd.kubernetes.protobuf,application/json";

/// Sends and reads bytes.
struct Wire {
    client: Client,
    raw: Raw,
}

/// What came back.
struct Answer {
    code: u16,
    content_type: String,
    bytes: Vec<u8>,
}

/// The events of a watch, as they come.
struct Events {
    body: Body,
    frames: Frames,
}

// === impl Wire ===

impl Wire {
    async fn new(cluster: &Cluster) -> Self {
        Self {
            client: cluster.plain().await,
            raw: Raw::new(cluster).await,
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).expect("a request");
        let (parts, body) = self
            .client
            .send(request)
            .await
            .expect("an answer")
            .into_parts();
        let content_type = parts.headers.get("content-type");
        Answer {
            code: parts.status.as_u16(),
            content_type: content_type.map_or_else(String::new, |value| {
                value.to_str().expect("text").to_owned()
            }),
            bytes: body.collect().await.expect("a body").to_bytes().to_vec(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[("accept", MEDIA_TYPE)], Vec::new())
            .await
    }

    /// Sends an object as client-go does.
    async fn write(&self, method: Method, path: &str, object: &Value) -> Answer {
        let bytes = windlass_protobuf::encode(object).expect("an object of its kind");
        let headers = [("accept", DEFAULT), ("content-type", MEDIA_TYPE)];
        self.send(method, path, &headers, bytes).await
    }

    /// Checks that an object or a list is the same in both forms.
    async fn check(&self, path: &str) -> Value {
        let (object, mut json) = loop {
            let object = self.get(path).await.object(200);
            let json = self.raw.get(path).await.ok();
            // Controllers of the real server write the status of some new objects.
            let version = "/metadata/resourceVersion";
            if json.get("items").is_some() || json.pointer(version) == object.pointer(version) {
                break (object, json);
            }
        };
        if json.get("items").is_some() {
            // Other tests write to the same server.
            json["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
        }
        // What is empty and not left out by Go need not be in JSON that others have written.
        let bytes = windlass_protobuf::encode(&json).expect("an object of its kind");
        let complete = windlass_protobuf::decode(&bytes).expect("our own bytes");
        assert_eq!(object, complete, "{path}");
        object
    }

    async fn watch(&self, path: &str) -> Events {
        let request = Request::get(path).header("accept", MEDIA_TYPE);
        let request = request.body(Body::empty()).expect("a request");
        let response = self.client.send(request).await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["content-type"], watch::MEDIA_TYPE);
        Events {
            body: response.into_body(),
            frames: Frames::new(1 << 20),
        }
    }
}

// === impl Answer ===

impl Answer {
    /// The object in an answer that has this code and is protobuf.
    #[track_caller]
    fn object(&self, code: u16) -> Value {
        let text = String::from_utf8_lossy(&self.bytes);
        assert_eq!(
            (self.code, self.content_type.as_str()),
            (code, MEDIA_TYPE),
            "{text}"
        );
        windlass_protobuf::decode(&self.bytes).expect("an object")
    }

    /// The message of a refusal in JSON.
    #[track_caller]
    fn refused(&self, code: u16, reason: &str) -> String {
        let status: Value = serde_json::from_slice(&self.bytes).expect("JSON");
        let is = (self.code, status["reason"].as_str().unwrap_or_default());
        assert_eq!(is, (code, reason), "{status}");
        status["message"].as_str().unwrap_or_default().to_owned()
    }
}

// === impl Events ===

impl Events {
    /// The next event: its type and its object.
    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some(frame) = self.frames.next_frame().expect("frames") {
                let event = WatchEvent::parse(&frame).expect("an event");
                let object = event.object().expect("an object");
                return (event.event.to_owned(), object);
            }
            let frame = self.body.frame().await.expect("one more event");
            if let Ok(bytes) = frame.expect("the watch continues").into_data() {
                self.frames.push(&bytes);
            }
        }
    }
}

/// Objects of several kinds: where they are, and what is sent.
#[expect(clippy::too_many_lines, reason = "a table of objects")]
fn objects(raw: &Raw) -> Vec<(String, Value)> {
    let object = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": { "name": "a", "labels": { "app": "a" }, "annotations": { "a": "<&>é" } },
        });
        for (key, value) in rest.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    };
    let template = json!({
        "metadata": { "labels": { "app": "a" } },
        "spec": { "containers": [{
            "name": "c", "image": "example.com/c:1",
            "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
            "resources": { "limits": { "cpu": "500m", "memory": "1Gi" } },
            "readinessProbe": { "httpGet": { "path": "/", "port": "http", "scheme": "HTTP" } },
        }] },
    });
    let pod = json!({ "spec": template["spec"].clone() });
    vec![
        (
            raw.maps(),
            object(
                "v1",
                "ConfigMap",
                json!({
                    "data": { "k": "v", "empty": "" }, "binaryData": { "b": "AAH/" },
                }),
            ),
        ),
        (
            raw.at("/api/v1", "secrets"),
            object(
                "v1",
                "Secret",
                json!({ "type": "Opaque", "data": { "k": "dgD+" } }),
            ),
        ),
        (raw.at("/api/v1", "pods"), object("v1", "Pod", pod)),
        (
            raw.at("/api/v1", "services"),
            object(
                "v1",
                "Service",
                json!({ "spec": {
                "selector": { "app": "a" },
                "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080 }],
            } }),
            ),
        ),
        (
            raw.at("/apis/apps/v1", "deployments"),
            object(
                "apps/v1",
                "Deployment",
                json!({ "spec": {
                "replicas": 0, "selector": { "matchLabels": { "app": "a" } }, "template": template,
            } }),
            ),
        ),
        (
            raw.at("/apis/coordination.k8s.io/v1", "leases"),
            object(
                "coordination.k8s.io/v1",
                "Lease",
                json!({ "spec": {
                "holderIdentity": "me", "leaseDurationSeconds": 15,
                "renewTime": "2025-03-01T12:00:00.000001Z",
            } }),
            ),
        ),
        (
            raw.at("/apis/rbac.authorization.k8s.io/v1", "roles"),
            object(
                "rbac.authorization.k8s.io/v1",
                "Role",
                json!({ "rules": [
                { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] },
            ] }),
            ),
        ),
        (
            raw.at("/api/v1", "events"),
            object(
                "v1",
                "Event",
                json!({
                    "involvedObject": { "kind": "Pod", "namespace": raw.namespace, "name": "a" },
                    "reason": "Said", "message": "hello", "type": "Normal",
                    "firstTimestamp": "2025-03-01T12:00:00Z", "source": { "component": "test" },
                }),
            ),
        ),
    ]
}

on_both_servers! {
    /// docs/apiserver.md: row 21.
    async fn an_object_is_written_and_read_as_json_and_protobuf(cluster: Cluster) {
        let wire = Wire::new(&cluster).await;
        for (path, object) in objects(&wire.raw) {
            let created = wire.write(Method::POST, &path, &object).await.object(201);
            let at = format!("{path}/a");
            let mut read = wire.check(&at).await;
            assert_eq!(read["metadata"]["uid"], created["metadata"]["uid"], "{path}");
            assert_eq!(read["metadata"]["annotations"]["a"], "<&>é", "{path}");
            read["metadata"]["labels"]["changed"] = "yes".into();
            let updated = wire.write(Method::PUT, &at, &read).await.object(200);
            assert_eq!(updated["metadata"]["labels"]["changed"], "yes", "{path}");
            assert_eq!(wire.check(&at).await, updated, "{path}");
            // A list has the same items, which name no kind.
            wire.check(&path).await;
            wire.check(&format!("{path}?limit=1")).await;
        }
    }

    /// Each is created and updated as protobuf, and read as both. The JSON of the response is that of
    /// the same create with a JSON body, which other tests compare with the real server.
    ///
    /// docs/apiserver.md: "Protobuf", row 21.
    async fn objects_of_every_kind_are_written_as_protobuf(cluster: Cluster) {
        let wire = Wire::new(&cluster).await;
        let mut count = 0;
        for (place, object) in super::kinds::objects_of_every_kind(&cluster).await {
            let kind = &object["kind"];
            let dry_run = format!("{place}?dryRun=All");
            // Other tests read the groups of the real server, which this one would add to.
            let is_shared = *kind == "APIService";
            let path = if is_shared { dry_run.clone() } else { place.clone() };
            let mut sent = object.clone();
            if windlass_protobuf::encode(&sent).is_err() {
                // JSON has other forms of the same values, such as numbers for quantities.
                let typed = wire.raw.post(&dry_run, &object).await.ok();
                for (field, value) in sent.as_object_mut().expect("an object") {
                    if field != "metadata" && typed.get(field).is_some() {
                        *value = typed[field.as_str()].clone();
                    }
                }
            }
            let answer = wire.write(Method::POST, &path, &sent).await;
            let text = String::from_utf8_lossy(&answer.bytes);
            assert_eq!(answer.code, 201, "{sent}: {text}");
            let created = answer.object(201);
            assert_eq!(created["kind"], *kind);
            count += 1;
            if is_shared {
                continue;
            }
            let name = object["metadata"]["name"].as_str().expect("a name");
            let at = format!("{place}/{name}");
            let updated = loop {
                let mut read = wire.check(&at).await;
                assert_eq!(read["metadata"]["uid"], created["metadata"]["uid"], "{at}");
                read["metadata"]["labels"]["changed"] = "yes".into();
                let answer = wire.write(Method::PUT, &at, &read).await;
                // A controller was faster.
                if answer.code != 409 {
                    break answer.object(200);
                }
            };
            assert_eq!(updated["metadata"]["labels"]["changed"], "yes", "{at}");
            wire.check(&at).await;
            let field = format!("{place}?fieldSelector=metadata.name%3D{name}");
            let list = wire.check(&field).await;
            assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{field}");
        }
        assert!(count > 60, "{count} objects");
    }

    /// docs/apiserver.md: row 21.
    async fn a_protobuf_watch_consists_of_frames(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let wire = Wire::new(&cluster).await;
        let path = wire.raw.maps();
        let list = wire.get(&format!("{path}?fieldSelector=metadata.name=a")).await.object(200);
        let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        let mut events = wire.watch(&format!(
            "{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&fieldSelector=metadata.name=a"
        )).await;
        let one = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
        let created = wire.write(Method::POST, &path, &one).await.object(201);
        assert_eq!(events.next().await, ("ADDED".to_owned(), created));
        let at = format!("{path}/a");
        let merged = wire.raw.merge(&at, &json!({ "data": { "k": "v" } })).await.ok();
        assert_eq!(events.next().await, ("MODIFIED".to_owned(), merged));
        wire.raw.delete(&at).await.ok();
        let (kind, object) = events.next().await;
        assert_eq!((kind.as_str(), &object["data"]["k"]), ("DELETED", &json!("v")));

        // What is there, and where it ends.
        wire.write(Method::POST, &path, &one).await.object(201);
        let mut events = wire.watch(&format!(
            "{path}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true\
             &resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=a"
        )).await;
        assert_eq!(events.next().await.0, "ADDED");
        let (event, end) = events.next().await;
        assert_eq!((event.as_str(), &end["kind"]), ("BOOKMARK", &json!("ConfigMap")));
        assert_eq!(end["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    }

    /// docs/apiserver.md: rows 21, 57.
    async fn a_watch_from_a_compacted_version_gets_an_error_frame(cluster: Cluster) {
        let wire = Wire::new(&cluster).await;
        let first = wire.raw.post(&wire.raw.maps(), &named("a")).await.ok();
        let version = super::raw::version(&first);
        cluster.forget_history().await;
        let path = format!("{}?watch=1&resourceVersion={version}", wire.raw.maps());
        let (event, status) = wire.watch(&path).await.next().await;
        assert_eq!((event.as_str(), &status["kind"], &status["code"]), ("ERROR", &json!("Status"), &json!(410)));
    }

    /// docs/apiserver.md: rows 3, 21.
    async fn an_error_has_the_accepted_media_type(cluster: Cluster) {
        let wire = Wire::new(&cluster).await;
        let path = format!("{}/nope", wire.raw.maps());
        let status = wire.get(&path).await.object(404);
        let mut json = wire.raw.get(&path).await.body;
        // Where JSON says nothing, protobuf says zero; both are left out when they are read.
        json["details"].as_object_mut().expect("details").retain(|_, value| *value != 0);
        assert_eq!(status, json);
        let first = "application/json,application/vnd.kubernetes.protobuf";
        let answer = wire.send(Method::GET, &path, &[("accept", first)], Vec::new()).await;
        assert_eq!(answer.content_type, "application/json");
        let invalid = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "No name" } });
        let status = wire.write(Method::POST, &wire.raw.maps(), &invalid).await.object(422);
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.name");
    }

    /// docs/apiserver.md: rows 11, 21.
    async fn the_preferred_form_is_sent(cluster: Cluster) {
        let wire = Wire::new(&cluster).await;
        let path = wire.raw.maps();
        let json = "application/json";
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        let both = format!("{table},application/json");
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        for (accept, expected) in [
            (DEFAULT, MEDIA_TYPE),
            ("application/json,application/vnd.kubernetes.protobuf", json),
            ("application/json;q=0.1,application/vnd.kubernetes.protobuf;q=0.9", MEDIA_TYPE),
            ("*/*", json),
            ("application/vnd.kubernetes.protobuf,*/*", MEDIA_TYPE),
            ("text/html,application/vnd.kubernetes.protobuf", MEDIA_TYPE),
            (partial, MEDIA_TYPE),
            (both.as_str(), json),
        ] {
            let answer = wire.send(Method::GET, &path, &[("accept", accept)], Vec::new()).await;
            assert_eq!((answer.code, answer.content_type.as_str()), (200, expected), "{accept}");
        }
        let answer = wire.send(Method::GET, &path, &[("accept", table)], Vec::new()).await;
        assert_eq!(answer.code, 406);

        // The older version of a list of metadata has other numbers of fields.
        wire.raw.post(&path, &named("a")).await.ok();
        let list = wire.send(Method::GET, &path, &[("accept", partial)], Vec::new()).await.object(200);
        let beta = partial.replace("v=v1;", "v=v1beta1;");
        let old = wire.send(Method::GET, &path, &[("accept", &beta)], Vec::new()).await.object(200);
        assert_eq!((&old["apiVersion"], &old["kind"]), (&json!("meta.k8s.io/v1beta1"), &list["kind"]));
        assert_eq!(old["items"], list["items"]);
        assert!(old["metadata"]["resourceVersion"].is_string(), "{old}");
    }

    /// docs/apiserver.md: rows 21, 52.
    async fn only_the_metadata_of_custom_resources_has_a_protobuf_form(cluster: Cluster) {
        let wire = Wire::new(&cluster).await;
        let widget = Widget::served(&wire.raw, &json!({ "type": "object" })).await;
        let path = widget.all();
        let body = widget.object("w", &json!({}));
        let created = wire.raw.post(&path, &body).await.ok();
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let at = widget.one("w");
        let answer = wire.send(Method::GET, &at, &[("accept", partial)], Vec::new()).await;
        let object = answer.object(200);
        assert_eq!(object["kind"], "PartialObjectMetadata");
        assert_eq!(object["metadata"], created["metadata"]);
        let answer = wire.send(Method::GET, &at, &[("accept", DEFAULT)], Vec::new()).await;
        assert_eq!((answer.code, answer.content_type.as_str()), (200, "application/json"));
        let status = wire.get(&at).await.object(406);
        assert_eq!(status["reason"], "NotAcceptable");
    }

    /// docs/apiserver.md: rows 21, 90.
    async fn the_options_of_a_deletion_are_read(cluster: Cluster) {
        let wire = Wire::new(&cluster).await;
        let created = wire.raw.post(&wire.raw.maps(), &named("a")).await.ok();
        let at = format!("{}/a", wire.raw.maps());
        let options = |uid: &Value| json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
        });
        let status = wire.write(Method::DELETE, &at, &options(&json!("another"))).await.object(409);
        assert_eq!(status["reason"], "Conflict");
        let uid = &created["metadata"]["uid"];
        let status = wire.write(Method::DELETE, &at, &options(uid)).await.object(200);
        assert_eq!((&status["status"], &status["details"]["uid"]), (&json!("Success"), uid));
    }

    /// docs/apiserver.md: rows 9, 11, 21.
    async fn malformed_protobuf_is_rejected(cluster: Cluster) {
        let wire = Wire::new(&cluster).await;
        let path = wire.raw.maps();
        let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
        let named = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap".to_vec();
        let with = |rest: &[u8]| [named.clone(), rest.to_vec()].concat();
        for (body, expected) in [
            (Vec::new(), unrecognized),
            (b"{}".to_vec(), unrecognized),
            (b"k8s\0".to_vec(), ""),
            (b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".to_vec(), unrecognized),
            (with(b"\x12\x05\x0a"), unrecognized),
            (with(b"\x12\x02\x08\x01"), "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "),
            (with(b"\x12\x02\x0a\x7f"), "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "),
            (with(b"\x12\x01\x0c"), "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "),
            (
                b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Foo\x12\x00".to_vec(),
                "Foo in version \"v1\" cannot be handled as a ConfigMap: no kind \"Foo\" is registered for version \"v1\"",
            ),
            (
                b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00".to_vec(),
                "Pod in version \"v1\" cannot be handled as a ConfigMap",
            ),
        ] {
            let headers = [("content-type", MEDIA_TYPE)];
            let answer = wire.send(Method::POST, &path, &headers, body.clone()).await;
            if expected.is_empty() {
                // An object without a name, or no object: in either case it is refused.
                assert!(matches!(answer.code, 400 | 422), "{}", answer.code);
                continue;
            }
            let message = answer.refused(400, "BadRequest");
            assert!(message.starts_with(expected), "{body:x?}: {message}");
        }
        let headers = [("content-type", MEDIA_TYPE)];
        let at = format!("{path}/a");
        let answer = wire.send(Method::PATCH, &at, &headers, named).await;
        assert_eq!(answer.code, 415);
    }
}
