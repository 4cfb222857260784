//! Unknown paths, invalid bodies, content negotiation, and the form of errors.

use http::Method;
use serde_json::json;

use super::raw::{Raw, named};
use super::widget::Widget;

on_both_servers! {
    /// docs/apiserver.md: row 5.
    async fn an_unknown_path_returns_plain_text(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for path in ["/nowhere", "/apis/absent.windlass.dev", "/apis/absent.windlass.dev/v1/things"] {
            let answer = raw.get(path).await;
            assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"), "{path}");
            assert!(answer.content_type.starts_with("text/plain"), "{path}: {}", answer.content_type);
        }
    }

    /// docs/apiserver.md: rows 1, 5.
    async fn an_unknown_resource_of_a_known_version_is_not_found(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for path in [
            "/api/v1/things".to_owned(),
            raw.at("/api/v1", "nodes"),
            "/api/v1/configmaps/a".to_owned(),
        ] {
            let message = raw.get(&path).await.refused(404, "NotFound");
            assert_eq!(message, "the server could not find the requested resource", "{path}");
        }
    }

    /// docs/apiserver.md: rows 1, 5.
    async fn an_impossible_path_below_a_built_in_group_is_not_found(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for path in [
            "/api/v9", "/api/v9/pods", "/api/v1/pods/a/b/c", "/api/v1//pods", "/api//v1/pods",
            "/api/v1/namespaces/default//pods", "/apis/apps/v9", "/apis/apps/v9/deployments",
            "/apis/apps//v1", "/apis/apps/v1/a/b/c/d/e/f",
        ] {
            let message = raw.get(path).await.refused(404, "NotFound");
            assert_eq!(message, "the server could not find the requested resource", "{path}");
        }
        for path in [
            "//api/v1/pods", "/apis//apps/v1", "/apis/absent.windlass.dev/v1/a/b/c/d/e/f", "/healthz/",
            "/readyz/", "/livez/ping/", "/openapi/v2/",
        ] {
            let answer = raw.get(path).await;
            assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"), "{path}");
        }
        for path in ["/api/", "/api/v1/", "/apis/", "/apis/apps/", "/apis/apps/v1/", "/version/", "/api/v1/pods/"] {
            assert_eq!(raw.get(path).await.code, 200, "{path}");
        }
        let everywhere = raw.get("/api/v1/namespaces//pods").await.ok();
        assert_eq!(everywhere["kind"], "PodList");
    }

    /// docs/apiserver.md: rows 3, 4.
    async fn an_error_is_a_status_object(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let core = raw.get(&format!("{}/none", raw.maps())).await;
        assert_eq!(core.body, json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "configmaps \"none\" not found", "reason": "NotFound", "code": 404,
            "details": { "name": "none", "kind": "configmaps" },
        }));
        assert_eq!(core.content_type, "application/json");
        let leases = raw.at("/apis/coordination.k8s.io/v1", "leases");
        let grouped = raw.get(&format!("{leases}/none")).await;
        assert_eq!(grouped.body["message"], "leases.coordination.k8s.io \"none\" not found");
        assert_eq!(grouped.body["details"], json!({
            "name": "none", "group": "coordination.k8s.io", "kind": "leases",
        }));
    }

    /// docs/apiserver.md: rows 3, 6.
    async fn a_conflict_names_the_resource_and_an_invalid_object_its_kind(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        let twice = raw.post(&raw.maps(), &named("a")).await;
        assert_eq!(twice.body["details"], json!({ "name": "a", "kind": "configmaps" }));
        twice.refused(409, "AlreadyExists");
        let body = json!({ "metadata": { "name": "b", "labels": { "a b": "c" } } });
        let invalid = raw.post(&raw.maps(), &body).await;
        assert_eq!(invalid.body["details"]["kind"], "ConfigMap");
    }

    /// docs/apiserver.md: row 8.
    async fn the_error_of_an_invalid_object_names_its_fields(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let answer = raw.post(&raw.maps(), &named("Not_A_Name")).await;
        let details = answer.body["details"].clone();
        assert_eq!((&details["name"], &details["kind"]), (&json!("Not_A_Name"), &json!("ConfigMap")));
        let cause = &details["causes"][0];
        assert_eq!(cause["reason"], "FieldValueInvalid");
        assert_eq!(cause["field"], "metadata.name");
        let cause_message = cause["message"].as_str().expect("a message").to_owned();
        assert!(cause_message.starts_with("Invalid value: \"Not_A_Name\": "), "{cause_message}");
        let message = answer.refused(422, "Invalid");
        assert_eq!(message, format!("ConfigMap \"Not_A_Name\" is invalid: metadata.name: {cause_message}"));
    }

    /// docs/apiserver.md: row 9.
    async fn a_body_must_fit_its_url(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let maps = raw.maps();
        raw.post(&maps, &named("a")).await.ok();
        for body in [
            json!({ "apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": { "name": "b" } }),
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "b" } }),
            json!({ "metadata": { "name": "b", "labels": { "a": 1 } } }),
            json!({ "metadata": { "name": "b" }, "data": { "port": 80 } }),
            json!([]),
        ] {
            raw.post(&maps, &body).await.refused(400, "BadRequest");
        }
        let message = raw.put(&format!("{maps}/a"), &named("b")).await.refused(400, "BadRequest");
        assert_eq!(message, "the name of the object (b) does not match the name on the URL (a)");
        let json = [("content-type", "application/json")];
        raw.ask(Method::POST, &maps, &json, "{").await.refused(400, "BadRequest");
    }

    /// docs/apiserver.md: row 29.
    async fn the_namespace_is_that_of_the_url(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        assert_eq!(created["metadata"]["namespace"], cluster.namespace());
        let other = json!({ "metadata": { "name": "b", "namespace": "other" } });
        let message = raw.post(&raw.maps(), &other).await.refused(400, "BadRequest");
        assert_eq!(
            message,
            "the namespace of the provided object does not match the namespace sent on the request"
        );
    }

    /// docs/apiserver.md: row 10.
    async fn an_unsupported_verb_is_not_allowed(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widgets = Widget::served(&raw, &json!({ "type": "object" })).await;
        widgets.create("a", &json!({})).await;
        let merge = [("content-type", "application/merge-patch+json")];
        let status = format!("{}/status", widgets.one("a"));
        let unnamed = "the server does not allow this method on the requested resource".to_owned();
        let named = |verb: &str| format!(
            "{verb} is not supported on resources of kind \"widgets.{}\"", widgets.group
        );
        let reviews = raw.at("/apis/authorization.k8s.io/v1", "localsubjectaccessreviews");
        for (method, path, message) in [
            (Method::PUT, raw.maps(), unnamed.clone()),
            (Method::PATCH, raw.maps(), unnamed.clone()),
            (Method::POST, format!("{}/a", raw.maps()), unnamed.clone()),
            (Method::POST, raw.at("/api/v1", "pods/a/status"), unnamed.clone()),
            (Method::DELETE, raw.at("/api/v1", "pods/a/status"), unnamed.clone()),
            (Method::GET, reviews, unnamed),
            (Method::POST, status.clone(), named("create")),
            (Method::DELETE, status, named("delete")),
        ] {
            let answer = raw.ask(method.clone(), &path, &merge, "{}").await;
            let details = answer.body["details"].clone();
            let is_named = message.contains("widgets");
            assert_eq!(answer.refused(405, "MethodNotAllowed"), message, "{method} {path}");
            let expected = if is_named {
                json!({ "group": widgets.group, "kind": "widgets" })
            } else {
                json!({})
            };
            assert_eq!(details, expected, "{method} {path}");
        }
        for method in [Method::PUT, Method::PATCH] {
            let answer = raw.ask(method, &widgets.all(), &merge, "{}").await;
            assert_eq!(answer.refused(400, "BadRequest"), "name must be provided");
        }
    }

    /// docs/apiserver.md: rows 11, 23.
    async fn an_unsupported_content_type_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widgets = Widget::served(&raw, &json!({ "type": "object" })).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        widgets.create("a", &json!({})).await;
        let one = format!("{}/a", raw.maps());
        let unknown = "the body of the request was in an unknown format - accepted media types include:";
        let body = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let body = format!("{unknown} {body}");
        let patches = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        for content_type in ["text/plain", "application/cbor"] {
            for (method, path, message) in [
                (Method::POST, raw.maps(), body.clone()),
                (Method::PUT, one.clone(), body.clone()),
                (Method::DELETE, one.clone(), body.clone()),
                (Method::PATCH, one.clone(), "415: Unsupported Media Type".to_owned()),
                (Method::POST, widgets.all(), body.clone()),
                (Method::PUT, widgets.one("a"), body.clone()),
                (Method::DELETE, widgets.one("a"), body.clone()),
                (Method::PATCH, widgets.one("a"), format!("{unknown} {patches}")),
            ] {
                let headers = [("content-type", content_type)];
                let answer = raw.ask(method.clone(), &path, &headers, "name: a").await;
                let refused = answer.refused(415, "UnsupportedMediaType");
                assert_eq!(refused, message, "{method} {path} {content_type}");
            }
        }
    }

    /// docs/apiserver.md: rows 11, 23.
    async fn an_unsupported_accept_header_is_rejected(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widgets = Widget::served(&raw, &json!({ "type": "object" })).await;
        raw.post(&raw.maps(), &named("a")).await.ok();
        for accept in ["text/html", "application/cbor"] {
            let one = format!("{}/a", raw.maps());
            for path in [raw.maps(), one, format!("{}?watch=1", raw.maps()), widgets.all()] {
                let message = raw.get_as(&path, accept).await.refused(406, "NotAcceptable");
                // For built-in kinds, the router of the real server has other words.
                if path == widgets.all() {
                    assert_eq!(message, "only the following media types are accepted: application/json, \
                        application/yaml, application/vnd.kubernetes.protobuf");
                }
            }
        }
    }

    /// docs/apiserver.md: row 15.
    async fn the_timeout_of_a_request_is_a_duration(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for (timeout, error) in [
            ("nonsense", "invalid duration \"nonsense\""),
            ("5", "missing unit in duration \"5\""),
            ("5x", "unknown unit \"x\" in duration \"5x\""),
            ("9999999999h", "invalid duration \"9999999999h\""),
        ] {
            for path in [raw.maps(), "/version".to_owned(), "/api/v1".to_owned()] {
                let answer = raw.get(&format!("{path}?timeout={timeout}")).await;
                let message = answer.refused(400, "BadRequest");
                assert_eq!(message, format!("invalid timeout specified in the request URL - time: {error}"));
            }
        }
        for timeout in ["5s", "1h5m", "-1s", "0", "", "1000h"] {
            raw.get(&format!("{}?timeout={timeout}", raw.maps())).await.ok();
            let path = format!("{}?timeout={timeout}", raw.maps());
            raw.post(&path, &json!({ "metadata": { "generateName": "a" } })).await.ok();
        }
    }

    /// docs/apiserver.md: row 128.
    async fn the_first_common_media_type_is_used(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for accept in ["text/html, application/json", "*/*", "application/json;q=0.5"] {
            let answer = raw.get_as(&raw.maps(), accept).await;
            assert_eq!((answer.code, answer.content_type.as_str()), (200, "application/json"), "{accept}");
        }
    }

    /// docs/apiserver.md: row 12.
    async fn a_body_that_is_too_large_is_refused(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let body = json!({ "metadata": { "name": "a" }, "data": { "a": "x".repeat(3 << 20) } });
        let message = raw.post(&raw.maps(), &body).await.refused(413, "RequestEntityTooLarge");
        assert_eq!(message, "Request entity too large: limit is 3145728");
    }

    /// docs/apiserver.md: row 12.
    async fn the_limit_on_bodies_is_that_of_every_verb(cluster: Cluster) {
        const LIMIT: usize = 3 << 20;
        let raw = Raw::new(&cluster).await;
        let created = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        // Spaces between the tokens count too.
        let padded = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
        let kind = |patch: &str| format!("application/{patch}");
        let requests = [
            (Method::POST, raw.maps(), kind("json")),
            (Method::PUT, path.clone(), kind("json")),
            (Method::PATCH, path.clone(), kind("merge-patch+json")),
            (Method::PATCH, path.clone(), kind("strategic-merge-patch+json")),
            (Method::PATCH, path.clone(), kind("json-patch+json")),
            (Method::PATCH, format!("{path}?fieldManager=me"), kind("apply-patch+yaml")),
            (Method::DELETE, path.clone(), kind("json")),
        ];
        for (method, path, content_type) in requests {
            let headers = [("content-type", content_type.as_str())];
            let answer = raw.ask(method.clone(), &path, &headers, &padded(LIMIT + 1)).await;
            let message = answer.refused(413, "RequestEntityTooLarge");
            assert_eq!(message, "Request entity too large: limit is 3145728", "{method} {content_type}");
        }
        let headers = [("content-type", "application/merge-patch+json")];
        let answer = raw.ask(Method::PATCH, &path, &headers, &padded(LIMIT)).await;
        assert_eq!(answer.ok(), created, "a body of exactly this size is read");
    }

    /// docs/apiserver.md: row 22.
    async fn a_body_may_be_yaml(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let yaml = [("content-type", "application/yaml")];
        let answer = raw.ask(Method::POST, &raw.maps(), &yaml, "metadata:\n  name: a\n").await;
        assert_eq!(answer.ok()["metadata"]["name"], "a");
    }

    /// docs/apiserver.md: row 2.
    async fn watch_false_is_a_list(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        for query in ["watch=false", "watch=0"] {
            let list = raw.get(&format!("{}?{query}", raw.maps())).await.ok();
            assert_eq!(list["kind"], "ConfigMapList", "{query}");
        }
    }

    /// docs/apiserver.md: row 20.
    async fn a_rejected_object_has_warnings_about_its_unknown_fields(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let unknown = "299 - \"unknown field \\\"other\\\"\"";
        let mut map = named("A");
        map["other"] = 1.into();
        let invalid = raw.post(&raw.maps(), &map).await;
        assert_eq!((invalid.code, invalid.warning.as_str()), (422, unknown));
        let mut map = raw.post(&raw.maps(), &named("a")).await.ok();
        let path = format!("{}/a", raw.maps());
        let exists = json!({ "metadata": { "name": "a" }, "other": 1 });
        let exists = raw.post(&raw.maps(), &exists).await;
        assert_eq!((exists.code, exists.warning.as_str()), (409, unknown));
        let invalid = json!({ "data": { "a b": "c" }, "other": 1 });
        let invalid = raw.merge(&path, &invalid).await;
        assert_eq!((invalid.code, invalid.warning.as_str()), (422, unknown));
        map["other"] = 1.into();
        map["metadata"]["resourceVersion"] = "1".into();
        let conflict = raw.put(&path, &map).await;
        assert_eq!((conflict.code, conflict.warning.as_str()), (409, unknown));
        let strict = raw.put(&format!("{path}?fieldValidation=Strict"), &map).await;
        assert_eq!((strict.code, strict.warning.as_str()), (400, ""));
        let other = json!({ "metadata": { "name": "b" }, "other": 1 });
        for (path, code) in [(&path, 400), (&format!("{}/b", raw.maps()), 404)] {
            let rejected = raw.put(path, &other).await;
            assert_eq!((rejected.code, rejected.warning.as_str()), (code, unknown), "{path}");
        }
    }

    /// docs/apiserver.md: row 20.
    async fn warnings_are_sent_once_and_their_total_is_bounded(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let unknown = |name: &str, fields: Vec<String>| {
            let mut map = named(name);
            for field in fields {
                map[field] = 1.into();
            }
            map
        };
        // Each is whole, as long as they are 4,096 characters together.
        let long = vec!["é\"\\".to_owned(), "y".repeat(400), "x".repeat(400)];
        let mut sent = raw.post(&raw.maps(), &unknown("a", long.clone())).await.warnings;
        sent.sort_by_key(String::len);
        let whole = long.iter().map(|field| {
            let field = format!("{field:?}").replace('\\', r"\\").replace('"', "\\\"");
            format!("299 - \"unknown field {field}\"")
        });
        let mut whole: Vec<_> = whole.collect();
        whole[1..].sort();
        sent[1..].sort();
        assert_eq!(sent, whole);
        // Beyond that, each is cut at 256 characters.
        let many = (10..40).map(|number| format!("{number}{}", "x".repeat(300))).collect();
        let sent = raw.post(&raw.maps(), &unknown("b", many)).await.warnings;
        assert_eq!(sent.len(), 16);
        assert!(sent.iter().all(|warning| warning.len() == 265), "{sent:?}");
        let some = (10..90).map(|number| format!("{number}{}", "x".repeat(190))).collect();
        let sent = raw.post(&raw.maps(), &unknown("c", some)).await.warnings;
        assert_eq!(sent.len(), 20);
    }

    /// docs/apiserver.md: row 22.
    async fn a_response_is_yaml_if_the_client_accepts_it(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        raw.post(&raw.maps(), &json!({ "metadata": { "name": "a" }, "data": { "n": "1" } })).await.ok();
        for path in [
            format!("{}/a", raw.maps()),
            raw.maps(),
            format!("{}/none", raw.maps()),
            "/api/v1".to_owned(),
        ] {
            let plain = raw.get(&path).await;
            let yaml = raw.get_as(&path, "application/yaml").await;
            assert_eq!((yaml.code, yaml.content_type.as_str()), (plain.code, "application/yaml"), "{path}");
            let value: serde_json::Value = serde_yaml_ng::from_str(&yaml.text).expect("YAML");
            // Other tests write to the same server.
            let stable = |mut value: serde_json::Value| {
                if value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) {
                    value["metadata"] = serde_json::Value::Null;
                }
                value
            };
            assert_eq!(stable(value), stable(plain.body), "{path}");
        }
        let watch = format!("{}?watch=true&timeoutSeconds=1", raw.maps());
        assert_eq!(raw.get_as(&watch, "application/yaml").await.code, 406);
        let both = raw.get_as(&watch, "application/yaml,application/json").await;
        assert_eq!(both.code, 406, "YAML is preferred");
    }

    /// docs/apiserver.md: row 19.
    async fn a_large_response_is_compressed(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let large = json!({ "metadata": { "name": "large" }, "data": { "a": "x".repeat(140_000) } });
        raw.post(&raw.maps(), &large).await.ok();
        let small = json!({ "metadata": { "name": "small" }, "data": { "a": "x".repeat(120_000) } });
        raw.post(&raw.maps(), &small).await.ok();
        for (name, accepted, expected) in [
            ("large", "gzip", "gzip"),
            ("large", "br, gzip", "gzip"),
            ("large", "identity", ""),
            ("small", "gzip", ""),
        ] {
            let path = format!("{}/{name}", raw.maps());
            let answer = raw.ask(Method::GET, &path, &[("accept-encoding", accepted)], "").await;
            assert_eq!(answer.encoding, expected, "{name} {accepted}");
            assert_eq!(answer.body["kind"] == "ConfigMap", expected.is_empty(), "{name} {accepted}");
        }
        let headers = [("accept-encoding", "gzip"), ("content-type", "application/merge-patch+json")];
        let path = format!("{}/large", raw.maps());
        let answer = raw.ask(Method::PATCH, &path, &headers, "{}").await;
        assert_eq!(answer.encoding, "gzip", "not only reads are compressed");
    }
}
