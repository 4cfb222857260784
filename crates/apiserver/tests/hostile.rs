//! Small requests with a high cost: the server rejects them, or bounds their cost.

use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

mod support;

use support::{answer, request, watch, widget_definition};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn patch(server: &ApiServer, path: &str, kind: &str, body: String) -> (StatusCode, Value) {
    let request = Request::patch(path)
        .header("content-type", kind)
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let (parts, body) = answer(server, request).await;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    (parts.status, body)
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_of_copies_that_double_the_object_is_refused() {
    let server = ApiServer::new();
    let map = json!({ "metadata": { "name": "a", "labels": { "k": "v" } } });
    request(&server, Method::POST, MAPS, Some(&map)).await;
    let mut operations = vec![json!({ "op": "add", "path": "/x", "value": [] })];
    let copy = json!({ "op": "copy", "from": "", "path": "/x/-" });
    operations.extend(vec![copy; 40]);
    let (code, status) = patch(
        &server,
        &format!("{MAPS}/a"),
        "application/json-patch+json",
        Value::Array(operations).to_string(),
    )
    .await;
    assert_eq!(code, 422, "{status}");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("Unable to complete the copy, the accumulated size increase"),
        "{message}"
    );
    let (code, _) = request(&server, Method::GET, &format!("{MAPS}/a"), None).await;
    assert_eq!(code, 200, "the server continues to run");
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_that_nests_without_end_is_refused() {
    let server = ApiServer::new();
    let map = json!({ "metadata": { "name": "a" } });
    request(&server, Method::POST, MAPS, Some(&map)).await;
    let nest = json!({ "op": "copy", "from": "", "path": "/x" });
    let (code, status) = patch(
        &server,
        &format!("{MAPS}/a"),
        "application/json-patch+json",
        Value::Array(vec![nest; 200]).to_string(),
    )
    .await;
    assert_eq!(code, 422, "{status}");
}

/// docs/apiserver.md: "Limits".
#[tokio::test(start_paused = true)]
async fn a_body_that_nests_too_deeply_is_malformed() {
    let server = ApiServer::new();
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = definition_of(&json!({ "free": free }));
    request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    let object = |name: &str, levels: usize| {
        let value = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        format!(
            r#"{{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{{"free":{{"a":{value}}}}}}}"#
        )
    };
    let send = async |method: Method, path: &str, kind: &str, body: String| {
        let builder = Request::builder().method(method).uri(path);
        let sent = builder
            .header("content-type", kind)
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        let (parts, body) = answer(&server, sent).await;
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        (parts.status.as_u16(), status)
    };
    // The object, its spec and `free` are three levels of the 127.
    let json = "application/json";
    let (code, created) = send(Method::POST, widgets, json, object("a", 124)).await;
    assert_eq!(code, 201, "{created}");
    let one = format!("{widgets}/a");
    let (code, status) = send(Method::POST, widgets, json, object("b", 125)).await;
    assert_eq!(code, 400, "{status}");
    // YAML may nest one level more.
    for levels in [126, 1000, 10_000, 1_000_000] {
        for (method, path, kind) in [
            (Method::POST, widgets, json),
            (Method::POST, widgets, "application/yaml"),
            (Method::PUT, &*one, json),
            (Method::PATCH, &*one, "application/merge-patch+json"),
            (
                Method::PATCH,
                &*format!("{one}?fieldManager=me"),
                "application/apply-patch+yaml",
            ),
            (Method::POST, MAPS, json),
            (Method::DELETE, &*one, json),
        ] {
            let (code, status) = send(method.clone(), path, kind, object("a", levels)).await;
            assert_eq!(
                (code, &status["reason"]),
                (400, &json!("BadRequest")),
                "{levels} {method} {kind}: {status}"
            );
        }
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let operation = format!(r#"[{{"op":"add","path":"/spec/free/b","value":{deep}}}]"#);
        let kind = "application/json-patch+json";
        let (code, status) = send(Method::PATCH, &one, kind, operation).await;
        assert_eq!(code, 400, "{levels}: {status}");
    }
    let (code, _) = request(&server, Method::GET, &one, None).await;
    assert_eq!(code, 200, "the server continues to run");
}

/// The definition of a kind whose spec has these fields.
fn definition_of(fields: &Value) -> Value {
    let mut definition = widget_definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({ "type": "object", "properties": fields });
    definition
        .pointer_mut("/spec/versions/0")
        .and_then(Value::as_object_mut)
        .map(|version| version.remove("selectableFields"));
    definition
}

#[tokio::test(start_paused = true)]
async fn patterns_that_are_large_together_are_refused() {
    let server = ApiServer::new();
    let fields: serde_json::Map<_, _> = (0..200)
        .map(|number| {
            let pattern = format!("^(a{number}|\\pL{{1,40}}){{1,{}}}$", 40 + number % 7);
            let schema = json!({ "type": "string", "pattern": pattern });
            (format!("f{number}"), schema)
        })
        .collect();
    let definition = definition_of(&fields.into());
    let (code, status) = request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
    assert_eq!((code.as_u16(), &status["reason"]), (422, &json!("Invalid")));
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("expression too large"), "{message}");
}

/// The definition of a kind called `names`, whose patterns take 24 MiB.
fn definition_with_patterns(names: &str) -> Value {
    let fields: serde_json::Map<_, _> = (0..6)
        .map(|number| {
            let pattern = format!("^{}{number}$", "[a-y]{0,1000}".repeat(15));
            let schema = json!({ "type": "string", "pattern": pattern });
            (format!("f{number}"), schema)
        })
        .collect();
    let mut definition = definition_of(&fields.into());
    definition["metadata"]["name"] = format!("{names}.ex.io").into();
    definition["spec"]["names"] = json!({ "plural": names, "kind": names });
    definition
}

/// Each of these definitions is accepted alone.
#[tokio::test(start_paused = true)]
async fn the_patterns_of_many_definitions_take_a_bounded_amount_of_memory() {
    let server = ApiServer::new();
    let create = async |number: usize| {
        let definition = definition_with_patterns(&format!("kind{number}"));
        request(&server, Method::POST, DEFINITIONS, Some(&definition)).await
    };
    for number in 0..10 {
        let (code, status) = create(number).await;
        assert_eq!(code, 201, "{status}");
    }
    let (code, status) = create(10).await;
    assert_eq!(code, 422, "256 MiB are taken");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("the patterns of all definitions together"),
        "{message}"
    );

    let first = format!("{DEFINITIONS}/kind0.ex.io");
    let (code, _) = request(&server, Method::DELETE, &first, None).await;
    assert_eq!(code, 200);
    let (code, status) = create(10).await;
    assert_eq!(
        code, 201,
        "the definition that went gave its memory back: {status}"
    );
    let object = json!({
        "apiVersion": "ex.io/v1", "kind": "kind10", "metadata": { "name": "a" },
        "spec": { "f0": "no number at the end" },
    });
    let path = "/apis/ex.io/v1/namespaces/default/kind10";
    let (code, _) = request(&server, Method::POST, path, Some(&object)).await;
    assert_eq!(code, 422, "its patterns are checked");
}

#[tokio::test(start_paused = true)]
async fn a_pattern_of_brackets_and_a_pattern_that_is_too_long_are_refused() {
    let server = ApiServer::new();
    for (pattern, part) in [
        ("a[".to_owned() + &"[".repeat(16_000), "pattern"),
        (
            "a".repeat(20_000),
            "Too long: may not be more than 16384 bytes",
        ),
    ] {
        let definition = definition_of(&json!({ "f": { "type": "string", "pattern": pattern } }));
        let (code, status) = request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
        assert_eq!(code, 422);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains(part), "{}", &message[..200]);
    }
}

/// The slowest patterns take 0.04 to 0.2 ns for each byte of the text and of the compiled pattern, in
/// which other writes wait.
/// Rules in CEL are parsed recursively, by a library.
#[tokio::test(start_paused = true)]
async fn rules_that_nest_deeply_or_are_too_long_are_rejected_or_parsed() {
    let server = ApiServer::new();
    // The longest rule that is parsed, in bytes.
    let long = 16 << 10;
    let repeat = |start: &str, part: &str, end: &str| {
        start.to_owned() + &part.repeat((long - start.len()) / part.len()) + end
    };
    for (rule, is_accepted) in [
        (repeat("self", ".b", ""), true),
        (repeat("1", "+1", ""), true),
        (repeat("", "(", ""), false),
        (repeat("", "[", ""), false),
        (repeat("", "!", ""), false),
        (repeat("", "a?", ""), false),
        (repeat("self", ".b", ".b"), false),
    ] {
        let mut fields = json!({ "a": { "type": "object" } });
        fields["a"]["x-kubernetes-validations"] = json!([{ "rule": rule }]);
        let definition = definition_of(&fields);
        let (code, status) = request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
        let start = &rule[..8];
        assert_eq!(
            code,
            if is_accepted { 201 } else { 422 },
            "{start}: {status}"
        );
        let length = status["message"].as_str().unwrap_or_default().len();
        assert!(length < 64 << 10, "{start}: {length} bytes");
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        request(
            &server,
            Method::DELETE,
            &format!("{DEFINITIONS}/{name}"),
            None,
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_text_that_takes_too_long_to_match_is_refused() {
    let server = ApiServer::new();
    let string = |pattern| json!({ "type": "string", "pattern": pattern });
    let properties = json!({
        "large": string("[ab]*a[ab]{7000}c"),
        "negated": { "type": "string", "not": { "pattern": "[ab]*a[ab]{7000}c" } },
        "any": string("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        "list": { "type": "array", "items": string("^[ab]{0,400}") },
    });
    let definition = definition_of(&properties);
    let (code, status) = request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
    assert_eq!(code, 201, "{status}");
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    let text = "ab".repeat(1_000_000);
    let parts = vec!["ab".repeat(140_000); 10];
    for (name, spec, code) in [
        ("long", json!({ "large": text }), 422),
        ("many", json!({ "list": parts }), 422),
        // The skipped pattern must not count as one that does not match.
        ("negated", json!({ "negated": text }), 422),
        ("fits", json!({ "any": text[..1_000_000] }), 201),
    ] {
        let widget = json!({
            "apiVersion": "ex.io/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec,
        });
        let (answered, status) = request(&server, Method::POST, widgets, Some(&widget)).await;
        assert_eq!(answered, code, "{name}");
        let message = status["message"].as_str().unwrap_or_default();
        let is_too_long = message.contains("too long for the patterns");
        assert_eq!(is_too_long, code == 422, "{name}");
        assert!(message.len() < 1_000, "{name}: the text is not repeated");
    }
}

#[tokio::test(start_paused = true)]
async fn a_schema_of_too_many_nodes_is_refused() {
    let server = ApiServer::new();
    let fields: serde_json::Map<_, _> = (0..100_001)
        .map(|number| (number.to_string(), json!({ "type": "string" })))
        .collect();
    let definition = definition_of(&fields.into());
    let (code, status) = request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("100000 nodes"), "{}", &message[..200]);
}

#[tokio::test(start_paused = true)]
async fn yaml_whose_aliases_multiply_is_refused() {
    let server = ApiServer::new();
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in ["b", "c", "d", "e", "f", "g", "h"]
        .iter()
        .zip("abcdefg".chars())
    {
        let refs = vec![format!("*{before}"); 10].join(", ");
        for part in [name, ": &", name, " [", &refs, "]\n"] {
            text.push_str(part);
        }
    }
    let request = Request::post(MAPS)
        .header("content-type", "application/yaml")
        .body(Full::new(Bytes::from(text)))
        .expect("a request");
    let (parts, _) = answer(&server, request).await;
    assert_eq!(parts.status, 400);
}

#[tokio::test(start_paused = true)]
async fn the_history_of_large_objects_is_bounded_by_its_bytes() {
    let server = ApiServer::builder()
        .history_bytes(NonZeroUsize::new(1024 * 1024).expect("more than none"))
        .start();
    let map = |n: usize| {
        json!({
            "metadata": { "name": "a" }, "data": { "k": "x".repeat(100_000), "n": n.to_string() },
        })
    };
    let path = format!("{MAPS}/a");
    request(&server, Method::POST, MAPS, Some(&map(0))).await;
    let first = server.resource_version();
    for n in 1..20 {
        request(&server, Method::PUT, &path, Some(&map(n))).await;
    }
    let since = |version: u64| format!("{MAPS}?watch=1&resourceVersion={version}");
    let mut old = watch(&server, &since(first), "application/json").await;
    assert_eq!(old.next_line().await, "ERROR 410");
    let recent = server.resource_version() - 2;
    let mut recent = watch(&server, &since(recent), "application/json").await;
    assert_eq!(recent.next_line().await, "MODIFIED a");
}

#[tokio::test(start_paused = true)]
async fn writes_above_the_age_limit_are_dropped() {
    let server = ApiServer::new();
    let map = json!({ "metadata": { "name": "a" } });
    request(&server, Method::POST, MAPS, Some(&map)).await;
    let first = server.resource_version();
    let write = |n: u8| {
        let map = json!({ "metadata": { "name": "a" }, "data": { "n": n.to_string() } });
        let server = server.clone();
        async move { request(&server, Method::PUT, &format!("{MAPS}/a"), Some(&map)).await }
    };
    write(1).await;
    let from_first = format!("{MAPS}?watch=1&resourceVersion={first}");
    tokio::time::advance(Duration::from_secs(299)).await;
    write(2).await;
    let mut early = watch(&server, &from_first, "application/json").await;
    assert_eq!(early.next_line().await, "MODIFIED a");
    tokio::time::advance(Duration::from_secs(2)).await;
    write(3).await;
    let mut late = watch(&server, &from_first, "application/json").await;
    assert_eq!(late.next_line().await, "ERROR 410");
}

/// Each of these takes minutes where every item is compared with every other one, and otherwise a
/// few seconds.
#[test]
fn the_cost_of_invalid_or_duplicate_items_is_linear() {
    const LIMIT: Duration = Duration::from_secs(100);
    let (send, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(many_items());
        _ = send.send(());
    });
    let ended = ended.recv_timeout(LIMIT);
    ended.expect("each item takes the same time, and the thread does not panic");
}

/// Defaults within the elements of defaults multiply.
#[tokio::test(start_paused = true)]
async fn defaults_that_multiply_are_refused() {
    let server = ApiServer::new();
    let mut nested = json!({ "type": "object", "properties": { "x": { "type": "string" } } });
    for _ in 0..5 {
        nested = json!({ "type": "object", "properties": { "a": {
            "type": "array", "default": vec![json!({}); 1_000], "items": nested,
        } } });
    }
    let long = json!({ "type": "array", "items": {
        "type": "object", "properties": { "x": { "type": "string", "default": "x".repeat(100_000) } },
    } });
    let definition = definition_of(&json!({ "nested": nested, "long": long }));
    let (code, status) = request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
    assert_eq!(code, 201, "{status}");
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    for spec in [
        json!({ "nested": {} }),
        json!({ "long": vec![json!({}); 100_000] }),
    ] {
        let widget = json!({
            "apiVersion": "ex.io/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": spec,
        });
        let (code, status) = request(&server, Method::POST, widgets, Some(&widget)).await;
        assert_eq!(code, 413, "{status}");
        let message = status["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("the defaults of Widget take more than 16 MiB"),
            "{message}"
        );
    }
    let (code, _) = request(&server, Method::GET, MAPS, None).await;
    assert_eq!(code, 200, "the server continues to run");
}

/// A fault contains all allowed values.
#[tokio::test(start_paused = true)]
async fn the_faults_of_an_object_have_a_bounded_length() {
    let server = ApiServer::new();
    let allowed: Vec<_> = (0..20_000)
        .map(|number| format!("value-{number:040}"))
        .collect();
    let items = json!({ "type": "array", "items": { "type": "string", "enum": allowed } });
    let definition = definition_of(&json!({ "list": items }));
    let (code, status) = request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
    assert_eq!(code, 201, "{status}");
    let values: Vec<_> = (0..50_000).map(|number| number.to_string()).collect();
    let widget = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget", "metadata": { "name": "a" },
        "spec": { "list": values },
    });
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    let (code, status) = request(&server, Method::POST, widgets, Some(&widget)).await;
    assert_eq!(code, 422);
    let causes = status["details"]["causes"].as_array().expect("causes");
    assert!((1..100).contains(&causes.len()), "{} causes", causes.len());
}

async fn many_items() {
    const MANY: usize = 50_000;
    let server = ApiServer::new();
    let items = json!({ "type": "array", "items": { "type": "string" } });
    let definition = definition_of(&json!({ "list": items }));
    request(&server, Method::POST, DEFINITIONS, Some(&definition)).await;
    let widget = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget", "metadata": { "name": "a" },
        "spec": { "list": vec![1; MANY] },
    });
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    let (code, status) = request(&server, Method::POST, widgets, Some(&widget)).await;
    assert_eq!(code, 422);
    let causes = status["details"]["causes"].as_array().expect("causes");
    assert_eq!(causes.len(), MANY);

    let owner = |number: usize| json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": number.to_string() });
    let owners: Vec<_> = (0..MANY / 2).map(owner).collect();
    let map = json!({ "metadata": { "name": "a", "ownerReferences": owners } });
    let without_garbage = ApiServer::builder().garbage_collection(false).start();
    let (code, _) = request(&without_garbage, Method::POST, MAPS, Some(&map)).await;
    assert_eq!(code, 201);

    let map = json!({ "metadata": { "name": "a", "finalizers": ["a.b/0"] } });
    request(&server, Method::POST, MAPS, Some(&map)).await;
    let finalizers: Vec<_> = (0..MANY)
        .rev()
        .map(|number| format!("a.b/{number}"))
        .collect();
    let change = json!({ "metadata": {
        "finalizers": finalizers, "$setElementOrder/finalizers": finalizers,
    } });
    let kind = "application/strategic-merge-patch+json";
    let path = format!("{MAPS}/a?dryRun=All");
    let (code, patched) = patch(&server, &path, kind, change.to_string()).await;
    assert_eq!(code, 200);
    assert_eq!(patched["metadata"]["finalizers"], json!(finalizers));
}
