//! Random sequences of requests about one object of a built-in or custom kind: created, changed
//! in every way by two writers, listed, watched and deleted; each answer of the real server is
//! that of the embedded one, and so is each event.

use http::Method;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

use super::super::raw::{Answer, Raw};
use super::super::recorded::address;
use super::super::widget::Widget;
use super::{KINDS, Pair, change, collect, mask, masked};
use crate::cluster::number;

mod known;

/// How many requests a sequence has after the first.
const STEPS: u32 = 10;

const JSON: &str = "application/json";

/// Kinds that are not the same on purpose, as `docs/apiserver.md` says: those with finalizers
/// that a controller takes away, those that a controller changes, and one that counts an empty
/// list as a change of none.
const LEFT_OUT: [&str; 7] = [
    "APIService",
    "CustomResourceDefinition",
    "Namespace",
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "VolumeAttributesClass",
];

/// One request about the object.
#[derive(Debug)]
struct Step {
    method: Method,
    /// What follows the path of the object, or of the list.
    path: String,
    content_type: &'static str,
    body: Body,
}

/// The body of a request.
#[derive(Debug)]
enum Body {
    Nothing,
    /// The same for both servers.
    Same(Value),
    /// The object as each server last showed it, with this in the place that the pointer names.
    Current(String, Value),
    /// The same, with the version at which each server first showed it: mostly a conflict.
    Stale(String, Value),
    /// Options of a deletion, with the uid or the version of the object if it is to have one.
    Delete(Value, Option<&'static str>),
}

/// Makes requests.
struct Generator<'a> {
    random: StdRng,
    /// The object as it was created.
    object: &'a Value,
    /// Where objects of its kind are.
    place: &'a str,
    name: &'a str,
}

// === impl Generator ===

impl Generator<'_> {
    /// A place in the object that may be changed, and a value of its type, mostly.
    fn edit(&mut self) -> (String, Value) {
        let mut places = Vec::new();
        collect(self.object, String::new(), &mut places);
        places.retain(|place| !place.starts_with("/metadata") && place.len() > "/apiVersion".len());
        let texts = ["", "a", "b", "1Gi", "10"];
        let text = *texts.choose(&mut self.random).expect("there are some");
        let labels = ["/metadata/labels", "/metadata/annotations"];
        if places.is_empty() || self.random.random_bool(0.3) {
            let field = *labels.choose(&mut self.random).expect("there are some");
            return (format!("{field}/{}", text.len()), text.into());
        }
        let place = places
            .choose(&mut self.random)
            .expect("there are some")
            .clone();
        let value = match self.object.pointer(&place) {
            Some(Value::String(_)) => text.into(),
            Some(Value::Number(_)) => self.random.random_range(0..4).into(),
            Some(Value::Bool(old)) => (!old).into(),
            Some(other) => other.clone(),
            None => Value::Null,
        };
        let is_removed = self.random.random_bool(0.15);
        (place, if is_removed { Value::Null } else { value })
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        *choices.choose(&mut self.random).expect("there are some")
    }

    /// The options of a write.
    fn options(&mut self) -> String {
        let mut options = format!("fieldManager={}", self.pick(&["m1", "m2"]));
        if self.random.random_bool(0.1) {
            options += "&dryRun=All";
        }
        if self.random.random_bool(0.2) {
            options += self.pick(&[
                "&fieldValidation=Strict",
                "&fieldValidation=Ignore",
                "&fieldValidation=Warn",
            ]);
        }
        options
    }

    fn step(&mut self) -> Step {
        let at = format!("{}/{}", self.place, self.name);
        let options = self.options();
        let (pointer, value) = self.edit();
        let write = |method, content_type, body| Step {
            method,
            path: format!("{at}?{options}"),
            content_type,
            body,
        };
        match self.random.random_range(0..20) {
            0..3 => write(Method::PUT, JSON, Body::Current(pointer, value)),
            3 => write(Method::PUT, JSON, Body::Stale(pointer, value)),
            4..6 => {
                let operation = if value.is_null() {
                    json!({ "op": "remove", "path": pointer })
                } else {
                    json!({ "op": "replace", "path": pointer, "value": value })
                };
                let body = Body::Same(json!([operation]));
                write(Method::PATCH, "application/json-patch+json", body)
            }
            kind @ 6..10 => {
                let content_type = if kind < 8 {
                    "application/merge-patch+json"
                } else {
                    "application/strategic-merge-patch+json"
                };
                let body = Body::Same(self.nested(&pointer, value));
                write(Method::PATCH, content_type, body)
            }
            kind @ 10..13 => {
                let mut config = self.object.clone();
                if kind > 10 {
                    change(&mut config, &mut self.random);
                }
                let force = self.random.random_bool(0.5);
                Step {
                    method: Method::PATCH,
                    path: format!("{at}?{options}&force={force}"),
                    content_type: "application/apply-patch+yaml",
                    body: Body::Same(config),
                }
            }
            13..16 => self.list(),
            16 => Step {
                method: Method::PATCH,
                path: format!("{at}/status?{options}"),
                content_type: "application/merge-patch+json",
                body: Body::Same(json!({ "metadata": { "labels": { "s": "t" } } })),
            },
            17 => write(
                Method::PATCH,
                "application/merge-patch+json",
                Body::Same(json!({ "metadata": {
                    "finalizers": self.pick(&[&["ex.io/f"][..], &[]]),
                } })),
            ),
            _ => self.deletion(&at),
        }
    }

    /// A list, with options that are right and wrong.
    fn list(&mut self) -> Step {
        let name = self.name;
        let option = self.pick(&[
            "labelSelector=1%3Da",
            "labelSelector=1!%3Da",
            "labelSelector=1+in+(a,b)",
            "labelSelector=a%20b",
            "labelSelector=!1&limit=1",
            "limit=1&resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersionMatch=Exact",
            "resourceVersion=x",
            "fieldSelector=spec.nothing%3D1",
            "limit=-1",
            "continue=x",
            "timeoutSeconds=x",
        ]);
        Step {
            method: Method::GET,
            path: format!(
                "{}?fieldSelector=metadata.name%3D{name}&{option}",
                self.place
            ),
            content_type: "",
            body: Body::Nothing,
        }
    }

    /// A deletion, with options that are right and wrong.
    fn deletion(&mut self, at: &str) -> Step {
        let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
        let with = |name: &str, value: Value| {
            let mut options = options.clone();
            options[name] = value;
            options
        };
        let body = match self.random.random_range(0..9) {
            0 => Body::Nothing,
            1 => Body::Delete(with("propagationPolicy", "Background".into()), None),
            2 => Body::Delete(with("propagationPolicy", "Foreground".into()), None),
            3 => Body::Delete(with("propagationPolicy", "Orphan".into()), None),
            4 => Body::Delete(with("propagationPolicy", "Nothing".into()), None),
            5 => Body::Delete(options.clone(), Some("uid")),
            6 => Body::Delete(options.clone(), Some("resourceVersion")),
            7 => Body::Delete(with("dryRun", json!(["All"])), None),
            _ => Body::Delete(with("gracePeriodSeconds", 0.into()), None),
        };
        let content_type = match body {
            Body::Nothing => "",
            _ => JSON,
        };
        Step {
            method: Method::DELETE,
            path: at.to_owned(),
            content_type,
            body,
        }
    }

    /// A merge patch that sets one place; lists are sent whole.
    fn nested(&self, pointer: &str, value: Value) -> Value {
        let mut whole = self.object.clone();
        let parts: Vec<_> = pointer.split('/').skip(1).collect();
        let mut depth = parts.len();
        let mut at = &whole;
        for (number, part) in parts.iter().enumerate() {
            if at.is_array() {
                depth = number;
                break;
            }
            at = &at[part.replace("~1", "/").as_str()];
        }
        let mut patch = if depth == parts.len() {
            value
        } else {
            if let Some(place) = whole.pointer_mut(pointer) {
                *place = value;
            }
            let list = format!("/{}", parts[..depth].join("/"));
            whole.pointer(&list).cloned().unwrap_or_default()
        };
        for part in parts[..depth].iter().rev() {
            patch = json!({ part.replace("~1", "/"): patch });
        }
        patch
    }
}

// === impl Body ===

impl Body {
    /// The text for a server that first showed the object as the first one of `shown`, and last
    /// as the second one.
    fn text(&self, [first, last]: &[Value; 2]) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Same(body) => body.to_string(),
            Self::Current(pointer, value) | Self::Stale(pointer, value) => {
                let mut object = last.clone();
                match object.pointer_mut(pointer) {
                    Some(place) if !value.is_null() => *place = value.clone(),
                    _ if pointer.starts_with("/metadata") => {
                        let name = pointer.rsplit('/').next().unwrap_or_default();
                        object["metadata"]["labels"][name] = value.clone();
                    }
                    _ => {}
                }
                if matches!(self, Self::Stale(..)) {
                    let version = first["metadata"]["resourceVersion"].clone();
                    object["metadata"]["resourceVersion"] = version;
                }
                object.to_string()
            }
            Self::Delete(options, precondition) => {
                let mut options = options.clone();
                if let Some(field) = precondition {
                    let value = first["metadata"][*field].clone();
                    options["preconditions"] = json!({ *field: value });
                }
                options.to_string()
            }
        }
    }
}

/// An answer with the owners of fields in one order: entries are in that of their times, which
/// differ where a second ends between the two servers.
fn sorted(mut answer: Value) -> Value {
    let body = &mut answer["body"];
    let items = match body.get_mut("items") {
        Some(Value::Array(items)) => items.iter_mut().collect(),
        _ => vec![body],
    };
    for item in items {
        let entries = item.pointer_mut("/metadata/managedFields");
        if let Some(entries) = entries.and_then(Value::as_array_mut) {
            entries.sort_by_key(|entry| {
                let text = |field: &str| entry[field].to_string();
                [text("manager"), text("operation"), text("subresource")]
            });
        }
    }
    answer
}

/// The name of the object of a sequence, and that of the object whose creation ends it.
fn two_names(object: &Value, namespace: &str, sequence: u64) -> [String; 2] {
    if object["kind"] == "IPAddress" {
        [1, 2].map(|number| address(namespace, 2 * sequence + number))
    } else {
        ["q", "zq"].map(|first| format!("{first}{sequence}-{namespace}"))
    }
}

/// What the custom kind has in its `spec`.
fn schema() -> Value {
    let text = json!({ "type": "string" });
    let pair = json!({ "type": "object", "properties": { "a": text, "b": text } });
    json!({ "type": "object", "required": ["size"], "properties": {
        "size": { "type": "integer", "minimum": 1, "maximum": 3 },
        "name": { "type": "string", "pattern": "^[a-z]*$", "default": "x" },
        "mode": { "type": "string", "enum": ["a", "b"] },
        "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": text },
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": { "type": "object", "required": ["port"], "properties": {
                "port": { "type": "integer" }, "pair": pair,
            } },
        },
        "list": { "type": "array", "maxItems": 2, "items": text },
        "map": { "type": "object", "additionalProperties": text },
        "free": { "x-kubernetes-preserve-unknown-fields": true },
        "either": { "x-kubernetes-int-or-string": true },
        "on": { "type": "boolean", "nullable": true },
    } })
}

/// A custom object that fits the [`schema`].
fn custom(widget: &Widget<'_>) -> Value {
    widget.object(
        "a",
        &json!({
            "size": 2, "mode": "a", "tags": ["p", "q"], "on": true, "either": 1,
            "ports": [{ "port": 1, "pair": { "a": "b" } }, { "port": 2 }],
            "list": ["x"], "map": { "k": "v" }, "free": { "u": [1, "v"] },
        }),
    )
}

/// Every event of the object called `name` since `version`, up to the creation of `last`; masked.
async fn events(raw: &Raw, place: &str, version: &str, [name, last]: [&str; 2]) -> Vec<Value> {
    let path = format!("{place}?watch=true&resourceVersion={version}");
    let mut watch = raw.watch(&path).await;
    let mut seen = Vec::new();
    loop {
        let mut event = watch.event().await;
        let found = event["object"]["metadata"]["name"].clone();
        if found == last || event["type"] == "ERROR" {
            return seen;
        }
        if found == name {
            mask(&mut event);
            let event = json!({ "type": event["type"], "body": event["object"] });
            let event = sorted(event);
            // `known.rs` says why a job may be written without a change.
            let is_repeated = event["body"]["kind"] == "Job"
                && seen
                    .last()
                    .is_some_and(|last: &Value| last["body"] == event["body"]);
            if !is_repeated {
                seen.push(event);
            }
        }
    }
}

/// What both servers answer to the same steps about one object.
struct Comparison<'a> {
    pair: &'a Pair,
    /// What was sent, for a failure.
    sent: Vec<String>,
    /// The object as each server first and last showed it.
    shown: [[Value; 2]; 2],
    /// What the embedded server answered.
    answers: Vec<Value>,
    /// Why the sequence ended early, and how both servers refused.
    difference: Option<[Value; 2]>,
}

impl Comparison<'_> {
    /// Sends steps until an answer differs. Gives how many were sent.
    async fn run(&mut self, steps: &[Step], name: &str) -> usize {
        for (number, step) in steps.iter().enumerate() {
            let headers = [
                ("content-type", step.content_type),
                ("user-agent", "sequence/1"),
            ];
            let headers = if step.content_type.is_empty() {
                &headers[1..]
            } else {
                &headers[..]
            };
            let (method, path) = (&step.method, &step.path);
            let [first, second] = self.shown.each_ref().map(|shown| step.body.text(shown));
            let theirs = &self.pair.theirs;
            let theirs = theirs.ask(method.clone(), path, headers, &first).await;
            let ours = &self.pair.ours;
            let ours = ours.ask(method.clone(), path, headers, &second).await;
            self.sent.push(format!("{method} {path} {first}"));
            let [left, right] = [&theirs, &ours].map(answer);
            if left != right {
                self.difference = Some([left, right]);
                return number + 1;
            }
            self.answers.push(right);
            if theirs.body["metadata"]["name"] == name {
                for (shown, body) in self.shown.iter_mut().zip([theirs.body, ours.body]) {
                    if shown[0].is_null() {
                        shown[0] = body.clone();
                    }
                    shown[1] = body;
                }
            }
        }
        steps.len()
    }
}

/// An answer without what differs between two servers or does not matter: a fault that is found
/// twice is reported once, and an object in a message stands in another order.
fn answer(answer: &Answer) -> Value {
    let mut answer = sorted(masked(answer));
    let causes = answer.pointer_mut("/body/details/causes");
    if let Some(causes) = causes.and_then(Value::as_array_mut) {
        for cause in causes.iter_mut() {
            known::hide_objects(cause);
        }
        causes.sort_by_key(ToString::to_string);
        causes.dedup();
    }
    known::hide_objects(&mut answer["body"]);
    answer
}

on_both_servers! {
    /// All answers are the same, and all events, but for the rules of `known.rs`: where the real
    /// server refuses by one that the embedded one lacks, the objects differ and the sequence ends.
    ///
    /// `WINDLASS_SEED` chooses other sequences, `WINDLASS_SEQUENCES` says how many are sent.
    async fn random_sequences_are_answered_as_by_the_embedded_server(cluster: Cluster) {
        if !cluster.has_the_default_version() {
            return;
        }
        let seed = number("WINDLASS_SEED").unwrap_or(15);
        let count = number("WINDLASS_SEQUENCES").unwrap_or(300);
        // More differences than this have few causes.
        let limit = usize::try_from(count / 10).unwrap_or(usize::MAX);
        println!("WINDLASS_SEED={seed}");
        let mut pair = Pair::new("sequences", &cluster).await;
        let mut objects = pair.documents(KINDS);
        objects.retain(|object| !LEFT_OUT.iter().any(|kind| object["kind"] == *kind));
        for raw in [&pair.theirs, &pair.ours] {
            Widget::served(raw, &schema()).await;
        }
        // A tenth of the sequences is about a custom kind.
        let widget = custom(&Widget::new(&pair.theirs));
        objects.extend(vec![widget; objects.len() / 10]);
        let (mut requests, mut compared, mut done) = (0, 0, 0);
        let mut ended = std::collections::BTreeMap::<&str, u32>::new();
        for sequence in 0..count {
            // Each has its own seed, so that one can be repeated alone.
            let seed = seed.wrapping_add(sequence);
            let mut random = StdRng::seed_from_u64(seed);
            let mut object = objects.choose(&mut random).expect("there are some").clone();
            let [name, end_name] = two_names(&object, &pair.theirs.namespace, sequence);
            object["metadata"]["name"] = name.as_str().into();
            let place = pair.place(&object).await;
            let mut generator = Generator { random, object: &object, place: &place, name: &name };
            let mut steps = vec![Step {
                method: Method::POST,
                path: format!("{place}?fieldManager=m1"),
                content_type: JSON,
                body: Body::Same(object.clone()),
            }];
            for _ in 0..STEPS {
                steps.push(generator.step());
            }
            // The events are read afterwards, from the history.
            let _history = cluster.remember_history().await;
            let mut versions = Vec::new();
            for raw in [&pair.theirs, &pair.ours] {
                let list = raw.get(&format!("{place}?limit=1")).await.ok();
                let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
                versions.push(version.to_owned());
            }
            let mut comparison = Comparison {
                pair: &pair,
                sent: Vec::new(),
                shown: Default::default(),
                answers: Vec::new(),
                difference: None,
            };
            requests += comparison.run(&steps, &name).await;
            let Comparison { sent, mut answers, mut difference, .. } = comparison;
            done += 1;
            let mut both = Vec::new();
            for (raw, version) in [&pair.theirs, &pair.ours].into_iter().zip(&versions) {
                raw.merge(&format!("{place}/{name}"), &json!({ "metadata": { "finalizers": null } })).await;
                raw.delete(&format!("{place}/{name}?gracePeriodSeconds=0")).await;
                let mut end = object.clone();
                end["metadata"]["name"] = end_name.as_str().into();
                raw.post(&place, &end).await.ok();
                both.push(events(raw, &place, version, [&name, &end_name]).await);
                raw.delete(&format!("{place}/{end_name}?gracePeriodSeconds=0")).await;
            }
            answers.extend(both[1].iter().cloned());
            pair.recorded.add_all(&format!("{sent:#?}"), &answers);
            let rule = difference.as_ref().and_then(|[left, right]| known::rule(&object, left, right));
            if let Some(rule) = rule {
                *ended.entry(rule).or_default() += 1;
                pair.recorded.forget_last();
                continue;
            }
            if difference.is_none() {
                compared += both[0].len();
                let at = both[0].iter().zip(&both[1]).position(|(left, right)| left != right);
                let at = at.or((both[0].len() != both[1].len()).then(|| both[0].len().min(both[1].len())));
                difference = at.map(|at| [0, 1].map(|side| {
                    let event = both[side].get(at).cloned().unwrap_or_default();
                    json!({ "event": at, "of": both[side].len(), "is": event })
                }));
            }
            if let Some([left, right]) = difference {
                let difference = format!(
                    "WINDLASS_SEED={seed}: {sent:#?}\n  the server: {left}\n  the embedded one: {right}"
                );
                // A long run is read before its end.
                println!("{difference}");
                pair.differences.push(difference);
            }
            if pair.differences.len() > limit {
                break;
            }
        }
        println!("{done} sequences, {requests} requests, {compared} events; ended by a rule that the embedded server lacks: {ended:?}");
        pair.check(done);
        if number("WINDLASS_SEED").or(number("WINDLASS_SEQUENCES")).is_none() {
            pair.recorded.check();
        }
    }
}
