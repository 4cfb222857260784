//! Webhooks: an operator validates, changes and converts the objects of its kind.

mod program;
mod real;
mod rig;
mod serving;

use std::collections::BTreeSet;

use http::{Request, header};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use windlass::Operator;

use self::rig::{Rig, admission, conversion, post, website};

const VALIDATE: &str = "/validate-website";
const MUTATE: &str = "/mutate-website";
const CONVERT: &str = "/convert-website";

/// The tests on both servers, and those that need a server which calls webhooks.
pub(crate) fn trials_of_all() -> Vec<Trial> {
    let mut trials = trials();
    trials.extend(serving::trials());
    trials.push(serving::on_a_blocked_runtime());
    trials.push(real::trial());
    trials
}

on_both_servers! {
    /// Rows: BO-64
    async fn requests_are_allowed_with_warnings_or_denied(cluster: Cluster) {
        let (rig, certificate) = Rig::start(&cluster, Operator::builder()).await;
        let null = Value::Null;
        let site = |title: &str| website(&json!({ "title": title }));
        let validate = async |operation: &str, object: &Value, old: &Value| {
            let review = admission(operation, object, old);
            let mut answer = rig.post(&certificate, VALIDATE, &review).await;
            assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
            assert_eq!(answer["kind"], "AdmissionReview");
            assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
            answer["response"].take()
        };
        let allowed = validate("CREATE", &site("a"), &null).await;
        assert_eq!((&allowed["allowed"], &allowed["warnings"]), (&json!(true), &null));
        let dark = website(&json!({ "title": "a", "theme": "dark" }));
        let allowed = validate("CREATE", &dark, &null).await;
        assert_eq!(allowed["allowed"], true);
        assert_eq!(allowed["warnings"], json!(["the theme dark is deprecated"]));
        let denied = validate("CREATE", &site(""), &null).await;
        assert_eq!(denied["allowed"], false);
        assert_eq!(denied["status"]["message"], "spec.title is empty");
        assert_eq!(denied["status"]["code"], 422);
        assert_eq!(denied["warnings"], json!(["a title has one word at least"]));

        // The old object of an update and of a delete.
        let denied = validate("UPDATE", &site("b"), &site("a")).await;
        assert_eq!(denied["status"]["message"], "spec.title cannot be changed");
        assert_eq!(denied["status"]["code"], 403);
        assert_eq!(validate("UPDATE", &site("a"), &site("a")).await["allowed"], true);
        let mut protected = site("a");
        protected["metadata"]["annotations"] = json!({ "hooks.windlass.dev/protected": "" });
        assert_eq!(validate("DELETE", &null, &site("a")).await["allowed"], true);
        let denied = validate("DELETE", &null, &protected).await;
        assert_eq!(denied["status"]["message"], "the website is protected");
        for dry_run in [false, true] {
            let mut review = admission("CREATE", &site("dry"), &null);
            review["request"]["dryRun"] = dry_run.into();
            let answer = rig.post(&certificate, VALIDATE, &review).await;
            assert_eq!(answer["response"]["warnings"], json!([format!("dry run: {dry_run}")]));
        }

        // What does not decode is denied, with the path and without the value.
        let bad = website(&json!({ "title": "a", "replicas": "secret" }));
        for (object, old, field) in [(&bad, &null, "object"), (&site("a"), &bad, "old object"), (&null, &bad, "old object")] {
            let denied = validate("UPDATE", object, old).await;
            let message = format!("the {field} does not decode: spec.replicas: invalid type, expected i32");
            assert_eq!(denied["status"]["message"], message);
            assert_eq!((&denied["allowed"], &denied["status"]["code"]), (&json!(false), &json!(400)));
        }
        // Also an object of another version, whose fields may have another meaning.
        let mut old = site("a");
        old["apiVersion"] = "hooks.windlass.dev/v1beta1".into();
        let denied = validate("CREATE", &old, &null).await;
        let part = "the object is a Website of hooks.windlass.dev/v1beta1, and the webhook takes Website of hooks.windlass.dev/v1;";
        assert!(denied["status"]["message"].as_str().is_some_and(|it| it.contains(part)), "{denied}");
        assert_eq!(rig.metric("webhook_refused_total"), [format!("webhook_refused_total{{webhook=\"{VALIDATE}\"}} 7")]);
        let requests = rig.metric("controller_runtime_webhook_requests_total");
        assert_eq!(requests, [format!("controller_runtime_webhook_requests_total{{code=\"200\",webhook=\"{VALIDATE}\"}} 13")]);
        assert!(!rig.metric("controller_runtime_webhook_latency_seconds_bucket").is_empty());
        rig.stop().await;
    }

    /// Rows: BO-64
    async fn only_what_a_mutating_webhook_has_changed_is_patched(cluster: Cluster) {
        let (rig, certificate) = Rig::start(&cluster, Operator::builder()).await;
        let mutate = async |operation: &str, object: &Value, old: &Value| {
            let answer = rig.post(&certificate, MUTATE, &admission(operation, object, old)).await;
            assert_eq!(answer["response"]["allowed"], true, "{answer}");
            if answer["response"]["patch"].is_null() {
                return json!([]);
            }
            assert_eq!(answer["response"]["patchType"], "JSONPatch");
            let patch: Vec<u8> = serde_json::from_value(answer["response"]["patch"].clone()).expect("bytes");
            serde_json::from_slice(&patch).expect("a patch")
        };
        // Neither a field that the type does not have, nor one that it writes as null.
        let site = website(&json!({ "title": "a", "newer": { "field": 1 } }));
        let patch = mutate("CREATE", &site, &Value::Null).await;
        assert_eq!(patch, json!([{ "op": "add", "path": "/spec/replicas", "value": 1 }]));
        let site = website(&json!({ "title": "a", "replicas": null }));
        let patch = mutate("UPDATE", &site, &site).await;
        assert_eq!(patch, json!([{ "op": "replace", "path": "/spec/replicas", "value": 1 }]));
        let complete = website(&json!({ "title": "a", "replicas": 3 }));
        assert_eq!(mutate("UPDATE", &complete, &site).await, json!([]));
        assert_eq!(mutate("DELETE", &Value::Null, &site).await, json!([]));
        let bad = website(&json!({ "title": 7 }));
        assert_eq!(mutate("DELETE", &Value::Null, &bad).await, json!([]));
        rig.stop().await;
    }

    /// Rows: BO-64
    async fn objects_are_converted_between_versions(cluster: Cluster) {
        let (rig, certificate) = Rig::start(&cluster, Operator::builder()).await;
        let convert = async |version: &str, objects: &[Value]| {
            let review = conversion(version, objects);
            let mut answer = rig.post(&certificate, CONVERT, &review).await;
            assert_eq!(answer["apiVersion"], "apiextensions.k8s.io/v1");
            assert_eq!(answer["kind"], "ConversionReview");
            assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
            answer["response"].take()
        };
        let mut new = website(&json!({ "title": "a", "replicas": 2, "theme": "light", "newer": { "field": 1 } }));
        new["metadata"]["uid"] = "1".into();
        new["metadata"]["managedFields"] = json!([{ "manager": "kubectl", "newer": 1 }]);
        let mut old = new.clone();
        old["apiVersion"] = "hooks.windlass.dev/v1beta1".into();
        old["spec"] = json!({ "title": "a", "size": 2, "newer": { "field": 1 } });
        old["metadata"]["annotations"] = json!({ "hooks.windlass.dev/theme": "light" });

        // Objects of several versions, in order. The metadata stays except for annotations, and a field
        // that neither type has stays too.
        let answer = convert("v1beta1", &[new.clone(), old.clone()]).await;
        assert_eq!(answer["result"]["status"], "Success");
        assert_eq!(answer["convertedObjects"], json!([old, old]));
        let answer = convert("v1", &[old.clone(), new.clone()]).await;
        new["metadata"]["annotations"] = json!({});
        let mut unchanged = new.clone();
        unchanged["metadata"].as_object_mut().expect("an object").remove("annotations");
        assert_eq!(answer["convertedObjects"], json!([new, unchanged]));

        // Also one whose value could be a default.
        for value in [json!(false), json!(0), json!(""), json!([]), json!({})] {
            let (mut new, mut old) = (new.clone(), old.clone());
            new["spec"]["newer"] = value.clone();
            old["spec"]["newer"] = value;
            let answer = convert("v1", std::slice::from_ref(&old)).await;
            assert_eq!(answer["convertedObjects"], json!([new]));
        }

        // One failure fails the review, and its message names the object.
        let mut bad = old.clone();
        bad["metadata"]["name"] = "shop".into();
        bad["spec"]["size"] = (-1).into();
        let answer = convert("v1", &[old.clone(), bad]).await;
        assert_eq!(answer["result"]["status"], "Failure");
        let message = "cannot convert Website default/shop from hooks.windlass.dev/v1beta1 to \
                       hooks.windlass.dev/v1: spec.size is negative";
        assert_eq!(answer["result"]["message"], message);
        assert_eq!(answer["convertedObjects"], json!([]));
        let message = async |version: &str, object: &Value| {
            let mut answer = convert(version, std::slice::from_ref(object)).await;
            answer["result"]["message"].take()
        };
        let answer = message("v2", &old).await;
        let end = "this webhook has the versions hooks.windlass.dev/v1, hooks.windlass.dev/v1beta1";
        assert!(answer.as_str().is_some_and(|it| it.ends_with(end)), "{answer}");
        old["kind"] = "Shop".into();
        let answer = message("v1", &old).await;
        assert!(answer.as_str().is_some_and(|it| it.ends_with("this webhook converts Website")), "{answer}");
        assert_eq!(rig.metric("webhook_refused_total"), [format!("webhook_refused_total{{webhook=\"{CONVERT}\"}} 3")]);
        rig.stop().await;
    }

    /// The API server then acts by the `failurePolicy` of the webhook.
    ///
    /// Rows: BO-64
    async fn without_a_decision_the_status_says_why(cluster: Cluster) {
        let (rig, certificate) = Rig::start(&cluster, Operator::builder()).await;
        let review = |title: &str| {
            admission("CREATE", &website(&json!({ "title": title })), &Value::Null).to_string()
        };
        let good = review("a");
        let refused = async |request: Request<_>, status: u16, part: &str| {
            let (found, text) = rig.send(&certificate, request).await.expect("a response");
            assert!(found == status && text.contains(part), "{part:?} and {status}: {found} {text}");
        };
        refused(post(VALIDATE, review("panic")), 500, "panicked").await;
        // The API server waits for a second, and has the response before.
        let hangs = post(&format!("{VALIDATE}?timeout=1s"), review("hang"));
        refused(hangs, 500, "did not answer within 500ms").await;
        refused(post("/unknown", good.clone()), 404, "/validate-website").await;
        let get = Request::get(VALIDATE).body(Vec::new().into()).expect("a request");
        refused(get, 405, "POST").await;
        for kind in ["text/plain", "application/yaml"] {
            let mut request = post(VALIDATE, good.clone());
            request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().expect("a value"));
            refused(request, 415, "application/json").await;
        }
        refused(post(VALIDATE, "{".to_owned()), 400, "not valid JSON").await;
        refused(post(VALIDATE, "7".to_owned()), 400, "AdmissionReview").await;
        refused(post(CONVERT, good.clone()), 400, "ConversionReview").await;
        let older = good.replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1");
        refused(post(VALIDATE, older), 400, "only admission.k8s.io/v1 is supported").await;
        let response = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview" });
        refused(post(VALIDATE, response.to_string()), 400, "no request").await;
        refused(post(VALIDATE, good.replace("\"uid\"", "\"no\"")), 400, "missing field `uid`").await;
        // Two objects of the largest size that is stored, of characters that Go escapes.
        let large = json!({ "title": "a", "theme": "<".repeat(3 * 512 * 1024) });
        let large = admission("UPDATE", &website(&large), &website(&large)).to_string();
        let large = large.replace('<', "\\u003c");
        refused(post(&format!("{VALIDATE}?timeout=30s"), large), 200, "\"allowed\":true").await;
        // Not much larger than the limit: the server stops to read there.
        refused(post(VALIDATE, " ".repeat(20 * 1024 * 1024 + 1)), 413, "20971520").await;
        // A conversion has all objects of a list.
        refused(post(CONVERT, " ".repeat(20 * 1024 * 1024 + 1)), 400, "not valid JSON").await;
        refused(post(CONVERT, " ".repeat(64 * 1024 * 1024 + 1)), 413, "67108864").await;
        // Only paths and statuses of the program are labels.
        let labels: BTreeSet<_> = rig.metric("controller_runtime_webhook_requests_total").into_iter().collect();
        assert_eq!(labels.len(), 8, "{labels:?}");
        rig.stop().await;
    }
}
