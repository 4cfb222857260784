//! Random requests: methods, forms of paths, options, headers and bodies that a client can combine
//! in a right or wrong way. Each answer of the real server is that of the embedded one, and so is
//! the object after a write.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::Method;
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::generator::{Generator, Request, Setup};
use super::super::raw::{Answer, Raw};
use super::super::widget::{DEFINITIONS, Widget};
use super::sequences::{custom, masked_answer, serve};
use super::{KINDS, NAMED_BY_CONTENT, Pair};
use crate::cluster::number;

mod target;

mod bodies;
mod generator;
mod options;

mod known;

/// How many requests are sent without `WINDLASS_REQUESTS`.
const COUNT: u64 = 100;

/// How many requests that only read are under way at the same time. A watch ends after one second.
const PARALLEL: usize = 24;

/// How many of the requests that differ are shortened. Each takes about 10 requests.
const SHORTENED: usize = 400;

/// The longest time that a request may take: longer than the three seconds for which both servers
/// wait for a future version.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kinds whose names are those of pods.
const OF_PODS: [&str; 6] = [
    "CronJob",
    "Deployment",
    "Job",
    "Pod",
    "ReplicaSet",
    "ReplicationController",
];

/// Both servers, and the objects that are only read.
struct Session<'a> {
    servers: [&'a Raw; 2],
    /// The namespace of objects that are only read.
    read_only: String,
    /// The namespace whose collections are deleted.
    deleted: String,
}

/// The answers of both servers, masked.
struct Outcome {
    answers: [Value; 2],
}

// === impl Outcome ===

impl Outcome {
    fn differs(&self) -> bool {
        self.answers[0] != self.answers[1]
    }

    /// The request, and the parts of the answers that differ.
    fn report(&self, request: &Request) -> String {
        let [mut theirs, mut ours] = self.answers.clone();
        let codes = [&theirs, &ours].map(|it| it["code"].clone());
        remove_equal(&mut theirs, &mut ours);
        let [left, right] = codes;
        format!("{request}\n  the server: {left} {theirs}\n  the embedded one: {right} {ours}")
    }
}

// === impl Session ===

impl Session<'_> {
    /// Sends a request to both servers; `name` is that of its object.
    async fn run(&self, request: &Request, name: &str) -> Outcome {
        let namespace = match request.setup {
            Setup::Read => &self.read_only,
            Setup::Collection => &self.deleted,
            Setup::Object | Setup::Held | Setup::Absent => &self.servers[0].namespace,
        };
        let mut answers = Vec::new();
        for raw in self.servers {
            answers.push(self.ask(raw, request, name, namespace).await);
        }
        let answers = answers.try_into().expect("two servers");
        Outcome { answers }
    }

    /// Prepares the object of a request, sends it, and reads the object.
    async fn ask(&self, raw: &Raw, request: &Request, name: &str, namespace: &str) -> Value {
        let target = &request.target;
        let collection = target.collection(namespace);
        let one = format!("{collection}/{name}");
        let mut object = target.object.clone();
        object["metadata"]["name"] = name.into();
        if target.namespaced {
            object["metadata"]["namespace"] = namespace.into();
        }
        let shown = match request.setup {
            Setup::Read => raw.get(&one).await.body,
            Setup::Absent => Value::Null,
            Setup::Object | Setup::Collection => raw.post(&collection, &object).await.body,
            Setup::Held => {
                object["metadata"]["finalizers"] = json!(["windlass.dev/held"]);
                raw.post(&collection, &object).await.body
            }
        };
        let metadata = |field: &str| shown["metadata"][field].as_str().unwrap_or("0").to_owned();
        let (version, uid) = (metadata("resourceVersion"), metadata("uid"));
        let filled = |text: &str| {
            text.replace("@NAME@", name)
                .replace("@NAMESPACE@", namespace)
                .replace("@VERSION@", &version)
                .replace("@UID@", &uid)
        };
        let path = filled(&request.uri());
        let headers: Vec<_> = [("user-agent", "requests/1")]
            .into_iter()
            .chain(request.headers.iter().copied())
            .collect();
        let body = filled(&request.body);
        let answer = raw.try_ask(request.method.clone(), &path, &headers, &body);
        let mut created = None;
        let mut result = match timeout(TIMEOUT, answer).await {
            Ok(Ok(answer)) => {
                if answer.code == 201 && answer.body["metadata"]["name"] != name {
                    created = answer.body["metadata"]["name"].as_str().map(str::to_owned);
                }
                summary(&answer, request, name)
            }
            Ok(Err(_)) => json!("no answer"),
            Err(_) => json!("no answer in time"),
        };
        if let Setup::Read = request.setup {
            return result;
        }
        let after = if let Setup::Collection = request.setup {
            raw.get(&collection).await
        } else {
            raw.get(&one).await
        };
        result["after"] = masked_answer(&after)["body"].clone();
        if let Setup::Collection = request.setup {
            let now = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
            raw.delete_so(&collection, &now).await;
        }
        if matches!(request.setup, Setup::Held) {
            raw.merge(&one, &json!({ "metadata": { "finalizers": null } }))
                .await;
        }
        if let Some(created) = created {
            raw.delete(&format!("{collection}/{created}")).await;
        }
        if !matches!(request.setup, Setup::Collection) {
            let now = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
            raw.delete_so(&one, &now).await;
        }
        // Both servers have other versions and uids.
        let mut text = result.to_string();
        for (value, mark) in [(&version, "@VERSION@"), (&uid, "@UID@")] {
            if value.len() > 1 {
                text = text.replace(&format!("({value})"), mark);
                text = text.replace(&format!("\\\"{value}\\\""), mark);
            }
        }
        serde_json::from_str(&text).expect("it was a value")
    }

    /// Leaves out each option, header and the body, if the answers still differ without them.
    async fn shortest(
        &self,
        request: &Request,
        number: u64,
        namespace: &str,
    ) -> (Request, Outcome) {
        let mut shortest = request.clone();
        let mut run = 1;
        let mut outcome = self
            .run(request, &request.name(number, run, namespace))
            .await;
        loop {
            let mut is_shorter = false;
            for shorter in shortest.shorter() {
                run += 1;
                let name = shorter.name(number, run, namespace);
                let other = self.run(&shorter, &name).await;
                if other.differs() && known::rule(&shorter, &other.answers).is_none() {
                    shortest = shorter;
                    outcome = other;
                    is_shorter = true;
                    break;
                }
            }
            if !is_shorter {
                return (shortest, outcome);
            }
        }
    }
}

/// Removes the members that two values have in common.
fn remove_equal(left: &mut Value, right: &mut Value) {
    let (Some(left), Some(right)) = (left.as_object_mut(), right.as_object_mut()) else {
        return;
    };
    left.retain(|name, value| match right.get_mut(name) {
        Some(other) if other == value => {
            right.remove(name);
            false
        }
        Some(other) => {
            remove_equal(value, other);
            true
        }
        None => true,
    });
}

/// Hides what always differs: descriptions of columns, addresses and uids in tables, and the user
/// of the client.
fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name != "userInfo");
            for (name, value) in members.iter_mut() {
                let is_cells = name == "cells";
                match value {
                    Value::Array(columns) if name == "columnDefinitions" => {
                        for column in columns {
                            column["description"] = Value::Null;
                        }
                    }
                    Value::Array(cells) if is_cells => cells.iter_mut().for_each(hide_cell),
                    value => hide(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

/// Hides a cell that has another value on each server.
fn hide_cell(cell: &mut Value) {
    if let Some(text) = cell.as_str() {
        let is_age =
            text.ends_with('s') && text[..text.len() - 1].bytes().all(|it| it.is_ascii_digit());
        let differs = is_age
            || text.contains("controller-uid=")
            || super::is_time(text)
            || text.parse::<std::net::IpAddr>().is_ok()
            || ["admin", "system:admin"].contains(&text);
        if differs {
            *cell = "*".into();
        }
    }
}

/// The beginnings of messages whose rest is that of a parser.
const PARSERS: [&str; 10] = [
    "the object provided is unrecognized (must be of type ",
    "couldn't get version/kind; json parse error: ",
    "error decoding YAML: ",
    "unexpected end of JSON input",
    "EOF while parsing ",
    "error decoding patch: ",
    "Invalid JSON Patch",
    "invalid character ",
    "expected value at ",
    "json: cannot unmarshal number into Go value of type jsonpatch",
];

/// What is compared of an answer.
#[expect(
    clippy::too_many_lines,
    reason = "one difference after the other that is not compared"
)]
fn summary(answer: &Answer, request: &Request, name: &str) -> Value {
    let mut parsed = Answer {
        code: answer.code,
        content_type: answer.content_type.clone(),
        encoding: String::new(),
        retry_after: answer.retry_after.clone(),
        headers: http::HeaderMap::new(),
        warning: answer.warning.clone(),
        warnings: answer.warnings.clone(),
        text: answer.text.clone(),
        body: answer.body.clone(),
    };
    let is_ok = answer.code < 300;
    let is_yaml = answer.content_type == "application/yaml";
    let is_watch = is_ok && request.is_watch();
    if is_yaml {
        parsed.body = serde_yaml_ng::from_str(&answer.text).unwrap_or_default();
    }
    let is_own = |item: &Value| {
        let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str);
        let names = ["/metadata/name", "/object/metadata/name", "/cells/0"];
        let mut names = names.into_iter().filter_map(text).peekable();
        names.peek().is_none() || names.any(|it| it.ends_with(name))
    };
    let mut events: Vec<Value> = Vec::new();
    let is_text = !answer.content_type.contains("protobuf");
    if is_watch && is_text {
        let lines = answer.text.lines();
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.extend(lines);
        for event in &mut events {
            // A table of another object is empty then.
            // Only the first event has columns, and it can be about another object.
            if let Some(columns) = event.pointer_mut("/object/columnDefinitions") {
                *columns = Value::Null;
            }
            if let Some(rows) = event
                .pointer_mut("/object/rows")
                .and_then(Value::as_array_mut)
            {
                rows.retain(is_own);
            }
        }
        let is_empty = |event: &Value| event.pointer("/object/rows") == Some(&json!([]));
        events.retain(|event| event["type"] == "BOOKMARK" || !is_empty(event));
        for bookmark in events
            .iter_mut()
            .filter(|event| event["type"] == "BOOKMARK")
        {
            // The real server adds the fields that Go cannot omit.
            let metadata = bookmark["object"]["metadata"].take();
            bookmark["object"] = json!({ "metadata": metadata });
        }
        parsed.body = json!({ "events": events });
    }
    // A list without objects has several forms.
    if parsed.body.get("items") == Some(&Value::Null) {
        parsed.body["items"] = json!([]);
    }
    for list in ["items", "rows", "events"] {
        if let Some(items) = parsed.body.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(is_own);
        }
    }
    if let Some(next) = parsed.body.pointer_mut("/metadata/continue") {
        *next = json!("*");
    }
    hide(&mut parsed.body);
    if let Some(Value::String(message)) = parsed.body.get_mut("message")
        && let Some(start) = PARSERS.iter().find(|start| message.starts_with(**start))
    {
        let end = message.find("): ").unwrap_or(start.len());
        message.truncate(end);
        if PARSERS[3..].contains(start) {
            "*".clone_into(message);
        }
    }
    let mut masked = masked_answer(&parsed);
    masked["type"] = answer.content_type.as_str().into();
    if !answer.retry_after.is_empty() {
        masked["retry"] = answer.retry_after.as_str().into();
    }
    let causes = masked["body"]["details"]["causes"].as_array();
    if answer.body["reason"] == "Invalid" && causes.is_none_or(|causes| causes.len() < 2) {
        let mut message = json!({ "message": answer.body["message"] });
        super::mask(&mut message);
        super::sequences::hide_objects(&mut message);
        masked["message"] = message["message"].clone();
    }
    if parsed.body.is_null() && !answer.content_type.contains("protobuf") {
        masked["text"] = answer.text.as_str().into();
    }
    if is_ok && request.is_document {
        // `documents.rs` compares them.
        masked["body"] = Value::Null;
        masked["text"] = Value::Null;
    }
    masked
}

/// Defines a cluster-scoped custom kind beside the one of the sequences.
async fn serve_cluster_scoped(raw: &Raw) {
    let widget = Widget::new(raw);
    let mut definition = widget.definition(&json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }));
    definition["metadata"]["name"] = format!("gadgets.{}", widget.group).into();
    definition["spec"]["scope"] = "Cluster".into();
    definition["spec"]["names"] = json!({ "plural": "gadgets", "kind": "Gadget" });
    raw.post(DEFINITIONS, &definition).await.ok();
    let path = format!("/apis/{}/v1/gadgets", widget.group);
    raw.until(&path, |answer| answer.code == 200).await;
}

on_both_servers! {
    /// Each kind accepts the same names and finalizers, and an update without a version or not.
    ///
    /// docs/apiserver.md: rows 28, 36, 74.
    async fn every_kind_has_the_rules_of_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let mut pair = Pair::new("updates", &cluster).await;
        for (place, mut object) in pair.placed_objects().await {
            if NAMED_BY_CONTENT.iter().any(|kind| object["kind"] == *kind) {
                continue;
            }
            let name = format!("u-{}", pair.theirs.namespace);
            object["metadata"]["name"] = name.as_str().into();
            let what = format!("{} {}", object["apiVersion"], object["kind"]);
            let one = format!("{place}/{name}");
            // It answers an update of its spec with another number of changes on purpose.
            let is_counted = object["kind"] == "NetworkPolicy";
            let try_it = format!("{place}?dryRun=All");
            for (field, value) in [
                ("finalizers", json!(["x"])),
                ("finalizers", json!(["x/y"])),
                ("name", json!("A_B")),
                ("name", json!("a:b")),
                ("name", json!("a.b")),
            ] {
                // The real server warns about the host names of their pods, and the labels of a
                // job have its name.
                let is_warned = value == "a.b" && OF_PODS.iter().any(|kind| object["kind"] == *kind);
                if is_warned || value == "a:b" && object["kind"] == "Job" {
                    continue;
                }
                let mut object = object.clone();
                object["metadata"][field] = value;
                pair.compare(&format!("create {object}"), &Method::POST, &try_it, [&object, &object]).await;
            }
            pair.compare(&format!("create {what}"), &Method::POST, &place, [&object, &object]).await;
            if !is_counted {
                pair.compare(&format!("update {what}"), &Method::PUT, &one, [&object, &object]).await;
            }
            // A write to the status sets `lastPhaseTransitionTime` there.
            if object["kind"] == "PersistentVolume" {
                continue;
            }
            let status = format!("{one}/status?dryRun=All");
            object["status"] = json!({});
            pair.compare(&format!("update {status}"), &Method::PUT, &status, [&object, &object]).await;
            for raw in [&pair.theirs, &pair.ours] {
                raw.delete_so(&one, &json!({ "gracePeriodSeconds": 0 })).await;
            }
        }
        pair.check(0);
    }

    /// All answers are the same, but for the rules of `known.rs`.
    ///
    /// `WINDLASS_SEED` chooses other requests, `WINDLASS_REQUESTS` says how many are sent.
    #[expect(clippy::too_many_lines, reason = "the generator, both servers, and the report")]
    async fn random_requests_are_answered_as_by_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let seed = number("WINDLASS_SEED").unwrap_or(15);
        let count = number("WINDLASS_REQUESTS").unwrap_or(COUNT);
        println!("WINDLASS_SEED={seed}");
        let _history = cluster.remember_history().await;
        let mut pair = Pair::new("requests", &cluster).await;
        let objects = pair.documents(KINDS);
        let namespace = pair.theirs.namespace.clone();
        let session = Session {
            servers: [&pair.theirs, &pair.ours],
            read_only: format!("{namespace}-r"),
            deleted: format!("{namespace}-d"),
        };
        for raw in session.servers {
            serve(raw).await;
            serve_cluster_scoped(raw).await;
            for name in [&session.read_only, &session.deleted] {
                let namespace = json!({ "metadata": { "name": name } });
                raw.post("/api/v1/namespaces", &namespace).await.ok();
            }
        }
        let widget = Widget::new(&pair.theirs);
        let mut gadget = widget.object("a", &json!({ "size": 1 }));
        gadget["kind"] = "Gadget".into();
        let widget = custom(&widget);
        let targets = target::all(&pair.ours, objects, [widget, gadget]).await;
        for target in &targets {
            for raw in session.servers {
                for name in ["r", "s"] {
                    let mut object = target.object.clone();
                    object["metadata"]["name"] = format!("{name}-{namespace}").into();
                    if target.namespaced {
                        object["metadata"]["namespace"] = session.read_only.as_str().into();
                    }
                    raw.post(&target.collection(&session.read_only), &object).await;
                }
            }
        }
        let requests: Vec<_> = (0..count)
            .map(|number| {
                // Each has its own seed, so that one can be repeated alone.
                let random = StdRng::seed_from_u64(seed.wrapping_add(number));
                (number, Generator { random, targets: &targets, namespace: &namespace }.request())
            })
            .collect();
        let mut outcomes = BTreeMap::new();
        // Those that only read do not disturb each other.
        let (reads, writes): (Vec<_>, Vec<_>) = requests.iter().partition(|(_, it)| matches!(it.setup, Setup::Read));
        let session = &session;
        let run = |(number, request): &'_ (u64, Request)| {
            let (number, request) = (*number, request.clone());
            let name = request.name(number, 0, &namespace);
            async move { (number, session.run(&request, &name).await) }
        };
        let mut done = stream::iter(reads.iter().copied().map(run)).buffer_unordered(PARALLEL);
        while let Some((number, outcome)) = done.next().await {
            outcomes.insert(number, outcome);
        }
        drop(done);
        // On a busy machine the time of a watch can end before its events. Such a difference does not
        // repeat.
        for request in reads.iter().filter(|(_, it)| it.option("watch").is_some()) {
            if outcomes[&request.0].differs() {
                let (number, outcome) = run(request).await;
                outcomes.insert(number, outcome);
            }
        }
        for request in writes {
            let (number, outcome) = run(request).await;
            outcomes.insert(number, outcome);
        }
        let (mut differences, mut rules) = (Vec::new(), BTreeMap::<&str, u32>::new());
        for (number, request) in &requests {
            let outcome = &outcomes[number];
            if !outcome.differs() {
                continue;
            }
            if let Some(rule) = known::rule(request, &outcome.answers) {
                *rules.entry(rule).or_default() += 1;
                continue;
            }
            let mut difference = format!("WINDLASS_SEED={}:", seed.wrapping_add(*number));
            let mut shown = outcome.report(request);
            if differences.len() < SHORTENED {
                let (request, outcome) = session.shortest(request, *number, &namespace).await;
                if outcome.differs() {
 shown = outcome.report(&request);
                } else {
                    shown += "\n  the same request does not differ when it is repeated";
                }
            }
            difference += &shown;
            println!("{difference}");
            differences.push(difference);
        }
        let codes = codes(outcomes.values());
        println!("{count} requests; codes: {codes:?}; known differences: {rules:?}");
        pair.differences.extend(differences);
        pair.check(usize::try_from(count).unwrap_or(usize::MAX));
    }
}

/// How often the real server answered with each code.
fn codes<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> BTreeMap<u64, usize> {
    let mut codes = BTreeMap::new();
    for outcome in outcomes {
        let code = outcome.answers[0]["code"].as_u64().unwrap_or_default();
        *codes.entry(code).or_default() += 1;
    }
    codes
}
