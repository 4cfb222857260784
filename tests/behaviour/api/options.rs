//! Options in the query, the bodies of deletions, and paths that no resource has.

use http::Method;
use serde_json::{Value, json};

use super::raw::{Raw, named, names};
use super::widget::Widget;

on_both_servers! {
    /// docs/apiserver.md: rows 9, 46, 89, 95.
    async fn options_that_must_be_integers_are_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let one = format!("{}/a", raw.maps());
        for (value, why) in [
            ("x", "invalid syntax"),
            ("", "invalid syntax"),
            ("1.5", "invalid syntax"),
            ("99999999999999999999", "value out of range"),
        ] {
            for (method, path, option) in [
                (Method::GET, raw.maps(), "limit"),
                (Method::GET, raw.maps(), "timeoutSeconds"),
                (Method::GET, format!("{}?watch=1", raw.maps()), "timeoutSeconds"),
                (Method::DELETE, one.clone(), "gracePeriodSeconds"),
                (Method::DELETE, raw.maps(), "gracePeriodSeconds"),
                (Method::DELETE, raw.maps(), "limit"),
            ] {
                let separator = if path.contains('?') { '&' } else { '?' };
                let path = format!("{path}{separator}{option}={value}");
                let message = raw.ask(method, &path, &[], "").await.refused(400, "BadRequest");
                assert_eq!(message, format!("strconv.ParseInt: parsing {value:?}: {why}"), "{path}");
            }
        }
        for option in ["limit=-1", "timeoutSeconds=-1", "timeoutSeconds=0", "unknown=x"] {
            let list = raw.get(&format!("{}?{option}", raw.maps())).await.ok();
            assert_eq!(names(&list), "a", "{option}");
        }
    }

    /// docs/apiserver.md: rows 81, 89, 96.
    async fn an_option_with_an_empty_value_is_not_an_absent_one(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let one = format!("{}/a", raw.maps());
        let change = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
        for (method, path, options) in [
            (Method::POST, raw.maps(), "CreateOptions"),
            (Method::PUT, one.clone(), "UpdateOptions"),
            (Method::PATCH, one.clone(), "PatchOptions"),
            (Method::DELETE, one.clone(), "DeleteOptions"),
            (Method::DELETE, raw.maps(), "DeleteOptions"),
        ] {
            let body = match method {
                Method::DELETE => String::new(),
                _ => change.to_string(),
            };
            let content_type = match method {
                Method::PATCH => "application/merge-patch+json",
                _ => "application/json",
            };
            let headers = [("content-type", content_type)];
            let path = format!("{path}?dryRun=");
            let message = raw.ask(method, &path, &headers, &body).await.refused(422, "Invalid");
            assert_eq!(message, format!(
                "{options}.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"\"]: supported \
                 values: \"All\""
            ));
        }
        for path in [&one, &raw.maps()] {
            let path = format!("{path}?propagationPolicy=");
            let message = raw.delete(&path).await.refused(422, "Invalid");
            assert!(message.contains("propagationPolicy: Unsupported value: \"\""), "{message}");
        }
        assert_eq!(raw.get(&one).await.ok(), created);
        // Only patches have this option; other writes ignore it.
        raw.post(&format!("{}?force=true", raw.maps()), &named("b")).await.ok();
        raw.put(&format!("{one}?force=true"), &change).await.ok();
        let patched = raw.merge(&format!("{one}?force=true"), &change).await;
        let message = patched.refused(422, "Invalid");
        assert!(message.ends_with("force: Forbidden: may not be specified for non-apply patch"), "{message}");
    }

    /// docs/apiserver.md: rows 9, 89, 95.
    async fn the_body_of_a_deletion_must_be_its_options(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let one = format!("{}/a", raw.maps());
        for (options, why) in [
            (json!([]), "couldn't get version/kind; json parse error: "),
            (json!("Orphan"), "couldn't get version/kind; json parse error: "),
            (json!(1), "couldn't get version/kind; json parse error: "),
            (json!({ "kind": "Pod", "apiVersion": "v1" }), "no kind \"Pod\" is registered for version \"v1\""),
            (json!({ "kind": "Pods" }), "no kind \"Pods\" is registered for version \"meta.k8s.io/v1\""),
            (
                json!({ "gracePeriodSeconds": "x" }),
                "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of \
                 type int64",
            ),
            (
                json!({ "dryRun": "All" }),
                "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
            ),
            (
                json!({ "preconditions": { "uid": 1 } }),
                "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of \
                 type types.UID",
            ),
        ] {
            for path in [&one, &raw.maps()] {
                let message = raw.delete_so(path, &options).await.refused(400, "BadRequest");
                assert!(message.starts_with(why), "{path} {options}: {message}");
            }
        }
        raw.get(&one).await.ok();
        for options in [
            Value::Null,
            json!({}),
            json!({ "kind": "DeleteOptions" }),
            json!({ "kind": "DeleteOptions", "apiVersion": "v9" }),
            json!({ "apiVersion": "apps/v1", "unknown": 1 }),
        ] {
            let query = format!("{}?labelSelector=none", raw.maps());
            assert_eq!(names(&raw.delete_so(&query, &options).await.ok()), "", "{options}");
        }
    }

    /// docs/apiserver.md: rows 89, 90, 95.
    async fn preconditions_of_a_deletion_can_be_in_the_query(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let one = format!("{}/a", raw.maps());
        for path in [&one, &raw.maps()] {
            let message = raw.delete(&format!("{path}?uid=other")).await.refused(409, "Conflict");
            assert!(message.contains("the UID in the precondition (other) does not match"), "{message}");
        }
        let message = raw.delete(&format!("{one}?resourceVersion=1")).await.refused(409, "Conflict");
        assert!(message.contains("the ResourceVersion in the precondition (1) does not match"), "{message}");
        assert_eq!(raw.get(&one).await.ok(), created);
        raw.delete(&format!("{one}?uid=&resourceVersion=&dryRun=All")).await.ok();
        let uid = created["metadata"]["uid"].as_str().expect("a uid");
        raw.delete(&format!("{one}?uid={uid}")).await.ok();
        raw.get(&one).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: rows 1, 5, 10.
    async fn a_path_that_no_resource_has_is_not_found(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let unserved = "the server could not find the requested resource";
        for path in [
            "/api/v2",
            "/api/v2/pods",
            "/api//v1",
            "/api/v1//pods",
            "/api/v1/pods/a/b/c",
            "/apis/apps/v2",
            "/apis/apps/v2/deployments",
            "/apis/apps//v1",
            "/apis/apps/v1//deployments",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/a",
        ] {
            assert_eq!(raw.get(path).await.refused(404, "NotFound"), unserved, "{path}");
            assert_eq!(raw.post(path, &json!({})).await.refused(404, "NotFound"), unserved, "{path}");
        }
        for path in ["/apis//apps", "/apis/absent.windlass.dev/v1/a", "/healthz/", "/openapi"] {
            let answer = raw.get(path).await;
            assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"), "{path}");
        }
        for path in ["/api/", "/apis/", "/api/v1/", "/apis/apps/", "/apis/apps/v1/", "/version/"] {
            raw.get(path).await.ok();
        }
        assert_eq!(names(&raw.get(&format!("{}/", raw.maps())).await.ok()), "");
        let message = raw.post("/version", &json!({})).await.refused(405, "MethodNotAllowed");
        assert_eq!(message, "the server does not allow this method on the requested resource");
    }

    /// docs/apiserver.md: row 78.
    async fn a_patch_cannot_change_the_kind_of_an_object(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        for (patch, kind) in [
            ("merge", r#"{"kind":"Pod"}"#),
            ("merge", r#"{"kind":"Unknown"}"#),
            ("merge", r#"{"apiVersion":"v2"}"#),
            ("json", r#"[{"op":"replace","path":"/kind","value":"Pod"}]"#),
        ] {
            let message = raw.patch(&path, patch, kind).await.refused(422, "Invalid");
            assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{kind}: {message}");
        }
        let widgets = Widget::served(&raw, &json!({ "type": "object" })).await;
        widgets.create("w", &json!({})).await;
        let version = format!("{}/v1", widgets.group);
        for (change, error) in [
            (
                json!({ "kind": "Gadget" }),
                format!("Gadget.{} \"w\" is invalid: kind: Invalid value: \"Gadget\": must be Widget", widgets.group),
            ),
            (
                json!({ "kind": "Pod", "apiVersion": "v1" }),
                format!(
                    "Pod \"w\" is invalid: [kind: Invalid value: \"Pod\": must be Widget, apiVersion: \
                     Invalid value: \"v1\": must be {version}]"
                ),
            ),
        ] {
            let message = raw.merge(&widgets.one("w"), &change).await.refused(422, "Invalid");
            assert_eq!(message, error);
        }
        for method in [Method::PUT, Method::PATCH] {
            let headers = [("content-type", "application/merge-patch+json")];
            let path = format!("/apis/{version}/widgets");
            let answer = raw.ask(method, &path, &headers, "{}").await;
            assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"));
        }
        // A strategic merge patch is for the type of the object.
        for kind in [r#"{"kind":"Pod"}"#, r#"{"kind":"Unknown","apiVersion":"unknown/v1"}"#] {
            assert_eq!(raw.patch(&path, "strategic-merge", kind).await.ok(), created, "{kind}");
        }
    }

    /// docs/apiserver.md: row 53.
    async fn a_table_contains_only_known_parts_of_objects(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let path = |part: &str| format!("{}?includeObject={part}", raw.maps());
        for part in ["", "None", "Metadata", "Object"] {
            raw.get_as(&path(part), table).await.ok();
        }
        let message = raw.get_as(&path("All"), table).await.refused(400, "BadRequest");
        assert_eq!(message, "Unable to convert to Table as requested: includeObject: Invalid value: \
            \"All\": must be 'Metadata', 'Object', 'None', or empty");
        raw.get(&path("All")).await.ok();
    }

    /// docs/apiserver.md: "Subresources".
    async fn the_options_of_a_log_are_checked(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let mut pod = named("p");
        pod["spec"] = json!({ "containers": [{ "name": "main", "image": "registry.example/web:1" }] });
        raw.post(&raw.at("/api/v1", "pods"), &pod).await.ok();
        let log = raw.at("/api/v1", "pods/p/log");
        for (query, why) in [
            ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
            (
                "tailLines=-1&sinceSeconds=-1",
                "[tailLines: Invalid value: -1: must be greater than or equal to 0, sinceSeconds: Invalid \
                 value: -1: must be greater than 0]",
            ),
            (
                "sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
                "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            ("stream=Stdout", "stream: Forbidden: may not be specified"),
        ] {
            let message = raw.get(&format!("{log}?{query}")).await.refused(422, "Invalid");
            assert_eq!(message, format!("PodLogOptions \"p\" is invalid: {why}"));
        }
        for query in ["tailLines=x", "limitBytes=", "sinceTime=x"] {
            raw.get(&format!("{log}?{query}")).await.refused(400, "BadRequest");
        }
    }

    /// docs/apiserver.md: rows 81, 89, 94.
    async fn an_option_that_is_neither_false_nor_zero_is_true(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (number, (value, orphans)) in [("f", true), ("no", true), ("", true), ("False", false), ("0", false)]
            .into_iter()
            .enumerate()
        {
            let name = format!("a{number}");
            raw.post(&raw.maps(), &named(&name)).await.ok();
            let path = format!("{}/{name}", raw.maps());
            raw.delete(&format!("{path}?orphanDependents={value}")).await.ok();
            let after = raw.get(&path).await;
            let is_orphaning = after.body["metadata"]["finalizers"] == json!(["orphan"]);
            assert_eq!(is_orphaning, orphans, "{value:?}: {after:?}");
        }
    }

    /// docs/apiserver.md: rows 9, 11, 89, 95.
    async fn a_deletion_with_a_malformed_part_deletes_nothing(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let one = format!("{}/a", raw.maps());
        for path in [&one, &raw.maps()] {
            let policy = format!("{path}?propagationPolicy=nil");
            let message = raw.delete(&policy).await.refused(422, "Invalid");
            assert!(message.contains("propagationPolicy: Unsupported value: \"nil\""), "{message}");
            let options = json!({ "apiVersion": "x/y/z" });
            let message = raw.delete_so(path, &options).await.refused(400, "BadRequest");
            assert_eq!(message, "unexpected GroupVersion string: x/y/z");
            let headers = [("content-type", "*/*")];
            raw.ask(Method::DELETE, path, &headers, "{}").await.refused(415, "UnsupportedMediaType");
            let headers = [("accept", "APPLICATION/JSON")];
            raw.ask(Method::DELETE, path, &headers, "").await.refused(406, "NotAcceptable");
        }
        // The options of the list are checked before those of the deletion.
        let list = format!("{}?labelSelector=a%3Ex", raw.maps());
        let message = raw.delete_so(&list, &json!("x")).await.refused(400, "BadRequest");
        assert!(message.starts_with("unable to parse requirement"), "{message}");
        assert_eq!(raw.get(&one).await.ok(), created);
    }

    /// docs/apiserver.md: "Admission", row 74.
    async fn a_pod_can_be_updated_with_the_manifest_of_its_creation(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let mut pod = named("p");
        pod["spec"] = json!({ "containers": [{ "name": "main", "image": "registry.example/web:1" }] });
        let pods = raw.at("/api/v1", "pods");
        let created = raw.post(&pods, &pod).await.ok();
        let updated = raw.put(&format!("{pods}/p"), &pod).await.ok();
        assert_eq!(updated["spec"], created["spec"]);
    }

    /// docs/apiserver.md: rows 24, 28, 96.
    async fn a_create_ignores_a_version_that_is_not_a_number(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (version, is_accepted) in [("0", true), ("x", true), ("1", false)] {
            let mut object = named(&format!("v{version}"));
            object["metadata"]["resourceVersion"] = version.into();
            let answer = raw.post(&raw.maps(), &object).await;
            assert_eq!(answer.code, if is_accepted { 201 } else { 500 }, "{version}: {answer:?}");
        }
        let mut object = named("l");
        object["metadata"]["labels"] = json!([]);
        let message = raw.post(&raw.maps(), &object).await.refused(400, "BadRequest");
        assert!(message.contains("labels"), "{message}");
    }

    /// docs/apiserver.md: rows 5, 6, 78.
    async fn a_missing_object_is_reported_before_a_malformed_patch(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let one = format!("{}/a", raw.maps());
        for kind in ["merge", "json", "strategic-merge"] {
            raw.patch(&format!("{}/absent", raw.maps()), kind, "{").await.refused(404, "NotFound");
            raw.patch(&one, kind, "{").await.refused(400, "BadRequest");
        }
        let whole = r#"[{"op":"add","path":"","value":{}}]"#;
        raw.patch(&one, "json", whole).await.refused(422, "Invalid");
        assert_eq!(raw.get(&one).await.ok(), created);
        let message = raw.get(&format!("{}/%25", raw.maps())).await.refused(400, "BadRequest");
        assert_eq!(message, "Name parameter invalid: \"%\": may not contain '%'");
        assert_eq!(raw.get(&format!("{}/a///", raw.maps())).await.ok(), created);
        let message = raw.get(&format!("{one}?export=true")).await.refused(400, "BadRequest");
        assert_eq!(message, "the export parameter, deprecated since v1.14, is no longer supported");
    }
}
