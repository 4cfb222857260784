//! Random sequences of requests about one object of a built-in kind: created, changed in every
//! way, listed and deleted; each answer of the real server is that of the embedded one.

use http::Method;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

use super::super::raw::Answer;
use super::{KINDS, Pair, change, collect, masked};

/// How many requests a sequence has after the first.
const STEPS: u32 = 10;

/// Kinds that are not the same on purpose, as `docs/apiserver.md` says: those with finalizers
/// that a controller takes away, those that a controller changes, and one that counts an empty
/// list as a change of none.
const LEFT_OUT: [&str; 6] = [
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

    fn step(&mut self) -> Step {
        let at = format!("{}/{}", self.place, self.name);
        let manager = *["m1", "m2"]
            .choose(&mut self.random)
            .expect("there are some");
        let options = format!("fieldManager={manager}");
        let (pointer, value) = self.edit();
        match self.random.random_range(0..16) {
            0..3 => Step {
                method: Method::PUT,
                path: format!("{at}?{options}"),
                content_type: "application/json",
                body: Body::Current(pointer, value),
            },
            3..5 => Step {
                method: Method::PATCH,
                path: format!("{at}?{options}"),
                content_type: "application/json-patch+json",
                body: Body::Same(if value.is_null() {
                    json!([{ "op": "remove", "path": pointer }])
                } else {
                    json!([{ "op": "replace", "path": pointer, "value": value }])
                }),
            },
            kind @ 5..9 => Step {
                method: Method::PATCH,
                path: format!("{at}?{options}"),
                content_type: if kind < 7 {
                    "application/merge-patch+json"
                } else {
                    "application/strategic-merge-patch+json"
                },
                body: Body::Same(self.nested(&pointer, value)),
            },
            kind @ 9..12 => {
                let mut config = self.object.clone();
                if kind > 9 {
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
            12 => Step {
                method: Method::GET,
                path: format!("{}?labelSelector=1%3Da", self.place),
                content_type: "",
                body: Body::Nothing,
            },
            13 => Step {
                method: Method::GET,
                path: format!("{}?fieldSelector=metadata.name%3D{}", self.place, self.name),
                content_type: "",
                body: Body::Nothing,
            },
            14 => Step {
                method: Method::PATCH,
                path: format!("{at}/status?{options}"),
                content_type: "application/merge-patch+json",
                body: Body::Same(json!({ "metadata": { "labels": { "s": "t" } } })),
            },
            _ => Step {
                method: Method::DELETE,
                path: at,
                content_type: "",
                body: Body::Nothing,
            },
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
    /// The text for a server that last showed the object as `current`.
    fn text(&self, current: &Value) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Same(body) => body.to_string(),
            Self::Current(pointer, value) => {
                let mut object = current.clone();
                match object.pointer_mut(pointer) {
                    Some(place) if !value.is_null() => *place = value.clone(),
                    _ if pointer.starts_with("/metadata") => {
                        let name = pointer.rsplit('/').next().unwrap_or_default();
                        object["metadata"]["labels"][name] = value.clone();
                    }
                    _ => {}
                }
                object.to_string()
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

/// Whether an answer is a refusal because of a rule.
fn breaks_rule(answer: &Answer) -> bool {
    matches!(answer.code, 403 | 422 | 500)
}

on_both_servers! {
    /// Where one server refuses a request because of a rule, the other may lack the rule or word
    /// it otherwise (`docs/apiserver.md` says which rules there are); then the two objects
    /// differ, and the sequence ends. All other answers are the same.
    ///
    /// `WINDLASS_SEED` chooses other sequences, `WINDLASS_SEQUENCES` says how many are sent.
    async fn random_sequences_are_answered_as_by_the_embedded_server(cluster: Cluster) {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number("WINDLASS_SEED").unwrap_or(15);
        let count = number("WINDLASS_SEQUENCES").unwrap_or(100);
        println!("WINDLASS_SEED={seed}");
        let mut pair = Pair::new(&cluster).await;
        let mut objects = pair.documents(KINDS);
        objects.retain(|object| !LEFT_OUT.iter().any(|kind| object["kind"] == *kind));
        let (mut requests, mut ended, mut done) = (0, 0, 0);
        for sequence in 0..count {
            // Each has its own seed, so that one can be repeated alone.
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(sequence));
            let mut object = objects.choose(&mut random).expect("there are some").clone();
            let name = format!("q{sequence}-{}", pair.theirs.namespace);
            object["metadata"]["name"] = name.as_str().into();
            let place = pair.place(&object).await;
            let mut generator = Generator { random, object: &object, place: &place, name: &name };
            let mut current = [Value::Null, Value::Null];
            let mut steps = vec![Step {
                method: Method::POST,
                path: format!("{place}?fieldManager=m1"),
                content_type: "application/json",
                body: Body::Same(object.clone()),
            }];
            for _ in 0..STEPS {
                steps.push(generator.step());
            }
            let mut sent = Vec::new();
            for step in &steps {
                let headers = [("content-type", step.content_type), ("user-agent", "sequence/1")];
                let headers = if step.content_type.is_empty() { &headers[1..] } else { &headers[..] };
                let (method, path) = (&step.method, &step.path);
                let [first, second] = current.each_ref().map(|current| step.body.text(current));
                let theirs = pair.theirs.ask(method.clone(), path, headers, &first).await;
                let ours = pair.ours.ask(method.clone(), path, headers, &second).await;
                requests += 1;
                sent.push(format!("{method} {path} {first}"));
                let [left, right] = [&theirs, &ours].map(|answer| sorted(masked(answer)));
                if left != right {
                    if breaks_rule(&theirs) || breaks_rule(&ours) {
                        ended += 1;
                        println!("ENDED WINDLASS_SEED={} {}\n  the server: {left}\n  the embedded one: {right}", seed.wrapping_add(sequence), sent.last().expect("one"));
                    } else {
                        pair.differences.push(format!(
                            "WINDLASS_SEED={}: {sent:#?}\n  the server: {left}\n  the embedded one: {right}",
                            seed.wrapping_add(sequence)
                        ));
                    }
                    break;
                }
                if theirs.body["metadata"]["name"] == name.as_str() {
                    current = [theirs.body, ours.body];
                }
            }
            done += 1;
            for raw in [&pair.theirs, &pair.ours] {
                raw.merge(&format!("{place}/{name}"), &json!({ "metadata": { "finalizers": null } })).await;
                raw.delete(&format!("{place}/{name}?gracePeriodSeconds=0")).await;
            }
            if pair.differences.len() > 20 {
                break;
            }
        }
        println!("{done} sequences, {requests} requests; {ended} sequences ended with a rule that one server words otherwise or lacks");
        pair.check(done);
    }
}
